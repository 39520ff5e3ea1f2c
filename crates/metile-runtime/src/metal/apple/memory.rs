//! Memory that the host and the GPU share.

use super::super::MetalError;
use super::gpu::Gpu;
use metile_lang::tensor::{Storage, TensorError};
use objc2::rc::Retained;
use objc2::runtime::ProtocolObject;
use objc2_metal::{MTLBuffer, MTLDevice, MTLResourceOptions};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Bytes in memory that host and GPU reach alike: nothing is copied between them. A launch holds the lock of what it
/// touches, so the host never sees a half-written tensor.
#[derive(Debug)]
pub struct DeviceMemory {
    buffer: Retained<ProtocolObject<dyn MTLBuffer>>,
    size: usize,
    lock: RwLock<()>,
}

// SAFETY: Metal's resources may be used from any thread; the bytes are reached only through `lock`.
unsafe impl Send for DeviceMemory {}
// SAFETY: as above.
unsafe impl Sync for DeviceMemory {}

/// Memory while a launch has it.
#[derive(Debug)]
pub(crate) enum Held<'m> {
    Read { _guard: RwLockReadGuard<'m, ()> },
    Write { _guard: RwLockWriteGuard<'m, ()> },
}

impl DeviceMemory {
    /// `size` bytes of zeros.
    ///
    /// # Errors
    /// If there is no room for them.
    pub fn zeros(gpu: &Gpu, size: usize) -> Result<DeviceMemory, MetalError> {
        let device = gpu.device();
        let no_room = || MetalError::OutOfMemory {
            device: gpu.model.clone(),
            need: size,
            most: device.maxBufferLength(),
            recommended: device.recommendedMaxWorkingSetSize(),
        };
        if size > device.maxBufferLength() {
            return Err(no_room());
        }
        // Every storage has an address of its own, also one of no bytes. Metal's new buffers are zeros.
        let options = MTLResourceOptions::StorageModeShared;
        let buffer =
            device.newBufferWithLength_options(size.max(16), options).ok_or_else(no_room)?;
        Ok(DeviceMemory { buffer, size, lock: RwLock::new(()) })
    }

    /// The address of the first byte on the GPU.
    pub fn address(&self) -> u64 {
        self.buffer.gpuAddress()
    }
    pub(super) fn retained(&self) -> Retained<ProtocolObject<dyn MTLBuffer>> {
        self.buffer.clone()
    }

    pub(crate) fn hold(&self, write: bool) -> Held<'_> {
        // A panic while the lock is held leaves bytes, which have no invariant to break.
        match write {
            true => {
                Held::Write { _guard: self.lock.write().unwrap_or_else(PoisonError::into_inner) }
            }
            false => {
                Held::Read { _guard: self.lock.read().unwrap_or_else(PoisonError::into_inner) }
            }
        }
    }

    fn first(&self) -> *mut u8 {
        self.buffer.contents().as_ptr().cast()
    }
    fn checked(&self, offset: usize, count: usize) -> Result<(), TensorError> {
        let end = offset.saturating_add(count);
        if end > self.size {
            return Err(TensorError::Range { offset, end, size: self.size });
        }
        Ok(())
    }
}

impl Storage for DeviceMemory {
    fn len(&self) -> usize {
        self.size
    }
    fn device(&self) -> &str {
        "metal"
    }
    fn read(&self, offset: usize, out: &mut [u8]) -> Result<(), TensorError> {
        self.checked(offset, out.len())?;
        let _held = self.hold(false);
        // SAFETY: the range was checked, and the lock keeps writers away; launches are waited for under it.
        unsafe {
            std::ptr::copy_nonoverlapping(self.first().add(offset), out.as_mut_ptr(), out.len())
        };
        Ok(())
    }
    fn write(&self, offset: usize, data: &[u8]) -> Result<(), TensorError> {
        self.checked(offset, data.len())?;
        let _held = self.hold(true);
        // SAFETY: the range was checked, and the lock keeps everybody else away.
        unsafe {
            std::ptr::copy_nonoverlapping(data.as_ptr(), self.first().add(offset), data.len())
        };
        Ok(())
    }
}
