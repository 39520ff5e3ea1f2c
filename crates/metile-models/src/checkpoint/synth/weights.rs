//! The values of synthetic weights: random, but such that a model's activations are those of a trained one.

use metile::prelude::bf16;

use super::super::roles::{LayerRole, Role};
use crate::config::ModelConfig;

/// What a tensor's values are drawn from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Distribution {
    mean: f64,
    deviation: f64,
}

/// Standard deviation of the logits.
const LOGITS: f64 = 2.5;
/// Standard deviation of the residual stream behind the last layer.
const STREAM: f64 = 2.0;
/// Standard deviation of an attention score: a query then attends to about n / e^(2.5²) of n keys, as
/// sharply as trained heads do, and attention's part of the stream doesn't fade with length.
const SCORE: f64 = 2.5;
/// Root mean square of silu(a) · b for independent standard normal a and b.
const GATED: f64 = 0.596;
/// Standard deviation of a norm's weights around their mean.
const NORM_SPREAD: f64 = 0.1;
/// Standard deviation of biases.
const BIAS: f64 = 0.5;

impl Distribution {
    /// That of the tensor for `role`. Rows of a normed stream have a mean square of 1, so a projection of
    /// deviation 1/√in keeps it; the two branches of each layer add equal parts to the stream; the
    /// embedding, which is the output projection too, gives the logits their deviation.
    pub(super) fn of(config: &ModelConfig, role: Role) -> Distribution {
        let normal = |mean: f64, deviation: f64| Distribution { mean, deviation };
        let width = config.width as f64;
        let branch = STREAM / (2.0 * config.layers as f64).sqrt();
        let heads = (config.heads * config.head_dim) as f64;
        // Of queries and of keys alike.
        let sharp = SCORE.sqrt();
        let project = 1.0 / width.sqrt();
        let sharp_project = if config.qk_norm { project } else { project * sharp };
        let layer = match role {
            Role::Embedding | Role::Output => return normal(0.0, LOGITS / width.sqrt()),
            Role::OutputNorm => return normal(1.0, NORM_SPREAD),
            // Only GGUF files have them.
            Role::RopeFactors => return normal(1.0, 0.0),
            Role::Layer(_, layer) => layer,
        };
        match layer {
            LayerRole::AttentionNorm | LayerRole::MlpNorm => normal(1.0, NORM_SPREAD),
            LayerRole::QueryNorm | LayerRole::KeyNorm => normal(sharp, NORM_SPREAD),
            LayerRole::Query | LayerRole::Key => normal(0.0, sharp_project),
            LayerRole::Value | LayerRole::Gate | LayerRole::Up => normal(0.0, project),
            LayerRole::QueryBias | LayerRole::KeyBias | LayerRole::ValueBias => normal(0.0, BIAS),
            LayerRole::AttentionOutput => normal(0.0, branch / heads.sqrt()),
            LayerRole::Down => normal(0.0, branch / (GATED * (config.mlp_width as f64).sqrt())),
        }
    }
}

/// A tensor's values, each a function of seed, tensor and place alone, so that any row can be had at
/// any time and no order of writing matters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Generator {
    key: u64,
    distribution: Distribution,
}

impl Generator {
    /// Of tensor `number` of the checkpoint of `seed`.
    pub(super) fn new(seed: u64, number: u64, distribution: Distribution) -> Generator {
        Generator { key: mix(mix(seed) ^ number), distribution }
    }

    /// Elements `first..first + out.len()`, rounded to bf16.
    pub(super) fn fill(&self, first: u64, out: &mut [f32]) {
        let Distribution { mean, deviation } = self.distribution;
        for (place, out) in (first..).zip(out) {
            let value = mean + deviation * near_normal(mix(self.key.wrapping_add(place)));
            *out = bf16::from_f64(value).to_f32();
        }
    }
}

/// Steele, Lea and Flood's SplitMix64 (2014) at state `x`.
fn mix(x: u64) -> u64 {
    let mut z = x.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The sum of the four 16-bit parts of `bits`, shifted and scaled to mean 0 and deviation 1: Irwin and Hall's
/// distribution (1927), normal but for the tails, which end at ±√12. Integers up to the last step, so the
/// same on every machine.
fn near_normal(bits: u64) -> f64 {
    let part = |shift: u32| bits >> shift & 0xFFFF;
    let sum = part(0) + part(16) + part(32) + part(48);
    // Each part has mean (2^16 − 1) / 2 and variance (2^32 − 1) / 12.
    (sum as f64 - 2.0 * 65_535.0) / (4_294_967_295.0f64 / 3.0).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_their_mean_and_deviation_and_fit_bf16() {
        let distribution = Distribution { mean: 1.0, deviation: 0.25 };
        let generator = Generator::new(7, 3, distribution);
        let mut values = vec![0.0; 100_000];
        generator.fill(0, &mut values);
        let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / values.len() as f64;
        let square = |v: f64| (v - mean) * (v - mean);
        let variance = values.iter().map(|&v| square(v.into())).sum::<f64>() / values.len() as f64;
        assert!((mean - 1.0).abs() < 0.005, "{mean}");
        assert!((variance.sqrt() - 0.25).abs() < 0.005, "{variance}");
        assert!(values.iter().all(|v| v.to_bits() & 0xFFFF == 0));
    }

    #[test]
    fn any_place_can_be_had_alone_and_tensors_and_seeds_differ() {
        let distribution = Distribution { mean: 0.0, deviation: 1.0 };
        let values = |seed, number, first, count| {
            let mut out = vec![0.0; count];
            Generator::new(seed, number, distribution).fill(first, &mut out);
            out
        };
        let whole = values(1, 2, 0, 64);
        assert_eq!(values(1, 2, 40, 24), whole[40..]);
        assert_ne!(values(1, 3, 0, 64), whole);
        assert_ne!(values(2, 2, 0, 64), whole);
    }
}
