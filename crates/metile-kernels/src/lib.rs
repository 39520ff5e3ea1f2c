//! The kernel library of metile, written only in its language.
//!
//! Each family is a module. In it are the kernels themselves, `#[kernel]` functions whose tile sides
//! are const generics, and *entry functions* such as [`softmax::softmax`], which look at the shapes, choose
//! the tile sides and set the grid, so that a caller only launches:
//!
//! ```
//! use metile::prelude::*;
//!
//! let device = Device::interpreter();
//! let x = Tensor::from_slice(&device, [1, 3], &[1.0f32, 2.0, 3.0])?;
//! let weight = Tensor::from_slice(&device, [3], &[1.0f32; 3])?;
//! let mut out = Tensor::<f32, 2>::zeros(&device, [1, 3])?;
//! metile_kernels::norm::rms_norm(&x, &weight, &mut out, 1e-5).prepare(&device)?.launch()?;
//! assert!((out.to_vec()?[2] - 3.0 / (14.0f32 / 3.0).sqrt()).abs() < 1e-5);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The sides are chosen by [`machine`], for CPUs first: a tile that reaches beyond a tensor is cut to it and costs
//! nothing, so one instance serves many shapes.
//!
//! Shapes that don't fit each other are refused by an assertion of the kernel when it is launched.
//! An axis of extent 0 launches nothing, or leaves what the docstring says.
//!
//! **State.** Kernels of the decoder that depend on the position take `state`, an `i64` tensor:
//! `state[0]` tokens are in the cache before this chunk, and the first `state[1]` rows of the chunk are
//! valid. Buffers have room for more rows; of the rows beyond, nothing is stored. So a
//! recorded list of launches serves while the text grows.

pub mod activation;
pub mod argmax;
pub mod attention;
pub mod cache;
pub mod elementwise;
pub mod embedding;
pub mod fft;
pub mod gemm;
pub mod heads;
pub mod machine;
pub mod norm;
pub mod probe;
pub mod project;
pub mod quantize;
pub mod reduce;
pub mod registry;
pub mod rope;
mod shapes;
pub mod softmax;
pub mod suite;
pub mod transpose;

pub use argmax::{ArgmaxBuffers, argmax, argmax_merge, argmax_parts};
pub use attention::{
    DecodeBuffers, decode_attention_merge, decode_attention_parts, prefill_attention,
};
pub use cache::kv_write;
pub use elementwise::{add, combine, convert, map, mul, powers_of_two, scale, swiglu};
pub use embedding::{embed, embedding};
pub use fft::{FftTables, fft};
pub use gemm::{batched_gemm, gemm, gemm_bias, gemm_map, gemm_residual};
pub use heads::{Heads, ready_heads};
pub use norm::{add_rms_norm, head_norm, layer_norm, rms_norm};
pub use project::{
    project, project_add, project_add_matched, project_bias, project_bias_matched, project_matched,
    project_swiglu, project_swiglu_matched,
};
pub use quantize::quantize_q8;
pub use reduce::{maximum, mean, minimum, reduce, sum};
pub use rope::{RopeStyle, rope};
pub use softmax::softmax;
pub use transpose::transpose;
