//! `f32` functions without branches, so that loops over them become vector code.
//!
//! Errors are against the exact result, in units of the last place, found by the tests of this crate:
//! they are part of the language's bounds for back-ends.

/// `a · b + c`: rounded once if `FUSED`, else twice.
#[inline(always)]
pub(crate) fn mul_add<const FUSED: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

#[inline(always)]
fn mul_add64<const FUSED: bool>(a: f64, b: f64, c: f64) -> f64 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// 1.5 · 2^23: added to a value far below 2^22, it leaves the nearest integer in the low bits.
pub(crate) const MAGIC: f32 = 12_582_912.0;

/// The nearest integer as a float and as an integer, of `shifted`, which is a value far below 2^22 plus
/// [`MAGIC`]. Of a NaN: NaN, and any integer.
#[inline(always)]
fn nearest(shifted: f32) -> (f32, i32) {
    let whole = (shifted.to_bits() as i32).wrapping_sub(MAGIC.to_bits() as i32);
    (shifted - MAGIC, whole)
}

/// 2^n for -126 ≤ n ≤ 127.
#[inline(always)]
fn power(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// `x · 2^n` for -280 < n < 280 and x near 1, rounding once where the result is subnormal.
#[inline(always)]
fn scale(x: f32, n: i32) -> f32 {
    let half = n >> 1;
    x * power(half) * power(n.wrapping_sub(half))
}

/// ln 2 in two parts, the first with few bits so that its product with a small integer is exact.
pub(crate) const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];

/// e^r = 1 + r + r² · p(r) for |r| ≤ ln 2 / 2: the coefficients of p, from the constant on. Fitted for the
/// smallest relative error of e^r there, 3.1e-9.
pub(crate) const EXP: [f32; 5] =
    [0.499_999_94, 0.166_665_21, 0.041_668_39, 0.008_368_745, 0.001_381_453_9];

/// e^x; at most 1.5 units.
#[inline(always)]
pub fn exp<const FUSED: bool>(x: f32) -> f32 {
    // Beyond these the result is 0 or infinity anyway; NaN passes through.
    let x = if x < -105.0 { -105.0 } else { x };
    let x = if x > 90.0 { 90.0 } else { x };
    let (n, whole) = nearest(mul_add::<FUSED>(x, std::f32::consts::LOG2_E, MAGIC));
    let r = mul_add::<FUSED>(n, -LN_2[0], x);
    let r = mul_add::<FUSED>(n, -LN_2[1], r);
    scale(exp_near_zero::<FUSED>(r), whole)
}

/// e^r for |r| ≤ ln 2 / 2.
#[inline(always)]
fn exp_near_zero<const FUSED: bool>(r: f32) -> f32 {
    let mut p = EXP[4];
    for n in (0..4).rev() {
        p = mul_add::<FUSED>(p, r, EXP[n]);
    }
    p = mul_add::<FUSED>(p, r, 1.0);
    mul_add::<FUSED>(p, r, 1.0)
}

/// 2^x; at most 1.5 units.
#[inline(always)]
pub fn exp2<const FUSED: bool>(x: f32) -> f32 {
    let x = if x < -151.0 { -151.0 } else { x };
    let x = if x > 129.0 { 129.0 } else { x };
    let (n, whole) = nearest(x + MAGIC);
    scale(exp_near_zero::<FUSED>((x - n) * std::f32::consts::LN_2), whole)
}

/// ln(x) as a sum `n · ln 2 + r`, in `f64` so that neither part loses anything.
#[inline(always)]
fn log64<const FUSED: bool>(x: f32) -> f64 {
    // As f64 no positive x is subnormal.
    let bits = f64::from(x).to_bits();
    // The mantissa in √½ .. √2.
    let shifted = bits.wrapping_sub(0x3fe6_a09e_667f_3bcd);
    let n = (shifted as i64) >> 52;
    let m = f64::from_bits(bits.wrapping_sub((n as u64) << 52));
    // ln m = 2 artanh((m - 1) / (m + 1)).
    let s = (m - 1.0) / (m + 1.0);
    let t = s * s;
    let mut p = 1.0 / 13.0;
    p = mul_add64::<FUSED>(p, t, 1.0 / 11.0);
    p = mul_add64::<FUSED>(p, t, 1.0 / 9.0);
    p = mul_add64::<FUSED>(p, t, 1.0 / 7.0);
    p = mul_add64::<FUSED>(p, t, 1.0 / 5.0);
    p = mul_add64::<FUSED>(p, t, 1.0 / 3.0);
    let ln = 2.0 * mul_add64::<FUSED>(p * t, s, s);
    // n is within ±1074, so the conversion through i32 is exact and vectorizes.
    mul_add64::<FUSED>(f64::from(n as i32), std::f64::consts::LN_2, ln)
}

/// What a logarithm is where x is 0, negative, infinite or NaN.
#[inline(always)]
fn log_edges(x: f32, value: f32) -> f32 {
    let value = if x == 0.0 { f32::NEG_INFINITY } else { value };
    let value = if x == f32::INFINITY { f32::INFINITY } else { value };
    let value = if x < 0.0 { f32::NAN } else { value };
    if x.is_nan() { x } else { value }
}

/// ln(x); at most 1 unit.
#[inline(always)]
pub fn log<const FUSED: bool>(x: f32) -> f32 {
    log_edges(x, log64::<FUSED>(x) as f32)
}

/// log2(x); at most 1 unit.
#[inline(always)]
pub fn log2<const FUSED: bool>(x: f32) -> f32 {
    log_edges(x, (log64::<FUSED>(x) * std::f64::consts::LOG2_E) as f32)
}

/// tanh(x); at most 3 units.
#[inline(always)]
pub fn tanh<const FUSED: bool>(x: f32) -> f32 {
    let a = x.abs();
    // Near 0 the exponential would cancel: an odd polynomial there (Cephes' `tanhf`).
    let t = a * a;
    let mut p = -5.704_988_7e-3;
    p = mul_add::<FUSED>(p, t, 2.063_908_8e-2);
    p = mul_add::<FUSED>(p, t, -5.373_971_6e-2);
    p = mul_add::<FUSED>(p, t, 1.333_144_2e-1);
    p = mul_add::<FUSED>(p, t, -3.333_328_4e-1);
    let small = mul_add::<FUSED>(p * t, a, a);
    let large = 1.0 - 2.0 / (exp::<FUSED>(a + a) + 1.0);
    let value = if a < 0.625 { small } else { large };
    if x.is_nan() { x } else { value.copysign(x) }
}

/// 1 / (1 + e^-x); at most 3 units.
#[inline(always)]
pub fn sigmoid<const FUSED: bool>(x: f32) -> f32 {
    // With e^-|x| nothing overflows and small results keep their digits.
    let e = exp::<FUSED>(-x.abs());
    let top = if x < 0.0 { e } else { 1.0 };
    top / (1.0 + e)
}

/// erf(x) / x as a polynomial in (x² - 8) / 8 for |x| ≤ 4: the Chebyshev series of degree 18, with a
/// relative error of 5e-10.
const ERF: [f64; 19] = [
    0.353_530_995_618_831_9,
    -0.176_576_235_873_099_23,
    0.131_675_121_780_283_68,
    -0.107_710_289_378_875_92,
    0.090_208_834_047_992_63,
    -0.074_730_536_103_012_61,
    0.059_888_935_456_429_37,
    -0.045_744_001_710_290_14,
    0.033_047_585_740_148_655,
    -0.022_563_597_756_848_353,
    0.014_397_568_344_833_19,
    -0.008_382_074_055_127_475,
    0.004_746_829_177_534_551,
    -0.002_911_839_080_411_482_4,
    0.001_438_018_443_423_061_4,
    -0.000_324_302_537_933_363_06,
    0.000_158_340_962_343_572_76,
    -0.000_246_708_834_765_738_9,
    9.735_202_274_896_437e-5,
];

/// The error function; at most 1 unit.
#[inline(always)]
pub fn erf<const FUSED: bool>(x: f32) -> f32 {
    let wide = f64::from(x);
    let u = mul_add64::<FUSED>(wide, wide * 0.125, -1.0);
    let mut p = ERF[18];
    for n in (0..18).rev() {
        p = mul_add64::<FUSED>(p, u, ERF[n]);
    }
    let inner = (p * wide) as f32;
    // erfc(4) is half a unit of 1.
    let value = if x.abs() > 4.0 { 1f32.copysign(x) } else { inner };
    if x.is_nan() { x } else { value }
}

/// Beyond this, `sin` and `cos` take the library's reduction.
pub const SMALL_ANGLE: f32 = 1e5;

/// The sine (`SHIFT` 0) or cosine (`SHIFT` 1) of an angle of at most [`SMALL_ANGLE`]; at most 1 unit.
#[inline(always)]
pub fn sine<const FUSED: bool, const SHIFT: i32>(x: f32) -> f32 {
    const MAGIC: f64 = 6_755_399_441_055_744.0; // 1.5 · 2^52
    let wide = f64::from(x);
    let quarters = mul_add64::<FUSED>(wide, std::f64::consts::FRAC_2_PI, MAGIC);
    // The low bits of the sum are the integer.
    let quadrant = (quarters.to_bits() as i32).wrapping_add(SHIFT);
    let n = quarters - MAGIC;
    // π/2 in two parts: at most 10^5 quarters, so the product with the first, of 33 bits, is exact.
    let r = mul_add64::<FUSED>(n, -1.570_796_326_734_125_6, wide);
    let r = mul_add64::<FUSED>(n, -6.077_100_506_506_192e-11, r);
    let t = r * r;
    let mut s = 2.755_731_922_398_589e-6;
    s = mul_add64::<FUSED>(s, t, -1.984_126_984_126_984e-4);
    s = mul_add64::<FUSED>(s, t, 8.333_333_333_333_333e-3);
    s = mul_add64::<FUSED>(s, t, -1.666_666_666_666_666_6e-1);
    let s = mul_add64::<FUSED>(s * t, r, r);
    let mut c = -2.755_731_922_398_589e-7;
    c = mul_add64::<FUSED>(c, t, 2.480_158_730_158_73e-5);
    c = mul_add64::<FUSED>(c, t, -1.388_888_888_888_889e-3);
    c = mul_add64::<FUSED>(c, t, 4.166_666_666_666_666_4e-2);
    c = mul_add64::<FUSED>(c, t, -0.5);
    let c = mul_add64::<FUSED>(c, t, 1.0);
    let value = if quadrant & 1 == 0 { s } else { c };
    let value = if quadrant & 2 == 0 { value } else { -value };
    value as f32
}
