//! Compiled kernels.

use super::super::MetalError;
use super::archive::Archive;
use super::gpu::Gpu;
use metile_compiler::gpu::metal::{Msl, emit};
use metile_device::{Verified, WARP};
use objc2::rc::Retained;
use objc2::runtime::{NSObjectProtocol, ProtocolObject};
use objc2::sel;
use objc2_foundation::NSString;
use objc2_metal::{
    MTLCompileOptions, MTLComputePipelineDescriptor, MTLComputePipelineState, MTLDevice,
    MTLLanguageVersion, MTLLibrary, MTLMathFloatingPointFunctions, MTLMathMode, MTLPipelineOption,
};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A kernel as Metal compiled it.
#[derive(Debug)]
pub struct Code {
    /// The source.
    pub msl: Msl,
    /// Whether it was found on disk.
    pub from_disk: bool,
    /// How long it took to compile, or to find.
    pub time: Duration,
    pub(super) pipeline: Retained<ProtocolObject<dyn MTLComputePipelineState>>,
}

impl Code {
    /// The code of a program, compiled once in this process.
    ///
    /// # Errors
    /// If Metal can't do what the program does, refuses the source, or the pipeline is beyond the GPU's limits.
    pub fn of(gpu: &Gpu, program: &Verified) -> Result<Arc<Code>, MetalError> {
        static KEPT: Mutex<Option<HashMap<String, Arc<Code>>>> = Mutex::new(None);
        let msl = emit(program)?;
        let kept = || KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(code) = kept().as_ref().and_then(|kept| kept.get(&msl.source)) {
            return Ok(code.clone());
        }
        let code = Arc::new(Code::compile(gpu, msl)?);
        kept().get_or_insert_default().insert(code.msl.source.clone(), code.clone());
        Ok(code)
    }

    fn compile(gpu: &Gpu, msl: Msl) -> Result<Code, MetalError> {
        let start = Instant::now();
        let kernel = msl.entry.clone();
        let source = NSString::from_str(&msl.source);
        let options = options(&msl)?;
        let library = gpu
            .device()
            .newLibraryWithSource_options_error(&source, Some(&options))
            .map_err(|error| MetalError::Source {
                kernel: kernel.clone(),
                report: error.localizedDescription().to_string(),
            })?;
        let function = library
            .newFunctionWithName(&NSString::from_str(&msl.entry))
            .ok_or(MetalError::None("function of the kernel's name"))?;
        let descriptor = MTLComputePipelineDescriptor::new();
        descriptor.setComputeFunction(Some(&function));
        // SAFETY: launches have whole SIMD groups of 32, which is checked below to be the GPU's size.
        unsafe { descriptor.setThreadGroupSizeIsMultipleOfThreadExecutionWidth(true) };
        let archive = Archive::of(gpu, &msl.source);
        if let Some(archive) = &archive {
            archive.offer(&descriptor);
        }
        let pipeline = gpu
            .device()
            .newComputePipelineStateWithDescriptor_options_reflection_error(
                &descriptor,
                MTLPipelineOption::None,
                None,
            )
            .map_err(|error| MetalError::Pipeline {
                kernel: kernel.clone(),
                reason: error.localizedDescription().to_string(),
            })?;
        check(gpu, &msl, &pipeline)?;
        if let Some(archive) = &archive {
            archive.keep(&descriptor);
        }
        let from_disk = archive.is_some_and(|archive| archive.found());
        Ok(Code { msl, from_disk, time: start.elapsed(), pipeline })
    }
}

/// Safe math and precise functions, whatever the source says itself; the version of the language that it needs.
fn options(msl: &Msl) -> Result<Retained<MTLCompileOptions>, MetalError> {
    let options = MTLCompileOptions::new();
    let version = match msl.language {
        (3, 0) => MTLLanguageVersion::Version3_0,
        (3, 1) => MTLLanguageVersion::Version3_1,
        (major, minor) => {
            let kernel = msl.entry.clone();
            return Err(MetalError::Language { kernel, major, minor, system: "15" });
        }
    };
    options.setLanguageVersion(version);
    // macOS 15 has modes; before there is only the choice between fast and not.
    if options.respondsToSelector(sel!(setMathMode:)) {
        options.setMathMode(MTLMathMode::Safe);
        options.setMathFloatingPointFunctions(MTLMathFloatingPointFunctions::Precise);
    } else {
        #[allow(deprecated, reason = "what there is before macOS 15")]
        options.setFastMathEnabled(false);
    }
    Ok(options)
}

/// The pipeline's own limits, which depend on how it was compiled.
fn check(
    gpu: &Gpu,
    msl: &Msl,
    pipeline: &ProtocolObject<dyn MTLComputePipelineState>,
) -> Result<(), MetalError> {
    let (kernel, device) = (msl.entry.clone(), gpu.model.clone());
    let found = pipeline.threadExecutionWidth();
    if found != WARP as usize {
        return Err(MetalError::Width { kernel, device, found });
    }
    let (needed, limit) = (msl.threads, pipeline.maxTotalThreadsPerThreadgroup());
    if needed as usize > limit {
        return Err(MetalError::Threads { kernel, device, needed, limit });
    }
    let needed = pipeline.staticThreadgroupMemoryLength() + msl.shared_bytes as usize;
    let limit = gpu.device().maxThreadgroupMemoryLength();
    if needed > limit {
        return Err(MetalError::Shared { kernel, device, needed, limit });
    }
    Ok(())
}
