//! Studies of layers and kernels.

mod device_arm;
pub mod harness;
mod op_study;
mod ops;
mod peers;
pub mod precision_probe;
mod studies;
mod weights;
pub mod worker;

use device_arm::broken;
#[cfg(test)]
pub(crate) use device_arm::described;
pub use studies::entries;
