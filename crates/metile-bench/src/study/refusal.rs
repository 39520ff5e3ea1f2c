//! Why a run is ended.

use crate::schema::Mismatch;

/// Why a run is ended. All but an interruption leave a failure report without timings.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Refusal {
    /// A rule of measuring was broken.
    #[error("{rule}: {message}")]
    Rule {
        /// The rule, by name.
        rule: &'static str,
        /// The arm, where it is one's fault.
        arm: Option<String>,
        /// What happened.
        message: String,
        /// The first wrong element, where that is known.
        mismatch: Option<Box<Mismatch>>,
    },
    /// An arm, a worker or the machine failed.
    #[error("{0}")]
    Broken(String),
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

impl Refusal {
    /// A broken rule.
    pub fn rule(rule: &'static str, arm: &str, message: impl Into<String>) -> Refusal {
        Refusal::Rule { rule, arm: Some(arm.to_owned()), message: message.into(), mismatch: None }
    }

    /// A broken rule with the first wrong element.
    pub fn mismatch(
        rule: &'static str,
        arm: &str,
        message: impl Into<String>,
        mismatch: Mismatch,
    ) -> Refusal {
        let mismatch = Some(Box::new(mismatch));
        Refusal::Rule { rule, arm: Some(arm.to_owned()), message: message.into(), mismatch }
    }
}

/// The rules that a refusal names.
pub mod rules {
    /// A gate that decides did not pass.
    pub const GATE: &str = "gate";
    /// Outputs of a warm-up or trial are not what they must be.
    pub const OUTPUTS: &str = "outputs verified after every trial";
    /// Outputs were not overwritten before a trial.
    pub const POISON: &str = "outputs poisoned before every trial";
    /// Inputs changed while an arm ran, or arms of a pair had different ones.
    pub const INPUTS: &str = "inputs unchanged and the same for all arms";
    /// Inputs whose elements are all alike.
    pub const CONSTANT: &str = "no constant inputs";
    /// A time that is not above 0, or is not there.
    pub const TIME: &str = "times above 0";
    /// More operations a second than the device can do.
    pub const PEAK: &str = "no faster than the probed peak";
    /// More bytes a second than memory gives.
    pub const READ_RATE: &str = "no faster than the probed read rate";
    /// Times that do not grow with the number of launches.
    pub const GROWTH: &str = "times grow with work";
    /// Work that went on after the clock stopped.
    pub const UNFINISHED: &str = "work ends before the clock stops";
    /// An arm failed or a worker ended.
    pub const BROKEN: &str = "every arm runs to its end";
}
