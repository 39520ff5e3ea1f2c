//! A program on memory of the host, for tests of this back-end.

use super::super::MetalError;
use super::gpu::Gpu;
use super::launch::{BindError, Bound, RunError, run_all};
use super::memory::DeviceMemory;
use crate::differential::NotRun;
use crate::words;
use metile_compiler::gpu::{Target, lower};
use metile_device::{Limits, verify};
use metile_ir::interp::{self, Argument, Buffer};
use metile_ir::tile::Verified;
use metile_lang::tensor::Storage;
use std::sync::Arc;

/// Runs a kernel on copies of memory that the caller holds, as
/// [`Interpreter::run`](metile_ir::interp::Interpreter::run) does: for tests of this back-end against that one. Kernels are otherwise
/// launched through [`Device::metal`](crate::Device::metal).
///
/// # Errors
/// If the program fails, can't be run on a Metal device, or the device does not do as it should.
pub fn run_program(
    gpu: &Arc<Gpu>,
    kernel: &Verified,
    grid: [u64; 3],
    arguments: &[Argument],
    buffers: &mut [Buffer<'_>],
) -> Result<interp::Outcome, NotRun> {
    let broken = |error: &dyn std::fmt::Display| NotRun::Broken(error.to_string());
    interp::check_arguments(kernel, arguments, buffers).map_err(NotRun::Failure)?;
    let mut memories = Vec::new();
    for buffer in buffers.iter() {
        let bytes: &[u8] = match buffer {
            Buffer::Read(bytes) => bytes,
            Buffer::Write(bytes) => bytes,
        };
        let memory = DeviceMemory::zeros(gpu, bytes.len()).map_err(|e| broken(&e))?;
        memory.write(0, bytes).map_err(|e| broken(&e))?;
        memories.push(memory);
    }
    let addresses: Vec<u64> = memories.iter().map(DeviceMemory::address).collect();
    let classes =
        words::classes(kernel.kernel(), arguments, &addresses).map_err(NotRun::Refused)?;
    let target = Target::APPLE;
    let program = lower(kernel, &target, &classes)
        .map_err(|diagnostic| NotRun::Refused(diagnostic.message))?;
    let limits = Limits { shared_bytes: target.shared_bytes, threads: target.threads };
    let program = verify(program, &limits).map_err(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        NotRun::Broken(errors.join("; "))
    })?;
    let memory: Vec<&DeviceMemory> = memories.iter().collect();
    let bound = Bound::new(gpu, Arc::new(program), grid, arguments, &memory);
    let bound = bound.map_err(|error| match error {
        BindError::Metal(
            error @ (MetalError::Emit(_) | MetalError::Threads { .. } | MetalError::Shared { .. }),
        ) => NotRun::Refused(error.to_string()),
        BindError::Metal(error) => broken(&error),
        BindError::Internal(why) => NotRun::Broken(why),
    })?;
    run_all(&[&bound], false).map_err(|(_, error)| match error {
        RunError::Failure(failure) => NotRun::Failure(failure),
        RunError::Metal(error) => broken(&error),
    })?;
    for (buffer, memory) in buffers.iter_mut().zip(&memories) {
        if let Buffer::Write(bytes) = buffer {
            memory.read(0, bytes).map_err(|e| broken(&e))?;
        }
    }
    Ok(interp::Outcome::default())
}
