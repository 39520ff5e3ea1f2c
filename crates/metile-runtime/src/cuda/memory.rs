//! Memory of a GPU, and host memory that it can write.

use super::driver::check;
use super::error::CudaError;
use super::gpu::Gpu;
use cudarc::driver::sys::{self, CUresult};
use metile_lang::tensor::{Storage, TensorError};
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes in the memory of a GPU. Copies to and from the host wait for all launches before them.
#[derive(Debug)]
pub struct DeviceMemory {
    gpu: Arc<Gpu>,
    address: u64,
    size: usize,
}

impl DeviceMemory {
    /// `size` bytes of zeros.
    ///
    /// # Errors
    /// If there is no room for them, or the driver fails.
    pub fn zeros(gpu: &Arc<Gpu>, size: usize) -> Result<DeviceMemory, CudaError> {
        gpu.enter()?;
        let mut address = 0;
        // Every storage has an address of its own, also one of no bytes.
        // SAFETY: the context is current.
        let got = unsafe { sys::cuMemAlloc_v2(&mut address, size.max(16)) };
        if got == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            let (free, total) = gpu.memory()?;
            return Err(CudaError::OutOfMemory {
                device: gpu.model.clone(),
                need: size,
                free,
                total,
            });
        }
        check(got, "allocate memory")?;
        let memory = DeviceMemory { gpu: gpu.clone(), address, size };
        let _order = gpu.enqueueing();
        // SAFETY: so many bytes were allocated.
        let got = unsafe { sys::cuMemsetD8Async(address, 0, size.max(16), gpu.stream()) };
        check(got, "clear memory")?;
        Ok(memory)
    }

    /// The address of the first byte.
    pub fn address(&self) -> u64 {
        self.address
    }
    /// The GPU whose memory it is.
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    fn checked(&self, offset: usize, count: usize) -> Result<(), TensorError> {
        let end = offset.saturating_add(count);
        if end > self.size {
            return Err(TensorError::Range { offset, end, size: self.size });
        }
        Ok(())
    }

    fn failed(&self, error: &CudaError) -> TensorError {
        TensorError::Device { device: self.gpu.name.to_owned(), message: error.to_string() }
    }

    /// Copies to the host once everything before is done.
    ///
    /// # Errors
    /// If the driver fails.
    pub(super) fn copy_out(&self, offset: usize, out: &mut [u8]) -> Result<(), CudaError> {
        if out.is_empty() {
            return Ok(());
        }
        self.gpu.enter()?;
        let order = self.gpu.enqueueing();
        let source = self.address + offset as u64;
        // SAFETY: the range was checked; the copy is waited for before `out` is let go.
        let copied = unsafe {
            sys::cuMemcpyDtoHAsync_v2(out.as_mut_ptr().cast(), source, out.len(), self.gpu.stream())
        };
        drop(order);
        let waited = self.gpu.wait();
        check(copied, "copy memory to the host")?;
        waited
    }

    /// Copies from the host, after everything before.
    ///
    /// # Errors
    /// If the driver fails.
    pub(super) fn copy_in(&self, offset: usize, data: &[u8]) -> Result<(), CudaError> {
        if data.is_empty() {
            return Ok(());
        }
        self.gpu.enter()?;
        let order = self.gpu.enqueueing();
        let target = self.address + offset as u64;
        // SAFETY: the range was checked; the copy is waited for before `data` is let go.
        let copied = unsafe {
            sys::cuMemcpyHtoDAsync_v2(target, data.as_ptr().cast(), data.len(), self.gpu.stream())
        };
        drop(order);
        let waited = self.gpu.wait();
        check(copied, "copy memory from the host")?;
        waited
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // Waits for what still uses it. An error here is one of a launch before, which was or will be told.
        if self.gpu.enter().is_ok() {
            // SAFETY: the memory was allocated in this context, and nobody has its address any more.
            let _ = unsafe { sys::cuMemFree_v2(self.address) };
        }
    }
}

impl Storage for DeviceMemory {
    fn len(&self) -> usize {
        self.size
    }
    fn device(&self) -> &str {
        self.gpu.name
    }
    fn read(&self, offset: usize, out: &mut [u8]) -> Result<(), TensorError> {
        self.checked(offset, out.len())?;
        self.copy_out(offset, out).map_err(|e| self.failed(&e))
    }
    fn write(&self, offset: usize, data: &[u8]) -> Result<(), TensorError> {
        self.checked(offset, data.len())?;
        self.copy_in(offset, data).map_err(|e| self.failed(&e))
    }
}

/// Words of a report: 0 or 1 + the message, the block, the element.
const REPORT_WORDS: usize = 3;
/// Reports of a page.
const SLOTS: usize = 128;
/// 64-bit words from one report to the next.
const SLOT_WORDS: usize = 4;

/// Where a launch reports a failed assertion: three words of host memory that the GPU can write, so that
/// reports that stay empty cost nothing.
#[derive(Debug)]
pub(super) struct Report {
    page: Arc<Page>,
    slot: usize,
}

/// Host memory for reports.
#[derive(Debug)]
struct Page {
    gpu: Arc<Gpu>,
    first: *mut u64,
    free: Mutex<Vec<usize>>,
}

// SAFETY: the words are reached through slots only, each of which one report owns.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Report {
    /// An empty report.
    pub fn new(gpu: &Arc<Gpu>) -> Result<Report, CudaError> {
        static PAGES: Mutex<Vec<Arc<Page>>> = Mutex::new(Vec::new());
        let mut pages = PAGES.lock().unwrap_or_else(PoisonError::into_inner);
        for page in pages.iter().filter(|page| Arc::ptr_eq(&page.gpu, gpu)) {
            let slot = page.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
            if let Some(slot) = slot {
                let report = Report { page: page.clone(), slot };
                report.clear();
                return Ok(report);
            }
        }
        gpu.enter()?;
        let mut first: *mut c_void = std::ptr::null_mut();
        let flags = sys::CU_MEMHOSTALLOC_DEVICEMAP | sys::CU_MEMHOSTALLOC_PORTABLE;
        // SAFETY: the context is current.
        let got = unsafe { sys::cuMemHostAlloc(&mut first, SLOTS * SLOT_WORDS * 8, flags) };
        check(got, "allocate host memory")?;
        let free = Mutex::new((1..SLOTS).collect());
        let page = Arc::new(Page { gpu: gpu.clone(), first: first.cast(), free });
        pages.push(page.clone());
        let report = Report { page, slot: 0 };
        report.clear();
        Ok(report)
    }

    fn word(&self, n: usize) -> *mut u64 {
        self.page.first.wrapping_add(self.slot * SLOT_WORDS + n)
    }

    /// Its address on the GPU; the same as on the host, as all memory has one address space.
    pub fn address(&self) -> u64 {
        self.word(0) as u64
    }

    /// `[1 + message, block, element]` of the first failure, which is taken. Launches have ended.
    pub fn take(&self) -> Option<[u64; REPORT_WORDS]> {
        // SAFETY: this report's own words, which no launch writes any more.
        let words = std::array::from_fn(|n| unsafe { self.word(n).read_volatile() });
        if words[0] == 0 {
            return None;
        }
        self.clear();
        Some(words)
    }

    fn clear(&self) {
        for n in 0..REPORT_WORDS {
            // SAFETY: as in `take`.
            unsafe { self.word(n).write_volatile(0) };
        }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        self.page.free.lock().unwrap_or_else(PoisonError::into_inner).push(self.slot);
    }
}
