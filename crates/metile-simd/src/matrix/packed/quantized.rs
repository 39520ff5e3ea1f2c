//! Q8_0 activations times packed rows: integers are multiplied as integers, the scales of both sides
//! applied to a unit's sum: `Σ d_x·(scale · Σ q·q_x + min · Σ q_x)`.

use super::super::Scratch;
use super::{Blocks, Range, UNIT, Weights, byte_of};
use crate::Level;
use crate::lanes::{self, LANES, Lanes, Words, Work};

/// Bytes of a Q8_0 block.
const BLOCK_BYTES: usize = 34;

/// Rows of Q8_0 blocks from block `first` on; those beyond `valid` are zeros.
pub(super) struct Blocks8 {
    pub(super) parts: [*const u8; 3],
    pub(super) row_stride: isize,
    pub(super) first: usize,
    pub(super) valid: usize,
    pub(super) rows: usize,
}

/// A unit of activations: its integers in the order of the weights', `d · Σ` of bytes `4i..4i + 4`, `d`.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
struct Unit {
    integers: [i8; UNIT],
    sums: [f32; LANES],
    scale: [f32; LANES],
}

/// Floats of a [`Unit`].
const STEP: usize = size_of::<Unit>() / 4;

/// The products of the rows of `x` with the weights: `[rows, weights.rows]` in `scratch.y`.
///
/// # Safety
/// As [`super::multiply`]'s.
pub(super) unsafe fn multiply<F: Blocks>(
    level: Level,
    f: F,
    shared: usize,
    x: Blocks8,
    w: Weights,
    scratch: &mut Scratch,
) -> *const f32 {
    let units = w.units.1 - w.units.0;
    let padded = x.rows.next_multiple_of(4);
    // Panels are aligned to 64 bytes.
    let base = scratch.x.floats(padded * units * STEP).cast::<Unit>();
    let y = scratch.y.floats(padded * w.rows);
    // SAFETY: passed on to the caller; `base` holds the padded rows.
    unsafe {
        for row in 0..padded {
            let to = base.add(row * units);
            if row < x.valid {
                let start = x.row_stride * row as isize + x.first as isize;
                arrange::<F>(x.parts[0].wrapping_offset(start * BLOCK_BYTES as isize), shared, to);
            } else {
                std::ptr::write_bytes(to, 0, units);
            }
        }
        let mut row = 0;
        while row < x.rows {
            let part = Part { f, w, x: base.add(row * units), units, y: y.add(row * w.rows) };
            row += match x.rows - row {
                1 => lanes::run(level, Block::<F, 1, 2>(part)),
                2 => lanes::run(level, Block::<F, 2, 2>(part)),
                _ => lanes::run(level, Block::<F, 4, 1>(part)),
            };
        }
    }
    y
}

/// A row of blocks in the layout of the kernel; elements from `shared` on are zeros.
unsafe fn arrange<F: Blocks>(from: *const u8, shared: usize, to: *mut Unit) {
    let places: [usize; UNIT] = std::array::from_fn(byte_of::<F>);
    for (unit, at) in (0..shared).step_by(UNIT).enumerate() {
        // SAFETY: the block of element `at` is in memory, `to` has its unit.
        unsafe {
            let block = from.add(unit * BLOCK_BYTES);
            let scale = half::f16::from_bits(block.cast::<u16>().read_unaligned()).to_f32();
            let mut integers = [0i8; UNIT];
            for (e, place) in places.iter().enumerate().take(shared - at) {
                integers[*place] = *block.add(2 + e) as i8;
            }
            let sums = std::array::from_fn(|i| {
                let sum: i32 = integers[4 * i..4 * i + 4].iter().map(|&q| i32::from(q)).sum();
                scale * sum as f32
            });
            to.add(unit).write(Unit { integers, sums, scale: [scale; LANES] });
        }
    }
}

struct Part<F> {
    f: F,
    w: Weights,
    x: *const Unit,
    units: usize,
    y: *mut f32,
}

/// `R` rows of `x` times all rows of the weights, `C` at a time. Returns `R`.
struct Block<F, const R: usize, const C: usize>(Part<F>);

impl<F: Blocks, const R: usize, const C: usize> Work for Block<F, R, C> {
    type Output = usize;
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) -> usize {
        let part = self.0;
        for at in (0..part.w.rows).step_by(C) {
            // SAFETY: row `at` is a weight.
            unsafe { several::<L, F, R, C>(&part, at) };
        }
        R
    }
}

#[inline(always)]
unsafe fn several<L: Lanes, F: Blocks, const R: usize, const C: usize>(part: &Part<F>, at: usize) {
    // The last row stands in for those beyond it.
    let rows: [super::Row; C] = std::array::from_fn(|c| part.w.row((at + c).min(part.w.rows - 1)));
    let per_block = part.f.units();
    let (first, end) = part.w.units;
    // SAFETY: blocks of the units are in memory; `x` and `y` have `R` rows.
    unsafe {
        let mut acc = [[L::splat(0.0); C]; R];
        let (mut block, mut unit, mut left) = (first / per_block, first % per_block, end - first);
        let mut x = part.x;
        while left > 0 {
            let mut open = [part.f.open::<L>(rows[0], block); C];
            for c in 1..C {
                open[c] = part.f.open::<L>(rows[c], block);
            }
            let last = per_block.min(unit + left);
            left -= last - unit;
            while unit < last {
                if F::KINDS > 1 && unit % F::KINDS == 0 && last - unit >= F::KINDS {
                    // A known kind: shifts by unit are immediate.
                    for kind in 0..F::KINDS {
                        let unit = unit / F::KINDS * F::KINDS + kind;
                        one_unit(part.f, &open, unit, x.add(kind), part.units, &mut acc);
                    }
                    x = x.add(F::KINDS);
                    unit += F::KINDS;
                } else {
                    one_unit(part.f, &open, unit, x, part.units, &mut acc);
                    x = x.add(1);
                    unit += 1;
                }
            }
            (block, unit) = (block + 1, 0);
        }
        for r in 0..R {
            for c in 0..C {
                if at + c < part.w.rows {
                    *part.y.add(r * part.w.rows + at + c) = acc[r][c].sum();
                }
            }
        }
    }
}

/// Adds a unit's products.
#[inline(always)]
unsafe fn one_unit<L: Lanes, F: Blocks, const R: usize, const C: usize>(
    f: F,
    open: &[F::Open<L>; C],
    unit: usize,
    x: *const Unit,
    stride: usize,
    acc: &mut [[L; C]; R],
) {
    for c in 0..C {
        // SAFETY: the block is in memory, `x` has `R` rows of units.
        unsafe {
            let q = f.integers::<L>(&open[c], unit);
            let scale = f.scale::<L>(&open[c], unit);
            let min =
                if F::MIN { f.min::<L>(&open[c], unit) } else { scale.mul(L::splat(-F::OFFSET)) };
            for r in 0..R {
                let x = x.add(r * stride);
                let qx = L::Words::load((&raw const (*x).integers).cast());
                let sums = match F::RANGE {
                    Range::U7 => q.dot_u7_i8(qx),
                    Range::U8 => q.dot_u8_i8(qx),
                    Range::I8 => q.dot_i8_i8(qx),
                };
                let both = scale.mul(L::load((&raw const (*x).scale).cast()));
                acc[r][c] = sums.to_floats().mul_add(both, acc[r][c]);
                if F::MIN || F::OFFSET != 0.0 {
                    acc[r][c] = min.mul_add(L::load((&raw const (*x).sums).cast()), acc[r][c]);
                }
            }
        }
    }
}
