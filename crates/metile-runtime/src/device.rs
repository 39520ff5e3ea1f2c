//! Devices.

use crate::cuda::{DeviceMemory, Gpu};
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
    Cuda(Arc<Gpu>),
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

    /// The first NVIDIA GPU.
    ///
    /// # Errors
    /// If there is none, or its driver is missing or too old; the error says what to do.
    pub fn cuda() -> Result<Device, Error> {
        Device::cuda_at(0)
    }

    /// NVIDIA GPU `ordinal`, counted as the driver does.
    ///
    /// # Errors
    /// As [`cuda`](Self::cuda).
    pub fn cuda_at(ordinal: usize) -> Result<Device, Error> {
        Ok(Device { kind: Kind::Cuda(Gpu::open(ordinal)?) })
    }

    /// The fastest device of this machine: an NVIDIA GPU if there is one whose driver and compiler are there,
    /// else the CPU. Why it is not the GPU is logged.
    pub fn best() -> Device {
        let gpu = Device::cuda().and_then(|device| Ok(crate::cuda::Nvrtc::get().map(|_| device)?));
        match gpu {
            Ok(device) => device,
            Err(why) => {
                tracing::info!(target: "metile", "computing on the CPU: {why}");
                Device::cpu()
            }
        }
    }

    /// The GPU, if it is one of NVIDIA's.
    pub fn gpu(&self) -> Option<&Arc<Gpu>> {
        match &self.kind {
            Kind::Cuda(gpu) => Some(gpu),
            Kind::Interpreter(_) | Kind::Cpu => None,
        }
    }

    /// The device's name, as in messages and reports.
    pub fn name(&self) -> &'static str {
        match &self.kind {
            Kind::Interpreter(_) => "interpreter",
            Kind::Cpu => "cpu",
            Kind::Cuda(gpu) => gpu.name,
        }
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.kind
    }
}

impl Allocate for Device {
    fn allocate(&self, bytes: usize) -> Result<Arc<dyn Storage>, TensorError> {
        match &self.kind {
            Kind::Interpreter(_) | Kind::Cpu => Ok(Arc::new(HostMemory::new(self.name(), bytes)?)),
            Kind::Cuda(gpu) => match DeviceMemory::zeros(gpu, bytes) {
                Ok(memory) => Ok(Arc::new(memory)),
                Err(error) => Err(TensorError::Device {
                    device: self.name().to_owned(),
                    message: error.to_string(),
                }),
            },
        }
    }
}

impl Target for Device {
    type Prepared<'call> = Prepared<'call>;
    type Error = Error;
    fn prepare<'call>(&self, call: KernelCall<'call>) -> Result<Prepared<'call>, Error> {
        Prepared::new(self, &call)
    }
}
