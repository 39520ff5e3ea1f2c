//! `a-a`: the same kernels as both arms. What it finds is what the harness or the machine adds.

use super::{boundary, metric, option, own_form, size};
use crate::kernel_studies::device_arm::Timing;
use crate::kernel_studies::harness::{Grid, KernelStudy};
use crate::kernel_studies::op_study::{Extra, OpCase, OpStudy};
use crate::kernel_studies::ops::{Form, Op, Shape};
use crate::schema::{Acceptance, Comparison, Declaration, Estimator, GateClass, Role};
use crate::study::{Entry, OpenError, OptionKind, OptionSpec, Repeats, Setup, Study};

const OPTIONS: &[OptionSpec] = &[
    option("pairs", OptionKind::Count, Some("30"), "Pairs of each case; at least 20"),
    option("rows", OptionKind::Count, Some("256"), "Rows of the RMSNorm"),
    option("cols", OptionKind::Count, Some("1024"), "Columns of the RMSNorm"),
    option("side", OptionKind::Count, Some("256"), "Side of the matrix product"),
];

/// The catalogue's entry.
pub const ENTRY: Entry =
    Entry { declaration: || declaration(30), options: OPTIONS, open: Ok(open) };

/// Pairs below which an A/A says too little.
const LEAST_PAIRS: u64 = 20;

fn declaration(pairs: u64) -> Declaration {
    Declaration {
        name: "a-a".to_owned(),
        title: "the same kernels as both arms, once per device and session".to_owned(),
        workload: "RMSNorm of [rows, cols] and a product of square matrices in float32, each arm with tensors \
                   and a recorded list of its own"
            .to_owned(),
        comparison: Comparison::SameWeightsAndFormat,
        gate_class: GateClass::Outputs,
        gate: "every arm's output against a reference in float64 and against the other's, with fresh inputs; \
               again after every trial"
            .to_owned(),
        boundary: boundary(&["submission", "synchronization"], &["compilation", "allocation"]),
        metrics: vec![metric("time", "replay of a recorded list, until all of it is done")],
        warmups: 2,
        pairs,
        estimator: Estimator::MedianOfPairedRatios,
        acceptance: Acceptance::IntervalHolds { metric: "time".to_owned(), value: 1.0 },
        disclosures: vec![
            "both arms are the same code: a ratio other than 1.00 is the harness's or the machine's"
                .to_owned(),
        ],
    }
}

fn open(setup: &Setup) -> Result<Box<dyn Study>, OpenError> {
    let pairs = setup.chosen.count("pairs")?;
    if pairs < LEAST_PAIRS {
        return Err(OpenError::Missing(format!(
            "an A/A has at least {LEAST_PAIRS} pairs, not {pairs}"
        )));
    }
    let (rows, cols, side) = (size(setup, "rows")?, size(setup, "cols")?, size(setup, "side")?);
    let arm = |name, role| {
        let what = "prepared kernels of the library over tensors of their own";
        own_form(name, role, what, Form::Library, Timing::Prepared)
    };
    let case = |name: &str, op| OpCase { name: name.to_owned(), series: name.to_owned(), op };
    let t = Grid::F32;
    Ok(Box::new(KernelStudy::new(OpStudy::new(
        declaration(pairs),
        &setup.device,
        vec![arm("metile-a", Role::Baseline), arm("metile-b", Role::Candidate)],
        vec![
            case("rms_norm", Op::RmsNorm(Shape { rows, cols, t })),
            case("gemm", Op::Gemm { m: side, k: side, n: side, t }),
        ],
        Extra { repeats: Repeats::Seconds(5e-3), rows_alone: false },
    ))))
}
