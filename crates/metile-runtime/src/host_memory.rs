//! Memory of devices that compute on the host.

use metile_lang::tensor::{Storage, TensorError};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The alignment of every allocation: a cache line, so that rows of whole vectors are aligned.
const LINE: usize = 64;

/// Bytes in host memory, aligned to 64. A launch holds the lock of what it touches, so a host copy
/// never sees a half-written tensor.
#[derive(Debug)]
pub struct HostMemory {
    first: NonNull<u8>,
    size: usize,
    /// Held for reading by who reads the bytes, for writing by who writes them.
    lock: RwLock<()>,
    device: &'static str,
}

// SAFETY: the bytes are reached only through `lock`, as a `RwLock<[u8]>`'s would be.
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

/// The bytes, while they are held.
#[derive(Debug)]
pub(crate) enum Held<'m> {
    Read { bytes: &'m [u8], _guard: RwLockReadGuard<'m, ()> },
    Write { bytes: &'m mut [u8], _guard: RwLockWriteGuard<'m, ()> },
}

impl HostMemory {
    /// `size` bytes of zeros.
    ///
    /// # Errors
    /// If the host has no room for them.
    pub fn new(device: &'static str, size: usize) -> Result<HostMemory, TensorError> {
        let no_room = || TensorError::Device {
            device: device.to_owned(),
            message: format!("no room for {size} bytes"),
        };
        let layout = Self::layout(size).ok_or_else(no_room)?;
        // SAFETY: the layout has at least one line.
        let first = unsafe { alloc_zeroed(layout) };
        let first = NonNull::new(first).ok_or_else(no_room)?;
        Ok(HostMemory { first, size, lock: RwLock::new(()), device })
    }

    fn layout(size: usize) -> Option<Layout> {
        Layout::from_size_align(size.max(LINE), LINE).ok()
    }

    /// The first byte. Launches keep it, and hold the lock while they use it.
    pub(crate) fn first(&self) -> *mut u8 {
        self.first.as_ptr()
    }

    // A panic while the lock is held leaves bytes, which have no invariant to break.
    pub(crate) fn hold(&self) -> Held<'_> {
        let guard = self.lock.read().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: `size` bytes were allocated, and the guard keeps writers away.
        let bytes = unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.size) };
        Held::Read { bytes, _guard: guard }
    }
    pub(crate) fn hold_mut(&self) -> Held<'_> {
        let guard = self.lock.write().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: `size` bytes were allocated, and the guard keeps everybody else away.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr(), self.size) };
        Held::Write { bytes, _guard: guard }
    }

    fn range(&self, offset: usize, count: usize) -> Result<std::ops::Range<usize>, TensorError> {
        let end = offset.saturating_add(count);
        if end > self.size {
            return Err(TensorError::Range { offset, end, size: self.size });
        }
        Ok(offset..end)
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        if let Some(layout) = Self::layout(self.size) {
            // SAFETY: allocated with this layout.
            unsafe { dealloc(self.first.as_ptr(), layout) };
        }
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
        if let Held::Read { bytes, .. } = self.hold() {
            out.copy_from_slice(&bytes[range]);
        }
        Ok(())
    }
    fn write(&self, offset: usize, data: &[u8]) -> Result<(), TensorError> {
        let range = self.range(offset, data.len())?;
        if let Held::Write { bytes, .. } = self.hold_mut() {
            bytes[range].copy_from_slice(data);
        }
        Ok(())
    }
}
