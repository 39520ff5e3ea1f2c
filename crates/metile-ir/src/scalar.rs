//! One element of a tile as a constant.

use crate::dtype::DType;
use half::{bf16, f16};
use std::fmt;

/// One value with its dtype, kept as bits so that NaN payloads and `-0` compare as what they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Scalar {
    dtype: DType,
    bits: u64,
}

impl Scalar {
    /// The value of `dtype` whose memory, zero-extended, is `bits`. Bits beyond the dtype's width are
    /// dropped; any non-zero `bool` is true.
    pub fn from_bits(dtype: DType, bits: u64) -> Scalar {
        let bits = match dtype {
            DType::Bool => u64::from(bits != 0),
            DType::I64 | DType::U64 => bits,
            _ => bits & ((1u64 << dtype.bits()) - 1),
        };
        Scalar { dtype, bits }
    }

    /// A truth value.
    pub fn bool(v: bool) -> Scalar {
        Scalar { dtype: DType::Bool, bits: u64::from(v) }
    }
    /// An `i64`.
    pub fn i64(v: i64) -> Scalar {
        Scalar { dtype: DType::I64, bits: v as u64 }
    }
    /// An `f32`.
    pub fn f32(v: f32) -> Scalar {
        Scalar { dtype: DType::F32, bits: u64::from(v.to_bits()) }
    }
    /// An `f16`.
    pub fn f16(v: f16) -> Scalar {
        Scalar { dtype: DType::F16, bits: u64::from(v.to_bits()) }
    }
    /// A `bf16`.
    pub fn bf16(v: bf16) -> Scalar {
        Scalar { dtype: DType::BF16, bits: u64::from(v.to_bits()) }
    }
    /// An integer of `dtype`, wrapped to its width.
    ///
    /// For a dtype that is no integer the bits are taken as they are.
    pub fn int(dtype: DType, v: i128) -> Scalar {
        Scalar::from_bits(dtype, v as u64)
    }
    /// Zero, or false.
    pub fn zero(dtype: DType) -> Scalar {
        Scalar { dtype, bits: 0 }
    }

    /// The dtype.
    pub fn dtype(self) -> DType {
        self.dtype
    }
    /// The memory image, zero-extended.
    pub fn bits(self) -> u64 {
        self.bits
    }
    /// The value of an integer or truth value, sign-extended if signed; `None` for floats.
    pub fn as_int(self) -> Option<i128> {
        let b = self.bits;
        Some(match self.dtype {
            DType::Bool | DType::U8 | DType::U16 | DType::U32 | DType::U64 => i128::from(b),
            DType::I8 => i128::from(b as u8 as i8),
            DType::I16 => i128::from(b as u16 as i16),
            DType::I32 => i128::from(b as u32 as i32),
            DType::I64 => i128::from(b as i64),
            DType::F16 | DType::BF16 | DType::F32 => return None,
        })
    }
    /// The value of a float, widened exactly; `None` for the others.
    pub fn as_f32(self) -> Option<f32> {
        match self.dtype {
            DType::F16 => Some(f16::from_bits(self.bits as u16).to_f32()),
            DType::BF16 => Some(bf16::from_bits(self.bits as u16).to_f32()),
            DType::F32 => Some(f32::from_bits(self.bits as u32)),
            _ => None,
        }
    }
}

impl fmt::Display for Scalar {
    /// Integers in decimal, floats in the shortest decimal that reads back to the same bits, `inf`,
    /// `-inf`, and NaNs with their bits: `nan:0x7fc00000`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.dtype == DType::Bool {
            return f.write_str(if self.bits != 0 { "true" } else { "false" });
        }
        match (self.as_int(), self.as_f32()) {
            (Some(v), _) => v.fmt(f),
            (None, Some(v)) if v.is_nan() => write!(f, "nan:{:#x}", self.bits),
            (None, Some(v)) => write!(f, "{v:?}"),
            (None, None) => Ok(()),
        }
    }
}
