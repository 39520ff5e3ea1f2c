//! A program with its arguments, ready to be put into the stream.

use super::code::{Code, Origin};
use super::driver::check;
use super::error::CudaError;
use super::gpu::Gpu;
use super::memory::{DeviceMemory, Report};
use super::time::Moment;
use crate::reports;
use crate::words::{self, Addresses};
use cudarc::driver::sys;
use metile_device::{Block, Op, Program, SyncOp, Verified};
use metile_ir::interp::{self, Argument, Failure};
use std::sync::Arc;
use std::time::Duration;

/// A launch.
#[derive(Debug)]
pub(crate) struct Bound {
    gpu: Arc<Gpu>,
    program: Arc<Verified>,
    code: Arc<Code>,
    words: Vec<u64>,
    grid: [u64; 3],
    blocks: u32,
    report: Option<Report>,
    /// Tables of addresses and counters of barriers: in use as long as the launch is.
    _own: Vec<DeviceMemory>,
}

impl Bound {
    /// Binds `arguments`, whose buffers begin at `buffers`; they were checked.
    ///
    /// # Errors
    /// If the grid is too large, or not all programs of a persistent kernel fit the device.
    pub fn new(
        gpu: &Arc<Gpu>,
        verified: Arc<Verified>,
        grid: [u64; 3],
        arguments: &[Argument],
        buffers: &[u64],
    ) -> Result<Bound, BindError> {
        let program = verified.program();
        let blocks = interp::programs(grid).map_err(|_| CudaError::Grid {
            kernel: program.name.clone(),
            blocks: grid.iter().fold(1, |n, &extent| n.saturating_mul(extent)),
        })?;
        let code = Code::of(gpu, &verified)?;
        if program.persistent {
            resident(gpu, program, &code, blocks)?;
        }
        let mut own = Vec::new();
        for table in words::tables(&program.words, arguments, buffers) {
            let bytes: Vec<u8> = table.iter().flat_map(|address| address.to_ne_bytes()).collect();
            let memory = DeviceMemory::zeros(gpu, bytes.len())?;
            memory.copy_in(0, &bytes)?;
            own.push(memory);
        }
        let tables: Vec<u64> = own.iter().map(DeviceMemory::address).collect();
        let mut grid_barrier = 0;
        if any(&program.body, &|op| *op == Op::Sync(SyncOp::GridBarrier)) {
            let counters = DeviceMemory::zeros(gpu, 8)?;
            grid_barrier = counters.address();
            own.push(counters);
        }
        let report = match program.messages.is_empty() {
            true => None,
            false => Some(Report::new(gpu)?),
        };
        let addresses = Addresses {
            buffers,
            report: report.as_ref().map_or(0, Report::address),
            grid_barrier,
            tables: &tables,
        };
        let words = words::pack(&program.words, grid, arguments, &addresses)
            .map_err(BindError::Internal)?;
        Ok(Bound {
            gpu: gpu.clone(),
            program: verified,
            code,
            words,
            grid,
            // Fewer than 2^31, as was checked.
            blocks: blocks as u32,
            report,
            _own: own,
        })
    }

    /// Puts the launch into the stream. The caller holds [`Gpu::enqueueing`] and has entered the GPU.
    pub fn enqueue(&self) -> Result<(), CudaError> {
        if self.blocks == 0 {
            return Ok(());
        }
        let program = self.program.program();
        let (threads, shared) = (program.threads(), program.shared_bytes());
        let (function, stream) = (self.code.function(), self.gpu.stream());
        let mut parameters = [self.words.as_ptr().cast_mut().cast::<std::ffi::c_void>()];
        let parameters = parameters.as_mut_ptr();
        // SAFETY: the kernel takes one parameter of as many words; the driver copies it. What the words point to lives
        // as long as this, the arguments' own memory as long as the dispatch.
        let launched = unsafe {
            if program.persistent {
                sys::cuLaunchCooperativeKernel(
                    function,
                    self.blocks,
                    1,
                    1,
                    threads,
                    1,
                    1,
                    shared,
                    stream,
                    parameters,
                )
            } else {
                let none = std::ptr::null_mut();
                sys::cuLaunchKernel(
                    function,
                    self.blocks,
                    1,
                    1,
                    threads,
                    1,
                    1,
                    shared,
                    stream,
                    parameters,
                    none,
                )
            }
        };
        check(launched, "launch a kernel")
    }

    /// Launches, waits, and gives the time on the device.
    ///
    /// # Errors
    /// If the driver fails, or an assertion does.
    pub fn run(&self) -> Result<Duration, RunError> {
        self.gpu.enter()?;
        let (before, after) = (Moment::new()?, Moment::new()?);
        {
            let _order = self.gpu.enqueueing();
            before.record(&self.gpu)?;
            self.enqueue()?;
            after.record(&self.gpu)?;
        }
        self.gpu.wait()?;
        self.outcome()?;
        Ok(before.until(&after)?)
    }

    /// The source that it was compiled from.
    pub fn source(&self) -> &str {
        &self.code.source.text
    }

    /// What runs, and how it was made.
    pub fn explain(&self) -> String {
        let (program, code, gpu) = (self.program.program(), &self.code, &self.gpu);
        let origin = match code.origin {
            Origin::Compiled => "compiled by NVRTC",
            Origin::Disk => "found on disk",
        };
        format!(
            "{} blocks of {} threads on {} ({}); {} bytes of shared memory a block, {} registers a thread, {} bytes of its own \
             memory; {origin} in {:.1} ms{}\n{}",
            self.blocks,
            program.threads(),
            gpu.model,
            gpu.arch,
            program.shared_bytes(),
            code.registers,
            code.local_bytes,
            code.time.as_secs_f64() * 1e3,
            if program.persistent { "; all blocks run at once" } else { "" },
            code.source.kernel()
        )
    }

    /// The failure of the last launch, which has ended, if an assertion failed.
    ///
    /// # Errors
    /// That failure.
    pub fn outcome(&self) -> Result<(), Failure> {
        let Some(report) = self.report.as_ref().and_then(Report::take) else {
            return Ok(());
        };
        reports::outcome(self.program.program(), self.grid, report)
    }
}

/// Why arguments could not be bound.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BindError {
    #[error(transparent)]
    Cuda(#[from] CudaError),
    #[error("{0}")]
    Internal(String),
}

/// Why a launch failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error(transparent)]
    Cuda(#[from] CudaError),
    #[error(transparent)]
    Failure(#[from] Failure),
}

/// Whether all `blocks` run at once.
fn resident(gpu: &Gpu, program: &Program, code: &Code, blocks: u64) -> Result<(), CudaError> {
    gpu.enter()?;
    let per_processor = match gpu.cooperative {
        true => code.blocks_per_processor(program.threads(), program.shared_bytes())?,
        false => 0,
    };
    let fit = u64::from(per_processor) * u64::from(gpu.processors);
    if blocks <= fit {
        return Ok(());
    }
    Err(CudaError::Residency {
        kernel: program.name.clone(),
        device: gpu.model.clone(),
        blocks,
        fit,
        per_processor,
        processors: gpu.processors,
    })
}

/// Whether an operation of the block or those within is `wanted`.
fn any(block: &Block, wanted: &impl Fn(&Op) -> bool) -> bool {
    block.statements.iter().any(|s| wanted(&s.op) || s.blocks.iter().any(|b| any(b, wanted)))
}
