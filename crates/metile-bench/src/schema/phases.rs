//! What was measured: phases of cases of trials, and what follows from them.

use super::environment::Conditions;
use super::figure::Figure;
use super::gates::{Gate, GateClass};
use super::subject::Scope;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One run of one arm, timed. Trials are kept in the order in which they ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// Which pair (round, where there are more than two arms) it belongs to, from 0.
    pub pair: u64,
    /// The arm.
    pub arm: String,
    /// What each metric came to, in the metric's unit, for one launch or generation.
    pub values: BTreeMap<String, f64>,
    /// Launches or generations in this sample; values are their mean.
    pub repeats: u64,
    /// SHA-256 of the inputs as they were before; the same for all arms of a pair.
    pub inputs_sha256: String,
    /// Whether outputs were overwritten with NaN before (K/V and logits in studies of models).
    pub poisoned: bool,
    /// Outputs verified after, by kind: `elements`, `tokens`, `cache_entries`.
    pub verified: BTreeMap<String, u64>,
    /// The sequence that was written, by name, in studies of models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_sequence: Option<String>,
}

/// One untimed run of one arm, verified as trials are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WarmUp {
    /// Which round of warm-ups it belongs to, from 0.
    pub round: u64,
    /// The arm.
    pub arm: String,
    /// SHA-256 of the inputs.
    pub inputs_sha256: String,
    /// Outputs verified after, by kind.
    pub verified: BTreeMap<String, u64>,
    /// The sequence that was written, by name, in studies of models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_sequence: Option<String>,
}

/// The bytes and operations of one launch or generation, from which limits follow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// Multiplications and additions; absent where nothing is claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flop: Option<u64>,
    /// Bytes that must be read at least once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distinct_read_bytes: Option<u64>,
    /// Bytes of weights, for the series of effective weight bandwidth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_bytes: Option<u64>,
}

/// An arm that has no part in a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Absent {
    /// The arm.
    pub arm: String,
    /// Why: not installed, no such operation.
    pub reason: String,
}

/// Bounds of an interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    /// How it was computed, by name.
    pub method: IntervalMethod,
    /// How often such an interval holds what it is of, at least.
    pub coverage: f64,
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
}

/// Ways to compute an interval. All are of logarithms of ratios, so that swapping the arms gives the inverse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IntervalMethod {
    /// Order statistics of the paired ratios, by the sign test: of the median ratio, whatever the
    /// distribution.
    SignTest,
    /// Percentiles of the ratio of medians over resampled pairs, drawn by the report's seed.
    PairedBootstrap,
}

/// What a ratio is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Estimator {
    /// The median over pairs of baseline time / candidate time (of two middle ones, the geometric mean).
    MedianOfPairedRatios,
    /// Median baseline time / median candidate time, over the same pairs.
    RatioOfMedians,
}

/// A comparison of two arms in one metric. It follows from the trials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// Arm of the numerator.
    pub baseline: String,
    /// Arm of the denominator.
    pub candidate: String,
    /// The metric.
    pub metric: String,
    /// Pairs that both took part in.
    pub pairs: u64,
    /// How the ratio was computed.
    pub estimator: Estimator,
    /// Above 1.00 favours the candidate.
    pub ratio: Figure,
    /// Bounds of the ratio; absent where there are too few pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
    /// Part of the pairs in which the candidate was better.
    pub win_rate: Figure,
}

/// An arm's median in one metric. It follows from the trials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Median {
    /// The arm.
    pub arm: String,
    /// The metric.
    pub metric: String,
    /// Samples.
    pub samples: u64,
    /// The median, in the metric's unit (of two middle ones, the mean).
    pub value: Figure,
    /// Weight bytes over the median time, a normalization of time; only where the case names weight bytes
    /// and the metric is a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_bytes_per_s: Option<Figure>,
}

/// One point of a workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Its name, unique within the phase.
    pub name: String,
    /// Chart series that it belongs to; series are never pooled.
    pub series: String,
    /// What sets it apart: `rows`, `format`, `chunk`, `prompt_tokens`.
    pub parameters: BTreeMap<String, serde_json::Value>,
    /// Bytes and operations of one launch or generation.
    pub work: Work,
    /// The class that its arms agree in.
    pub gate_class: GateClass,
    /// The arms that took part.
    pub arms: Vec<String>,
    /// The arms that did not.
    pub absent: Vec<Absent>,
    /// Checks, all made before the first timing of the phase.
    pub gates: Vec<Gate>,
    /// Untimed runs of each arm before the first trial.
    pub warmups: u64,
    /// Those runs, in the order in which they ran. None in a failed report.
    pub warmup_runs: Vec<WarmUp>,
    /// Trials, in the order in which they ran. None in a failed report.
    pub trials: Vec<Trial>,
    /// Each arm's medians.
    pub medians: Vec<Median>,
    /// Ratios.
    pub summaries: Vec<Summary>,
}

/// How a case was chosen from those of a tuning phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Selection {
    /// The rule.
    pub rule: SelectionRule,
    /// The arm whose medians decide.
    pub arm: String,
    /// The metric whose medians decide.
    pub metric: String,
    /// The parameter that cases differ in.
    pub parameter: String,
    /// The case that was chosen.
    pub case: String,
}

/// Rules of selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SelectionRule {
    /// The least median; on an exact tie the least value of the parameter.
    LeastMedianThenLeastParameter,
}

/// The geometric mean of several cases' ratios. The cases' own are always beside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Overall {
    /// Series whose cases these are.
    pub series: String,
    /// Arm of the numerator.
    pub baseline: String,
    /// Arm of the denominator.
    pub candidate: String,
    /// The metric.
    pub metric: String,
    /// The cases, by name.
    pub cases: Vec<String>,
    /// The geometric mean of their ratios.
    pub geometric_mean: Figure,
}

/// Cases that are validated together before any of them is timed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// What it may be taken as evidence for.
    pub scope: Scope,
    /// Pairs of each case, as declared.
    pub pairs: u64,
    /// The machine before the first trial; absent if none was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Conditions>,
    /// The machine after the last trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Conditions>,
    /// Its cases.
    pub cases: Vec<Case>,
    /// What was chosen, in a tuning phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection: Option<Selection>,
    /// Means over cases.
    pub overall: Vec<Overall>,
}
