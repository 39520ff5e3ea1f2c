//! Values worth trying.

use super::choices::Choices;
use crate::arith;
use crate::dtype::DType;
use crate::scalar::Scalar;

/// A constant: zero, one that leaves things as they are, a small number, one at an edge of the dtype, or any bits.
pub(super) fn constant(choices: &mut Choices<'_>, dtype: DType) -> Scalar {
    match choices.below(8) {
        0 => Scalar::zero(dtype),
        1 | 2 => neutral(dtype, choices.byte()),
        3 | 4 => small(dtype, choices.byte()),
        5 | 6 => edge(dtype, choices.byte()),
        _ => Scalar::from_bits(dtype, bits(dtype, choices.word())),
    }
}

/// An element of a buffer, from a random number: as [`constant`], small numbers more often.
pub(super) fn element(dtype: DType, random: u64) -> Scalar {
    let byte = (random >> 8) as u8;
    match random as u8 {
        0..=143 => small(dtype, byte),
        144..=227 => edge(dtype, byte),
        _ => Scalar::from_bits(dtype, bits(dtype, random.rotate_left(23))),
    }
}

fn bits(dtype: DType, random: u64) -> u64 {
    if dtype == DType::Bool { random & 1 } else { random }
}

/// What algebra has rules about: 1, -1, 2 and their kind.
pub(super) fn neutral(dtype: DType, byte: u8) -> Scalar {
    let at = byte as usize;
    if dtype.is_float() {
        let all = [1.0, -0.0, 2.0, -1.0, 0.5, 4.0, -8.0, 1.5];
        return arith::cast(Scalar::f32(all[at % all.len()]), dtype);
    }
    let all = [1, -1, 2, 8, 3];
    Scalar::int(dtype, all[at % all.len()])
}

/// A number around zero; floats in quarters.
fn small(dtype: DType, byte: u8) -> Scalar {
    match dtype {
        DType::Bool => Scalar::bool(byte & 1 != 0),
        d if d.is_float() => arith::cast(Scalar::f32(f32::from(byte as i8) / 4.0), d),
        d => Scalar::int(d, i128::from(byte as i8 % 17)),
    }
}

/// The ends of the dtype's range, and what lies next to them.
fn edge(dtype: DType, byte: u8) -> Scalar {
    let width = dtype.bits();
    let sign = 1u64 << (width - 1);
    let mantissa = match dtype {
        DType::F16 => 10,
        DType::BF16 => 7,
        DType::F32 => 23,
        _ => {
            // MIN, MAX, -1, 1, and the neighbours of MIN and MAX.
            let all = [sign, sign - 1, u64::MAX, 1, sign + 1, sign - 2, 2, width.into()];
            let bits = all[byte as usize % all.len()];
            return Scalar::from_bits(dtype, bits);
        }
    };
    let infinity = (sign - 1) & !((1u64 << mantissa) - 1);
    let all = [
        sign,                                  // -0
        infinity,                              // inf
        infinity | sign,                       // -inf
        infinity | 1 << (mantissa - 1),        // the usual NaN
        infinity | 1,                          // a signalling NaN
        infinity | sign | 5 << (mantissa - 3), // a NaN with a payload
        1,                                     // the least subnormal
        sign | ((1 << mantissa) - 1),          // the largest negative subnormal
        1 << mantissa,                         // the least normal
        infinity - 1,                          // the largest number
    ];
    Scalar::from_bits(dtype, all[byte as usize % all.len()])
}
