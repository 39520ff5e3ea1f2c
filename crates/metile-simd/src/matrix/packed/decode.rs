//! Packed rows as `f32`, bit for bit as `metile_ir::packed` decodes them.

use super::{
    Blocks, Layout, Row, Scales, UNIT, affine, hold, k_quants, legacy, quarter, with_blocks,
};
use crate::Level;
use crate::lanes::{self, LANES, Lanes, Words, Work};
use metile_ir::PackedFormat;
use metile_ir::dtype::AffineBits;

/// Units that are decoded at a time.
const CHUNK: usize = 64;
/// Room for a chunk's scales: two a unit, and a block or group more on either side.
const ROOM: usize = 4 * (CHUNK + 2 * 8);

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
        let mut scales = [0.0; ROOM];
        let last = end.div_ceil(UNIT);
        for chunk in (self.first / UNIT..last).step_by(CHUNK) {
            let units = (chunk, last.min(chunk + CHUNK));
            let span = Scales::of(self.f, units);
            debug_assert!(2 * span.stride <= ROOM);
            // SAFETY: blocks of the elements asked for are in memory; `out` has room for these elements.
            unsafe {
                span.write::<L, F>(self.f, self.row, scales.as_mut_ptr());
                for unit in units.0..units.1 {
                    let scale = scales.as_ptr().add(span.index(self.f, unit));
                    let values = self.values::<L>(unit, scale, span.to_min::<F>());
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
                }
            }
        }
    }
}

impl<F: Blocks> Decode<F> {
    /// The 32 elements of a unit in order; its min is `to_min` after its scale.
    #[inline(always)]
    unsafe fn values<L: Lanes>(&self, unit: usize, scale: *const f32, to_min: usize) -> [L; 4] {
        let (block, unit) = (unit / F::UNITS, unit % F::UNITS);
        // SAFETY: the block is in memory.
        unsafe {
            let mut v = match F::LAYOUT {
                Layout::Memory(_) => {
                    let held = hold::<L, F>(self.f, self.row, block, unit);
                    [0, 1, 2, 3].map(|j| quarter::<L, F>(&held, j))
                }
                Layout::Straight => self.f.integers::<L>(self.row, block, unit).widen_u8(),
                Layout::Paired => {
                    self.f.integers::<L>(self.row, block, unit).interleave_halves().widen_u8()
                }
            };
            for (i, v) in v.iter_mut().enumerate() {
                if F::OFFSET != 0.0 {
                    *v = v.sub(L::splat(F::OFFSET));
                }
                *v = v.mul(L::splat(*scale.add(if F::HALVES { i / 2 } else { 0 })));
                if F::MIN {
                    *v = v.add(L::splat(*scale.add(to_min)));
                }
            }
            v
        }
    }
}
