//! Products of signed bytes, summed in wrapping `i32`.

/// A factor of signed bytes; as [`super::Operand`] with a plain source.
#[derive(Clone, Copy, Debug)]
pub struct Bytes {
    /// The element `[0, 0]`.
    pub base: *const i8,
    /// Elements from one row to the next; any sign, or 0.
    pub row_stride: isize,
    /// Elements from one `k` to the next; any sign, or 0.
    pub k_stride: isize,
    /// Rows in memory.
    pub valid_rows: usize,
    /// Elements of each row in memory.
    pub valid_k: usize,
}

/// Elements of a row that are copied at a time where they are not contiguous.
const CHUNK: usize = 256;

/// `acc[i, j] += Σ_k a[i, k] · b[j, k]`, wrapping. Elements beyond the valid extents are zeros.
///
/// # Safety
/// The operands' valid elements may be read, `acc[0..m, 0..n]` read and written, and they do not overlap.
pub unsafe fn dot_i8(
    m: usize,
    n: usize,
    k: usize,
    a: &Bytes,
    b: &Bytes,
    acc: *mut i32,
    acc_stride: usize,
) {
    let (rows, columns) = (a.valid_rows.min(m), b.valid_rows.min(n));
    let shared = a.valid_k.min(b.valid_k).min(k);
    let (mut left, mut right) = ([0; CHUNK], [0; CHUNK]);
    for at in (0..shared).step_by(CHUNK) {
        let len = CHUNK.min(shared - at);
        for j in 0..columns {
            // SAFETY: valid elements of both; `[i, j]` is in `acc`.
            unsafe {
                let right = row(b, j, at, &mut right[..len]);
                for i in 0..rows {
                    let left = row(a, i, at, &mut left[..len]);
                    let sum = left
                        .iter()
                        .zip(right)
                        .fold(0i32, |sum, (&x, &y)| sum.wrapping_add(i32::from(x) * i32::from(y)));
                    let to = acc.add(i * acc_stride + j);
                    *to = (*to).wrapping_add(sum);
                }
            }
        }
    }
}

/// Elements from `at` on of a row, in place if they are contiguous.
///
/// # Safety
/// They are valid.
unsafe fn row<'a>(o: &Bytes, row: usize, at: usize, copy: &'a mut [i8]) -> &'a [i8] {
    let start = o.base.wrapping_offset(row as isize * o.row_stride + at as isize * o.k_stride);
    // SAFETY: `copy.len()` elements from `start` on, `k_stride` apart, are valid.
    unsafe {
        if o.k_stride == 1 {
            return std::slice::from_raw_parts(start, copy.len());
        }
        for (i, x) in copy.iter_mut().enumerate() {
            *x = *start.wrapping_offset(i as isize * o.k_stride);
        }
    }
    copy
}
