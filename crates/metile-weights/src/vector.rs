//! Weight vectors.

use metile::lang::tensor::Allocate;
use metile::prelude::*;
use metile::{KernelCall, TensorError};
use metile_ir::Format;
use metile_kernels as kernels;

macro_rules! vector {
    ($($(#[$doc:meta])* $name:ident($ty:ty);)*) => {
        /// A weight vector: a norm's weights, or biases.
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

            /// RMSNorm of each row of `x` with these weights.
            pub fn rms_norm<'c>(
                &'c self,
                x: &'c Tensor<f32, 2>,
                out: &'c mut Tensor<f32, 2>,
                eps: f32,
            ) -> KernelCall<'c> {
                match self {
                    $(Vector::$name(weight) => kernels::rms_norm(x, weight, out, eps),)*
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
