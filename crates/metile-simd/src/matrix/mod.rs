//! Matrix products over strided, half-precision and packed operands.
//!
//! [`dot`] picks the form by shape and layout: blocked panels where both factors have many rows
//! (`gemm`); else the large factor is read once, straight from memory, along its rows (`rows`), across
//! them (`columns`), or decoded as it comes (`packed`).

mod bf16_rows;
mod columns;
mod gemm;
mod integers;
mod operand;
mod packed;
mod rows;
mod scratch;
mod small;

pub use integers::{Bytes, dot_i8};
pub use operand::{Operand, Source};
pub use scratch::Scratch;

use crate::Level;
use metile_ir::DType;

/// From this many rows on, both factors are packed into panels.
const PANEL_ROWS: usize = 12;
/// The same where the large factor need not be packed otherwise and sums are long.
const LONG_PANEL_ROWS: usize = 36;
/// Sums that are long.
const LONG: usize = 256;

/// Where results are added.
#[derive(Clone, Copy)]
struct Out {
    base: *mut f32,
    row: isize,
    column: isize,
}

impl Out {
    /// The element `[i, j]`.
    #[inline(always)]
    fn at(self, i: usize, j: usize) -> *mut f32 {
        self.base.wrapping_offset(i as isize * self.row + j as isize * self.column)
    }

    /// The same elements with rows and columns exchanged.
    fn transposed(self) -> Out {
        Out { base: self.base, row: self.column, column: self.row }
    }
}

/// `acc[i, j] += Σ_k a[i, k] · b[j, k]` for `i < m`, `j < n`, summed over `k` in `f32`, fused or not, in
/// an order that depends on shapes and layouts only. Row `i` of `acc` begins at `i · acc_stride`.
///
/// Elements beyond an operand's valid extents are zeros and take part as such: an infinity in `b` makes
/// the products of `a`'s zero rows NaN.
///
/// # Safety
/// The machine has `level`. The operands' valid elements (for packed ones, the blocks they are in) may
/// be read, `acc[0..m, 0..n]` read and written, and they do not overlap.
///
/// # Panics
/// If a plain operand is not of `F32`, `F16` or `BF16`.
#[allow(clippy::too_many_arguments)]
pub unsafe fn dot(
    level: Level,
    m: usize,
    n: usize,
    k: usize,
    a: &Operand,
    b: &Operand,
    acc: *mut f32,
    acc_stride: usize,
    scratch: &mut Scratch,
) {
    if m == 0 || n == 0 {
        return;
    }
    let cut = |o: &Operand, rows: usize| {
        let (valid_rows, valid_k) = (o.valid_rows.min(rows), o.valid_k.min(k));
        // An operand without elements has neither rows nor columns to visit.
        Operand { valid_rows, valid_k, ..*o }
    };
    let (a, b) = (cut(a, m), cut(b, n));
    let shared = a.valid_k.min(b.valid_k);
    let out = Out { base: acc, row: acc_stride as isize, column: 1 };
    // SAFETY: `shared` is valid in both; `out` has m by n elements.
    unsafe {
        let bf16 =
            |o: &Operand| matches!(o.source, Source::Plain { dtype: DType::BF16, k_stride: 1, .. });
        // Whatever its rows are beside, each of them meets weights in bfloat16 in one order.
        let one_order = bf16(&b) && !bf16(&a) && a.valid_rows < LONG_PANEL_ROWS;
        let a_first = a.valid_rows <= b.valid_rows || one_order;
        let (few, many) = if a_first { (&a, &b) } else { (&b, &a) };
        let along = !matches!(many.source, Source::Plain { k_stride, .. } if k_stride != 1);
        let least = if along && shared >= LONG { LONG_PANEL_ROWS } else { PANEL_ROWS };
        let small = one_order || few.valid_rows < least;
        if shared > 0 && a.valid_rows.max(b.valid_rows) > 0 {
            if !small {
                gemm::accumulate(level, [m, n], shared, &a, &b, out, scratch);
            } else if a_first {
                small::accumulate(level, [m, n], shared, &a, &b, out, scratch);
            } else {
                small::accumulate(level, [n, m], shared, &b, &a, out.transposed(), scratch);
            }
        }
        times_zeros(level, &a, shared, n, out, scratch);
        times_zeros(level, &b, shared, m, out.transposed(), scratch);
    }
}

/// Elements of `o` from `first` on meet zeros in all `columns` of the other factor.
///
/// # Safety
/// As [`dot`]'s, `out` having `o`'s rows by `columns`.
unsafe fn times_zeros(
    level: Level,
    o: &Operand,
    first: usize,
    columns: usize,
    out: Out,
    scratch: &mut Scratch,
) {
    const CHUNK: usize = 1024;
    if first >= o.valid_k {
        return;
    }
    for row in 0..o.valid_rows {
        let mut sum = 0.0;
        for at in (first..o.valid_k).step_by(CHUNK) {
            let len = CHUNK.min(o.valid_k - at);
            let values = scratch.strip.floats(CHUNK);
            // SAFETY: valid elements of `o`; the strip holds a chunk.
            sum += unsafe {
                o.gather(level, row, at, len, values);
                std::slice::from_raw_parts(values, len).iter().map(|x| x * 0.0).sum::<f32>()
            };
        }
        if sum.is_nan() {
            for column in 0..columns {
                // SAFETY: an element of `out`.
                unsafe { *out.at(row, column) = f32::NAN };
            }
        }
    }
}
