//! Conversions.

use crate::passes::edit::{Edit, Step};
use crate::passes::facts::is_quiet;
use metile_ir::DType;
use metile_ir::tile::{OpId, OpKind};

pub(super) fn cast(edit: &mut Edit, op: OpId) -> Option<Step> {
    let &[a] = &edit.operands(op)[..] else { return None };
    let to = edit.result_type(op)?.dtype;
    let middle = edit.tile(a)?.dtype;
    if middle == to {
        return Some(edit.replace(op, a));
    }
    let (inner, from) = edit.definition(a)?;
    if *inner != OpKind::Cast {
        return None;
    }
    let &x = from.first()?;
    let first = edit.tile(x)?.dtype;
    if first == to && first.is_float() {
        // Out and back is exact on numbers; on the way a signalling NaN would become a quiet one.
        let exact = holds_all(middle, first) && is_quiet(&edit.kernel, x);
        return exact.then(|| edit.replace(op, x));
    }
    skips(first, middle, to).then(|| edit.turn(op, OpKind::Cast, vec![x]))
}

/// Whether converting `first` to `middle` to `last` is converting `first` to `last`.
fn skips(first: DType, middle: DType, last: DType) -> bool {
    let wrap = first.is_int() && middle.is_int() && last.is_int();
    if wrap && last.bits() <= middle.bits() {
        // Wrapping twice keeps the low bits either way.
        return true;
    }
    if !holds_all(middle, first) {
        return false;
    }
    // The middle dtype has the same number. A float is then brought to an integer by saturation,
    // not by wrapping as the integer itself would be: the same only where neither is needed.
    !(middle.is_float() && first.is_int() && last.is_int()) || holds_all(last, first)
}

/// Whether every number of `inner` is one of `outer`.
fn holds_all(outer: DType, inner: DType) -> bool {
    if outer == inner {
        return true;
    }
    match (outer, inner) {
        (DType::Bool, _) => false,
        (_, DType::Bool) => true,
        (DType::F32, DType::F16 | DType::BF16) => true,
        (_, d) if d.is_float() => false,
        // 24 bits of mantissa, 11, and 8.
        (DType::F32, d) => d.bits() <= 16,
        (DType::F16 | DType::BF16, d) => d.bits() <= 8,
        (o, i) if o.is_signed_int() == i.is_signed_int() => o.bits() >= i.bits(),
        (o, _) => o.is_signed_int() && o.bits() > inner.bits(),
    }
}

pub(super) fn bitcast(edit: &mut Edit, op: OpId) -> Option<Step> {
    let &[a] = &edit.operands(op)[..] else { return None };
    if edit.tile(a)?.dtype == edit.result_type(op)?.dtype {
        return Some(edit.replace(op, a));
    }
    let (inner, from) = edit.definition(a)?;
    (*inner == OpKind::Bitcast).then(|| edit.turn(op, OpKind::Bitcast, from))
}
