//! Softmax along the last axis: yᵢ = e^(xᵢ − max x) / Σⱼ e^(xⱼ − max x).
//!
//! A row of only −inf, and one with a NaN or +inf, gives NaN, as 0/0 and inf − inf do. A row of
//! width 0 stores nothing.

use crate::shapes::alike;
use metile::KernelCall;
use metile::prelude::*;

/// Softmax with a row as one tile, read once. `x`, `out`: [rows, cols], cols ≤ BLOCK. One program per row.
#[kernel]
pub fn softmax_row<T: Float, const BLOCK: usize>(x: &Tensor<T, 2>, out: &mut Tensor<T, 2>) {
    let at = (program_id(0), arange(BLOCK));
    assert!(x.dim(1) <= BLOCK && alike(x, out), "out has x's shape, and a row fits a tile");
    let v = x.load_or(at, f32::NEG_INFINITY).to_f32();
    let e = exp(v - v.max());
    out.store(at, e * (1.0 / e.sum()));
}

/// [`softmax_row`] for ROWS narrow rows a program.
#[kernel]
pub fn softmax_rows<T: Float, const ROWS: usize, const BLOCK: usize>(
    x: &Tensor<T, 2>,
    out: &mut Tensor<T, 2>,
) {
    let first = program_id(0) * ROWS;
    assert!(x.dim(1) <= BLOCK && alike(x, out), "out has x's shape, and a row fits a tile");
    let v = x.load_tile_or((first, 0), [ROWS, BLOCK], f32::NEG_INFINITY).to_f32();
    // Rows beyond the last are -inf alone, and are not stored.
    let e = exp(v - v.max_along(1).expand(1));
    out.store_tile((first, 0), e * (1.0 / e.sum_along(1)).expand(1));
}

/// Softmax of rows of any width, BLOCK columns at a time, read twice: maximum and sum in one pass
/// (Milakov and Gimelshein, 2018), the results in another. `x`, `out`: [rows, cols]. One program per row.
#[kernel]
pub fn softmax_online<T: Float, const BLOCK: usize>(x: &Tensor<T, 2>, out: &mut Tensor<T, 2>) {
    let row = program_id(0);
    let cols = x.dim(1);
    assert!(alike(x, out), "out has x's shape");
    let mut peak = f32::NEG_INFINITY;
    let mut total = 0.0;
    for start in tiles(cols, BLOCK) {
        let v = x.load_or((row, start + arange(BLOCK)), f32::NEG_INFINITY).to_f32();
        let next = max(peak, v.max());
        // A row that has had nothing but -inf so far would compute -inf - -inf.
        let base = select(next == f32::NEG_INFINITY, 0.0, next);
        total = total * exp(peak - base) + exp(v - base).sum();
        peak = next;
    }
    let scale = 1.0 / total;
    for start in tiles(cols, BLOCK) {
        let at = (row, start + arange(BLOCK));
        out.store(at, exp(x.load(at) - peak) * scale);
    }
}

/// Softmax of every row: see [`softmax_row`]. Rows up to 16,384 wide are one tile.
pub fn softmax<'c, T: Float>(x: &'c Tensor<T, 2>, out: &'c mut Tensor<T, 2>) -> KernelCall<'c> {
    let [rows, cols] = x.shape();
    match cols {
        0..=256 if rows >= 8 => softmax_rows::<T, 32, 256>(x, out).grid(rows.div_ceil(32)),
        0..=256 => softmax_row::<T, 256>(x, out).grid(rows),
        257..=1024 => softmax_row::<T, 1024>(x, out).grid(rows),
        1025..=4096 => softmax_row::<T, 4096>(x, out).grid(rows),
        4097..=16384 => softmax_row::<T, 16384>(x, out).grid(rows),
        _ => softmax_online::<T, 4096>(x, out).grid(rows),
    }
}
