//! Packing: `[rows, k]` becomes panels of `W` rows, `k` outermost in each, zeros beyond valid rows.

use super::super::operand::{Element, Operand, Source, with_element};
use super::super::scratch::Panel;
use crate::Level;
use crate::lanes::{self, LANES, Lanes, Work};

/// Packs rows `first..first + count`, elements `k..k + depth`; returns the panels.
///
/// # Safety
/// Elements `k..k + depth` of the operand's valid rows are valid; the machine has `level`.
pub(super) unsafe fn panels<const W: usize>(
    level: Level,
    o: &Operand,
    [first, count]: [usize; 2],
    [k, depth]: [usize; 2],
    to: &mut Panel,
    strip: &mut Panel,
) -> *const f32 {
    // Panels are written in whole vectors, so the last one reaches past its end.
    let base = to.floats(count.next_multiple_of(W) * depth + LANES);
    let valid = o.valid_rows.saturating_sub(first).min(count);
    // SAFETY: valid elements are read, and `base` holds the panels.
    unsafe {
        match o.source {
            Source::Plain { dtype, base: from, row_stride, k_stride }
                if k_stride == 1 || row_stride == 1 =>
            {
                with_element!(dtype, E => {
                    let from = from
                        .cast::<E>()
                        .wrapping_offset(first as isize * row_stride + k as isize * k_stride);
                    if k_stride == 1 {
                        lanes::run(level, Along::<E, W> { from, stride: row_stride, valid, count, depth, to: base });
                    } else {
                        lanes::run(level, Across::<E, W> { from, stride: k_stride, valid, count, depth, to: base });
                    }
                });
            }
            _ => {
                let stride = depth.next_multiple_of(LANES);
                let rows = strip.floats(W * stride);
                for at in (0..count).step_by(W) {
                    let valid = valid.saturating_sub(at).min(W);
                    for row in 0..valid {
                        o.gather(level, first + at + row, k, depth, rows.add(row * stride));
                    }
                    let to = base.add(at * depth);
                    let from = rows.cast_const();
                    let stride = stride as isize;
                    lanes::run(level, Along::<f32, W> { from, stride, valid, count: W, depth, to });
                }
            }
        }
    }
    base
}

/// Rows contiguous along `k`: transposed eight by eight.
struct Along<E, const W: usize> {
    from: *const E,
    stride: isize,
    valid: usize,
    count: usize,
    depth: usize,
    to: *mut f32,
}

impl<E: Element, const W: usize> Work for Along<E, W> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        // SAFETY: valid rows have `depth` elements; panels are `depth` by `W` and a vector more.
        unsafe {
            for panel in (0..self.count).step_by(W) {
                let to = self.to.add(panel * self.depth);
                if W == LANES - 2 {
                    // Vectors reach into the next step, so steps go in ascending order.
                    self.rows::<L, 6>(panel, 0, self.depth, to);
                } else {
                    // A cache line of each row at a time: rows a power of two apart share the cache's
                    // sets, and a line would be gone before its second half is wanted.
                    for k in (0..self.depth).step_by(LINE) {
                        let end = self.depth.min(k + LINE);
                        for half in (0..W).step_by(LANES) {
                            self.rows::<L, LANES>(panel + half, k, end, to.add(half));
                        }
                    }
                }
            }
        }
    }
}

/// Elements of an `f32` cache line.
const LINE: usize = 16;

impl<E: Element, const W: usize> Along<E, W> {
    /// `H` rows from `row` on, elements `k..end`, to the steps of a panel that begins at `to`.
    #[inline(always)]
    unsafe fn rows<L: Lanes, const H: usize>(
        &self,
        row: usize,
        k: usize,
        end: usize,
        to: *mut f32,
    ) {
        let present = self.valid.saturating_sub(row).min(H);
        let start: [*const E; H] =
            std::array::from_fn(|i| self.from.wrapping_offset((row + i) as isize * self.stride));
        let whole = k + (end - k) / LANES * LANES;
        // SAFETY: only valid rows and elements are read, and the panel has these steps.
        unsafe {
            for k in (k..whole).step_by(LANES) {
                let mut v = [L::splat(0.0); LANES];
                if present == H {
                    for i in 0..H {
                        v[i] = E::load(start[i].add(k));
                    }
                } else {
                    for i in 0..present {
                        v[i] = E::load(start[i].add(k));
                    }
                }
                let v = L::transpose(v);
                for (i, v) in v.into_iter().enumerate() {
                    v.store(to.add((k + i) * W));
                }
            }
            if whole < end {
                let mut v = [L::splat(0.0); LANES];
                for i in 0..present {
                    v[i] = E::load_first(start[i].add(whole), end - whole);
                }
                let v = L::transpose(v);
                for i in 0..end - whole {
                    v[i].store(to.add((whole + i) * W));
                }
            }
        }
    }
}

/// Columns contiguous along the rows: copied step by step.
struct Across<E, const W: usize> {
    from: *const E,
    stride: isize,
    valid: usize,
    count: usize,
    depth: usize,
    to: *mut f32,
}

/// Panels that are filled together, so that a step reads several lines of its page.
const TOGETHER: usize = 4;
/// Steps ahead of the reads that lines are asked for.
const AHEAD: isize = 8;

impl<E: Element, const W: usize> Work for Across<E, W> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        for panels in (0..self.count).step_by(TOGETHER * W) {
            let end = self.count.min(panels + TOGETHER * W);
            for k in 0..self.depth {
                let from = self.from.wrapping_offset(k as isize * self.stride);
                let ahead = from.wrapping_offset(AHEAD * self.stride);
                for panel in (panels..end).step_by(W) {
                    L::prefetch(ahead.wrapping_add(panel).cast());
                    let present = self.valid.saturating_sub(panel).min(W);
                    // SAFETY: valid rows have `depth` elements; panels are `depth` by `W` and a vector
                    // more.
                    unsafe {
                        let to = self.to.add(panel * self.depth + k * W);
                        step::<L, E, W>(from.wrapping_add(panel), present, to);
                    }
                }
            }
            if W < LANES {
                // Vectors reached into the panels after, whose first step is written again.
                for panel in (panels..end).step_by(W).skip(1) {
                    let present = self.valid.saturating_sub(panel).min(W);
                    let mut first = [0.0f32; W];
                    for (i, x) in first.iter_mut().enumerate().take(present) {
                        // SAFETY: a valid element.
                        *x = unsafe { E::get(self.from.wrapping_add(panel + i)) };
                    }
                    // SAFETY: the panel's first step.
                    unsafe {
                        self.to.add(panel * self.depth).cast::<[f32; W]>().write_unaligned(first);
                    }
                }
            }
        }
    }
}

/// One step of a panel, `present` elements and zeros.
#[inline(always)]
unsafe fn step<L: Lanes, E: Element, const W: usize>(from: *const E, present: usize, to: *mut f32) {
    for half in (0..W).step_by(LANES) {
        let there = present.saturating_sub(half);
        // SAFETY: `present` elements are valid; the panel has the step and a vector more.
        unsafe {
            let v: L = if there >= LANES {
                E::load(from.wrapping_add(half))
            } else {
                E::load_first(from.wrapping_add(half), there)
            };
            v.store(to.add(half));
        }
    }
}
