//! A program with its arguments, ready to be put into a command buffer.

use super::super::MetalError;
use super::code::Code;
use super::gpu::Gpu;
use super::memory::DeviceMemory;
use crate::reports;
use crate::words::{self, Addresses};
use metile_device::{Type, Verified, Word};
use metile_ir::interp::{self, Argument, Failure};
use objc2::rc::{Retained, autoreleasepool};
use objc2::runtime::ProtocolObject;
use objc2_metal::{
    MTLBuffer, MTLCommandBuffer, MTLCommandBufferStatus, MTLCommandEncoder, MTLCommandQueue,
    MTLComputeCommandEncoder, MTLResourceUsage, MTLSize,
};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

/// The most threadgroups on the first axis of a launch; more are laid out in rows.
const ROW: u64 = 1 << 20;
/// The most bytes that Metal copies with a launch.
const MOST_BYTES: usize = 4096;

/// A launch.
#[derive(Debug)]
pub(crate) struct Bound {
    gpu: Arc<Gpu>,
    program: Arc<Verified>,
    code: Arc<Code>,
    /// The number of blocks, then the words that are no pointers.
    arguments: Vec<u64>,
    /// What is bound from index 1 on, each from a byte on.
    buffers: Vec<(Retained<ProtocolObject<dyn MTLBuffer>>, usize)>,
    /// What is reached through tables.
    listed: Vec<Retained<ProtocolObject<dyn MTLBuffer>>>,
    grid: [u64; 3],
    blocks: u64,
    report: Option<Arc<DeviceMemory>>,
}

// SAFETY: Metal's objects here are pipelines and buffers, which may be used from any thread.
unsafe impl Send for Bound {}
// SAFETY: as above.
unsafe impl Sync for Bound {}

impl Bound {
    /// Binds `arguments`, which lie in `memories`; they were checked.
    ///
    /// # Errors
    /// If Metal can't do what the program does, or the grid is too large.
    pub fn new(
        gpu: &Arc<Gpu>,
        verified: Arc<Verified>,
        grid: [u64; 3],
        arguments: &[Argument],
        memories: &[&DeviceMemory],
    ) -> Result<Bound, BindError> {
        let program = verified.program();
        let kernel = || program.name.clone();
        let blocks = interp::programs(grid).map_err(|_| MetalError::Grid {
            kernel: kernel(),
            blocks: grid.iter().fold(1, |n, &extent| n.saturating_mul(extent)),
        })?;
        let code = Code::of(gpu, &verified)?;
        let addresses: Vec<u64> = memories.iter().map(|memory| memory.address()).collect();
        let mut tables = Vec::new();
        for table in words::tables(&program.words, arguments, &addresses) {
            let bytes: Vec<u8> = table.iter().flat_map(|address| address.to_ne_bytes()).collect();
            let memory = DeviceMemory::zeros(gpu, bytes.len())?;
            metile_lang::tensor::Storage::write(&memory, 0, &bytes)
                .map_err(|e| BindError::Internal(e.to_string()))?;
            tables.push(memory);
        }
        let report = match program.messages.is_empty() {
            true => None,
            false => Some(Arc::new(DeviceMemory::zeros(gpu, reports::WORDS * 8)?)),
        };
        let places = Addresses {
            buffers: &addresses,
            report: report.as_ref().map_or(0, |report| report.address()),
            grid_barrier: 0,
            tables: &tables.iter().map(DeviceMemory::address).collect::<Vec<_>>(),
        };
        let packed =
            words::pack(&program.words, grid, arguments, &places).map_err(BindError::Internal)?;
        let words = |n: &u32| packed.get(*n as usize).copied().unwrap_or(0);
        let passed: Vec<u64> =
            std::iter::once(blocks).chain(code.msl.arguments.iter().map(words)).collect();
        if passed.len() * 8 > MOST_BYTES {
            let bytes = passed.len() * 8;
            return Err(MetalError::Arguments { kernel: kernel(), bytes }.into());
        }
        let mut buffers = Vec::new();
        for &n in &code.msl.buffers {
            let word = program.words[n as usize];
            let place = match word {
                Word::Report => report.as_ref().map(|report| (report.retained(), 0)),
                Word::ListTable { .. } => {
                    let before = program.words[..n as usize]
                        .iter()
                        .filter(|word| matches!(word, Word::ListTable { .. }))
                        .count();
                    tables.get(before).map(|table| (table.retained(), 0))
                }
                _ => words::part(word, arguments).and_then(|part| {
                    let memory = memories.get(part.buffer)?;
                    Some((memory.retained(), usize::try_from(part.byte_offset).ok()?))
                }),
            };
            let place = place.ok_or_else(|| {
                BindError::Internal(format!("the launch has nothing for {word:?}"))
            })?;
            debug_assert!(matches!(word.ty(), Type::Pointer { .. }));
            buffers.push(place);
        }
        let listed = arguments.iter().filter_map(|argument| match argument {
            Argument::List(tensors) => Some(tensors),
            _ => None,
        });
        let listed = listed
            .flatten()
            .flat_map(|tensor| &tensor.parts)
            .filter_map(|part| memories.get(part.buffer).map(|memory| memory.retained()))
            .collect();
        Ok(Bound {
            gpu: gpu.clone(),
            program: verified,
            code,
            arguments: passed,
            buffers,
            listed,
            grid,
            blocks,
            report,
        })
    }

    /// Puts the launch into a command buffer. What it touches is held by the caller until it is done.
    fn encode(&self, encoder: &ProtocolObject<dyn MTLComputeCommandEncoder>) {
        if self.blocks == 0 {
            return;
        }
        encoder.setComputePipelineState(&self.code.pipeline);
        let bytes = NonNull::from(&self.arguments[..]).cast::<c_void>();
        // SAFETY: so many bytes are there, which Metal copies.
        unsafe { encoder.setBytes_length_atIndex(bytes, self.arguments.len() * 8, 0) };
        for (n, (buffer, offset)) in self.buffers.iter().enumerate() {
            // SAFETY: the kernel takes a buffer of this kind at this index, since both come from one `Msl`, and the
            // argument was checked to lie within it.
            unsafe { encoder.setBuffer_offset_atIndex(Some(buffer), *offset, n + 1) };
        }
        for buffer in &self.listed {
            encoder.useResource_usage(ProtocolObject::from_ref(&**buffer), MTLResourceUsage::Read);
        }
        let shared = self.code.msl.shared_bytes as usize;
        if shared > 0 {
            // SAFETY: the kernel takes one threadgroup buffer, and the length was checked with the pipeline.
            unsafe { encoder.setThreadgroupMemoryLength_atIndex(shared, 0) };
        }
        // The last row may be longer than what is left: threadgroups beyond leave at once.
        let row = self.blocks.min(ROW);
        let size = |width: u64, height: u64| MTLSize {
            width: width as usize,
            height: height as usize,
            depth: 1,
        };
        encoder.dispatchThreadgroups_threadsPerThreadgroup(
            size(row, self.blocks.div_ceil(row)),
            size(u64::from(self.code.msl.threads), 1),
        );
    }

    /// What runs, and how it was made.
    pub fn explain(&self) -> String {
        let (msl, gpu) = (&self.code.msl, &self.gpu);
        format!(
            "{} threadgroups of {} threads on {} ({}); {} bytes of threadgroup memory each; {} in {:.1} ms\n{}",
            self.blocks,
            msl.threads,
            gpu.model,
            gpu.system,
            msl.shared_bytes,
            if self.code.from_disk {
                "compiled, with a pipeline found on disk,"
            } else {
                "compiled"
            },
            self.code.time.as_secs_f64() * 1e3,
            msl.source
        )
    }

    /// The failure of the last launch, which has ended, if an assertion failed.
    fn outcome(&self) -> Result<(), Failure> {
        use metile_lang::tensor::Storage;
        let Some(report) = &self.report else { return Ok(()) };
        let mut bytes = [0; reports::WORDS * 8];
        // A report has 24 bytes, so neither can fail.
        let _ = report.read(0, &mut bytes);
        let word = |n: usize| {
            bytes[8 * n..8 * n + 8].iter().rev().fold(0u64, |word, &b| word << 8 | u64::from(b))
        };
        let found: [u64; reports::WORDS] = std::array::from_fn(word);
        if found[0] != 0 {
            let _ = report.write(0, &[0; reports::WORDS * 8]);
        }
        reports::outcome(self.program.program(), self.grid, found)
    }
}

/// Runs launches in order, in one command buffer, and waits. The time on the GPU from the first one's begin to the last
/// one's end; with `apart` each has a command buffer of its own, and a time.
///
/// # Errors
/// The first failure, and whose it is.
pub(crate) fn run_all(
    launches: &[&Bound],
    apart: bool,
) -> Result<Vec<Duration>, (usize, RunError)> {
    let mut times = Vec::new();
    let each = if apart { 1 } else { launches.len().max(1) };
    for (n, group) in launches.chunks(each).enumerate() {
        times.push(run(group).map_err(|error| (n * each, error.into()))?);
        for (k, launch) in group.iter().enumerate() {
            launch.outcome().map_err(|failure| (n * each + k, failure.into()))?;
        }
    }
    Ok(times)
}

fn run(launches: &[&Bound]) -> Result<Duration, MetalError> {
    let Some(first) = launches.first() else { return Ok(Duration::ZERO) };
    autoreleasepool(|_| {
        let commands =
            first.gpu.queue().commandBuffer().ok_or(MetalError::None("command buffer"))?;
        // Launches in one encoder of this kind run one after the other, and each sees what those before it wrote.
        let encoder =
            commands.computeCommandEncoder().ok_or(MetalError::None("compute command encoder"))?;
        for launch in launches {
            launch.encode(&encoder);
        }
        encoder.endEncoding();
        commands.commit();
        commands.waitUntilCompleted();
        if commands.status() == MTLCommandBufferStatus::Error {
            let reason = commands.error().map_or_else(
                || "it gave no reason".to_owned(),
                |error| error.localizedDescription().to_string(),
            );
            return Err(MetalError::Run { device: first.gpu.model.clone(), reason });
        }
        let seconds = commands.GPUEndTime() - commands.GPUStartTime();
        Ok(Duration::try_from_secs_f64(seconds).unwrap_or_default())
    })
}

/// Why arguments could not be bound.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BindError {
    #[error(transparent)]
    Metal(#[from] MetalError),
    #[error("{0}")]
    Internal(String),
}

/// Why a launch failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error(transparent)]
    Metal(#[from] MetalError),
    #[error(transparent)]
    Failure(#[from] Failure),
}
