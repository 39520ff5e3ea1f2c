//! Memory of devices that compute on the host.

use metile_lang::tensor::{Storage, TensorError};
use metile_simd::pages::{LARGE, LINE, Pages};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// From this size on memory is a part of a larger piece, so that it lies in large pages too.
const SHARED: usize = 64 << 10;
/// Bytes of such a piece.
const PIECE: usize = 16 * LARGE;

/// The piece that parts are being taken of, and how much of it is taken.
static OPEN: Mutex<Option<(Arc<Pages>, usize)>> = Mutex::new(None);

/// Bytes in host memory, aligned to 64. A launch holds the lock of what it touches, so a host copy
/// never sees a half-written tensor.
#[derive(Debug)]
pub struct HostMemory {
    pages: Arc<Pages>,
    /// Where in the pages it begins.
    offset: usize,
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
        let (pages, offset) = if (SHARED..LARGE).contains(&size) {
            part(size).ok_or_else(no_room)?
        } else {
            (Arc::new(Pages::zeroed(size).ok_or_else(no_room)?), 0)
        };
        Ok(HostMemory { pages, offset, size, lock: RwLock::new(()), device })
    }

    /// The first byte. Launches keep it, and hold the lock while they use it.
    pub(crate) fn first(&self) -> *mut u8 {
        self.pages.first().wrapping_add(self.offset)
    }

    // A panic while the lock is held leaves bytes, which have no invariant to break.
    pub(crate) fn hold(&self) -> Held<'_> {
        let guard = self.lock.read().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: `size` bytes were allocated, and the guard keeps writers away.
        let bytes = unsafe { std::slice::from_raw_parts(self.first(), self.size) };
        Held::Read { bytes, _guard: guard }
    }
    pub(crate) fn hold_mut(&self) -> Held<'_> {
        let guard = self.lock.write().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: `size` bytes were allocated, and the guard keeps everybody else away.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.first(), self.size) };
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

/// `size` zeros of a piece that others have parts of as well, and where in it they begin.
fn part(size: usize) -> Option<(Arc<Pages>, usize)> {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((pages, taken)) = open.as_mut()
        && *taken + size <= pages.len()
    {
        let offset = *taken;
        *taken += size.next_multiple_of(LINE);
        return Some((pages.clone(), offset));
    }
    let pages = Arc::new(Pages::zeroed(PIECE)?);
    *open = Some((pages.clone(), size.next_multiple_of(LINE)));
    Some((pages, 0))
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // The piece goes when the last part does; until then at least this part is given back.
        // SAFETY: nobody holds these bytes any more, and no other part has them.
        unsafe { self.pages.release(self.offset, self.size) };
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Parts of one piece have bytes of their own, which are zeros at first, after others are gone too.
    #[test]
    fn parts_are_apart_and_zero() {
        let new = |size| HostMemory::new("cpu", size).unwrap();
        let sizes = [SHARED, SHARED + 1, 100_000, LARGE - 1, LARGE, 3 * LARGE + 5, 17, 0];
        for _ in 0..3 {
            let memories: Vec<HostMemory> = sizes.iter().map(|&size| new(size)).collect();
            for (n, memory) in memories.iter().enumerate() {
                let mut bytes = vec![1; memory.len()];
                memory.read(0, &mut bytes).unwrap();
                assert!(bytes.iter().all(|&b| b == 0));
                memory.write(0, &vec![n as u8 + 1; memory.len()]).unwrap();
                assert_eq!(memory.first().align_offset(LINE), 0);
            }
            for (n, memory) in memories.iter().enumerate() {
                let mut bytes = vec![0; memory.len()];
                memory.read(0, &mut bytes).unwrap();
                assert!(bytes.iter().all(|&b| b == n as u8 + 1));
            }
        }
    }

    /// More than there is memory for is an error, whatever the size.
    #[test]
    fn too_much_is_refused() {
        for size in [usize::MAX, usize::MAX / 2] {
            assert!(HostMemory::new("cpu", size).is_err());
        }
    }
}
