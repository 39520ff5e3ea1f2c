//! Machine code of programs: printed, compiled or found in a cache, and loaded.

use super::disk_cache::{DiskCache, Key, digest};
use super::driver::check;
use super::error::CudaError;
use super::gpu::Gpu;
use super::nvrtc::{Arch, Compilation, Nvrtc, OPTIONS};
use cudarc::driver::sys::{self, CUfunction, CUfunction_attribute as Attribute, CUmodule};
use metile_compiler::gpu::cuda::{self, Source};
use metile_device::Verified;
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Shared memory that every kernel may have without asking.
const SHARED_WITHOUT_ASKING: u32 = 48 << 10;

/// Prints and compiles `program`, without a cache or a GPU: what it becomes.
///
/// # Errors
/// If it can't be printed, or there is no NVRTC.
pub fn compile(program: &Verified, arch: Arch) -> Result<(Source, Compilation), CudaError> {
    let source = cuda::emit(program)?;
    let compilation = Nvrtc::get()?.compile(&source.entry, &source.text, arch)?;
    Ok((source, compilation))
}

/// Where machine code came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It was compiled.
    Compiled,
    /// It was found on disk.
    Disk,
}

/// A kernel on a GPU.
#[derive(Debug)]
pub struct Code {
    /// The source.
    pub source: Source,
    /// Where its machine code came from.
    pub origin: Origin,
    /// The time that printing, compiling or finding, and loading took.
    pub time: Duration,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of a thread's own memory: what did not fit registers.
    pub local_bytes: u32,
    function: CUfunction,
    /// Never unloaded: a process has as many as it names.
    _module: CUmodule,
}

// SAFETY: functions may be launched from any thread.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

impl Code {
    /// The code of `program` for `gpu`: kept in this process, found on disk, or compiled.
    ///
    /// # Errors
    /// If it can't be printed or compiled, or needs more shared memory than there is.
    pub fn of(gpu: &Arc<Gpu>, program: &Verified) -> Result<Arc<Code>, CudaError> {
        type Loaded = Mutex<HashMap<(usize, Key), Arc<Code>>>;
        static LOADED: OnceLock<Loaded> = OnceLock::new();
        let start = Instant::now();
        let source = cuda::emit(program)?;
        let (arch, name) = (gpu.arch.to_string(), source.entry.clone());
        let id = digest(&[source.text.as_bytes(), arch.as_bytes()]);
        let kept =
            || LOADED.get_or_init(Loaded::default).lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(code) = kept().get(&(gpu.ordinal, id)) {
            return Ok(code.clone());
        }
        let shared = program.program().shared_bytes();
        if shared > gpu.shared_bytes {
            return Err(CudaError::SharedMemory {
                kernel: name,
                device: gpu.model.clone(),
                need: shared,
                limit: gpu.shared_bytes,
            });
        }
        let (cubin, origin) = machine_code(&source, gpu.arch)?;
        gpu.enter()?;
        let mut module = std::ptr::null_mut();
        // SAFETY: a whole cubin, which the driver checks; the context is current.
        let got = unsafe { sys::cuModuleLoadData(&mut module, cubin.as_ptr().cast()) };
        check(got, "load a kernel")?;
        let entry = CString::new(source.entry.as_str()).unwrap_or_default();
        let mut function = std::ptr::null_mut();
        // SAFETY: the module was loaded.
        let got = unsafe { sys::cuModuleGetFunction(&mut function, module, entry.as_ptr()) };
        check(got, "find a kernel in its module")?;
        if shared > SHARED_WITHOUT_ASKING {
            let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function was found.
            let got = unsafe { sys::cuFuncSetAttribute(function, attribute, shared as i32) };
            check(got, "give a kernel its shared memory")?;
        }
        let attribute = |which| {
            let mut value = 0;
            // SAFETY: the function was found.
            let got = unsafe { sys::cuFuncGetAttribute(&mut value, which, function) };
            check(got, "describe a kernel").map(|()| u32::try_from(value).unwrap_or(0))
        };
        let code = Arc::new(Code {
            source,
            origin,
            time: start.elapsed(),
            registers: attribute(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            local_bytes: attribute(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
            function,
            _module: module,
        });
        kept().insert((gpu.ordinal, id), code.clone());
        Ok(code)
    }

    pub(super) fn function(&self) -> CUfunction {
        self.function
    }

    /// How many blocks of this kernel a multiprocessor runs at once.
    pub(super) fn blocks_per_processor(&self, threads: u32, shared: u32) -> Result<u32, CudaError> {
        let mut blocks = 0;
        // SAFETY: the function was found, and its context is current.
        let got = unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &mut blocks,
                self.function,
                threads as i32,
                shared as usize,
            )
        };
        check(got, "tell how many blocks fit")?;
        Ok(u32::try_from(blocks).unwrap_or(0))
    }
}

/// A cubin from the disk, or compiled and then kept there.
fn machine_code(source: &Source, arch: Arch) -> Result<(Vec<u8>, Origin), CudaError> {
    let nvrtc = Nvrtc::get()?;
    let version = format!("metile {} nvrtc {:?}", env!("CARGO_PKG_VERSION"), nvrtc.version);
    let target = format!("{arch} {}", OPTIONS.join(" "));
    let key = digest(&[version.as_bytes(), target.as_bytes(), source.text.as_bytes()]);
    let cache = DiskCache::of_user();
    if let Some(cubin) = cache.as_ref().and_then(|cache| cache.get(&key)) {
        return Ok((cubin, Origin::Disk));
    }
    let cubin = nvrtc.compile(&source.entry, &source.text, arch)?.cubin;
    if let Some(cache) = cache {
        cache.put(&key, &cubin);
    }
    Ok((cubin, Origin::Compiled))
}
