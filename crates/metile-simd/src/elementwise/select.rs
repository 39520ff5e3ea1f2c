//! A choice per element.

use super::{Work, dispatch, run, run_mut};
use crate::Level;

struct Select<'r, T>(&'r [u8], &'r [T], &'r [T], &'r mut [T]);
impl<T: Copy> Work for Select<'_, T> {
    type Output = ();
    #[inline(always)]
    fn go<const FUSED: bool>(self) {
        for (((out, &c), &a), &b) in self.3.iter_mut().zip(self.0).zip(self.1).zip(self.2) {
            *out = if c != 0 { a } else { b };
        }
    }
}

/// `out = c ? a : b`, `n` elements of `bytes` bytes each.
///
/// # Safety
/// The runs are valid and aligned; `c` has a byte per element; `out` overlaps nothing that is read.
pub unsafe fn select(
    level: Level,
    bytes: usize,
    c: *const u8,
    a: *const u8,
    b: *const u8,
    out: *mut u8,
    n: usize,
) {
    macro_rules! on {
        ($ty:ty) => {{
            // SAFETY: as the caller promises.
            let work = unsafe { Select::<$ty>(run(c, n), run(a, n), run(b, n), run_mut(out, n)) };
            dispatch(level, work)
        }};
    }
    match bytes {
        1 => on!(u8),
        2 => on!(u16),
        4 => on!(u32),
        _ => on!(u64),
    }
}
