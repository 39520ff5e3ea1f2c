//! What was compared.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What an arm is in a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Its time is the numerator of ratios.
    Baseline,
    /// Its time is the denominator.
    Candidate,
}

/// What is the same on both sides. Series of different kinds never share a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    /// The same weights in the same format.
    SameWeightsAndFormat,
    /// The same values, stored in another form.
    LosslessWeightStorage,
    /// Other values that take less room.
    Compression,
}

/// Types of a product's factors, of the multiplication and of the sum; and what a probe found of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Precision {
    /// Type of the activations.
    pub input: String,
    /// How weights are stored.
    pub weights: String,
    /// Type that products are formed in, as set.
    pub multiply: String,
    /// Type that they are summed in, as set.
    pub accumulate: String,
    /// Whether reduced precision was permitted.
    pub relaxed: bool,
    /// What the probe of 1,024 ones times 1 + 2⁻¹¹ found to have run: `f32`, `tf32` or `f16`; or why
    /// it was not run.
    pub probed: String,
}

/// How an arm's code came to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Toolchain {
    /// The compiler, with its version: `rustc 1.95.0`, `NVRTC 13.0`.
    pub compiler: String,
    /// How: `ahead_of_time`, `run_time`, `vendor_binary`.
    pub path: String,
}

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    /// Its name in this report.
    pub name: String,
    /// What it is in comparisons.
    pub role: Role,
    /// What it is, in words: the library, the call, the loop around it.
    pub what: String,
    /// Versions by package.
    pub versions: BTreeMap<String, String>,
    /// How its code came to be.
    pub toolchain: Toolchain,
    /// What it computes in.
    pub precision: Precision,
    /// Threads that it may use; absent where that has no meaning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u64>,
    /// The strongest class that it was gated in.
    pub gate: super::gates::GateClass,
    /// Schedules, tiles, math modes, libraries loaded: everything else that was set.
    pub settings: BTreeMap<String, String>,
}
