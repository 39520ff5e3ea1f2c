//! metile: write a tile kernel once in Rust, run it on any device, trust its result.
//!
//! ```
//! use metile::prelude::*;
//!
//! /// out = x + y, element by element. `x`, `y`, `out`: [n]; one program per BLOCK elements.
//! #[kernel]
//! pub fn add<T: Float, const BLOCK: usize>(
//!     x: &Tensor<T, 1>,
//!     y: &Tensor<T, 1>,
//!     out: &mut Tensor<T, 1>,
//! ) {
//!     let at = program_id(0) * BLOCK + arange(BLOCK);
//!     out.store(at, x.load(at) + y.load(at));
//! }
//!
//! let device = Device::interpreter();
//! let x = Tensor::from_slice(&device, [5], &[1.0f32, 2.0, 3.0, 4.0, 5.0])?;
//! let y = Tensor::from_slice(&device, [5], &[10.0f32; 5])?;
//! let mut out = Tensor::<f32, 1>::zeros(&device, [5])?;
//! add::<f32, 4>(&x, &y, &mut out).grid(2).prepare(&device)?.launch()?;
//! assert_eq!(out.to_vec()?, [11.0, 12.0, 13.0, 14.0, 15.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The book under `docs/` has the way in, the language reference and the architecture.

pub use metile_ir as ir;
pub use metile_lang as lang;
pub use metile_macros::{kernel, kernel_fn};
pub use metile_runtime as runtime;

pub use metile_ir::interp::Options as InterpreterOptions;
pub use metile_ir::tile::Precision;
pub use metile_lang::kernel::{CompileError, KernelCall};
pub use metile_lang::tensor::{Counters, Tensor, TensorError, TensorList};
pub use metile_runtime::{CommandList, Device, Error, Launched, Prepared};

/// What a file of kernels, or one that launches them, imports.
pub mod prelude {
    pub use metile_ir::tile::Precision;
    pub use metile_lang::prelude::*;
    pub use metile_macros::{kernel, kernel_fn};
    pub use metile_runtime::{CommandList, Device, Error};
}

// The book's code runs with the documentation tests.
#[cfg(doctest)]
mod book {
    #[doc = include_str!("../../../docs/src/first-kernel.md")]
    struct FirstKernel;
    #[doc = include_str!("../../../docs/src/language.md")]
    struct Language;
    #[doc = include_str!("../../../docs/src/own-crate.md")]
    struct OwnCrate;
    #[doc = include_str!("../../../docs/src/cpu.md")]
    struct Cpu;
    #[doc = include_str!("../../../README.md")]
    struct Readme;
}
