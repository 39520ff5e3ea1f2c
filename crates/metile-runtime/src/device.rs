//! Devices.

use crate::cpu;
use crate::cuda::{DeviceMemory, Gpu};
use crate::differential::NotRun;
use crate::error::Error;
use crate::host_memory::HostMemory;
use crate::msl_on_cpu;
use crate::prepared::Prepared;
use crate::simulator::{self, Simulator};
use metile_compiler::gpu;
use metile_device::sim;
use metile_ir::interp::{self, Argument, Buffer};
use metile_ir::tile::Verified;
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
    /// Emitted Metal source on the CPU, in an order drawn from the seed.
    MslOnCpu(u64),
    #[cfg(any(target_vendor = "apple", metile_check_metal))]
    Metal(Arc<crate::metal::Gpu>),
    Simulator(Simulator),
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

    /// The Apple GPU of this Mac. It has not run on one yet; see the book.
    ///
    /// # Errors
    /// If this is no Mac, or its GPU lacks what kernels need.
    pub fn metal() -> Result<Device, Error> {
        #[cfg(any(target_vendor = "apple", metile_check_metal))]
        return Ok(Device { kind: Kind::Metal(crate::metal::Gpu::open()?) });
        #[cfg(not(any(target_vendor = "apple", metile_check_metal)))]
        Err(Error::Metal(crate::metal::MetalError::System { system: std::env::consts::OS }))
    }

    /// Emitted Metal source, run on the CPU by clang under a header of our own: for testing the source. It is slow, and no
    /// Apple GPU. The order of threads is drawn from `seed`.
    pub fn msl_on_cpu(seed: u64) -> Device {
        Device { kind: Kind::MslOnCpu(seed) }
    }

    /// A simulated GPU: slow, and says what is wrong with how a kernel uses memory, barriers and copies.
    pub fn simulator(target: gpu::Target) -> Device {
        Device::simulator_with(target, sim::Options::default())
    }

    /// A simulated GPU, with the seed of its orders and its bounds.
    pub fn simulator_with(target: gpu::Target, options: sim::Options) -> Device {
        Device { kind: Kind::Simulator(Simulator { target, options }) }
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
            _ => None,
        }
    }

    /// The device's name, as in messages and reports.
    pub fn name(&self) -> &'static str {
        match &self.kind {
            Kind::Interpreter(_) => "interpreter",
            Kind::Cpu => "cpu",
            Kind::Cuda(gpu) => gpu.name,
            Kind::MslOnCpu(_) => msl_on_cpu::NAME,
            #[cfg(any(target_vendor = "apple", metile_check_metal))]
            Kind::Metal(_) => "metal",
            Kind::Simulator(simulator) => simulator.name(),
        }
    }

    /// What computes: a processor's vectors, a GPU's name.
    pub fn hardware(&self) -> String {
        match &self.kind {
            Kind::Interpreter(_) | Kind::Cpu => format!("{} vectors", cpu::simd()),
            Kind::Cuda(gpu) => format!("{} ({})", gpu.model, gpu.arch),
            Kind::Simulator(simulator) => {
                format!(
                    "a simulation of {}, seed {}",
                    simulator.target.machine, simulator.options.seed
                )
            }
            Kind::MslOnCpu(seed) => format!("the CPU, by {}, seed {seed}", msl_on_cpu::COMPILER),
            #[cfg(any(target_vendor = "apple", metile_check_metal))]
            Kind::Metal(gpu) => format!("{} ({})", gpu.model, gpu.system),
        }
    }

    /// Runs a program on copies of `buffers`, as [`Interpreter::run`](interp::Interpreter::run) does: for comparing a device
    /// with the interpreter. Kernels are otherwise prepared and launched.
    ///
    /// # Errors
    /// If the program fails, the device can't run such programs, or it does not do as it should.
    pub fn run_program(
        &self,
        kernel: &Verified,
        grid: [u64; 3],
        arguments: &[Argument],
        buffers: &mut [Buffer<'_>],
    ) -> Result<interp::Outcome, NotRun> {
        match &self.kind {
            Kind::Interpreter(options) => interp::Interpreter { options: options.clone() }
                .run(kernel, grid, arguments, buffers)
                .map_err(NotRun::Failure),
            Kind::Cpu => cpu::run_program(kernel, grid, arguments, buffers).map_err(|e| match e {
                cpu::RunError::Failure(failure) => NotRun::Failure(failure),
                cpu::RunError::Threads(why) => NotRun::Broken(why),
            }),
            Kind::Cuda(gpu) => crate::cuda::run_program(gpu, kernel, grid, arguments, buffers),
            Kind::Simulator(simulator) => {
                simulator::run_program(simulator, kernel, grid, arguments, buffers)
            }
            Kind::MslOnCpu(seed) => {
                msl_on_cpu::run_program(*seed, kernel, grid, arguments, buffers)
            }
            #[cfg(any(target_vendor = "apple", metile_check_metal))]
            Kind::Metal(gpu) => crate::metal::run_program(gpu, kernel, grid, arguments, buffers),
        }
    }

    fn no_memory(&self, error: &dyn std::error::Error) -> TensorError {
        TensorError::Device { device: self.name().to_owned(), message: error.to_string() }
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.kind
    }
}

impl Allocate for Device {
    fn allocate(&self, bytes: usize) -> Result<Arc<dyn Storage>, TensorError> {
        match &self.kind {
            Kind::Interpreter(_) | Kind::Cpu | Kind::MslOnCpu(_) | Kind::Simulator(_) => {
                Ok(Arc::new(HostMemory::new(self.name(), bytes)?))
            }
            Kind::Cuda(gpu) => match DeviceMemory::zeros(gpu, bytes) {
                Ok(memory) => Ok(Arc::new(memory)),
                Err(error) => Err(self.no_memory(&error)),
            },
            #[cfg(any(target_vendor = "apple", metile_check_metal))]
            Kind::Metal(gpu) => match crate::metal::DeviceMemory::zeros(gpu, bytes) {
                Ok(memory) => Ok(Arc::new(memory)),
                Err(error) => Err(self.no_memory(&error)),
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
