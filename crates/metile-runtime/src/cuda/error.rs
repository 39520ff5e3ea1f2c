//! What can go wrong with a CUDA device, and what to do about it.

use metile_compiler::gpu::cuda::EmitError;

/// Why a CUDA device can't do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CudaError {
    /// No driver library.
    #[error(
        "there is no CUDA driver on this machine (libcuda.so.1 was not found): install NVIDIA's driver, or compute on \
         another device, such as the CPU"
    )]
    NoDriver,
    /// A driver that is too old.
    #[error(
        "the CUDA driver supports CUDA {}.{}, and metile needs {}.{}: update NVIDIA's driver (580 or newer)",
        found / 1000, found % 1000 / 10, needed / 1000, needed % 1000 / 10
    )]
    OldDriver {
        /// What it supports, as `cuDriverGetVersion` gives it.
        found: i32,
        /// What it would have to.
        needed: i32,
    },
    /// No such GPU.
    #[error(
        "there is no CUDA device {asked}: the driver sees {found} (CUDA_VISIBLE_DEVICES may hide some)"
    )]
    NoDevice {
        /// The device's number.
        asked: usize,
        /// How many there are.
        found: usize,
    },
    /// A GPU that is too old.
    #[error("{name} has compute capability {major}.{minor}; metile needs 8.0 (Ampere) or newer")]
    OldDevice {
        /// Its name.
        name: String,
        /// Its compute capability.
        major: u32,
        /// Its compute capability.
        minor: u32,
    },
    /// The driver refused something.
    #[error("the CUDA driver failed to {what}: {name} ({text})")]
    Driver {
        /// What was tried.
        what: &'static str,
        /// The error's name.
        name: String,
        /// What the driver says of it.
        text: String,
    },
    /// Not enough of the device's memory.
    #[error(
        "{device} has no room for {need} bytes: {free} of {total} are free; load a smaller model or context, or free tensors \
         (other processes use the device's memory too: see nvidia-smi)"
    )]
    OutOfMemory {
        /// The device.
        device: String,
        /// Bytes asked for.
        need: usize,
        /// Bytes that are free.
        free: usize,
        /// Bytes that there are.
        total: usize,
    },
    /// No compiler.
    #[error(
        "NVIDIA's run-time compiler (NVRTC) was not found: install it (`pip install nvidia-cuda-nvrtc`, or the CUDA toolkit), or let \
         METILE_NVRTC name libnvrtc.so or its folder. Searched: {}", searched.join(", ")
    )]
    NoNvrtc {
        /// Where it was searched for.
        searched: Vec<String>,
    },
    /// `METILE_NVRTC` names something else.
    #[error("METILE_NVRTC names `{path}`, which is no libnvrtc: {why}")]
    BadNvrtc {
        /// The variable's value.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// NVRTC refused the source.
    #[error(
        "kernel `{kernel}`: internal error, please report it: NVRTC refuses its source for {arch}:\n{log}"
    )]
    Compile {
        /// The kernel.
        kernel: String,
        /// What it was compiled for.
        arch: String,
        /// The compiler's log, which shows the lines.
        log: String,
    },
    /// The program can't be printed.
    #[error(transparent)]
    Emit(#[from] EmitError),
    /// Too much shared memory.
    #[error(
        "kernel `{kernel}` needs {need} bytes of shared memory a block, and {device} has {limit}"
    )]
    SharedMemory {
        /// The kernel.
        kernel: String,
        /// The device.
        device: String,
        /// Bytes that it needs.
        need: u32,
        /// Bytes that there are.
        limit: u32,
    },
    /// A persistent kernel whose programs can't all run at once.
    #[error(
        "persistent kernel `{kernel}` is launched with {blocks} programs, but only {fit} run at once on {device} ({per_processor} on each \
         of {processors} multiprocessors): launch at most {fit}"
    )]
    Residency {
        /// The kernel.
        kernel: String,
        /// The device.
        device: String,
        /// Programs asked for.
        blocks: u64,
        /// Programs that fit.
        fit: u64,
        /// Programs that fit a multiprocessor.
        per_processor: u32,
        /// Multiprocessors.
        processors: u32,
    },
    /// A grid with more programs than a launch may have.
    #[error("kernel `{kernel}`: a grid of {blocks} programs; a launch has at most 2^31 - 1")]
    Grid {
        /// The kernel.
        kernel: String,
        /// Programs asked for.
        blocks: u64,
    },
}
