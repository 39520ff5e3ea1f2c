//! `x · wᵀ` for a few rows of `x` and a `w` whose rows are contiguous: `w` streams through once.

use super::operand::Element;
use super::small::{Few, Targets};
use crate::Level;
use crate::lanes::{self, LANES, Lanes, Work};

/// Rows of contiguous elements.
#[derive(Clone, Copy)]
pub(super) struct Matrix<E> {
    pub(super) base: *const E,
    pub(super) stride: isize,
    pub(super) rows: usize,
}

/// Rows of `x` that one pass over `w` serves.
const GROUP: usize = 6;
/// Rows of `w` that stay in the cache while several groups of `x` go over them.
const REUSED: usize = 24;
/// Bytes ahead of the reads that a row is asked for.
const AHEAD: usize = 1536;

/// Adds the product over `k` elements to `targets`.
///
/// # Safety
/// `x` and `w` have `k` elements in each row, `targets` the results' places; the machine has `level`.
pub(super) unsafe fn multiply<E: Element>(
    level: Level,
    k: usize,
    x: Few,
    w: Matrix<E>,
    targets: Targets,
) {
    let groups = x.rows.div_ceil(GROUP);
    let size = x.rows.div_ceil(groups.max(1));
    let step = if groups > 1 { REUSED } else { w.rows.max(1) };
    for first in (0..w.rows).step_by(step) {
        let last = w.rows.min(first + step);
        for row in (0..x.rows).step_by(size) {
            let part = Part { k, x, row, w, first, last, targets };
            // SAFETY: passed on to the caller.
            unsafe {
                match size.min(x.rows - row) {
                    1 => lanes::run(level, Single(part)),
                    2 => lanes::run(level, Block::<E, 2, 4>(part)),
                    3 => lanes::run(level, Block::<E, 3, 4>(part)),
                    4 => lanes::run(level, Block::<E, 4, 3>(part)),
                    5 => lanes::run(level, Block::<E, 5, 2>(part)),
                    _ => lanes::run(level, Block::<E, 6, 2>(part)),
                }
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Part<E> {
    k: usize,
    x: Few,
    row: usize,
    w: Matrix<E>,
    first: usize,
    last: usize,
    targets: Targets,
}

/// `R` rows of `x` from `row` on times rows `first..last` of `w`, `C` at a time.
struct Block<E, const R: usize, const C: usize>(Part<E>);

impl<E: Element, const R: usize, const C: usize> Work for Block<E, R, C> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let part = self.0;
        for at in (part.first..part.last).step_by(C) {
            // SAFETY: row `at` is below `last`.
            unsafe { several::<L, E, R, C>(&part, at) };
        }
    }
}

/// One row of `x` times rows of `w`, one after the other: a single stream of memory, which the processor
/// fetches ahead by itself as well.
struct Single<E>(Part<E>);

/// Vectors of a row that are summed apart, so that additions do not wait for each other.
const APART: usize = 4;
/// Bytes ahead of the reads that a single stream is asked for.
const STREAM_AHEAD: usize = 4096;

impl<E: Element> Work for Single<E> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let part = self.0;
        let x = part.x.base.wrapping_add(part.row * part.x.stride);
        let step = APART * LANES;
        let (k, whole) = (part.k, part.k / step * step);
        // Where rows follow each other, so does what is asked for.
        for row in part.first..part.last {
            let w = part.w.base.wrapping_offset(row as isize * part.w.stride);
            // SAFETY: rows of `x` and `w` have `k` elements; targets are the results' places.
            unsafe {
                let mut acc = [L::splat(0.0); APART];
                let mut i = 0;
                while i < whole {
                    // The processor fetches wide elements ahead fast enough by itself.
                    if E::BYTES < 4 {
                        L::prefetch(w.wrapping_add(i).cast::<u8>().wrapping_add(STREAM_AHEAD));
                    }
                    for u in 0..APART {
                        let at = i + u * LANES;
                        acc[u] = L::load(x.add(at)).mul_add(E::load(w.add(at)), acc[u]);
                    }
                    i += step;
                }
                while i + LANES <= k {
                    acc[0] = L::load(x.add(i)).mul_add(E::load(w.add(i)), acc[0]);
                    i += LANES;
                }
                if i < k {
                    let xv = L::load_first(x.add(i), k - i);
                    acc[1] = xv.mul_add(E::load_first(w.add(i), k - i), acc[1]);
                }
                let sum = acc[0].add(acc[1]).add(acc[2].add(acc[3])).sum();
                *part.targets.at(part.row, row) += sum;
            }
        }
    }
}

#[inline(always)]
unsafe fn several<L: Lanes, E: Element, const R: usize, const C: usize>(part: &Part<E>, at: usize) {
    let k = part.k;
    let x = part.x.base.wrapping_add(part.row * part.x.stride);
    // The last row stands in for those beyond it.
    let w: [*const E; C] = std::array::from_fn(|c| {
        let row = (at + c).min(part.last - 1);
        part.w.base.wrapping_offset(row as isize * part.w.stride)
    });
    let whole = k / LANES * LANES;
    // SAFETY: rows of `x` and `w` have `k` elements; targets are the results' places.
    unsafe {
        let mut acc = [[L::splat(0.0); C]; R];
        let line = 64 / E::BYTES;
        let lines = k / line * line;
        let mut i = 0;
        // After the last lines of these rows come the first ones of the next rows.
        let next = C as isize * part.w.stride - lines as isize;
        while i < lines {
            let ahead = i + AHEAD / E::BYTES;
            let ahead = ahead as isize + if ahead < lines { 0 } else { next };
            for c in 0..C {
                L::prefetch(w[c].wrapping_offset(ahead).cast());
            }
            for j in 0..line / LANES {
                accumulate(&mut acc, x, part.x.stride, &w, i + j * LANES);
            }
            i += line;
        }
        while i < whole {
            accumulate(&mut acc, x, part.x.stride, &w, i);
            i += LANES;
        }
        if whole < k {
            for r in 0..R {
                let xv = L::load_first(x.add(r * part.x.stride + whole), k - whole);
                for c in 0..C {
                    acc[r][c] = xv.mul_add(E::load_first(w[c].add(whole), k - whole), acc[r][c]);
                }
            }
        }
        for r in 0..R {
            for c in 0..C {
                if at + c < part.last {
                    *part.targets.at(part.row + r, at + c) += acc[r][c].sum();
                }
            }
        }
    }
}

/// Eight elements from `i` on of every row, into the sums.
#[inline(always)]
unsafe fn accumulate<L: Lanes, E: Element, const R: usize, const C: usize>(
    acc: &mut [[L; C]; R],
    x: *const f32,
    x_stride: usize,
    w: &[*const E; C],
    i: usize,
) {
    // SAFETY: rows of `x` and `w` have 8 elements from `i` on.
    unsafe {
        let mut v = [L::splat(0.0); C];
        for c in 0..C {
            v[c] = E::load(w[c].add(i));
        }
        for r in 0..R {
            let xv = L::load(x.add(r * x_stride + i));
            for c in 0..C {
                acc[r][c] = xv.mul_add(v[c], acc[r][c]);
            }
        }
    }
}
