//! Constants.

use metile_ir::{DType, Scalar};

/// An expression of exactly the type and bits of `scalar`.
pub fn literal(scalar: Scalar) -> String {
    let bits = scalar.bits();
    match scalar.dtype() {
        DType::Bool => if bits != 0 { "true" } else { "false" }.to_owned(),
        DType::I8 => format!("char({})", bits as u8 as i8),
        DType::U8 => format!("uchar({bits})"),
        DType::I16 => format!("short({})", bits as u16 as i16),
        DType::U16 => format!("ushort({bits})"),
        DType::I32 => signed(i64::from(bits as u32 as i32), i64::from(i32::MIN), ""),
        DType::U32 => format!("{bits}u"),
        DType::I64 => signed(bits as i64, i64::MIN, "L"),
        DType::U64 => format!("{bits}UL"),
        DType::F16 => format!("as_type<half>(ushort({bits:#06x}))"),
        DType::BF16 => format!("as_type<bfloat>(ushort({bits:#06x}))"),
        DType::F32 => float(f32::from_bits(bits as u32)),
    }
}

fn signed(value: i64, least: i64, suffix: &str) -> String {
    // The least value has no literal: its absolute value does not fit.
    if value == least {
        format!("({}{suffix} - 1{suffix})", least + 1)
    } else if value < 0 {
        format!("({value}{suffix})")
    } else {
        format!("{value}{suffix}")
    }
}

/// What a compiler reads back to the same bits: decimal, or the bits for what has no decimal or might be
/// flushed.
fn float(value: f32) -> String {
    if value.is_normal() || value == 0.0 {
        let text = format!("{value:?}f");
        return if value.is_sign_negative() { format!("({text})") } else { text };
    }
    format!("as_type<float>({:#010x}u)", value.to_bits())
}
