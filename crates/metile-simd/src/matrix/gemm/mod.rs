//! `a · bᵀ` where both have many rows: blocks of each are packed into panels that a register kernel
//! reads in order (Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication").

mod kernel;
mod pack;

use super::{Operand, Out, Scratch};
use crate::Level;
use crate::lanes;
use kernel::{COLUMNS, ROWS};

/// Elements of `k` in a block: a panel of `b` (16 KiB) stays in the first-level cache.
const BLOCK_K: usize = 256;
/// Rows of `a` in a block: 192 KiB of panels stay in the second-level cache.
const BLOCK_M: usize = 32 * ROWS;
/// Rows of `b` in a block: at most 2 MiB of panels.
const BLOCK_N: usize = 128 * COLUMNS;

/// Adds `a · bᵀ` over `k < shared` to `out[0..m, 0..n]`; rows beyond the valid ones are zeros.
///
/// # Safety
/// As [`super::dot`]'s; `shared` elements are valid in both; `out`'s columns are contiguous.
pub(super) unsafe fn accumulate(
    level: Level,
    [m, n]: [usize; 2],
    shared: usize,
    a: &Operand,
    b: &Operand,
    out: Out,
    scratch: &mut Scratch,
) {
    // One row of zeros stands for all that are out of shape.
    let rows = (a.valid_rows + 1).min(m);
    let columns = (b.valid_rows + 1).min(n);
    let edge = Edge {
        row: scratch.edge.zeros(columns + rows),
        column: scratch.edge.floats(columns + rows).wrapping_add(columns),
        valid: [a.valid_rows, b.valid_rows],
    };
    let block_k = even(shared, BLOCK_K, 8);
    let block_m = even(rows, BLOCK_M, ROWS);
    let block_n = even(columns, BLOCK_N, COLUMNS);
    for k in (0..shared).step_by(block_k) {
        let depth = block_k.min(shared - k);
        for j in (0..columns).step_by(block_n) {
            let width = block_n.min(columns - j);
            // SAFETY: rows below the valid ones and `k..k + depth` of both are valid; results are in
            // `out` or `edge`.
            unsafe {
                let bp = pack::panels::<COLUMNS>(
                    level,
                    b,
                    [j, width],
                    [k, depth],
                    &mut scratch.w,
                    &mut scratch.strip,
                );
                for i in (0..rows).step_by(block_m) {
                    let height = block_m.min(rows - i);
                    let ap = pack::panels::<ROWS>(
                        level,
                        a,
                        [i, height],
                        [k, depth],
                        &mut scratch.x,
                        &mut scratch.strip,
                    );
                    let block = kernel::Block {
                        depth,
                        a: ap,
                        b: bp,
                        at: [i, j],
                        size: [height, width],
                        out,
                        edge,
                    };
                    lanes::run(level, block);
                }
            }
        }
    }
    // SAFETY: the edges have `columns` and `rows` elements, `out` has m by n.
    unsafe {
        for j in 0..b.valid_rows {
            if rows > a.valid_rows && (*edge.row.add(j)).is_nan() {
                for i in a.valid_rows..m {
                    *out.at(i, j) = f32::NAN;
                }
            }
        }
        for i in 0..a.valid_rows {
            if columns > b.valid_rows && (*edge.column.add(i)).is_nan() {
                for j in b.valid_rows..n {
                    *out.at(i, j) = f32::NAN;
                }
            }
        }
    }
}

/// Where the results of the row and the column of zeros are added.
#[derive(Clone, Copy)]
struct Edge {
    row: *mut f32,
    column: *mut f32,
    valid: [usize; 2],
}

/// The size, a multiple of `unit`, of the fewest nearly equal blocks of at most `most` that cover `total`.
fn even(total: usize, most: usize, unit: usize) -> usize {
    total.div_ceil(total.div_ceil(most).max(1)).next_multiple_of(unit).max(unit)
}
