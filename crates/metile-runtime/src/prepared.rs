//! A kernel call that is compiled, bound and checked: launching only launches.

use crate::binding::Bound;
use crate::device::Device;
use crate::error::Error;
use crate::host_memory::{Bytes, HostMemory};
use metile_compiler::{Dump, Optimized, Options, optimize};
use metile_ir::interp::{self, Interpreter, Outcome};
use metile_ir::tile::{Kernel, verify};
use metile_lang::kernel::{CompileError, KernelCall};
use metile_lang::tensor::Storage;
use std::any::Any;
use std::fmt::Write;
use std::marker::PhantomData;
use std::sync::Arc;

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
    traced: Kernel,
    optimized: Optimized,
    bound: Bound,
    grid: [u64; 3],
}

/// What a launch left besides its results.
#[derive(Debug, Default)]
pub struct Launched {
    /// Warnings with their source lines, from devices that look out for them.
    pub warnings: Vec<String>,
    /// What the programs printed.
    pub printed: Vec<String>,
}

impl Prepared<'_> {
    pub(crate) fn new(device: &Device, call: &KernelCall<'_>) -> Result<Self, Error> {
        Ok(Prepared { dispatch: Dispatch::new(device, call)?, _borrows: PhantomData })
    }

    /// The program as it was traced, before any pass.
    pub fn traced(&self) -> &Kernel {
        &self.dispatch.traced
    }

    /// The program that runs.
    pub fn tile_ir(&self) -> &Kernel {
        self.dispatch.optimized.kernel.kernel()
    }

    /// What was made of the kernel, and how: the device, the passes with their times, the program.
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
        let mut kernel = call.definition.trace()?;
        kernel.precision = call.precision;
        let traced = kernel.clone();
        let files = kernel.files.clone();
        let verified =
            verify::verify(kernel).map_err(|diagnostics| CompileError { diagnostics, files })?;
        let dump = Dump::from_env().map_err(|e| refuse(e.to_string()))?;
        let options = Options { dump, ..Options::default() };
        let optimized = optimize(verified, &options)
            .map_err(|e| Error::Internal { kernel: name.to_owned(), message: e.to_string() })?;
        let bound = Bound::new(&traced, &call.arguments).map_err(refuse)?;
        for (storage, _) in &bound.storages {
            if storage.device() != device.name() {
                return Err(refuse(format!(
                    "an argument lies in memory of the device `{}`, and the call is for `{}`",
                    storage.device(),
                    device.name()
                )));
            }
        }
        Ok(Dispatch {
            device: device.clone(),
            label: call.definition.info().label(),
            traced,
            optimized,
            bound,
            grid: grid.map(|extent| extent as u64),
        })
    }

    fn explain(&self) -> String {
        let mut text = String::new();
        let [x, y, z] = self.grid;
        // Writing to a String can't fail.
        let _ =
            writeln!(text, "kernel {} on {}, grid {x} × {y} × {z}", self.label, self.device.name());
        let kernel = self.optimized.kernel.kernel();
        if let Some(reason) = nondeterminism(kernel) {
            let _ = writeln!(text, "nondeterministic: {reason}");
        }
        let _ = writeln!(text, "passes:");
        for stage in &self.optimized.stages {
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
        text
    }

    pub fn launch(&self) -> Result<Launched, Error> {
        let mut locks = lock_all(&self.bound.storages)
            .map_err(|message| Error::Internal { kernel: self.traced.name.clone(), message })?;
        let mut buffers: Vec<interp::Buffer<'_>> = locks
            .iter_mut()
            .map(|lock| match lock {
                Lock::Read(bytes) => interp::Buffer::Read(bytes),
                Lock::Write(bytes) => interp::Buffer::Write(bytes),
            })
            .collect();
        let interpreter = Interpreter { options: self.device.interpreter_options().clone() };
        let outcome = interpreter
            .run(&self.optimized.kernel, self.grid, &self.bound.arguments, &mut buffers)
            .map_err(|failure| Error::Run {
                kernel: self.traced.name.clone(),
                rendered: match failure.diagnostic() {
                    Some(d) => d.render(&self.traced.files),
                    None => failure.to_string(),
                },
                failure: Box::new(failure),
            })?;
        Ok(self.report(outcome))
    }

    fn report(&self, outcome: Outcome) -> Launched {
        let warnings: Vec<String> =
            outcome.warnings.iter().map(|w| w.render(&self.traced.files)).collect();
        for warning in &warnings {
            tracing::warn!(target: "metile", "{warning}");
        }
        Launched { warnings, printed: outcome.printed }
    }
}

/// A storage held for a launch.
pub(crate) enum Lock<'s> {
    Read(std::sync::RwLockReadGuard<'s, Bytes>),
    Write(std::sync::RwLockWriteGuard<'s, Bytes>),
}

/// Holds every storage. In order of address, so that two launches never wait for each other.
pub(crate) fn lock_all(storages: &[(Arc<dyn Storage>, bool)]) -> Result<Vec<Lock<'_>>, String> {
    let memory = |n: usize| {
        let storage = &storages[n].0;
        let any: &dyn Any = storage.as_ref();
        any.downcast_ref::<HostMemory>()
            .ok_or_else(|| format!("memory of `{}` is not the host's", storage.device()))
    };
    let mut order: Vec<usize> = (0..storages.len()).collect();
    order.sort_by_key(|&n| Arc::as_ptr(&storages[n].0).cast::<()>());
    let mut locks: Vec<Option<Lock<'_>>> = storages.iter().map(|_| None).collect();
    for n in order {
        let memory = memory(n)?;
        locks[n] = Some(if storages[n].1 {
            Lock::Write(memory.lock_mut())
        } else {
            Lock::Read(memory.lock())
        });
    }
    Ok(locks.into_iter().flatten().collect())
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
