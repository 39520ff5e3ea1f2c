//! A program with its arguments, ready to run.

use super::{Kernel, MslError};
use crate::host_memory::HostMemory;
use crate::reports;
use crate::words::{self, Addresses};
use metile_compiler::gpu::metal::emit;
use metile_device::Verified;
use metile_ir::interp::{self, Argument, Failure};
use metile_lang::tensor::{Storage, TensorError};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The device's name.
pub(crate) const NAME: &str = "msl-on-cpu";

/// A launch.
#[derive(Debug)]
pub(crate) struct Bound {
    program: Arc<Verified>,
    kernel: Arc<Kernel>,
    words: Vec<u64>,
    grid: [u64; 3],
    blocks: u64,
    seed: u64,
    report: HostMemory,
    /// In use as long as the launch is.
    _tables: Vec<HostMemory>,
}

impl Bound {
    /// Binds `arguments`, whose buffers begin at `buffers`; they were checked.
    ///
    /// # Errors
    /// If the source can't be made or compiled, or the grid is too large.
    pub fn new(
        verified: Arc<Verified>,
        grid: [u64; 3],
        arguments: &[Argument],
        buffers: &[u64],
        seed: u64,
    ) -> Result<Bound, BindError> {
        let program = verified.program();
        let blocks = interp::programs(grid).map_err(|e| MslError::Launch {
            kernel: program.name.clone(),
            message: e.to_string(),
        })?;
        let kernel = compiled(&verified)?;
        let mut tables = Vec::new();
        for table in words::tables(&program.words, arguments, buffers) {
            let memory = HostMemory::new(NAME, table.len() * 8)?;
            let bytes: Vec<u8> = table.iter().flat_map(|address| address.to_ne_bytes()).collect();
            memory.write(0, &bytes)?;
            tables.push(memory);
        }
        let report = HostMemory::new(NAME, reports::WORDS * 8)?;
        let address = |memory: &HostMemory| memory.first().expose_provenance() as u64;
        let addresses = Addresses {
            buffers,
            report: address(&report),
            grid_barrier: 0,
            tables: &tables.iter().map(address).collect::<Vec<_>>(),
        };
        let words = words::pack(&program.words, grid, arguments, &addresses)
            .map_err(BindError::Internal)?;
        Ok(Bound { program: verified, kernel, words, grid, blocks, seed, report, _tables: tables })
    }

    /// Launches and waits. The caller holds the arguments' memory.
    ///
    /// # Errors
    /// If something is wrong with the source, or an assertion fails.
    pub fn run(&self) -> Result<(), RunError> {
        // SAFETY: arguments were checked to lie within their storages, which the caller holds; a program clips every
        // access to the shape of its view.
        let ran = unsafe { self.kernel.launch(&self.words, self.blocks, self.seed) };
        let mut bytes = [0; reports::WORDS * 8];
        self.report.read(0, &mut bytes)?;
        self.report.write(0, &[0; reports::WORDS * 8])?;
        ran?;
        let word = |n: usize| {
            bytes[8 * n..8 * n + 8].iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
        };
        Ok(reports::outcome(self.program.program(), self.grid, std::array::from_fn(word))?)
    }

    /// What runs.
    pub fn explain(&self) -> String {
        let msl = self.kernel.msl();
        format!(
            "{} threadgroups of {} threads, on the CPU by {}, in an order drawn from seed {}; {} bytes of threadgroup memory \
             each\n{}",
            self.blocks,
            msl.threads,
            super::COMPILER,
            self.seed,
            msl.shared_bytes,
            msl.source
        )
    }
}

/// The kernel of a program, compiled once in this process.
fn compiled(program: &Verified) -> Result<Arc<Kernel>, MslError> {
    static KEPT: Mutex<Option<HashMap<String, Arc<Kernel>>>> = Mutex::new(None);
    let kept = || KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let msl = emit(program)?;
    if let Some(kernel) = kept().as_ref().and_then(|kept| kept.get(&msl.source)) {
        return Ok(kernel.clone());
    }
    let source = msl.source.clone();
    let kernel = Arc::new(Kernel::new(msl)?);
    kept().get_or_insert_default().insert(source, kernel.clone());
    Ok(kernel)
}

/// Why arguments could not be bound.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BindError {
    #[error(transparent)]
    Msl(#[from] MslError),
    #[error(transparent)]
    Tensor(#[from] TensorError),
    #[error("{0}")]
    Internal(String),
}

/// Why a launch failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error(transparent)]
    Msl(#[from] MslError),
    #[error(transparent)]
    Tensor(#[from] TensorError),
    #[error(transparent)]
    Failure(#[from] Failure),
}
