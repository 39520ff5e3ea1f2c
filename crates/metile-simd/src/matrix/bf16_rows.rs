//! `x · wᵀ` for a few rows of `x` and a `w` of contiguous rows of bfloat16, the results of a row being the same bits whichever rows are
//! beside it.
//!
//! Pairs of elements widen where they are: the high half of a word is the odd element, shifted up the low half is the even one. So rows of
//! `x` are arranged beforehand, 16 elements at a time, the even ones first.

use super::rows::Matrix;
use super::scratch::Panel;
use super::small::{Few, Targets};
use crate::Level;
use crate::lanes::{self, LANES, Lanes, Words, Work};
use half::bf16;

/// Elements that are widened at once.
const UNIT: usize = 2 * LANES;
/// Rows of `x` that one pass over `w` serves.
const GROUP: usize = 3;
/// Rows of `w` at a time, where several rows of `x` meet them.
const COLUMNS: usize = 2;
/// Rows of `w` that stay in the cache while several groups of `x` go over them.
const REUSED: usize = 24;
/// Bytes ahead of the reads that rows are asked for.
const AHEAD: usize = 4096;

/// Adds the product over `k` elements to `targets`.
///
/// # Safety
/// `x` and `w` have `k` elements in each row, `targets` the results' places; the machine has `level`.
pub(super) unsafe fn multiply(
    level: Level,
    k: usize,
    x: Few,
    w: Matrix<bf16>,
    targets: Targets,
    arranged: &mut Panel,
) {
    let stride = k.next_multiple_of(UNIT);
    let base = arranged.floats(x.rows * stride);
    let step = if x.rows > GROUP { REUSED } else { w.rows.max(1) };
    let part =
        Part { k, x: Few { base, stride, rows: x.rows }, w, row: 0, first: 0, last: 0, targets };
    // SAFETY: passed on to the caller; `base` has `rows` rows of `stride`.
    unsafe {
        lanes::run(level, Arrange { k, from: x, to: base, stride });
        for first in (0..w.rows).step_by(step) {
            let last = w.rows.min(first + step);
            for row in (0..x.rows).step_by(GROUP) {
                let part = Part { row, first, last, ..part };
                match x.rows - row {
                    1 => lanes::run(level, Block::<1, 1>(part)),
                    2 => lanes::run(level, Block::<2, COLUMNS>(part)),
                    _ => lanes::run(level, Block::<GROUP, COLUMNS>(part)),
                }
            }
        }
    }
}

/// Writes rows as the kernel reads them, zeros up to a whole unit.
struct Arrange {
    k: usize,
    from: Few,
    to: *mut f32,
    stride: usize,
}

impl Work for Arrange {
    type Output = ();
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        for row in 0..self.from.rows {
            let from = self.from.base.wrapping_add(row * self.from.stride);
            let to = self.to.wrapping_add(row * self.stride);
            let whole = self.k / UNIT * UNIT;
            // SAFETY: rows have `k` elements, and room for whole units.
            unsafe {
                for at in (0..whole).step_by(UNIT) {
                    let from = from.add(at).cast::<[[f32; 2]; LANES]>().read_unaligned();
                    to.add(at).cast::<[f32; LANES]>().write_unaligned(from.map(|pair| pair[0]));
                    to.add(at + LANES)
                        .cast::<[f32; LANES]>()
                        .write_unaligned(from.map(|pair| pair[1]));
                }
                if whole < self.k {
                    std::ptr::write_bytes(to.add(whole), 0, UNIT);
                    for i in 0..self.k - whole {
                        *to.add(whole + i / 2 + i % 2 * LANES) = *from.add(whole + i);
                    }
                }
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Part {
    k: usize,
    x: Few,
    w: Matrix<bf16>,
    row: usize,
    first: usize,
    last: usize,
    targets: Targets,
}

/// `R` rows of `x` from `row` on times rows `first..last` of `w`, `C` at a time.
struct Block<const R: usize, const C: usize>(Part);

impl<const R: usize, const C: usize> Work for Block<R, C> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        for at in (self.0.first..self.0.last).step_by(C) {
            // SAFETY: row `at` is below `last`.
            unsafe { several::<L, R, C>(&self.0, at) };
        }
    }
}

#[inline(always)]
unsafe fn several<L: Lanes, const R: usize, const C: usize>(part: &Part, at: usize) {
    // The last row stands in for those beyond it.
    let w: [*const bf16; C] = std::array::from_fn(|c| {
        let row = (at + c).min(part.last - 1);
        part.w.base.wrapping_offset(row as isize * part.w.stride)
    });
    let x = part.x.base.wrapping_add(part.row * part.x.stride);
    let whole = part.k / UNIT * UNIT;
    // SAFETY: rows of `x` have whole units and rows of `w` `k` elements; targets are the results' places.
    unsafe {
        let mut sums = [[[L::splat(0.0); 2]; C]; R];
        let mut i = 0;
        while i + 2 * UNIT <= whole {
            for w in w {
                L::prefetch(w.wrapping_add(i).cast::<u8>().wrapping_add(AHEAD));
            }
            unit::<L, R, C>(&mut sums, (x, part.x.stride), w.map(|w| w.add(i).cast()), i);
            i += UNIT;
            unit::<L, R, C>(&mut sums, (x, part.x.stride), w.map(|w| w.add(i).cast()), i);
            i += UNIT;
        }
        if i < whole {
            unit::<L, R, C>(&mut sums, (x, part.x.stride), w.map(|w| w.add(i).cast()), i);
            i += UNIT;
        }
        if i < part.k {
            let mut rest = [[0u16; UNIT]; C];
            for c in 0..C {
                for (n, to) in rest[c][..part.k - i].iter_mut().enumerate() {
                    *to = w[c].add(i + n).cast::<u16>().read_unaligned();
                }
            }
            let rest: [*const u8; C] = std::array::from_fn(|c| rest[c].as_ptr().cast());
            unit::<L, R, C>(&mut sums, (x, part.x.stride), rest, i);
        }
        for r in 0..R {
            for c in 0..C {
                if at + c < part.last {
                    let [even, odd] = sums[r][c];
                    *part.targets.at(part.row + r, at + c) += even.add(odd).sum();
                }
            }
        }
    }
}

/// Adds the products of a unit, elements `i` and up of each row of `x`.
#[inline(always)]
unsafe fn unit<L: Lanes, const R: usize, const C: usize>(
    sums: &mut [[[L; 2]; C]; R],
    (x, stride): (*const f32, usize),
    w: [*const u8; C],
    i: usize,
) {
    // SAFETY: both have a unit.
    unsafe {
        let mut pairs = [[L::splat(0.0); 2]; C];
        for c in 0..C {
            let words = L::Words::load(w[c]);
            let odd = words.and(L::Words::splat(0xffff_0000)).as_floats();
            pairs[c] = [words.shl::<16>().as_floats(), odd];
        }
        for r in 0..R {
            for half in 0..2 {
                let x = L::load(x.add(r * stride + i + half * LANES));
                for c in 0..C {
                    sums[r][c][half] = x.mul_add(pairs[c][half], sums[r][c][half]);
                }
            }
        }
    }
}
