//! Views, masks, and assertions.

use crate::passes::edit::{Edit, Step};
use metile_ir::tile::{OpId, OpKind};

/// The extent of an axis that a narrowed view keeps is the tensor's. A `Pick` outside of its axis is
/// empty on every axis, so its extents are not traced.
pub(super) fn dim(edit: &mut Edit, op: OpId, axis: u8) -> Option<Step> {
    let &view = edit.operands(op).first()?;
    let (inner, from) = edit.definition(view)?;
    match *inner {
        OpKind::Narrow { axis: narrowed } if narrowed != axis => {
            Some(edit.turn(op, OpKind::Dim { axis }, vec![*from.first()?]))
        }
        _ => None,
    }
}

/// A view of everything from 0 is the tensor.
pub(super) fn narrow(edit: &mut Edit, op: OpId, axis: u8) -> Option<Step> {
    let &[tensor, start, length] = &edit.operands(op)[..] else { return None };
    // Below 0 is clamped to 0 as well.
    if edit.constant(start)?.as_int()? > 0 {
        return None;
    }
    let whole = match edit.definition(length)? {
        (OpKind::Dim { axis: of }, from) => *of == axis && from.first() == Some(&tensor),
        _ => false,
    };
    let longest = edit.constant(length).and_then(|c| c.as_int()) == Some(i128::from(i64::MAX));
    (whole || longest).then(|| edit.replace(op, tensor))
}

pub(super) fn masked_load(edit: &mut Edit, op: OpId) -> Option<Step> {
    let mut operands = edit.operands(op);
    let at = operands.len().checked_sub(2)?;
    let mask = edit.constant(operands[at])?;
    if mask.bits() == 0 {
        let fill = operands[at + 1];
        return Some(edit.turn(op, OpKind::Broadcast, vec![fill]));
    }
    operands.remove(at);
    Some(edit.turn(op, OpKind::Load { masked: false }, operands))
}

pub(super) fn masked_store(edit: &mut Edit, op: OpId) -> Option<Step> {
    let mut operands = edit.operands(op);
    let at = operands.len().checked_sub(2)?;
    let mask = edit.constant(operands[at])?;
    if mask.bits() == 0 {
        return Some(Step::Erase);
    }
    operands.remove(at);
    Some(edit.turn(op, OpKind::Store { masked: false }, operands))
}

/// An assertion of true never fails.
pub(super) fn assert(edit: &mut Edit, op: OpId) -> Option<Step> {
    let &condition = edit.operands(op).first()?;
    (edit.constant(condition)?.bits() != 0).then_some(Step::Erase)
}
