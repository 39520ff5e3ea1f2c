//! Functions applied element by element: as helpers for kernels, and as types that kernels with a
//! pointwise step take as a parameter.

use metile::prelude::*;

/// x · sigmoid(x).
#[kernel_fn]
pub fn silu(x: Tile<f32>) -> Tile<f32> {
    x * sigmoid(x)
}

/// GELU, exact: x · (1 + erf(x/√2)) / 2.
#[kernel_fn]
pub fn gelu_erf(x: Tile<f32>) -> Tile<f32> {
    0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2))
}

/// GELU's usual approximation: x · (1 + tanh(√(2/π) · (x + 0.044715 x³))) / 2.
///
/// It is computed as x · sigmoid(2u), which is the same function of u = √(2/π) · (x + 0.044715 x³).
#[kernel_fn]
pub fn gelu_tanh(x: Tile<f32>) -> Tile<f32> {
    // 2·√(2/π)
    let u = 1.595_769_1 * x * fma(0.044_715 * x, x, 1.0);
    x * sigmoid(u)
}

/// max(x, 0); NaN stays NaN.
#[kernel_fn]
pub fn relu(x: Tile<f32>) -> Tile<f32> {
    max(x, 0.0)
}

/// A function applied to each element. Implement it for a type of your own to give a kernel such as
/// [`gemm`](crate::gemm::gemm_map) an epilogue that the library does not have.
pub trait Pointwise: 'static {
    /// The function, on a tile of any shape.
    fn apply(x: Tile<f32>) -> Tile<f32>;
}

macro_rules! pointwise {
    ($($(#[$doc:meta])* $name:ident: $x:ident => $value:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;
        impl Pointwise for $name {
            #[track_caller]
            fn apply($x: Tile<f32>) -> Tile<f32> {
                $value
            }
        }
    )*};
}
pointwise! {
    /// x itself.
    Identity: x => x;
    /// −x.
    Negate: x => -x;
    /// |x|.
    Magnitude: x => abs(x);
    /// max(x, 0); NaN stays NaN.
    Relu: x => relu(x);
    /// [`gelu_tanh`].
    GeluTanh: x => gelu_tanh(x);
    /// [`gelu_erf`].
    GeluErf: x => gelu_erf(x);
    /// [`silu`].
    Silu: x => silu(x);
    /// 1 / (1 + e^−x).
    Sigmoid: x => sigmoid(x);
    /// Hyperbolic tangent.
    Tanh: x => tanh(x);
    /// e^x.
    Exp: x => exp(x);
    /// Natural logarithm; −inf at 0, NaN below.
    Log: x => log(x);
    /// √x; NaN below 0.
    SquareRoot: x => sqrt(x);
    /// x².
    Square: x => x * x;
}
