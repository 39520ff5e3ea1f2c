//! Kernels of the library as uses of weights whose format is known only at run time.

use crate::weights::{MatrixUse, PairUse, Vector, VectorUse};
use metile::lang::element::{Float, Q8_0, Weight};
use metile::{KernelCall, Tensor};
use metile_kernels as kernels;

/// Rows as a projection reads them.
#[derive(Clone, Copy)]
pub enum Rows<'c> {
    Dense(&'c Tensor<f32, 2>),
    Blocks(&'c Tensor<Q8_0, 2>),
}

/// Rows gathered by id: `out[r] = table[ids[r]]`.
pub struct Embed<'c> {
    pub ids: &'c Tensor<i64, 1>,
    pub out: &'c mut Tensor<f32, 2>,
    pub state: &'c Tensor<i64, 1>,
}

impl<'c> MatrixUse<'c> for Embed<'c> {
    fn with<W: Weight>(self, table: &'c Tensor<W, 2>) -> KernelCall<'c> {
        kernels::embed(self.ids, table, self.out, self.state)
    }
}

/// `out = x · wᵀ`.
pub struct Project<'c> {
    pub x: Rows<'c>,
    pub out: &'c mut Tensor<f32, 2>,
}

impl<'c> MatrixUse<'c> for Project<'c> {
    fn with<W: Weight>(self, w: &'c Tensor<W, 2>) -> KernelCall<'c> {
        match self.x {
            Rows::Dense(x) => kernels::project(x, w, self.out),
            Rows::Blocks(x) => kernels::project(x, w, self.out),
        }
    }
}

/// `out += x · wᵀ`.
pub struct ProjectAdd<'c> {
    pub x: Rows<'c>,
    pub out: &'c mut Tensor<f32, 2>,
}

impl<'c> MatrixUse<'c> for ProjectAdd<'c> {
    fn with<W: Weight>(self, w: &'c Tensor<W, 2>) -> KernelCall<'c> {
        match self.x {
            Rows::Dense(x) => kernels::project_add(x, w, self.out),
            Rows::Blocks(x) => kernels::project_add(x, w, self.out),
        }
    }
}

/// `out = x · wᵀ + bias`.
pub struct ProjectBias<'c> {
    pub x: Rows<'c>,
    pub bias: &'c Tensor<f32, 1>,
    pub out: &'c mut Tensor<f32, 2>,
}

impl<'c> MatrixUse<'c> for ProjectBias<'c> {
    fn with<W: Weight>(self, w: &'c Tensor<W, 2>) -> KernelCall<'c> {
        match self.x {
            Rows::Dense(x) => kernels::project_bias(x, w, self.bias, self.out),
            Rows::Blocks(x) => kernels::project_bias(x, w, self.bias, self.out),
        }
    }
}

/// `out = silu(x · gateᵀ) · (x · upᵀ)`.
pub struct ProjectSwiglu<'c> {
    pub x: Rows<'c>,
    pub out: &'c mut Tensor<f32, 2>,
}

impl<'c> PairUse<'c> for ProjectSwiglu<'c> {
    fn with<W: Weight>(self, gate: &'c Tensor<W, 2>, up: &'c Tensor<W, 2>) -> KernelCall<'c> {
        match self.x {
            Rows::Dense(x) => kernels::project_swiglu(x, gate, up, self.out),
            Rows::Blocks(x) => kernels::project_swiglu(x, gate, up, self.out),
        }
    }
}

/// RMSNorm of each row.
pub struct Norm<'c> {
    pub x: &'c Tensor<f32, 2>,
    pub out: &'c mut Tensor<f32, 2>,
    pub eps: f32,
}

impl<'c> VectorUse<'c> for Norm<'c> {
    fn with<N: Float>(self, weight: &'c Tensor<N, 1>) -> KernelCall<'c> {
        kernels::rms_norm(self.x, weight, self.out, self.eps)
    }
}

/// RMSNorm of each head, in place.
pub struct HeadNorm<'c> {
    pub x: &'c mut Tensor<f32, 3>,
    pub eps: f32,
    pub state: &'c Tensor<i64, 1>,
}

impl<'c> VectorUse<'c> for HeadNorm<'c> {
    fn with<N: Float>(self, weight: &'c Tensor<N, 1>) -> KernelCall<'c> {
        kernels::head_norm(self.x, weight, self.eps, self.state)
    }
}
