//! How a study is declared, and the one driver that runs them all.
//!
//! A study is an [`Entry`] of the catalogue: a declaration in words and numbers, its options, and a function
//! that opens it. What it opens is a [`Study`], which the [driver](driver) asks for phases of cases and then
//! tells what to do: gate every case of a phase, then warm up, then trials in alternating order, each with poisoned
//! outputs before and a verification after.

mod catalogue;
pub mod driver;
mod options;
mod refusal;

pub use catalogue::{Entry, Open, OpenError, Setup, catalogue};
pub use options::{Chosen, OptionError, OptionKind, OptionSpec};
pub use refusal::{Refusal, rules as refusal_rules};

use crate::schema::{
    Absent, Arm, Declaration, Fingerprints, Gate, GateClass, Phase, Scope, Subject, Work,
};
use std::collections::BTreeMap;

/// How many launches a sample is the mean of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Repeats {
    /// One: a generation, a command list that takes long.
    Once,
    /// So many, the same number for all arms. That times grow with the number is checked.
    Exactly(u64),
    /// As many as take about so long, the same number for all arms. That times grow with the number is checked
    /// for every arm before the first trial.
    Seconds(f64),
}

/// A point of a workload, before it is measured.
#[derive(Clone, Debug)]
pub struct CasePlan {
    /// Its name, unique within the phase.
    pub name: String,
    /// Chart series that it belongs to.
    pub series: String,
    /// What sets it apart.
    pub parameters: BTreeMap<String, serde_json::Value>,
    /// Bytes and operations of one launch or generation. Samples of the first metric that would need more
    /// than the device's probed rates are refused.
    pub work: Work,
    /// The class that its arms agree in.
    pub gate_class: GateClass,
    /// The arms that take part, by name.
    pub arms: Vec<String>,
    /// The arms that don't.
    pub absent: Vec<Absent>,
    /// Launches of a sample.
    pub repeats: Repeats,
}

/// How a case of a tuning phase is chosen: the least median of `arm` in `metric`, and of equal ones the least
/// `parameter`.
#[derive(Clone, Debug)]
pub struct SelectionPlan {
    /// The arm.
    pub arm: String,
    /// The metric.
    pub metric: String,
    /// A whole number among each case's parameters.
    pub parameter: String,
}

/// Cases that are validated together before any of them is timed.
#[derive(Clone, Debug)]
pub struct PhasePlan {
    /// Its name.
    pub name: String,
    /// What it may be taken as evidence for.
    pub scope: Scope,
    /// Pairs of each case.
    pub pairs: u64,
    /// Untimed runs of each arm before the first trial of a case. They are verified as trials are.
    pub warmups: u64,
    /// The cases.
    pub cases: Vec<CasePlan>,
    /// How one is chosen.
    pub selection: Option<SelectionPlan>,
}

/// A run of one arm that is about to be.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'t> {
    /// The arm.
    pub arm: &'t str,
    /// The pair, from 0; that of a warm-up counts from 0 as well.
    pub pair: u64,
    /// Whether it is a warm-up.
    pub warmup: bool,
    /// What inputs are drawn by: the same for all arms of a pair, different in every pair and in warm-ups.
    pub seed: u64,
    /// Launches.
    pub launches: u64,
}

/// What was done before a run, outside of timing.
#[derive(Clone, Debug)]
pub struct Ready {
    /// SHA-256 of the inputs.
    pub inputs_sha256: String,
    /// Whether outputs (K/V and logits in studies of models) were overwritten with NaN.
    pub poisoned: bool,
}

/// What a run took.
#[derive(Clone, Debug, Default)]
pub struct Timed {
    /// Each metric, for one launch or generation (the mean over the launches of the run).
    pub values: BTreeMap<String, f64>,
}

/// What was verified after a run.
#[derive(Clone, Debug, Default)]
pub struct Verified {
    /// How much of each kind: `elements`, `tokens`, `cache_entries`.
    pub counts: BTreeMap<String, u64>,
    /// The sequence that was written, by its name in the report.
    pub output_sequence: Option<String>,
}

/// Something that can be measured. The driver calls, in this order: [`arms`](Self::arms); then for every phase
/// [`next_phase`](Self::next_phase); for each of its cases [`open`](Self::open), [`gate`](Self::gate),
/// [`close`](Self::close); again for each of its cases `open`, all warm-ups and trials, each as
/// [`before`](Self::before), [`run`](Self::run), [`after`](Self::after), and after each pair
/// [`after_pair`](Self::after_pair), then `close`; at the end [`subject`](Self::subject) and
/// [`fingerprints`](Self::fingerprints).
pub trait Study {
    /// The declaration with the numbers of this run.
    fn declaration(&self) -> Declaration;

    /// All arms.
    ///
    /// # Errors
    /// If one can't be described: its worker does not answer.
    fn arms(&mut self) -> Result<Vec<Arm>, Refusal>;

    /// The phase after those in `done`, which have their summaries and selections; `None` after the last.
    ///
    /// # Errors
    /// If it can't be planned.
    fn next_phase(&mut self, done: &[Phase]) -> Result<Option<PhasePlan>, Refusal>;

    /// Makes what the case needs: compiles, binds, allocates, starts.
    ///
    /// # Errors
    /// If that is not possible.
    fn open(&mut self, case: &CasePlan) -> Result<(), Refusal>;

    /// Validates every arm of the case. What failed is in the gates.
    ///
    /// # Errors
    /// If an arm can't be run.
    fn gate(&mut self, case: &CasePlan) -> Result<Vec<Gate>, Refusal>;

    /// Makes an arm ready outside of timing: fresh inputs, poisoned outputs.
    ///
    /// # Errors
    /// If that is not possible, or the inputs would be constant.
    fn before(&mut self, case: &CasePlan, turn: &Turn<'_>) -> Result<Ready, Refusal>;

    /// Runs an arm and times it, from the declared start to the declared end.
    ///
    /// # Errors
    /// If it fails.
    fn run(&mut self, case: &CasePlan, turn: &Turn<'_>) -> Result<Timed, Refusal>;

    /// Verifies what the run left.
    ///
    /// # Errors
    /// If anything is not as it was validated.
    fn after(&mut self, case: &CasePlan, turn: &Turn<'_>) -> Result<Verified, Refusal>;

    /// Compares what the arms of a pair left with each other.
    ///
    /// # Errors
    /// If they disagree.
    fn after_pair(&mut self, _case: &CasePlan, _pair: u64) -> Result<(), Refusal> {
        Ok(())
    }

    /// Frees what [`open`](Self::open) made, after a last check that nothing changed that must not.
    ///
    /// # Errors
    /// If something did.
    fn close(&mut self, case: &CasePlan) -> Result<(), Refusal>;

    /// What was computed on.
    ///
    /// # Errors
    /// If it can't be described.
    fn subject(&mut self) -> Result<Subject, Refusal> {
        Ok(Subject::default())
    }

    /// What exactly ran. The driver adds the program.
    ///
    /// # Errors
    /// If it can't be told.
    fn fingerprints(&mut self) -> Result<Fingerprints, Refusal>;
}
