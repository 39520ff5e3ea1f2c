//! The scalar arithmetic, rule by rule.

use metile_ir::arith::{binary, bitcast, cast, compare, division_is_odd, float, fma, unary};
use metile_ir::tile::{BinaryOp as B, CompareOp as C, UnaryOp as U};
use metile_ir::{DType, Scalar};
use proptest::prelude::*;

const INTS: [DType; 8] =
    [DType::I8, DType::U8, DType::I16, DType::U16, DType::I32, DType::U32, DType::I64, DType::U64];

fn f(v: f32) -> Scalar {
    Scalar::f32(v)
}
fn int(d: DType, v: i128) -> Scalar {
    Scalar::int(d, v)
}
fn f1(op: U, v: f32) -> f32 {
    unary(op, f(v)).unwrap().as_f32().unwrap()
}
fn f2(op: B, a: f32, b: f32) -> f32 {
    binary(op, f(a), f(b)).unwrap().as_f32().unwrap()
}
fn i2(op: B, d: DType, a: i128, b: i128) -> i128 {
    binary(op, int(d, a), int(d, b)).unwrap().as_int().unwrap()
}
fn least(d: DType) -> i128 {
    if d.is_signed_int() { -(1 << (d.bits() - 1)) } else { 0 }
}
fn greatest(d: DType) -> i128 {
    (1i128 << (d.bits() - u32::from(d.is_signed_int()))) - 1
}

#[test]
fn division_truncates_and_is_total() {
    for d in [DType::I8, DType::I16, DType::I32, DType::I64] {
        let cases = [(-7, 2, -3, -1), (7, -2, -3, 1), (-7, -2, 3, -1), (7, 2, 3, 1)];
        for (a, b, quotient, rest) in cases {
            assert_eq!((i2(B::Div, d, a, b), i2(B::Rem, d, a, b)), (quotient, rest), "{d} {a} {b}");
            assert!(!division_is_odd(B::Div, int(d, a), int(d, b)));
        }
        let min = least(d);
        assert_eq!((i2(B::Div, d, min, -1), i2(B::Rem, d, min, -1)), (min, 0), "{d}");
        assert!(division_is_odd(B::Div, int(d, min), int(d, -1)));
        assert!(division_is_odd(B::Rem, int(d, min), int(d, -1)));
        assert!(!division_is_odd(B::Mul, int(d, min), int(d, -1)));
    }
    for d in INTS {
        for x in [least(d), 5, greatest(d)] {
            assert_eq!((i2(B::Div, d, x, 0), i2(B::Rem, d, x, 0)), (0, x), "{d}");
            assert!(division_is_odd(B::Rem, int(d, x), int(d, 0)));
        }
    }
    // All ones is not -1 in an unsigned dtype.
    assert!(!division_is_odd(B::Div, int(DType::U8, 128), int(DType::U8, 255)));
}

#[test]
fn integers_wrap() {
    for d in INTS {
        assert_eq!(i2(B::Add, d, greatest(d), 1), least(d), "{d}");
        assert_eq!(i2(B::Sub, d, least(d), 1), greatest(d), "{d}");
        assert_eq!(unary(U::Neg, int(d, least(d))), Some(int(d, least(d))), "{d}");
        assert_eq!(unary(U::Abs, int(d, least(d))), Some(int(d, least(d))), "{d}");
        assert_eq!(unary(U::Not, int(d, 0)), Some(int(d, -1)), "{d}");
    }
    assert_eq!(i2(B::Mul, DType::U64, u64::MAX.into(), u64::MAX.into()), 1);
    assert_eq!(i2(B::Mul, DType::I64, i64::MIN.into(), i64::MIN.into()), 0);
    assert_eq!(i2(B::Max, DType::U64, u64::MAX.into(), 1), u64::MAX.into());
    assert_eq!(i2(B::Min, DType::I64, i64::MIN.into(), 1), i64::MIN.into());
    assert_eq!(
        unary(U::ReverseBits, int(DType::U8, 0b0001_0110)),
        Some(int(DType::U8, 0b0110_1000))
    );
    assert_eq!(unary(U::ReverseBits, int(DType::I64, 1)), Some(int(DType::I64, i64::MIN.into())));
}

#[test]
fn shifts_outside_of_the_width_shift_everything_out() {
    for d in INTS {
        let width = i128::from(d.bits());
        assert_eq!(i2(B::Shl, d, 1, width - 1), int(d, 1 << (width - 1)).as_int().unwrap());
        assert_eq!(i2(B::Shl, d, -1, width), 0, "{d}");
        assert_eq!(i2(B::Shr, d, greatest(d), width), 0, "{d}");
        assert_eq!(i2(B::Shr, d, greatest(d), width - 1), i128::from(!d.is_signed_int()), "{d}");
        if d.is_signed_int() {
            assert_eq!(i2(B::Shl, d, 1, -1), 0, "{d}");
            assert_eq!(i2(B::Shr, d, -8, -1), -1, "{d}");
            assert_eq!(i2(B::Shr, d, -8, width), -1, "{d}");
            assert_eq!(i2(B::Shr, d, -8, 1), -4, "{d}");
        }
    }
}

#[test]
fn what_is_not_defined_says_so() {
    let t = Scalar::bool(true);
    assert_eq!(unary(U::Neg, t), None);
    assert_eq!(unary(U::Not, f(1.0)), None);
    assert_eq!(unary(U::Exp, int(DType::I32, 1)), None);
    assert_eq!(binary(B::Add, t, t), None);
    assert_eq!(binary(B::And, f(1.0), f(1.0)), None);
    assert_eq!(binary(B::Add, f(1.0), int(DType::I32, 1)), None);
    assert_eq!(compare(C::Lt, t, t), None);
    assert_eq!(fma(int(DType::I32, 1), f(1.0), f(1.0)), None);
    for half in [DType::F16, DType::BF16] {
        let one = cast(f(1.0), half);
        assert_eq!((unary(U::Neg, one), binary(B::Add, one, one)), (None, None));
        assert_eq!(compare(C::Eq, one, one), None);
    }
    assert_eq!(unary(U::Not, t), Some(Scalar::bool(false)));
    assert_eq!(binary(B::Xor, t, t), Some(Scalar::bool(false)));
}

#[test]
fn comparisons() {
    for (op, nan, less, equal) in [
        (C::Eq, false, false, true),
        (C::Ne, true, true, false),
        (C::Lt, false, true, false),
        (C::Le, false, true, true),
        (C::Gt, false, false, false),
        (C::Ge, false, false, true),
    ] {
        for (a, b) in [(f32::NAN, 1.0), (1.0, f32::NAN), (f32::NAN, f32::NAN)] {
            assert_eq!(compare(op, f(a), f(b)), Some(nan), "{op:?}");
        }
        assert_eq!(compare(op, f(f32::NEG_INFINITY), f(-1.0)), Some(less), "{op:?}");
        assert_eq!(compare(op, f(-0.0), f(0.0)), Some(equal), "{op:?}");
        assert_eq!(compare(op, int(DType::I8, -1), int(DType::I8, 1)), Some(less), "{op:?}");
        let max = int(DType::U64, u64::MAX.into());
        assert_eq!(compare(op, int(DType::U64, 1), max), Some(less), "{op:?}");
    }
    let (t, n) = (Scalar::bool(true), Scalar::bool(false));
    assert_eq!((compare(C::Eq, t, t), compare(C::Ne, t, n)), (Some(true), Some(true)));
}

#[test]
fn max_and_min_propagate_nan_and_order_zeros() {
    for op in [B::Max, B::Min] {
        for (a, b) in [(f32::NAN, 6.0), (f32::INFINITY, f32::NAN), (f32::NAN, f32::NAN)] {
            assert_eq!(f2(op, a, b).to_bits(), 0x7fc0_0000, "{op:?}");
        }
    }
    for (a, b) in [(0.0f32, -0.0f32), (-0.0, 0.0)] {
        assert_eq!(f2(B::Max, a, b).to_bits(), 0);
        assert_eq!(f2(B::Min, a, b).to_bits(), 0x8000_0000);
    }
    assert_eq!(f2(B::Max, f32::NEG_INFINITY, -1.0), -1.0);
    assert_eq!(f2(B::Min, 5.0, 5.0), 5.0);
}

#[test]
fn signs_are_bits() {
    for bits in [0x7f80_0001u32, 0xffc0_1234, 0, 0x8000_0000, 1, 0x3f80_0000] {
        let x = Scalar::from_bits(DType::F32, bits.into());
        let of = |op| unary(op, x).unwrap().bits();
        assert_eq!(of(U::Neg), u64::from(bits ^ 0x8000_0000));
        assert_eq!(of(U::Abs), u64::from(bits & 0x7fff_ffff));
    }
}

#[test]
fn rounding_is_to_even_and_keeps_the_sign_of_zero() {
    for (x, r) in [(0.5, 0.0), (1.5, 2.0), (2.5, 2.0), (-0.5, -0.0), (-1.5, -2.0), (-0.2, -0.0)] {
        assert_eq!(f1(U::Round, x).to_bits(), f32::to_bits(r), "{x}");
    }
    assert_eq!(f1(U::Ceil, -0.5).to_bits(), 0x8000_0000);
    assert_eq!(f1(U::Floor, -0.0).to_bits(), 0x8000_0000);
    assert_eq!((f1(U::Floor, -1.5), f1(U::Ceil, 1.5)), (-2.0, 2.0));
    assert_eq!(f1(U::Round, 8_388_609.0), 8_388_609.0);
}

#[test]
fn functions_at_the_ends() {
    let inf = f32::INFINITY;
    for (op, x, y) in [
        (U::Exp, -inf, 0.0),
        (U::Exp, 89.0, inf),
        (U::Exp2, -149.0, f32::from_bits(1)),
        (U::Exp2, 10.0, 1024.0),
        (U::Log, 0.0, -inf),
        (U::Log2, f32::from_bits(1), -149.0),
        (U::Sqrt, f32::from_bits(4), f32::from_bits(0x1b35_04f3)),
        (U::Sqrt, -0.0, -0.0),
        (U::Rsqrt, 0.0, inf),
        (U::Rsqrt, -0.0, -inf),
        (U::Rsqrt, 4.0, 0.5),
        (U::Rsqrt, inf, 0.0),
        (U::Tanh, inf, 1.0),
        (U::Sigmoid, 0.0, 0.5),
        (U::Sigmoid, -inf, 0.0),
        (U::Sigmoid, -1e30, 0.0),
        (U::Sigmoid, 1e30, 1.0),
        (U::Erf, -inf, -1.0),
        (U::Sin, -0.0, -0.0),
        (U::Cos, 0.0, 1.0),
    ] {
        if op == U::Sqrt && x > 0.0 {
            assert_eq!(f1(op, x), (f64::from(x).sqrt()) as f32, "{op:?} {x}");
        } else {
            assert_eq!(f1(op, x).to_bits(), f32::to_bits(y), "{op:?} {x}");
        }
    }
    for (op, x) in [(U::Log, -1.0), (U::Sqrt, -1.0), (U::Rsqrt, -1.0), (U::Sin, inf), (U::Cos, inf)]
    {
        assert!(f1(op, x).is_nan(), "{op:?}");
    }
    let rounded_once = |y: f64| y as f32;
    assert_eq!(f1(U::Exp, 1.0), rounded_once(std::f64::consts::E));
    assert_eq!(f1(U::Sigmoid, -100.0), rounded_once(1.0 / (1.0 + 100f64.exp())));
}

#[test]
fn subnormals_are_kept() {
    let tiny = f32::from_bits(1);
    assert_eq!(f2(B::Add, tiny, tiny).to_bits(), 2);
    assert_eq!(f2(B::Mul, f32::MIN_POSITIVE, 0.5).to_bits(), 0x0040_0000);
    assert_eq!(f2(B::Rem, f32::from_bits(7), f32::from_bits(4)).to_bits(), 3);
    assert_eq!(cast(f(tiny), DType::BF16).bits(), 0);
    assert_eq!(cast(f(5.960_464_5e-8), DType::F16).bits(), 1);
    assert_eq!(cast(Scalar::from_bits(DType::F16, 1), DType::F32), f(5.960_464_5e-8));
    assert_eq!(cast(Scalar::from_bits(DType::BF16, 1), DType::F32).bits(), 0x0001_0000);
}

#[test]
fn float_remainder_has_the_sign_of_the_dividend() {
    assert_eq!((f2(B::Rem, -7.5, 2.0), f2(B::Rem, 7.5, -2.0)), (-1.5, 1.5));
    assert_eq!(f2(B::Rem, -4.0, 2.0).to_bits(), 0x8000_0000);
    assert_eq!(f2(B::Rem, 3.0, f32::INFINITY), 3.0);
    assert!(f2(B::Rem, 3.0, 0.0).is_nan() && f2(B::Div, 0.0, 0.0).is_nan());
    assert_eq!(f2(B::Div, -1.0, 0.0), f32::NEG_INFINITY);
}

#[test]
fn to_bf16_and_f16() {
    for (from, to) in [
        (0x3F80_8000u32, 0x3F80),
        (0x3F81_8000, 0x3F82),
        (0x3F80_FFFF, 0x3F81),
        (0x3E89_CCD5, 0x3E8A),
        (0x7F7F_FFFF, 0x7F80),
        (0x8000_0000, 0x8000),
    ] {
        assert_eq!(cast(Scalar::from_bits(DType::F32, from.into()), DType::BF16).bits(), to);
    }
    for bits in [0x7F80_0001u64, 0xFF80_0001, 0x7FC0_0000, 0x7FFF_FFFF] {
        for to in [DType::BF16, DType::F16] {
            let nan = cast(Scalar::from_bits(DType::F32, bits), to);
            assert!(nan.as_f32().unwrap().is_nan(), "{bits:#x} to {to}");
        }
    }
    assert_eq!(cast(f(65519.0), DType::F16).bits(), 0x7bff);
    assert_eq!(cast(f(65520.0), DType::F16).bits(), 0x7c00);
    assert_eq!(cast(f(2049.0), DType::F16), cast(f(2048.0), DType::F16));
    // By way of f32: 2^24 + 1 loses its one before it is rounded again.
    assert_eq!(cast(int(DType::I32, 16_777_217), DType::BF16), cast(f(16_777_216.0), DType::BF16));
}

#[test]
fn floats_to_integers_saturate() {
    for d in INTS {
        for (x, y) in [
            (f32::NAN, 0),
            (f32::INFINITY, greatest(d)),
            (f32::NEG_INFINITY, least(d)),
            (1e30, greatest(d)),
            (-1e30, least(d)),
            (1.9, 1),
            (-0.9, 0),
            (-1.9, if d.is_signed_int() { -1 } else { 0 }),
        ] {
            assert_eq!(cast(f(x), d), int(d, y), "{x} to {d}");
        }
    }
    assert_eq!(cast(cast(f(-3.5), DType::F16), DType::I8), int(DType::I8, -3));
}

#[test]
fn other_casts() {
    assert_eq!(cast(int(DType::I32, 300), DType::U8), int(DType::U8, 44));
    assert_eq!(cast(int(DType::I8, -1), DType::U64), int(DType::U64, u64::MAX.into()));
    assert_eq!(cast(int(DType::U64, u64::MAX.into()), DType::I8), int(DType::I8, -1));
    assert_eq!(cast(int(DType::U64, u64::MAX.into()), DType::F32), f(18_446_744_073_709_551_616.0));
    assert_eq!(cast(int(DType::I32, 16_777_219), DType::F32), f(16_777_220.0));
    // One rounding, not by way of f64: this is above the middle of two f32.
    assert_eq!(cast(int(DType::I64, (1 << 60) + (1 << 36) + 1), DType::F32).bits(), 0x5d80_0001);
    for (x, truth) in [(0.0, false), (-0.0, false), (f32::NAN, true), (f32::from_bits(1), true)] {
        assert_eq!(cast(f(x), DType::Bool), Scalar::bool(truth), "{x}");
    }
    assert_eq!(cast(int(DType::I32, 256), DType::Bool), Scalar::bool(true));
    for d in DType::ALL {
        assert_eq!(cast(Scalar::bool(true), d), cast(f(1.0), d), "{d}");
        assert_eq!(cast(Scalar::bool(false), d), Scalar::zero(d), "{d}");
    }
    let signalling = Scalar::from_bits(DType::F32, 0x7f80_0001);
    assert_eq!(cast(signalling, DType::F32), signalling);
}

#[test]
fn bitcasts_keep_bits() {
    let x = Scalar::from_bits(DType::F32, 0x7f80_0001);
    assert_eq!(bitcast(x, DType::U32), Some(int(DType::U32, 0x7f80_0001)));
    assert_eq!(bitcast(int(DType::I16, -1), DType::F16).map(Scalar::bits), Some(0xffff));
    assert_eq!(bitcast(x, DType::U64), None);
    assert_eq!(bitcast(Scalar::bool(true), DType::U8), None);
    assert_eq!(bitcast(int(DType::U8, 1), DType::Bool), None);
}

#[test]
fn fma_rounds_once_even_where_the_result_is_subnormal() {
    assert_eq!(float::fma(f32::MAX, 2.0, f32::NEG_INFINITY), f32::NEG_INFINITY);
    assert!(float::fma(0.0, f32::INFINITY, 1.0).is_nan());
    assert_eq!(float::fma(-0.0, 1.0, 0.0).to_bits(), 0);
    assert_eq!(float::fma(-0.0, 1.0, -0.0).to_bits(), 0x8000_0000);
    let e = 2f32.powi(-12);
    assert_eq!(float::fma(1.0 + e, 1.0 + e, -1.0 - 2.0 * e), e * e);
    // A little below the middle of two subnormals, by less than f64 can tell: rounded there first, it
    // becomes the middle, and then goes to the even one above.
    let (scale, e) = (2f32.powi(-75), 2f32.powi(-23));
    let (a, b, c) = (scale * (1.0 + e), scale * (1.0 - e), f32::from_bits(0x0040_0001));
    let twice = (f64::from(a) * f64::from(b) + f64::from(c)) as f32;
    assert_eq!((twice.to_bits(), float::fma(a, b, c).to_bits()), (0x0040_0002, 0x0040_0001));
    assert_eq!(float::fma(-a, b, -c).to_bits(), 0x8040_0001);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    /// Against the machine's or the C library's fused multiply-add, ends of the range included.
    #[test]
    fn fma_is_the_platforms(a: u32, b: u32, c: u32, tiny: bool) {
        let shrink = |bits: u32| f32::from_bits(if tiny { bits & 0xa0ff_ffff } else { bits });
        let (a, b, c) = (shrink(a), shrink(b), f32::from_bits(if tiny { c & 0x80ff_ffff } else { c }));
        let (ours, theirs) = (float::fma(a, b, c), a.mul_add(b, c));
        prop_assert!(ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan(),
            "{a:e} * {b:e} + {c:e}: {ours:e}, not {theirs:e}");
    }

    /// Integer arithmetic against Rust's own on `i32`.
    #[test]
    fn i32_is_rusts(a: i32, b in prop_oneof![any::<i32>(), -2..40i32]) {
        let ours = |op| binary(op, int(DType::I32, a.into()), int(DType::I32, b.into()))
            .and_then(Scalar::as_int).map(|v| v as i32);
        prop_assert_eq!(ours(B::Add), Some(a.wrapping_add(b)));
        prop_assert_eq!(ours(B::Mul), Some(a.wrapping_mul(b)));
        prop_assert_eq!(ours(B::Div), Some(if b == 0 { 0 } else { a.wrapping_div(b) }));
        prop_assert_eq!(ours(B::Rem), Some(if b == 0 { a } else { a.wrapping_rem(b) }));
        let amount = u32::try_from(b).unwrap_or(u32::MAX);
        prop_assert_eq!(ours(B::Shl), Some(a.checked_shl(amount).unwrap_or(0)));
        prop_assert_eq!(ours(B::Shr), Some(a.checked_shr(amount).unwrap_or(a >> 31)));
    }
}
