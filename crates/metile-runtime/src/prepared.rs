//! A kernel call that is compiled, bound and checked: launching only launches.

use crate::binding::Bindings;
use crate::compiled::Compiled;
use crate::cpu;
use crate::cuda;
use crate::device::{Device, Kind};
use crate::error::Error;
use crate::host_memory::{Held, HostMemory};
#[cfg(any(target_vendor = "apple", metile_check_metal))]
use crate::metal;
use crate::msl_on_cpu;
use crate::simulator::{self, Simulator};
use crate::words;
use metile_compiler::gpu::Target;
use metile_device::Verified;
use metile_device::sim::Finding;
use metile_ir::Diagnostic;
use metile_ir::interp::{self, Failure, Interpreter, Outcome};
use metile_ir::tile::Kernel;
use metile_lang::kernel::KernelCall;
use metile_lang::tensor::Storage;
use std::any::Any;
use std::fmt::Write;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

/// A kernel ready to launch, as often as one likes. It borrows its arguments as the kernel's
/// signature says.
#[derive(Debug)]
pub struct Prepared<'call> {
    dispatch: Dispatch,
    _borrows: PhantomData<&'call mut ()>,
}

/// What is launched: a compiled kernel, its arguments and its grid. Storages stay alive with it.
#[derive(Debug)]
pub(crate) struct Dispatch {
    device: Device,
    label: String,
    compiled: Arc<Compiled>,
    bindings: Bindings,
    bound: Option<Bound>,
    grid: [u64; 3],
}

/// A launch in the form that the device takes; the interpreter takes none.
#[derive(Debug)]
pub(crate) enum Bound {
    Cpu(cpu::Bound),
    Cuda(Box<cuda::Bound>),
    MslOnCpu(Box<msl_on_cpu::Bound>),
    #[cfg(any(target_vendor = "apple", metile_check_metal))]
    Metal(Box<metal::Bound>),
    Simulator(simulator::Bound),
}

/// What a launch left besides its results.
#[derive(Debug, Default)]
pub struct Launched {
    /// Warnings with their source lines, from devices that look out for them.
    pub warnings: Vec<String>,
    /// What the programs printed.
    pub printed: Vec<String>,
    /// The time that it took by the device's own clock, if it has one.
    pub device_time: Option<Duration>,
}

impl Prepared<'_> {
    pub(crate) fn new(device: &Device, call: &KernelCall<'_>) -> Result<Self, Error> {
        Ok(Prepared { dispatch: Dispatch::new(device, call)?, _borrows: PhantomData })
    }

    /// The program as it was traced, before any pass.
    pub fn traced(&self) -> &Kernel {
        &self.dispatch.compiled.traced
    }

    /// The program that runs.
    pub fn tile_ir(&self) -> &Kernel {
        self.dispatch.compiled.optimized.kernel.kernel()
    }

    /// What was made of the kernel, and how: the device, the passes with their times, the program,
    /// and what the device runs.
    pub fn explain(&self) -> String {
        self.dispatch.explain()
    }

    /// Runs the kernel and waits for it.
    ///
    /// # Errors
    /// If an assertion of the kernel fails, its programs wait for each other for ever, or the device
    /// fails. What was written until then stays written.
    pub fn launch(&self) -> Result<Launched, Error> {
        self.dispatch.launch()
    }
}

impl Dispatch {
    pub fn new(device: &Device, call: &KernelCall<'_>) -> Result<Dispatch, Error> {
        let name = call.definition.info().name;
        let refuse = |message: String| Error::Call { kernel: name.to_owned(), message };
        let grid = call.grid.ok_or_else(|| {
            refuse(
                "the call has no grid; say how many programs run, as in `.grid(rows)`".to_owned(),
            )
        })?;
        let grid = grid.map(|extent| extent as u64);
        let compiled = Compiled::new(&call.definition, call.precision)?;
        let bindings = Bindings::new(&compiled.traced, &call.arguments).map_err(refuse)?;
        for (storage, _) in &bindings.storages {
            if storage.device() != device.name() {
                return Err(refuse(format!(
                    "an argument lies in memory of the device `{}`, and the call is for `{}`",
                    storage.device(),
                    device.name()
                )));
            }
        }
        let mut dispatch = Dispatch {
            device: device.clone(),
            label: call.definition.info().label(),
            compiled,
            bindings,
            bound: None,
            grid,
        };
        dispatch.bound = match device.kind() {
            Kind::Cpu => Some(Bound::Cpu(dispatch.bind()?)),
            Kind::Cuda(gpu) => Some(Bound::Cuda(Box::new(dispatch.bind_to_gpu(gpu)?))),
            Kind::MslOnCpu(seed) => Some(Bound::MslOnCpu(Box::new(dispatch.bind_to_msl(*seed)?))),
            #[cfg(any(target_vendor = "apple", metile_check_metal))]
            Kind::Metal(gpu) => Some(Bound::Metal(Box::new(dispatch.bind_to_metal(gpu)?))),
            Kind::Simulator(simulator) => Some(Bound::Simulator(dispatch.bind_to(simulator)?)),
            Kind::Interpreter(_) => None,
        };
        Ok(dispatch)
    }

    /// The form with its arguments, which are checked to lie within their storages: after this
    /// nothing needs to be checked again.
    fn bind(&self) -> Result<cpu::Bound, Error> {
        let kernel = &self.compiled.optimized.kernel;
        let mut held = hold_all(&self.bindings.storages).map_err(|m| self.internal(m))?;
        let buffers = buffers(&mut held);
        interp::check_arguments(kernel, &self.bindings.arguments, &buffers)
            .map_err(|f| self.failed(f))?;
        drop(buffers);
        let firsts = self.bindings.storages.iter().map(|(storage, _)| memory(storage));
        let firsts: Vec<*mut u8> = firsts
            .map(|memory| memory.map(HostMemory::first))
            .collect::<Result<_, _>>()
            .map_err(|m| self.internal(m))?;
        let form = self.compiled.form().clone();
        cpu::Bound::new(kernel.kernel(), form, self.grid, &self.bindings.arguments, &firsts)
            .map_err(|f| self.failed(f))
    }

    /// The program for these arguments, which are checked to lie within their storages.
    fn bind_to_gpu(&self, gpu: &Arc<cuda::Gpu>) -> Result<cuda::Bound, Error> {
        let kernel = &self.compiled.optimized.kernel;
        let memories: Result<Vec<&cuda::DeviceMemory>, String> =
            self.bindings.storages.iter().map(|(storage, _)| device_memory(storage)).collect();
        let memories = memories.map_err(|m| self.internal(m))?;
        let buffers: Vec<interp::BufferInfo> = memories
            .iter()
            .zip(&self.bindings.storages)
            .map(|(memory, (_, writable))| interp::BufferInfo {
                bytes: memory.len(),
                writable: *writable,
            })
            .collect();
        let arguments = &self.bindings.arguments;
        interp::check_arguments_in(kernel, arguments, &buffers).map_err(|f| self.failed(f))?;
        let addresses: Vec<u64> = memories.iter().map(|memory| memory.address()).collect();
        let classes =
            words::classes(kernel.kernel(), arguments, &addresses).map_err(|m| self.refused(m))?;
        let program = self.compiled.program(&gpu.target(), classes)?;
        cuda::Bound::new(gpu, program, self.grid, arguments, &addresses).map_err(|e| match e {
            cuda::BindError::Cuda(error) => Error::Cuda(error),
            cuda::BindError::Internal(message) => self.internal(message),
        })
    }

    /// The program for arguments in memory of the host at these addresses, for Apple's GPUs.
    fn apple_program(&self, addresses: &[u64]) -> Result<Arc<Verified>, Error> {
        let kernel = self.compiled.optimized.kernel.kernel();
        let classes =
            words::classes(kernel, &self.bindings.arguments, addresses).map_err(|message| {
                Error::Call { kernel: self.compiled.traced.name.clone(), message }
            })?;
        self.compiled.program(&Target::APPLE, classes)
    }

    /// The emitted Metal source with these arguments, which are checked to lie within their storages.
    fn bind_to_msl(&self, seed: u64) -> Result<msl_on_cpu::Bound, Error> {
        let kernel = &self.compiled.optimized.kernel;
        let mut held = hold_all(&self.bindings.storages).map_err(|m| self.internal(m))?;
        let buffers = buffers(&mut held);
        let arguments = &self.bindings.arguments;
        interp::check_arguments(kernel, arguments, &buffers).map_err(|f| self.failed(f))?;
        drop(buffers);
        let address = |(storage, _): &(Arc<dyn Storage>, bool)| {
            memory(storage).map(|memory| memory.first().expose_provenance() as u64)
        };
        let addresses: Result<Vec<u64>, String> =
            self.bindings.storages.iter().map(address).collect();
        let addresses = addresses.map_err(|m| self.internal(m))?;
        let program = self.apple_program(&addresses)?;
        msl_on_cpu::Bound::new(program, self.grid, arguments, &addresses, seed).map_err(|e| match e
        {
            msl_on_cpu::BindError::Msl(error) => Error::MslOnCpu(error),
            msl_on_cpu::BindError::Tensor(error) => Error::Tensor(error),
            msl_on_cpu::BindError::Internal(message) => self.internal(message),
        })
    }

    /// The program for these arguments, which are checked to lie within their storages.
    #[cfg(any(target_vendor = "apple", metile_check_metal))]
    fn bind_to_metal(&self, gpu: &Arc<metal::Gpu>) -> Result<metal::Bound, Error> {
        let memories: Result<Vec<&metal::DeviceMemory>, String> =
            self.bindings.storages.iter().map(|(storage, _)| metal_memory(storage)).collect();
        let memories = memories.map_err(|m| self.internal(m))?;
        let storages = memories.iter().zip(&self.bindings.storages);
        let buffers: Vec<interp::BufferInfo> = storages
            .map(|(memory, (_, writable))| interp::BufferInfo {
                bytes: memory.len(),
                writable: *writable,
            })
            .collect();
        let arguments = &self.bindings.arguments;
        interp::check_arguments_in(&self.compiled.optimized.kernel, arguments, &buffers)
            .map_err(|f| self.failed(f))?;
        let addresses: Vec<u64> = memories.iter().map(|memory| memory.address()).collect();
        let program = self.apple_program(&addresses)?;
        metal::Bound::new(gpu, program, self.grid, arguments, &memories).map_err(|e| match e {
            metal::BindError::Metal(error) => Error::Metal(error),
            metal::BindError::Internal(message) => self.internal(message),
        })
    }

    /// The program of a simulated GPU, whose memory is the host's.
    fn bind_to(&self, simulator: &Simulator) -> Result<simulator::Bound, Error> {
        let kernel = &self.compiled.optimized.kernel;
        let arguments = &self.bindings.arguments;
        let mut held = hold_all(&self.bindings.storages).map_err(|m| self.internal(m))?;
        let buffers = buffers(&mut held);
        interp::check_arguments(kernel, arguments, &buffers).map_err(|f| self.failed(f))?;
        // Storages begin at round addresses.
        let classes = words::classes(kernel.kernel(), arguments, &vec![0; buffers.len()]);
        let classes = classes.map_err(|message| self.refused(message))?;
        let program = self.compiled.program(&simulator.target, classes)?;
        let traced = &self.compiled.traced;
        simulator::Bound::new(program, traced, self.grid, arguments, buffers.len())
            .map_err(|f| self.failed(f))
    }

    fn refused(&self, message: String) -> Error {
        Error::Call { kernel: self.compiled.traced.name.clone(), message }
    }

    fn internal(&self, message: String) -> Error {
        Error::Internal { kernel: self.compiled.traced.name.clone(), message }
    }

    pub fn failed(&self, failure: Failure) -> Error {
        Error::Run {
            kernel: self.compiled.traced.name.clone(),
            rendered: match failure.diagnostic() {
                Some(d) => d.render(&self.compiled.traced.files),
                None => failure.to_string(),
            },
            failure: Box::new(failure),
        }
    }

    /// The kernel, with its generic arguments.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// What the CPU launches.
    pub fn on_cpu(&self) -> Option<&cpu::Bound> {
        match &self.bound {
            Some(Bound::Cpu(bound)) => Some(bound),
            _ => None,
        }
    }
    /// What an NVIDIA GPU launches.
    pub fn on_cuda(&self) -> Option<&cuda::Bound> {
        match &self.bound {
            Some(Bound::Cuda(bound)) => Some(bound),
            _ => None,
        }
    }
    /// What an Apple GPU launches.
    #[cfg(any(target_vendor = "apple", metile_check_metal))]
    pub fn on_metal(&self) -> Option<&metal::Bound> {
        match &self.bound {
            Some(Bound::Metal(bound)) => Some(bound),
            _ => None,
        }
    }
    /// The error of a launch on an Apple GPU.
    #[cfg(any(target_vendor = "apple", metile_check_metal))]
    pub fn failed_on_metal(&self, error: metal::RunError) -> Error {
        match error {
            metal::RunError::Metal(error) => Error::Metal(error),
            metal::RunError::Failure(failure) => self.failed(failure),
        }
    }
    /// The error of a launch on a GPU.
    pub fn failed_on_cuda(&self, error: cuda::RunError) -> Error {
        match error {
            cuda::RunError::Cuda(error) => Error::Cuda(error),
            cuda::RunError::Failure(failure) => self.failed(failure),
        }
    }
    pub fn storages(&self) -> &[(Arc<dyn Storage>, bool)] {
        &self.bindings.storages
    }

    /// The program that runs in its text form, and what the device is given for it, as text: nothing that differs
    /// from run to run.
    pub fn program(&self) -> (String, String) {
        let emitted = match &self.bound {
            Some(Bound::Cuda(bound)) => bound.source().to_owned(),
            _ => self.on_device(),
        };
        (self.compiled.optimized.kernel.kernel().to_string(), emitted)
    }

    /// What the device makes of the kernel, and how.
    fn on_device(&self) -> String {
        match &self.bound {
            Some(Bound::Cpu(_)) => {
                format!("{}\n{}", cpu::schedule(self.grid), self.compiled.form())
            }
            Some(Bound::Cuda(bound)) => bound.explain(),
            Some(Bound::MslOnCpu(bound)) => bound.explain(),
            Some(Bound::Simulator(bound)) => bound.explain(),
            #[cfg(any(target_vendor = "apple", metile_check_metal))]
            Some(Bound::Metal(bound)) => bound.explain(),
            None => String::new(),
        }
    }

    fn explain(&self) -> String {
        let mut text = String::new();
        let [x, y, z] = self.grid;
        // Writing to a String can't fail.
        let _ =
            writeln!(text, "kernel {} on {}, grid {x} × {y} × {z}", self.label, self.device.name());
        let kernel = self.compiled.optimized.kernel.kernel();
        if let Some(reason) = nondeterminism(kernel) {
            let _ = writeln!(text, "nondeterministic: {reason}");
        }
        let _ = writeln!(text, "passes:");
        for stage in &self.compiled.optimized.stages {
            let _ = writeln!(
                text,
                "  {}. {:<13}{:>5} → {:<5} operations  {:>8.1} µs",
                stage.round,
                stage.name,
                stage.ops_before,
                stage.ops_after,
                stage.time.as_secs_f64() * 1e6
            );
        }
        let _ = write!(text, "{kernel}");
        if self.bound.is_some() {
            let _ = write!(text, "\n{}", self.on_device());
        }
        text
    }

    pub fn launch(&self) -> Result<Launched, Error> {
        if let Some(bound) = self.on_cuda() {
            let time = bound.run().map_err(|e| self.failed_on_cuda(e))?;
            return Ok(Launched { device_time: Some(time), ..Launched::default() });
        }
        #[cfg(any(target_vendor = "apple", metile_check_metal))]
        if let Some(bound) = self.on_metal() {
            let _held = metal_held(&self.bindings.storages).map_err(|m| self.internal(m))?;
            let times = metal::run_all(&[bound], false);
            let times = times.map_err(|(_, e)| self.failed_on_metal(e))?;
            return Ok(Launched { device_time: times.first().copied(), ..Launched::default() });
        }
        let mut held = hold_all(&self.bindings.storages).map_err(|m| self.internal(m))?;
        if let Some(Bound::MslOnCpu(bound)) = &self.bound {
            bound.run().map_err(|e| match e {
                msl_on_cpu::RunError::Msl(error) => Error::MslOnCpu(error),
                msl_on_cpu::RunError::Tensor(error) => Error::Tensor(error),
                msl_on_cpu::RunError::Failure(failure) => self.failed(failure),
            })?;
            return Ok(Launched::default());
        }
        if let (Some(Bound::Simulator(bound)), Kind::Simulator(simulator)) =
            (&self.bound, self.device.kind())
        {
            let outcome = bound.run(simulator, &self.bindings.arguments, &mut buffers(&mut held));
            return match outcome {
                Ok(found) => Ok(self.found(&found)),
                Err(simulator::RunError::Failure(failure)) => Err(self.failed(failure)),
                Err(simulator::RunError::Refused(why)) => Err(self.refused(why)),
                Err(simulator::RunError::Internal(why)) => Err(self.internal(why)),
            };
        }
        let outcome = match self.on_cpu() {
            Some(bound) => {
                let pool = cpu::pool().map_err(Error::Threads)?;
                cpu::run(bound, pool)
            }
            None => {
                let options = match self.device.kind() {
                    Kind::Interpreter(options) => options.clone(),
                    _ => interp::Options::default(),
                };
                let mut buffers = buffers(&mut held);
                Interpreter { options }.run(
                    &self.compiled.optimized.kernel,
                    self.grid,
                    &self.bindings.arguments,
                    &mut buffers,
                )
            }
        };
        Ok(self.report(outcome.map_err(|f| self.failed(f))?))
    }

    fn report(&self, outcome: Outcome) -> Launched {
        let warnings = self.warned(outcome.warnings.iter());
        Launched { warnings, printed: outcome.printed, device_time: None }
    }

    /// What the simulator found.
    fn found(&self, findings: &[Finding]) -> Launched {
        let warnings = self.warned(findings.iter().map(|f| &f.diagnostic));
        Launched { warnings, ..Launched::default() }
    }

    /// The warnings with their source lines, which are logged.
    fn warned<'w>(&self, warnings: impl Iterator<Item = &'w Diagnostic>) -> Vec<String> {
        let warnings: Vec<String> =
            warnings.map(|w| w.render(&self.compiled.traced.files)).collect();
        for warning in &warnings {
            tracing::warn!(target: "metile", "{warning}");
        }
        warnings
    }
}

fn buffers<'h>(held: &'h mut [Held<'_>]) -> Vec<interp::Buffer<'h>> {
    held.iter_mut()
        .map(|held| match held {
            Held::Read { bytes, .. } => interp::Buffer::Read(bytes),
            Held::Write { bytes, .. } => interp::Buffer::Write(bytes),
        })
        .collect()
}

fn memory(storage: &Arc<dyn Storage>) -> Result<&HostMemory, String> {
    let any: &dyn Any = storage.as_ref();
    any.downcast_ref::<HostMemory>()
        .ok_or_else(|| format!("memory of `{}` is not the host's", storage.device()))
}

fn device_memory(storage: &Arc<dyn Storage>) -> Result<&cuda::DeviceMemory, String> {
    let any: &dyn Any = storage.as_ref();
    any.downcast_ref::<cuda::DeviceMemory>()
        .ok_or_else(|| format!("memory of `{}` is not a CUDA device's", storage.device()))
}

#[cfg(any(target_vendor = "apple", metile_check_metal))]
fn metal_memory(storage: &Arc<dyn Storage>) -> Result<&metal::DeviceMemory, String> {
    let any: &dyn Any = storage.as_ref();
    any.downcast_ref::<metal::DeviceMemory>()
        .ok_or_else(|| format!("memory of `{}` is not a Metal device's", storage.device()))
}

/// As [`hold_all`], for memory of a Metal device.
#[cfg(any(target_vendor = "apple", metile_check_metal))]
pub(crate) fn metal_held(
    storages: &[(Arc<dyn Storage>, bool)],
) -> Result<Vec<metal::Held<'_>>, String> {
    let mut order: Vec<&(Arc<dyn Storage>, bool)> = storages.iter().collect();
    order.sort_by_key(|(storage, _)| Arc::as_ptr(storage).cast::<()>());
    order.into_iter().map(|(storage, write)| Ok(metal_memory(storage)?.hold(*write))).collect()
}

/// Holds every storage. In order of address, so that two launches never wait for each other.
pub(crate) fn hold_all(storages: &[(Arc<dyn Storage>, bool)]) -> Result<Vec<Held<'_>>, String> {
    let mut order: Vec<usize> = (0..storages.len()).collect();
    order.sort_by_key(|&n| Arc::as_ptr(&storages[n].0).cast::<()>());
    let mut held: Vec<Option<Held<'_>>> = storages.iter().map(|_| None).collect();
    for n in order {
        let memory = memory(&storages[n].0)?;
        held[n] = Some(if storages[n].1 { memory.hold_mut() } else { memory.hold() });
    }
    Ok(held.into_iter().flatten().collect())
}

/// Why two launches of the kernel may differ in their last bits, if they may.
pub fn nondeterminism(kernel: &Kernel) -> Option<String> {
    use metile_ir::tile::{AtomicOp, OpKind};
    let adds_floats = |id: &metile_ir::tile::OpId| {
        let op = &kernel.ops[*id];
        let float = op.results.first().and_then(|&v| kernel.ty(v).tile());
        op.kind == OpKind::AtomicRmw(AtomicOp::Add) && float.is_some_and(|t| t.dtype.is_float())
    };
    let op = kernel.walk(kernel.body).into_iter().find(adds_floats)?;
    let place = kernel.ops[op].span.map_or(String::new(), |s| format!(" (line {})", s.line));
    Some(format!("floats are added atomically, in no fixed order{place}"))
}
