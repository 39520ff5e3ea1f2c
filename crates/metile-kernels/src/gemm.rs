//! Matrix products with a pointwise epilogue.
//!
//! The epilogue is a type with [`Pointwise`]: one of [`crate::activation`], or one of your own:
//!
//! ```
//! use metile::prelude::*;
//! use metile_kernels::activation::Pointwise;
//! use metile_kernels::gemm::gemm_map;
//!
//! #[kernel_fn]
//! fn saturate(x: Tile<f32>) -> Tile<f32> {
//!     clamp(x, 0.0, 6.0)
//! }
//!
//! struct Saturated;
//! impl Pointwise for Saturated {
//!     fn apply(x: Tile<f32>) -> Tile<f32> {
//!         saturate(x)
//!     }
//! }
//!
//! let device = Device::interpreter();
//! let a = Tensor::from_slice(&device, [1, 2], &[1.0f32, 2.0])?;
//! let b = Tensor::from_slice(&device, [2, 2], &[3.0f32, -3.0, 4.0, 1.0])?;
//! let mut out = Tensor::<f32, 2>::zeros(&device, [1, 2])?;
//! gemm_map::<f32, Saturated>(&a, &b, &mut out, 1.0).prepare(&device)?.launch()?;
//! assert_eq!(out.to_vec()?, [6.0, 0.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::activation::{Identity, Pointwise};
use crate::machine::Machine;
use crate::shapes::{alike, multiplies};
use metile::KernelCall;
use metile::prelude::*;

/// The BM × BN tile of a · b at (row, col), over all of k.
#[kernel_fn]
fn product<T: Float, const BM: usize, const BN: usize, const BK: usize>(
    a: &Tensor<T, 2>,
    b: &Tensor<T, 2>,
    row: i64,
    col: i64,
) -> Tile<f32> {
    let mut acc = zeros::<f32, 2>([BM, BN]);
    for k in tiles(a.dim(1), BK) {
        acc = dot_add(a.load_tile((row, k), [BM, BK]), b.load_tile((k, col), [BK, BN]), acc);
    }
    acc
}

/// out = F(scale · a · b), accumulated in f32 and rounded once.
///
/// `a`: [m, k]; `b`: [k, n]; `out`: [m, n]. Over k = 0 the product is 0. One program per BM × BN of `out`.
#[kernel]
pub fn gemm_tiles<T: Float, F: Pointwise, const BM: usize, const BN: usize, const BK: usize>(
    a: &Tensor<T, 2>,
    b: &Tensor<T, 2>,
    out: &mut Tensor<T, 2>,
    scale: f32,
) {
    assert!(multiplies(a, b, out), "a is [m, k], b is [k, n], out is [m, n]");
    let (row, col) = (program_id(1) * BM, program_id(0) * BN);
    let acc = product::<T, BM, BN, BK>(a, b, row, col);
    out.store_tile((row, col), F::apply(acc * scale));
}

/// out = F(scale · a · b + bias). `bias`: [n]; else as [`gemm_tiles`].
#[kernel]
pub fn gemm_bias_tiles<
    T: Float,
    F: Pointwise,
    const BM: usize,
    const BN: usize,
    const BK: usize,
>(
    a: &Tensor<T, 2>,
    b: &Tensor<T, 2>,
    bias: &Tensor<T, 1>,
    out: &mut Tensor<T, 2>,
    scale: f32,
) {
    assert!(
        multiplies(a, b, out) && bias.dim(0) == out.dim(1),
        "a is [m, k], b is [k, n], bias is [n], out is [m, n]"
    );
    let (row, col) = (program_id(1) * BM, program_id(0) * BN);
    let acc = product::<T, BM, BN, BK>(a, b, row, col);
    let y = acc * scale + bias.load(col + arange(BN)).expand(0);
    out.store_tile((row, col), F::apply(y));
}

/// out = residual + F(scale · a · b). `residual`: [m, n]; else as [`gemm_tiles`].
#[kernel]
pub fn gemm_residual_tiles<
    T: Float,
    F: Pointwise,
    const BM: usize,
    const BN: usize,
    const BK: usize,
>(
    a: &Tensor<T, 2>,
    b: &Tensor<T, 2>,
    residual: &Tensor<T, 2>,
    out: &mut Tensor<T, 2>,
    scale: f32,
) {
    assert!(
        multiplies(a, b, out) && alike(residual, out),
        "a is [m, k], b is [k, n], residual and out are [m, n]"
    );
    let (row, col) = (program_id(1) * BM, program_id(0) * BN);
    let acc = product::<T, BM, BN, BK>(a, b, row, col);
    let y = residual.load_tile((row, col), [BM, BN]) + F::apply(acc * scale);
    out.store_tile((row, col), y);
}

/// out[i] = a[i] · b[i], each accumulated in f32 and rounded once.
///
/// `a`: [batch, m, k]; `b`: [batch, k, n]; `out`: [batch, m, n]. One program per matrix and BM × BN of it.
#[kernel]
pub fn batched_gemm_tiles<T: Float, const BM: usize, const BN: usize, const BK: usize>(
    a: &Tensor<T, 3>,
    b: &Tensor<T, 3>,
    out: &mut Tensor<T, 3>,
) {
    let (row, col, item) = (program_id(1) * BM, program_id(0) * BN, program_id(2));
    assert!(
        a.dim(0) == b.dim(0)
            && a.dim(0) == out.dim(0)
            && a.dim(2) == b.dim(1)
            && a.dim(1) == out.dim(1)
            && b.dim(2) == out.dim(2),
        "a is [batch, m, k], b is [batch, k, n], out is [batch, m, n]"
    );
    let acc = product::<T, BM, BN, BK>(a.pick(0, item), b.pick(0, item), row, col);
    out.pick(0, item).store_tile((row, col), acc);
}

/// The sides. For CPUs large tiles, over which the matrix primitive blocks and packs by itself, but no larger
/// than leaves programs for every core; for GPUs what a block's registers hold.
macro_rules! with_tiles {
    ($machine:expr, [$m:expr, $n:expr $(, $batch:expr)?], $kernel:ident<$($ty:ident),*>($($argument:expr),*)) => {
        match ($machine, $m, $n) {
            (_, 0..=32, 0..=64) => $kernel::<$($ty,)* 32, 64, 64>($($argument),*)
                .grid(($n.div_ceil(64), $m.div_ceil(32) $(, $batch)?)),
            // Fewer large tiles than a GPU has multiprocessors would leave some without work. What no matrix unit multiplies passes
            // through registers in shorter steps.
            (Machine::Gpu, m, n) if m.div_ceil(128) * n.div_ceil(128) < 128 => match size_of::<T>() {
                4 => $kernel::<$($ty,)* 64, 128, 32>($($argument),*)
                    .grid(($n.div_ceil(128), $m.div_ceil(64) $(, $batch)?)),
                _ => $kernel::<$($ty,)* 128, 64, 64>($($argument),*)
                    .grid(($n.div_ceil(64), $m.div_ceil(128) $(, $batch)?)),
            },
            (Machine::Gpu, ..) => match size_of::<T>() {
                4 => $kernel::<$($ty,)* 128, 128, 32>($($argument),*)
                    .grid(($n.div_ceil(128), $m.div_ceil(128) $(, $batch)?)),
                _ => $kernel::<$($ty,)* 128, 128, 64>($($argument),*)
                    .grid(($n.div_ceil(128), $m.div_ceil(128) $(, $batch)?)),
            },
            (_, 0..=511, _) | (_, _, 0..=511) => $kernel::<$($ty,)* 64, 128, 256>($($argument),*)
                .grid(($n.div_ceil(128), $m.div_ceil(64) $(, $batch)?)),
            _ => $kernel::<$($ty,)* 128, 512, 256>($($argument),*)
                .grid(($n.div_ceil(512), $m.div_ceil(128) $(, $batch)?)),
        }
    };
}

/// out = a · b: see [`gemm_tiles`].
pub fn gemm<'c, T: Float>(
    a: &'c Tensor<T, 2>,
    b: &'c Tensor<T, 2>,
    out: &'c mut Tensor<T, 2>,
) -> KernelCall<'c> {
    gemm_map::<T, Identity>(a, b, out, 1.0)
}

/// out = F(scale · a · b): see [`gemm_tiles`].
pub fn gemm_map<'c, T: Float, F: Pointwise>(
    a: &'c Tensor<T, 2>,
    b: &'c Tensor<T, 2>,
    out: &'c mut Tensor<T, 2>,
    scale: f32,
) -> KernelCall<'c> {
    let [m, n] = out.shape();
    with_tiles!(Machine::of(a), [m, n], gemm_tiles < T, F > (a, b, out, scale))
}

/// out = F(scale · a · b + bias): see [`gemm_bias_tiles`].
pub fn gemm_bias<'c, T: Float, F: Pointwise>(
    a: &'c Tensor<T, 2>,
    b: &'c Tensor<T, 2>,
    bias: &'c Tensor<T, 1>,
    out: &'c mut Tensor<T, 2>,
    scale: f32,
) -> KernelCall<'c> {
    let [m, n] = out.shape();
    with_tiles!(Machine::of(a), [m, n], gemm_bias_tiles < T, F > (a, b, bias, out, scale))
}

/// out = residual + F(scale · a · b): see [`gemm_residual_tiles`].
pub fn gemm_residual<'c, T: Float, F: Pointwise>(
    a: &'c Tensor<T, 2>,
    b: &'c Tensor<T, 2>,
    residual: &'c Tensor<T, 2>,
    out: &'c mut Tensor<T, 2>,
    scale: f32,
) -> KernelCall<'c> {
    let [m, n] = out.shape();
    with_tiles!(Machine::of(a), [m, n], gemm_residual_tiles < T, F > (a, b, residual, out, scale))
}

/// out[i] = a[i] · b[i]: see [`batched_gemm_tiles`].
pub fn batched_gemm<'c, T: Float>(
    a: &'c Tensor<T, 3>,
    b: &'c Tensor<T, 3>,
    out: &'c mut Tensor<T, 3>,
) -> KernelCall<'c> {
    let [batch, m, n] = out.shape();
    with_tiles!(Machine::of(a), [m, n, batch], batched_gemm_tiles<T>(a, b, out))
}
