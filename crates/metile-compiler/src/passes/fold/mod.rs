//! Constants computed, by the same arithmetic that the interpreter runs
//! ([`metile_ir::arith`]), so that folding keeps every bit.
//!
//! Not folded: an integer division of which the interpreter warns, which stays to be warned of; a
//! float operation on more than one NaN, whose payload is the hardware's choice; sums of floats and
//! matrix products, whose accumulation is each back-end's own.

mod combine;
mod elementwise;
mod shape;

use super::edit::{Edit, Step, rewrite};
use metile_ir::Scalar;
use metile_ir::tile::{Kernel, OpId, OpKind};

/// Runs the pass; gives the new kernel, and whether anything changed.
pub fn run(kernel: Kernel) -> (Kernel, bool) {
    rewrite(kernel, rule)
}

fn rule(edit: &mut Edit, op: OpId) -> Step {
    match value(edit, op) {
        Some(scalar) => edit.turn(op, OpKind::Constant(scalar), Vec::new()),
        None => Step::Keep,
    }
}

/// The scalar that every element of the result is, if that is known.
fn value(edit: &Edit, op: OpId) -> Option<Scalar> {
    let kind = edit.kind(op);
    let wanted = edit.result_type(op)?;
    let operands = edit.operands(op);
    let constants: Option<Vec<Scalar>> = operands.iter().map(|&v| edit.constant(v)).collect();
    let constants = constants?;
    match kind {
        OpKind::Unary(_)
        | OpKind::Binary(_)
        | OpKind::Compare(_)
        | OpKind::Select
        | OpKind::Fma
        | OpKind::Cast
        | OpKind::Bitcast => elementwise::value(kind, &constants, wanted.dtype),
        OpKind::Broadcast
        | OpKind::Reshape
        | OpKind::Transpose(_)
        | OpKind::Slice { .. }
        | OpKind::Cat { .. } => shape::value(&constants),
        OpKind::Reduce { op: kind, axis } => {
            let side = edit.tile(*operands.first()?)?.shape.side(*axis as usize);
            combine::reduce(*kind, *constants.first()?, side)
        }
        OpKind::Scan { op: kind, axis } => {
            let side = edit.tile(*operands.first()?)?.shape.side(*axis as usize);
            combine::scan(*kind, *constants.first()?, side)
        }
        _ => None,
    }
}
