//! What was validated, how closely, and where the first difference was.

use super::figure::Figure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How much two arms were held to agree in. Each is weaker than the one before.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum GateClass {
    /// A model's whole state: K/V of every layer, logits and tokens.
    State,
    /// Every element of a kernel's outputs.
    Outputs,
    /// Tokens alone.
    Tokens,
    /// Nothing: times alone, side by side.
    None,
}

/// How far values may differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Tolerance {
    /// |actual − expected| ≤ atol + rtol · |expected|, in every element.
    Combined {
        /// Part of the expected value's magnitude.
        rtol: f64,
        /// Absolute part.
        atol: f64,
    },
    /// The same bits.
    Bitwise,
    /// The same tokens, and as many.
    SameTokens,
    /// Errors against a reference no greater than another arm's own, times a factor.
    OfAnotherArm {
        /// The other arm.
        arm: String,
        /// Factor for the root mean square error.
        rms_factor: f64,
        /// Factor for the largest error.
        max_factor: f64,
    },
    /// Bounds on distributions of the next token.
    Distribution {
        /// Kullback-Leibler divergence, in nats.
        max_kl: f64,
        /// Mean absolute error of a logit.
        mean_abs: f64,
        /// Largest absolute error of a logit.
        max_abs: f64,
    },
}

/// Where two values first differed by more than they may.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mismatch {
    /// What it is an element of, in words: `layer 3, keys, after chunk 2`.
    pub place: String,
    /// Index of the element.
    pub index: Vec<u64>,
    /// What it should be.
    pub expected: Figure,
    /// What it was.
    pub actual: Figure,
}

/// One check of one arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gate {
    /// What is checked, in words.
    pub name: String,
    /// What kind of agreement this is.
    pub class: GateClass,
    /// The arm.
    pub arm: String,
    /// What it is compared with: another arm, or a reference in words.
    pub against: String,
    /// Whether the run depends on it. What is only printed does not decide.
    pub decides: bool,
    /// Whether it passed.
    pub passed: bool,
    /// How far values may differ.
    pub tolerance: Tolerance,
    /// How many of what were compared: `elements`, `layers`, `steps`, `boundaries`, `tokens`.
    pub checked: BTreeMap<String, u64>,
    /// Observed errors: `max_abs`, `max_rel`, `rms`, `of_tolerance` (the largest difference over what was
    /// allowed there; at most 1 passes), and others that the study names.
    pub observed: BTreeMap<String, Figure>,
    /// The first element outside of the tolerance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_mismatch: Option<Mismatch>,
}
