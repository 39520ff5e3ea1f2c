//! `x · wᵀ` for a few rows of `x` and a `w` whose columns are contiguous, as `[k, n]` weights and
//! attention values are: each `w[.., k]` is scaled and added into sums. They stay in registers for some
//! columns at a time, or, where that would read too little of each page of a wide `w`, in the cache.

use super::operand::Element;
use super::scratch::Panel;
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
/// From this many columns on, a `w` is wide.
const WIDE: usize = 256;
/// Columns whose sums are in the cache at a time.
const CHUNK: usize = 1024;
/// Steps of `k` that all columns of a wide `w` are visited for: their pages are at hand.
const STEPS: usize = 32;

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
    sums: &mut Panel,
) {
    for at in (0..w.columns).step_by(CHUNK) {
        let columns = CHUNK.min(w.columns - at);
        let w = Matrix { base: w.base.wrapping_add(at), columns, ..w };
        let sums = sums.zeros(x.rows * columns);
        // SAFETY: passed on to the caller; `sums` has the chunk's columns for each row.
        unsafe {
            rows(level, Part { k, x, w, sums, wide: columns >= WIDE });
            for row in 0..x.rows {
                for column in 0..columns {
                    *targets.at(row, at + column) += *sums.add(row * columns + column);
                }
            }
        }
    }
}

/// Adds the products of all rows to their sums.
///
/// # Safety
/// As [`multiply`]'s.
unsafe fn rows<E: Element>(level: Level, all: Part<E>) {
    // SAFETY: passed on to the caller.
    unsafe {
        if all.wide && all.x.rows <= 2 {
            return match all.x.rows {
                1 => lanes::run(level, Steps::<E, 1, 8>(all)),
                _ => lanes::run(level, Steps::<E, 2, 4>(all)),
            };
        }
        let steps = if all.wide { STEPS } else { all.k };
        for k in (0..all.k).step_by(steps) {
            let mut row = 0;
            while row < all.x.rows {
                let left = all.x.rows - row;
                let x = Few { base: all.x.base.wrapping_add(row * all.x.stride + k), ..all.x };
                let base = all.w.base.wrapping_offset(k as isize * all.w.stride);
                let part = Part {
                    k: steps.min(all.k - k),
                    x,
                    w: Matrix { base, ..all.w },
                    sums: all.sums.add(row * all.w.columns),
                    ..all
                };
                row += match left {
                    1 => lanes::run(level, Block::<E, 1, 8>(part)),
                    2 => lanes::run(level, Block::<E, 2, 4>(part)),
                    3 | 5 | 6 => lanes::run(level, Block::<E, 3, 4>(part)),
                    _ => lanes::run(level, Block::<E, 4, 3>(part)),
                };
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Part<E> {
    k: usize,
    x: Few,
    w: Matrix<E>,
    /// Sums of each row over the columns.
    sums: *mut f32,
    wide: bool,
}

/// `R` rows of `x`, `V` vectors of columns at a time, their sums in registers. Returns `R`.
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
    let mut w = part.w.base.wrapping_add(at);
    let ahead = if part.wide { (V * LANES) as isize } else { AHEAD * part.w.stride };
    let sums = part.sums.wrapping_add(at);
    // SAFETY: `x` has `k` elements a row; every `w[at.., k]`, and row of sums, has the chunk's columns.
    unsafe {
        let mut acc = [[L::splat(0.0); V]; R];
        for k in 0..part.k {
            let ahead = w.wrapping_offset(ahead).cast::<u8>();
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
                let xv = L::splat(*part.x.base.add(r * part.x.stride + k));
                for j in 0..V {
                    acc[r][j] = xv.mul_add(v[j], acc[r][j]);
                }
            }
            w = w.wrapping_offset(part.w.stride);
        }
        for r in 0..R {
            for j in 0..V {
                let sums = sums.wrapping_add(r * part.w.columns + j * LANES);
                if PARTIAL {
                    L::load_first(sums, count).add(acc[r][j]).store_first(sums, count);
                } else {
                    L::load(sums).add(acc[r][j]).store(sums);
                }
            }
        }
    }
}

/// `R` rows of `x` times all columns, `K` steps of `k` at a time, into rows of sums.
struct Steps<E, const R: usize, const K: usize>(Part<E>);

impl<E: Element, const R: usize, const K: usize> Work for Steps<E, R, K> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let part = self.0;
        let whole = part.k / K * K;
        // SAFETY: steps `k..k + K` are below `part.k`.
        unsafe {
            for k in (0..whole).step_by(K) {
                steps::<L, E, R, K>(&part, k);
            }
            for k in whole..part.k {
                steps::<L, E, R, 1>(&part, k);
            }
        }
    }
}

#[inline(always)]
unsafe fn steps<L: Lanes, E: Element, const R: usize, const K: usize>(part: &Part<E>, k: usize) {
    let (columns, sums) = (part.w.columns, part.sums);
    let w: [*const E; K] =
        std::array::from_fn(|i| part.w.base.wrapping_offset((k + i) as isize * part.w.stride));
    let next = K as isize * part.w.stride;
    // SAFETY: `x` has `k + K` elements a row; each step of `w` and row of sums has all columns.
    unsafe {
        let mut x = [[L::splat(0.0); K]; R];
        for r in 0..R {
            for i in 0..K {
                x[r][i] = L::splat(*part.x.base.add(r * part.x.stride + k + i));
            }
        }
        let whole = columns / LANES * LANES;
        for at in (0..whole).step_by(LANES) {
            if at * E::BYTES % 64 == 0 {
                for w in w {
                    L::prefetch(w.wrapping_offset(next).wrapping_add(at).cast());
                }
            }
            let mut acc = [L::splat(0.0); R];
            for r in 0..R {
                acc[r] = L::load(sums.add(r * columns + at));
            }
            for i in 0..K {
                let v: L = E::load(w[i].add(at));
                for r in 0..R {
                    acc[r] = x[r][i].mul_add(v, acc[r]);
                }
            }
            for r in 0..R {
                acc[r].store(sums.add(r * columns + at));
            }
        }
        for at in whole..columns {
            for r in 0..R {
                let sum = sums.add(r * columns + at);
                for i in 0..K {
                    *sum += *part.x.base.add(r * part.x.stride + k + i) * E::get(w[i].add(at));
                }
            }
        }
    }
}
