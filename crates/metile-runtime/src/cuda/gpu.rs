//! A GPU: its context, the stream that everything runs on, and what it is.

use super::driver::{check, count, start};
use super::error::CudaError;
use super::nvrtc::Arch;
use cudarc::driver::sys::{self, CUcontext, CUdevice_attribute as Attribute, CUstream};
use metile_compiler::gpu::Target;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// One GPU of this process. All its work goes through one stream, in order.
#[derive(Debug)]
pub struct Gpu {
    /// Its number.
    pub ordinal: usize,
    /// Its name, as the driver has it.
    pub model: String,
    /// `cuda` for the first one, `cuda:1` and so on for the others.
    pub name: &'static str,
    /// What code is compiled for.
    pub arch: Arch,
    /// Streaming multiprocessors.
    pub processors: u32,
    /// Bytes of shared memory that a block may have.
    pub shared_bytes: u32,
    /// Bytes of its memory.
    pub memory_bytes: usize,
    /// Bytes of its second-level cache.
    pub cache_bytes: usize,
    /// Whether kernels may wait for all blocks of their grid.
    pub cooperative: bool,
    context: CUcontext,
    stream: CUstream,
    /// Held while launches are put into the stream, so that nobody else's come between.
    enqueueing: Mutex<()>,
}

// SAFETY: contexts and streams may be used by any thread.
unsafe impl Send for Gpu {}
// SAFETY: as above; the driver locks what it has to.
unsafe impl Sync for Gpu {}

impl Gpu {
    /// The GPU of this number; the same one every time.
    ///
    /// # Errors
    /// If there is no such GPU or no driver, or it is too old.
    pub fn open(ordinal: usize) -> Result<Arc<Gpu>, CudaError> {
        static OPEN: OnceLock<Mutex<HashMap<usize, Arc<Gpu>>>> = OnceLock::new();
        let open = OPEN.get_or_init(Mutex::default);
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gpu) = open.get(&ordinal) {
            return Ok(gpu.clone());
        }
        let gpu = Arc::new(Gpu::new(ordinal)?);
        open.insert(ordinal, gpu.clone());
        Ok(gpu)
    }

    fn new(ordinal: usize) -> Result<Gpu, CudaError> {
        let found = count()?;
        start()?;
        if ordinal >= found {
            return Err(CudaError::NoDevice { asked: ordinal, found });
        }
        let mut device = 0;
        // SAFETY: the driver is started, and has so many devices.
        check(unsafe { sys::cuDeviceGet(&mut device, ordinal as i32) }, "find the device")?;
        let attribute = |which: Attribute| {
            let mut value = 0;
            // SAFETY: the device is there.
            let got = unsafe { sys::cuDeviceGetAttribute(&mut value, which, device) };
            check(got, "describe the device").map(|()| u32::try_from(value).unwrap_or(0))
        };
        let mut name = [0u8; 256];
        // SAFETY: it writes at most so many bytes, the last of them a zero.
        let got = unsafe { sys::cuDeviceGetName(name.as_mut_ptr().cast(), 256, device) };
        check(got, "name the device")?;
        let end = name.iter().position(|&b| b == 0).unwrap_or(name.len());
        let model = String::from_utf8_lossy(&name[..end]).into_owned();
        let major = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        if major < 8 {
            return Err(CudaError::OldDevice { name: model, major, minor });
        }
        let mut memory_bytes = 0;
        // SAFETY: the device is there.
        let got = unsafe { sys::cuDeviceTotalMem_v2(&mut memory_bytes, device) };
        check(got, "describe the device")?;
        let mut context = std::ptr::null_mut();
        // SAFETY: the device is there. The context stays retained for the life of the process.
        check(unsafe { sys::cuDevicePrimaryCtxRetain(&mut context, device) }, "make a context")?;
        // SAFETY: the context was made.
        check(unsafe { sys::cuCtxSetCurrent(context) }, "use its context")?;
        let mut stream = std::ptr::null_mut();
        let flag = sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the context is current.
        check(unsafe { sys::cuStreamCreate(&mut stream, flag) }, "make a stream")?;
        Ok(Gpu {
            ordinal,
            model,
            name: name_of(ordinal),
            arch: Arch::of(major, minor),
            processors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            shared_bytes: attribute(
                Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
            )?,
            memory_bytes,
            cache_bytes: attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)? as usize,
            cooperative: attribute(Attribute::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH)? != 0,
            context,
            stream,
            enqueueing: Mutex::new(()),
        })
    }

    /// What kernels are lowered for.
    pub fn target(&self) -> Target {
        let class = if self.arch.major == 9 { Target::HOPPER } else { Target::AMPERE };
        Target { shared_bytes: self.shared_bytes, ..class }
    }

    /// Makes the context this thread's.
    pub(super) fn enter(&self) -> Result<(), CudaError> {
        // SAFETY: the context lives as long as the process.
        check(unsafe { sys::cuCtxSetCurrent(self.context) }, "use its context")
    }

    /// The stream.
    pub(super) fn stream(&self) -> CUstream {
        self.stream
    }

    /// Keeps others from putting work into the stream.
    pub(super) fn enqueueing(&self) -> MutexGuard<'_, ()> {
        self.enqueueing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for all that was put into the stream.
    pub(super) fn wait(&self) -> Result<(), CudaError> {
        // SAFETY: the stream lives as long as the process.
        check(unsafe { sys::cuStreamSynchronize(self.stream) }, "finish its work")
    }

    /// Bytes of the device's memory that are free, and all.
    ///
    /// # Errors
    /// If the driver fails.
    pub fn memory(&self) -> Result<(usize, usize), CudaError> {
        self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: the context is current.
        check(unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) }, "describe its memory")?;
        Ok((free, total))
    }
}

/// The name of a device by its number.
fn name_of(ordinal: usize) -> &'static str {
    match ordinal {
        0 => "cuda",
        // Once for each device of the process: `Gpu::open` keeps them.
        n => Box::leak(format!("cuda:{n}").into_boxed_str()),
    }
}
