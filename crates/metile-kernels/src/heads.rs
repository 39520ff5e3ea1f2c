//! Heads of a chunk's queries, keys and values on their way to attention, in one launch: what [`head_norm`](crate::norm::head_norm),
//! [`rope`](crate::rope::rope) and [`kv_write`](crate::cache::kv_write) do one after the other.

use crate::rope::RopeStyle;
use metile::KernelCall;
use metile::prelude::*;

/// The pairs (a, b) of a head of `width` elements, normed if NORM, turned by `position`'s angles.
///
/// `a`, `b`: [HALF], zeros beyond the last pair; `weight`: [width], read if NORM; `frequencies`: [width / 2].
#[kernel_fn]
fn turned<const NORM: bool, const INTERLEAVED: bool, const HALF: usize>(
    a: Tile<f32>,
    b: Tile<f32>,
    weight: &Tensor<f32, 1>,
    frequencies: &Tensor<f32, 1>,
    position: i64,
    eps: f32,
) -> (Tile<f32>, Tile<f32>) {
    let half = frequencies.dim(0);
    let lane = arange(HALF);
    let angle = position.to_f32() * frequencies.load(lane);
    let (c, s) = (cos(angle), sin(angle));
    if NORM {
        let scale = rsqrt(((a * a).sum() + (b * b).sum()) / (half * 2).to_f32() + eps);
        let first = if INTERLEAVED { weight } else { weight.narrow(0, 0, half) };
        let second = if INTERLEAVED { weight } else { weight.narrow(0, half, half) };
        let (at_a, at_b) = if INTERLEAVED { (lane * 2, lane * 2 + 1) } else { (lane, lane) };
        let (a, b) = (a * scale * first.load(at_a), b * scale * second.load(at_b));
        (a * c - b * s, b * c + a * s)
    } else {
        (a * c - b * s, b * c + a * s)
    }
}

/// Queries are normed and turned in place; keys are normed, turned and written to their cache, values written to theirs; for rows r
/// below state[1].
///
/// q[r, h] = turn(norm(q[r, h]), state[0] + r); key_cache[h, state[0] + r] = turn(norm(k[r, h]), state[0] + r);
/// value_cache[h, state[0] + r] = v[r, h], where the norm, if NORM, is an RMSNorm of each head (`query_norm`, `key_norm`: [head_dim], not
/// read otherwise), and turning is that of [`rope_heads`](crate::rope::rope_heads) with head_dim = 2 · half. `queries`: [rows, heads,
/// head_dim]; `keys`, `values`: [rows, kv_heads, head_dim]; `frequencies`: [half], half ≤ HALF; caches: [kv_heads,
/// capacity, head_dim] of any float, and rows that don't fit are not stored; `state`: [2]. One program per row and head: those of queries, from
/// head `first` on, then of keys, then of values.
#[kernel]
pub fn ready_heads_rows<C: Float, const NORM: bool, const INTERLEAVED: bool, const HALF: usize>(
    queries: &mut Tensor<f32, 3>,
    keys: &Tensor<f32, 3>,
    values: &Tensor<f32, 3>,
    query_norm: &Tensor<f32, 1>,
    key_norm: &Tensor<f32, 1>,
    frequencies: &Tensor<f32, 1>,
    key_cache: &mut Tensor<C, 3>,
    value_cache: &mut Tensor<C, 3>,
    state: &Tensor<i64, 1>,
    eps: f32,
    first: i64,
) {
    let (slot, row) = (first + program_id(0), program_id(1));
    let (heads, kv_heads, width) = (queries.dim(1), keys.dim(1), queries.dim(2));
    let half = frequencies.dim(0);
    assert!(
        half <= HALF && half * 2 == width && keys.dim(2) == width && values.dim(2) == width,
        "heads are twice as wide as there are frequencies, which fit a tile"
    );
    assert!(
        key_cache.dim(2) == width
            && value_cache.dim(2) == width
            && key_cache.dim(0) == kv_heads
            && value_cache.dim(0) == kv_heads
            && values.dim(1) == kv_heads,
        "the caches have the heads of keys and values"
    );
    if NORM {
        assert!(
            query_norm.dim(0) == width && key_norm.dim(0) == width,
            "norms have a weight for each element of a head"
        );
    }
    if row < state.load(1) {
        let lane = arange(HALF);
        let position = state.load(0) + row;
        let (at_a, at_b) = if INTERLEAVED { (lane * 2, lane * 2 + 1) } else { (lane, lane) };
        if slot < heads {
            let x = queries.pick(0, row).pick(0, slot);
            // Views end at the last pair, so that lanes beyond it touch nothing.
            let first = if INTERLEAVED { x } else { x.narrow(0, 0, half) };
            let second = if INTERLEAVED { x } else { x.narrow(0, half, half) };
            let (a, b) = turned::<NORM, INTERLEAVED, HALF>(
                first.load(at_a),
                second.load(at_b),
                query_norm,
                frequencies,
                position,
                eps,
            );
            first.store(at_a, a);
            second.store(at_b, b);
        } else if slot < heads + kv_heads {
            let x = keys.pick(0, row).pick(0, slot - heads);
            let first = if INTERLEAVED { x } else { x.narrow(0, 0, half) };
            let second = if INTERLEAVED { x } else { x.narrow(0, half, half) };
            let (a, b) = turned::<NORM, INTERLEAVED, HALF>(
                first.load(at_a),
                second.load(at_b),
                key_norm,
                frequencies,
                position,
                eps,
            );
            let place = key_cache.pick(0, slot - heads);
            let first = if INTERLEAVED { place } else { place.narrow(1, 0, half) };
            let second = if INTERLEAVED { place } else { place.narrow(1, half, half) };
            first.store((position, at_a), a);
            second.store((position, at_b), b);
        } else {
            let head = slot - heads - kv_heads;
            let x = values.pick(0, row).pick(0, head);
            let wide = arange(HALF * 2);
            value_cache.pick(0, head).store((position, wide), x.load(wide));
        }
    }
}

/// A chunk's heads before attention.
#[derive(Debug)]
pub struct Heads<'c> {
    /// [rows, heads, head_dim].
    pub queries: &'c mut Tensor<f32, 3>,
    /// [rows, kv_heads, head_dim].
    pub keys: &'c Tensor<f32, 3>,
    /// [rows, kv_heads, head_dim].
    pub values: &'c Tensor<f32, 3>,
    /// Weights of the norms of queries and keys, [head_dim] each, for models that have such.
    pub norms: Option<[&'c Tensor<f32, 1>; 2]>,
    /// [head_dim / 2].
    pub frequencies: &'c Tensor<f32, 1>,
    /// Which elements turn together.
    pub style: RopeStyle,
}

/// Heads of a chunk made ready for attention, keys and values in their caches: see [`ready_heads_rows`]. Without
/// `with_queries`, queries stay as they are. At most 512 frequencies.
pub fn ready_heads<'c, C: Float>(
    heads: Heads<'c>,
    key_cache: &'c mut Tensor<C, 3>,
    value_cache: &'c mut Tensor<C, 3>,
    state: &'c Tensor<i64, 1>,
    eps: f32,
    with_queries: bool,
) -> KernelCall<'c> {
    let Heads { queries, keys, values, norms, frequencies, style } = heads;
    let ([rows, count, _], [_, kv_heads, _]) = (queries.shape(), keys.shape());
    let first = if with_queries { 0 } else { count };
    let programs = count - first + 2 * kv_heads;
    let [half] = frequencies.shape();
    let [q_norm, k_norm] = norms.unwrap_or([frequencies; 2]);
    macro_rules! instances {
        ($($norm:literal $interleaved:literal $style:pat, $($half:literal)*;)*) => {
            match (norms.is_some(), style, half) {
                $($(
                    ($norm, $style, 0..=$half) => {
                        ready_heads_rows::<C, $norm, $interleaved, $half>(
                            queries, keys, values, q_norm, k_norm, frequencies, key_cache,
                            value_cache, state, eps, first as i64,
                        )
                    }
                )*)*
                _ => ready_heads_rows::<C, false, false, 512>(
                    queries, keys, values, q_norm, k_norm, frequencies, key_cache, value_cache,
                    state, eps, first as i64,
                ),
            }
        };
    }
    let call = instances! {
        false false RopeStyle::Split, 32 64;
        false true RopeStyle::Interleaved, 32 64 512;
        true false RopeStyle::Split, 32 64 512;
        true true RopeStyle::Interleaved, 32 64 512;
    };
    call.grid((programs, rows))
}
