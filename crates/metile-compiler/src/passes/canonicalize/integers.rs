//! Algebra on integers and truth values, where wrapping arithmetic is a ring.

use crate::passes::edit::{Edit, Step};
use metile_ir::arith;
use metile_ir::tile::{BinaryOp, OpId, OpKind, UnaryOp};
use metile_ir::{DType, Scalar};

/// `x op c`.
pub(super) fn constant(edit: &mut Edit, op: OpId, kind: BinaryOp, c: Scalar) -> Option<Step> {
    let &[a, b] = &edit.operands(op)[..] else { return None };
    let dtype = c.dtype();
    let zero = c.bits() == 0;
    let one = c.as_int() == Some(1);
    // All bits set: -1, or true.
    let ones = c == Scalar::int(dtype, -1);
    match kind {
        BinaryOp::Add | BinaryOp::Sub | BinaryOp::Or | BinaryOp::Xor if zero => {
            return Some(edit.replace(op, a));
        }
        BinaryOp::Shl | BinaryOp::Shr if zero => return Some(edit.replace(op, a)),
        BinaryOp::Mul | BinaryOp::Div if one => return Some(edit.replace(op, a)),
        BinaryOp::And if ones => return Some(edit.replace(op, a)),
        BinaryOp::Mul | BinaryOp::And if zero => return Some(edit.replace(op, b)),
        BinaryOp::Or if ones => return Some(edit.replace(op, b)),
        BinaryOp::Xor if ones => return Some(edit.turn(op, OpKind::Unary(UnaryOp::Not), vec![a])),
        BinaryOp::Rem if one => {
            return Some(edit.turn(op, OpKind::Constant(Scalar::zero(dtype)), Vec::new()));
        }
        BinaryOp::Sub => {
            let negated = arith::unary(UnaryOp::Neg, c)?;
            let ty = edit.tile(b)?;
            let negated = edit.insert(op, OpKind::Constant(negated), Vec::new(), ty)?;
            return Some(edit.turn(op, OpKind::Binary(BinaryOp::Add), vec![a, negated]));
        }
        _ => {}
    }
    gathered(edit, op, kind, c)
}

/// `(x op c) op d` is `x op (c op d)` for operations that are associative.
fn gathered(edit: &mut Edit, op: OpId, kind: BinaryOp, d: Scalar) -> Option<Step> {
    let associative = matches!(
        kind,
        BinaryOp::Add
            | BinaryOp::Mul
            | BinaryOp::And
            | BinaryOp::Or
            | BinaryOp::Xor
            | BinaryOp::Min
            | BinaryOp::Max
    );
    let &[a, b] = &edit.operands(op)[..] else { return None };
    let (inner, from) = edit.definition(a)?;
    if !associative || *inner != OpKind::Binary(kind) {
        return None;
    }
    let c = edit.constant(*from.get(1)?)?;
    let both = arith::binary(kind, c, d)?;
    let ty = edit.tile(b)?;
    let both = edit.insert(op, OpKind::Constant(both), Vec::new(), ty)?;
    Some(edit.turn(op, OpKind::Binary(kind), vec![*from.first()?, both]))
}

/// `x op y`, whatever they are.
pub(super) fn any(edit: &mut Edit, op: OpId, kind: BinaryOp) -> Option<Step> {
    let &[a, b] = &edit.operands(op)[..] else { return None };
    let dtype = edit.tile(a)?.dtype;
    if a == b {
        return match kind {
            BinaryOp::And | BinaryOp::Or | BinaryOp::Min | BinaryOp::Max => {
                Some(edit.replace(op, a))
            }
            BinaryOp::Sub | BinaryOp::Xor => {
                Some(edit.turn(op, OpKind::Constant(Scalar::zero(dtype)), Vec::new()))
            }
            _ => None,
        };
    }
    if dtype == DType::Bool {
        return None;
    }
    let negated = |edit: &Edit, value| match edit.definition(value) {
        Some((OpKind::Unary(UnaryOp::Neg), from)) => from.first().copied(),
        _ => None,
    };
    match kind {
        BinaryOp::Add => {
            if let Some(y) = negated(edit, b) {
                return Some(edit.turn(op, OpKind::Binary(BinaryOp::Sub), vec![a, y]));
            }
            let x = negated(edit, a)?;
            Some(edit.turn(op, OpKind::Binary(BinaryOp::Sub), vec![b, x]))
        }
        BinaryOp::Sub => {
            if edit.constant(a).is_some_and(|c| c.bits() == 0) {
                return Some(edit.turn(op, OpKind::Unary(UnaryOp::Neg), vec![b]));
            }
            let y = negated(edit, b)?;
            Some(edit.turn(op, OpKind::Binary(BinaryOp::Add), vec![a, y]))
        }
        _ => None,
    }
}
