//! Transposition.

use metile::KernelCall;
use metile::prelude::*;

/// out[j, i] = x[i, j], for every dtype; bits are kept.
///
/// `x`: [m, n]; `out`: [n, m]. One program per SIDE × SIDE.
#[kernel]
pub fn transpose_tiles<T: Dtype, const SIDE: usize>(x: &Tensor<T, 2>, out: &mut Tensor<T, 2>) {
    assert!(x.dim(0) == out.dim(1) && x.dim(1) == out.dim(0), "out has x's sides exchanged");
    let (row, col) = (program_id(1) * SIDE, program_id(0) * SIDE);
    out.store_tile((col, row), x.load_tile((row, col), [SIDE, SIDE]).t());
}

/// out[j, i] = x[i, j]: see [`transpose_tiles`].
pub fn transpose<'c, T: Dtype>(x: &'c Tensor<T, 2>, out: &'c mut Tensor<T, 2>) -> KernelCall<'c> {
    let [m, n] = x.shape();
    transpose_tiles::<T, 64>(x, out).grid((n.div_ceil(64), m.div_ceil(64)))
}
