//! Every operation as kernels of the library against its reference, and a whole study of them.

use super::*;
use crate::kernel_studies::harness::{Grid, KernelArm, KernelStudy, fresh};
use crate::kernel_studies::op_study::{Extra, OpCase, OpStudy, Source, StudyArm};
use crate::schema::write::Destination;
use crate::schema::{
    Acceptance, Boundary, Clock, Comparison, Declaration, Estimator, Figure, GateClass, Limits,
    Metric, Role, Status,
};
use crate::study::Repeats;
use crate::study::driver::{self, Run};
use std::sync::atomic::AtomicBool;

fn all() -> Vec<(Op, Form)> {
    let mut all = Vec::new();
    for t in [Grid::F32, Grid::F16, Grid::BF16] {
        let s = Shape { rows: 3, cols: 1009, t };
        all.extend([
            (Op::Gemm { m: 33, k: 40, n: 35, t }, Form::Library),
            (Op::Gemm { m: 33, k: 40, n: 35, t }, Form::FixedTiles),
            (Op::RmsNorm(s), Form::Library),
            (Op::RmsNorm(s), Form::Register),
            (Op::RmsNorm(Shape { cols: 2000, ..s }), Form::Looped),
            (Op::LayerNorm(s), Form::Library),
            (Op::Softmax(s), Form::Library),
        ]);
    }
    for storage in [Storage::BF16, Storage::Int4, Storage::Int8] {
        all.push((Op::Project { rows: 5, n: 70, k: 128, storage }, Form::Library));
        all.push((Op::Mlp { rows: 5, hidden: 128, intermediate: 192, storage }, Form::Library));
    }
    all
}

#[test]
fn kernels_give_what_the_references_do() {
    let device = Device::cpu();
    for (op, form) in all() {
        let held = op.hold().unwrap();
        let mut arm = op.on(&device, &held, form, Timing::Prepared).unwrap();
        let inputs = fresh(&op.fresh(), 7).unwrap();
        arm.set_inputs(&inputs).unwrap();
        arm.poison().unwrap();
        assert!(arm.output().unwrap().iter().all(|v| v.is_nan()), "{op:?}: poison");
        let before = arm.inputs_sha256().unwrap();
        arm.launch("time", 2).unwrap();
        assert_eq!(before, arm.inputs_sha256().unwrap());
        let output = arm.output().unwrap();
        let (rtol, atol) = op.tolerance();
        let mut differences = crate::gate::Differences::within(rtol, atol);
        let [rows, cols] = op.output();
        let oracle = op.oracle(&held);
        for row in 0..rows {
            let expected = oracle.row(LATE, &inputs, row);
            let first = row * cols;
            differences.add_all("output", first as u64, &expected, &output[first..][..cols]);
        }
        assert!(differences.passed(), "{op:?} {form:?}: {:?}", differences.first());
    }
}

#[test]
fn forms_that_an_operation_does_not_have_are_refused() {
    let device = Device::cpu();
    for (op, form) in [
        (Op::Gemm { m: 1, k: 1, n: 1, t: Grid::F32 }, Form::Looped),
        (Op::Softmax(Shape { rows: 1, cols: 2, t: Grid::F32 }), Form::Register),
        (Op::RmsNorm(Shape { rows: 1, cols: 2, t: Grid::F32 }), Form::FixedTiles),
    ] {
        assert!(op.on(&device, &op.hold().unwrap(), form, Timing::Prepared).is_err());
    }
}

#[test]
fn bytes_of_weights_follow_from_their_storage() {
    let bytes = |storage| {
        let op = Op::Mlp { rows: 1, hidden: 1536, intermediate: 8960, storage };
        op.work().weight_bytes.unwrap()
    };
    let weights = 3 * 1536 * 8960;
    assert_eq!(bytes(Storage::BF16), 2 * weights);
    assert_eq!(bytes(Storage::Int4), weights / 2 + weights / 16);
    assert_eq!(bytes(Storage::Int8), weights + weights / 16);
}

#[test]
fn a_study_of_layers_has_a_prepared_series_and_weight_bandwidth() {
    let metric = |name: &str| Metric {
        name: name.to_owned(),
        unit: "s".to_owned(),
        clock: Clock::Wall,
        boundary: name.to_owned(),
    };
    let declaration = Declaration {
        name: "test".to_owned(),
        title: String::new(),
        workload: String::new(),
        comparison: Comparison::SameWeightsAndFormat,
        gate_class: GateClass::Outputs,
        gate: String::new(),
        boundary: Boundary::default(),
        metrics: vec![metric("time"), metric("prepared")],
        warmups: 1,
        pairs: 2,
        estimator: Estimator::RatioOfMedians,
        acceptance: Acceptance::None,
        disclosures: Vec::new(),
    };
    let arm = |name: &str, role, timing| StudyArm {
        name: name.to_owned(),
        role,
        what: String::new(),
        policy: LATE,
        source: Source::Own(Form::Library, timing),
    };
    let device = Device::cpu();
    let op = Op::Mlp { rows: 3, hidden: 128, intermediate: 192, storage: Storage::BF16 };
    let study = OpStudy::new(
        declaration,
        &device,
        vec![
            arm("before", Role::Baseline, Timing::Prepared),
            arm("metile", Role::Candidate, Timing::BuiltEachTime),
        ],
        vec![OpCase { name: "mlp".to_owned(), series: "bf16".to_owned(), op }],
        Extra { repeats: Repeats::Exactly(2), rows_alone: true },
    );
    let folder = tempfile::tempdir().unwrap();
    let unknown = || Figure::missing("a test");
    let probe = || Limits {
        read_bytes_per_s: unknown(),
        copy_bytes_per_s: unknown(),
        flop_per_s: unknown(),
        allowance: 0.2,
    };
    let interrupted = AtomicBool::new(false);
    let run = Run {
        output: Destination::new(&folder.path().join("r.json")).unwrap(),
        seed: 0,
        device: "cpu".to_owned(),
        options: BTreeMap::new(),
        interrupted: &interrupted,
        progress: false,
        probe: &probe,
    };
    let report = driver::run(&mut KernelStudy::new(study), run).unwrap().report;
    assert_eq!(report.status, Status::Complete, "{:?}", report.failure);
    let case = &report.phases[0].cases[0];
    assert_eq!(case.trials.len(), 4);
    let ours: Vec<_> = case.trials.iter().filter(|t| t.arm == "metile").collect();
    assert!(ours.iter().all(|t| t.values.len() == 2 && t.verified["inputs_read_back"] == 1));
    // The prepared series has a median and no ratio.
    assert_eq!(case.medians.len(), 3);
    assert_eq!(case.summaries.len(), 1);
    assert!(case.medians.iter().all(|m| m.weight_bytes_per_s.is_some()));
    assert!(case.gates.iter().any(|g| g.name.contains("one at a time")));
    assert_eq!(report.fingerprints.kernels.len(), 2 * 4);
}
