//! The index of the largest element of each row: in one stage, or for a few long rows in two.

use metile::KernelCall;
use metile::prelude::*;

/// The better of what was found so far and `v`, which starts at index `start`: value and index. A NaN is
/// better than a number, an earlier NaN or equal better than a later one.
#[kernel_fn]
fn better(so_far: (Tile<f32>, Tile<i64>), v: Tile<f32>, start: i64) -> (Tile<f32>, Tile<i64>) {
    let (peak, index) = so_far;
    let found = v.max();
    let take = found > peak || (found != found && peak == peak);
    (select(take, found, peak), select(take, start + v.argmax(), index))
}

/// id[r] = the index of the largest element of x[r, :]: the first NaN, else the first of equals; 0 of nothing.
///
/// `x`: [rows, n]; `id`: [rows]. One program per row, BLOCK columns at a time.
#[kernel]
pub fn argmax_row<X: Float, const BLOCK: usize>(x: &Tensor<X, 2>, id: &mut Tensor<i64, 1>) {
    let row = program_id(0);
    assert!(id.dim(0) == x.dim(0), "id has an element for each row of x");
    let mut best = (f32::NEG_INFINITY, 0usize);
    for start in tiles(x.dim(1), BLOCK) {
        let v = x.load_or((row, start + arange(BLOCK)), f32::NEG_INFINITY).to_f32();
        best = better(best, v, start);
    }
    id.store(row, best.1);
}

/// The index of the largest element of each row, in one stage: see [`argmax_row`].
pub fn argmax<'c, X: Float>(x: &'c Tensor<X, 2>, id: &'c mut Tensor<i64, 1>) -> KernelCall<'c> {
    let [rows, n] = x.shape();
    match n {
        0..=256 => argmax_row::<X, 256>(x, id).grid(rows),
        _ => argmax_row::<X, 4096>(x, id).grid(rows),
    }
}

/// The largest element of each part of each row, and its index in the row.
///
/// `x`: [rows, n]; `best`, `at`: [rows, parts]. Part p has the columns from p · ⌈n / parts⌉ on. The first NaN
/// counts as the largest, else the first of equals. A part without columns has −inf at its start. One program
/// per part and row, BLOCK columns at a time.
#[kernel]
pub fn argmax_parts_blocks<X: Float, const BLOCK: usize>(
    x: &Tensor<X, 2>,
    best: &mut Tensor<f32, 2>,
    at: &mut Tensor<i64, 2>,
) {
    let (part, row) = (program_id(0), program_id(1));
    assert!(best.dim(0) == x.dim(0), "the buffers have a row for each row of x");
    let n = x.dim(1);
    let parts = best.dim(1);
    let span = (n + parts - 1) / parts;
    let first = part * span;
    let columns = x.narrow(1, 0, first + span);
    let mut found = (f32::NEG_INFINITY, first);
    for start in step_range(first, min(first + span, n), BLOCK) {
        let v = columns.load_or((row, start + arange(BLOCK)), f32::NEG_INFINITY).to_f32();
        found = better(found, v, start);
    }
    best.store((row, part), found.0);
    at.store((row, part), found.1);
}

/// id[r] = the `at` of the part with the largest `best`; the first NaN, else the first of equals.
///
/// `best`, `at`: [rows, parts], parts ≤ PARTS; `id`: [rows]. One program per row.
#[kernel]
pub fn argmax_merge_parts<const PARTS: usize>(
    best: &Tensor<f32, 2>,
    at: &Tensor<i64, 2>,
    id: &mut Tensor<i64, 1>,
) {
    let row = program_id(0);
    assert!(
        best.dim(1) <= PARTS && id.dim(0) == best.dim(0),
        "id has an element for each row, and the parts fit a tile"
    );
    let winner = best.load_or((row, arange(PARTS)), f32::NEG_INFINITY).argmax();
    id.store(row, at.load((row, winner)));
}

/// What [`argmax_parts`] leaves for [`argmax_merge`]: the largest of each part, and where it is.
#[derive(Debug)]
pub struct ArgmaxBuffers {
    /// The largest elements, [rows, parts].
    pub best: Tensor<f32, 2>,
    /// Their columns, [rows, parts].
    pub at: Tensor<i64, 2>,
}

impl ArgmaxBuffers {
    /// Buffers for `rows` rows of `n` elements: a part for every 4,096, at most 64.
    ///
    /// # Errors
    /// If the device has no room.
    pub fn new(device: &Device, rows: usize, n: usize) -> Result<Self, metile::TensorError> {
        let parts = n.div_ceil(4096).clamp(1, 64);
        let best = Tensor::zeros(device, [rows, parts])?;
        Ok(ArgmaxBuffers { best, at: Tensor::zeros(device, [rows, parts])? })
    }
}

/// First stage of the index of the largest element of each row: see [`argmax_parts_blocks`].
pub fn argmax_parts<'c, X: Float>(
    x: &'c Tensor<X, 2>,
    buffers: &'c mut ArgmaxBuffers,
) -> KernelCall<'c> {
    let [rows, parts] = buffers.best.shape();
    let (best, at) = (&mut buffers.best, &mut buffers.at);
    match x.shape()[1].div_ceil(parts.max(1)) {
        0..=256 => argmax_parts_blocks::<X, 256>(x, best, at).grid((parts, rows)),
        _ => argmax_parts_blocks::<X, 4096>(x, best, at).grid((parts, rows)),
    }
}

/// Second stage: `id`, [rows], the index of the largest element of each row; 0 if rows have no elements.
pub fn argmax_merge<'c>(buffers: &'c ArgmaxBuffers, id: &'c mut Tensor<i64, 1>) -> KernelCall<'c> {
    let [rows, _] = buffers.best.shape();
    argmax_merge_parts::<64>(&buffers.best, &buffers.at, id).grid(rows)
}
