//! Arms that cheat: every one is refused, and leaves no timing.

use super::*;
use crate::schema::write::{self, Destination};
use crate::schema::{
    Acceptance, Boundary, Clock, Comparison, Estimator, Figure, Limits, Metric, Report, Role,
    Status, Work,
};
use crate::study::Repeats;
use crate::study::driver::{self, Run};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const ROWS: usize = 8;
const COLS: usize = 64;
const ARMS: [&str; 2] = ["honest", "suspect"];

/// What an arm under test does instead of its work.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cheat {
    Nothing,
    /// Does its work once and never again.
    NoOpAfterFirst,
    /// Does its work in the first launch of every sample.
    NoOpWithinSample,
    /// Overwrites its input.
    ZeroesInput,
    /// Computes the first rows.
    FirstTileOnly,
    /// Gives the output of its first inputs.
    Replays,
    /// Leaves the work to a thread, and reads what is there.
    OtherThread,
    /// Leaves the work to whoever asks for the output.
    Lazy,
    /// Leaves outputs as they were.
    KeepsOutput,
    /// Another clock.
    OwnClock,
    /// One wrong element in a row.
    OneWrong,
}

/// out = 2x + 1, with some time spent.
struct Toy {
    cheat: Cheat,
    x: Vec<f32>,
    out: Arc<Mutex<Vec<f32>>>,
    launches: u64,
    pending: u64,
    remembered: Option<Vec<f32>>,
    work: Duration,
}

fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

fn doubled(x: &[f32]) -> Vec<f32> {
    x.iter().map(|v| 2.0 * v + 1.0).collect()
}

impl KernelArm for Toy {
    fn series(&self) -> &[&'static str] {
        &["time"]
    }
    fn set_inputs(&mut self, inputs: &[Vec<f32>]) -> Result<(), Refusal> {
        self.x.clone_from(&inputs[0]);
        Ok(())
    }
    fn inputs_sha256(&mut self) -> Result<Option<String>, Refusal> {
        Ok(Some(fingerprint::of_bytes(bytemuck::cast_slice(&self.x))))
    }
    fn poison(&mut self) -> Result<(), Refusal> {
        if self.cheat != Cheat::KeepsOutput || self.launches == 0 {
            self.out.lock().unwrap().fill(f32::NAN);
        }
        Ok(())
    }
    fn launch(&mut self, _series: &str, launches: u64) -> Result<Option<f64>, Refusal> {
        let before = self.launches;
        self.launches += launches;
        match self.cheat {
            Cheat::NoOpAfterFirst if before > 0 => return Ok(None),
            Cheat::OtherThread => {
                let (out, x) = (self.out.clone(), self.x.clone());
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(20));
                    *out.lock().unwrap() = doubled(&x);
                });
                return Ok(None);
            }
            Cheat::Lazy => {
                self.pending = launches;
                return Ok(None);
            }
            Cheat::NoOpWithinSample => spin(self.work),
            _ => spin(self.work * u32::try_from(launches).unwrap()),
        }
        let mut out = doubled(&self.x);
        match self.cheat {
            Cheat::Replays => out = self.remembered.get_or_insert(out).clone(),
            Cheat::FirstTileOnly => {
                self.out.lock().unwrap()[..COLS].copy_from_slice(&out[..COLS]);
                return Ok(None);
            }
            Cheat::ZeroesInput => self.x.fill(0.0),
            Cheat::KeepsOutput if before > 0 => return Ok(None),
            Cheat::OneWrong if before > 0 => out[3 * COLS] += 1.0,
            _ => {}
        }
        *self.out.lock().unwrap() = out;
        Ok((self.cheat == Cheat::OwnClock).then_some(3600.0))
    }
    fn output(&mut self) -> Result<Vec<f32>, Refusal> {
        if self.cheat == Cheat::Lazy && self.pending > 0 {
            spin(self.work * u32::try_from(self.pending).unwrap());
            self.pending = 0;
            *self.out.lock().unwrap() = doubled(&self.x);
        }
        Ok(self.out.lock().unwrap().clone())
    }
}

struct Doubling;
impl Oracle for Doubling {
    fn row(&self, _policy: &str, inputs: &[Vec<f32>], row: usize) -> Vec<f64> {
        doubled(&inputs[0][row * COLS..][..COLS]).into_iter().map(f64::from).collect()
    }
}

#[derive(Clone, Copy)]
struct Toys {
    cheat: Cheat,
    scale: f32,
    flop: u64,
    work: Duration,
}

impl Workload for Toys {
    fn declaration(&self) -> Declaration {
        Declaration {
            name: "toys".to_owned(),
            title: "a test".to_owned(),
            workload: "2x + 1".to_owned(),
            comparison: Comparison::SameWeightsAndFormat,
            gate_class: GateClass::Outputs,
            gate: "outputs".to_owned(),
            boundary: Boundary::default(),
            metrics: vec![Metric {
                name: "time".to_owned(),
                unit: "s".to_owned(),
                clock: Clock::Wall,
                boundary: "launch".to_owned(),
            }],
            warmups: 1,
            pairs: 4,
            estimator: Estimator::MedianOfPairedRatios,
            acceptance: Acceptance::None,
            disclosures: Vec::new(),
        }
    }
    fn arms(&mut self) -> Result<Vec<Arm>, Refusal> {
        let device = metile::Device::interpreter();
        let of = |name, role| {
            super::super::device_arm::described(&device, name, role, "a toy", "float32", "float32")
        };
        Ok(vec![of(ARMS[0], Role::Baseline), of(ARMS[1], Role::Candidate)])
    }
    fn cases(&mut self) -> Result<Vec<CasePlan>, Refusal> {
        Ok(vec![CasePlan {
            name: "case".to_owned(),
            series: "case".to_owned(),
            parameters: BTreeMap::new(),
            work: Work { flop: Some(self.flop), ..Work::default() },
            gate_class: GateClass::Outputs,
            arms: ARMS.map(str::to_owned).into(),
            absent: Vec::new(),
            repeats: Repeats::Seconds(2e-3),
        }])
    }
    fn open(&mut self, _case: &CasePlan) -> Result<Open, Refusal> {
        let toy = |name: &str, cheat| OpenArm {
            name: name.to_owned(),
            arm: Box::new(Toy {
                cheat,
                x: vec![0.0; ROWS * COLS],
                out: Arc::new(Mutex::new(vec![0.0; ROWS * COLS])),
                launches: 0,
                pending: 0,
                remembered: None,
                work: self.work,
            }),
            policy: "none",
            rtol: 1e-6,
            atol: 1e-6,
        };
        Ok(Open {
            fresh: vec![Fresh {
                name: "x",
                elements: ROWS * COLS,
                scale: self.scale,
                grid: Grid::F32,
            }],
            rows: ROWS,
            cols: COLS,
            arms: vec![toy(ARMS[0], Cheat::Nothing), toy(ARMS[1], self.cheat)],
            oracle: Box::new(Doubling),
            gate_rows: ROWS,
            further: None,
        })
    }
    fn fingerprints(&mut self) -> Result<Fingerprints, Refusal> {
        Ok(Fingerprints::default())
    }
}

fn limits() -> Limits {
    Limits {
        read_bytes_per_s: Figure::new(1e9),
        copy_bytes_per_s: Figure::new(1e9),
        flop_per_s: Figure::new(1e9),
        allowance: 0.2,
    }
}

fn honest() -> Toys {
    Toys { cheat: Cheat::Nothing, scale: 1.0, flop: 1, work: Duration::from_micros(100) }
}

fn report(toys: Toys) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    let interrupted = AtomicBool::new(false);
    let run = Run {
        output: Destination::new(&path).unwrap(),
        seed: 3,
        device: "cpu".to_owned(),
        options: BTreeMap::new(),
        interrupted: &interrupted,
        progress: false,
        probe: &limits,
    };
    let finished = driver::run(&mut KernelStudy::new(toys), run).unwrap();
    assert_eq!(write::read(&path).unwrap(), finished.report);
    finished.report
}

fn refused(toys: Toys) -> String {
    let report = report(toys);
    assert_eq!(report.status, Status::Failed);
    for case in report.phases.iter().flat_map(|p| &p.cases) {
        assert!(case.trials.is_empty() && case.medians.is_empty() && case.summaries.is_empty());
    }
    let failure = report.failure.unwrap();
    if toys.cheat != Cheat::Nothing {
        assert_eq!(failure.arm.as_deref(), Some("suspect"), "{}", failure.message);
    }
    failure.rule
}

fn refused_cheat(cheat: Cheat) -> String {
    refused(Toys { cheat, ..honest() })
}

#[test]
fn an_honest_arm_is_measured() {
    let report = report(honest());
    assert_eq!(report.status, Status::Complete, "{:?}", report.failure);
    let case = &report.phases[0].cases[0];
    assert_eq!(case.trials.len(), 8);
    assert_eq!(case.summaries.len(), 1);
    assert!(case.gates.iter().all(|gate| gate.passed));
    // What it is depends on what else the machine does.
    assert!(case.summaries[0].ratio.value.unwrap() > 0.0);
    assert!(case.trials.iter().all(|t| t.poisoned && t.repeats > 1 && t.verified["elements"] > 0));
    // Every pair has inputs of its own, the same for both arms.
    for pair in 0..4 {
        let of_pair: Vec<_> = case.trials.iter().filter(|t| t.pair == pair).collect();
        assert_eq!(of_pair[0].inputs_sha256, of_pair[1].inputs_sha256);
        assert!(
            case.trials
                .iter()
                .all(|t| t.pair == pair || t.inputs_sha256 != of_pair[0].inputs_sha256)
        );
    }
    // The order alternates.
    let order: Vec<&str> = case.trials.iter().map(|t| t.arm.as_str()).collect();
    assert_eq!(order[0], order[3]);
    assert_eq!(order[1], order[2]);
    assert_ne!(order[0], order[1]);
}

#[test]
fn a_no_op_after_the_first_call_is_caught() {
    assert_eq!(refused_cheat(Cheat::NoOpAfterFirst), rules::OUTPUTS);
}

#[test]
fn a_no_op_within_a_sample_is_caught() {
    assert_eq!(refused_cheat(Cheat::NoOpWithinSample), rules::GROWTH);
}

#[test]
fn an_arm_that_zeroes_its_input_is_caught() {
    assert_eq!(refused_cheat(Cheat::ZeroesInput), rules::INPUTS);
}

#[test]
fn an_arm_that_computes_its_first_tile_only_is_caught() {
    assert_eq!(refused_cheat(Cheat::FirstTileOnly), rules::GATE);
}

#[test]
fn a_replayed_output_is_caught() {
    assert_eq!(refused_cheat(Cheat::Replays), rules::OUTPUTS);
}

#[test]
fn work_left_to_another_thread_is_caught() {
    assert_eq!(refused_cheat(Cheat::OtherThread), rules::GATE);
}

#[test]
fn work_left_to_the_reader_of_the_output_is_caught() {
    assert_eq!(refused_cheat(Cheat::Lazy), rules::UNFINISHED);
}

#[test]
fn an_arm_whose_output_is_never_poisoned_can_not_replay_it() {
    assert_eq!(refused_cheat(Cheat::KeepsOutput), rules::OUTPUTS);
}

#[test]
fn an_arm_with_a_clock_of_its_own_is_caught() {
    assert_eq!(refused_cheat(Cheat::OwnClock), rules::TIME);
}

#[test]
fn one_wrong_element_outside_of_the_sampled_rows_is_caught_by_the_other_arm() {
    assert_eq!(refused_cheat(Cheat::OneWrong), rules::OUTPUTS);
}

#[test]
fn constant_inputs_are_refused() {
    assert_eq!(refused(Toys { scale: 0.0, ..honest() }), rules::CONSTANT);
}

#[test]
fn more_than_the_device_can_do_is_refused() {
    assert_eq!(refused(Toys { flop: 1 << 20, ..honest() }), rules::PEAK);
}

#[test]
fn an_interruption_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    let interrupted = AtomicBool::new(true);
    let run = Run {
        output: Destination::new(&path).unwrap(),
        seed: 3,
        device: "cpu".to_owned(),
        options: BTreeMap::new(),
        interrupted: &interrupted,
        progress: false,
        probe: &limits,
    };
    let done = driver::run(&mut KernelStudy::new(honest()), run);
    assert!(matches!(done, Err(driver::DriverError::Interrupted)));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_file_that_came_to_be_meanwhile_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    let interrupted = AtomicBool::new(false);
    let output = Destination::new(&path).unwrap();
    std::fs::write(&path, "another's").unwrap();
    let run = Run {
        output,
        seed: 3,
        device: "cpu".to_owned(),
        options: BTreeMap::new(),
        interrupted: &interrupted,
        progress: false,
        probe: &limits,
    };
    let done = driver::run(&mut KernelStudy::new(honest()), run);
    assert!(matches!(done, Err(driver::DriverError::File(write::FileError::Exists(_)))));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "another's");
    // Nothing else is left behind.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
