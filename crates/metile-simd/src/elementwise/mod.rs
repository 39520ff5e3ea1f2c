//! Operations on one element at a time, over runs of elements.
//!
//! Results never overlap operands. Every loop is plain Rust that the compiler turns into vectors, built
//! once per [`Level`](crate::Level) by [`dispatch`].

mod binary;
mod convert;
mod dispatch;
mod float;
mod int;
pub mod math;
mod movement;
mod select;
mod unary;

pub use binary::{binary, compare, fma};
pub use convert::{cast, widen};
pub use movement::{
    copy, copy_strided, fence, fill, gather_strided, index, normalize_bools, prefetch, stream,
};
pub use select::select;
pub use unary::unary;

pub(crate) use dispatch::{Work, dispatch};

/// An operand: a run of elements, or one that stands for all of them.
#[derive(Clone, Copy, Debug)]
pub struct Operand {
    /// Its first element.
    pub first: *const u8,
    /// Whether it is the only one.
    pub one: bool,
}

/// The most elements that one call takes.
pub const MAX_RUN: usize = 1024;

/// `n` elements at `p`.
///
/// # Safety
/// `p` is valid for reading them, aligned or not; nobody writes them meanwhile.
pub(crate) unsafe fn run<'a, T>(p: *const u8, n: usize) -> &'a [T] {
    debug_assert!(p.cast::<T>().is_aligned(), "runs are aligned to their elements");
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts(p.cast(), n) }
}

/// `n` elements at `p`, to be written.
///
/// # Safety
/// `p` is valid for writing them; nobody else touches them meanwhile.
pub(crate) unsafe fn run_mut<'a, T>(p: *mut u8, n: usize) -> &'a mut [T] {
    debug_assert!(p.cast::<T>().is_aligned(), "runs are aligned to their elements");
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts_mut(p.cast(), n) }
}
