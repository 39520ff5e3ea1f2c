//! Studies that are declared and can't be run yet.

use crate::schema::{Acceptance, Comparison, Declaration, Estimator, GateClass};
use crate::study::Entry;

/// Why there is nothing for these to decide on a CPU.
const GPU: &str = "waits for a GPU back-end: it compares ways to lay threads, registers and shared memory, which the \
                   CPU back-end does not have";

/// The catalogue's entries.
pub const ENTRIES: [Entry; 4] = [
    Entry { declaration: rmsnorm_tiling, options: &[], open: Err(GPU) },
    Entry { declaration: schedule_fusion, options: &[], open: Err(GPU) },
    Entry { declaration: thread_layouts, options: &[], open: Err(GPU) },
    Entry { declaration: staged_gemm, options: &[], open: Err(GPU) },
];

fn declared(
    name: &str,
    title: &str,
    workload: &str,
    gate: &str,
    acceptance: Acceptance,
) -> Declaration {
    Declaration {
        name: name.to_owned(),
        title: title.to_owned(),
        workload: workload.to_owned(),
        comparison: Comparison::SameWeightsAndFormat,
        gate_class: GateClass::Outputs,
        gate: gate.to_owned(),
        boundary: super::boundary(&["submission", "synchronization"], &["compilation"]),
        metrics: vec![super::metric("time", "prepared launches")],
        warmups: 2,
        pairs: 15,
        estimator: Estimator::MedianOfPairedRatios,
        acceptance,
        disclosures: Vec::new(),
    }
}

fn rmsnorm_tiling() -> Declaration {
    declared(
        "rmsnorm-tiling",
        "static-register4 against register4_striped RMSNorm",
        "widths 1009 and 1024 × rows 1, 32, 256 × float16, float32; tuned with seed 1741, held out with seed 9473 in \
         two fresh processes",
        "outputs against a reference in float64",
        Acceptance::Promotion {
            metric: "time".to_owned(),
            ratio: 1.10,
            series: vec!["aligned, 32 rows".to_owned(), "aligned, 256 rows".to_owned()],
            part: 0.03,
        },
    )
}

fn schedule_fusion() -> Declaration {
    declared(
        "schedule-fusion",
        "strict float32 affine and leaky selection: fused, two launches, compiled by a framework",
        "sides 64, 256, 1024, and a repeat run",
        "outputs against a reference in float64",
        Acceptance::None,
    )
}

fn thread_layouts() -> Declaration {
    declared(
        "thread-layouts",
        "an ownership transpose, with and without the conversion demanded",
        "shapes 4×8, 8×8, 8×16, 16×16 in float16 and float32: 16 cases; a scalar scatter as baseline",
        "the same bits",
        Acceptance::None,
    )
}

fn staged_gemm() -> Declaration {
    declared(
        "staged-gemm",
        "staged products against the pipeline before",
        "eight float16 and float32 cases, ragged ones too",
        "outputs against a reference in float64",
        Acceptance::None,
    )
}
