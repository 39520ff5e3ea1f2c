//! The cache of keys and values.

use metile::KernelCall;
use metile::prelude::*;

/// cache[h, state[0] + r, :] = x[r, h, :], for rows r below state[1].
///
/// `x`: [rows, kv_heads, head_dim]; `cache`: [kv_heads, capacity, head_dim] of any float; `state`: [2]. Rows that
/// don't fit the capacity are not stored. One program per head and ROWS rows; head_dim ≤ BLOCK.
#[kernel]
pub fn kv_write_rows<C: Float, const ROWS: usize, const BLOCK: usize>(
    x: &Tensor<f32, 3>,
    cache: &mut Tensor<C, 3>,
    state: &Tensor<i64, 1>,
) {
    let (head, first) = (program_id(0), program_id(1) * ROWS);
    assert!(
        x.dim(2) <= BLOCK && cache.dim(2) == x.dim(2) && x.dim(1) == cache.dim(0),
        "x has the cache's heads, at most as wide as a tile"
    );
    // The slots of this chunk, as far as the cache has them.
    let slots = cache.pick(0, head).narrow(0, state.load(0), min(state.load(1), x.dim(0)));
    slots.store_tile((first, 0), x.pick(1, head).load_tile((first, 0), [ROWS, BLOCK]));
}

/// The chunk's keys, or values, into the cache: see [`kv_write_rows`]. Heads are at most 1,024 wide.
pub fn kv_write<'c, C: Float>(
    x: &'c Tensor<f32, 3>,
    cache: &'c mut Tensor<C, 3>,
    state: &'c Tensor<i64, 1>,
) -> KernelCall<'c> {
    let [rows, heads, width] = x.shape();
    match (rows, width) {
        (0..=1, 0..=128) => kv_write_rows::<C, 1, 128>(x, cache, state).grid((heads, rows)),
        (_, 0..=128) => {
            kv_write_rows::<C, 32, 128>(x, cache, state).grid((heads, rows.div_ceil(32)))
        }
        _ => kv_write_rows::<C, 4, 1024>(x, cache, state).grid((heads, rows.div_ceil(4))),
    }
}
