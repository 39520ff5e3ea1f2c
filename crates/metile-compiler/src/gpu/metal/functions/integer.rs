//! Integers: everything wraps, and nothing is undefined.

use super::Functions;
use crate::gpu::metal::types;
use metile_device::{BinaryOp, UnaryOp};
use metile_ir::DType;

pub(in crate::gpu::metal) fn unary(
    functions: &mut Functions,
    op: UnaryOp,
    dtype: DType,
    a: &str,
) -> String {
    let (t, u) = (types::register(dtype), types::wrapping(dtype));
    match op {
        UnaryOp::Neg => format!("{t}({u}(0) - {u}({a}))"),
        UnaryOp::Not => format!("{t}(~{a})"),
        UnaryOp::Abs if !dtype.is_signed_int() => a.to_owned(),
        UnaryOp::Abs => {
            functions.need(format!("abs({t})"), || {
                format!("inline {t} abs({t} a) {{ return a < 0 ? {t}({u}(0) - {u}(a)) : a; }}")
            });
            format!("metile::abs({a})")
        }
        // What is left of the operations on integers; the others are on floats alone.
        _ => reverse(dtype, a),
    }
}

fn reverse(dtype: DType, a: &str) -> String {
    let (t, bits) = (types::register(dtype), types::bits(dtype));
    match dtype.bytes() {
        8 => format!(
            "{t}((ulong(reverse_bits(uint(ulong({a})))) << 32) | \
             ulong(reverse_bits(uint(ulong({a}) >> 32))))"
        ),
        bytes => format!("{t}(reverse_bits(uint({bits}({a}))) >> {})", 32 - 8 * bytes),
    }
}

pub(in crate::gpu::metal) fn binary(
    functions: &mut Functions,
    op: BinaryOp,
    dtype: DType,
    a: &str,
    b: &str,
) -> String {
    let (t, u) = (types::register(dtype), types::wrapping(dtype));
    let wraps = |sign: &str| match t == u {
        true => format!("{a} {sign} {b}"),
        false => format!("{t}({u}({a}) {sign} {u}({b}))"),
    };
    let bitwise = |sign: &str| match dtype.bytes() {
        4 | 8 => format!("{a} {sign} {b}"),
        _ => format!("{t}({a} {sign} {b})"),
    };
    let name = match op {
        BinaryOp::Add => return wraps("+"),
        BinaryOp::Sub => return wraps("-"),
        BinaryOp::Mul => return wraps("*"),
        BinaryOp::And => return bitwise("&"),
        BinaryOp::Or => return bitwise("|"),
        BinaryOp::Xor => return bitwise("^"),
        BinaryOp::Div => "div",
        BinaryOp::Rem => "rem",
        BinaryOp::Min => "min",
        BinaryOp::Max => "max",
        BinaryOp::Shl => "shl",
        BinaryOp::Shr => "shr",
    };
    functions.need(format!("{name}({t})"), || {
        let value = value(op, dtype);
        format!("inline {t} {name}({t} a, {t} b) {{ return {value}; }}")
    });
    format!("metile::{name}({a}, {b})")
}

/// The function's value.
fn value(op: BinaryOp, dtype: DType) -> String {
    let (t, u, width) = (types::register(dtype), types::wrapping(dtype), dtype.bits());
    let signed = dtype.is_signed_int();
    match op {
        BinaryOp::Div if signed => {
            format!("b == 0 ? {t}(0) : b == -1 ? {t}({u}(0) - {u}(a)) : {t}(a / b)")
        }
        BinaryOp::Div => format!("b == 0 ? {t}(0) : {t}(a / b)"),
        BinaryOp::Rem if signed => format!("b == 0 ? a : b == -1 ? {t}(0) : {t}(a % b)"),
        BinaryOp::Rem => format!("b == 0 ? a : {t}(a % b)"),
        BinaryOp::Min => "b < a ? b : a".to_owned(),
        BinaryOp::Max => "a < b ? b : a".to_owned(),
        BinaryOp::Shl => format!("{u}(b) < {width} ? {t}({u}(a) << {u}(b)) : {t}(0)"),
        // An arithmetic shift by the width less one leaves the sign.
        _ if signed => format!("{t}(a >> ({u}(b) < {width} ? {u}(b) : {u}({})))", width - 1),
        _ => format!("{u}(b) < {width} ? {t}(a >> b) : {t}(0)"),
    }
}
