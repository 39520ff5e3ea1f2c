//! `register-rmsnorm`: a row that is kept against a row that is read twice.

use super::{BASELINES, boundary, metric, option, own_form, sizes};
use crate::kernel_studies::device_arm::Timing;
use crate::kernel_studies::harness::{Grid, KernelStudy};
use crate::kernel_studies::op_study::{Extra, OpCase, OpStudy, Source, StudyArm};
use crate::kernel_studies::ops::{EARLY, Form, LATE, Op, Shape};
use crate::kernel_studies::peers;
use crate::schema::{Acceptance, Comparison, Declaration, Estimator, GateClass, Role};
use crate::study::{Entry, OpenError, OptionKind, OptionSpec, Repeats, Setup, Study};

const OPTIONS: &[OptionSpec] = &[
    option("pairs", OptionKind::Count, Some("15"), "Pairs of each case"),
    option("rows", OptionKind::Counts, Some("1 32 256"), "Rows"),
    option("widths", OptionKind::Counts, Some("1009 1024 4096"), "Columns, at most 16,384"),
    option(
        "dtypes",
        OptionKind::Texts,
        Some("float16 float32"),
        "Types: float16, float32, bfloat16",
    ),
    BASELINES,
];

/// The catalogue's entry.
pub const ENTRY: Entry =
    Entry { declaration: || declaration(15), options: OPTIONS, open: Ok(open) };

fn declaration(pairs: u64) -> Declaration {
    Declaration {
        name: "register-rmsnorm".to_owned(),
        title: "RMSNorm with a row kept against a row read twice".to_owned(),
        workload: "RMSNorm of 1, 32 and 256 rows, aligned and ragged widths, in float16 and float32; beside \
                   libraries under two rounding policies"
            .to_owned(),
        comparison: Comparison::SameWeightsAndFormat,
        gate_class: GateClass::Outputs,
        gate: "each arm's output against a reference in float64 that rounds where the arm does: in the final \
               cast only, or to the type of x before the weight; arms of one policy against each other"
            .to_owned(),
        boundary: boundary(
            &["submission and synchronization (metile: a prepared list; libraries: the call)"],
            &["compilation"],
        ),
        metrics: vec![metric("time", "launches, until the last is done")],
        warmups: 2,
        pairs,
        estimator: Estimator::MedianOfPairedRatios,
        acceptance: Acceptance::None,
        disclosures: vec![
            "arms of different rounding policies are not bitwise equivalent, nor claimed to be".to_owned(),
        ],
    }
}

fn open(setup: &Setup) -> Result<Box<dyn Study>, OpenError> {
    let own = |name, role, what, form| own_form(name, role, what, form, Timing::Prepared);
    let mut arms = vec![own(
        "metile-looped",
        Role::Baseline,
        "rms_norm_looped: a row is read twice, 1,024 columns at a time",
        Form::Looped,
    )];
    for peer in peers::start(setup.chosen.texts("baselines")?, setup.device.name())? {
        for (suffix, policy) in [("final", LATE), ("before-weight", EARLY)] {
            arms.push(StudyArm {
                name: format!("{}-{suffix}", peer.name),
                role: Role::Baseline,
                what: format!("the unmodified library, rounding {policy}"),
                policy,
                source: Source::Peer(peer.clone()),
            });
        }
    }
    arms.push(own(
        "metile-register",
        Role::Candidate,
        "rms_norm_row: a row is one tile, read once and kept",
        Form::Register,
    ));
    let mut cases = Vec::new();
    for name in setup.chosen.texts("dtypes")? {
        let t = [Grid::F16, Grid::F32, Grid::BF16].into_iter().find(|t| t.name() == name);
        let t = t.ok_or_else(|| OpenError::Missing(format!("no type `{name}`")))?;
        for cols in sizes(setup, "widths")? {
            for rows in sizes(setup, "rows")? {
                cases.push(OpCase {
                    name: format!("{name}, {rows}×{cols}"),
                    series: name.clone(),
                    op: Op::RmsNorm(Shape { rows, cols, t }),
                });
            }
        }
    }
    let extra = Extra { repeats: Repeats::Seconds(5e-3), rows_alone: false };
    let declaration = declaration(setup.chosen.count("pairs")?);
    Ok(Box::new(KernelStudy::new(OpStudy::new(declaration, &setup.device, arms, cases, extra))))
}
