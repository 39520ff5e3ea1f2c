//! Layers beside a framework: `matched-matrix`, `projection-width`, `model-shapes`.

use super::{BASELINES, boundary, libraries, metric, option, own, size, sizes};
use crate::kernel_studies::device_arm::Timing;
use crate::kernel_studies::harness::KernelStudy;
use crate::kernel_studies::op_study::{Extra, OpCase, OpStudy};
use crate::kernel_studies::ops::Op;
use crate::kernel_studies::weights::Storage;
use crate::schema::{Acceptance, Comparison, Declaration, Estimator, GateClass};
use crate::study::{Entry, OpenError, OptionKind, Repeats, Setup, Study};

const FORMATS: &str =
    "How weights are stored: bf16, int4, int8 (integers in groups of 64, activations in float16)";

/// `matched-matrix`.
pub const MATCHED_MATRIX: Entry = Entry {
    declaration: || matched(25),
    options: &[
        option("rounds", OptionKind::Count, Some("25"), "Paired rounds of each case"),
        option(
            "rows",
            OptionKind::Counts,
            Some("1 2 4 8 16 32 64 128 256 512 1024 2048"),
            "Rows of x",
        ),
        option("formats", OptionKind::Texts, Some("bf16 int4 int8"), FORMATS),
        option("hidden", OptionKind::Count, Some("1536"), "Columns of x"),
        option("intermediate", OptionKind::Count, Some("8960"), "Rows of gate and up"),
        BASELINES,
    ],
    open: Ok(open_matched),
};

/// `projection-width`.
pub const PROJECTION_WIDTH: Entry = Entry {
    declaration: || width(15),
    options: &[
        option("rounds", OptionKind::Count, Some("15"), "Paired rounds of each case"),
        option("rows", OptionKind::Count, Some("127"), "Rows of x"),
        option("inner", OptionKind::Count, Some("8192"), "Columns of x and w"),
        option(
            "widths",
            OptionKind::Counts,
            Some("1024 2048 3072 4096 5120 6144 7168 8192"),
            "Rows of w",
        ),
        option("format", OptionKind::OneOf(&["int4", "int8", "bf16"]), Some("int4"), FORMATS),
        BASELINES,
    ],
    open: Ok(open_width),
};

/// `model-shapes`.
pub const MODEL_SHAPES: Entry = Entry {
    declaration: || shapes(25),
    options: &[
        option("rounds", OptionKind::Count, Some("25"), "Paired rounds of each case"),
        option("models", OptionKind::Texts, Some("all"), "Models whose extents are taken"),
        option("rows", OptionKind::Counts, Some("1 8 16"), "Rows of the residual MLP"),
        option("prefill", OptionKind::Count, Some("127"), "Rows of the projections up and down"),
        option("format", OptionKind::OneOf(&["int4", "int8", "bf16"]), Some("int4"), FORMATS),
        BASELINES,
    ],
    open: Ok(open_shapes),
};

/// Hidden and intermediate extents of the models of the published study.
const MODELS: [(&str, usize, usize); 9] = [
    ("qwen2.5-0.5b", 896, 4864),
    ("qwen2.5-1.5b", 1536, 8960),
    ("llama-3.2-1b", 2048, 8192),
    ("llama-3.2-3b", 3072, 8192),
    ("qwen3.5-4b", 2560, 9216),
    ("qwen3.5-9b", 4096, 12288),
    ("qwen3.6-27b", 5120, 17408),
    ("qwen3-vl-4b", 2560, 9728),
    ("qwen2.5-vl-7b", 3584, 18944),
];

fn declared(
    name: &str,
    title: &str,
    workload: &str,
    pairs: u64,
    estimator: Estimator,
) -> Declaration {
    Declaration {
        name: name.to_owned(),
        title: title.to_owned(),
        workload: workload.to_owned(),
        comparison: Comparison::SameWeightsAndFormat,
        gate_class: GateClass::Outputs,
        gate: "each arm's output against a reference in float64 on some rows, and against the other arms' on all, \
               within the tolerance of 16-bit activations; again after every trial, with fresh activations"
            .to_owned(),
        boundary: boundary(
            &["building the operation: recording launches, or the framework's graph or calls", "evaluation"],
            &["compilation", "drawing and packing weights"],
        ),
        metrics: vec![
            metric("time", "the operation is built and evaluated, launch after launch"),
            metric("prepared", "replay of a list recorded before (metile alone; in no ratio)"),
        ],
        warmups: 2,
        pairs,
        estimator,
        acceptance: Acceptance::None,
        disclosures: vec![
            "synthetic weights; the same representation of weights does not imply the same rounding between \
             operations: metile keeps intermediate values in float32"
                .to_owned(),
            "effective weight bandwidth is weight bytes over median time: a normalization of time, neither \
             memory traffic nor a limit"
                .to_owned(),
            "a library without an operation on packed weights dequantizes them within its time, and its arm says so"
                .to_owned(),
        ],
    }
}

fn matched(pairs: u64) -> Declaration {
    declared(
        "matched-matrix",
        "a residual SwiGLU MLP over rows and weight formats",
        "x + down(silu(gate x) · up x) of 1536 → 8960 → 1536 with 1 to 2,048 rows; weights in BF16, INT4 and INT8 \
         (affine, groups of 64); rows of BF16 are the same bits as those rows one at a time",
        pairs,
        Estimator::MedianOfPairedRatios,
    )
}

fn width(pairs: u64) -> Declaration {
    declared(
        "projection-width",
        "an INT4 projection over its width",
        "[127, 8192] × [N, 8192]ᵀ, INT4 in groups of 64, float16, eight N from 1,024 to 8,192",
        pairs,
        Estimator::RatioOfMedians,
    )
}

fn shapes(pairs: u64) -> Declaration {
    declared(
        "model-shapes",
        "layers with the extents of nine models",
        "the residual MLP of nine models with 1, 8 and 16 rows, and its projections up and down with 127 rows; INT4 in \
         groups of 64, unless another format is asked for",
        pairs,
        Estimator::MedianOfPairedRatios,
    )
}

fn storage(name: &str) -> Result<Storage, OpenError> {
    Storage::parse(name).ok_or_else(|| {
        OpenError::Missing(format!("no format `{name}`; there are bf16, int4, int8"))
    })
}

fn study(
    setup: &Setup,
    declaration: Declaration,
    cases: Vec<OpCase>,
) -> Result<Box<dyn Study>, OpenError> {
    let mut arms =
        libraries(setup, "the unmodified library, the operation built and evaluated in each call")?;
    arms.push(own(
        "kernels of the library: activations widened to float32, products over stored weights, the result \
         narrowed; recorded and replayed in each launch",
        Timing::BuiltEachTime,
    ));
    let extra = Extra { repeats: Repeats::Seconds(5e-3), rows_alone: true };
    Ok(Box::new(KernelStudy::new(OpStudy::new(declaration, &setup.device, arms, cases, extra))))
}

fn open_matched(setup: &Setup) -> Result<Box<dyn Study>, OpenError> {
    let (hidden, intermediate) = (size(setup, "hidden")?, size(setup, "intermediate")?);
    let mut cases = Vec::new();
    for format in setup.chosen.texts("formats")? {
        let storage = storage(format)?;
        for rows in sizes(setup, "rows")? {
            cases.push(OpCase {
                name: format!("{format}, {rows} rows"),
                series: format.clone(),
                op: Op::Mlp { rows, hidden, intermediate, storage },
            });
        }
    }
    study(setup, matched(setup.chosen.count("rounds")?), cases)
}

fn open_width(setup: &Setup) -> Result<Box<dyn Study>, OpenError> {
    let (rows, k) = (size(setup, "rows")?, size(setup, "inner")?);
    let format = setup.chosen.text("format")?.unwrap_or_default();
    let storage = storage(format)?;
    let case = |n| OpCase {
        name: format!("{n} wide"),
        series: format!("{format}, {rows} rows"),
        op: Op::Project { rows, n, k, storage },
    };
    let cases = sizes(setup, "widths")?.into_iter().map(case).collect();
    study(setup, width(setup.chosen.count("rounds")?), cases)
}

fn open_shapes(setup: &Setup) -> Result<Box<dyn Study>, OpenError> {
    let names = setup.chosen.texts("models")?;
    let all = names.iter().any(|name| name == "all");
    let known = |name: &&String| MODELS.iter().any(|(model, ..)| model == name);
    if let Some(unknown) = names.iter().find(|name| *name != "all" && !known(name)) {
        let known = MODELS.map(|(model, ..)| model).join(", ");
        return Err(OpenError::Missing(format!("no model `{unknown}`; there are {known}")));
    }
    let storage = storage(setup.chosen.text("format")?.unwrap_or_default())?;
    let prefill = size(setup, "prefill")?;
    let mut cases = Vec::new();
    let wanted = |model: &str| all || names.iter().any(|name| name == model);
    for (model, hidden, intermediate) in MODELS.into_iter().filter(|(model, ..)| wanted(model)) {
        let mut add = |layer: &str, rows: usize, op| {
            let name = format!("{model} {layer}, {rows} rows");
            cases.push(OpCase { name, series: format!("{layer}, {rows} rows"), op });
        };
        for rows in sizes(setup, "rows")? {
            add("mlp", rows, Op::Mlp { rows, hidden, intermediate, storage });
        }
        add("up", prefill, Op::Project { rows: prefill, n: intermediate, k: hidden, storage });
        add("down", prefill, Op::Project { rows: prefill, n: hidden, k: intermediate, storage });
    }
    study(setup, shapes(setup.chosen.count("rounds")?), cases)
}
