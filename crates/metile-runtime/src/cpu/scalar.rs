//! Scalar instructions.

use metile_compiler::cpu::ScalarOp;
use metile_ir::arith;
use metile_ir::dtype::DType;
use metile_ir::scalar::Scalar;
use metile_ir::tile::{BinaryOp, CompareOp};

/// `op(a, b, c)` on memory images.
pub(super) fn scalar(op: ScalarOp, a: u64, b: u64, c: u64) -> u64 {
    match op {
        ScalarOp::Move => a,
        ScalarOp::Select => {
            if a != 0 {
                b
            } else {
                c
            }
        }
        ScalarOp::Binary(binary, DType::I64) => index(binary, a as i64, b as i64) as u64,
        ScalarOp::Binary(binary, DType::F32) => {
            let (a, b) = (f32::from_bits(a as u32), f32::from_bits(b as u32));
            u64::from(float(binary, a, b).to_bits())
        }
        ScalarOp::Compare(compare, DType::I64) => u64::from(ordered(compare, a as i64, b as i64)),
        ScalarOp::Unary(unary, d) => {
            let value = arith::unary(unary, Scalar::from_bits(d, a));
            value.map_or(0, Scalar::bits)
        }
        ScalarOp::Binary(binary, d) => {
            let value = arith::binary(binary, Scalar::from_bits(d, a), Scalar::from_bits(d, b));
            value.map_or(0, Scalar::bits)
        }
        ScalarOp::Compare(compare, d) => {
            let value = arith::compare(compare, Scalar::from_bits(d, a), Scalar::from_bits(d, b));
            u64::from(value.unwrap_or(false))
        }
        ScalarOp::Fma => {
            let f = |bits: u64| f32::from_bits(bits as u32);
            u64::from(arith::float::fma(f(a), f(b), f(c)).to_bits())
        }
        ScalarOp::Cast(from, to) => arith::cast(Scalar::from_bits(from, a), to).bits(),
    }
}

/// Index arithmetic, which most scalars are.
fn index(op: BinaryOp, a: i64, b: i64) -> i64 {
    match op {
        BinaryOp::Add => a.wrapping_add(b),
        BinaryOp::Sub => a.wrapping_sub(b),
        BinaryOp::Mul => a.wrapping_mul(b),
        BinaryOp::Div if b != 0 => a.wrapping_div(b),
        BinaryOp::Div => 0,
        BinaryOp::Rem if b != 0 => a.wrapping_rem(b),
        BinaryOp::Rem => a,
        BinaryOp::Min => a.min(b),
        BinaryOp::Max => a.max(b),
        _ => {
            let value = arith::binary(op, Scalar::i64(a), Scalar::i64(b));
            value.map_or(0, |s| s.bits() as i64)
        }
    }
}

/// What follows from sums of rows, such as means.
fn float(op: BinaryOp, a: f32, b: f32) -> f32 {
    match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::Div => a / b,
        _ => arith::float::binary(op).map_or(0.0, |f| f(a, b)),
    }
}

fn ordered(op: CompareOp, a: i64, b: i64) -> bool {
    arith::holds(op, Some(a.cmp(&b)))
}
