//! A program with its arguments, run on memory of the host.

use super::Simulator;
use crate::reports;
use crate::words::{self, Addresses};
use metile_device::sim::{self, Finding, Launch, Memory};
use metile_device::{Program, Verified};
use metile_ir::interp::{self, Argument, Buffer, Failure};
use metile_ir::tile::Kernel;
use std::sync::Arc;

/// A launch. Its arguments were checked.
#[derive(Debug)]
pub(crate) struct Bound {
    program: Arc<Verified>,
    grid: [u64; 3],
    blocks: u64,
    /// What to call each buffer: the parameters that lie in it.
    names: Vec<String>,
}

/// Why a launch failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    /// The program did.
    #[error(transparent)]
    Failure(#[from] Failure),
    /// The simulator can't run it.
    #[error("{0}")]
    Refused(String),
    /// The words are not of this program.
    #[error("{0}")]
    Internal(String),
}

impl Bound {
    /// Binds `program`, which is `kernel` for these arguments, to a grid.
    ///
    /// # Errors
    /// If the grid is too large.
    pub fn new(
        program: Arc<Verified>,
        kernel: &Kernel,
        grid: [u64; 3],
        arguments: &[Argument],
        buffers: usize,
    ) -> Result<Bound, Failure> {
        let blocks = interp::programs(grid)?;
        let mut names = vec![String::new(); buffers];
        for (n, argument) in arguments.iter().enumerate() {
            let tensors = match argument {
                Argument::Scalar(_) => continue,
                Argument::Tensor(tensor) => std::slice::from_ref(tensor),
                Argument::List(tensors) => &tensors[..],
            };
            let parameter = kernel.parameter_name(n);
            for part in tensors.iter().flat_map(|t| &t.parts) {
                let Some(name) = names.get_mut(part.buffer) else { continue };
                if !name.split(", ").any(|known| known == parameter) {
                    name.push_str(if name.is_empty() { "" } else { ", " });
                    name.push_str(&parameter);
                }
            }
        }
        Ok(Bound { program, grid, blocks, names })
    }

    /// Runs the launch; gives what is wrong with the program.
    ///
    /// # Errors
    /// If an assertion fails, threads wait for each other for ever, or the simulator has no room.
    pub fn run(
        &self,
        simulator: &Simulator,
        arguments: &[Argument],
        buffers: &mut [Buffer<'_>],
    ) -> Result<Vec<Finding>, RunError> {
        let program = self.program.program();
        let (mut report, mut barrier) = ([0u8; 8 * reports::WORDS], [0u8; 8]);
        let mut memory = Memory::new();
        let addresses: Vec<u64> = buffers
            .iter_mut()
            .zip(&self.names)
            .map(|(buffer, name)| match buffer {
                Buffer::Read(bytes) => memory.read(name, bytes),
                Buffer::Write(bytes) => memory.write(name, bytes),
            })
            .collect();
        let tables: Vec<Vec<u8>> = words::tables(&program.words, arguments, &addresses)
            .iter()
            .map(|table| table.iter().flat_map(|address| address.to_le_bytes()).collect())
            .collect();
        let tables: Vec<u64> =
            tables.iter().map(|table| memory.read("table of a list", table)).collect();
        let addresses = Addresses {
            buffers: &addresses,
            report: memory.write("report", &mut report),
            grid_barrier: memory.write("grid barrier", &mut barrier),
            tables: &tables,
        };
        let words = words::pack(&program.words, self.grid, arguments, &addresses)
            .map_err(RunError::Internal)?;
        let launch = Launch { blocks: self.blocks, words: &words, memory: &mut memory };
        let outcome = sim::run(&self.program, launch, &simulator.options).map_err(failure)?;
        let report =
            std::array::from_fn(|n| u64::from_le_bytes(std::array::from_fn(|i| report[8 * n + i])));
        reports::outcome(program, self.grid, report)?;
        Ok(outcome.findings)
    }

    /// What runs.
    pub fn explain(&self) -> String {
        let program: &Program = self.program.program();
        format!(
            "{} blocks of {} threads, {} bytes of shared memory a block{}\n{program}",
            self.blocks,
            program.threads(),
            program.shared_bytes(),
            if program.persistent { "; all blocks run at once" } else { "" },
        )
    }
}

fn failure(failure: sim::Failure) -> RunError {
    match failure {
        sim::Failure::Deadlock(found) => Failure::Deadlock(found).into(),
        sim::Failure::StepLimit(steps) => Failure::StepLimit(steps).into(),
        sim::Failure::TooManyBlocks(_) | sim::Failure::Blocks(_) | sim::Failure::Copies => {
            RunError::Refused(failure.to_string())
        }
        sim::Failure::Words { .. } => RunError::Internal(failure.to_string()),
    }
}
