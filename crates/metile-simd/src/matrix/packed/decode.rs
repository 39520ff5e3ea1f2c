//! Packed rows as `f32`, bit for bit as `metile_ir::packed` decodes them.

use super::{Blocks, Order, Range, Row, UNIT, affine, k_quants, legacy, with_blocks};
use crate::Level;
use crate::lanes::{self, LANES, Lanes, Words, Work};
use metile_ir::PackedFormat;
use metile_ir::dtype::AffineBits;

/// Writes elements `first..first + len` of `row`.
///
/// # Safety
/// Their blocks are in memory, `out` is valid for `len` writes; the machine has `level`.
pub(in super::super) unsafe fn decode(
    level: Level,
    format: PackedFormat,
    row: Row,
    first: usize,
    len: usize,
    out: *mut f32,
) {
    // SAFETY: passed on to the caller.
    with_blocks!(format, f => unsafe { lanes::run(level, Decode { f, row, first, len, out }) });
}

struct Decode<F> {
    f: F,
    row: Row,
    first: usize,
    len: usize,
    out: *mut f32,
}

impl<F: Blocks> Work for Decode<F> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let end = self.first + self.len;
        let mut unit = self.first / UNIT;
        // SAFETY: blocks of the elements asked for are in memory; `out` has room for these elements.
        unsafe {
            while unit * UNIT < end {
                let block = unit / self.f.units();
                let open = self.f.open::<L>(self.row, block);
                let last = (block + 1) * self.f.units();
                while unit < last && unit * UNIT < end {
                    let values = values::<L, F>(self.f, &open, unit % self.f.units());
                    let (from, to) = (self.first.max(unit * UNIT), end.min((unit + 1) * UNIT));
                    let out = self.out.add(from - self.first);
                    if to - from == UNIT {
                        for (v, values) in values.into_iter().enumerate() {
                            values.store(out.add(v * LANES));
                        }
                    } else {
                        let mut whole = [0.0f32; UNIT];
                        for (v, values) in values.into_iter().enumerate() {
                            values.store(whole.as_mut_ptr().add(v * LANES));
                        }
                        let part = whole.as_ptr().add(from - unit * UNIT);
                        std::ptr::copy_nonoverlapping(part, out, to - from);
                    }
                    unit += 1;
                }
            }
        }
    }
}

/// The 32 elements of a unit in order.
#[inline(always)]
unsafe fn values<L: Lanes, F: Blocks>(f: F, block: &F::Open<L>, unit: usize) -> [L; 4] {
    // SAFETY: the block is in memory.
    unsafe {
        let integers = f.integers::<L>(block, unit);
        let integers =
            if F::ORDER == Order::Paired { integers.interleave_halves() } else { integers };
        let mut v = if F::RANGE == Range::I8 { integers.widen_i8() } else { integers.widen_u8() };
        let (scale, min) = (f.scale::<L>(block, unit), f.min::<L>(block, unit));
        // Lanes 0..4 of `scale` go with elements 0..16, lanes 4..8 with the rest.
        let scales = scale.to_array();
        let scales = [L::splat(scales[0]), L::splat(scales[4])];
        for (i, v) in v.iter_mut().enumerate() {
            if F::OFFSET != 0.0 {
                *v = v.sub(L::splat(F::OFFSET));
            }
            *v = v.mul(scales[i / 2]);
            if F::MIN {
                *v = v.add(min);
            }
        }
        v
    }
}
