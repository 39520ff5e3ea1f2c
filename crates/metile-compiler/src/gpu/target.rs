//! What a kernel is compiled for.

use std::fmt;

/// A class of machines that pipelines are planned for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Machine {
    /// NVIDIA from sm_80: `mma.sync`, `cp.async`.
    Ampere,
    /// NVIDIA sm_90a.
    Hopper,
    /// Apple GPUs from the M1 on: `simdgroup_matrix`.
    Apple,
}

/// A device as the compiler sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// The class of machines.
    pub machine: Machine,
    /// Bytes of shared memory that a block may have.
    pub shared_bytes: u32,
    /// Threads that a block may have.
    pub threads: u32,
}

impl Target {
    /// NVIDIA sm_80 and its kin.
    pub const AMPERE: Target =
        Target { machine: Machine::Ampere, shared_bytes: 99 << 10, threads: 1024 };
    /// NVIDIA H100 and H200.
    pub const HOPPER: Target =
        Target { machine: Machine::Hopper, shared_bytes: 227 << 10, threads: 1024 };
    /// Apple GPUs.
    pub const APPLE: Target =
        Target { machine: Machine::Apple, shared_bytes: 32 << 10, threads: 1024 };

    /// Whether it is one of NVIDIA's.
    pub fn is_cuda(&self) -> bool {
        matches!(self.machine, Machine::Ampere | Machine::Hopper)
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Machine::Ampere => "ampere",
            Machine::Hopper => "hopper",
            Machine::Apple => "apple",
        })
    }
}
