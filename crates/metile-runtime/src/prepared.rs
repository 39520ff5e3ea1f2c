//! A kernel call that is compiled, bound and checked: launching only launches.

use crate::device::Device;
use crate::error::Error;
use crate::host_memory::HostMemory;
use crate::overlap::{Region, overlap, overlaps_itself};
use metile_compiler::{Dump, Optimized, Options, optimize};
use metile_ir::Format;
use metile_ir::interp::{self, Interpreter, Outcome};
use metile_ir::tile::{Access, Kernel, verify};
use metile_lang::kernel::{Argument, CompileError, KernelCall};
use metile_lang::tensor::{Part, RawTensor, Storage};
use std::any::Any;
use std::fmt::Write;
use std::marker::PhantomData;
use std::sync::Arc;

/// A kernel ready to launch, as often as one likes. It borrows its arguments as the kernel's
/// signature says.
#[derive(Debug)]
pub struct Prepared<'call> {
    device: Device,
    label: String,
    traced: Kernel,
    optimized: Optimized,
    arguments: Vec<interp::Argument>,
    /// Every storage that an argument lies in, once, and whether the launch writes it.
    storages: Vec<(Arc<dyn Storage>, bool)>,
    grid: [u64; 3],
    _borrows: PhantomData<&'call mut ()>,
}

/// What a launch left besides its results.
#[derive(Debug, Default)]
pub struct Launched {
    /// Warnings with their source lines, from devices that look out for them.
    pub warnings: Vec<String>,
    /// What the programs printed.
    pub printed: Vec<String>,
}

impl<'call> Prepared<'call> {
    pub(crate) fn new(device: &Device, call: KernelCall<'call>) -> Result<Self, Error> {
        let name = call.definition.info().name;
        let refuse = |message: String| Error::Call { kernel: name.to_owned(), message };
        let grid = call.grid.ok_or_else(|| {
            refuse(
                "the call has no grid; say how many programs run, as in `.grid(rows)`".to_owned(),
            )
        })?;
        let grid = grid.map(|extent| extent as u64);
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
        check_overlap(&traced, &call.arguments).map_err(refuse)?;
        let mut storages = Vec::new();
        let arguments =
            call.arguments.iter().map(|argument| bind(argument, &mut storages)).collect();
        for (storage, _) in &storages {
            if storage.device() != device.name() {
                return Err(refuse(format!(
                    "an argument lies in memory of the device `{}`, and the call is for `{}`",
                    storage.device(),
                    device.name()
                )));
            }
        }
        Ok(Prepared {
            device: device.clone(),
            label: call.definition.info().label(),
            traced,
            optimized,
            arguments,
            storages,
            grid,
            _borrows: PhantomData,
        })
    }

    /// The program as it was traced, before any pass.
    pub fn traced(&self) -> &Kernel {
        &self.traced
    }

    /// The program that runs.
    pub fn tile_ir(&self) -> &Kernel {
        self.optimized.kernel.kernel()
    }

    /// What was made of the kernel, and how: the device, the passes with their times, the program.
    pub fn explain(&self) -> String {
        let mut text = String::new();
        let [x, y, z] = self.grid;
        // Writing to a String can't fail.
        let _ =
            writeln!(text, "kernel {} on {}, grid {x} × {y} × {z}", self.label, self.device.name());
        let kernel = self.tile_ir();
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

    /// Runs the kernel and waits for it.
    ///
    /// # Errors
    /// If an assertion of the kernel fails, its programs wait for each other for ever, or the device
    /// fails. What was written until then stays written.
    pub fn launch(&self) -> Result<Launched, Error> {
        let mut locks = Vec::with_capacity(self.storages.len());
        for (storage, written) in &self.storages {
            let any: &dyn Any = storage.as_ref();
            let memory = any.downcast_ref::<HostMemory>().ok_or_else(|| Error::Internal {
                kernel: self.traced.name.clone(),
                message: format!("memory of `{}` is not the host's", storage.device()),
            })?;
            locks.push(if *written {
                Lock::Write(memory.lock_mut())
            } else {
                Lock::Read(memory.lock())
            });
        }
        let mut buffers: Vec<interp::Buffer<'_>> = locks
            .iter_mut()
            .map(|lock| match lock {
                Lock::Read(bytes) => interp::Buffer::Read(bytes),
                Lock::Write(bytes) => interp::Buffer::Write(bytes),
            })
            .collect();
        let interpreter = Interpreter { options: self.device.interpreter_options().clone() };
        let outcome = interpreter
            .run(&self.optimized.kernel, self.grid, &self.arguments, &mut buffers)
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

enum Lock<'s> {
    Read(std::sync::RwLockReadGuard<'s, Vec<u8>>),
    Write(std::sync::RwLockWriteGuard<'s, Vec<u8>>),
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

fn bind(argument: &Argument, storages: &mut Vec<(Arc<dyn Storage>, bool)>) -> interp::Argument {
    match argument {
        Argument::Scalar(scalar) => interp::Argument::Scalar(*scalar),
        Argument::Tensor(tensor, access) => {
            interp::Argument::Tensor(bind_tensor(tensor, *access, storages))
        }
        Argument::List(tensors) => interp::Argument::List(
            tensors.iter().map(|t| bind_tensor(t, Access::Read, storages)).collect(),
        ),
    }
}

fn bind_tensor(
    tensor: &RawTensor,
    access: Access,
    storages: &mut Vec<(Arc<dyn Storage>, bool)>,
) -> interp::TensorArgument {
    let written = access != Access::Read;
    let parts = tensor.parts.iter().map(|part| {
        let known = storages.iter().position(|(s, _)| Arc::ptr_eq(s, &part.storage));
        let buffer = known.unwrap_or_else(|| {
            storages.push((part.storage.clone(), false));
            storages.len() - 1
        });
        storages[buffer].1 |= written;
        interp::Part { buffer, byte_offset: part.byte_offset }
    });
    interp::TensorArgument {
        parts: parts.collect(),
        shape: tensor.shape.iter().map(|&s| s as u64).collect(),
        strides: tensor.strides.clone(),
    }
}

/// The bytes that a tensor's part covers.
fn region(tensor: &RawTensor, n: usize, part: &Part) -> Region {
    let (mut extents, width): (Vec<u64>, usize) = match tensor.format {
        Format::Plain(d) => (tensor.shape.iter().map(|&s| s as u64).collect(), d.bytes()),
        Format::Packed(p) => {
            let extents = tensor.shape.iter().map(|&s| s as u64).collect();
            (extents, p.block_bytes().get(n).copied().unwrap_or(1))
        }
    };
    if let (Format::Packed(p), Some(last)) = (tensor.format, extents.last_mut()) {
        *last /= p.block_elements() as u64;
    }
    let strides = tensor.strides.iter().map(|&s| i128::from(s) * width as i128).collect();
    Region { offset: i128::from(part.byte_offset), extents, strides, width: width as u64 }
}

/// A tensor that the launch writes shares no byte with any other argument, nor an element with itself.
fn check_overlap(kernel: &Kernel, arguments: &[Argument]) -> Result<(), String> {
    let mut seen: Vec<(usize, bool, Arc<dyn Storage>, Region)> = Vec::new();
    let name = |n: usize| {
        let value = kernel.parameters.get(n).map(|&v| &kernel.values[v]);
        value.and_then(|v| v.name.clone()).unwrap_or_else(|| format!("parameter {n}"))
    };
    for (n, argument) in arguments.iter().enumerate() {
        let (tensors, written) = match argument {
            Argument::Scalar(_) => continue,
            Argument::Tensor(tensor, access) => {
                (std::slice::from_ref(tensor), *access != Access::Read)
            }
            Argument::List(tensors) => (&tensors[..], false),
        };
        for tensor in tensors {
            for (p, part) in tensor.parts.iter().enumerate() {
                let region = region(tensor, p, part);
                if written && overlaps_itself(&region) {
                    return Err(format!(
                        "`{}` is written, but two of its indices share an element (strides {:?})",
                        name(n),
                        tensor.strides
                    ));
                }
                let clash = seen.iter().find(|(_, other_written, storage, other)| {
                    (written || *other_written)
                        && Arc::ptr_eq(storage, &part.storage)
                        && overlap(&region, other)
                });
                if let Some((other, ..)) = clash.filter(|(other, ..)| *other != n || written) {
                    return Err(format!(
                        "`{}` and `{}` share memory, and one of them is written; pass one `&mut Tensor` to work in place",
                        name(*other),
                        name(n)
                    ));
                }
                seen.push((n, written, part.storage.clone(), region));
            }
        }
    }
    Ok(())
}
