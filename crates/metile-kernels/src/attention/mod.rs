//! Attention over a cache of keys and values, with query heads in groups that share a K/V head
//! (Ainslie et al., 2023), the softmax online (Milakov and Gimelshein, 2018; Dao et al., 2022).
//!
//! Slots of the cache beyond the valid length are never loaded. A row that sees no key gives zeros.

mod decode;
mod prefill;

pub use decode::*;
pub use prefill::*;

use metile::prelude::*;

/// Whether keys and values have one shape.
#[kernel_fn]
fn one_cache<C: Float>(keys: &Tensor<C, 3>, values: &Tensor<C, 3>) -> Tile<bool> {
    keys.dim(0) == values.dim(0) && keys.dim(1) == values.dim(1) && keys.dim(2) == values.dim(2)
}

/// What an online softmax has seen of its rows: the largest score, the sum of e^(score − largest), and the
/// values weighted so.
pub(crate) type Seen = (Tile<f32>, Tile<f32>, Tile<f32>);

/// What was seen before and `scores`, with the `values` they belong to. `scores`: [m, keys], −inf where
/// masked; `values`: [keys, d]. Weights are rounded to `P` where they meet values.
#[kernel_fn]
fn see<P: Float, V: Float>(seen: Seen, scores: Tile<f32>, values: Tile<V>) -> Seen {
    let (peak, total, acc) = seen;
    let next = max(peak, scores.max_along(1));
    // A row that has seen nothing yet would compute -inf - -inf.
    let base = select(next == f32::NEG_INFINITY, 0.0, next);
    let weights = exp(scores - base.expand(1));
    let fade = exp(peak - base);
    let total = total * fade + weights.sum_along(1);
    if size_of::<P>() == 2 {
        // What rounding the weights costs is more than that of a long chain of sums, and one accumulator less leaves registers.
        (next, total, dot_add(weights.to::<P>(), values, acc * fade.expand(1)))
    } else {
        // The sum over these keys first: in one chain with all others it would be off by more.
        (next, total, fma(acc, fade.expand(1), dot(weights.to::<P>(), values)))
    }
}

/// The weighted values over the sum of weights; zeros for rows that saw nothing.
#[kernel_fn]
fn normalized(total: Tile<f32>, acc: Tile<f32>) -> Tile<f32> {
    acc / select(total == 0.0, 1.0, total).expand(1)
}
