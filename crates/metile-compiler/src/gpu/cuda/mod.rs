//! Device IR as CUDA C++ for NVRTC. The source stands alone: it includes nothing.
//!
//! A value of n registers is an array of n elements, or a scalar variable for one register. Operations on every register are
//! unrolled loops, so that the compiler keeps arrays in registers. What an operation means beyond C++'s own operators stands in
//! `prelude/`, which a test compares with the language's arithmetic.

mod control;
mod copy;
mod exchange;
mod literal;
mod matrix;
mod memory;
mod position;
mod prelude;
mod printer;
mod register;
mod report;
mod sync;
mod wgmma;

pub use prelude::{ARITHMETIC, TYPES};

use metile_device::Verified;
use metile_ir::span::Span;
use printer::Printer;

/// CUDA C++ source of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The kernel's symbol.
    pub entry: String,
    /// The text.
    pub text: String,
    /// Where the kernel begins in it, after the prelude.
    pub(crate) kernel: usize,
}

impl Source {
    /// The kernel without the prelude before it.
    pub fn kernel(&self) -> &str {
        &self.text[self.kernel..]
    }
}

/// Why a program has no CUDA source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmitError {
    /// An operation of another target.
    #[error(
        "kernel `{kernel}`: CUDA has no {operation}; lower the kernel for a CUDA target to print it as CUDA"
    )]
    Unsupported {
        /// The kernel.
        kernel: String,
        /// The operation.
        operation: &'static str,
        /// Where it comes from.
        span: Option<Span>,
    },
    /// A statement that the verifier refuses.
    #[error("kernel `{kernel}`: internal error, please report it: {what}")]
    Malformed {
        /// The kernel.
        kernel: String,
        /// What is wrong.
        what: String,
    },
}

/// Prints `program` as CUDA C++.
///
/// # Errors
/// If it has operations that only other targets have.
pub fn emit(program: &Verified) -> Result<Source, EmitError> {
    Printer::new(program.program()).print()
}
