//! The driver, with studies made for it.

use super::*;
use crate::schema::write;
use crate::schema::{
    Acceptance, Boundary, Clock, Comparison, Estimator, Figure, Gate, GateClass, Metric, Scope,
    Tolerance, Work,
};
use crate::study::{CasePlan, PhasePlan, Ready, Repeats, SelectionPlan, Timed, Turn, Verified};

/// A tuning phase over three chunks, and one of what was chosen, held out. Times are made up.
#[derive(Default)]
struct Tuned {
    /// Calls, in order.
    log: Vec<String>,
    /// The gate of this phase fails.
    fails_in: Option<&'static str>,
    /// This time is given in a trial of the held-out phase.
    time: Option<f64>,
    poisons: bool,
    verifies: bool,
    gates: bool,
    different_inputs: bool,
}

fn honest() -> Tuned {
    Tuned { poisons: true, verifies: true, gates: true, ..Tuned::default() }
}

fn chunk(case: &CasePlan) -> f64 {
    case.parameters["chunk"].as_f64().unwrap()
}

impl Tuned {
    fn case(chunk: u64) -> CasePlan {
        CasePlan {
            name: format!("chunk {chunk}"),
            series: "chunks".to_owned(),
            parameters: [("chunk".to_owned(), chunk.into())].into(),
            work: Work::default(),
            gate_class: GateClass::State,
            arms: vec!["native".to_owned(), "ours".to_owned()],
            absent: Vec::new(),
            repeats: Repeats::Once,
        }
    }
}

impl Study for Tuned {
    fn declaration(&self) -> Declaration {
        let metric = |name: &str| Metric {
            name: name.to_owned(),
            unit: "s".to_owned(),
            clock: Clock::Wall,
            boundary: name.to_owned(),
        };
        Declaration {
            name: "tuned".to_owned(),
            title: String::new(),
            workload: String::new(),
            comparison: Comparison::SameWeightsAndFormat,
            gate_class: GateClass::State,
            gate: String::new(),
            boundary: Boundary::default(),
            metrics: vec![metric("ttft"), metric("total")],
            warmups: 2,
            pairs: 5,
            estimator: Estimator::MedianOfPairedRatios,
            acceptance: Acceptance::None,
            disclosures: vec!["one document".to_owned()],
        }
    }
    fn arms(&mut self) -> Result<Vec<Arm>, Refusal> {
        use crate::schema::Role;
        let device = metile::Device::interpreter();
        let of = |name, role| {
            crate::kernel_studies::described(&device, name, role, "made up", "float32", "float32")
        };
        Ok(vec![of("native", Role::Baseline), of("ours", Role::Candidate)])
    }
    fn next_phase(&mut self, done: &[Phase]) -> Result<Option<PhasePlan>, Refusal> {
        let plan = |name: &str, scope, cases, selection| PhasePlan {
            name: name.to_owned(),
            scope,
            pairs: 5,
            warmups: 2,
            cases,
            selection,
        };
        Ok(match done {
            [] => Some(plan(
                "tuning",
                Scope::Tuning,
                [256, 128, 512].map(Tuned::case).into(),
                Some(SelectionPlan {
                    arm: "ours".to_owned(),
                    metric: "ttft".to_owned(),
                    parameter: "chunk".to_owned(),
                }),
            )),
            [tuning] => {
                let chosen = tuning.selection.as_ref().unwrap();
                let case = tuning.cases.iter().find(|c| c.name == chosen.case).unwrap();
                let chunk = case.parameters["chunk"].as_u64().unwrap();
                Some(plan("held-out", Scope::HeldOut, vec![Tuned::case(chunk)], None))
            }
            _ => None,
        })
    }
    fn open(&mut self, case: &CasePlan) -> Result<(), Refusal> {
        self.log.push(format!("open {}", case.name));
        Ok(())
    }
    fn gate(&mut self, case: &CasePlan) -> Result<Vec<Gate>, Refusal> {
        self.log.push(format!("gate {}", case.name));
        let phase = if self.log.iter().filter(|l| l.starts_with("gate")).count() > 3 {
            "held-out"
        } else {
            "tuning"
        };
        if !self.gates {
            return Ok(Vec::new());
        }
        Ok(vec![Gate {
            name: "state".to_owned(),
            class: GateClass::State,
            arm: "ours".to_owned(),
            against: "native".to_owned(),
            decides: true,
            passed: self.fails_in != Some(phase),
            tolerance: Tolerance::Combined { rtol: 1e-3, atol: 1e-3 },
            checked: [("elements".to_owned(), 9)].into(),
            observed: [("max_abs".to_owned(), Figure::new(0.5))].into(),
            first_mismatch: None,
        }])
    }
    fn before(&mut self, _case: &CasePlan, turn: &Turn<'_>) -> Result<Ready, Refusal> {
        let inputs_sha256 =
            if self.different_inputs { turn.arm.to_owned() } else { "the prompt".to_owned() };
        Ok(Ready { inputs_sha256, poisoned: self.poisons })
    }
    fn run(&mut self, case: &CasePlan, turn: &Turn<'_>) -> Result<Timed, Refusal> {
        let kind = if turn.warmup { "warmup" } else { "trial" };
        self.log.push(format!("{kind} {} {} {}", case.name, turn.pair, turn.arm));
        let held_out = self.log.iter().filter(|l| l.starts_with("gate")).count() > 3;
        // 128 and 256 tie, 512 takes longer.
        let time = if turn.arm == "native" { 4.0 } else { chunk(case).max(256.0) / 128.0 };
        let time = self.time.filter(|_| held_out).unwrap_or(time);
        Ok(Timed { values: [("ttft".to_owned(), time), ("total".to_owned(), 9.0)].into() })
    }
    fn after(&mut self, _case: &CasePlan, _turn: &Turn<'_>) -> Result<Verified, Refusal> {
        let tokens = u64::from(self.verifies);
        Ok(Verified { counts: [("tokens".to_owned(), tokens)].into(), output_sequence: None })
    }
    fn close(&mut self, case: &CasePlan) -> Result<(), Refusal> {
        self.log.push(format!("close {}", case.name));
        Ok(())
    }
    fn fingerprints(&mut self) -> Result<Fingerprints, Refusal> {
        Ok(Fingerprints::default())
    }
}

fn limits() -> Limits {
    let unknown = || Figure::missing("a test");
    Limits {
        read_bytes_per_s: unknown(),
        copy_bytes_per_s: unknown(),
        flop_per_s: unknown(),
        allowance: 0.2,
    }
}

fn report(study: &mut Tuned) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    let interrupted = AtomicBool::new(false);
    let run = Run {
        output: Destination::new(&path).unwrap(),
        seed: 1,
        device: "cpu".to_owned(),
        options: BTreeMap::new(),
        interrupted: &interrupted,
        progress: false,
        probe: &limits,
    };
    let finished = super::run(study, run).unwrap();
    assert_eq!(write::read(&path).unwrap(), finished.report);
    finished.report
}

#[test]
fn all_gates_of_a_phase_come_before_its_first_timing_and_the_winner_is_gated_again() {
    let mut study = honest();
    let report = report(&mut study);
    assert_eq!(report.status, Status::Complete, "{:?}", report.failure);
    let first_run = study.log.iter().position(|l| l.starts_with("warmup")).unwrap();
    assert_eq!(study.log[..first_run].iter().filter(|l| l.starts_with("gate")).count(), 3);
    // The tie of 128 and 256 goes to the smaller.
    let held_out = study.log.iter().rposition(|l| l.starts_with("gate")).unwrap();
    assert_eq!(study.log[held_out], "gate chunk 128");
    assert!(study.log[held_out + 1].starts_with("warmup chunk 128"));
    assert_eq!(report.phases[0].selection.as_ref().unwrap().case, "chunk 128");
    assert_eq!(report.phases[1].scope, Scope::HeldOut);
    for case in report.phases.iter().flat_map(|p| &p.cases) {
        assert_eq!(case.trials.len(), 10);
        assert_eq!(case.summaries.len(), 2);
        // Five pairs earn no interval.
        assert!(case.summaries.iter().all(|s| s.interval.is_none()));
    }
    let warmups = study.log.iter().filter(|l| l.starts_with("warmup")).count();
    assert_eq!(warmups, 4 * 2 * 2);
    let summaries = &report.phases[1].cases[0].summaries;
    let ttft = summaries.iter().find(|s| s.metric == "ttft").unwrap();
    assert!((ttft.ratio.value.unwrap() - 2.0).abs() < 1e-12);
    let opened = study.log.iter().filter(|l| l.starts_with("open")).count();
    assert_eq!(opened, study.log.iter().filter(|l| l.starts_with("close")).count());
}

#[test]
fn a_gate_that_fails_discards_the_timings_of_every_phase_and_keeps_its_evidence() {
    let report = report(&mut Tuned { fails_in: Some("held-out"), ..honest() });
    assert_eq!(report.status, Status::Failed);
    let failure = report.failure.unwrap();
    assert_eq!(failure.rule, rules::GATE);
    assert_eq!(failure.discarded_trials, 30);
    assert_eq!(report.phases.len(), 2);
    for case in report.phases.iter().flat_map(|p| &p.cases) {
        assert!(case.trials.is_empty() && case.medians.is_empty() && case.summaries.is_empty());
        assert_eq!(case.gates.len(), 1);
    }
    assert!(report.phases[0].selection.is_none());
    let gate = &report.phases[1].cases[0].gates[0];
    assert!(!gate.passed);
    assert_eq!(gate.observed["max_abs"].value, Some(0.5));
}

#[test]
fn nothing_is_timed_when_a_gate_of_the_first_phase_fails() {
    let mut study = Tuned { fails_in: Some("tuning"), ..honest() };
    let report = report(&mut study);
    assert_eq!(report.failure.unwrap().discarded_trials, 0);
    assert!(!study.log.iter().any(|l| l.starts_with("trial") || l.starts_with("warmup")));
}

#[test]
fn rules_that_every_trial_keeps() {
    let rule = |mut study: Tuned| report(&mut study).failure.unwrap().rule;
    assert_eq!(rule(Tuned { poisons: false, ..honest() }), rules::POISON);
    assert_eq!(rule(Tuned { verifies: false, ..honest() }), rules::OUTPUTS);
    assert_eq!(rule(Tuned { gates: false, ..honest() }), rules::GATE);
    assert_eq!(rule(Tuned { different_inputs: true, ..honest() }), rules::INPUTS);
    for time in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let mut study = Tuned { time: Some(time), ..honest() };
        let report = report(&mut study);
        let failure = report.failure.unwrap();
        assert_eq!(failure.rule, rules::TIME, "{time}");
        assert_eq!(failure.discarded_trials, 30);
    }
}
