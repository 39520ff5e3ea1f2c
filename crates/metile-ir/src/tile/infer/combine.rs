//! Reductions, scans and matrix products.

use super::Operands;
use crate::diagnostic::Diagnostic;
use crate::dtype::DType;
use crate::tile::{OpKind, ReduceOp, Shape, TileType};

pub(super) fn result(kind: &OpKind, args: &Operands<'_>) -> Result<TileType, Diagnostic> {
    match kind {
        OpKind::Reduce { op, axis } => reduce(args, *op, *axis),
        OpKind::Scan { axis, .. } => {
            args.expect_count(1)?;
            let from = args.tile(0)?;
            args.axis(*axis, from.shape.rank())?;
            arithmetic(args, from)?;
            Ok(from)
        }
        OpKind::Dot { transpose_a, transpose_b } => dot(args, *transpose_a, *transpose_b),
        _ => Err(args.error("does not combine elements")),
    }
}

fn arithmetic(args: &Operands<'_>, ty: TileType) -> Result<(), Diagnostic> {
    if ty.dtype.is_arithmetic() {
        return Ok(());
    }
    Err(args
        .error(format!("is not defined on {}", ty.dtype))
        .hint("it takes integers and f32; widen f16 and bf16 with `.to_f32()`"))
}

fn reduce(args: &Operands<'_>, op: ReduceOp, axis: u8) -> Result<TileType, Diagnostic> {
    args.expect_count(1)?;
    let from = args.tile(0)?;
    let axis = args.axis(axis, from.shape.rank())?;
    let dtype = match op {
        ReduceOp::Any | ReduceOp::All => {
            if from.dtype != DType::Bool {
                return Err(args
                    .error(format!("any/all takes bool, not {}", from.dtype))
                    .hint("compare first, as in `(x != 0).any()`"));
            }
            DType::Bool
        }
        ReduceOp::ArgMax | ReduceOp::ArgMin => {
            arithmetic(args, from)?;
            DType::I64
        }
        ReduceOp::Sum | ReduceOp::Max | ReduceOp::Min => {
            arithmetic(args, from)?;
            from.dtype
        }
    };
    let mut sides = from.shape.sides();
    sides.remove(axis);
    let shape = Shape::new(&sides).map_err(|why| args.error(why))?;
    Ok(TileType::new(dtype, shape))
}

fn dot(args: &Operands<'_>, transpose_a: bool, transpose_b: bool) -> Result<TileType, Diagnostic> {
    args.expect_count(3)?;
    let (a, b, acc) = (args.tile(0)?, args.tile(1)?, args.tile(2)?);
    if a.shape.rank() != 2 || b.shape.rank() != 2 {
        return Err(args
            .error(format!("multiplies matrices, not {} by {}", a.shape, b.shape))
            .hint("make both sides tiles of rank 2, as with `.reshape([1, n])`"));
    }
    let side =
        |t: TileType, transposed: bool, n: usize| t.shape.side(if transposed { 1 - n } else { n });
    let (m, k) = (side(a, transpose_a, 0), side(a, transpose_a, 1));
    let (k_b, n) = (side(b, transpose_b, 0), side(b, transpose_b, 1));
    if k != k_b {
        return Err(args
            .error(format!(
                "multiplies [{m}, {k}] by [{k_b}, {n}]: the inner sides {k} and {k_b} differ"
            ))
            .hint("the left side is [m, k], the right side [k, n]; `.t()` transposes"));
    }
    let dtype = match (a.dtype, b.dtype) {
        (x, y) if x.is_float() && y.is_float() => DType::F32,
        (DType::I8, DType::I8) => DType::I32,
        (x, y) => {
            return Err(args
                .error(format!("is not defined on {x} and {y}"))
                .hint("it takes f32, f16 and bf16 in any pairing, or i8 and i8"));
        }
    };
    let shape = Shape::new(&[m, n]).map_err(|why| args.error(why))?;
    let result = TileType::new(dtype, shape);
    if acc != result {
        return Err(args.error(format!("adds to an accumulator of type {result}, not {acc}")));
    }
    Ok(result)
}
