//! Rows of a factor, taken apart beforehand, times packed rows: `Σ scale · Σ q·x + constant part`.

use super::{Blocks, Held, Row, Scales, Weights, constant_part, hold, scale_at};
use crate::Level;
use crate::lanes::{self, Lanes, Work};

/// How the few rows lie: units of `STEP` floats, then their sums for each scale.
pub(super) trait Factor: Copy {
    /// Floats of a unit.
    const STEP: usize;
    /// Runs a [`Block`] of four rows, of as many weights as is best.
    ///
    /// # Safety
    /// As [`multiply`]'s.
    unsafe fn four<F: Blocks>(level: Level, part: Part<F>);
    /// Adds `scale · Σ q·x` over a unit to `acc`, spread over lanes as [`scale_at`] has them, for `R`
    /// rows that are `stride` floats apart and units of `C` weights.
    ///
    /// # Safety
    /// The units are in memory; the machine has the level of `L`.
    unsafe fn accumulate<L: Lanes, F: Blocks, const R: usize, const C: usize>(
        held: &[Held<L::Words>; C],
        scales: &[L; C],
        x: *const f32,
        stride: usize,
        acc: &mut [[L; C]; R],
    );
}

/// Few rows against all weights.
#[derive(Clone, Copy)]
pub(super) struct Part<F> {
    pub(super) f: F,
    pub(super) w: Weights,
    pub(super) span: Scales,
    /// `rows` rows of `stride` floats; there are rows up to a multiple of [`GROUP`].
    pub(super) x: *const f32,
    pub(super) stride: usize,
    pub(super) rows: usize,
    /// Room for [`ROWS`] rows' scales.
    pub(super) scales: *mut f32,
    /// The products, `[rows, w.rows]`, with room for rows up to a multiple of [`GROUP`].
    pub(super) y: *mut f32,
}

/// Rows of weights whose scales are at hand at a time, at most.
pub(super) const ROWS: usize = 4;
/// Rows of the other factor at a time, at most.
pub(super) const GROUP: usize = 4;
/// Bytes of a cache line, and how far ahead of the reads lines are asked for.
const LINE: usize = 64;
const AHEAD: usize = 4096;
/// Rows up to which this is faster than decoding the weights for a product of `f32`.
pub(super) const MOST: usize = 8;

/// Writes the products of all rows.
///
/// # Safety
/// Pointers are as [`Part`] says, blocks in memory; the machine has `level`.
pub(super) unsafe fn multiply<F: Blocks, X: Factor>(level: Level, all: Part<F>) {
    for row in (0..all.rows).step_by(GROUP) {
        let part = Part {
            x: all.x.wrapping_add(row * all.stride),
            y: all.y.wrapping_add(row * all.w.rows),
            ..all
        };
        // SAFETY: passed on to the caller.
        unsafe {
            match all.rows - row {
                1 => lanes::run(level, Block::<F, X, 1, 4>(part, [])),
                2 => lanes::run(level, Block::<F, X, 2, 2>(part, [])),
                _ => X::four(level, part),
            }
        }
    }
}

/// `R` rows times all weights, `C` at a time.
pub(super) struct Block<F, X, const R: usize, const C: usize>(
    pub(super) Part<F>,
    pub(super) [X; 0],
);

impl<F: Blocks, X: Factor, const R: usize, const C: usize> Work for Block<F, X, R, C> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        // SAFETY: row `at` is a weight.
        unsafe {
            if L::MANY {
                for at in (0..self.0.w.rows).step_by(C) {
                    several::<L, F, X, R, C>(&self.0, at);
                }
            } else {
                for at in 0..self.0.w.rows {
                    several::<L, F, X, R, 1>(&self.0, at);
                }
            }
        }
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
        if F::UNITS == 1 {
            units::<L, F, X, R, C>(part, &rows, &mut acc);
        } else {
            super_blocks::<L, F, X, R, C>(part, &rows, &mut acc);
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

/// Adds the products of all units where a block is one.
#[inline(always)]
unsafe fn units<L: Lanes, F: Blocks, X: Factor, const R: usize, const C: usize>(
    part: &Part<F>,
    rows: &[Row; C],
    acc: &mut [[L; C]; R],
) {
    let (first, end) = part.w.units;
    let step = C * part.w.unit_bytes;
    let mut ahead = part.f.address(rows[0], first, 0).wrapping_add(AHEAD);
    let mut x = part.x;
    for block in first..end {
        // As many lines as a step goes on by, and rarely one twice: cheaper than counting.
        L::prefetch(ahead);
        if C > 1 {
            L::prefetch(ahead.wrapping_add(LINE));
        }
        ahead = ahead.wrapping_add(step);
        // SAFETY: the block is in memory, `x` has the unit.
        unsafe { one_unit::<L, F, X, R, C>(part, rows, block, 0, x, acc) };
        x = x.wrapping_add(X::STEP);
    }
}

/// Adds the products of all units where a block has several.
#[inline(always)]
unsafe fn super_blocks<L: Lanes, F: Blocks, X: Factor, const R: usize, const C: usize>(
    part: &Part<F>,
    rows: &[Row; C],
    acc: &mut [[L; C]; R],
) {
    let (first, end) = part.w.units;
    // SAFETY: blocks of the units are in memory, and `x` has the units.
    unsafe {
        let (mut block, mut unit) = (first / F::UNITS, first % F::UNITS);
        let mut left = end - first;
        let mut x = part.x;
        let (mut ahead, mut due) = (part.f.address(rows[0], block, unit).wrapping_add(AHEAD), 0);
        while left > 0 {
            let last = F::UNITS.min(unit + left);
            left -= last - unit;
            while unit < last {
                let known = L::MANY && unit % F::KINDS == 0 && last - unit >= F::KINDS;
                let kinds = if known { F::KINDS } else { 1 };
                due += kinds * C * part.w.unit_bytes;
                while due >= LINE {
                    L::prefetch(ahead);
                    (ahead, due) = (ahead.wrapping_add(LINE), due - LINE);
                }
                if F::KINDS > 1 && known {
                    // A known kind: shifts by unit are immediate.
                    for kind in 0..F::KINDS {
                        let unit = unit / F::KINDS * F::KINDS + kind;
                        let x = x.add(kind * X::STEP);
                        one_unit::<L, F, X, R, C>(part, rows, block, unit, x, acc);
                    }
                } else {
                    one_unit::<L, F, X, R, C>(part, rows, block, unit, x, acc);
                }
                x = x.add(kinds * X::STEP);
                unit += kinds;
            }
            (block, unit) = (block + 1, 0);
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
    // SAFETY: the block is in memory, `x` has `R` rows of units.
    unsafe {
        let mut held = [hold::<L, F>(part.f, rows[0], block, unit); C];
        for c in 1..C {
            held[c] = hold::<L, F>(part.f, rows[c], block, unit);
        }
        let mut scales = [L::splat(0.0); C];
        for c in 0..C {
            let at = 2 * c * part.span.stride + scale;
            scales[c] = scale_at::<L, F>(part.scales.add(at));
        }
        X::accumulate::<L, F, R, C>(&held, &scales, x, part.stride, acc);
    }
}

/// Adds the sum over 16 elements to that of their scale.
///
/// # Safety
/// `sums` has the span's floats.
#[inline(always)]
pub(super) unsafe fn add_sum<F: Blocks>(
    f: F,
    span: Scales,
    sums: *mut f32,
    (unit, half): (usize, usize),
    sum: f32,
) {
    let at = span.index(f, unit) + if F::HALVES { half } else { usize::from(F::PAIRS) };
    // SAFETY: the unit is in the span.
    unsafe { *sums.add(at) += sum };
}
