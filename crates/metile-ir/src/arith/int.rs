//! Integers: computed exactly in 128 bits, then wrapped to the dtype.

use crate::scalar::Scalar;
use crate::tile::{BinaryOp, UnaryOp};

pub(super) fn unary(op: UnaryOp, a: Scalar) -> Option<Scalar> {
    let x = a.as_int()?;
    let value = match op {
        UnaryOp::Neg => -x,
        UnaryOp::Abs => x.abs(),
        UnaryOp::Not => !x,
        UnaryOp::ReverseBits => i128::from(a.bits().reverse_bits() >> (64 - a.dtype().bits())),
        _ => return None,
    };
    Some(Scalar::int(a.dtype(), value))
}

pub(super) fn binary(op: BinaryOp, a: Scalar, b: Scalar) -> Option<Scalar> {
    let (x, y) = (a.as_int()?, b.as_int()?);
    let width = i128::from(a.dtype().bits());
    let inside = (0..width).contains(&y);
    let value = match op {
        BinaryOp::Add => x + y,
        BinaryOp::Sub => x - y,
        BinaryOp::Mul => x.wrapping_mul(y),
        BinaryOp::Div => x.checked_div(y).unwrap_or(0),
        BinaryOp::Rem => x.checked_rem(y).unwrap_or(x),
        BinaryOp::Min => x.min(y),
        BinaryOp::Max => x.max(y),
        BinaryOp::And => x & y,
        BinaryOp::Or => x | y,
        BinaryOp::Xor => x ^ y,
        BinaryOp::Shl => {
            if inside {
                x.wrapping_shl(y as u32)
            } else {
                0
            }
        }
        BinaryOp::Shr => {
            if inside {
                x >> y
            } else {
                // Everything is shifted out: the sign stays, or nothing.
                x >> 127
            }
        }
    };
    Some(Scalar::int(a.dtype(), value))
}
