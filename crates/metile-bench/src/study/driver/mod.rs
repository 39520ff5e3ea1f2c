//! Runs a study: gates, warm-ups, trials in alternating order, checks of every trial, and a report.

mod growth;
mod limits;
mod phase;
mod progress;
#[cfg(test)]
mod tests;

use crate::environment;
use crate::estimate;
use crate::schema::write::{Destination, FileError};
use crate::schema::{
    Arm, Declaration, Failure, Fingerprints, Limits, Phase, Report, SchemaName, Status, Subject,
    VERSION, Verdict,
};
use crate::study::Study;
use crate::study::refusal::{Refusal, rules};
use limits::Speed;
use progress::Progress;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// How a study is run.
pub struct Run<'r> {
    /// Where the report goes.
    pub output: Destination,
    /// What draws inputs and orders.
    pub seed: u64,
    /// The device's name.
    pub device: String,
    /// The options, as a report keeps them.
    pub options: BTreeMap<String, String>,
    /// Becomes true when the run is to end.
    pub interrupted: &'r AtomicBool,
    /// Whether progress is shown on stderr.
    pub progress: bool,
    /// Probes the device's rates: called at the start, and again where a sample seems too fast.
    pub probe: &'r dyn Fn() -> Limits,
}

/// What a run left.
#[derive(Debug)]
pub struct Finished {
    /// The report.
    pub report: Report,
    /// Where it is.
    pub path: PathBuf,
}

/// Why a run left no report.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// Ctrl-C: nothing was written.
    #[error("interrupted; no report was written")]
    Interrupted,
    /// The report can't be written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Where in a study something went wrong.
#[derive(Clone, Debug, Default)]
struct Place {
    phase: String,
    case: String,
    arm: Option<String>,
}

struct Driver<'r> {
    run: Run<'r>,
    declaration: Declaration,
    arms: Vec<Arm>,
    phases: Vec<Phase>,
    place: Place,
    speed: Speed,
    progress: Progress,
}

/// Runs `study` to its end and writes its report; a failure report if something is refused.
///
/// # Errors
/// If it is interrupted, or the report can't be written.
pub fn run(study: &mut dyn Study, run: Run<'_>) -> Result<Finished, DriverError> {
    let created = environment::now();
    let progress = Progress::new(run.progress);
    let speed = Speed::new((run.probe)(), environment::last_cache_bytes());
    let declaration = study.declaration();
    let mut driver = Driver {
        run,
        declaration,
        arms: Vec::new(),
        phases: Vec::new(),
        place: Place::default(),
        speed,
        progress,
    };
    let done = driver.measure(study);
    let failure = match done {
        Ok(()) => None,
        Err(Refusal::Interrupted) => return Err(DriverError::Interrupted),
        Err(refusal) => Some(driver.failure(refusal)),
    };
    // What a failed study can't tell any more is left out of its report, not made up.
    let (subject, fingerprints) = match driver.describe(study) {
        Ok(both) => both,
        Err(_) if failure.is_some() => Default::default(),
        Err(Refusal::Interrupted) => return Err(DriverError::Interrupted),
        Err(refusal) => {
            let failure = driver.failure(refusal);
            return driver.write(
                created,
                Some(failure),
                Subject::default(),
                Fingerprints::default(),
            );
        }
    };
    driver.write(created, failure, subject, fingerprints)
}

impl Driver<'_> {
    fn measure(&mut self, study: &mut dyn Study) -> Result<(), Refusal> {
        self.arms = study.arms()?;
        while let Some(plan) = study.next_phase(&self.phases)? {
            self.phase(study, &plan)?;
        }
        self.check_interrupted()
    }

    fn describe(&self, study: &mut dyn Study) -> Result<(Subject, Fingerprints), Refusal> {
        let subject = study.subject()?;
        let mut fingerprints = study.fingerprints()?;
        fingerprints.program = environment::program();
        Ok((subject, fingerprints))
    }

    fn check_interrupted(&self) -> Result<(), Refusal> {
        if self.run.interrupted.load(Ordering::Relaxed) {
            Err(Refusal::Interrupted)
        } else {
            Ok(())
        }
    }

    /// Discards every timing, and says why.
    fn failure(&mut self, refusal: Refusal) -> Failure {
        let mut discarded = 0;
        for phase in &mut self.phases {
            phase.selection = None;
            phase.overall.clear();
            for case in &mut phase.cases {
                discarded += case.trials.len() as u64;
                case.trials.clear();
                case.warmup_runs.clear();
                case.medians.clear();
                case.summaries.clear();
            }
        }
        let message = refusal.to_string();
        let (rule, arm, first_mismatch) = match refusal {
            Refusal::Rule { rule, arm, mismatch, .. } => (rule, arm, mismatch.map(|m| *m)),
            Refusal::Broken(_) | Refusal::Interrupted => {
                (rules::BROKEN, self.place.arm.clone(), None)
            }
        };
        Failure {
            rule: rule.to_owned(),
            message,
            phase: self.place.phase.clone(),
            case: self.place.case.clone(),
            arm,
            discarded_trials: discarded,
            first_mismatch,
        }
    }

    fn write(
        self,
        created: String,
        failure: Option<Failure>,
        subject: Subject,
        fingerprints: Fingerprints,
    ) -> Result<Finished, DriverError> {
        let verdict = match &failure {
            None => estimate::verdict(&self.phases, &self.declaration.acceptance),
            Some(_) => Verdict { met: None, against: Vec::new() },
        };
        let report = Report {
            schema: SchemaName::MetileReport,
            version: VERSION,
            status: if failure.is_some() { Status::Failed } else { Status::Complete },
            failure,
            declaration: self.declaration,
            options: self.run.options,
            environment: environment::environment(&self.run.device),
            device: self.run.device,
            seed: self.run.seed,
            created,
            arms: self.arms,
            subject,
            phases: self.phases,
            verdict,
            limits: self.speed.limits,
            fingerprints,
        };
        let path = self.run.output.write(&report)?;
        Ok(Finished { report, path })
    }
}
