//! Constant folding, with the language's own arithmetic.
//!
//! A constant tile has one value in every element, so what is folded is one scalar. Integer
//! divisions that the interpreter warns about are left for it to see.

use metile_ir::arith;
use metile_ir::tile::{Kernel, Op, OpKind};
use metile_ir::Scalar;

/// Folds constants; whether there were any.
pub fn run(kernel: &mut Kernel) -> bool {
    let mut changed = false;
    for id in kernel.walk(kernel.body) {
        let op = &kernel.ops[id];
        if op.operands.is_empty() {
            continue;
        }
        if let Some(scalar) = folded(kernel, op) {
            let op = &mut kernel.ops[id];
            op.kind = OpKind::Constant(scalar);
            op.operands.clear();
            changed = true;
        }
    }
    changed
}

fn folded(kernel: &Kernel, op: &Op) -> Option<Scalar> {
    let result = kernel.ty(*op.results.first()?).tile()?;
    let constant = |n: usize| op.operands.get(n).and_then(|&v| kernel.constant(v));
    let first = || constant(0);
    match &op.kind {
        OpKind::Unary(unary) => arith::unary(*unary, first()?),
        OpKind::Binary(binary) => {
            let (a, b) = (first()?, constant(1)?);
            if arith::division_is_odd(*binary, a, b) {
                return None;
            }
            arith::binary(*binary, a, b)
        }
        OpKind::Compare(compare) => arith::compare(*compare, first()?, constant(1)?).map(Scalar::bool),
        OpKind::Select => {
            let chosen = if first()?.bits() != 0 { 1 } else { 2 };
            constant(chosen)
        }
        OpKind::Fma => arith::fma(first()?, constant(1)?, constant(2)?),
        OpKind::Cast => Some(arith::cast(first()?, result.dtype)),
        OpKind::Bitcast => arith::bitcast(first()?, result.dtype),
        OpKind::Broadcast | OpKind::Reshape | OpKind::Transpose(_) | OpKind::Slice { .. } => first(),
        OpKind::Cat { .. } => {
            let first = first()?;
            (1..op.operands.len()).all(|n| constant(n) == Some(first)).then_some(first)
        }
        _ => None,
    }
}
