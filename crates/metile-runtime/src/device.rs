//! Devices.

use crate::error::Error;
use crate::host_memory::HostMemory;
use crate::prepared::Prepared;
use metile_ir::interp;
use metile_lang::kernel::{KernelCall, Target};
use metile_lang::tensor::{Allocate, Storage, TensorError};
use std::sync::Arc;

/// Where kernels run and tensors live.
#[derive(Clone, Debug)]
pub struct Device {
    kind: Kind,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Interpreter(interp::Options),
    Cpu,
}

impl Device {
    /// The interpreter: the definition of the language. Slow; warns about what is defined but likely
    /// not meant.
    pub fn interpreter() -> Device {
        Device::interpreter_with(interp::Options::default())
    }

    /// The interpreter, with what it looks out for.
    pub fn interpreter_with(options: interp::Options) -> Device {
        Device { kind: Kind::Interpreter(options) }
    }

    /// The CPU: all its threads, or as many as `METILE_THREADS` says.
    pub fn cpu() -> Device {
        Device { kind: Kind::Cpu }
    }

    /// The fastest device of this machine. The CPU: no other back-end runs yet.
    pub fn best() -> Device {
        Device::cpu()
    }

    /// The device's name, as in messages and reports.
    pub fn name(&self) -> &'static str {
        match self.kind {
            Kind::Interpreter(_) => "interpreter",
            Kind::Cpu => "cpu",
        }
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.kind
    }
}

impl Allocate for Device {
    fn allocate(&self, bytes: usize) -> Result<Arc<dyn Storage>, TensorError> {
        Ok(Arc::new(HostMemory::new(self.name(), bytes)?))
    }
}

impl Target for Device {
    type Prepared<'call> = Prepared<'call>;
    type Error = Error;
    fn prepare<'call>(&self, call: KernelCall<'call>) -> Result<Prepared<'call>, Error> {
        Prepared::new(self, &call)
    }
}
