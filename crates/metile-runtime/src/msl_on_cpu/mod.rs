//! Emitted Metal source, run on the CPU: by `clang++-19`, under a header of our own that gives Metal's types, SIMD
//! groups and barriers a meaning (`include/`).
//!
//! This checks that the source is well-formed C++ with Metal's address spaces, that it uses nothing outside the
//! header, and that it computes what the kernel says. It does not show that Apple's compiler takes it, nor how
//! fast it is: nothing here has run on an Apple GPU.

mod cache;
mod check;
mod compile;
mod kernel;
mod launch;
mod run_program;

pub use check::{Forbidden, check};
pub use compile::{COMPILER, compiler};
pub use kernel::Kernel;
pub(crate) use launch::{BindError, Bound, NAME, RunError};
pub use run_program::run_program;

/// Why emitted Metal source could not be run on the CPU.
#[derive(Debug, thiserror::Error)]
pub enum MslError {
    /// There is no compiler.
    #[error(
        "running Metal source on the CPU needs `{compiler}`, which did not start ({reason}); install Debian's \
         package clang-19, or name a clang++ of version 19 or later in METILE_CLANG"
    )]
    Compiler {
        /// The program asked for.
        compiler: String,
        /// What went wrong.
        reason: String,
    },
    /// The compiler refuses the source: a mistake in the emitter, or something that the header lacks.
    #[error("kernel `{kernel}`: the emitted Metal source is refused:\n{report}")]
    Refused {
        /// The kernel.
        kernel: String,
        /// What the compiler says.
        report: String,
    },
    /// The kernel has no form in Metal's language.
    #[error(transparent)]
    Emit(#[from] metile_compiler::gpu::metal::EmitError),
    /// The source has something that Metal has not.
    #[error("kernel `{kernel}`: the emitted Metal source has {found}")]
    Forbidden {
        /// The kernel.
        kernel: String,
        /// What.
        found: Forbidden,
    },
    /// The launch doesn't fit the kernel.
    #[error("kernel `{kernel}`: {message}")]
    Launch {
        /// The kernel.
        kernel: String,
        /// What doesn't fit.
        message: String,
    },
    /// Something happened while it ran that must not.
    #[error("kernel `{kernel}`, as Metal source on the CPU: {message}")]
    Run {
        /// The kernel.
        kernel: String,
        /// What happened.
        message: String,
    },
    /// The cache folder can't be used.
    #[error("{path}: {reason}")]
    Cache {
        /// The file or folder.
        path: String,
        /// What went wrong.
        reason: String,
    },
}
