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
enum Kind {
    Interpreter(interp::Options),
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

    /// The device's name, as in messages and reports.
    pub fn name(&self) -> &'static str {
        match self.kind {
            Kind::Interpreter(_) => "interpreter",
        }
    }

    pub(crate) fn interpreter_options(&self) -> &interp::Options {
        match &self.kind {
            Kind::Interpreter(options) => options,
        }
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
