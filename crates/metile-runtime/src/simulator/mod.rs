//! The simulator as a device: programs of Device IR for a GPU that need not be there, on memory of the host.

mod launch;
mod run_program;

pub use run_program::run_program;

pub(crate) use launch::{Bound, RunError};

use metile_compiler::gpu::{Machine, Target};
use metile_device::sim::Options;

/// Which GPU is simulated, and how.
#[derive(Clone, Debug)]
pub struct Simulator {
    /// The GPU that kernels are planned for.
    pub target: Target,
    /// The seed of orders, and bounds.
    pub options: Options,
}

impl Simulator {
    /// The device's name.
    pub(crate) fn name(&self) -> &'static str {
        match self.target.machine {
            Machine::Ampere => "sim-ampere",
            Machine::Hopper => "sim-hopper",
            Machine::Apple => "sim-apple",
        }
    }
}
