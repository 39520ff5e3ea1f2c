//! `paired-regression`: this version of metile against another checkout of it, each in a process of its own.

use super::{boundary, metric, option};
use crate::baseline::{KernelWorker, Limits, Worker};
use crate::fingerprint;
use crate::kernel_studies::harness::{Grid, KernelStudy};
use crate::kernel_studies::op_study::{Extra, OpCase, OpStudy, Source, StudyArm};
use crate::kernel_studies::ops::{LATE, Op, Shape};
use crate::kernel_studies::peers::Peer;
use crate::kernel_studies::weights::Storage;
use crate::schema::{
    Acceptance, Arm, Comparison, Declaration, Estimator, GateClass, Precision, Role, Toolchain,
};
use crate::study::{Entry, OpenError, OptionKind, OptionSpec, Repeats, Setup, Study};
use std::path::Path;
use std::process::Command;

const OPTIONS: &[OptionSpec] = &[
    option(
        "baseline-root",
        OptionKind::Path,
        None,
        "Another checkout of this project; its program is built there in release mode",
    ),
    option("rounds-per-sample", OptionKind::Count, Some("5"), "Launches of a sample"),
    option("pairs", OptionKind::Count, Some("10"), "Pairs of each case: two make one ABBA"),
];

/// The catalogue's entry.
pub const ENTRY: Entry =
    Entry { declaration: || declaration(10), options: OPTIONS, open: Ok(open) };

fn declaration(pairs: u64) -> Declaration {
    Declaration {
        name: "paired-regression".to_owned(),
        title: "this version against another checkout, with a 15 % guard".to_owned(),
        workload: "ten cases of products, projections, a residual MLP, norms and softmax; both versions as worker \
                   processes, in the order ABBA"
            .to_owned(),
        comparison: Comparison::SameWeightsAndFormat,
        gate_class: GateClass::Outputs,
        gate: "each version's output against a reference in float64, and against the other's".to_owned(),
        boundary: boundary(&["submission and synchronization of prepared launches"], &["compilation"]),
        metrics: vec![metric("time", "launches by the worker's own clock, which is checked against the driver's")],
        warmups: 2,
        pairs,
        estimator: Estimator::MedianOfPairedRatios,
        acceptance: Acceptance::Guard { metric: "time".to_owned(), part: 0.15 },
        disclosures: vec![
            "a case that passes the guard is not shown to be unchanged, and one that fails it does not say why"
                .to_owned(),
        ],
    }
}

/// The ten cases.
fn cases() -> Vec<OpCase> {
    let t = Grid::F32;
    let square = |n, t| Op::Gemm { m: n, k: n, n, t };
    let wide = |op: fn(Shape) -> Op| op(Shape { rows: 256, cols: 1024, t });
    let project = |rows, storage| Op::Project { rows, n: 4096, k: 1024, storage };
    let all: [(&str, Op); 10] = [
        ("gemm 256 float32", square(256, t)),
        ("gemm 512 float32", square(512, t)),
        ("gemm 256 float16", square(256, Grid::F16)),
        ("rms_norm 256×1024", wide(Op::RmsNorm)),
        ("layer_norm 256×1024", wide(Op::LayerNorm)),
        ("softmax 256×1024", wide(Op::Softmax)),
        ("rms_norm 32×1009 float16", Op::RmsNorm(Shape { rows: 32, cols: 1009, t: Grid::F16 })),
        ("project bf16, 1 row", project(1, Storage::BF16)),
        ("project int4, 64 rows", project(64, Storage::Int4)),
        (
            "swiglu_mlp int8, 4 rows",
            Op::Mlp { rows: 4, hidden: 576, intermediate: 1536, storage: Storage::Int8 },
        ),
    ];
    // Each a series of its own: a mean over different operations and types says nothing.
    let case =
        |(name, op): (&str, Op)| OpCase { name: name.to_owned(), series: name.to_owned(), op };
    all.into_iter().map(case).collect()
}

fn missing(message: impl std::fmt::Display) -> OpenError {
    OpenError::Missing(message.to_string())
}

/// Builds the program of a checkout.
fn build(root: &Path) -> Result<std::path::PathBuf, OpenError> {
    if !root.join("Cargo.toml").is_file() {
        return Err(missing(format!("--baseline-root: {} holds no Cargo.toml", root.display())));
    }
    let status = Command::new("cargo")
        .args(["build", "--quiet", "--release", "--package", "metile-cli", "--target-dir"])
        .arg(root.join("target"))
        .current_dir(root)
        .status()
        .map_err(|error| missing(format!("cargo can't be run: {error}")))?;
    if !status.success() {
        return Err(missing(format!("the checkout {} does not build: {status}", root.display())));
    }
    Ok(root.join("target").join("release").join("metile"))
}

/// A version of metile as an arm, in a process.
fn version(name: &str, role: Role, program: &Path, commit: String) -> Result<StudyArm, OpenError> {
    let mut command = Command::new(program);
    command.arg("kernel-worker");
    let worker = Worker::spawn("metile", command, Limits::default()).map_err(|error| {
        missing(format!(
            "{name} has no kernel worker, as versions before it was written have none: {error}"
        ))
    })?;
    let worker = KernelWorker::new(worker).map_err(missing)?;
    let hello = worker.worker().hello().clone();
    let setting = |name: &str| {
        hello.settings.get(name).and_then(|v| v.as_str()).unwrap_or("not said").to_owned()
    };
    let mut settings: std::collections::BTreeMap<String, String> =
        ["simd", "device"].into_iter().map(|name| (name.to_owned(), setting(name))).collect();
    settings.insert("commit".to_owned(), commit);
    let described = Arm {
        name: name.to_owned(),
        role,
        what: "kernels of the library, prepared, in a process of its own".to_owned(),
        versions: hello.versions.clone(),
        toolchain: Toolchain { compiler: setting("rustc"), path: "ahead_of_time".to_owned() },
        precision: Precision {
            input: "as the case says".to_owned(),
            weights: "as the case says".to_owned(),
            multiply: "float32".to_owned(),
            accumulate: "float32".to_owned(),
            relaxed: false,
            probed: setting("precision"),
        },
        threads: hello.settings.get("threads").and_then(serde_json::Value::as_u64),
        gate: GateClass::Outputs,
        settings,
    };
    Ok(StudyArm {
        name: name.to_owned(),
        role,
        what: described.what.clone(),
        policy: LATE,
        source: Source::Process(Peer::of_worker(name, worker), Box::new(described)),
    })
}

fn commit_of(root: &Path) -> String {
    let done = Command::new("git")
        .args(["describe", "--always", "--dirty", "--abbrev=40"])
        .current_dir(root)
        .output();
    match done {
        Ok(done) if done.status.success() => {
            String::from_utf8_lossy(&done.stdout).trim().to_owned()
        }
        _ => "unknown".to_owned(),
    }
}

fn open(setup: &Setup) -> Result<Box<dyn Study>, OpenError> {
    if setup.device.name() != "cpu" {
        return Err(missing("the worker of a version computes on the CPU"));
    }
    let root = setup.chosen.path("baseline-root")?;
    let root = root
        .ok_or_else(|| missing("--baseline-root has to name another checkout of this project"))?;
    let theirs = build(&root)?;
    let ours = std::env::current_exe().map_err(missing)?;
    let arms = vec![
        version("baseline-root", Role::Baseline, &theirs, commit_of(&root))?,
        version("this", Role::Candidate, &ours, commit_of(Path::new(".")))?,
    ];
    // Arms built by different compilers, or for different vectors, measure those as well.
    if let [
        StudyArm { source: Source::Process(_, a), .. },
        StudyArm { source: Source::Process(_, b), .. },
    ] = arms.as_slice()
        && (a.toolchain != b.toolchain || a.settings["simd"] != b.settings["simd"])
    {
        return Err(missing(format!(
            "the two versions were not built alike: {} ({}) and {} ({})",
            a.toolchain.compiler, a.settings["simd"], b.toolchain.compiler, b.settings["simd"]
        )));
    }
    let extra = Extra {
        repeats: Repeats::Exactly(setup.chosen.count("rounds-per-sample")?),
        rows_alone: false,
    };
    let declaration = declaration(setup.chosen.count("pairs")?);
    let mut study = OpStudy::new(declaration, &setup.device, arms, cases(), extra);
    for (arm, program) in [("baseline-root", &theirs), ("this", &ours)] {
        let hash = fingerprint::of_file(program, format!("program of {arm}")).map_err(missing)?;
        study.fingerprints.sources.push(hash);
    }
    Ok(Box::new(KernelStudy::new(study)))
}
