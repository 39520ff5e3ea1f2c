//! One form for what can be written in several: constants on the right, no operation that changes
//! nothing, no chain of two where one does.
//!
//! `f32` identities are used only where they keep every bit: not `x + 0`, which turns -0 into +0.

use super::placement::Placement;
use super::replace_uses;
use metile_ir::tile::{BinaryOp, Kernel, Op, OpId, OpKind, TileType, UnaryOp, Value};
use metile_ir::{DType, Scalar};
use std::collections::HashMap;

/// What an operation turns into.
enum Rewrite {
    /// An existing value.
    Value(Value),
    /// Another operation with the same result type.
    Op(OpKind, Vec<Value>),
}

/// Simplifies operations, then branches and loops decided by constants; whether anything changed.
pub fn run(kernel: &mut Kernel) -> bool {
    let mut changed = false;
    let mut values: HashMap<Value, Value> = HashMap::new();
    for id in kernel.walk(kernel.body) {
        for n in 0..kernel.ops[id].operands.len() {
            if let Some(&value) = values.get(&kernel.ops[id].operands[n]) {
                kernel.ops[id].operands[n] = value;
            }
        }
        let Some(rewrite) = simplified(kernel, &kernel.ops[id]) else { continue };
        changed = true;
        match rewrite {
            Rewrite::Value(value) => {
                values.insert(kernel.ops[id].results[0], value);
            }
            Rewrite::Op(kind, operands) => {
                let op = &mut kernel.ops[id];
                (op.kind, op.operands) = (kind, operands);
            }
        }
    }
    replace_uses(kernel, &values);
    changed | decide(kernel)
}

fn tile(kernel: &Kernel, value: Value) -> Option<TileType> {
    kernel.ty(value).tile()
}

/// The operation that made `value`.
fn source(kernel: &Kernel, value: Value) -> Option<&Op> {
    kernel.defining_op(value).map(|id| &kernel.ops[id])
}

fn simplified(kernel: &Kernel, op: &Op) -> Option<Rewrite> {
    let result = tile(kernel, *op.results.first()?)?;
    match &op.kind {
        OpKind::Unary(unary) => unary_rewrite(kernel, *unary, op),
        OpKind::Binary(binary) => binary_rewrite(kernel, *binary, op, result.dtype),
        OpKind::Select => select_rewrite(kernel, op),
        OpKind::Dot { .. } => dot_rewrite(kernel, op),
        OpKind::Cast | OpKind::Bitcast => cast_rewrite(kernel, op, result),
        OpKind::Broadcast | OpKind::Reshape | OpKind::Transpose(_) | OpKind::Slice { .. } | OpKind::Cat { .. } => {
            shape_rewrite(kernel, op, result)
        }
        _ => None,
    }
}

fn unary_rewrite(kernel: &Kernel, unary: UnaryOp, op: &Op) -> Option<Rewrite> {
    let inner = source(kernel, op.operands[0])?;
    let twice = matches!(unary, UnaryOp::Neg | UnaryOp::Not | UnaryOp::ReverseBits)
        && inner.kind == OpKind::Unary(unary);
    twice.then(|| Rewrite::Value(inner.operands[0]))
}

fn is_int(scalar: Scalar, value: i128) -> bool {
    scalar.as_int() == Some(value)
}

fn binary_rewrite(kernel: &Kernel, binary: BinaryOp, op: &Op, dtype: DType) -> Option<Rewrite> {
    let (a, b) = (op.operands[0], op.operands[1]);
    let (left, right) = (kernel.constant(a), kernel.constant(b));
    // NaN operands may leave either payload, so only integers change sides.
    let commutes = matches!(
        binary,
        BinaryOp::Add | BinaryOp::Mul | BinaryOp::Min | BinaryOp::Max | BinaryOp::And | BinaryOp::Or | BinaryOp::Xor
    ) && dtype != DType::F32;
    if commutes && left.is_some() && right.is_none() {
        return Some(Rewrite::Op(op.kind.clone(), vec![b, a]));
    }
    let c = right?;
    let all_ones = Scalar::int(dtype, -1);
    let neutral = match binary {
        // Arithmetic on a NaN may change its payload, so `f32` has no neutral operands here.
        BinaryOp::Add | BinaryOp::Sub | BinaryOp::Or | BinaryOp::Xor | BinaryOp::Shl | BinaryOp::Shr => is_int(c, 0),
        BinaryOp::Mul | BinaryOp::Div => is_int(c, 1) && dtype.is_int(),
        BinaryOp::And => c == all_ones || (dtype == DType::Bool && is_int(c, 1)),
        _ => false,
    };
    if neutral {
        return Some(Rewrite::Value(a));
    }
    let absorbing = match binary {
        BinaryOp::Mul | BinaryOp::And => is_int(c, 0),
        BinaryOp::Or => c == all_ones || (dtype == DType::Bool && is_int(c, 1)),
        _ => false,
    };
    if absorbing {
        return Some(Rewrite::Value(b));
    }
    None
}

fn select_rewrite(kernel: &Kernel, op: &Op) -> Option<Rewrite> {
    let [condition, a, b] = op.operands[..] else { return None };
    if a == b {
        return Some(Rewrite::Value(a));
    }
    if let Some(constant) = kernel.constant(condition) {
        return Some(Rewrite::Value(if constant.bits() != 0 { a } else { b }));
    }
    let inner = source(kernel, condition)?;
    (inner.kind == OpKind::Unary(UnaryOp::Not))
        .then(|| Rewrite::Op(OpKind::Select, vec![inner.operands[0], b, a]))
}

/// A transposed operand costs nothing: the product reads it the other way round.
fn dot_rewrite(kernel: &Kernel, op: &Op) -> Option<Rewrite> {
    let OpKind::Dot { mut transpose_a, mut transpose_b } = op.kind else { return None };
    let mut operands = op.operands.clone();
    let mut changed = false;
    for (n, flag) in [(0, &mut transpose_a), (1, &mut transpose_b)] {
        if let Some(inner) = source(kernel, operands[n])
            && inner.kind == OpKind::Transpose(vec![1, 0])
        {
            operands[n] = inner.operands[0];
            *flag = !*flag;
            changed = true;
        }
    }
    changed.then(|| Rewrite::Op(OpKind::Dot { transpose_a, transpose_b }, operands))
}

fn cast_rewrite(kernel: &Kernel, op: &Op, result: TileType) -> Option<Rewrite> {
    let from = op.operands[0];
    if tile(kernel, from)? == result {
        return Some(Rewrite::Value(from));
    }
    let inner = source(kernel, from)?;
    if inner.kind != op.kind {
        return None;
    }
    let first = inner.operands[0];
    let (start, middle) = (tile(kernel, first)?.dtype, tile(kernel, from)?.dtype);
    // A widening in the middle loses nothing.
    let exact = op.kind == OpKind::Bitcast || widens(start, middle);
    exact.then(|| Rewrite::Op(op.kind.clone(), vec![first]))
}

/// Whether every integer of `from` is one of `to`. Floats are left out: widening one may quiet a NaN.
fn widens(from: DType, to: DType) -> bool {
    let ints = from.is_int() && to.is_int() && from.bits() < to.bits();
    ints && (from.is_signed_int() == to.is_signed_int() || to.is_signed_int())
}

fn shape_rewrite(kernel: &Kernel, op: &Op, result: TileType) -> Option<Rewrite> {
    let from = op.operands[0];
    let identity = match &op.kind {
        OpKind::Transpose(axes) => axes.iter().enumerate().all(|(n, &axis)| n == axis as usize),
        OpKind::Cat { .. } => op.operands.len() == 1,
        _ => tile(kernel, from)? == result,
    };
    if identity {
        return Some(Rewrite::Value(from));
    }
    let inner = source(kernel, from)?;
    match (&op.kind, &inner.kind) {
        (OpKind::Broadcast, OpKind::Broadcast) | (OpKind::Reshape, OpKind::Reshape) => {
            Some(Rewrite::Op(op.kind.clone(), vec![inner.operands[0]]))
        }
        (OpKind::Transpose(outer), OpKind::Transpose(axes)) => {
            let composed = outer.iter().map(|&axis| axes[axis as usize]).collect();
            Some(Rewrite::Op(OpKind::Transpose(composed), vec![inner.operands[0]]))
        }
        _ => None,
    }
}

/// Branches and loops that constants decide.
fn decide(kernel: &mut Kernel) -> bool {
    let placement = Placement::of(kernel);
    for id in kernel.walk(kernel.body) {
        let Some(region) = placement.region_of(id) else { continue };
        let op = &kernel.ops[id];
        match op.kind {
            OpKind::If => {
                let Some(test) = kernel.constant(op.operands[0]) else { continue };
                let taken = op.regions[usize::from(test.bits() == 0)];
                inline(kernel, id, region, taken);
                return true;
            }
            OpKind::For => {
                let bound = |n: usize| kernel.constant(op.operands[n]).and_then(|s| s.as_int());
                let (Some(low), Some(high)) = (bound(0), bound(1)) else { continue };
                if low < high {
                    continue;
                }
                let inits = op.operands[3..].to_vec();
                remove(kernel, id, region, &inits);
                return true;
            }
            _ => {}
        }
    }
    false
}

/// Puts the operations of `taken` where `id` stands.
fn inline(
    kernel: &mut Kernel,
    id: OpId,
    region: metile_ir::tile::RegionId,
    taken: metile_ir::tile::RegionId,
) {
    let mut inner = std::mem::take(&mut kernel.regions[taken].ops);
    let yielded = inner.pop().map(|op| kernel.ops[op].operands.clone()).unwrap_or_default();
    let ops = &mut kernel.regions[region].ops;
    let at = ops.iter().position(|&op| op == id).unwrap_or(0);
    ops.splice(at..at, inner);
    remove(kernel, id, region, &yielded);
}

/// Takes `id` out and lets `values` stand for its results.
fn remove(kernel: &mut Kernel, id: OpId, region: metile_ir::tile::RegionId, values: &[Value]) {
    kernel.regions[region].ops.retain(|&op| op != id);
    let results = kernel.ops[id].results.clone();
    let with: HashMap<Value, Value> = results.into_iter().zip(values.iter().copied()).collect();
    replace_uses(kernel, &with);
}
