//! Operations that rearrange elements, and those that can take a rearranged operand.

use crate::passes::edit::{Edit, Step};
use crate::passes::facts::is_quiet;
use metile_ir::tile::{OpId, OpKind, ReduceOp};
use metile_ir::{DType, Scalar};

/// The operand, if it has the result's type: the operation moves nothing.
fn unchanged(edit: &mut Edit, op: OpId) -> Option<Step> {
    let &a = edit.operands(op).first()?;
    (edit.tile(a) == edit.result_type(op)).then(|| edit.replace(op, a))
}

pub(super) fn broadcast(edit: &mut Edit, op: OpId) -> Option<Step> {
    unchanged(edit, op).or_else(|| {
        let &a = edit.operands(op).first()?;
        let (inner, from) = edit.definition(a)?;
        (*inner == OpKind::Broadcast).then(|| edit.turn(op, OpKind::Broadcast, from))
    })
}

pub(super) fn reshape(edit: &mut Edit, op: OpId) -> Option<Step> {
    unchanged(edit, op).or_else(|| {
        let &a = edit.operands(op).first()?;
        let (inner, from) = edit.definition(a)?;
        (*inner == OpKind::Reshape).then(|| edit.turn(op, OpKind::Reshape, from))
    })
}

pub(super) fn transpose(edit: &mut Edit, op: OpId, axes: &[u8]) -> Option<Step> {
    let &a = edit.operands(op).first()?;
    if axes.iter().enumerate().all(|(n, &axis)| n == axis as usize) {
        return Some(edit.replace(op, a));
    }
    let (inner, from) = edit.definition(a)?;
    let OpKind::Transpose(first) = inner else { return None };
    // Axis i is axis `axes[i]` of the middle, which is axis `first[axes[i]]` of the source.
    let both: Option<Vec<u8>> = axes.iter().map(|&n| first.get(n as usize).copied()).collect();
    let both = both?;
    Some(edit.turn(op, OpKind::Transpose(both), from))
}

pub(super) fn slice(edit: &mut Edit, op: OpId, axis: u8, start: u32, step: u32) -> Option<Step> {
    if let Some(whole) = unchanged(edit, op) {
        return Some(whole);
    }
    let operands = edit.operands(op);
    let &a = operands.first()?;
    let side = edit.result_type(op)?.shape.side(axis as usize) as u64;
    if side == 1 && step != 1 {
        return Some(edit.turn(op, OpKind::Slice { axis, start, step: 1 }, operands));
    }
    let (inner, from) = edit.definition(a)?;
    match *inner {
        OpKind::Slice { axis: other, start: before, step: stride } if other == axis => {
            let start = start.checked_mul(stride)?.checked_add(before)?;
            let step = if side == 1 { 1 } else { step.checked_mul(stride)? };
            Some(edit.turn(op, OpKind::Slice { axis, start, step }, from))
        }
        OpKind::Cat { axis: other } if other == axis => {
            let last = u64::from(start) + (side - 1) * u64::from(step);
            let mut begin = 0u64;
            for part in from {
                let end = begin + edit.tile(part)?.shape.side(axis as usize) as u64;
                if begin <= u64::from(start) && last < end {
                    let start = u32::try_from(u64::from(start) - begin).ok()?;
                    return Some(edit.turn(op, OpKind::Slice { axis, start, step }, vec![part]));
                }
                begin = end;
            }
            None
        }
        _ => None,
    }
}

pub(super) fn cat(edit: &mut Edit, op: OpId) -> Option<Step> {
    match edit.operands(op)[..] {
        [only] => Some(edit.replace(op, only)),
        _ => None,
    }
}

/// Reducing an axis of one element.
pub(super) fn reduce(edit: &mut Edit, op: OpId, kind: ReduceOp, axis: u8) -> Option<Step> {
    let operands = edit.operands(op);
    let &a = operands.first()?;
    let ty = edit.tile(a)?;
    if ty.shape.side(axis as usize) != 1 {
        return None;
    }
    match kind {
        ReduceOp::ArgMax | ReduceOp::ArgMin => {
            Some(edit.turn(op, OpKind::Constant(Scalar::i64(0)), Vec::new()))
        }
        // A sum passes through arithmetic, which quiets NaNs.
        ReduceOp::Sum if ty.dtype == DType::F32 && !is_quiet(&edit.kernel, a) => None,
        ReduceOp::Sum | ReduceOp::Max | ReduceOp::Min | ReduceOp::Any | ReduceOp::All => {
            Some(edit.turn(op, OpKind::Reshape, operands))
        }
    }
}

/// A transposed operand becomes a flag.
pub(super) fn dot(edit: &mut Edit, op: OpId, mut transposed: [bool; 2]) -> Option<Step> {
    let mut operands = edit.operands(op);
    let mut found = false;
    for (operand, flag) in operands.iter_mut().zip(&mut transposed) {
        if let Some((OpKind::Transpose(axes), from)) = edit.definition(*operand)
            && axes[..] == [1, 0]
        {
            *operand = *from.first()?;
            *flag = !*flag;
            found = true;
        }
    }
    let [transpose_a, transpose_b] = transposed;
    found.then(|| edit.turn(op, OpKind::Dot { transpose_a, transpose_b }, operands))
}
