//! What kernels assert of their arguments' shapes. Conditions on extents alone are the same in every program
//! of a launch; a kernel has one assertion for all of them.

use metile::prelude::*;

/// Whether two matrices have one shape.
#[kernel_fn]
pub(crate) fn alike<A: Element, B: Element>(a: &Tensor<A, 2>, b: &mut Tensor<B, 2>) -> Tile<bool> {
    a.dim(0) == b.dim(0) && a.dim(1) == b.dim(1)
}

/// Whether [m, k] by the transposed [n, k] gives [m, n].
#[kernel_fn]
pub(crate) fn projects<A: Element, B: Element>(
    a: &Tensor<A, 2>,
    b: &Tensor<B, 2>,
    out: &mut Tensor<f32, 2>,
) -> Tile<bool> {
    a.dim(1) == b.dim(1) && a.dim(0) == out.dim(0) && b.dim(0) == out.dim(1)
}

/// Whether [m, k] by [k, n] gives [m, n].
#[kernel_fn]
pub(crate) fn multiplies<T: Element>(
    a: &Tensor<T, 2>,
    b: &Tensor<T, 2>,
    out: &mut Tensor<T, 2>,
) -> Tile<bool> {
    a.dim(1) == b.dim(0) && a.dim(0) == out.dim(0) && b.dim(1) == out.dim(1)
}
