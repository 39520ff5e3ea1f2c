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
        let whole = self.depth / LANES * LANES;
        // SAFETY: valid rows have `depth` elements; panels are `depth` by `W` and a vector more.
        unsafe {
            for panel in (0..self.count).step_by(W) {
                let to = self.to.add(panel * self.depth);
                for k in (0..whole).step_by(LANES) {
                    for half in (0..W).step_by(LANES) {
                        let v = self.square::<L>(panel + half, W - half, k, LANES);
                        store(v, to.add(k * W + half), W, LANES);
                    }
                }
                if whole < self.depth {
                    for half in (0..W).step_by(LANES) {
                        let v = self.square::<L>(panel + half, W - half, whole, self.depth - whole);
                        store(v, to.add(whole * W + half), W, self.depth - whole);
                    }
                }
            }
        }
    }
}

impl<E: Element, const W: usize> Along<E, W> {
    /// Eight rows from `row` on (`wanted` of them in the panel), elements `k..k + count`, transposed.
    #[inline(always)]
    unsafe fn square<L: Lanes>(
        &self,
        row: usize,
        wanted: usize,
        k: usize,
        count: usize,
    ) -> [L; LANES] {
        let present = self.valid.saturating_sub(row).min(wanted);
        // SAFETY: only valid rows and elements are read.
        unsafe {
            let mut v = [L::splat(0.0); LANES];
            for (i, v) in v.iter_mut().enumerate() {
                if i < present {
                    let p =
                        self.from.wrapping_offset((row + i) as isize * self.stride).wrapping_add(k);
                    *v = if count == LANES { E::load(p) } else { E::load_first(p, count) };
                }
            }
            L::transpose(v)
        }
    }
}

/// The first `count` vectors, `stride` apart, in ascending order.
#[inline(always)]
unsafe fn store<L: Lanes>(v: [L; LANES], to: *mut f32, stride: usize, count: usize) {
    for (i, v) in v.into_iter().enumerate() {
        if i < count {
            // SAFETY: passed on to the caller.
            unsafe { v.store(to.add(i * stride)) };
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

impl<E: Element, const W: usize> Work for Across<E, W> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        // SAFETY: valid rows have `depth` elements; panels are `depth` by `W` and a vector more.
        unsafe {
            for panel in (0..self.count).step_by(W) {
                let to = self.to.add(panel * self.depth);
                let present = self.valid.saturating_sub(panel).min(W);
                for k in 0..self.depth {
                    let from =
                        self.from.wrapping_offset(k as isize * self.stride).wrapping_add(panel);
                    for half in (0..W).step_by(LANES) {
                        let there = present.saturating_sub(half);
                        let v: L = if there >= LANES {
                            E::load(from.wrapping_add(half))
                        } else {
                            E::load_first(from.wrapping_add(half), there)
                        };
                        v.store(to.add(k * W + half));
                    }
                }
            }
        }
    }
}
