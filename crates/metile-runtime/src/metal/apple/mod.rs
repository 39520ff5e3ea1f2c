//! What needs Metal itself, or stands in for it when this is checked elsewhere.

mod archive;
mod code;
mod gpu;
mod launch;
mod memory;
mod run_program;

pub use code::Code;
pub use gpu::Gpu;
pub(crate) use launch::{BindError, Bound, RunError, run_all};
pub use memory::DeviceMemory;
pub(crate) use memory::Held;
pub use run_program::run_program;
