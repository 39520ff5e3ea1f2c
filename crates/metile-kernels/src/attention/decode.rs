//! Attention of one new token, split over the keys: parts, then their merge.

use super::{one_cache, see};
use metile::KernelCall;
use metile::prelude::*;

/// What part p of the keys gives each query head: the largest score, the sum of e^(score − largest), and
/// the values weighted so; score(j) = scale · q · k[j].
///
/// The keys are those below state[0] + 1: the cache with the new token in it. Part p has tiles p, p + parts,
/// p + 2·parts, … of BK keys, so that the parts are even at any length; one without keys leaves −inf, 0 and
/// zeros. `q`: [1, heads, head_dim], heads a multiple of kv_heads; `keys`, `values`: [kv_heads, capacity, head_dim]
/// of any float; `peak`, `total`: [heads, parts]; `acc`: [heads, parts, head_dim]; `state`: [2], and state[1] = 0
/// stores nothing. One program per K/V head, part, and GROUP query heads of the K/V head's; head_dim ≤ D.
#[kernel]
pub fn decode_attention_part<C: Float, const GROUP: usize, const BK: usize, const D: usize>(
    q: &Tensor<f32, 3>,
    keys: &Tensor<C, 3>,
    values: &Tensor<C, 3>,
    peak: &mut Tensor<f32, 2>,
    total: &mut Tensor<f32, 2>,
    acc: &mut Tensor<f32, 3>,
    state: &Tensor<i64, 1>,
    scale: f32,
) {
    let (kv, part) = (program_id(0), program_id(1));
    let group = q.dim(1) / keys.dim(0);
    assert!(
        q.dim(2) <= D
            && q.dim(2) == keys.dim(2)
            && q.dim(1) == group * keys.dim(0)
            && one_cache(keys, values),
        "heads have the cache's width, at most that of a tile, and are a multiple of its heads"
    );
    let offset = program_id(2) * GROUP;
    // The heads of this group that this program has, as views: lanes beyond them store nothing.
    let (first, count) = (kv * group + offset, min(group - offset, scalar(GROUP)));
    let queries = q.pick(0, 0).narrow(0, first, count).load_tile((0, 0), [GROUP, D]);
    if state.load(1) > 0 {
        let length = min(state.load(0) + 1, keys.dim(1));
        let k = keys.pick(0, kv).narrow(0, 0, length);
        let v = values.pick(0, kv).narrow(0, 0, length);
        let mut seen = (
            full::<f32, 1>([GROUP], f32::NEG_INFINITY),
            zeros::<f32, 1>([GROUP]),
            zeros::<f32, 2>([GROUP, D]),
        );
        for start in step_range(part * BK, length, peak.dim(1) * BK) {
            let scores = dot(queries, k.load_tile((start, 0), [BK, D]).t()) * scale;
            let valid = (start + arange(BK) < length).expand(0);
            let scores = select(valid, scores, f32::NEG_INFINITY);
            seen = see::<f32, C>(seen, scores, v.load_tile((start, 0), [BK, D]));
        }
        let lanes = arange(GROUP);
        peak.narrow(0, first, count).store((lanes, part), seen.0);
        total.narrow(0, first, count).store((lanes, part), seen.1);
        acc.pick(1, part).narrow(0, first, count).store_tile((0, 0), seen.2);
    }
}

/// The attention of each head, from its parts: Σ acc · e^(peak − largest peak) / Σ total · e^(peak − largest
/// peak). A head that saw no key gives zeros.
///
/// `peak`, `total`: [heads, parts], parts ≤ PARTS; `acc`: [heads, parts, head_dim]; `out`: [1, heads · head_dim];
/// `state`: [2], and state[1] = 0 stores nothing. One program per head; head_dim ≤ D.
#[kernel]
pub fn decode_attention_join<const PARTS: usize, const D: usize>(
    peak: &Tensor<f32, 2>,
    total: &Tensor<f32, 2>,
    acc: &Tensor<f32, 3>,
    out: &mut Tensor<f32, 2>,
    state: &Tensor<i64, 1>,
) {
    let head = program_id(0);
    let width = acc.dim(2);
    assert!(
        width <= D && peak.dim(1) <= PARTS && out.dim(1) == peak.dim(0) * width,
        "out is [1, heads · head_dim], and the parts and a head fit a tile"
    );
    if state.load(1) > 0 {
        let at = (head, arange(PARTS));
        let peaks = peak.load_or(at, f32::NEG_INFINITY);
        let highest = peaks.max();
        let weights = exp(peaks - select(highest == f32::NEG_INFINITY, 0.0, highest));
        let sum = (weights * total.load(at)).sum();
        let parts = acc.pick(0, head).load_tile((0, 0), [PARTS, D]);
        let all = dot(weights.expand(0), parts);
        let place = out.narrow(1, head * width, width);
        place.store_tile((0, 0), all / select(sum == 0.0, 1.0, sum));
    }
}

/// What [`decode_attention_parts`] leaves for [`decode_attention_merge`].
#[derive(Debug)]
pub struct DecodeBuffers {
    /// The largest scores, [heads, parts].
    pub peak: Tensor<f32, 2>,
    /// The sums of weights, [heads, parts].
    pub total: Tensor<f32, 2>,
    /// The weighted values, [heads, parts, head_dim].
    pub acc: Tensor<f32, 3>,
}

/// Keys of a tile: few, so that even a short context is shared out.
const KEYS: usize = 64;

/// Parts of the keys for a cache: at most 16, and no more than it has tiles of 64 keys.
pub fn decode_attention_part_count(capacity: usize) -> usize {
    capacity.div_ceil(KEYS).clamp(1, 16)
}

impl DecodeBuffers {
    /// Buffers for `heads` query heads over a cache of `capacity` slots.
    ///
    /// # Errors
    /// If the device has no room.
    pub fn new(
        device: &Device,
        heads: usize,
        capacity: usize,
        head_dim: usize,
    ) -> Result<Self, metile::TensorError> {
        let parts = decode_attention_part_count(capacity);
        Ok(DecodeBuffers {
            peak: Tensor::zeros(device, [heads, parts])?,
            total: Tensor::zeros(device, [heads, parts])?,
            acc: Tensor::zeros(device, [heads, parts, head_dim])?,
        })
    }
}

/// First stage of the attention of one token: see [`decode_attention_part`].
///
/// Groups of up to 8 query heads are one tile; heads of up to 64, 128 or 256 elements have their own.
pub fn decode_attention_parts<'c, C: Float>(
    q: &'c Tensor<f32, 3>,
    keys: &'c Tensor<C, 3>,
    values: &'c Tensor<C, 3>,
    buffers: &'c mut DecodeBuffers,
    state: &'c Tensor<i64, 1>,
    scale: f32,
) -> KernelCall<'c> {
    let ([_, heads, width], [kv_heads, ..]) = (q.shape(), keys.shape());
    let group = heads / kv_heads.max(1);
    let [_, parts] = buffers.peak.shape();
    let DecodeBuffers { peak, total, acc } = buffers;
    macro_rules! with_group {
        ($($group:literal)*) => {
            match (group, width) {
                $(
                    (..=$group, ..=64) => decode_attention_part::<C, $group, KEYS, 64>(
                        q, keys, values, peak, total, acc, state, scale).grid((kv_heads, parts, 1)),
                    (..=$group, ..=128) => decode_attention_part::<C, $group, KEYS, 128>(
                        q, keys, values, peak, total, acc, state, scale).grid((kv_heads, parts, 1)),
                )*
                _ => decode_attention_part::<C, 8, KEYS, 256>(
                    q, keys, values, peak, total, acc, state, scale)
                    .grid((kv_heads, parts, group.div_ceil(8))),
            }
        };
    }
    with_group!(1 2 3 4 5 6 7 8)
}

/// Second stage: `out`, [1, heads · head_dim], the attention of each head; see [`decode_attention_join`].
pub fn decode_attention_merge<'c>(
    buffers: &'c DecodeBuffers,
    out: &'c mut Tensor<f32, 2>,
    state: &'c Tensor<i64, 1>,
) -> KernelCall<'c> {
    let [heads, _, width] = buffers.acc.shape();
    let DecodeBuffers { peak, total, acc } = buffers;
    let call = match width {
        0..=64 => decode_attention_join::<16, 64>(peak, total, acc, out, state),
        65..=128 => decode_attention_join::<16, 128>(peak, total, acc, out, state),
        _ => decode_attention_join::<16, 256>(peak, total, acc, out, state),
    };
    call.grid(heads)
}
