//! Moving elements without changing them.

use super::{Work, dispatch, run_mut};
use crate::Level;

/// `n` elements of `bytes` bytes from `a` to `out`.
///
/// # Safety
/// Both are valid for them and do not overlap.
pub unsafe fn copy(bytes: usize, a: *const u8, out: *mut u8, n: usize) {
    // SAFETY: as the caller promises.
    unsafe { std::ptr::copy_nonoverlapping(a, out, n * bytes) };
}

/// `n` elements of `bytes` bytes, `stride` bytes apart at `out` and side by side at `a`.
///
/// # Safety
/// Both are valid for them and do not overlap.
pub unsafe fn copy_strided(bytes: usize, a: *const u8, out: *mut u8, stride: isize, n: usize) {
    macro_rules! on {
        ($ty:ty) => {
            for i in 0..n {
                // SAFETY: as the caller promises.
                unsafe {
                    let value = a.cast::<$ty>().add(i).read_unaligned();
                    out.offset(stride * i as isize).cast::<$ty>().write_unaligned(value);
                }
            }
        };
    }
    match bytes {
        1 => on!(u8),
        2 => on!(u16),
        4 => on!(u32),
        _ => on!(u64),
    }
}

/// `n` elements of `bytes` bytes, `stride` bytes apart at `a` and side by side at `out`.
///
/// # Safety
/// Both are valid for them and do not overlap.
pub unsafe fn gather_strided(bytes: usize, a: *const u8, stride: isize, out: *mut u8, n: usize) {
    if (bytes, stride) == (4, 8) {
        // Every other element: with a stride that it knows the compiler makes vector code of this.
        for i in 0..n {
            // SAFETY: as the caller promises.
            unsafe {
                let value = a.add(8 * i).cast::<u32>().read_unaligned();
                out.cast::<u32>().add(i).write_unaligned(value);
            }
        }
        return;
    }
    macro_rules! on {
        ($ty:ty) => {
            for i in 0..n {
                // SAFETY: as the caller promises.
                unsafe {
                    let value = a.offset(stride * i as isize).cast::<$ty>().read_unaligned();
                    out.cast::<$ty>().add(i).write_unaligned(value);
                }
            }
        };
    }
    match bytes {
        1 => on!(u8),
        2 => on!(u16),
        4 => on!(u32),
        _ => on!(u64),
    }
}

/// `n` elements of `bytes` bytes, each with the low bytes of `bits`.
///
/// # Safety
/// `out` is valid and aligned for them.
pub unsafe fn fill(bytes: usize, bits: u64, out: *mut u8, n: usize) {
    // SAFETY: as the caller promises.
    unsafe {
        match bytes {
            1 => run_mut::<u8>(out, n).fill(bits as u8),
            2 => run_mut::<u16>(out, n).fill(bits as u16),
            4 => run_mut::<u32>(out, n).fill(bits as u32),
            _ => run_mut::<u64>(out, n).fill(bits),
        }
    }
}

/// Bytes that are not 0 become 1: any byte is a truth value in memory, 0 or 1 in a tile.
///
/// # Safety
/// `out` is valid for `n` bytes.
pub unsafe fn normalize_bools(out: *mut u8, n: usize) {
    // SAFETY: as the caller promises.
    for byte in unsafe { run_mut::<u8>(out, n) } {
        *byte = u8::from(*byte != 0);
    }
}

struct Index<'r> {
    first: i64,
    step: i64,
    out: &'r mut [i64],
}
impl Work for Index<'_> {
    type Output = ();
    #[inline(always)]
    fn go<const FUSED: bool>(self) {
        let mut value = self.first;
        for out in self.out {
            *out = value;
            value = value.wrapping_add(self.step);
        }
    }
}

/// `first, first + step, …` as `n` `i64`.
///
/// # Safety
/// `out` is valid and aligned for them.
pub unsafe fn index(level: Level, first: i64, step: i64, out: *mut u8, n: usize) {
    // SAFETY: as the caller promises.
    let out = unsafe { run_mut(out, n) };
    dispatch(level, Index { first, step, out });
}

/// `bytes` bytes from `a` to `out` past the caches, for results that nobody reads soon.
///
/// # Safety
/// Both are valid for them and do not overlap.
pub unsafe fn stream(level: Level, a: *const u8, out: *mut u8, bytes: usize) {
    match level {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as the caller promises; a level is only ever one that the machine has.
        Level::Avx2 => unsafe { stream_avx2(a, out, bytes) },
        // SAFETY: as the caller promises.
        _ => unsafe { std::ptr::copy_nonoverlapping(a, out, bytes) },
    }
}

/// # Safety
/// As [`stream`]'s, on a machine with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn stream_avx2(a: *const u8, out: *mut u8, bytes: usize) {
    use std::arch::x86_64::{_mm256_loadu_si256, _mm256_stream_si256};
    let head = out.align_offset(32).min(bytes);
    let whole = (bytes - head) / 32;
    let tail = bytes - head - whole * 32;
    // SAFETY: head, whole vectors and tail make up `bytes`; the vectors begin where `out` is aligned.
    unsafe {
        std::ptr::copy_nonoverlapping(a, out, head);
        let (mut from, mut to) = (a.add(head), out.add(head));
        for _ in 0..whole {
            _mm256_stream_si256(to.cast(), _mm256_loadu_si256(from.cast()));
            from = from.add(32);
            to = to.add(32);
        }
        std::ptr::copy_nonoverlapping(from, to, tail);
    }
}

/// Asks for `bytes` bytes at `from`, which may be anywhere: no address is invalid.
#[inline]
pub fn prefetch(from: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for at in (0..bytes).step_by(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint; it reads nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(at).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (from, bytes);
}

/// Makes streamed stores visible before anything after it.
pub fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 machine has the instruction.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}
