//! Conversions between dtypes.

use crate::dtype::DType;
use crate::scalar::Scalar;
use half::{bf16, f16};

/// `a` converted by value: to floats nearest, ties to even; from floats to integers towards zero,
/// saturating, NaN to 0; between integers wrapping; to `bool` whether it is not zero. Integers reach
/// `f16` and `bf16` through `f32`.
pub fn cast(a: Scalar, to: DType) -> Scalar {
    if a.dtype() == to {
        return a;
    }
    let int = a.as_int();
    let float = match int {
        Some(value) => value as f32,
        None => a.as_f32().unwrap_or(f32::NAN),
    };
    match to {
        DType::F32 => Scalar::f32(float),
        DType::F16 => Scalar::f16(f16::from_f32(float)),
        DType::BF16 => Scalar::bf16(bf16::from_f32(float)),
        DType::Bool => Scalar::bool(int.map_or(float != 0.0, |v| v != 0)),
        _ => match int {
            Some(value) => Scalar::int(to, value),
            None => saturate(float, to),
        },
    }
}

fn saturate(value: f32, to: DType) -> Scalar {
    let value = match to {
        DType::I8 => i128::from(value as i8),
        DType::U8 => i128::from(value as u8),
        DType::I16 => i128::from(value as i16),
        DType::U16 => i128::from(value as u16),
        DType::I32 => i128::from(value as i32),
        DType::U32 => i128::from(value as u32),
        DType::U64 => i128::from(value as u64),
        _ => i128::from(value as i64),
    };
    Scalar::int(to, value)
}

/// The same bits as another dtype of the same width; `None` if widths differ or a side is `bool`.
pub fn bitcast(a: Scalar, to: DType) -> Option<Scalar> {
    let fits = a.dtype().bits() == to.bits() && a.dtype() != DType::Bool && to != DType::Bool;
    fits.then(|| Scalar::from_bits(to, a.bits()))
}
