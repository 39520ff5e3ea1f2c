//! `x · wᵀ` for a few rows of `x` and a `w` whose columns are contiguous, as `[k, n]` weights and
//! attention values are: each `w[.., k]` is scaled and added into sums that stay in registers.

use super::operand::Element;
use super::small::{Few, Targets};
use crate::Level;
use crate::lanes::{self, LANES, Lanes, Work};

/// `[k, columns]` with contiguous columns; `stride` elements from one `k` to the next.
#[derive(Clone, Copy)]
pub(super) struct Matrix<E> {
    pub(super) base: *const E,
    pub(super) stride: isize,
    pub(super) columns: usize,
}

/// How many `k` ahead of the reads lines are asked for.
const AHEAD: isize = 12;

/// Adds the product over `k` elements to `targets`.
///
/// # Safety
/// `x` has `k` elements in each row, `w` `k` rows of its columns, `targets` the results' places; the
/// machine has `level`.
pub(super) unsafe fn multiply<E: Element>(
    level: Level,
    k: usize,
    x: Few,
    w: Matrix<E>,
    targets: Targets,
) {
    let mut row = 0;
    while row < x.rows {
        let part = Part { k, x, row, w, targets };
        // SAFETY: passed on to the caller.
        unsafe {
            row += match x.rows - row {
                1 => lanes::run(level, Block::<E, 1, 8>(part)),
                2 => lanes::run(level, Block::<E, 2, 4>(part)),
                3 => lanes::run(level, Block::<E, 3, 4>(part)),
                5 | 6 => lanes::run(level, Block::<E, 3, 4>(part)),
                _ => lanes::run(level, Block::<E, 4, 3>(part)),
            };
        }
    }
}

#[derive(Clone, Copy)]
struct Part<E> {
    k: usize,
    x: Few,
    row: usize,
    w: Matrix<E>,
    targets: Targets,
}

/// `R` rows of `x`, `V` vectors of columns at a time. Returns `R`.
struct Block<E, const R: usize, const V: usize>(Part<E>);

impl<E: Element, const R: usize, const V: usize> Work for Block<E, R, V> {
    type Output = usize;
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) -> usize {
        let part = self.0;
        let columns = part.w.columns;
        let mut at = 0;
        // SAFETY: columns `at..` of each width are below `columns`.
        unsafe {
            while at + V * LANES <= columns {
                chunk::<L, E, R, V, false>(&part, at, LANES);
                at += V * LANES;
            }
            while at + LANES <= columns {
                chunk::<L, E, R, 1, false>(&part, at, LANES);
                at += LANES;
            }
            if at < columns {
                chunk::<L, E, R, 1, true>(&part, at, columns - at);
            }
        }
        R
    }
}

/// `V` vectors of columns from `at` on; `PARTIAL` ones have `count` columns.
#[inline(always)]
unsafe fn chunk<L: Lanes, E: Element, const R: usize, const V: usize, const PARTIAL: bool>(
    part: &Part<E>,
    at: usize,
    count: usize,
) {
    let x = part.x.base.wrapping_add(part.row * part.x.stride);
    let mut w = part.w.base.wrapping_add(at);
    // SAFETY: `x` has `k` elements a row; every `w[at.., k]` has the chunk's columns.
    unsafe {
        let mut acc = [[L::splat(0.0); V]; R];
        for k in 0..part.k {
            let ahead = w.wrapping_offset(AHEAD * part.w.stride).cast::<u8>();
            for line in 0..(V * LANES * E::BYTES).div_ceil(64) {
                L::prefetch(ahead.wrapping_add(64 * line));
            }
            let mut v = [L::splat(0.0); V];
            for j in 0..V {
                v[j] = if PARTIAL {
                    E::load_first(w.add(j * LANES), count)
                } else {
                    E::load(w.add(j * LANES))
                };
            }
            for r in 0..R {
                let xv = L::splat(*x.add(r * part.x.stride + k));
                for j in 0..V {
                    acc[r][j] = xv.mul_add(v[j], acc[r][j]);
                }
            }
            w = w.wrapping_offset(part.w.stride);
        }
        for r in 0..R {
            for j in 0..V {
                let sums = acc[r][j].to_array();
                for (i, sum) in sums.iter().enumerate().take(count) {
                    *part.targets.at(part.row + r, at + j * LANES + i) += sum;
                }
            }
        }
    }
}
