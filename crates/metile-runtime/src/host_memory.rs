//! Memory of devices that compute on the host.

use bytemuck::{Pod, Zeroable};
use metile_lang::tensor::{Storage, TensorError};
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// One cache line: the alignment of every allocation, so that rows of whole vectors are aligned.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Bytes that begin at a cache line.
#[derive(Debug)]
pub(crate) struct Bytes {
    lines: Vec<Line>,
    size: usize,
}

impl std::ops::Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[..self.size]
    }
}
impl std::ops::DerefMut for Bytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.size]
    }
}

/// Bytes in host memory, aligned to 64. A launch holds the lock of what it touches, so a host copy
/// never sees a half-written tensor.
#[derive(Debug)]
pub struct HostMemory {
    bytes: RwLock<Bytes>,
    size: usize,
    device: &'static str,
}

impl HostMemory {
    /// `size` bytes of zeros.
    ///
    /// # Errors
    /// If the host has no room for them.
    pub fn new(device: &'static str, size: usize) -> Result<HostMemory, TensorError> {
        let count = size.div_ceil(64);
        let mut lines = Vec::new();
        lines.try_reserve_exact(count).map_err(|_| TensorError::Device {
            device: device.to_owned(),
            message: format!("no room for {size} bytes"),
        })?;
        lines.resize(count, Line([0; 64]));
        Ok(HostMemory { bytes: RwLock::new(Bytes { lines, size }), size, device })
    }

    // A panic while the lock is held leaves bytes, which have no invariant to break.
    pub(crate) fn lock(&self) -> RwLockReadGuard<'_, Bytes> {
        self.bytes.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
    pub(crate) fn lock_mut(&self) -> RwLockWriteGuard<'_, Bytes> {
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
