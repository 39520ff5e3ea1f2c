//! `f32` rows times packed rows: integers are widened in registers and multiplied, the scale of a unit
//! applied to its sum: `scale · Σ q·x + min · Σ x`.

use super::super::{Operand, Scratch};
use super::{Blocks, UNIT, Weights, expand, expanded_at};
use crate::Level;
use crate::lanes::{self, LANES, Lanes, Work};

/// Floats of a unit of `x`: its 32 elements in the order of [`expand`], and their sums by lane.
const STEP: usize = UNIT + LANES;

/// The products of `rows` rows of `x` (those beyond its valid ones zeros) with the weights:
/// `[rows, weights.rows]` in `scratch.y`.
///
/// # Safety
/// As [`super::multiply`]'s.
pub(super) unsafe fn multiply<F: Blocks>(
    level: Level,
    f: F,
    shared: usize,
    x: &Operand,
    rows: usize,
    w: Weights,
    scratch: &mut Scratch,
) -> *const f32 {
    let units = w.units.1 - w.units.0;
    let stride = units * STEP;
    let padded = rows.next_multiple_of(4);
    let base = scratch.x.floats(padded * stride);
    let straight = scratch.strip.floats(units * UNIT);
    let y = scratch.y.floats(padded * w.rows);
    // SAFETY: passed on to the caller; `base` holds the padded rows.
    unsafe {
        for row in 0..padded {
            let to = base.add(row * stride);
            if row < x.valid_rows {
                x.gather(level, row, 0, shared, straight);
                std::ptr::write_bytes(straight.add(shared), 0, units * UNIT - shared);
                arrange::<F>(straight, units, to);
            } else {
                std::ptr::write_bytes(to, 0, stride);
            }
        }
        let mut row = 0;
        while row < rows {
            let part = Part { f, w, x: base.add(row * stride), stride, y: y.add(row * w.rows) };
            row += match rows - row {
                1 => lanes::run(level, Block::<F, 1, 2>(part)),
                2 => lanes::run(level, Block::<F, 2, 2>(part)),
                _ => lanes::run(level, Block::<F, 4, 1>(part)),
            };
        }
    }
    y
}

/// A row in the layout of the kernel.
unsafe fn arrange<F: Blocks>(from: *const f32, units: usize, to: *mut f32) {
    let places: [usize; UNIT] = std::array::from_fn(expanded_at::<F>);
    for unit in 0..units {
        // SAFETY: `from` has 32, `to` 40 floats a unit.
        unsafe {
            let (from, to) = (from.add(unit * UNIT), to.add(unit * STEP));
            for (e, place) in places.iter().enumerate() {
                *to.add(*place) = *from.add(e);
            }
            for lane in 0..LANES {
                let [a, b, c, d] = [0, 1, 2, 3].map(|v| *to.add(v * LANES + lane));
                *to.add(UNIT + lane) = (a + b) + (c + d);
            }
        }
    }
}

struct Part<F> {
    f: F,
    w: Weights,
    x: *const f32,
    stride: usize,
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
                        one_unit(part.f, &open, unit, x.add(kind * STEP), part.stride, &mut acc);
                    }
                    x = x.add(F::KINDS * STEP);
                    unit += F::KINDS;
                } else {
                    one_unit(part.f, &open, unit, x, part.stride, &mut acc);
                    x = x.add(STEP);
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
    x: *const f32,
    stride: usize,
    acc: &mut [[L; C]; R],
) {
    for c in 0..C {
        // SAFETY: the block is in memory, `x` has `R` rows of units.
        unsafe {
            let v = expand::<L, F>(f.integers::<L>(&open[c], unit));
            let scale = f.scale::<L>(&open[c], unit);
            let min =
                if F::MIN { f.min::<L>(&open[c], unit) } else { scale.mul(L::splat(-F::OFFSET)) };
            for r in 0..R {
                let x = x.add(r * stride);
                let mut p = v[0].mul(L::load(x));
                p = v[1].mul_add(L::load(x.add(LANES)), p);
                p = v[2].mul_add(L::load(x.add(2 * LANES)), p);
                p = v[3].mul_add(L::load(x.add(3 * LANES)), p);
                acc[r][c] = scale.mul_add(p, acc[r][c]);
                if F::MIN || F::OFFSET != 0.0 {
                    acc[r][c] = min.mul_add(L::load(x.add(UNIT)), acc[r][c]);
                }
            }
        }
    }
}
