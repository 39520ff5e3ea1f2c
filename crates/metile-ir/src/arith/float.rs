//! `f32` functions. Transcendental ones are computed in `f64` and rounded once.

use crate::tile::{BinaryOp, UnaryOp};

/// The function `op` is on `f32`; `None` for integer operations.
pub fn unary(op: UnaryOp) -> Option<fn(f32) -> f32> {
    Some(match op {
        UnaryOp::Neg => |x| f32::from_bits(x.to_bits() ^ (1 << 31)),
        UnaryOp::Abs => |x| f32::from_bits(x.to_bits() & !(1 << 31)),
        UnaryOp::Exp => |x| libm::exp(f64::from(x)) as f32,
        UnaryOp::Exp2 => |x| libm::exp2(f64::from(x)) as f32,
        UnaryOp::Log => |x| libm::log(f64::from(x)) as f32,
        UnaryOp::Log2 => |x| libm::log2(f64::from(x)) as f32,
        UnaryOp::Sqrt => libm::sqrtf,
        UnaryOp::Rsqrt => |x| (1.0 / libm::sqrt(f64::from(x))) as f32,
        UnaryOp::Sin => |x| libm::sin(f64::from(x)) as f32,
        UnaryOp::Cos => |x| libm::cos(f64::from(x)) as f32,
        UnaryOp::Tanh => |x| libm::tanh(f64::from(x)) as f32,
        UnaryOp::Sigmoid => |x| (1.0 / (1.0 + libm::exp(-f64::from(x)))) as f32,
        UnaryOp::Erf => |x| libm::erf(f64::from(x)) as f32,
        UnaryOp::Floor => libm::floorf,
        UnaryOp::Ceil => libm::ceilf,
        UnaryOp::Round => f32::round_ties_even,
        UnaryOp::Not | UnaryOp::ReverseBits => return None,
    })
}

/// The function `op` is on `f32`; `None` for bit operations.
pub fn binary(op: BinaryOp) -> Option<fn(f32, f32) -> f32> {
    Some(match op {
        BinaryOp::Add => |a, b| a + b,
        BinaryOp::Sub => |a, b| a - b,
        BinaryOp::Mul => |a, b| a * b,
        BinaryOp::Div => |a, b| a / b,
        BinaryOp::Rem => libm::fmodf,
        BinaryOp::Max => max,
        BinaryOp::Min => min,
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor | BinaryOp::Shl | BinaryOp::Shr => {
            return None;
        }
    })
}

/// The larger; NaN if either is, +0 above -0.
pub fn max(a: f32, b: f32) -> f32 {
    if a.is_nan() || b.is_nan() {
        f32::NAN
    } else if a > b || (a == b && a.is_sign_positive()) {
        a
    } else {
        b
    }
}

/// The smaller; NaN if either is, -0 below +0.
pub fn min(a: f32, b: f32) -> f32 {
    if a.is_nan() || b.is_nan() {
        f32::NAN
    } else if a < b || (a == b && a.is_sign_negative()) {
        a
    } else {
        b
    }
}

/// `a * b + c` rounded once.
///
/// The product is exact in `f64`. The sum is rounded to odd there: where it is inexact, its last bit
/// is set, so that rounding to `f32` sees that there was more. Written out, because the portable path
/// of `libm::fmaf` looks for ties at the last place of a normal `f32` only and so rounds subnormal
/// results twice; it would differ from the same function where the processor has the instruction.
pub fn fma(a: f32, b: f32, c: f32) -> f32 {
    let (product, addend) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = product + addend;
    if !sum.is_finite() {
        return sum as f32;
    }
    // What the sum lost, exactly (Knuth's two-sum).
    let part = sum - product;
    let lost = (product - (sum - part)) + (addend - part);
    let mut bits = sum.to_bits();
    if lost != 0.0 && bits & 1 == 0 {
        // To the neighbour on the side of the exact value, which is odd.
        bits = if (lost > 0.0) == (sum > 0.0) { bits + 1 } else { bits - 1 };
    }
    f64::from_bits(bits) as f32
}
