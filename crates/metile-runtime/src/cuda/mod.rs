//! NVIDIA GPUs, through the driver and NVRTC, both loaded when they are first asked for.

mod code;
mod disk_cache;
mod driver;
mod error;
mod gpu;
mod graph;
mod launch;
mod memory;
mod nvrtc;
mod run_program;
mod time;

pub use code::{Code, Origin, compile};
pub use driver::count;
pub use error::CudaError;
pub use gpu::Gpu;
pub(crate) use graph::{Graph, outcomes};
pub(crate) use launch::{BindError, Bound, RunError};
pub use memory::DeviceMemory;
pub use nvrtc::{Arch, Compilation, Nvrtc};
pub use run_program::run_program;
