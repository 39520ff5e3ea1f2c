//! Zeroed memory in large pages. Where weights are read once a token, and panels walked across, every small
//! page costs a walk of the page tables, which under virtualization takes longer than reading the page.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// The alignment of every allocation: a cache line, so that rows of whole vectors are aligned.
pub const LINE: usize = 64;
/// Bytes of a large page.
pub const LARGE: usize = 2 << 20;
/// Bytes of an ordinary page, at least.
const SMALL: usize = 4096;

/// Zeroed memory, aligned to [`LINE`]; from [`LARGE`]`/ 2` bytes on to [`LARGE`], in large pages where the
/// system gives them.
#[derive(Debug)]
pub struct Pages {
    first: NonNull<u8>,
    bytes: usize,
    owner: Owner,
}

#[derive(Debug)]
enum Owner {
    Heap(Layout),
    #[cfg(target_os = "linux")]
    Mapped {
        first: NonNull<u8>,
        bytes: usize,
    },
}

// SAFETY: memory that nobody else has, reached through raw pointers only.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// `bytes` zeros; `None` if there is no room.
    pub fn zeroed(bytes: usize) -> Option<Pages> {
        #[cfg(target_os = "linux")]
        if bytes >= LARGE / 2 {
            return Pages::mapped(bytes);
        }
        let layout = Layout::from_size_align(bytes.max(LINE), LINE).ok()?;
        // SAFETY: the layout has at least one line.
        let first = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Pages { first, bytes, owner: Owner::Heap(layout) })
    }

    #[cfg(target_os = "linux")]
    fn mapped(bytes: usize) -> Option<Pages> {
        let whole = bytes.checked_next_multiple_of(LARGE)?;
        let mapped = whole.checked_add(LARGE)?;
        // SAFETY: a new private mapping, at an address of the system's choice.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapped,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return None;
        }
        let base = NonNull::new(base.cast::<u8>())?;
        let skip = base.as_ptr().align_offset(LARGE);
        // SAFETY: the mapping is a large page longer than what is used of it. The advice is one: a
        // system without large pages goes on with small ones.
        let first = unsafe {
            let first = base.add(skip);
            libc::madvise(first.as_ptr().cast(), whole, libc::MADV_HUGEPAGE);
            first
        };
        Some(Pages { first, bytes, owner: Owner::Mapped { first: base, bytes: mapped } })
    }

    /// The first byte.
    pub fn first(&self) -> *mut u8 {
        self.first.as_ptr()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.bytes
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Gives the whole pages among the `bytes` bytes from `offset` on back to the system.
    ///
    /// # Safety
    /// Nobody uses these bytes any more.
    pub unsafe fn release(&self, offset: usize, bytes: usize) {
        let Some(end) = offset.checked_add(bytes).filter(|&end| end <= self.bytes) else { return };
        let (first, end) = (offset.next_multiple_of(SMALL), end / SMALL * SMALL);
        #[cfg(target_os = "linux")]
        if let Owner::Mapped { .. } = self.owner
            && first < end
        {
            // SAFETY: pages of this mapping that nobody uses. Where the system has larger ones it
            // refuses, and they stay.
            unsafe {
                libc::madvise(self.first().add(first).cast(), end - first, libc::MADV_DONTNEED);
            }
        }
        let _ = (first, end);
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        match self.owner {
            // SAFETY: allocated with this layout.
            Owner::Heap(layout) => unsafe { dealloc(self.first.as_ptr(), layout) },
            #[cfg(target_os = "linux")]
            // SAFETY: mapped so.
            Owner::Mapped { first, bytes } => unsafe {
                libc::munmap(first.as_ptr().cast(), bytes);
            },
        }
    }
}
