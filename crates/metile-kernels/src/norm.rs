//! RMSNorm and LayerNorm.
//!
//! Three forms of each: `_row`, a row as one tile, read once and kept; `_rows`, several narrow rows
//! as one tile; `_looped`, rows of any width, read twice. A row of width 0 stores nothing.

use crate::shapes::alike;
use metile::KernelCall;
use metile::prelude::*;

/// y = x · weight / √(mean(x²) + eps), along the last axis (Zhang and Sennrich, 2019).
///
/// `x`, `out`: [rows, cols]; `weight`: [cols]; cols ≤ BLOCK. One program per row.
#[kernel]
pub fn rms_norm_row<X: Float, N: Float, const BLOCK: usize>(
    x: &Tensor<X, 2>,
    weight: &Tensor<N, 1>,
    out: &mut Tensor<X, 2>,
    eps: f32,
) {
    let row = program_id(0);
    let cols = x.dim(1);
    assert!(
        cols <= BLOCK && alike(x, out) && weight.dim(0) == cols,
        "out has x's shape, weight its columns, and a row fits a tile"
    );
    let lane = arange(BLOCK);
    let v = x.load((row, lane)).to_f32();
    let scale = rsqrt((v * v).sum() / cols.to_f32() + eps);
    out.store((row, lane), v * scale * weight.load(lane));
}

/// [`rms_norm_row`] for ROWS narrow rows a program.
#[kernel]
pub fn rms_norm_rows<X: Float, N: Float, const ROWS: usize, const BLOCK: usize>(
    x: &Tensor<X, 2>,
    weight: &Tensor<N, 1>,
    out: &mut Tensor<X, 2>,
    eps: f32,
) {
    let first = program_id(0) * ROWS;
    let cols = x.dim(1);
    assert!(
        cols <= BLOCK && alike(x, out) && weight.dim(0) == cols,
        "out has x's shape, weight its columns, and a row fits a tile"
    );
    let v = x.load_tile((first, 0), [ROWS, BLOCK]).to_f32();
    let scale = rsqrt((v * v).sum_along(1) / cols.to_f32() + eps);
    out.store_tile((first, 0), v * scale.expand(1) * weight.load(arange(BLOCK)).expand(0));
}

/// [`rms_norm_row`] for rows of any width, BLOCK columns at a time.
#[kernel]
pub fn rms_norm_looped<X: Float, N: Float, const BLOCK: usize>(
    x: &Tensor<X, 2>,
    weight: &Tensor<N, 1>,
    out: &mut Tensor<X, 2>,
    eps: f32,
) {
    let row = program_id(0);
    let cols = x.dim(1);
    assert!(alike(x, out) && weight.dim(0) == cols, "out has x's shape, weight its columns");
    let mut squares = 0.0;
    for start in tiles(cols, BLOCK) {
        let v = x.load((row, start + arange(BLOCK)));
        squares += (v * v).sum();
    }
    let scale = rsqrt(squares / cols.to_f32() + eps);
    for start in tiles(cols, BLOCK) {
        let at = start + arange(BLOCK);
        out.store((row, at), x.load((row, at)) * scale * weight.load(at));
    }
}

/// RMSNorm of every row: see [`rms_norm_row`]. Rows up to 16,384 wide are one tile.
pub fn rms_norm<'c, X: Float, N: Float>(
    x: &'c Tensor<X, 2>,
    weight: &'c Tensor<N, 1>,
    out: &'c mut Tensor<X, 2>,
    eps: f32,
) -> KernelCall<'c> {
    let [rows, cols] = x.shape();
    match cols {
        0..=256 if rows >= 8 => {
            rms_norm_rows::<X, N, 32, 256>(x, weight, out, eps).grid(rows.div_ceil(32))
        }
        0..=256 => rms_norm_row::<X, N, 256>(x, weight, out, eps).grid(rows),
        257..=1024 => rms_norm_row::<X, N, 1024>(x, weight, out, eps).grid(rows),
        1025..=4096 => rms_norm_row::<X, N, 4096>(x, weight, out, eps).grid(rows),
        4097..=16384 => rms_norm_row::<X, N, 16384>(x, weight, out, eps).grid(rows),
        _ => rms_norm_looped::<X, N, 4096>(x, weight, out, eps).grid(rows),
    }
}

/// x += delta; out = x · weight / √(mean(x²) + eps), along the last axis.
///
/// `x`, `delta`, `out`: [rows, cols]; `weight`: [cols]; cols ≤ BLOCK. One program per row.
#[kernel]
pub fn add_rms_norm_row<N: Float, const BLOCK: usize>(
    x: &mut Tensor<f32, 2>,
    delta: &Tensor<f32, 2>,
    weight: &Tensor<N, 1>,
    out: &mut Tensor<f32, 2>,
    eps: f32,
) {
    let row = program_id(0);
    let cols = x.dim(1);
    assert!(
        cols <= BLOCK && alike(delta, out) && alike(delta, x) && weight.dim(0) == cols,
        "delta and out have x's shape, weight its columns, and a row fits a tile"
    );
    let at = (row, arange(BLOCK));
    let v = x.load(at) + delta.load(at);
    x.store(at, v);
    let scale = rsqrt((v * v).sum() / cols.to_f32() + eps);
    out.store(at, v * scale * weight.load(arange(BLOCK)));
}

/// [`add_rms_norm_row`] for rows of any width, BLOCK columns at a time.
#[kernel]
pub fn add_rms_norm_looped<N: Float, const BLOCK: usize>(
    x: &mut Tensor<f32, 2>,
    delta: &Tensor<f32, 2>,
    weight: &Tensor<N, 1>,
    out: &mut Tensor<f32, 2>,
    eps: f32,
) {
    let row = program_id(0);
    let cols = x.dim(1);
    assert!(
        alike(delta, out) && alike(delta, x) && weight.dim(0) == cols,
        "delta and out have x's shape, weight its columns"
    );
    let mut squares = 0.0;
    for start in tiles(cols, BLOCK) {
        let at = (row, start + arange(BLOCK));
        let v = x.load(at) + delta.load(at);
        x.store(at, v);
        squares += (v * v).sum();
    }
    let scale = rsqrt(squares / cols.to_f32() + eps);
    for start in tiles(cols, BLOCK) {
        let lane = start + arange(BLOCK);
        out.store((row, lane), x.load((row, lane)) * scale * weight.load(lane));
    }
}

/// Residual addition and RMSNorm of every row: see [`add_rms_norm_row`].
pub fn add_rms_norm<'c, N: Float>(
    x: &'c mut Tensor<f32, 2>,
    delta: &'c Tensor<f32, 2>,
    weight: &'c Tensor<N, 1>,
    out: &'c mut Tensor<f32, 2>,
    eps: f32,
) -> KernelCall<'c> {
    let [rows, cols] = x.shape();
    let call = match cols {
        0..=256 => add_rms_norm_row::<N, 256>(x, delta, weight, out, eps),
        257..=1024 => add_rms_norm_row::<N, 1024>(x, delta, weight, out, eps),
        1025..=4096 => add_rms_norm_row::<N, 4096>(x, delta, weight, out, eps),
        4097..=16384 => add_rms_norm_row::<N, 16384>(x, delta, weight, out, eps),
        _ => add_rms_norm_looped::<N, 4096>(x, delta, weight, out, eps),
    };
    call.grid(rows)
}

/// RMSNorm of each head, in place, for rows below state[1] (the query and key norms of Qwen3).
///
/// `x`: [rows, heads, head_dim]; `weight`: [head_dim]; `state`: [2]; head_dim ≤ BLOCK. One program per row,
/// HEADS heads at a time.
#[kernel]
pub fn head_norm_heads<N: Float, const HEADS: usize, const BLOCK: usize>(
    x: &mut Tensor<f32, 3>,
    weight: &Tensor<N, 1>,
    eps: f32,
    state: &Tensor<i64, 1>,
) {
    let row = program_id(0);
    let width = x.dim(2);
    assert!(width <= BLOCK && weight.dim(0) == width, "a head fits a tile, with a weight for each");
    let lane = arange(BLOCK);
    let w = weight.load(lane).to_f32();
    if row < state.load(1) {
        for head in tiles(x.dim(1), HEADS) {
            let at = (row, (head + arange(HEADS)).expand(1), lane.expand(0));
            let v = x.load(at);
            let scale = rsqrt((v * v).sum_along(1) / width.to_f32() + eps);
            x.store(at, v * scale.expand(1) * w.expand(0));
        }
    }
}

/// RMSNorm of each head, in place: see [`head_norm_heads`]. Heads are at most 1,024 wide.
pub fn head_norm<'c, N: Float>(
    x: &'c mut Tensor<f32, 3>,
    weight: &'c Tensor<N, 1>,
    eps: f32,
    state: &'c Tensor<i64, 1>,
) -> KernelCall<'c> {
    let [rows, _, width] = x.shape();
    let call = match width {
        0..=64 => head_norm_heads::<N, 8, 64>(x, weight, eps, state),
        65..=128 => head_norm_heads::<N, 8, 128>(x, weight, eps, state),
        _ => head_norm_heads::<N, 4, 1024>(x, weight, eps, state),
    };
    call.grid(rows)
}

/// y = (x − mean) / √(variance + eps) · weight + bias, along the last axis (Ba, Kiros and Hinton, 2016);
/// the variance is the mean of (x − mean)².
///
/// `x`, `out`: [rows, cols]; `weight`, `bias`: [cols]; cols ≤ BLOCK. One program per row.
#[kernel]
pub fn layer_norm_row<X: Float, N: Float, const BLOCK: usize>(
    x: &Tensor<X, 2>,
    weight: &Tensor<N, 1>,
    bias: &Tensor<N, 1>,
    out: &mut Tensor<X, 2>,
    eps: f32,
) {
    let row = program_id(0);
    let cols = x.dim(1);
    assert!(
        cols <= BLOCK && alike(x, out) && weight.dim(0) == cols && bias.dim(0) == cols,
        "out has x's shape, weight and bias its columns, and a row fits a tile"
    );
    let n = cols.to_f32();
    let lane = arange(BLOCK);
    let v = x.load((row, lane)).to_f32();
    let mean = v.sum() / n;
    let centred = select(lane < cols, v - mean, 0.0);
    let scale = rsqrt((centred * centred).sum() / n + eps);
    out.store((row, lane), fma(centred * scale, weight.load(lane), bias.load(lane)));
}

/// [`layer_norm_row`] for ROWS narrow rows a program.
#[kernel]
pub fn layer_norm_rows<X: Float, N: Float, const ROWS: usize, const BLOCK: usize>(
    x: &Tensor<X, 2>,
    weight: &Tensor<N, 1>,
    bias: &Tensor<N, 1>,
    out: &mut Tensor<X, 2>,
    eps: f32,
) {
    let first = program_id(0) * ROWS;
    let cols = x.dim(1);
    assert!(
        cols <= BLOCK && alike(x, out) && weight.dim(0) == cols && bias.dim(0) == cols,
        "out has x's shape, weight and bias its columns, and a row fits a tile"
    );
    let n = cols.to_f32();
    let lane = arange(BLOCK);
    let v = x.load_tile((first, 0), [ROWS, BLOCK]).to_f32();
    let mean = v.sum_along(1) / n;
    let centred = select((lane < cols).expand(0), v - mean.expand(1), 0.0);
    let scale = rsqrt((centred * centred).sum_along(1) / n + eps);
    let (w, b) = (weight.load(lane).expand(0), bias.load(lane).expand(0));
    out.store_tile((first, 0), fma(centred * scale.expand(1), w, b));
}

/// [`layer_norm_row`] for rows of any width, BLOCK columns at a time.
#[kernel]
pub fn layer_norm_looped<X: Float, N: Float, const BLOCK: usize>(
    x: &Tensor<X, 2>,
    weight: &Tensor<N, 1>,
    bias: &Tensor<N, 1>,
    out: &mut Tensor<X, 2>,
    eps: f32,
) {
    let row = program_id(0);
    let cols = x.dim(1);
    assert!(
        alike(x, out) && weight.dim(0) == cols && bias.dim(0) == cols,
        "out has x's shape, weight and bias its columns"
    );
    let n = cols.to_f32();
    let mut sum = 0.0;
    for start in tiles(cols, BLOCK) {
        sum += x.load((row, start + arange(BLOCK))).sum();
    }
    let mean = sum / n;
    let mut squares = 0.0;
    for start in tiles(cols, BLOCK) {
        let lane = start + arange(BLOCK);
        let centred = select(lane < cols, x.load((row, lane)) - mean, 0.0);
        squares += (centred * centred).sum();
    }
    let scale = rsqrt(squares / n + eps);
    for start in tiles(cols, BLOCK) {
        let lane = start + arange(BLOCK);
        let y = fma((x.load((row, lane)) - mean) * scale, weight.load(lane), bias.load(lane));
        out.store((row, lane), y);
    }
}

/// LayerNorm of every row: see [`layer_norm_row`]. Rows up to 16,384 wide are one tile.
pub fn layer_norm<'c, X: Float, N: Float>(
    x: &'c Tensor<X, 2>,
    weight: &'c Tensor<N, 1>,
    bias: &'c Tensor<N, 1>,
    out: &'c mut Tensor<X, 2>,
    eps: f32,
) -> KernelCall<'c> {
    let [rows, cols] = x.shape();
    match cols {
        0..=256 if rows >= 8 => {
            layer_norm_rows::<X, N, 32, 256>(x, weight, bias, out, eps).grid(rows.div_ceil(32))
        }
        0..=256 => layer_norm_row::<X, N, 256>(x, weight, bias, out, eps).grid(rows),
        257..=1024 => layer_norm_row::<X, N, 1024>(x, weight, bias, out, eps).grid(rows),
        1025..=4096 => layer_norm_row::<X, N, 4096>(x, weight, bias, out, eps).grid(rows),
        4097..=16384 => layer_norm_row::<X, N, 16384>(x, weight, bias, out, eps).grid(rows),
        _ => layer_norm_looped::<X, N, 4096>(x, weight, bias, out, eps).grid(rows),
    }
}
