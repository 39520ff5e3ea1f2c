//! Products in which one factor, `x`, has few rows: the other, `w`, is read once.

use super::operand::{Element, with_element};
use super::{Operand, Out, Scratch, Source, bf16_rows, columns, packed, rows};
use crate::Level;
use crate::lanes::{self, LANES, Lanes, Work};
use metile_ir::DType;

/// Rows of `w` that are widened at a time where no kernel reads them in place, and elements of each.
/// They fill most of the first-level cache.
const STRIP_ROWS: usize = 12;
const STRIP_K: usize = 512;

/// The few rows as contiguous `f32`.
#[derive(Clone, Copy)]
pub(super) struct Few {
    pub(super) base: *const f32,
    pub(super) stride: usize,
    pub(super) rows: usize,
}

/// Adds `x · wᵀ` over `k < shared` to `out[0..m, 0..n]`; rows beyond the valid ones are zeros.
///
/// # Safety
/// As [`super::dot`]'s; `shared` elements are valid in both operands.
pub(super) unsafe fn accumulate(
    level: Level,
    [m, n]: [usize; 2],
    shared: usize,
    x: &Operand,
    w: &Operand,
    out: Out,
    scratch: &mut Scratch,
) {
    // One row of zeros stands for all that are out of shape.
    let zero_row = x.valid_rows < m;
    // SAFETY: passed on to the caller.
    unsafe {
        let zero_out = Out { base: scratch.edge.zeros(n), row: 0, column: 1 };
        let targets = Targets { rows: out, valid: x.valid_rows, zero_row, zeros: zero_out };
        let fused = packed::multiply(level, shared, x, w, targets, scratch);
        if !fused {
            plain(level, shared, x, w, targets, scratch);
        }
        if zero_row {
            spread(zero_out, w.valid_rows, x.valid_rows..m, out);
        }
        if w.valid_rows < n {
            for row in 0..x.valid_rows {
                if meets_zeros(level, x, row, shared, scratch) {
                    for column in w.valid_rows..n {
                        *out.at(row, column) += f32::NAN;
                    }
                }
            }
        }
    }
}

/// Where the results of the few rows, and of the row of zeros after them, go.
#[derive(Clone, Copy)]
pub(super) struct Targets {
    rows: Out,
    valid: usize,
    zero_row: bool,
    zeros: Out,
}

impl Targets {
    /// Rows to compute, the one of zeros included.
    pub(super) fn count(self) -> usize {
        self.valid + usize::from(self.zero_row)
    }

    /// Where the result `[i, j]` is added.
    #[inline(always)]
    pub(super) fn at(self, i: usize, j: usize) -> *mut f32 {
        if i < self.valid { self.rows.at(i, j) } else { self.zeros.at(0, j) }
    }
}

/// Adds NaN to column `j` of `rows` where `zeros[0, j]` is NaN.
///
/// # Safety
/// `zeros` has a row, and `out` these rows, of `columns` elements.
unsafe fn spread(zeros: Out, columns: usize, rows: std::ops::Range<usize>, out: Out) {
    for j in 0..columns {
        // SAFETY: elements of `zeros` and `out`.
        unsafe {
            if (*zeros.at(0, j)).is_nan() {
                for i in rows.clone() {
                    *out.at(i, j) = f32::NAN;
                }
            }
        }
    }
}

/// Whether `row` of `x` times zeros is NaN.
unsafe fn meets_zeros(
    level: Level,
    x: &Operand,
    row: usize,
    shared: usize,
    scratch: &mut Scratch,
) -> bool {
    (0..shared).step_by(STRIP_K).any(|at| {
        let len = STRIP_K.min(shared - at);
        let values = scratch.strip.floats(STRIP_K);
        // SAFETY: valid elements of `x`; the strip holds them.
        unsafe {
            x.gather(level, row, at, len, values);
            std::slice::from_raw_parts(values, len).iter().fold(0.0f32, |s, v| s + v * 0.0).is_nan()
        }
    })
}

/// The rows of `x` as contiguous `f32`, in place where they already are, a row of zeros last if
/// `targets` wants one.
///
/// # Safety
/// As [`super::dot`]'s.
pub(super) unsafe fn few(
    level: Level,
    shared: usize,
    x: &Operand,
    targets: Targets,
    scratch: &mut Scratch,
) -> Few {
    let rows = targets.count();
    if let Source::Plain { dtype: DType::F32, base, row_stride, k_stride: 1 } = x.source
        && !targets.zero_row
        && (row_stride >= 0 || rows == 1)
        && base.cast::<f32>().is_aligned()
    {
        return Few { base: base.cast(), stride: row_stride.max(0) as usize, rows };
    }
    let stride = shared.next_multiple_of(LANES);
    let base = scratch.x.floats(rows * stride);
    for row in 0..rows {
        // SAFETY: valid elements of `x`; `base` has `rows` rows of `stride`.
        unsafe {
            let to = base.add(row * stride);
            if row < x.valid_rows {
                x.gather(level, row, 0, shared, to);
            } else {
                std::ptr::write_bytes(to, 0, shared);
            }
        }
    }
    Few { base, stride, rows }
}

/// The product where `w` is not packed, or has no kernel for its packing.
///
/// # Safety
/// As [`super::dot`]'s.
unsafe fn plain(
    level: Level,
    shared: usize,
    x: &Operand,
    w: &Operand,
    targets: Targets,
    scratch: &mut Scratch,
) {
    // SAFETY: passed on to the caller.
    unsafe {
        let x = few(level, shared, x, targets, scratch);
        if let Source::Plain { dtype, base, row_stride, k_stride } = w.source {
            if k_stride == 1 && dtype == DType::BF16 {
                let w = rows::Matrix { base: base.cast(), stride: row_stride, rows: w.valid_rows };
                bf16_rows::multiply(level, shared, x, w, targets, &mut scratch.y);
                return;
            }
            if k_stride == 1 {
                with_element!(dtype, E => {
                    let w = rows::Matrix { base: base.cast::<E>(), stride: row_stride, rows: w.valid_rows };
                    rows::multiply(level, shared, x, w, targets);
                });
                return;
            }
            if row_stride == 1 {
                with_element!(dtype, E => {
                    let w = columns::Matrix { base: base.cast::<E>(), stride: k_stride, columns: w.valid_rows };
                    columns::multiply(level, shared, x, w, targets, &mut scratch.y);
                });
                return;
            }
        }
        for at in (0..shared).step_by(STRIP_K) {
            let len = STRIP_K.min(shared - at);
            for first in (0..w.valid_rows).step_by(STRIP_ROWS) {
                let count = STRIP_ROWS.min(w.valid_rows - first);
                let strip = scratch.strip.floats(STRIP_ROWS * STRIP_K);
                for row in 0..count {
                    w.gather(level, first + row, at, len, strip.add(row * STRIP_K));
                }
                let part = Few { base: x.base.wrapping_add(at), ..x };
                let w = rows::Matrix {
                    base: strip.cast_const(),
                    stride: STRIP_K as isize,
                    rows: count,
                };
                let targets = Targets {
                    rows: Out { base: targets.rows.at(0, first), ..targets.rows },
                    zeros: Out { base: targets.zeros.at(0, first), ..targets.zeros },
                    ..targets
                };
                rows::multiply(level, len, part, w, targets);
            }
        }
    }
}

/// The exact product of one row of `x` and one of `w`, element by element.
///
/// # Safety
/// As [`super::dot`]'s.
pub(super) unsafe fn one(
    level: Level,
    shared: usize,
    x: (&Operand, usize),
    w: (&Operand, usize),
    scratch: &mut Scratch,
) -> f32 {
    let mut sum = 0.0;
    for at in (0..shared).step_by(STRIP_K) {
        let len = STRIP_K.min(shared - at);
        let left = scratch.strip.floats(2 * STRIP_K);
        // SAFETY: valid elements of both; the strip holds two chunks.
        unsafe {
            let right = left.add(STRIP_K);
            if x.1 < x.0.valid_rows {
                x.0.gather(level, x.1, at, len, left);
            } else {
                std::ptr::write_bytes(left, 0, len);
            }
            w.0.gather(level, w.1, at, len, right);
            sum += lanes::run(level, Single { len, left, right });
        }
    }
    sum
}

/// `Σ left · right`.
struct Single {
    len: usize,
    left: *const f32,
    right: *const f32,
}

impl Work for Single {
    type Output = f32;
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) -> f32 {
        // SAFETY: both have `len` elements.
        unsafe {
            let mut sum = L::splat(0.0);
            let whole = self.len / LANES * LANES;
            for at in (0..whole).step_by(LANES) {
                sum = f32::load::<L>(self.left.add(at)).mul_add(f32::load(self.right.add(at)), sum);
            }
            if whole < self.len {
                let left: L = f32::load_first(self.left.add(whole), self.len - whole);
                sum = left.mul_add(f32::load_first(self.right.add(whole), self.len - whole), sum);
            }
            sum.sum()
        }
    }
}
