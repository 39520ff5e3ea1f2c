//! `float`: IEEE arithmetic, and functions of known accuracy.

use super::Functions;
use crate::gpu::metal::types;
use metile_device::{BinaryOp, UnaryOp};
use metile_ir::DType;

const NAN: &str = "as_type<float>(0x7fc00000u)";

pub(in crate::gpu::metal) fn unary(functions: &mut Functions, op: UnaryOp, a: &str) -> String {
    let precise = match op {
        UnaryOp::Neg => return format!("-{a}"),
        UnaryOp::Abs => return format!("fabs({a})"),
        UnaryOp::Floor => return format!("floor({a})"),
        UnaryOp::Ceil => return format!("ceil({a})"),
        UnaryOp::Round => return format!("rint({a})"),
        UnaryOp::Sigmoid => {
            functions.need("sigmoid(float)", || SIGMOID.to_owned());
            return format!("metile::sigmoid({a})");
        }
        UnaryOp::Erf => {
            functions.need("erf(float)", erf);
            return format!("metile::erf({a})");
        }
        UnaryOp::Exp => "exp",
        UnaryOp::Exp2 => "exp2",
        UnaryOp::Log => "log",
        UnaryOp::Log2 => "log2",
        UnaryOp::Sqrt => "sqrt",
        UnaryOp::Rsqrt => "rsqrt",
        UnaryOp::Sin => "sin",
        UnaryOp::Cos => "cos",
        UnaryOp::Tanh => "tanh",
        // On integers alone.
        UnaryOp::Not | UnaryOp::ReverseBits => return a.to_owned(),
    };
    format!("precise::{precise}({a})")
}

pub(in crate::gpu::metal) fn binary(
    functions: &mut Functions,
    op: BinaryOp,
    a: &str,
    b: &str,
) -> String {
    let (name, value) = match op {
        BinaryOp::Add => return format!("{a} + {b}"),
        BinaryOp::Sub => return format!("{a} - {b}"),
        BinaryOp::Mul => return format!("{a} * {b}"),
        BinaryOp::Div => return format!("{a} / {b}"),
        BinaryOp::Rem => return format!("precise::fmod({a}, {b})"),
        // Equal numbers differ in the sign of zero alone: the larger of the two has it only if both do.
        BinaryOp::Max => {
            ("max", format!("a < b ? b : b < a ? a : a == b ? {} : {NAN}", zeros('&')))
        }
        _ => ("min", format!("b < a ? b : a < b ? a : a == b ? {} : {NAN}", zeros('|'))),
    };
    functions.need(format!("{name}(float)"), || {
        format!("inline float {name}(float a, float b) {{ return {value}; }}")
    });
    format!("metile::{name}({a}, {b})")
}

fn zeros(sign: char) -> String {
    format!("as_type<float>(as_type<uint>(a) {sign} as_type<uint>(b))")
}

/// Towards zero, saturating, NaN to 0.
pub(in crate::gpu::metal) fn to_integer(functions: &mut Functions, to: DType, a: &str) -> String {
    let t = types::register(to);
    functions.need(format!("to_{t}(float)"), || {
        let width = to.bits();
        // The bounds are powers of two, so `float` has them exactly.
        let value = if to.is_signed_int() {
            let bound = 1u128 << (width - 1);
            let most = (1u64 << (width - 1)) - 1;
            let suffix = if width == 64 { "L" } else { "" };
            format!(
                "x >= {bound}.0f ? {t}({most}{suffix}) : x >= -{bound}.0f ? {t}(x) : \
                 x < 0.0f ? {t}(-{most}{suffix} - 1) : {t}(0)"
            )
        } else {
            let bound = 1u128 << width;
            format!("x >= {bound}.0f ? {t}(~{t}(0)) : x > 0.0f ? {t}(x) : {t}(0)")
        };
        format!("inline {t} to_{t}(float x) {{ return {value}; }}")
    });
    format!("metile::to_{t}({a})")
}

/// With e^-|x| nothing overflows, and small results keep their digits.
const SIGMOID: &str = "\
inline float sigmoid(float x) {
    const float e = precise::exp(-fabs(x));
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}";

/// Below this, `erf(x) - x` is `x` times a polynomial in `x * x`.
const ERF_SMALL: f32 = 0.921_875;
/// Least-squares fits with weights drawn towards equal errors, the constant coefficient first. Together with
/// rounding: within 1.1 units of the last place, given an exact `exp`.
const ERF_NEAR: [f32; 7] = [
    1.283_791_7e-1,
    -3.761_263_5e-1,
    1.128_370_2e-1,
    -2.685_970_3e-2,
    5.201_715e-3,
    -8.149_798e-4,
    8.397_763e-5,
];
/// `log(1 - erf(x))` from there to 4, beyond which erf is 1 to within half a unit.
const ERF_FAR: [f32; 9] = [
    1.735_678_2e-4,
    -1.129_507_4,
    -6.333_678_4e-1,
    -1.082_478_3e-1,
    2.508_942e-2,
    -4.153_779_7e-3,
    4.284_345_5e-4,
    -1.992_993_4e-5,
    -9.561_847_5e-8,
];

fn erf() -> String {
    let polynomial = |coefficients: &[f32], x: &str| {
        let (last, rest) = coefficients.split_last().unwrap_or((&0.0, &[]));
        rest.iter().rev().fold(format!("{last:?}f"), |p, c| format!("fma({p}, {x}, {c:?}f)"))
    };
    let (near, far) = (polynomial(&ERF_NEAR, "u"), polynomial(&ERF_FAR, "t"));
    format!(
        "inline float erf(float x) {{\n    \
         const float a = fabs(x);\n    \
         const float u = x * x;\n    \
         const float near = fma({near}, x, x);\n    \
         const float t = a < 4.0f ? a : 4.0f;\n    \
         const float far = 1.0f - precise::exp({far});\n    \
         return a < {ERF_SMALL:?}f ? near : isnan(x) ? x : copysign(far, x);\n}}"
    )
}
