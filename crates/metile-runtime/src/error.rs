//! What can go wrong between a kernel call and its results.

use crate::cuda::CudaError;
use crate::metal::MetalError;
use crate::msl_on_cpu::MslError;
use metile_ir::interp::Failure;
use metile_lang::kernel::CompileError;
use metile_lang::tensor::TensorError;

/// Why a kernel could not be prepared or launched.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel breaks a rule of the language.
    #[error("{0}")]
    Compile(#[from] CompileError),
    /// The call does not fit the kernel.
    #[error("kernel `{kernel}`: {message}")]
    Call {
        /// The kernel's name.
        kernel: String,
        /// What does not fit, and what would.
        message: String,
    },
    /// The program failed while it ran: an assertion, a deadlock.
    #[error("kernel `{kernel}` failed: {rendered}")]
    Run {
        /// The kernel's name.
        kernel: String,
        /// The failure with its source line.
        rendered: String,
        /// The failure itself.
        #[source]
        failure: Box<Failure>,
    },
    /// A tensor could not be made, read or written.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// The threads that programs run on could not be started.
    #[error("{0}")]
    Threads(String),
    /// A CUDA device can't do it.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// A Metal device can't do it.
    #[error(transparent)]
    Metal(#[from] MetalError),
    /// Emitted Metal source could not be run on the CPU.
    #[error(transparent)]
    MslOnCpu(#[from] MslError),
    /// A fault of metile itself.
    #[error("kernel `{kernel}`: internal error, please report it: {message}")]
    Internal {
        /// The kernel's name.
        kernel: String,
        /// What happened.
        message: String,
    },
}
