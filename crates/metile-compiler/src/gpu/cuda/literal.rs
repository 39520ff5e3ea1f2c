//! Types and constants in C++.

use metile_ir::dtype::DType;
use metile_ir::scalar::Scalar;

/// The name of a register's type; `prelude/types.h` has their definitions.
pub fn c_type(dtype: DType) -> &'static str {
    dtype.name()
}

/// `scalar` as an expression of its type.
pub fn literal(scalar: Scalar) -> String {
    let bits = scalar.bits();
    match scalar.dtype() {
        DType::Bool => if bits != 0 { "true" } else { "false" }.to_owned(),
        DType::I8 => format!("i8({})", bits as u8 as i8),
        DType::U8 => format!("u8({bits})"),
        DType::I16 => format!("i16({})", bits as u16 as i16),
        DType::U16 => format!("u16({bits})"),
        DType::I32 => match bits as u32 as i32 {
            i32::MIN => "i32(0x80000000u)".to_owned(),
            v if v < 0 => format!("({v})"),
            v => v.to_string(),
        },
        DType::U32 => format!("{bits}u"),
        DType::I64 => match bits as i64 {
            i64::MIN => "i64(0x8000000000000000ull)".to_owned(),
            v if v < 0 => format!("({v}ll)"),
            v => format!("{v}ll"),
        },
        DType::U64 => format!("{bits}ull"),
        DType::F16 | DType::BF16 => format!("{}({bits:#06x})", c_type(scalar.dtype())),
        DType::F32 => {
            let value = f32::from_bits(bits as u32);
            match value.is_finite() {
                // The shortest decimal that reads back to the same bits.
                true if value.is_sign_negative() => format!("({value:?}f)"),
                true => format!("{value:?}f"),
                false => format!("__uint_as_float({bits:#x}u)"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges() {
        let cases = [
            (Scalar::f32(-0.0), "(-0.0f)"),
            (Scalar::f32(1e-45), "1e-45f"),
            (Scalar::f32(1e20), "1e20f"),
            (Scalar::f32(f32::NEG_INFINITY), "__uint_as_float(0xff800000u)"),
            (Scalar::int(DType::I32, i128::from(i32::MIN)), "i32(0x80000000u)"),
            (Scalar::i64(i64::MIN), "i64(0x8000000000000000ull)"),
            (Scalar::int(DType::U64, -1), "18446744073709551615ull"),
            (Scalar::int(DType::I8, -3), "i8(-3)"),
            (Scalar::from_bits(DType::F16, 0x3c00), "f16(0x3c00)"),
        ];
        for (scalar, text) in cases {
            assert_eq!(literal(scalar), text);
        }
    }
}
