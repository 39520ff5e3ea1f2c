//! The register kernel: 6 by 16 sums, twelve vectors.

use super::{Edge, Out};
use crate::lanes::{LANES, Lanes, Work};

/// Rows of `a` in a panel.
pub(super) const ROWS: usize = 6;
/// Rows of `b` in a panel.
pub(super) const COLUMNS: usize = 16;
/// Floats ahead of its reads that a panel of `a`, which comes from the second-level cache, is asked for.
const AHEAD: usize = 32 * ROWS;
const VECTORS: usize = COLUMNS / LANES;

/// Packed panels of `a` times packed panels of `b`, added from `out[at]` on.
pub(super) struct Block {
    pub(super) depth: usize,
    pub(super) a: *const f32,
    pub(super) b: *const f32,
    pub(super) at: [usize; 2],
    pub(super) size: [usize; 2],
    pub(super) out: Out,
    pub(super) edge: Edge,
}

impl Work for Block {
    type Output = ();
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let [height, width] = self.size;
        for j in (0..width).step_by(COLUMNS) {
            let b = self.b.wrapping_add(j * self.depth);
            for i in (0..height).step_by(ROWS) {
                let a = self.a.wrapping_add(i * self.depth);
                let [row, column] = [self.at[0] + i, self.at[1] + j];
                let inside =
                    row + ROWS <= self.edge.valid[0] && column + COLUMNS <= self.edge.valid[1];
                // SAFETY: panels have `depth` steps; the results are in `out` or its edge.
                unsafe {
                    if inside {
                        let out = self.out.at(row, column);
                        for r in 0..ROWS {
                            let line = out.wrapping_offset(r as isize * self.out.row).cast::<u8>();
                            L::prefetch(line);
                            L::prefetch(line.wrapping_add(60));
                        }
                        let sums = tile::<L>(self.depth, a, b);
                        for (r, sums) in sums.iter().enumerate() {
                            let out = out.wrapping_offset(r as isize * self.out.row);
                            for (v, sum) in sums.iter().enumerate() {
                                let out = out.add(v * LANES);
                                L::load(out).add(*sum).store(out);
                            }
                        }
                    } else {
                        let sums = tile::<L>(self.depth, a, b);
                        self.scatter(row, column, sums.map(|s| s.map(L::to_array)));
                    }
                }
            }
        }
    }
}

impl Block {
    /// Adds a tile that reaches beyond the valid rows or columns.
    unsafe fn scatter(&self, row: usize, column: usize, sums: [[[f32; LANES]; VECTORS]; ROWS]) {
        let [rows, columns] = self.edge.valid;
        let [end_row, end_column] = [self.at[0] + self.size[0], self.at[1] + self.size[1]];
        for (r, sums) in sums.iter().enumerate() {
            for (c, sum) in sums.as_flattened().iter().enumerate() {
                let (i, j) = (row + r, column + c);
                if i >= end_row || j >= end_column {
                    continue;
                }
                // SAFETY: valid rows and columns are in `out`; the first beyond them in the edges.
                unsafe {
                    match (i < rows, j < columns) {
                        (true, true) => *self.out.at(i, j) += sum,
                        (false, true) => *self.edge.row.add(j) += sum,
                        (true, false) => *self.edge.column.add(i) += sum,
                        (false, false) => {}
                    }
                }
            }
        }
    }
}

/// `Σ_k a[k, 0..6] ⊗ b[k, 0..16]`.
#[inline(always)]
unsafe fn tile<L: Lanes>(
    depth: usize,
    mut a: *const f32,
    mut b: *const f32,
) -> [[L; VECTORS]; ROWS] {
    // SAFETY: both panels have `depth` steps.
    unsafe {
        let mut sums = [[L::splat(0.0); VECTORS]; ROWS];
        for _ in 0..depth {
            L::prefetch(a.wrapping_add(AHEAD).cast());
            let (b0, b1) = (L::load(b), L::load(b.add(LANES)));
            for (r, sums) in sums.iter_mut().enumerate() {
                let x = L::splat(*a.add(r));
                sums[0] = x.mul_add(b0, sums[0]);
                sums[1] = x.mul_add(b1, sums[1]);
            }
            a = a.add(ROWS);
            b = b.add(COLUMNS);
        }
        sums
    }
}
