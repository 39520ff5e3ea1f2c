//! A program on memory that the caller holds, for tests of this back-end.

use super::MslError;
use super::launch::{BindError, Bound, NAME, RunError};
use crate::differential::NotRun;
use crate::host_memory::{Held, HostMemory};
use crate::words;
use metile_compiler::gpu::{Target, lower};
use metile_device::{Limits, verify};
use metile_ir::interp::{self, Argument, Buffer};
use metile_ir::tile::Verified;
use metile_lang::tensor::Storage;
use std::sync::Arc;

/// Runs a kernel as [`Interpreter::run`](metile_ir::interp::Interpreter::run) does: for tests of this back-end against that
/// one. Kernels are otherwise launched through [`Device::msl_on_cpu`](crate::Device::msl_on_cpu).
///
/// # Errors
/// If the program fails, can't be Metal source, or the source does not do as it should.
pub fn run_program(
    seed: u64,
    kernel: &Verified,
    grid: [u64; 3],
    arguments: &[Argument],
    buffers: &mut [Buffer<'_>],
) -> Result<interp::Outcome, NotRun> {
    let broken = |error: &dyn std::fmt::Display| NotRun::Broken(error.to_string());
    interp::check_arguments(kernel, arguments, buffers).map_err(NotRun::Failure)?;
    // Memory that begins where elements of all sizes may.
    let mut memories = Vec::new();
    for buffer in buffers.iter() {
        let bytes: &[u8] = match buffer {
            Buffer::Read(bytes) => bytes,
            Buffer::Write(bytes) => bytes,
        };
        let memory = HostMemory::new(NAME, bytes.len()).map_err(|e| broken(&e))?;
        memory.write(0, bytes).map_err(|e| broken(&e))?;
        memories.push(memory);
    }
    let addresses: Vec<u64> =
        memories.iter().map(|memory| memory.first().expose_provenance() as u64).collect();
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
    let bound = Bound::new(Arc::new(program), grid, arguments, &addresses, seed);
    let bound = bound.map_err(|error| match error {
        BindError::Msl(error @ (MslError::Emit(_) | MslError::Compiler { .. })) => {
            NotRun::Refused(error.to_string())
        }
        BindError::Msl(error) => broken(&error),
        BindError::Tensor(error) => broken(&error),
        BindError::Internal(why) => NotRun::Broken(why),
    })?;
    let held: Vec<Held<'_>> = memories.iter().map(HostMemory::hold_mut).collect();
    let ran = bound.run();
    drop(held);
    ran.map_err(|error| match error {
        RunError::Failure(failure) => NotRun::Failure(failure),
        RunError::Msl(error) => broken(&error),
        RunError::Tensor(error) => broken(&error),
    })?;
    for (buffer, memory) in buffers.iter_mut().zip(&memories) {
        if let Buffer::Write(bytes) = buffer {
            memory.read(0, bytes).map_err(|e| broken(&e))?;
        }
    }
    Ok(interp::Outcome::default())
}
