//! What all kernel studies have in common: fresh inputs, poisoned outputs, the clock, and a verification of what
//! every timed launch left. An arm has no part in any of it: it is told what to compute and when.

mod arm;
mod inputs;
#[cfg(test)]
mod tests;

pub use arm::KernelArm;
pub use inputs::{Fresh, Grid, draw, fresh, refuse_constant};

use crate::fingerprint;
use crate::gate::Differences;
use crate::random::Random;
use crate::schema::{Arm, Declaration, Fingerprints, Gate, GateClass, Phase, Scope};
use crate::study::refusal_rules as rules;
use crate::study::{CasePlan, PhasePlan, Ready, Refusal, Study, Timed, Turn, Verified};
use std::collections::BTreeMap;
use std::time::Instant;

/// An arm of an open case.
pub struct OpenArm {
    /// Its name.
    pub name: String,
    /// The arm.
    pub arm: Box<dyn KernelArm>,
    /// Where the arm rounds, by a name that the oracle knows. Arms of one policy are compared with each other
    /// as well.
    pub policy: &'static str,
    /// Elements may differ from the oracle's by atol + rtol · |expected|.
    pub rtol: f64,
    /// As above.
    pub atol: f64,
}

/// A reference in f64 that is obvious rather than fast.
pub trait Oracle {
    /// A row of the output that fresh `inputs` lead to, under a rounding policy.
    fn row(&self, policy: &str, inputs: &[Vec<f32>], row: usize) -> Vec<f64>;
}

/// Further gates of a workload, given the fresh inputs and each arm's output by name.
pub type FurtherGates =
    Box<dyn FnMut(&[Vec<f32>], &[(String, Vec<f32>)]) -> Result<Vec<Gate>, Refusal>>;

/// A case that is ready to be measured.
pub struct Open {
    /// Inputs that are drawn anew for every trial.
    pub fresh: Vec<Fresh>,
    /// Rows of the output.
    pub rows: usize,
    /// Columns of the output.
    pub cols: usize,
    /// The arms, in the case's order.
    pub arms: Vec<OpenArm>,
    /// The reference.
    pub oracle: Box<dyn Oracle>,
    /// Rows that a gate compares with the oracle; of more the last and random ones.
    pub gate_rows: usize,
    /// Further gates.
    pub further: Option<FurtherGates>,
}

/// A kernel study: what the harness does not know.
pub trait Workload {
    /// The declaration with the numbers of this run.
    fn declaration(&self) -> Declaration;
    /// All arms.
    ///
    /// # Errors
    /// If one can't be described.
    fn arms(&mut self) -> Result<Vec<Arm>, Refusal>;
    /// The cases.
    ///
    /// # Errors
    /// If they can't be planned.
    fn cases(&mut self) -> Result<Vec<CasePlan>, Refusal>;
    /// Makes a case ready.
    ///
    /// # Errors
    /// If that is not possible.
    fn open(&mut self, case: &CasePlan) -> Result<Open, Refusal>;
    /// What exactly ran.
    ///
    /// # Errors
    /// If it can't be told.
    fn fingerprints(&mut self) -> Result<Fingerprints, Refusal>;
}

/// Rows that are compared with the oracle after a trial.
const TRIAL_ROWS: usize = 2;

/// A kernel study as the driver runs it.
pub struct KernelStudy<W> {
    workload: W,
    open: Option<Open>,
    /// Hashes of all inputs of the arms when the case was opened, but for fresh ones.
    inputs: Vec<Vec<f32>>,
    before: Option<String>,
    /// What the runs of a turn left, by series.
    left: Vec<(&'static str, Vec<f32>)>,
    /// Each arm's last output in this pair.
    outputs: Vec<Option<Vec<f32>>>,
}

impl<W: Workload> KernelStudy<W> {
    /// A study of `workload`.
    pub fn new(workload: W) -> KernelStudy<W> {
        KernelStudy {
            workload,
            open: None,
            inputs: Vec::new(),
            before: None,
            left: Vec::new(),
            outputs: Vec::new(),
        }
    }
}

fn opened(open: &mut Option<Open>) -> Result<&mut Open, Refusal> {
    open.as_mut().ok_or_else(|| Refusal::Broken("no case is open".to_owned()))
}

impl Open {
    fn index(&self, arm: &str) -> Result<usize, Refusal> {
        let at = self.arms.iter().position(|a| a.name == arm);
        at.ok_or_else(|| Refusal::Broken(format!("the case has no arm `{arm}`")))
    }

    /// The last row and random ones, in ascending order; all if there are no more.
    fn some_rows(&self, count: usize, random: &mut Random) -> Vec<usize> {
        if self.rows <= count {
            return (0..self.rows).collect();
        }
        let mut rows = vec![self.rows - 1];
        while rows.len() < count {
            rows.push(random.below(self.rows as u64) as usize);
        }
        rows.sort_unstable();
        rows.dedup();
        rows
    }

    /// Differences of an arm's output from the oracle in `rows`. Every other element has to be a number at least.
    fn against_oracle(
        &self,
        n: usize,
        inputs: &[Vec<f32>],
        output: &[f32],
        rows: &[usize],
    ) -> Differences {
        let OpenArm { policy, rtol, atol, .. } = &self.arms[n];
        let mut differences = Differences::within(*rtol, *atol);
        if output.len() != self.rows * self.cols {
            differences.add_all("output", 0, &vec![0.0; self.rows * self.cols], output);
            return differences;
        }
        for &row in rows {
            let first = row * self.cols;
            let expected = self.oracle.row(policy, inputs, row);
            let actual = &output[first..first + self.cols];
            differences.add_all("output", first as u64, &expected, actual);
        }
        if let Some(at) = output.iter().position(|v| v.is_nan()) {
            differences.add(0.0, f64::NAN, || {
                ("output: was it written at all?".to_owned(), vec![at as u64])
            });
        }
        differences
    }

    /// Differences between the outputs of two arms of one policy, within both tolerances together.
    fn between(&self, n: usize, m: usize, left: &[f32], right: &[f32]) -> Option<Differences> {
        let (a, b) = (&self.arms[n], &self.arms[m]);
        (a.policy == b.policy).then(|| {
            let mut differences = Differences::within(a.rtol + b.rtol, a.atol + b.atol);
            let expected: Vec<f64> = left.iter().map(|&v| f64::from(v)).collect();
            differences.add_all("output", 0, &expected, right);
            differences
        })
    }

    /// Runs an arm once over `inputs` and reads its output.
    fn once(&mut self, n: usize, inputs: &[Vec<f32>]) -> Result<Vec<f32>, Refusal> {
        let arm = &mut self.arms[n].arm;
        arm.set_inputs(inputs)?;
        arm.poison()?;
        arm.launch("time", 1)?;
        arm.output()
    }

    /// Refuses an arm whose output takes long to read the first time: work that went on after the clock stopped.
    fn refuse_unfinished(&mut self, n: usize, inputs: &[Vec<f32>]) -> Result<(), Refusal> {
        /// Seconds of work and reading that are enough to tell. Threads that still spin after their work make the first reading slower by a
        /// few milliseconds, however much work there was.
        const ENOUGH: f64 = 16e-3;
        let name = self.arms[n].name.clone();
        let arm = &mut self.arms[n].arm;
        arm.set_inputs(inputs)?;
        let mut launches = 1;
        loop {
            let mut least: Option<(f64, f64)> = None;
            for _ in 0..3 {
                arm.poison()?;
                let start = Instant::now();
                arm.launch("time", launches)?;
                let work = start.elapsed().as_secs_f64();
                let first = seconds_of(|| arm.output())?;
                let again = seconds_of(|| arm.output())?;
                let gap = (first - again).max(0.0);
                if least.is_none_or(|(_, known)| gap < known) {
                    least = Some((work, gap));
                }
            }
            let (work, gap) = least.unwrap_or_default();
            if work + gap >= ENOUGH || launches >= 1024 {
                return match gap > (work / 2.0).max(ENOUGH / 4.0) {
                    false => Ok(()),
                    true => Err(Refusal::rule(
                        rules::UNFINISHED,
                        &name,
                        format!(
                            "{launches} launches returned after {work:.3e} s, and reading the output then \
                             took {gap:.3e} s longer than reading it again"
                        ),
                    )),
                };
            }
            launches *= 4;
        }
    }
}

fn seconds_of<T>(work: impl FnOnce() -> Result<T, Refusal>) -> Result<f64, Refusal> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64())
}

impl<W: Workload> Study for KernelStudy<W> {
    fn declaration(&self) -> Declaration {
        self.workload.declaration()
    }

    fn arms(&mut self) -> Result<Vec<Arm>, Refusal> {
        self.workload.arms()
    }

    fn next_phase(&mut self, done: &[Phase]) -> Result<Option<PhasePlan>, Refusal> {
        if !done.is_empty() {
            return Ok(None);
        }
        let declaration = self.workload.declaration();
        Ok(Some(PhasePlan {
            name: "measurement".to_owned(),
            scope: Scope::Measurement,
            pairs: declaration.pairs,
            warmups: declaration.warmups,
            cases: self.workload.cases()?,
            selection: None,
        }))
    }

    fn open(&mut self, case: &CasePlan) -> Result<(), Refusal> {
        let open = self.workload.open(case)?;
        self.outputs = open.arms.iter().map(|_| None).collect();
        self.open = Some(open);
        Ok(())
    }

    fn gate(&mut self, case: &CasePlan) -> Result<Vec<Gate>, Refusal> {
        let open = opened(&mut self.open)?;
        let mut random = Random::named(0, &["gate", &case.name]);
        let inputs = fresh(&open.fresh, random.next())?;
        let rows = open.some_rows(open.gate_rows, &mut random);
        let mut gates = Vec::new();
        let mut outputs: Vec<(String, Vec<f32>)> = Vec::new();
        for n in 0..open.arms.len() {
            let output = open.once(n, &inputs)?;
            let name = open.arms[n].name.clone();
            let oracle = format!("a reference in float64, rounding: {}", open.arms[n].policy);
            let what = format!("output, {} of {} rows", rows.len(), open.rows);
            let differences = open.against_oracle(n, &inputs, &output, &rows);
            gates.push(differences.gate(&what, GateClass::Outputs, &name, &oracle));
            for (m, (other, theirs)) in outputs.iter().enumerate() {
                if let Some(differences) = open.between(m, n, theirs, &output) {
                    gates.push(differences.gate(
                        "output, all rows",
                        GateClass::Outputs,
                        &name,
                        other,
                    ));
                }
            }
            outputs.push((name, output));
        }
        if let Some(further) = &mut open.further {
            gates.extend(further(&inputs, &outputs)?);
        }
        if gates.iter().all(|gate| gate.passed || !gate.decides) {
            for n in 0..open.arms.len() {
                open.refuse_unfinished(n, &inputs)?;
            }
        }
        Ok(gates)
    }

    fn before(&mut self, _case: &CasePlan, turn: &Turn<'_>) -> Result<Ready, Refusal> {
        let open = opened(&mut self.open)?;
        self.inputs = fresh(&open.fresh, turn.seed)?;
        let n = open.index(turn.arm)?;
        let arm = &mut open.arms[n].arm;
        arm.set_inputs(&self.inputs)?;
        self.before = arm.inputs_sha256()?;
        arm.poison()?;
        let bytes = self.inputs.iter().map(|values| bytemuck::cast_slice(values));
        Ok(Ready { inputs_sha256: fingerprint::of_all(bytes), poisoned: true })
    }

    fn run(&mut self, _case: &CasePlan, turn: &Turn<'_>) -> Result<Timed, Refusal> {
        let open = opened(&mut self.open)?;
        let n = open.index(turn.arm)?;
        let arm = &mut open.arms[n].arm;
        let mut values = BTreeMap::new();
        self.left.clear();
        for &series in &arm.series().to_vec() {
            if !self.left.is_empty() {
                arm.poison()?;
            }
            let start = Instant::now();
            let own = arm.launch(series, turn.launches)?;
            let wall = start.elapsed().as_secs_f64();
            // At once: work that is not done yet is not waited for.
            self.left.push((series, arm.output()?));
            if let Some(own) = own
                && own > wall
            {
                let message =
                    format!("reports {own:.3e} s, of which only {wall:.3e} s passed here");
                return Err(Refusal::rule(rules::TIME, turn.arm, message));
            }
            values.insert(series.to_owned(), own.unwrap_or(wall) / turn.launches as f64);
        }
        Ok(Timed { values })
    }

    fn after(&mut self, _case: &CasePlan, turn: &Turn<'_>) -> Result<Verified, Refusal> {
        let open = opened(&mut self.open)?;
        let n = open.index(turn.arm)?;
        if open.arms[n].arm.inputs_sha256()? != self.before {
            return Err(Refusal::rule(rules::INPUTS, turn.arm, "inputs changed while it ran"));
        }
        let mut random = Random::named(turn.seed, &["rows"]);
        let rows = open.some_rows(TRIAL_ROWS, &mut random);
        let (mut elements, mut written) = (0, 0);
        for (series, output) in self.left.drain(..) {
            let differences = open.against_oracle(n, &self.inputs, &output, &rows);
            if !differences.passed() {
                let message = format!("the output of `{series}` is not what the inputs lead to");
                return Err(match differences.first() {
                    Some(first) => {
                        Refusal::mismatch(rules::OUTPUTS, turn.arm, message, first.clone())
                    }
                    None => Refusal::rule(rules::OUTPUTS, turn.arm, message),
                });
            }
            elements += differences.elements();
            written += output.len() as u64;
            self.outputs[n] = Some(output);
        }
        Ok(Verified {
            counts: BTreeMap::from([
                ("elements".to_owned(), elements),
                ("written_elements".to_owned(), written),
                ("inputs_read_back".to_owned(), u64::from(self.before.is_some())),
            ]),
            output_sequence: None,
        })
    }

    fn after_pair(&mut self, _case: &CasePlan, pair: u64) -> Result<(), Refusal> {
        let open = opened(&mut self.open)?;
        for m in 1..open.arms.len() {
            for n in 0..m {
                let (Some(left), Some(right)) = (&self.outputs[n], &self.outputs[m]) else {
                    continue;
                };
                let Some(differences) = open.between(n, m, left, right) else { continue };
                if let (false, Some(first)) = (differences.passed(), differences.first()) {
                    let message = format!("pair {pair}: differs from `{}`", open.arms[n].name);
                    let arm = &open.arms[m].name;
                    return Err(Refusal::mismatch(rules::OUTPUTS, arm, message, first.clone()));
                }
            }
        }
        self.outputs.iter_mut().for_each(|output| *output = None);
        Ok(())
    }

    fn close(&mut self, _case: &CasePlan) -> Result<(), Refusal> {
        self.open = None;
        Ok(())
    }

    fn fingerprints(&mut self) -> Result<Fingerprints, Refusal> {
        self.workload.fingerprints()
    }
}
