//! Operations on one element at a time.

use super::integers;
use crate::passes::edit::{Edit, Step};
use crate::passes::facts::{commutes, is_nan, is_quiet};
use metile_ir::tile::{BinaryOp, CompareOp, OpId, OpKind, UnaryOp};
use metile_ir::{DType, Scalar};

pub(super) fn unary(edit: &mut Edit, op: OpId, kind: UnaryOp) -> Option<Step> {
    let &[a] = &edit.operands(op)[..] else { return None };
    let dtype = edit.tile(a)?.dtype;
    let unsigned = dtype.is_int() && !dtype.is_signed_int();
    if kind == UnaryOp::Abs && unsigned {
        return Some(edit.replace(op, a));
    }
    let (inner, from) = edit.definition(a)?;
    let inner = inner.clone();
    match (kind, inner) {
        (UnaryOp::Neg, OpKind::Unary(UnaryOp::Neg))
        | (UnaryOp::Not, OpKind::Unary(UnaryOp::Not))
        | (UnaryOp::ReverseBits, OpKind::Unary(UnaryOp::ReverseBits)) => {
            Some(edit.replace(op, *from.first()?))
        }
        (UnaryOp::Abs, OpKind::Unary(UnaryOp::Abs)) => Some(edit.replace(op, a)),
        // On a float both only touch the sign; a signed integer's MIN stays through both.
        (UnaryOp::Abs, OpKind::Unary(UnaryOp::Neg)) => {
            Some(edit.turn(op, OpKind::Unary(UnaryOp::Abs), from))
        }
        (UnaryOp::Neg, OpKind::Binary(BinaryOp::Sub)) if dtype.is_int() => {
            let &[x, y] = &from[..] else { return None };
            Some(edit.turn(op, OpKind::Binary(BinaryOp::Sub), vec![y, x]))
        }
        (UnaryOp::Not, OpKind::Compare(compare)) => {
            let ints = edit.tile(*from.first()?)?.dtype != DType::F32;
            let opposite = opposite(compare, ints)?;
            Some(edit.turn(op, OpKind::Compare(opposite), from))
        }
        _ => None,
    }
}

/// The comparison that holds where `compare` does not. An unordered pair fails both `<` and `>=`.
fn opposite(compare: CompareOp, ordered: bool) -> Option<CompareOp> {
    Some(match compare {
        CompareOp::Eq => CompareOp::Ne,
        CompareOp::Ne => CompareOp::Eq,
        _ if !ordered => return None,
        CompareOp::Lt => CompareOp::Ge,
        CompareOp::Le => CompareOp::Gt,
        CompareOp::Gt => CompareOp::Le,
        CompareOp::Ge => CompareOp::Lt,
    })
}

pub(super) fn binary(edit: &mut Edit, op: OpId, kind: BinaryOp) -> Option<Step> {
    let &[a, b] = &edit.operands(op)[..] else { return None };
    let dtype = edit.tile(a)?.dtype;
    match (edit.constant(a), edit.constant(b)) {
        (Some(c), None) if swaps(kind, dtype, c) => {
            return Some(edit.turn(op, OpKind::Binary(kind), vec![b, a]));
        }
        (None, Some(c)) if dtype == DType::F32 => return float_constant(edit, op, kind, c),
        (None, Some(c)) => {
            if let Some(step) = integers::constant(edit, op, kind, c) {
                return Some(step);
            }
        }
        _ => {}
    }
    if dtype == DType::F32 {
        return None;
    }
    integers::any(edit, op, kind)
}

/// Whether `c op x` may become `x op c`. A float constant that is no NaN can't be where a NaN
/// result's payload comes from, so the order of the operands does not show.
fn swaps(kind: BinaryOp, dtype: DType, c: Scalar) -> bool {
    commutes(kind, dtype) || (matches!(kind, BinaryOp::Add | BinaryOp::Mul) && !is_nan(c))
}

fn float_constant(edit: &mut Edit, op: OpId, kind: BinaryOp, c: Scalar) -> Option<Step> {
    let &[a, b] = &edit.operands(op)[..] else { return None };
    let nothing = match kind {
        BinaryOp::Add => c == Scalar::f32(-0.0),
        BinaryOp::Sub => c == Scalar::f32(0.0),
        BinaryOp::Mul | BinaryOp::Div => c == Scalar::f32(1.0),
        _ => false,
    };
    if nothing && is_quiet(&edit.kernel, a) {
        return Some(edit.replace(op, a));
    }
    // Dividing by a power of two and multiplying by its reciprocal round the same exact number.
    let divisor = c.as_f32()?;
    let reciprocal = 1.0 / divisor;
    let power = divisor.to_bits() & 0x007f_ffff == 0;
    if kind == BinaryOp::Div && !nothing && power && divisor.is_normal() && reciprocal.is_normal() {
        let ty = edit.tile(b)?;
        let factor = edit.insert(op, OpKind::Constant(Scalar::f32(reciprocal)), Vec::new(), ty)?;
        return Some(edit.turn(op, OpKind::Binary(BinaryOp::Mul), vec![a, factor]));
    }
    None
}

pub(super) fn compare(edit: &mut Edit, op: OpId, kind: CompareOp) -> Option<Step> {
    let &[a, b] = &edit.operands(op)[..] else { return None };
    let dtype = edit.tile(a)?.dtype;
    let constants = (edit.constant(a), edit.constant(b));
    if let (Some(_), None) = constants {
        return Some(edit.turn(op, OpKind::Compare(mirrored(kind)), vec![b, a]));
    }
    if let (DType::Bool, (None, Some(c))) = (dtype, constants) {
        // `x == true` and `x != false` are x.
        let same = (kind == CompareOp::Eq) == (c.bits() != 0);
        return Some(match same {
            true => edit.replace(op, a),
            false => edit.turn(op, OpKind::Unary(UnaryOp::Not), vec![a]),
        });
    }
    if a == b && dtype != DType::F32 {
        let holds = matches!(kind, CompareOp::Eq | CompareOp::Le | CompareOp::Ge);
        return Some(edit.turn(op, OpKind::Constant(Scalar::bool(holds)), Vec::new()));
    }
    None
}

/// The comparison of `b` with `a` that is `compare` of `a` with `b`.
fn mirrored(compare: CompareOp) -> CompareOp {
    match compare {
        CompareOp::Eq | CompareOp::Ne => compare,
        CompareOp::Lt => CompareOp::Gt,
        CompareOp::Le => CompareOp::Ge,
        CompareOp::Gt => CompareOp::Lt,
        CompareOp::Ge => CompareOp::Le,
    }
}

pub(super) fn select(edit: &mut Edit, op: OpId) -> Option<Step> {
    let &[c, a, b] = &edit.operands(op)[..] else { return None };
    if a == b {
        return Some(edit.replace(op, a));
    }
    if let Some(c) = edit.constant(c) {
        return Some(edit.replace(op, if c.bits() != 0 { a } else { b }));
    }
    if let (Some(x), Some(y)) = (edit.constant(a), edit.constant(b)) {
        if x == y {
            return Some(edit.replace(op, a));
        }
        if x.dtype() == DType::Bool {
            return Some(match x.bits() != 0 {
                true => edit.replace(op, c),
                false => edit.turn(op, OpKind::Unary(UnaryOp::Not), vec![c]),
            });
        }
    }
    let (inner, from) = edit.definition(c)?;
    if *inner == OpKind::Unary(UnaryOp::Not) {
        return Some(edit.turn(op, OpKind::Select, vec![*from.first()?, b, a]));
    }
    None
}
