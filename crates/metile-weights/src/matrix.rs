//! Weight matrices.

use metile::lang::tensor::Allocate;
use metile::prelude::*;
use metile::{KernelCall, TensorError};
use metile_ir::Format;
use metile_kernels as kernels;

/// Rows in a 16-bit type, `[rows, in]`.
#[derive(Clone, Copy, Debug)]
pub enum SixteenBit<'c> {
    /// IEEE binary16.
    F16(&'c Tensor<f16, 2>),
    /// bfloat16.
    BF16(&'c Tensor<bf16, 2>),
}

/// The rows that a projection reads: dense, and perhaps quantized as well. The quantized ones are read
/// where the weights are GGUF blocks, those in 16 bits where the weights have their type.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'c> {
    /// `[rows, in]`.
    pub dense: &'c Tensor<f32, 2>,
    /// The same, as [`metile_kernels::quantize_q8`] leaves them.
    pub blocks: Option<&'c Tensor<Q8_0, 2>>,
    /// The same, rounded.
    pub rounded: Option<SixteenBit<'c>>,
}

impl<'c> Rows<'c> {
    /// Dense rows alone.
    pub fn dense(dense: &'c Tensor<f32, 2>) -> Rows<'c> {
        Rows { dense, blocks: None, rounded: None }
    }
}

macro_rules! matrix {
    (
        dense { $($(#[$dense_doc:meta])* $dense:ident($dense_ty:ty);)* }
        blocks { $($(#[$block_doc:meta])* $block:ident($block_ty:ty);)* }
    ) => {
        /// A weight matrix `[out, in]`.
        #[derive(Debug)]
        pub enum Matrix {
            $($(#[$dense_doc])* $dense(Tensor<$dense_ty, 2>),)*
            $($(#[$block_doc])* $block(Tensor<$block_ty, 2>),)*
        }

        impl Matrix {
            /// A matrix of `format` and `shape` on `device`, from the bytes of its arrays (one; for
            /// affine formats packed integers, scales and biases). `None` if weights can't have
            /// this format.
            ///
            /// # Errors
            /// If the bytes don't fit the shape, or the device has no room.
            pub fn new(
                device: &impl Allocate,
                format: Format,
                shape: [usize; 2],
                arrays: &[&[u8]],
            ) -> Result<Option<Matrix>, TensorError> {
                $(if format == <$dense_ty as Element>::FORMAT {
                    return Ok(Some(Matrix::$dense(Tensor::from_bytes(device, shape, arrays)?)));
                })*
                $(if format == <$block_ty as Element>::FORMAT {
                    return Ok(Some(Matrix::$block(Tensor::from_bytes(device, shape, arrays)?)));
                })*
                Ok(None)
            }

            /// How the weights are stored.
            pub fn format(&self) -> Format {
                match self {
                    $(Matrix::$dense(_) => <$dense_ty as Element>::FORMAT,)*
                    $(Matrix::$block(_) => <$block_ty as Element>::FORMAT,)*
                }
            }

            /// Whether the weights are GGUF blocks, which meet quantized rows.
            pub fn is_blocks(&self) -> bool {
                match self {
                    $(Matrix::$dense(_) => false,)*
                    $(Matrix::$block(_) => true,)*
                }
            }

            /// Rows picked by id, as [`kernels::embed`] does.
            pub fn embed<'c>(
                &'c self,
                ids: &'c Tensor<i64, 1>,
                out: &'c mut Tensor<f32, 2>,
                state: &'c Tensor<i64, 1>,
            ) -> KernelCall<'c> {
                match self {
                    $(Matrix::$dense(table) => kernels::embed(ids, table, out, state),)*
                    $(Matrix::$block(table) => kernels::embed(ids, table, out, state),)*
                }
            }

            /// `out = x · wᵀ`.
            pub fn project<'c>(
                &'c self,
                x: Rows<'c>,
                out: &'c mut Tensor<f32, 2>,
            ) -> KernelCall<'c> {
                use SixteenBit as S;
                match (self, x.rounded, x.blocks) {
                    (Matrix::F16(w), Some(S::F16(x)), _) => kernels::project_matched(x, w, out),
                    (Matrix::BF16(w), Some(S::BF16(x)), _) => kernels::project_matched(x, w, out),
                    $((Matrix::$block(w), _, Some(blocks)) => kernels::project(blocks, w, out),)*
                    $((Matrix::$block(w), _, None) => kernels::project(x.dense, w, out),)*
                    $((Matrix::$dense(w), ..) => kernels::project(x.dense, w, out),)*
                }
            }

            /// `out += x · wᵀ`.
            pub fn project_add<'c>(
                &'c self,
                x: Rows<'c>,
                out: &'c mut Tensor<f32, 2>,
            ) -> KernelCall<'c> {
                use SixteenBit as S;
                match (self, x.rounded, x.blocks) {
                    (Matrix::F16(w), Some(S::F16(x)), _) => kernels::project_add_matched(x, w, out),
                    (Matrix::BF16(w), Some(S::BF16(x)), _) => {
                        kernels::project_add_matched(x, w, out)
                    }
                    $((Matrix::$block(w), _, Some(blocks)) => {
                        kernels::project_add(blocks, w, out)
                    })*
                    $((Matrix::$block(w), _, None) => kernels::project_add(x.dense, w, out),)*
                    $((Matrix::$dense(w), ..) => kernels::project_add(x.dense, w, out),)*
                }
            }

            /// `out = x · wᵀ + bias`.
            pub fn project_bias<'c>(
                &'c self,
                x: Rows<'c>,
                bias: &'c Tensor<f32, 1>,
                out: &'c mut Tensor<f32, 2>,
            ) -> KernelCall<'c> {
                use SixteenBit as S;
                match (self, x.rounded, x.blocks) {
                    (Matrix::F16(w), Some(S::F16(x)), _) => {
                        kernels::project_bias_matched(x, w, bias, out)
                    }
                    (Matrix::BF16(w), Some(S::BF16(x)), _) => {
                        kernels::project_bias_matched(x, w, bias, out)
                    }
                    $((Matrix::$block(w), _, Some(blocks)) => {
                        kernels::project_bias(blocks, w, bias, out)
                    })*
                    $((Matrix::$block(w), _, None) => {
                        kernels::project_bias(x.dense, w, bias, out)
                    })*
                    $((Matrix::$dense(w), ..) => kernels::project_bias(x.dense, w, bias, out),)*
                }
            }

            /// `out = silu(x · gateᵀ) · (x · upᵀ)` with `self` as the gate, or `None` if the two have
            /// different formats: one kernel reads one.
            pub fn project_swiglu<'c>(
                &'c self,
                up: &'c Matrix,
                x: Rows<'c>,
                out: &'c mut Tensor<f32, 2>,
            ) -> Option<KernelCall<'c>> {
                use SixteenBit as S;
                Some(match (self, up, x.rounded, x.blocks) {
                    (Matrix::F16(gate), Matrix::F16(up), Some(S::F16(x)), _) => {
                        kernels::project_swiglu_matched(x, gate, up, out)
                    }
                    (Matrix::BF16(gate), Matrix::BF16(up), Some(S::BF16(x)), _) => {
                        kernels::project_swiglu_matched(x, gate, up, out)
                    }
                    $((Matrix::$block(gate), Matrix::$block(up), _, Some(blocks)) => {
                        kernels::project_swiglu(blocks, gate, up, out)
                    })*
                    $((Matrix::$block(gate), Matrix::$block(up), _, None) => {
                        kernels::project_swiglu(x.dense, gate, up, out)
                    })*
                    $((Matrix::$dense(gate), Matrix::$dense(up), ..) => {
                        kernels::project_swiglu(x.dense, gate, up, out)
                    })*
                    _ => return None,
                })
            }
        }
    };
}

matrix! {
    dense {
        /// IEEE binary32.
        F32(f32);
        /// IEEE binary16.
        F16(f16);
        /// bfloat16.
        BF16(bf16);
        /// 4 bits, groups of 32, scales f16.
        Affine4G32F16(Affine4<32, f16>);
        /// 4 bits, groups of 32, scales bf16.
        Affine4G32BF16(Affine4<32, bf16>);
        /// 4 bits, groups of 32, scales f32.
        Affine4G32F32(Affine4<32, f32>);
        /// 4 bits, groups of 64, scales f16.
        Affine4G64F16(Affine4<64, f16>);
        /// 4 bits, groups of 64, scales bf16.
        Affine4G64BF16(Affine4<64, bf16>);
        /// 4 bits, groups of 64, scales f32.
        Affine4G64F32(Affine4<64, f32>);
        /// 4 bits, groups of 128, scales f16.
        Affine4G128F16(Affine4<128, f16>);
        /// 4 bits, groups of 128, scales bf16.
        Affine4G128BF16(Affine4<128, bf16>);
        /// 4 bits, groups of 128, scales f32.
        Affine4G128F32(Affine4<128, f32>);
        /// 8 bits, groups of 32, scales f16.
        Affine8G32F16(Affine8<32, f16>);
        /// 8 bits, groups of 32, scales bf16.
        Affine8G32BF16(Affine8<32, bf16>);
        /// 8 bits, groups of 32, scales f32.
        Affine8G32F32(Affine8<32, f32>);
        /// 8 bits, groups of 64, scales f16.
        Affine8G64F16(Affine8<64, f16>);
        /// 8 bits, groups of 64, scales bf16.
        Affine8G64BF16(Affine8<64, bf16>);
        /// 8 bits, groups of 64, scales f32.
        Affine8G64F32(Affine8<64, f32>);
        /// 8 bits, groups of 128, scales f16.
        Affine8G128F16(Affine8<128, f16>);
        /// 8 bits, groups of 128, scales bf16.
        Affine8G128BF16(Affine8<128, bf16>);
        /// 8 bits, groups of 128, scales f32.
        Affine8G128F32(Affine8<128, f32>);
    }
    blocks {
        /// GGUF Q4_0.
        Q4_0(Q4_0);
        /// GGUF Q4_1.
        Q4_1(Q4_1);
        /// GGUF Q5_0.
        Q5_0(Q5_0);
        /// GGUF Q5_1.
        Q5_1(Q5_1);
        /// GGUF Q8_0.
        Q8_0(Q8_0);
        /// GGUF Q4_K.
        Q4K(Q4K);
        /// GGUF Q5_K.
        Q5K(Q5K);
        /// GGUF Q6_K.
        Q6K(Q6K);
    }
}
