//! The language's arithmetic on single values: what the interpreter computes, and what the compiler
//! folds constants with, so that both give the same bits.

pub mod convert;
pub mod float;
pub mod int;

pub use convert::{bitcast, cast};

use crate::dtype::DType;
use crate::scalar::Scalar;
use crate::tile::{BinaryOp, CompareOp, UnaryOp};
use std::cmp::Ordering;

/// `op a`; `None` if the operation is not defined on the dtype.
pub fn unary(op: UnaryOp, a: Scalar) -> Option<Scalar> {
    match a.dtype() {
        DType::Bool => (op == UnaryOp::Not).then(|| Scalar::bool(a.bits() == 0)),
        DType::F32 => Some(Scalar::f32(float::unary(op)?(a.as_f32()?))),
        d if d.is_int() => int::unary(op, a),
        _ => None,
    }
}

/// `a op b`; `None` if the operation is not defined on the dtypes.
pub fn binary(op: BinaryOp, a: Scalar, b: Scalar) -> Option<Scalar> {
    if a.dtype() != b.dtype() {
        return None;
    }
    match a.dtype() {
        DType::Bool => {
            let (x, y) = (a.bits() != 0, b.bits() != 0);
            match op {
                BinaryOp::And => Some(Scalar::bool(x & y)),
                BinaryOp::Or => Some(Scalar::bool(x | y)),
                BinaryOp::Xor => Some(Scalar::bool(x ^ y)),
                _ => None,
            }
        }
        DType::F32 => Some(Scalar::f32(float::binary(op)?(a.as_f32()?, b.as_f32()?))),
        d if d.is_int() => int::binary(op, a, b),
        _ => None,
    }
}

/// `a * b + c` rounded once; `f32` only.
pub fn fma(a: Scalar, b: Scalar, c: Scalar) -> Option<Scalar> {
    if [a, b, c].iter().any(|s| s.dtype() != DType::F32) {
        return None;
    }
    Some(Scalar::f32(float::fma(a.as_f32()?, b.as_f32()?, c.as_f32()?)))
}

/// `a op b`: integers, `f32`, and `bool` for equality. Any NaN compares unordered: only `Ne` is true.
pub fn compare(op: CompareOp, a: Scalar, b: Scalar) -> Option<bool> {
    if a.dtype() != b.dtype() {
        return None;
    }
    let order = match (a.dtype(), a.as_int(), b.as_int()) {
        (DType::F16 | DType::BF16, ..) => return None,
        (DType::Bool, ..) if !matches!(op, CompareOp::Eq | CompareOp::Ne) => return None,
        (_, Some(x), Some(y)) => Some(x.cmp(&y)),
        _ => a.as_f32()?.partial_cmp(&b.as_f32()?),
    };
    Some(holds(op, order))
}

/// Whether `op` holds for two values in this order; `None` is unordered.
pub fn holds(op: CompareOp, order: Option<Ordering>) -> bool {
    match op {
        CompareOp::Eq => order == Some(Ordering::Equal),
        CompareOp::Ne => order != Some(Ordering::Equal),
        CompareOp::Lt => order == Some(Ordering::Less),
        CompareOp::Le => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        CompareOp::Gt => order == Some(Ordering::Greater),
        CompareOp::Ge => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
    }
}

/// Whether `a op b` is an integer division whose mathematical result does not exist or fit, so that
/// the defined one deserves a warning: by zero, or `MIN / -1`.
pub fn division_is_odd(op: BinaryOp, a: Scalar, b: Scalar) -> bool {
    if !matches!(op, BinaryOp::Div | BinaryOp::Rem) {
        return false;
    }
    match (a.as_int(), b.as_int()) {
        (Some(_), Some(0)) => true,
        (Some(x), Some(-1)) => x == -(1i128 << (a.dtype().bits() - 1)),
        _ => false,
    }
}
