//! Memory of devices that compute on the host.

use metile_lang::tensor::{Storage, TensorError};
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Bytes in host memory. A launch holds the lock of what it touches, so a host copy never sees a
/// half-written tensor.
#[derive(Debug)]
pub struct HostMemory {
    bytes: RwLock<Vec<u8>>,
    size: usize,
    device: &'static str,
}

impl HostMemory {
    /// `size` bytes of zeros.
    ///
    /// # Errors
    /// If the host has no room for them.
    pub fn new(device: &'static str, size: usize) -> Result<HostMemory, TensorError> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(size).map_err(|_| TensorError::Device {
            device: device.to_owned(),
            message: format!("no room for {size} bytes"),
        })?;
        bytes.resize(size, 0);
        Ok(HostMemory { bytes: RwLock::new(bytes), size, device })
    }

    // A panic while the lock is held leaves bytes, which have no invariant to break.
    pub(crate) fn lock(&self) -> RwLockReadGuard<'_, Vec<u8>> {
        self.bytes.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
    pub(crate) fn lock_mut(&self) -> RwLockWriteGuard<'_, Vec<u8>> {
        self.bytes.write().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn range(&self, offset: usize, count: usize) -> Result<std::ops::Range<usize>, TensorError> {
        let end = offset.saturating_add(count);
        if end > self.size {
            return Err(TensorError::Range { offset, end, size: self.size });
        }
        Ok(offset..end)
    }
}

impl Storage for HostMemory {
    fn len(&self) -> usize {
        self.size
    }
    fn device(&self) -> &str {
        self.device
    }
    fn read(&self, offset: usize, out: &mut [u8]) -> Result<(), TensorError> {
        let range = self.range(offset, out.len())?;
        out.copy_from_slice(&self.lock()[range]);
        Ok(())
    }
    fn write(&self, offset: usize, data: &[u8]) -> Result<(), TensorError> {
        let range = self.range(offset, data.len())?;
        self.lock_mut()[range].copy_from_slice(data);
        Ok(())
    }
}
