//! Loop-invariant motion: what gives the same value every time round is computed once before.
//!
//! Every operation is total, so it may run where it would not have run; integer divisions stay all
//! the same unless they divide by a harmless constant, because the interpreter warns about odd ones.

use super::cse::is_pure;
use super::placement::Placement;
use metile_ir::tile::{BinaryOp, Kernel, Op, OpId, OpKind, RegionId};
use std::collections::HashSet;

/// Moves invariant operations out of loops; whether there were any.
pub fn run(kernel: &mut Kernel) -> bool {
    let loops: Vec<OpId> = kernel
        .walk(kernel.body)
        .into_iter()
        .filter(|&id| matches!(kernel.ops[id].kind, OpKind::For | OpKind::While))
        .collect();
    let mut changed = false;
    // Inner loops come after outer ones: from the back, what leaves an inner loop can leave the
    // outer one as well.
    for &id in loops.iter().rev() {
        changed |= hoist(kernel, id);
    }
    changed
}

fn hoist(kernel: &mut Kernel, id: OpId) -> bool {
    let placement = Placement::of(kernel);
    let Some(outside) = placement.region_of(id) else { return false };
    let mut moved: Vec<OpId> = Vec::new();
    let mut moved_set = HashSet::new();
    let regions = kernel.ops[id].regions.clone();
    for &region in &regions {
        for &inner in &kernel.regions[region].ops {
            let op = &kernel.ops[inner];
            let invariant = |v| {
                !placement.is_within(kernel, v, id)
                    || kernel.defining_op(v).is_some_and(|op| moved_set.contains(&op))
            };
            if is_pure(kernel, op) && is_quiet(kernel, op) && op.operands.iter().all(|&v| invariant(v)) {
                moved.push(inner);
                moved_set.insert(inner);
            }
        }
    }
    if moved.is_empty() {
        return false;
    }
    for &region in &regions {
        kernel.regions[region].ops.retain(|op| !moved_set.contains(op));
    }
    insert_before(kernel, outside, id, moved);
    true
}

fn insert_before(kernel: &mut Kernel, region: RegionId, before: OpId, moved: Vec<OpId>) {
    let ops = &mut kernel.regions[region].ops;
    let at = ops.iter().position(|&op| op == before).unwrap_or(0);
    ops.splice(at..at, moved);
}

/// Whether the interpreter can't warn about the operation.
fn is_quiet(kernel: &Kernel, op: &Op) -> bool {
    let OpKind::Binary(BinaryOp::Div | BinaryOp::Rem) = op.kind else { return true };
    let integer = op.results.first().and_then(|&v| kernel.ty(v).tile()).is_some_and(|t| t.dtype.is_int());
    let divisor = op.operands.get(1).and_then(|&v| kernel.constant(v)).and_then(|s| s.as_int());
    !integer || divisor.is_some_and(|d| d != 0 && d != -1)
}
