//! Apple GPUs, through Metal.
//!
//! **Nothing in this module has run on an Apple GPU yet.** It is type-checked on Linux (`make check-metal`), and the
//! Metal source it compiles is run on the CPU ([`msl_on_cpu`](crate::msl_on_cpu)). `metile doctor --device metal` runs
//! the whole conformance set on a Mac and writes a report that its owner can send back.

#[cfg(any(target_vendor = "apple", metile_check_metal))]
mod apple;
mod error;

#[cfg(any(target_vendor = "apple", metile_check_metal))]
pub use apple::*;
pub use error::MetalError;
