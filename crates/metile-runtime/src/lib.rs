//! Devices of metile: memory, prepared dispatch and launch.

pub mod device;
pub mod error;
pub mod host_memory;
pub mod overlap;
pub mod prepared;

pub use device::Device;
pub use error::Error;
pub use prepared::{Launched, Prepared};
