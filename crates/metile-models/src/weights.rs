//! Weights on a device, each format as its own Rust type, so that kernels are specialized to it.

use metile::lang::kernel::KernelCall;
use metile::lang::tensor::{Allocate, Tensor, TensorError};
use metile::prelude::*;
use metile_ir::Format;

/// A use of a weight matrix that is generic over its format.
pub trait MatrixUse<'call> {
    /// The call, for weights of format `W`.
    fn with<W: Weight>(self, weights: &'call Tensor<W, 2>) -> KernelCall<'call>;
}

/// A use of two weight matrices of one format.
pub trait PairUse<'call> {
    /// The call, for weights of format `W`.
    fn with<W: Weight>(
        self,
        first: &'call Tensor<W, 2>,
        second: &'call Tensor<W, 2>,
    ) -> KernelCall<'call>;
}

/// A use of a weight vector that is generic over its dtype.
pub trait VectorUse<'call> {
    /// The call, for weights of dtype `N`.
    fn with<N: Float>(self, weights: &'call Tensor<N, 1>) -> KernelCall<'call>;
}

macro_rules! matrix {
    ($($(#[$doc:meta])* $name:ident($ty:ty);)*) => {
        /// A weight matrix `[out, in]`.
        #[derive(Debug)]
        pub enum Matrix {
            $($(#[$doc])* $name(Tensor<$ty, 2>),)*
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
                $(if format == <$ty as Element>::FORMAT {
                    return Ok(Some(Matrix::$name(Tensor::from_bytes(device, shape, arrays)?)));
                })*
                Ok(None)
            }

            /// How the weights are stored.
            pub fn format(&self) -> Format {
                match self {
                    $(Matrix::$name(_) => <$ty as Element>::FORMAT,)*
                }
            }

            /// `[out, in]`.
            pub fn shape(&self) -> [usize; 2] {
                match self {
                    $(Matrix::$name(tensor) => tensor.shape(),)*
                }
            }

            /// Hands the weights to `user` as what they are.
            pub fn call<'call>(&'call self, user: impl MatrixUse<'call>) -> KernelCall<'call> {
                match self {
                    $(Matrix::$name(tensor) => user.with(tensor),)*
                }
            }

            /// Hands both matrices to `user`, or `user` back if their formats differ.
            ///
            /// # Errors
            /// `user`, if the formats differ.
            pub fn call_pair<'call, U: PairUse<'call>>(
                &'call self,
                other: &'call Matrix,
                user: U,
            ) -> Result<KernelCall<'call>, U> {
                match (self, other) {
                    $((Matrix::$name(first), Matrix::$name(second)) => Ok(user.with(first, second)),)*
                    _ => Err(user),
                }
            }
        }
    };
}

matrix! {
    /// IEEE binary32.
    F32(f32);
    /// IEEE binary16.
    F16(f16);
    /// bfloat16.
    BF16(bf16);
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

impl Matrix {
    /// Whether the weights are packed in blocks.
    pub fn is_packed(&self) -> bool {
        matches!(self.format(), Format::Packed(_))
    }
}

macro_rules! vector {
    ($($(#[$doc:meta])* $name:ident($ty:ty);)*) => {
        /// A weight vector: a norm's weights or a projection's biases.
        #[derive(Debug)]
        pub enum Vector {
            $($(#[$doc])* $name(Tensor<$ty, 1>),)*
        }

        impl Vector {
            /// A vector of `format` on `device` from its bytes. `None` if it is no float dtype.
            ///
            /// # Errors
            /// If the bytes don't fit the length, or the device has no room.
            pub fn new(
                device: &impl Allocate,
                format: Format,
                length: usize,
                bytes: &[u8],
            ) -> Result<Option<Vector>, TensorError> {
                $(if format == <$ty as Element>::FORMAT {
                    return Ok(Some(Vector::$name(Tensor::from_bytes(device, [length], &[bytes])?)));
                })*
                Ok(None)
            }

            /// Hands the weights to `user` as what they are.
            pub fn call<'call>(&'call self, user: impl VectorUse<'call>) -> KernelCall<'call> {
                match self {
                    $(Vector::$name(tensor) => user.with(tensor),)*
                }
            }

            /// The values, on the host.
            ///
            /// # Errors
            /// If the device fails.
            pub fn to_f32(&self) -> Result<Vec<f32>, TensorError> {
                match self {
                    $(Vector::$name(tensor) => {
                        Ok(tensor.to_vec()?.into_iter().map(f32::from).collect())
                    })*
                }
            }
        }
    };
}

vector! {
    /// IEEE binary32.
    F32(f32);
    /// IEEE binary16.
    F16(f16);
    /// bfloat16.
    BF16(bf16);
}
