//! Rows of a factor, taken apart beforehand, times packed rows: `Σ scale · Σ q·x + constant part`.

use super::{Blocks, Row, Scales, Weights, constant_part, scale_at};
use crate::Level;
use crate::lanes::{self, Lanes, Work};

/// How the few rows lie: units of `STEP` floats, then their sums for each scale.
pub(super) trait Factor: Copy {
    /// Floats of a unit.
    const STEP: usize;
    /// The integers of a unit of weights, ready for all rows.
    type Held<L: Lanes>: Copy;
    /// Takes the integers of a unit apart.
    ///
    /// # Safety
    /// The block is in memory; the machine has the level of `L`.
    unsafe fn hold<L: Lanes, F: Blocks>(f: F, row: Row, block: usize, unit: usize)
    -> Self::Held<L>;
    /// Vectors whose sum is `Σ q·x` over a unit, in the lanes of [`scale_at`].
    ///
    /// # Safety
    /// `x` is a unit; the machine has the level of `L`.
    unsafe fn product<L: Lanes, F: Blocks>(held: Self::Held<L>, x: *const f32) -> L;
}

/// Few rows against all weights.
#[derive(Clone, Copy)]
pub(super) struct Part<F> {
    pub(super) f: F,
    pub(super) w: Weights,
    pub(super) span: Scales,
    /// `rows` rows of `stride` floats; rows up to the next multiple of 4 are there too.
    pub(super) x: *const f32,
    pub(super) stride: usize,
    pub(super) rows: usize,
    /// Room for [`ROWS`] rows' scales.
    pub(super) scales: *mut f32,
    /// The products, `[rows, w.rows]`, with room for rows up to the next multiple of 4.
    pub(super) y: *mut f32,
}

/// Rows of weights whose scales are at hand at a time.
pub(super) const ROWS: usize = 4;

/// Writes the products of all rows.
///
/// # Safety
/// Pointers are as [`Part`] says, blocks in memory; the machine has `level`.
pub(super) unsafe fn multiply<F: Blocks, X: Factor>(level: Level, all: Part<F>) {
    let mut row = 0;
    while row < all.rows {
        let part = Part {
            x: all.x.wrapping_add(row * all.stride),
            y: all.y.wrapping_add(row * all.w.rows),
            ..all
        };
        // SAFETY: passed on to the caller.
        unsafe {
            row += match all.rows - row {
                1 => lanes::run(level, Block::<F, X, 1, 4>(part, [])),
                2 => lanes::run(level, Block::<F, X, 2, 2>(part, [])),
                _ => lanes::run(level, Block::<F, X, 4, 1>(part, [])),
            };
        }
    }
}

/// `R` rows times all weights, `C` at a time. Returns `R`.
struct Block<F, X, const R: usize, const C: usize>(Part<F>, [X; 0]);

impl<F: Blocks, X: Factor, const R: usize, const C: usize> Work for Block<F, X, R, C> {
    type Output = usize;
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) -> usize {
        for at in (0..self.0.w.rows).step_by(C) {
            // SAFETY: row `at` is a weight.
            unsafe { several::<L, F, X, R, C>(&self.0, at) };
        }
        R
    }
}

#[inline(always)]
unsafe fn several<L: Lanes, F: Blocks, X: Factor, const R: usize, const C: usize>(
    part: &Part<F>,
    at: usize,
) {
    // The last row stands in for those beyond it.
    let rows: [Row; C] = std::array::from_fn(|c| part.w.row((at + c).min(part.w.rows - 1)));
    let (first, end) = part.w.units;
    let both = 2 * part.span.stride;
    // SAFETY: blocks of the units are in memory; `x`, `y` and `scales` have the rows.
    unsafe {
        let mut acc = [[L::splat(0.0); C]; R];
        for (c, row) in rows.iter().enumerate() {
            let scales = part.scales.add(c * both);
            part.span.write::<L, F>(part.f, *row, scales);
            for r in 0..R {
                let sums = part.x.add(r * part.stride + (end - first) * X::STEP);
                acc[r][c] = constant_part::<L, F>(part.span, scales, sums);
            }
        }
        let (mut block, mut unit) = (first / F::UNITS, first % F::UNITS);
        let mut left = end - first;
        let mut x = part.x;
        while left > 0 {
            let last = F::UNITS.min(unit + left);
            left -= last - unit;
            while unit < last {
                let kinds =
                    if unit % F::KINDS == 0 && last - unit >= F::KINDS { F::KINDS } else { 1 };
                if F::KINDS > 1 && kinds == F::KINDS {
                    // A known kind: shifts by unit are immediate.
                    for kind in 0..F::KINDS {
                        let unit = unit / F::KINDS * F::KINDS + kind;
                        let x = x.add(kind * X::STEP);
                        one_unit::<L, F, X, R, C>(part, &rows, block, unit, x, &mut acc);
                    }
                } else {
                    one_unit::<L, F, X, R, C>(part, &rows, block, unit, x, &mut acc);
                }
                x = x.add(kinds * X::STEP);
                unit += kinds;
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
unsafe fn one_unit<L: Lanes, F: Blocks, X: Factor, const R: usize, const C: usize>(
    part: &Part<F>,
    rows: &[Row; C],
    block: usize,
    unit: usize,
    x: *const f32,
    acc: &mut [[L; C]; R],
) {
    let scale = part.span.index(part.f, block * F::UNITS + unit);
    for c in 0..C {
        // SAFETY: the block is in memory, `x` has `R` rows of units.
        unsafe {
            let held = X::hold::<L, F>(part.f, rows[c], block, unit);
            let scale = scale_at::<L, F>(part.scales.add(2 * c * part.span.stride + scale));
            for r in 0..R {
                let product = X::product::<L, F>(held, x.add(r * part.stride));
                acc[r][c] = scale.mul_add(product, acc[r][c]);
            }
        }
    }
}

/// Adds the sum over 16 elements to that of their scale.
///
/// # Safety
/// `sums` has the span's floats.
pub(super) unsafe fn add_sum<F: Blocks>(
    f: F,
    span: Scales,
    sums: *mut f32,
    (unit, half): (usize, usize),
    sum: f32,
) {
    let at = span.index(f, unit) + if F::HALVES { half } else { 0 };
    // SAFETY: the unit is in the span.
    unsafe { *sums.add(at) += sum };
}
