//! Constants and operations on one element at a time.

use super::Operands;
use crate::diagnostic::Diagnostic;
use crate::dtype::DType;
use crate::tile::{BinaryOp, CompareOp, OpKind, TileType, UnaryOp};

pub(super) fn result(
    kind: &OpKind,
    args: &Operands<'_>,
    result: Option<TileType>,
) -> Result<TileType, Diagnostic> {
    match kind {
        OpKind::ProgramId(axis) | OpKind::NumPrograms(axis) => {
            args.expect_count(0)?;
            if *axis > 2 {
                return Err(args
                    .error(format!("is asked for grid axis {axis}"))
                    .hint("a grid has the axes 0, 1 and 2"));
            }
            Ok(TileType::scalar(DType::I64))
        }
        OpKind::Constant(scalar) => {
            args.expect_count(0)?;
            let wanted = args.wanted(result)?;
            if wanted.dtype != scalar.dtype() {
                return Err(args.error(format!(
                    "holds a {}, not a {}",
                    scalar.dtype(),
                    wanted.dtype
                )));
            }
            Ok(wanted)
        }
        OpKind::Arange => {
            args.expect_count(0)?;
            let wanted = args.wanted(result)?;
            if wanted.dtype != DType::I64 || wanted.shape.rank() != 1 {
                return Err(args.error(format!("gives i64[n], not {wanted}")));
            }
            Ok(wanted)
        }
        OpKind::Unary(op) => unary(*op, args),
        OpKind::Binary(op) => binary(*op, args),
        OpKind::Compare(op) => compare(*op, args),
        OpKind::Select => {
            args.expect_count(3)?;
            let condition = args.tile(0)?;
            let value = args.same(1, 2)?;
            if condition != TileType::new(DType::Bool, value.shape) {
                return Err(args.error(format!(
                    "needs a bool{} condition for values of type {value}, not {condition}",
                    value.shape
                )));
            }
            Ok(value)
        }
        OpKind::Fma => {
            args.expect_count(3)?;
            args.same(0, 1)?;
            let ty = args.same(0, 2)?;
            allow(ty, args, ty.dtype == DType::F32, "f32")
        }
        OpKind::Cast => {
            args.expect_count(1)?;
            let (from, wanted) = (args.tile(0)?, args.wanted(result)?);
            if from.shape != wanted.shape {
                return Err(
                    args.error(format!("keeps the shape {}, not {}", from.shape, wanted.shape))
                );
            }
            Ok(wanted)
        }
        _ => bitcast(args, result),
    }
}

fn bitcast(args: &Operands<'_>, result: Option<TileType>) -> Result<TileType, Diagnostic> {
    args.expect_count(1)?;
    let (from, wanted) = (args.tile(0)?, args.wanted(result)?);
    let boolean = from.dtype == DType::Bool || wanted.dtype == DType::Bool;
    if from.shape != wanted.shape || from.dtype.bits() != wanted.dtype.bits() || boolean {
        return Err(args
            .error(format!("can't reinterpret {from} as {wanted}"))
            .hint("a bitcast keeps the shape and the width in bits, and neither side is bool"));
    }
    Ok(wanted)
}

fn allow(
    ty: TileType,
    args: &Operands<'_>,
    fits: bool,
    allowed: &str,
) -> Result<TileType, Diagnostic> {
    if fits {
        return Ok(ty);
    }
    let error = args.error(format!("is not defined on {}", ty.dtype));
    Err(if matches!(ty.dtype, DType::F16 | DType::BF16) {
        error.hint(format!("it takes {allowed}; widen {} with `.to_f32()`", ty.dtype))
    } else {
        error.hint(format!("it takes {allowed}"))
    })
}

fn unary(op: UnaryOp, args: &Operands<'_>) -> Result<TileType, Diagnostic> {
    args.expect_count(1)?;
    let ty = args.tile(0)?;
    let d = ty.dtype;
    match op {
        UnaryOp::Neg | UnaryOp::Abs => allow(ty, args, d.is_arithmetic(), "integers and f32"),
        UnaryOp::Not => allow(ty, args, d.is_int() || d == DType::Bool, "integers and bool"),
        UnaryOp::ReverseBits => allow(ty, args, d.is_int(), "integers"),
        _ => allow(ty, args, d == DType::F32, "f32"),
    }
}

fn binary(op: BinaryOp, args: &Operands<'_>) -> Result<TileType, Diagnostic> {
    args.expect_count(2)?;
    let ty = args.same(0, 1)?;
    let d = ty.dtype;
    match op {
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => {
            allow(ty, args, d.is_int() || d == DType::Bool, "integers and bool")
        }
        BinaryOp::Shl | BinaryOp::Shr => allow(ty, args, d.is_int(), "integers"),
        _ => allow(ty, args, d.is_arithmetic(), "integers and f32"),
    }
}

fn compare(op: CompareOp, args: &Operands<'_>) -> Result<TileType, Diagnostic> {
    args.expect_count(2)?;
    let ty = args.same(0, 1)?;
    let equality = matches!(op, CompareOp::Eq | CompareOp::Ne);
    if ty.dtype == DType::Bool && !equality {
        return Err(args.error("is not defined on bool").hint("bool is compared with == and !="));
    }
    let fits = ty.dtype.is_arithmetic() || ty.dtype == DType::Bool;
    allow(ty, args, fits, "integers, f32, and bool for == and !=")?;
    Ok(TileType::new(DType::Bool, ty.shape))
}

pub(super) fn unary_name(op: UnaryOp) -> &'static str {
    match op {
        UnaryOp::Neg => "neg",
        UnaryOp::Abs => "abs",
        UnaryOp::Not => "not",
        UnaryOp::ReverseBits => "reverse_bits",
        UnaryOp::Exp => "exp",
        UnaryOp::Exp2 => "exp2",
        UnaryOp::Log => "log",
        UnaryOp::Log2 => "log2",
        UnaryOp::Sqrt => "sqrt",
        UnaryOp::Rsqrt => "rsqrt",
        UnaryOp::Sin => "sin",
        UnaryOp::Cos => "cos",
        UnaryOp::Tanh => "tanh",
        UnaryOp::Sigmoid => "sigmoid",
        UnaryOp::Erf => "erf",
        UnaryOp::Floor => "floor",
        UnaryOp::Ceil => "ceil",
        UnaryOp::Round => "round",
    }
}

pub(super) fn binary_name(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "add",
        BinaryOp::Sub => "sub",
        BinaryOp::Mul => "mul",
        BinaryOp::Div => "div",
        BinaryOp::Rem => "rem",
        BinaryOp::Min => "min",
        BinaryOp::Max => "max",
        BinaryOp::And => "and",
        BinaryOp::Or => "or",
        BinaryOp::Xor => "xor",
        BinaryOp::Shl => "shl",
        BinaryOp::Shr => "shr",
    }
}

pub(super) fn compare_name(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Eq => "eq",
        CompareOp::Ne => "ne",
        CompareOp::Lt => "lt",
        CompareOp::Le => "le",
        CompareOp::Gt => "gt",
        CompareOp::Ge => "ge",
    }
}
