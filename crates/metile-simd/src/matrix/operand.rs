//! Where a factor of a product lies, and its rows as plain `f32`.

use super::packed;
use crate::Level;
use crate::lanes::{LANES, Lanes};
use half::{bf16, f16};
use metile_ir::{DType, PackedFormat};

/// One factor as a matrix `[rows, k]`, of which `valid_rows` by `valid_k` lie in memory; elements
/// beyond are zero and are never read.
#[derive(Clone, Copy, Debug)]
pub struct Operand {
    /// Where the elements lie.
    pub source: Source,
    /// Rows in memory.
    pub valid_rows: usize,
    /// Elements of each row in memory.
    pub valid_k: usize,
    /// If not 0: what lies there is the same as at the call before with this number, on any thread, so
    /// that what was made of it then still serves.
    pub version: u64,
}

/// Memory that a factor lies in.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// Element `[row, k]` is at `base + row·row_stride + k·k_stride`, in elements of `dtype`.
    Plain {
        /// `F32`, `F16` or `BF16`.
        dtype: DType,
        /// The element `[0, 0]`.
        base: *const u8,
        /// Elements from one row to the next; any sign, or 0.
        row_stride: isize,
        /// Elements from one `k` to the next; any sign, or 0.
        k_stride: isize,
    },
    /// Rows of packed blocks.
    Packed {
        /// The format.
        format: PackedFormat,
        /// The first block of row 0 in each of the format's arrays; those it lacks are not read.
        parts: [*const u8; 3],
        /// Blocks from one row to the next; any sign, or 0.
        row_stride: isize,
        /// The element of a row, counted from the row's first block, that is `k = 0`.
        first_k: usize,
    },
}

/// An element type that widens to `f32`.
pub(super) trait Element: Copy {
    /// Bytes of an element.
    const BYTES: usize;
    /// Widens `p[0..8]`.
    unsafe fn load<L: Lanes>(p: *const Self) -> L;
    /// Widens `p[0..count]`, zeros after; `count` is below 8.
    unsafe fn load_first<L: Lanes>(p: *const Self, count: usize) -> L;
    /// Widens one element.
    unsafe fn get(p: *const Self) -> f32;
}

impl Element for f32 {
    const BYTES: usize = 4;
    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const f32) -> L {
        // SAFETY: passed on to the caller.
        unsafe { L::load(p) }
    }
    #[inline(always)]
    unsafe fn load_first<L: Lanes>(p: *const f32, count: usize) -> L {
        // SAFETY: passed on to the caller.
        unsafe { L::load_first(p, count) }
    }
    #[inline(always)]
    unsafe fn get(p: *const f32) -> f32 {
        // SAFETY: passed on to the caller.
        unsafe { p.read_unaligned() }
    }
}

macro_rules! half_element {
    ($half:ty, $load:ident) => {
        impl Element for $half {
            const BYTES: usize = 2;
            #[inline(always)]
            unsafe fn load<L: Lanes>(p: *const $half) -> L {
                // SAFETY: passed on to the caller.
                unsafe { L::$load(p.cast()) }
            }
            #[inline(always)]
            unsafe fn load_first<L: Lanes>(p: *const $half, count: usize) -> L {
                let mut bits = [0u16; LANES];
                for (i, bits) in bits.iter_mut().enumerate().take(count) {
                    // SAFETY: valid for `count` reads by contract.
                    *bits = unsafe { p.add(i).cast::<u16>().read_unaligned() };
                }
                // SAFETY: the array has 8 elements.
                unsafe { L::$load(bits.as_ptr()) }
            }
            #[inline(always)]
            unsafe fn get(p: *const $half) -> f32 {
                // SAFETY: passed on to the caller.
                unsafe { p.read_unaligned() }.to_f32()
            }
        }
    };
}
half_element!(f16, load_f16);
half_element!(bf16, load_bf16);

/// Runs `$body` with `$e` the element type of `$dtype`.
macro_rules! with_element {
    ($dtype:expr, $e:ident => $body:expr) => {
        match $dtype {
            metile_ir::DType::F32 => {
                type $e = f32;
                $body
            }
            metile_ir::DType::F16 => {
                type $e = half::f16;
                $body
            }
            metile_ir::DType::BF16 => {
                type $e = half::bf16;
                $body
            }
            other => {
                panic!("a matrix product of {other} elements: only f32, f16 and bf16 have one")
            }
        }
    };
}
pub(super) use with_element;

impl Operand {
    /// Writes elements `first..first + len` of `row` as `f32`.
    ///
    /// # Safety
    /// They are valid, and `out` is valid for `len` writes; the machine has `level`.
    pub(super) unsafe fn gather(
        &self,
        level: Level,
        row: usize,
        first: usize,
        len: usize,
        out: *mut f32,
    ) {
        match self.source {
            Source::Plain { dtype, base, row_stride, k_stride } => {
                with_element!(dtype, E => {
                    // SAFETY: the element `[row, first]` is valid unless `len` is 0; every read is
                    // of a valid element.
                    unsafe {
                        let start = base
                            .cast::<E>()
                            .wrapping_offset(row as isize * row_stride + first as isize * k_stride);
                        if k_stride == 1 && size_of::<E>() == 4 {
                            std::ptr::copy_nonoverlapping(start.cast::<u8>(), out.cast::<u8>(), 4 * len);
                        } else {
                            for i in 0..len {
                                *out.add(i) = E::get(start.wrapping_offset(i as isize * k_stride));
                            }
                        }
                    }
                });
            }
            Source::Packed { format, parts, row_stride, first_k } => {
                // SAFETY: the blocks of valid elements are whole in memory.
                unsafe {
                    let row = packed::Row::new(format, parts, row as isize * row_stride);
                    packed::decode(level, format, row, first_k + first, len, out);
                }
            }
        }
    }
}
