//! `f32` operations whose result is exact or correctly rounded.

/// The larger; NaN if either is, +0 above -0.
#[inline(always)]
pub(crate) fn max(a: f32, b: f32) -> f32 {
    let larger = if a > b { a } else { b };
    // Equal values differ in the sign of 0 at most.
    let value = if a == b { f32::from_bits(a.to_bits() & b.to_bits()) } else { larger };
    if a.is_nan() || b.is_nan() { f32::NAN } else { value }
}

/// The smaller; NaN if either is, -0 below +0.
#[inline(always)]
pub(crate) fn min(a: f32, b: f32) -> f32 {
    let smaller = if a < b { a } else { b };
    let value = if a == b { f32::from_bits(a.to_bits() | b.to_bits()) } else { smaller };
    if a.is_nan() || b.is_nan() { f32::NAN } else { value }
}

#[inline(always)]
pub(crate) fn neg(x: f32) -> f32 {
    f32::from_bits(x.to_bits() ^ (1 << 31))
}
#[inline(always)]
pub(crate) fn abs(x: f32) -> f32 {
    f32::from_bits(x.to_bits() & !(1 << 31))
}
