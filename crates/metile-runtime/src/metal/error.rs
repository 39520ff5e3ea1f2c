//! What can go wrong on a Metal device.

use metile_compiler::gpu::metal::EmitError;

/// Why Metal can't do it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetalError {
    /// Another system.
    #[error(
        "Metal is on Apple's systems only, and this program is for {system}; use `cpu`, or `cuda` where there is an NVIDIA GPU"
    )]
    System {
        /// What the program was built for.
        system: &'static str,
    },
    /// No GPU that Metal reaches.
    #[error(
        "Metal found no GPU; in a virtual machine or a session without graphics there may be none"
    )]
    NoDevice,
    /// A GPU that lacks what kernels need.
    #[error(
        "the GPU `{device}` is not of the family {family}; kernels need an Apple GPU from the M1 or A14 on, with Metal 3 (macOS 13)"
    )]
    Family {
        /// The GPU.
        device: String,
        /// What it is not.
        family: &'static str,
    },
    /// The kernel has no form in Metal's language.
    #[error(transparent)]
    Emit(#[from] EmitError),
    /// Apple's compiler refuses the source.
    #[error("kernel `{kernel}`: Metal refuses the emitted source, please report it: {report}")]
    Source {
        /// The kernel.
        kernel: String,
        /// What the compiler says.
        report: String,
    },
    /// No pipeline could be made.
    #[error("kernel `{kernel}`: Metal made no pipeline: {reason}")]
    Pipeline {
        /// The kernel.
        kernel: String,
        /// What Metal says.
        reason: String,
    },
    /// The pipeline's registers leave room for fewer threads.
    #[error(
        "kernel `{kernel}` runs {needed} threads a threadgroup, and as Metal compiled it at most {limit} fit on `{device}`; take \
         smaller tiles"
    )]
    Threads {
        /// The kernel.
        kernel: String,
        /// The GPU.
        device: String,
        /// What it needs.
        needed: u32,
        /// The pipeline's own limit.
        limit: usize,
    },
    /// SIMD groups of another size.
    #[error(
        "kernel `{kernel}`: SIMD groups of {found} threads on `{device}`; kernels are written for 32"
    )]
    Width {
        /// The kernel.
        kernel: String,
        /// The GPU.
        device: String,
        /// Threads of a SIMD group there.
        found: usize,
    },
    /// Threadgroup memory.
    #[error("kernel `{kernel}` needs {needed} bytes of threadgroup memory; `{device}` has {limit}")]
    Shared {
        /// The kernel.
        kernel: String,
        /// The GPU.
        device: String,
        /// What it needs.
        needed: usize,
        /// What there is.
        limit: usize,
    },
    /// A source in a newer version of the language.
    #[error(
        "kernel `{kernel}` needs version {major}.{minor} of Metal's language (macOS {system} or later)"
    )]
    Language {
        /// The kernel.
        kernel: String,
        /// The version.
        major: u8,
        /// The version.
        minor: u8,
        /// The first macOS that has it.
        system: &'static str,
    },
    /// No memory.
    #[error(
        "no room for {need} bytes on `{device}`; one buffer may have {most}, and {recommended} in all are recommended"
    )]
    OutOfMemory {
        /// The GPU.
        device: String,
        /// What was asked for.
        need: usize,
        /// The largest buffer.
        most: usize,
        /// What the system recommends to stay within.
        recommended: u64,
    },
    /// Too many programs.
    #[error("kernel `{kernel}`: a grid of {blocks} programs is too large for Metal")]
    Grid {
        /// The kernel.
        kernel: String,
        /// How many.
        blocks: u64,
    },
    /// More words than fit what Metal copies with a launch.
    #[error(
        "kernel `{kernel}` passes {bytes} bytes of sizes and scalars; Metal copies at most 4096 with a launch"
    )]
    Arguments {
        /// The kernel.
        kernel: String,
        /// How many.
        bytes: usize,
    },
    /// Metal gave no object where it always should.
    #[error("Metal gave no {0}")]
    None(&'static str),
    /// The launch failed.
    #[error("the GPU `{device}` ended a launch with an error: {reason}")]
    Run {
        /// The GPU.
        device: String,
        /// What Metal says.
        reason: String,
    },
}
