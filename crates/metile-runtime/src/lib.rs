//! Devices of metile: memory, prepared dispatch and launch.

mod binding;
pub mod command_list;
mod compiled;
pub mod cpu;
pub mod cuda;
pub mod device;
pub mod differential;
pub mod error;
pub mod first_difference;
pub mod host_memory;
pub mod metal;
pub mod msl_on_cpu;
pub mod overlap;
pub mod prepared;
mod reports;
pub mod simulator;
mod words;

pub use command_list::CommandList;
pub use device::Device;
pub use error::Error;
pub use prepared::{Launched, Prepared};
