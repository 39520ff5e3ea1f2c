//! Index tiles that grow by a constant along each axis.

use metile_ir::tile::{BinaryOp, Kernel, OpKind, Type, Value};

/// What each axis adds per position to the integer tile `value`, if that is a constant for every axis.
pub fn steps(kernel: &Kernel, value: Value) -> Option<Vec<i64>> {
    let Type::Tile(ty) = kernel.ty(value) else { return None };
    let rank = ty.shape.rank();
    if rank == 0 {
        return Some(Vec::new());
    }
    let op = &kernel.ops[kernel.defining_op(value)?];
    let of = |n: usize| steps(kernel, op.operands[n]);
    match &op.kind {
        OpKind::Constant(_) => Some(vec![0; rank]),
        OpKind::Arange => Some(vec![1]),
        OpKind::Broadcast => {
            let from = kernel.ty(op.operands[0]).tile()?.shape;
            let inner = of(0)?;
            let mut out = vec![0; rank - from.rank()];
            out.extend((0..from.rank()).map(|a| if from.side(a) == 1 { 0 } else { inner[a] }));
            Some(out)
        }
        OpKind::Transpose(axes) => {
            let inner = of(0)?;
            Some(axes.iter().map(|&axis| inner[axis as usize]).collect())
        }
        OpKind::Slice { axis, step, .. } => {
            let mut inner = of(0)?;
            inner[*axis as usize] = inner[*axis as usize].checked_mul(i64::from(*step))?;
            Some(inner)
        }
        OpKind::Reshape => {
            let from = kernel.ty(op.operands[0]).tile()?.shape;
            let inner = of(0)?;
            let long = |shape: &metile_ir::tile::Shape| -> Vec<usize> {
                (0..shape.rank()).filter(|&a| shape.side(a) > 1).collect()
            };
            let (old, new) = (long(&from), long(&ty.shape));
            let same = old.len() == new.len()
                && old.iter().zip(&new).all(|(&a, &b)| from.side(a) == ty.shape.side(b));
            if !same {
                return None;
            }
            let mut out = vec![0; rank];
            for (&from, &to) in old.iter().zip(&new) {
                out[to] = inner[from];
            }
            Some(out)
        }
        OpKind::Binary(BinaryOp::Add) => joined(of(0)?, of(1)?, 1),
        OpKind::Binary(BinaryOp::Sub) => joined(of(0)?, of(1)?, -1),
        OpKind::Binary(BinaryOp::Mul) => {
            let number = |n: usize| {
                let scalar = kernel.constant(source(kernel, op.operands[n]))?;
                i64::try_from(scalar.as_int()?).ok()
            };
            let (tile, by) = match (number(0), number(1)) {
                (_, Some(by)) => (of(0)?, by),
                (Some(by), _) => (of(1)?, by),
                _ => {
                    let (a, b) = (of(0)?, of(1)?);
                    // A product of scalars that are the same everywhere.
                    return (a.iter().chain(&b).all(|&s| s == 0)).then(|| vec![0; rank]);
                }
            };
            tile.into_iter().map(|step| step.checked_mul(by)).collect()
        }
        _ => None,
    }
}

fn joined(a: Vec<i64>, b: Vec<i64>, by: i64) -> Option<Vec<i64>> {
    a.into_iter().zip(b).map(|(x, y)| x.checked_add(y.checked_mul(by)?)).collect()
}

/// The scalar that `value` repeats, through broadcasts.
pub fn source(kernel: &Kernel, value: Value) -> Value {
    let mut value = value;
    while let Some(op) = kernel.defining_op(value).map(|id| &kernel.ops[id])
        && op.kind == OpKind::Broadcast
    {
        value = op.operands[0];
    }
    value
}
