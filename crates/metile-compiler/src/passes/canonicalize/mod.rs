//! One way of writing each thing: operations that do nothing go away, constants stand on the right,
//! chains of moves become one move, branches and loops whose course is known are laid out flat.
//!
//! Every rule keeps each bit. On floats that rules out most of algebra: `x + 0.0` turns -0 into +0,
//! and even `x * 1.0` quiets a signalling NaN, so it goes away only where `x` can't be one.

mod control;
mod convert;
mod elementwise;
mod integers;
mod memory;
mod shape;

use super::edit::{Edit, Step, rewrite};
use metile_ir::tile::{Kernel, OpId, OpKind};

/// Runs the pass; gives the new kernel, and whether anything changed.
pub fn run(kernel: Kernel) -> (Kernel, bool) {
    rewrite(kernel, rule)
}

fn rule(edit: &mut Edit, op: OpId) -> Step {
    let done = match edit.kind(op).clone() {
        OpKind::Unary(kind) => elementwise::unary(edit, op, kind),
        OpKind::Binary(kind) => elementwise::binary(edit, op, kind),
        OpKind::Compare(kind) => elementwise::compare(edit, op, kind),
        OpKind::Select => elementwise::select(edit, op),
        OpKind::Cast => convert::cast(edit, op),
        OpKind::Bitcast => convert::bitcast(edit, op),
        OpKind::Broadcast => shape::broadcast(edit, op),
        OpKind::Reshape => shape::reshape(edit, op),
        OpKind::Transpose(axes) => shape::transpose(edit, op, &axes),
        OpKind::Slice { axis, start, step } => shape::slice(edit, op, axis, start, step),
        OpKind::Cat { .. } => shape::cat(edit, op),
        OpKind::Reduce { op: kind, axis } => shape::reduce(edit, op, kind, axis),
        OpKind::Dot { transpose_a, transpose_b } => {
            shape::dot(edit, op, [transpose_a, transpose_b])
        }
        OpKind::Dim { axis } => memory::dim(edit, op, axis),
        OpKind::Narrow { axis } => memory::narrow(edit, op, axis),
        OpKind::Load { masked: true } => memory::masked_load(edit, op),
        OpKind::Store { masked: true } => memory::masked_store(edit, op),
        OpKind::Assert { .. } => memory::assert(edit, op),
        OpKind::If => control::branch(edit, op),
        OpKind::For => control::for_loop(edit, op),
        OpKind::While => control::while_loop(edit, op),
        _ => None,
    };
    done.unwrap_or(Step::Keep)
}
