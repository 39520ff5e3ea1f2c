//! Arithmetic as C++ expressions of one register each.

use super::super::literal::c_type;
use metile_device::{BinaryOp, CompareOp, UnaryOp};
use metile_ir::dtype::DType;

/// `op a`.
pub fn unary(op: UnaryOp, dtype: DType, a: &str) -> String {
    let float = dtype == DType::F32;
    match op {
        UnaryOp::Neg if float => format!("-{a}"),
        UnaryOp::Neg => format!("metile::neg({a})"),
        UnaryOp::Abs if float => format!("fabsf({a})"),
        UnaryOp::Abs => format!("metile::abs({a})"),
        UnaryOp::Not if dtype == DType::Bool => format!("!{a}"),
        UnaryOp::Not => format!("{}(~{a})", c_type(dtype)),
        UnaryOp::ReverseBits => format!("metile::reverse_bits({a})"),
        UnaryOp::Exp => format!("expf({a})"),
        UnaryOp::Exp2 => format!("exp2f({a})"),
        UnaryOp::Log => format!("logf({a})"),
        UnaryOp::Log2 => format!("log2f({a})"),
        UnaryOp::Sqrt => format!("sqrtf({a})"),
        UnaryOp::Rsqrt => format!("metile::rsqrt({a})"),
        UnaryOp::Sin => format!("sinf({a})"),
        UnaryOp::Cos => format!("cosf({a})"),
        UnaryOp::Tanh => format!("tanhf({a})"),
        UnaryOp::Sigmoid => format!("metile::sigmoid({a})"),
        UnaryOp::Erf => format!("erff({a})"),
        UnaryOp::Floor => format!("floorf({a})"),
        UnaryOp::Ceil => format!("ceilf({a})"),
        UnaryOp::Round => format!("rintf({a})"),
    }
}

/// `a op b`.
pub fn binary(op: BinaryOp, dtype: DType, a: &str, b: &str) -> String {
    let float = dtype == DType::F32;
    let bits = |sign: &str| match dtype {
        // Operands are promoted to `int`.
        DType::I8 | DType::U8 | DType::I16 | DType::U16 => {
            format!("{}({a} {sign} {b})", c_type(dtype))
        }
        _ => format!("{a} {sign} {b}"),
    };
    match op {
        BinaryOp::Add if float => format!("{a} + {b}"),
        BinaryOp::Sub if float => format!("{a} - {b}"),
        BinaryOp::Mul if float => format!("{a} * {b}"),
        BinaryOp::Div if float => format!("{a} / {b}"),
        BinaryOp::Rem if float => format!("fmodf({a}, {b})"),
        BinaryOp::Add => format!("metile::add({a}, {b})"),
        BinaryOp::Sub => format!("metile::sub({a}, {b})"),
        BinaryOp::Mul => format!("metile::mul({a}, {b})"),
        BinaryOp::Div => format!("metile::div({a}, {b})"),
        BinaryOp::Rem => format!("metile::rem({a}, {b})"),
        BinaryOp::Min => format!("metile::min({a}, {b})"),
        BinaryOp::Max => format!("metile::max({a}, {b})"),
        BinaryOp::And => bits("&"),
        BinaryOp::Or => bits("|"),
        BinaryOp::Xor => bits("^"),
        BinaryOp::Shl => format!("metile::shl({a}, {b})"),
        BinaryOp::Shr => format!("metile::shr({a}, {b})"),
    }
}

/// The operator; any NaN is unordered, as in C++.
pub fn compare(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Eq => "==",
        CompareOp::Ne => "!=",
        CompareOp::Lt => "<",
        CompareOp::Le => "<=",
        CompareOp::Gt => ">",
        CompareOp::Ge => ">=",
    }
}

/// Conversion by value. 16-bit floats go through `f32`.
pub fn cast(from: DType, to: DType, a: &str) -> String {
    if from == to {
        return a.to_owned();
    }
    match (from, to) {
        (DType::F16, _) => cast(DType::F32, to, &format!("metile::f32_from_f16({a})")),
        (DType::BF16, _) => cast(DType::F32, to, &format!("metile::f32_from_bf16({a})")),
        (DType::F32, DType::F16) => format!("metile::f16_from_f32({a})"),
        (DType::F32, DType::BF16) => format!("metile::bf16_from_f32({a})"),
        (_, DType::F16 | DType::BF16) => cast(DType::F32, to, &format!("f32({a})")),
        (DType::F32, DType::Bool) => format!("{a} != 0.0f"),
        (_, DType::Bool) => format!("{a} != 0"),
        (DType::F32, _) => format!("metile::saturate<{}>({a})", c_type(to)),
        _ => format!("{}({a})", c_type(to)),
    }
}

/// The same bits as another dtype of the same width.
pub fn bitcast(from: DType, to: DType, a: &str) -> String {
    match (from, to) {
        (DType::F32, DType::F32) => a.to_owned(),
        (DType::F32, _) => format!("{}(__float_as_uint({a}))", c_type(to)),
        (_, DType::F32) => format!("__uint_as_float(u32({a}))"),
        _ => format!("{}({a})", c_type(to)),
    }
}
