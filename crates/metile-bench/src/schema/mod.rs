//! The report: what a study leaves, in full. `docs/report.schema.json` is made from these types.
//!
//! Medians, ratios, intervals, selections and verdicts follow from the trials, which are all in the report:
//! [`crate::estimate`] computes them, for the writer and for who checks. No number is NaN or infinite: where
//! there is none, a [`Figure`] says why.

mod arms;
mod environment;
mod figure;
mod gates;
mod phases;
mod subject;
pub mod write;

pub use arms::{Arm, Comparison, Precision, Role, Toolchain};
pub use environment::{Conditions, Environment, Fingerprints, Limits};
pub use figure::Figure;
pub use gates::{Gate, GateClass, Mismatch, Tolerance};
pub use phases::{
    Absent, Case, Estimator, Interval, IntervalMethod, Median, Overall, Phase, Selection,
    SelectionRule, Summary, Trial, WarmUp, Work,
};
pub use subject::{
    Checkpoint, Document, FileHash, Geometry, Scope, Sequence, Subject, Unpaired, WeightStorage,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of the schema that this program writes. A change that old readers would misread raises it.
pub const VERSION: u32 = 1;

/// What names the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SchemaName {
    /// This schema.
    #[serde(rename = "metile-report")]
    MetileReport,
}

/// Whether a study ran to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Every gate passed and every trial was run and verified.
    Complete,
    /// Something was refused: there is a failure, and there are no timings.
    Failed,
}

/// Why a run was refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// The rule that was broken, by name.
    pub rule: String,
    /// What happened.
    pub message: String,
    /// The phase.
    pub phase: String,
    /// The case.
    pub case: String,
    /// The arm; absent where all have a part in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arm: Option<String>,
    /// Trials whose timings were discarded, of all phases.
    pub discarded_trials: u64,
    /// The first wrong element, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_mismatch: Option<Mismatch>,
}

/// Whose clock times a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// The host's: dispatch and synchronization are part of it.
    Wall,
    /// The device's own timestamps.
    Device,
}

/// Something that a trial measures. Less is better in all of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    /// Its name: `time`, `ttft`, `decode`, `total`.
    pub name: String,
    /// Its unit: `s`.
    pub unit: String,
    /// Whose clock.
    pub clock: Clock,
    /// Where timing starts and ends, in words.
    pub boundary: String,
}

/// Where timing starts and ends, and what lies within.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Boundary {
    /// When the clock starts.
    pub starts: String,
    /// When it stops.
    pub ends: String,
    /// What is timed.
    pub includes: Vec<String>,
    /// What is not.
    pub excludes: Vec<String>,
}

/// What a result is held to. It decides nothing about whether a report is complete.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Acceptance {
    /// Nothing: the figures are what the study is for.
    None,
    /// Every interval of the metric holds the value.
    IntervalHolds {
        /// The metric.
        metric: String,
        /// The value.
        value: f64,
    },
    /// No case's ratio is below 1 / (1 + part).
    Guard {
        /// The metric.
        metric: String,
        /// The greatest slowdown, as a part.
        part: f64,
    },
    /// The ratio is at least `ratio` in the named series and no case is slower by more than `part`.
    Promotion {
        /// The metric.
        metric: String,
        /// What is to be reached.
        ratio: f64,
        /// The series in which it is.
        series: Vec<String>,
        /// The greatest slowdown elsewhere, as a part.
        part: f64,
    },
}

/// Whether a result met what it was held to. It follows from the summaries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// Whether it did; absent where nothing was asked, or the run failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub met: Option<bool>,
    /// The cases that did not, each with its figure.
    pub against: Vec<String>,
}

/// A study as declared: what is done, in words and numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Declaration {
    /// Its name, as on the command line.
    pub name: String,
    /// A line about it.
    pub title: String,
    /// What is computed, on what.
    pub workload: String,
    /// What is the same on both sides.
    pub comparison: Comparison,
    /// The class of its gates.
    pub gate_class: GateClass,
    /// What the gates check, in words.
    pub gate: String,
    /// The timing boundary.
    pub boundary: Boundary,
    /// What trials measure.
    pub metrics: Vec<Metric>,
    /// Untimed runs of each arm before the first trial.
    pub warmups: u64,
    /// Pairs of each case.
    pub pairs: u64,
    /// How ratios are computed.
    pub estimator: Estimator,
    /// What the result is held to.
    pub acceptance: Acceptance,
    /// What has to be said wherever a result is shown.
    pub disclosures: Vec<String>,
}

/// What a study leaves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// The schema.
    pub schema: SchemaName,
    /// Its version.
    pub version: u32,
    /// Whether the study ran to its end.
    pub status: Status,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// The study, with the numbers of this run.
    pub declaration: Declaration,
    /// Options of this run, all of them, by name.
    pub options: BTreeMap<String, String>,
    /// The device: `cpu`.
    pub device: String,
    /// What draws inputs and the order of arms.
    pub seed: u64,
    /// When it was begun, in UTC (RFC 3339).
    pub created: String,
    /// The arms.
    pub arms: Vec<Arm>,
    /// What was computed on.
    pub subject: Subject,
    /// What was measured.
    pub phases: Vec<Phase>,
    /// Whether the result met what it was held to.
    pub verdict: Verdict,
    /// Probed rates.
    pub limits: Limits,
    /// The machine and its software.
    pub environment: Environment,
    /// What exactly ran.
    pub fingerprints: Fingerprints,
}

/// The JSON Schema of [`Report`], as it lies in `docs/report.schema.json`.
pub fn json_schema() -> String {
    let schema = schemars::schema_for!(Report);
    let mut text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    text.push('\n');
    text
}
