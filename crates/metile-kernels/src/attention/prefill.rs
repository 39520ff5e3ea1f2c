//! Attention of a chunk of new tokens, causal.

use super::{normalized, one_cache, see};
use crate::machine::Machine;
use metile::KernelCall;
use metile::prelude::*;

/// out[r, h] = Σⱼ softmaxⱼ(scale · q[r, h] · k[j]) · v[j] over keys j ≤ state[0] + r, for rows r below state[1].
///
/// Queries, and each softmax's weights, are rounded to the cache's type; sums are in f32. The chunk's own keys and values are in the
/// cache already. `q`: [rows, heads, head_dim], heads a multiple of
/// kv_heads; `keys`, `values`: [kv_heads, capacity, head_dim] of any float; `out`: [rows, heads · head_dim]; `state`:
/// [2]. One program per K/V head, BQ rows, and GROUP query heads of the K/V head's: these share its keys,
/// so that BQ · GROUP rows meet every tile of BK keys. head_dim ≤ D; EXACT says that heads are D wide and
/// groups GROUP heads, which makes the result one rectangle.
#[kernel]
pub fn prefill_attention_tiles<
    C: Float,
    const EXACT: bool,
    const BQ: usize,
    const GROUP: usize,
    const BK: usize,
    const D: usize,
>(
    q: &Tensor<f32, 3>,
    keys: &Tensor<C, 3>,
    values: &Tensor<C, 3>,
    out: &mut Tensor<f32, 2>,
    state: &Tensor<i64, 1>,
    scale: f32,
) {
    // Later rows see more keys: they start first, and the short programs fill the end.
    let (kv, first) = (program_id(0), (num_programs(1) - 1 - program_id(1)) * BQ);
    let (width, group) = (q.dim(2), q.dim(1) / keys.dim(0));
    assert!(
        width <= D
            && width == keys.dim(2)
            && q.dim(1) == group * keys.dim(0)
            && one_cache(keys, values),
        "heads have the cache's width, at most that of a tile, and are a multiple of its heads"
    );
    assert!(
        out.dim(0) == q.dim(0) && out.dim(1) == q.dim(1) * width,
        "q is [rows, heads, head_dim], out is [rows, heads · head_dim]"
    );
    if EXACT {
        assert!(width == D && group == GROUP, "heads and groups are those of the instance");
    }
    let count = min(state.load(1), q.dim(0));
    if first < count {
        let head = kv * group + program_id(2) * GROUP;
        let rows = first + arange(BQ);
        let past = state.load(0);
        // No row of this program sees a key from here on.
        let length = min(past + min(first + BQ, count), keys.dim(1));
        let k = keys.pick(0, kv).narrow(0, 0, length);
        let v = values.pick(0, kv).narrow(0, 0, length);
        // Queries and weights meet keys and values in the cache's type: so matrix units multiply them.
        let queries = q.load_tile((first, head, 0), [BQ, GROUP, D]).reshape([BQ * GROUP, D]);
        let queries = queries.to::<C>();
        let mut seen = (
            full::<f32, 1>([BQ * GROUP], f32::NEG_INFINITY),
            zeros::<f32, 1>([BQ * GROUP]),
            zeros::<f32, 2>([BQ * GROUP, D]),
        );
        // Whole tiles of keys that every row sees need no mask.
        let open = min(past + first + 1, length) / BK * BK;
        for start in step_range(0, open, BK) {
            let scores = dot(queries, k.load_tile((start, 0), [BK, D]).t()) * scale;
            seen = see::<C, C>(seen, scores, v.load_tile((start, 0), [BK, D]));
        }
        let last = (past + rows).expand(1).broadcast_to([BQ, GROUP]).reshape([BQ * GROUP]);
        for start in step_range(open, length, BK) {
            let column = start + arange(BK);
            let scores = dot(queries, k.load_tile((start, 0), [BK, D]).t()) * scale;
            let visible = column.expand(0) <= last.expand(1) && (column < length).expand(0);
            let scores = select(visible, scores, f32::NEG_INFINITY);
            seen = see::<C, C>(seen, scores, v.load_tile((start, 0), [BK, D]));
        }
        let result = normalized(seen.1, seen.2);
        let valid = out.narrow(0, 0, count);
        if EXACT {
            valid.store_tile((first, head * D), result.reshape([BQ, GROUP * D]));
        } else {
            let by_head = result.reshape([BQ, GROUP, D]);
            for g in 0..GROUP {
                // A head of the next group has an empty place.
                let mine = select(head + g < (kv + 1) * group, width, scalar(0usize));
                let place = valid.narrow(1, (head + g) * width, mine);
                place.store_tile((first, 0), by_head.slice(1, g..g + 1).squeeze(1));
            }
        }
    }
}

/// Causal attention of a chunk: see [`prefill_attention_tiles`].
///
/// Groups of 1 to 8 heads of 64 or 128 elements have their own tiles, of 64 to 128 query rows by 128
/// keys, or 64 on a GPU, where a 16-bit cache meets 128 rows; everything else up to 256 elements takes eight heads at a time.
pub fn prefill_attention<'c, C: Float>(
    q: &'c Tensor<f32, 3>,
    keys: &'c Tensor<C, 3>,
    values: &'c Tensor<C, 3>,
    out: &'c mut Tensor<f32, 2>,
    state: &'c Tensor<i64, 1>,
    scale: f32,
) -> KernelCall<'c> {
    let ([rows, heads, width], [kv_heads, ..]) = (q.shape(), keys.shape());
    let group = heads / kv_heads.max(1);
    // A GPU's registers hold fewer keys.
    let gpu = Machine::of(keys) == Machine::Gpu;
    if gpu && size_of::<C>() == 2 && matches!(width, 64 | 128) && group <= 8 {
        return for_matrix_units(q, keys, values, out, state, scale);
    }
    macro_rules! exact {
        ($($group:literal $bq:literal)*) => {
            match (group, width) {
                $(
                    ($group, 64 | 128) => {
                        let call = match (width, gpu) {
                            (64, false) => prefill_attention_tiles::<C, true, $bq, $group, 128, 64>(
                                q, keys, values, out, state, scale),
                            (64, true) => prefill_attention_tiles::<C, true, $bq, $group, 64, 64>(
                                q, keys, values, out, state, scale),
                            (_, false) => prefill_attention_tiles::<C, true, $bq, $group, 128, 128>(
                                q, keys, values, out, state, scale),
                            (_, true) => prefill_attention_tiles::<C, true, $bq, $group, 64, 128>(
                                q, keys, values, out, state, scale),
                        };
                        call.grid((kv_heads, rows.div_ceil($bq), 1))
                    }
                )*
                (..=4, ..=64) => prefill_attention_tiles::<C, false, 8, 4, 64, 64>(
                    q, keys, values, out, state, scale)
                    .grid((kv_heads, rows.div_ceil(8), 1)),
                _ => prefill_attention_tiles::<C, false, 8, 8, 64, 256>(
                    q, keys, values, out, state, scale)
                    .grid((kv_heads, rows.div_ceil(8), group.div_ceil(8))),
            }
        };
    }
    exact!(1 64 2 32 3 32 4 32 5 16 6 16 7 16 8 16)
}

/// Tiles of 128 query rows, the most that two warpgroups have registers for; groups of 3, 5, 6 or 7 heads leave some of them idle.
fn for_matrix_units<'c, C: Float>(
    q: &'c Tensor<f32, 3>,
    keys: &'c Tensor<C, 3>,
    values: &'c Tensor<C, 3>,
    out: &'c mut Tensor<f32, 2>,
    state: &'c Tensor<i64, 1>,
    scale: f32,
) -> KernelCall<'c> {
    let ([rows, heads, width], [kv_heads, ..]) = (q.shape(), keys.shape());
    macro_rules! tiles {
        ($($exact:literal $group:literal $groups:pat, $bq:literal)*) => {
            match (heads / kv_heads.max(1), width) {
                $(
                    ($groups, 64) => prefill_attention_tiles::<C, $exact, $bq, $group, 64, 64>(
                        q, keys, values, out, state, scale)
                        .grid((kv_heads, rows.div_ceil($bq), 1)),
                    ($groups, _) => prefill_attention_tiles::<C, $exact, $bq, $group, 64, 128>(
                        q, keys, values, out, state, scale)
                        .grid((kv_heads, rows.div_ceil($bq), 1)),
                )*
            }
        };
    }
    tiles!(true 1 0..=1, 128  true 2 2, 64  true 4 4, 32  true 8 8, 16  false 4 3, 32  false 8 _, 16)
}
