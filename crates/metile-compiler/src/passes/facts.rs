//! What is known of operations and values.

use metile_ir::arith;
use metile_ir::tile::{
    Access, BinaryOp, Kernel, Op, OpKind, ReduceOp, ScanOp, Type, UnaryOp, Value,
};
use metile_ir::{DType, Scalar};

/// Whether the results follow from the operands alone, wherever the operation stands: nothing is
/// written, and what is read is constant during the launch.
pub(super) fn is_pure(kernel: &Kernel, op: &Op) -> bool {
    match op.kind {
        OpKind::Load { .. } | OpKind::LoadTile => op
            .operands
            .first()
            .is_some_and(|&t| matches!(kernel.ty(t), Type::Tensor(t) if t.access == Access::Read)),
        OpKind::For | OpKind::While | OpKind::If => false,
        _ => !op.kind.has_effect(),
    }
}

/// Whether the interpreter may warn of the operation as a division, so that running it where it did
/// not run before would add a warning.
pub(super) fn may_warn_of_division(kernel: &Kernel, op: &Op) -> bool {
    let OpKind::Binary(kind @ (BinaryOp::Div | BinaryOp::Rem)) = op.kind else { return false };
    let Some(&divisor) = op.operands.get(1) else { return true };
    match (kernel.ty(divisor).tile(), kernel.constant(divisor)) {
        (Some(t), _) if t.dtype.is_float() => false,
        (_, Some(c)) => {
            // The dividend that overflows is the only one that is odd for a non-zero divisor.
            let least = Scalar::from_bits(c.dtype(), 1 << (c.dtype().bits() - 1));
            arith::division_is_odd(kind, least, c)
        }
        _ => true,
    }
}

/// How many definitions [`is_quiet`] looks at before it is in doubt.
const MAX_LOOKED_AT: usize = 64;

/// Whether no element of the float `value` can be a signalling NaN, so that arithmetic that keeps
/// the number (`x * 1.0`) keeps the bits too. False where in doubt.
pub(super) fn is_quiet(kernel: &Kernel, value: Value) -> bool {
    let mut todo = vec![value];
    for _ in 0..MAX_LOOKED_AT {
        let Some(value) = todo.pop() else { return true };
        match sources(kernel, value) {
            Some(from) => todo.extend(from),
            None => return false,
        }
    }
    todo.is_empty()
}

/// Values of which none may be a signalling NaN for `value` to be none; `None` if that is not known.
fn sources(kernel: &Kernel, value: Value) -> Option<&[Value]> {
    let op = kernel.defining_op(value).map(|op| &kernel.ops[op])?;
    match &op.kind {
        OpKind::Constant(c) => (!is_signalling(*c)).then_some(&[]),
        OpKind::Binary(_) | OpKind::Fma | OpKind::Dot { .. } => Some(&[]),
        OpKind::Reduce { op: ReduceOp::Sum, .. } | OpKind::Scan { op: ScanOp::Sum, .. } => {
            Some(&[])
        }
        // These move bits, or may return their operand as it is.
        OpKind::Unary(
            UnaryOp::Neg
            | UnaryOp::Abs
            | UnaryOp::Floor
            | UnaryOp::Ceil
            | UnaryOp::Round
            | UnaryOp::Sqrt,
        )
        | OpKind::Broadcast
        | OpKind::Reshape
        | OpKind::Transpose(_)
        | OpKind::Slice { .. }
        | OpKind::Cat { .. } => Some(&op.operands),
        OpKind::Unary(_) => Some(&[]),
        OpKind::Cast => {
            let from = op.operands.first().and_then(|&v| kernel.ty(v).tile())?;
            let converts = kernel.ty(value).tile()?.dtype != from.dtype;
            Some(if converts { &[] } else { &op.operands })
        }
        OpKind::Select => op.operands.get(1..),
        _ => None,
    }
}

/// A NaN whose quiet bit is clear.
fn is_signalling(c: Scalar) -> bool {
    let quiet_bit = match c.dtype() {
        DType::F16 => 1 << 9,
        DType::BF16 => 1 << 6,
        DType::F32 => 1 << 22,
        _ => return false,
    };
    c.as_f32().is_some_and(f32::is_nan) && c.bits() & quiet_bit == 0
}

/// `as_f32` of a half-precision value may quiet a NaN, so NaN is asked of the value, not the bits.
pub(super) fn is_nan(c: Scalar) -> bool {
    c.as_f32().is_some_and(f32::is_nan)
}

/// Whether `a op b` has the bits of `b op a` for all operands of the dtype. Sums and products of two
/// NaNs take their payload from one side, so on floats only the extremes commute.
pub(super) fn commutes(op: BinaryOp, dtype: DType) -> bool {
    match op {
        BinaryOp::Add | BinaryOp::Mul => !dtype.is_float(),
        BinaryOp::Min | BinaryOp::Max | BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => true,
        BinaryOp::Sub | BinaryOp::Div | BinaryOp::Rem | BinaryOp::Shl | BinaryOp::Shr => false,
    }
}
