//! Element by element: functions of one tensor, combinations of two.
//!
//! Tensors are matrices; a vector is a matrix of one row.

use crate::activation::{Pointwise, silu};
use crate::shapes::alike;
use metile::KernelCall;
use metile::prelude::*;

/// A combination of two elements. Implement it for a type of your own to give [`combine`] one that the
/// library does not have.
pub trait Combine: 'static {
    /// The combination, of two tiles of one shape.
    fn apply(x: Tile<f32>, y: Tile<f32>) -> Tile<f32>;
}

macro_rules! combinations {
    ($($(#[$doc:meta])* $name:ident: $x:ident, $y:ident => $value:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;
        impl Combine for $name {
            #[track_caller]
            fn apply($x: Tile<f32>, $y: Tile<f32>) -> Tile<f32> {
                $value
            }
        }
    )*};
}
combinations! {
    /// x + y.
    Plus: x, y => x + y;
    /// x − y.
    Minus: x, y => x - y;
    /// x · y.
    Times: x, y => x * y;
    /// x / y.
    Over: x, y => x / y;
    /// The larger; NaN if either is.
    Larger: x, y => max(x, y);
    /// The smaller; NaN if either is.
    Smaller: x, y => min(x, y);
    /// silu(x) · y, the gate of SwiGLU (Shazeer, 2020).
    SiluTimes: x, y => silu(x) * y;
}

/// out = F(x), computed in f32 and rounded once. `x`, `out`: [rows, cols]. One program per ROWS × BLOCK.
#[kernel]
pub fn map_tiles<T: Float, F: Pointwise, const ROWS: usize, const BLOCK: usize>(
    x: &Tensor<T, 2>,
    out: &mut Tensor<T, 2>,
) {
    assert!(alike(x, out), "out has x's shape");
    let at = (program_id(1) * ROWS, program_id(0) * BLOCK);
    out.store_tile(at, F::apply(x.load_tile(at, [ROWS, BLOCK]).to_f32()));
}

/// out = x, rounded to nearest, ties to even, where `U` has fewer bits. `x`, `out`: [rows, cols]. One program per ROWS × BLOCK.
#[kernel]
pub fn convert_tiles<T: Float, U: Float, const ROWS: usize, const BLOCK: usize>(
    x: &Tensor<T, 2>,
    out: &mut Tensor<U, 2>,
) {
    assert!(alike(x, out), "out has x's shape");
    let at = (program_id(1) * ROWS, program_id(0) * BLOCK);
    out.store_tile(at, x.load_tile(at, [ROWS, BLOCK]).to::<U>());
}

/// out = F(x, y), computed in f32 and rounded once. `x`, `y`, `out`: [rows, cols]. One program per ROWS × BLOCK.
#[kernel]
pub fn combine_tiles<T: Float, F: Combine, const ROWS: usize, const BLOCK: usize>(
    x: &Tensor<T, 2>,
    y: &Tensor<T, 2>,
    out: &mut Tensor<T, 2>,
) {
    assert!(alike(x, out) && alike(y, out), "y and out have x's shape");
    let at = (program_id(1) * ROWS, program_id(0) * BLOCK);
    let (a, b) = (x.load_tile(at, [ROWS, BLOCK]), y.load_tile(at, [ROWS, BLOCK]));
    out.store_tile(at, F::apply(a.to_f32(), b.to_f32()));
}

/// out = factor · x. `x`, `out`: [rows, cols]. One program per ROWS × BLOCK.
#[kernel]
pub fn scale_tiles<T: Float, const ROWS: usize, const BLOCK: usize>(
    x: &Tensor<T, 2>,
    out: &mut Tensor<T, 2>,
    factor: f32,
) {
    assert!(alike(x, out), "out has x's shape");
    let at = (program_id(1) * ROWS, program_id(0) * BLOCK);
    out.store_tile(at, x.load_tile(at, [ROWS, BLOCK]) * factor);
}

/// Tiles of about 16,384 elements: many narrow rows, or a piece of a wide one.
macro_rules! with_tiles {
    ($out:expr, $kernel:ident<$($ty:ident),*>($($argument:expr),*)) => {{
        let [rows, cols] = $out.shape();
        match cols {
            0..=256 => $kernel::<$($ty,)* 64, 256>($($argument),*).grid((1, rows.div_ceil(64))),
            257..=4096 => $kernel::<$($ty,)* 4, 4096>($($argument),*).grid((1, rows.div_ceil(4))),
            _ => $kernel::<$($ty,)* 1, 16384>($($argument),*).grid((cols.div_ceil(16384), rows)),
        }
    }};
}

/// out = F(x), as in `map::<_, Relu>(&x, &mut out)`: see [`map_tiles`] and [`crate::activation`].
pub fn map<'c, T: Float, F: Pointwise>(
    x: &'c Tensor<T, 2>,
    out: &'c mut Tensor<T, 2>,
) -> KernelCall<'c> {
    with_tiles!(out, map_tiles < T, F > (x, out))
}

/// out = x in another type, rounded to nearest, ties to even: see [`convert_tiles`].
pub fn convert<'c, T: Float, U: Float>(
    x: &'c Tensor<T, 2>,
    out: &'c mut Tensor<U, 2>,
) -> KernelCall<'c> {
    with_tiles!(out, convert_tiles < T, U > (x, out))
}

/// 2^x, in f32.
#[kernel_fn]
fn power_of_two(x: Tile<f32>) -> Tile<f32> {
    exp2(x)
}

/// 2^x as a [`Pointwise`].
#[derive(Clone, Copy, Debug)]
pub struct Exp2;

impl Pointwise for Exp2 {
    #[track_caller]
    fn apply(x: Tile<f32>) -> Tile<f32> {
        power_of_two(x)
    }
}

/// out = 2^x, element by element: see [`map_tiles`].
pub fn powers_of_two<'c>(x: &'c Tensor<f32, 2>, out: &'c mut Tensor<f32, 2>) -> KernelCall<'c> {
    map::<f32, Exp2>(x, out)
}

/// out = F(x, y), as in `combine::<_, Larger>(&x, &y, &mut out)`: see [`combine_tiles`].
pub fn combine<'c, T: Float, F: Combine>(
    x: &'c Tensor<T, 2>,
    y: &'c Tensor<T, 2>,
    out: &'c mut Tensor<T, 2>,
) -> KernelCall<'c> {
    with_tiles!(out, combine_tiles < T, F > (x, y, out))
}

/// out = x + y: see [`combine_tiles`].
pub fn add<'c, T: Float>(
    x: &'c Tensor<T, 2>,
    y: &'c Tensor<T, 2>,
    out: &'c mut Tensor<T, 2>,
) -> KernelCall<'c> {
    combine::<T, Plus>(x, y, out)
}

/// out = x · y, element by element: see [`combine_tiles`].
pub fn mul<'c, T: Float>(
    x: &'c Tensor<T, 2>,
    y: &'c Tensor<T, 2>,
    out: &'c mut Tensor<T, 2>,
) -> KernelCall<'c> {
    combine::<T, Times>(x, y, out)
}

/// out = silu(gate) · up (SwiGLU): see [`combine_tiles`].
pub fn swiglu<'c, T: Float>(
    gate: &'c Tensor<T, 2>,
    up: &'c Tensor<T, 2>,
    out: &'c mut Tensor<T, 2>,
) -> KernelCall<'c> {
    combine::<T, SiluTimes>(gate, up, out)
}

/// out = factor · x: see [`scale_tiles`].
pub fn scale<'c, T: Float>(
    x: &'c Tensor<T, 2>,
    factor: f32,
    out: &'c mut Tensor<T, 2>,
) -> KernelCall<'c> {
    with_tiles!(out, scale_tiles<T>(x, out, factor))
}
