//! Combining the elements of a tile whose elements are all the same.

use metile_ir::tile::{BinaryOp, ReduceOp, ScanOp};
use metile_ir::{Scalar, arith};

/// A reduction of `side` elements `c`.
pub(super) fn reduce(op: ReduceOp, c: Scalar, side: usize) -> Option<Scalar> {
    match op {
        ReduceOp::Any | ReduceOp::All => Some(c),
        // All are equal, or all are NaN: the first either way.
        ReduceOp::ArgMax | ReduceOp::ArgMin => Some(Scalar::i64(0)),
        ReduceOp::Max => extreme(BinaryOp::Max, c, side),
        ReduceOp::Min => extreme(BinaryOp::Min, c, side),
        ReduceOp::Sum => {
            let sum = c.as_int()?.wrapping_mul(i128::try_from(side).ok()?);
            Some(Scalar::int(c.dtype(), sum))
        }
    }
}

/// An inclusive scan whose every prefix is the same: extremes are.
pub(super) fn scan(op: ScanOp, c: Scalar, side: usize) -> Option<Scalar> {
    match op {
        // A lone NaN keeps its payload, and a compared one need not.
        ScanOp::Max | ScanOp::Min if c.as_int().is_some() || side == 1 => Some(c),
        _ => None,
    }
}

fn extreme(op: BinaryOp, c: Scalar, side: usize) -> Option<Scalar> {
    if side == 1 { Some(c) } else { arith::binary(op, c, c) }
}
