//! The frequencies of rotary position embeddings.

use std::f64::consts::TAU;

use crate::config::{ModelConfig, RopeScaling};

/// The angle per position of each pair, `[head_dim / 2]`, in radians: `theta^(-2i / head_dim)`, then
/// stretched as the configuration says, then divided by the checkpoint's own `factors` (one per pair,
/// the tensor `rope_freqs.weight` of GGUF files).
///
/// The `Llama3` stretching is that of Llama 3.1's reference code: with wave length `w = 2π / f`, `f`
/// is kept where `w < original / high`, divided by `factor` where `w > original / low`, and in between
/// blended by `s = (original / w - low) / (high - low)` as `(1 - s) f / factor + s f`.
///
/// Factors beyond the pairs are not used; [`crate::checkpoint::Checkpoint::open`] checks their number.
pub fn frequencies(config: &ModelConfig, factors: Option<&[f32]>) -> Vec<f32> {
    let mut factors = factors.unwrap_or_default().iter();
    let frequency = |pair: usize| {
        let plain = config.rope.theta.powf(-2.0 * pair as f64 / config.head_dim as f64);
        let stretched = stretch(plain, config.rope.scaling);
        (stretched / factors.next().map_or(1.0, |&factor| f64::from(factor))) as f32
    };
    (0..config.head_dim / 2).map(frequency).collect()
}

/// The exponents of two whose powers are the frequencies of a model that does not scale them, `[head_dim / 2]`:
/// `-i / (head_dim / 2) · log2(theta)`, every step in f32.
pub fn exponents(config: &ModelConfig) -> Vec<f32> {
    let pairs = config.head_dim / 2;
    let base = (config.rope.theta as f32).log2();
    (0..pairs).map(|pair| -(pair as f32 / pairs as f32) * base).collect()
}

fn stretch(frequency: f64, scaling: RopeScaling) -> f64 {
    match scaling {
        RopeScaling::None => frequency,
        RopeScaling::Linear { factor } => frequency / factor,
        RopeScaling::Llama3 { factor, low, high, original_context } => {
            let turns = original_context as f64 * frequency / TAU;
            if turns > high {
                frequency
            } else if turns < low {
                frequency / factor
            } else {
                let kept = (turns - low) / (high - low);
                (1.0 - kept) * frequency / factor + kept * frequency
            }
        }
    }
}
