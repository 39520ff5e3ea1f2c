//! A program on memory that the caller holds, for tests of the lowering.

use super::{Bound, RunError, Simulator};
use crate::differential::NotRun;
use crate::words;
use metile_compiler::gpu::lower;
use metile_device::{Limits, verify};
use metile_ir::interp::{self, Argument, Buffer};
use metile_ir::tile::Verified;
use std::sync::Arc;

/// Runs a kernel as [`Interpreter::run`](metile_ir::interp::Interpreter::run) does: for tests of what a GPU's program is made of. Kernels are otherwise
/// launched through [`Device::simulator`](crate::Device::simulator).
///
/// # Errors
/// If the program fails or can't be run on a GPU, or if the simulator finds anything wrong with what it was made into.
pub fn run_program(
    simulator: &Simulator,
    kernel: &Verified,
    grid: [u64; 3],
    arguments: &[Argument],
    buffers: &mut [Buffer<'_>],
) -> Result<interp::Outcome, NotRun> {
    interp::check_arguments(kernel, arguments, buffers).map_err(NotRun::Failure)?;
    let addresses = vec![0; buffers.len()];
    let classes =
        words::classes(kernel.kernel(), arguments, &addresses).map_err(NotRun::Refused)?;
    let target = simulator.target;
    let program = lower(kernel, &target, &classes)
        .map_err(|diagnostic| NotRun::Refused(diagnostic.message))?;
    let limits = Limits { shared_bytes: target.shared_bytes, threads: target.threads };
    let text = program.to_string();
    let program = verify(program, &limits).map_err(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        NotRun::Broken(format!("{}\n{text}", errors.join("; ")))
    })?;
    let bound = Bound::new(Arc::new(program), kernel.kernel(), grid, arguments, buffers.len())
        .map_err(NotRun::Failure)?;
    let found = bound.run(simulator, arguments, buffers).map_err(|error| match error {
        RunError::Failure(failure) => NotRun::Failure(failure),
        RunError::Refused(why) => NotRun::Refused(why),
        RunError::Internal(why) => NotRun::Broken(why),
    })?;
    if found.is_empty() {
        return Ok(interp::Outcome::default());
    }
    let found: Vec<String> = found.iter().map(|f| f.diagnostic.to_string()).collect();
    Err(NotRun::Broken(format!("{}\n{text}", found.join("\n"))))
}
