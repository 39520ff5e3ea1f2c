//! Whole models: generation beside MLX-LM, with raw samples.

use super::{Hardware, PrecisionComparison, Software};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A suite of models.
#[derive(Clone, Debug, Deserialize)]
pub struct Suite {
    /// When it was recorded.
    pub recorded_at: String,
    /// Its models.
    pub models: Vec<ModelRun>,
}

/// One model's run.
#[derive(Clone, Debug, Deserialize)]
pub struct ModelRun {
    /// Hub id.
    pub model: String,
    /// How the two series came to be.
    pub comparison_mode: Mode,
    /// The machine.
    pub hardware: Hardware,
    /// Stored medians, of rates, times and paired ratios.
    pub medians: BTreeMap<String, f64>,
    /// Complete generations that confirmed the plan; absent for a fallback.
    pub plan_confirmation: Option<Confirmation>,
    /// What was compared.
    pub precision_comparison: PrecisionComparison,
    /// When.
    pub recorded_at: String,
    /// Raw samples.
    pub samples: Samples,
    /// Versions.
    pub software: Software,
    /// What was verified before timing.
    pub verification: Verification,
    /// What was run.
    pub workload: Workload,
}

impl ModelRun {
    /// The model's name without its owner.
    pub fn short_name(&self) -> &str {
        self.model.rsplit('/').next().unwrap_or(&self.model)
    }

    /// Whether weights have 4 bits.
    pub fn is_4_bit(&self) -> bool {
        self.model.ends_with("-4bit")
    }
}

/// How the two series came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Trials of the arms took turns.
    Alternating,
    /// No plan was better than the framework's own: one series, measured once.
    SharedNativeFallback,
}

/// The samples of both arms, trial by trial.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Samples {
    /// The baseline's.
    #[serde(rename = "MLX")]
    pub mlx: Vec<Sample>,
    /// The candidate's.
    #[serde(rename = "MLX + meTile")]
    pub metile: Vec<Sample>,
}

/// One generation.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct Sample {
    /// Tokens a second after the first.
    pub decode_tokens_per_second: f64,
    /// Seconds of the whole call.
    pub elapsed_seconds: f64,
    /// Prompt tokens a second.
    pub prefill_tokens_per_second: f64,
    /// Seconds to the first token.
    pub time_to_first_token_seconds: f64,
}

impl Sample {
    /// The figure by its stored name.
    pub fn get(&self, name: &str) -> Option<f64> {
        Some(match name {
            "decode_tokens_per_second" => self.decode_tokens_per_second,
            "elapsed_seconds" => self.elapsed_seconds,
            "prefill_tokens_per_second" => self.prefill_tokens_per_second,
            "time_to_first_token_seconds" => self.time_to_first_token_seconds,
            _ => return None,
        })
    }
}

/// Names of a sample's figures.
pub(super) const FIGURES: [&str; 4] = [
    "decode_tokens_per_second",
    "elapsed_seconds",
    "prefill_tokens_per_second",
    "time_to_first_token_seconds",
];

/// A speedup's stored name, the figure that it is of, and whether more of that is better.
pub const SPEEDUPS: [(&str, &str, bool); 4] = [
    ("decode_speedup", "decode_tokens_per_second", true),
    ("prefill_speedup", "prefill_tokens_per_second", true),
    ("ttft_speedup", "time_to_first_token_seconds", false),
    ("end_to_end_speedup", "elapsed_seconds", false),
];

/// Complete generations, in pairs, that a plan was confirmed by.
#[derive(Clone, Debug, Deserialize)]
pub struct Confirmation {
    /// Whether the plan was kept.
    pub accepted: bool,
    /// Medians of the pairs.
    pub medians: BTreeMap<String, f64>,
    /// Speedups of each pair.
    pub pairs: Vec<BTreeMap<String, f64>>,
    /// The least median decode speedup that is accepted.
    pub decode_speedup_floor: f64,
}

/// Errors of the candidate's next-token distribution.
#[derive(Clone, Debug, Deserialize)]
pub struct Verification {
    /// The candidate's next token.
    pub actual_next_token: u64,
    /// The baseline's.
    pub next_token: u64,
    /// Nats.
    pub kl_divergence: f64,
    /// Largest absolute error of a logit.
    pub max_logit_error: f64,
    /// Mean absolute error of a logit.
    pub mean_logit_error: f64,
}

/// What was run.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Workload {
    /// Prompt tokens.
    pub prompt_tokens: u64,
    /// Requested output tokens; how many came is not recorded.
    pub generation_tokens: u64,
    /// Trials of each arm.
    pub trials: u64,
    /// Pairs that confirmed the plan.
    pub confirmation_trials: u64,
    /// The seed.
    pub seed: u64,
}
