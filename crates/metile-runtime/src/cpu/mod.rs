//! The CPU device: the tile machine and the threads it runs on.

mod by_position;
mod dot;
mod launch;
mod machine;
mod operands;
mod pass;
mod persistent;
mod pool;
mod probe;
mod processors;
mod route;
mod scalar;
mod settled;
mod tile;
mod view;
mod walk;

pub(crate) use launch::{Bound, run, run_all};
pub(crate) use pool::pool;
pub use probe::{Rates, Reader, probe};

use metile_compiler::cpu::{Form, lower};
use metile_ir::interp::{self, Argument, Buffer, Failure};
use metile_ir::tile::Verified;
use std::sync::Arc;

/// How the programs of a grid are shared out, with the reasons.
pub(crate) fn schedule(grid: [u64; 3]) -> String {
    let programs: u64 = grid.iter().product();
    let threads = match pool() {
        Ok(pool) => pool.threads().to_string(),
        Err(why) => format!("no ({why})"),
    };
    format!(
        "schedule: {programs} programs on {threads} threads, each beginning with a part of its own, then helping others; {} vectors, \
         the best of this machine; chunks of {} elements, so that the operands of a pass stay in the \
         first-level cache",
        metile_simd::Level::detect().name(),
        metile_compiler::cpu::CHUNK
    )
}

/// Threads that launches run on.
///
/// # Errors
/// If `METILE_THREADS` is no number of threads, or a thread can't be started.
pub fn threads() -> Result<usize, String> {
    pool().map(pool::Pool::threads)
}

/// The SIMD instructions in use.
pub fn simd() -> &'static str {
    metile_simd::Level::detect().name()
}

/// Why a program could not be run on the CPU.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// As on the interpreter.
    #[error(transparent)]
    Failure(#[from] Failure),
    /// The machine's threads could not be started.
    #[error("{0}")]
    Threads(String),
}

/// Runs a kernel on memory that the caller holds, as
/// [`Interpreter::run`](metile_ir::interp::Interpreter::run) does: for tests of this back-end against
/// that one. Kernels are otherwise launched through [`Device::cpu`](crate::Device::cpu).
///
/// # Errors
/// As the interpreter's, and if threads can't be started.
pub fn run_program(
    kernel: &Verified,
    grid: [u64; 3],
    arguments: &[Argument],
    buffers: &mut [Buffer<'_>],
) -> Result<interp::Outcome, RunError> {
    interp::check_arguments(kernel, arguments, buffers)?;
    let form: Arc<Form> = Arc::new(lower(kernel));
    let firsts: Vec<*mut u8> = buffers
        .iter_mut()
        .map(|buffer| match buffer {
            // Nothing is written through it: the kernel was verified, and its arguments checked.
            Buffer::Read(bytes) => bytes.as_ptr().cast_mut(),
            Buffer::Write(bytes) => bytes.as_mut_ptr(),
        })
        .collect();
    let bound = Bound::new(kernel.kernel(), form, grid, arguments, &firsts)?;
    Ok(run(&bound, pool().map_err(RunError::Threads)?)?)
}
