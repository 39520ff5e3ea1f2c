//! `tensor-memory`: products and norms beside a framework, a vendor's primitive and the compiler's own baseline.

use super::{boundary, libraries, metric, option, own, own_form, sizes};
use crate::kernel_studies::device_arm::Timing;
use crate::kernel_studies::harness::{Grid, KernelStudy};
use crate::kernel_studies::op_study::{Extra, OpCase, OpStudy};
use crate::kernel_studies::ops::{Form, Op, Shape};
use crate::schema::{Acceptance, Comparison, Declaration, Estimator, GateClass, Role};
use crate::study::{Entry, OpenError, OptionKind, OptionSpec, Repeats, Setup, Study};

/// Milliseconds of a sample, at least.
const SAMPLE_MS: f64 = 5.0;

const OPTIONS: &[OptionSpec] = &[
    option(
        "warmup-ms",
        OptionKind::Number,
        Some("100"),
        "Warm-up of each arm: samples of 5 ms or one launch",
    ),
    option("rep-ms", OptionKind::Number, Some("500"), "Measurement of each arm, in such samples"),
    option("op", OptionKind::OneOf(&["gemm", "norms"]), Some("gemm"), "What is measured"),
    option("sizes", OptionKind::Counts, Some("256 1024"), "Sides of products"),
    option("widths", OptionKind::Counts, Some("1024 1009"), "Columns of norms, aligned and ragged"),
    option("rows", OptionKind::Count, Some("256"), "Rows of norms"),
    option(
        "dtype",
        OptionKind::OneOf(&["float16", "float32", "bfloat16"]),
        Some("float16"),
        "Type of inputs and outputs",
    ),
    option(
        "baselines",
        OptionKind::Texts,
        Some("mlx pytorch"),
        "Libraries, such as `mlx pytorch mkl numpy onnxruntime`; `none`: metile alone",
    ),
];

/// The catalogue's entry.
pub const ENTRY: Entry =
    Entry { declaration: || declaration(20, 100), options: OPTIONS, open: Ok(open) };

fn declaration(warmups: u64, pairs: u64) -> Declaration {
    Declaration {
        name: "tensor-memory".to_owned(),
        title: "products and norms beside a framework, a vendor's primitive and small fixed tiles"
            .to_owned(),
        workload: "products of square float16 matrices; RMSNorm and LayerNorm, aligned and ragged"
            .to_owned(),
        comparison: Comparison::SameWeightsAndFormat,
        gate_class: GateClass::Outputs,
        gate: "each arm's output against a reference in float64 and against the other arms'"
            .to_owned(),
        boundary: boundary(
            &["submission and synchronization (metile: a prepared list; libraries: the call)"],
            &["compilation"],
        ),
        metrics: vec![metric("time", "launches, until the last is done")],
        warmups,
        pairs,
        estimator: Estimator::MedianOfPairedRatios,
        acceptance: Acceptance::None,
        disclosures: vec![
            "libraries may allocate their output within the time; their arm says so".to_owned(),
        ],
    }
}

fn open(setup: &Setup) -> Result<Box<dyn Study>, OpenError> {
    let samples = |name| -> Result<u64, OpenError> {
        Ok((setup.chosen.number(name)? / SAMPLE_MS).ceil().max(1.0) as u64)
    };
    let t = [Grid::F16, Grid::F32, Grid::BF16]
        .into_iter()
        .find(|t| setup.chosen.text("dtype").ok().flatten() == Some(t.name()))
        .unwrap_or(Grid::F16);
    let products = setup.chosen.text("op")? == Some("gemm");
    let mut arms = libraries(setup, "the unmodified library's operation")?;
    if products {
        let what = "gemm in fixed tiles of 32 × 32 × 32: the compiler's own baseline";
        arms.push(own_form(
            "metile-fixed-tiles",
            Role::Baseline,
            what,
            Form::FixedTiles,
            Timing::Prepared,
        ));
    }
    arms.push(own("the library's kernel, prepared", Timing::Prepared));
    let mut cases = Vec::new();
    let mut add = |name: String, series: &str, op| {
        cases.push(OpCase { name, series: format!("{series} {}", t.name()), op });
    };
    if products {
        for side in sizes(setup, "sizes")? {
            add(format!("gemm {side}"), "gemm", Op::Gemm { m: side, k: side, n: side, t });
        }
    } else {
        let rows = super::size(setup, "rows")?;
        for cols in sizes(setup, "widths")? {
            let shape = Shape { rows, cols, t };
            add(format!("rms_norm {rows}×{cols}"), "rms_norm", Op::RmsNorm(shape));
            add(format!("layer_norm {rows}×{cols}"), "layer_norm", Op::LayerNorm(shape));
        }
    }
    let declaration = declaration(samples("warmup-ms")?, samples("rep-ms")?);
    let extra = Extra { repeats: Repeats::Seconds(SAMPLE_MS / 1e3), rows_alone: false };
    Ok(Box::new(KernelStudy::new(OpStudy::new(declaration, &setup.device, arms, cases, extra))))
}
