//! The language's arithmetic rules, through the language, on the interpreter.
//!
//! docs/src/language.md names these tests beside the rules they hold.

use metile::lang::tensor::Tensor as HostTensor;
use metile::prelude::*;
use metile::{Launched, lang::element::HostElement};

const N: usize = 16;

fn tensor<T: HostElement>(values: &[T]) -> HostTensor<T, 1> {
    Tensor::from_slice(&Device::interpreter(), [values.len()], values).unwrap()
}
fn zeros_of<T: HostElement>(n: usize) -> HostTensor<T, 1> {
    Tensor::zeros(&Device::interpreter(), [n]).unwrap()
}
fn launch(call: metile::KernelCall<'_>) -> Launched {
    call.grid(1).prepare(&Device::interpreter()).unwrap().launch().unwrap()
}
fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| if v.is_nan() { 0x7fc0_0000 } else { v.to_bits() }).collect()
}

#[kernel]
fn integer_ops<T: Int>(a: &Tensor<T, 1>, b: &Tensor<T, 1>, out: &mut Tensor<T, 2>) {
    let at = arange(N);
    let (x, y) = (a.load(at), b.load(at));
    out.store((0, at), x + y);
    out.store((1, at), x - y);
    out.store((2, at), x * y);
    out.store((3, at), x / y);
    out.store((4, at), x % y);
    out.store((5, at), min(x, y));
    out.store((6, at), max(x, y));
    out.store((7, at), x << y);
    out.store((8, at), x >> y);
    out.store((9, at), -x);
    out.store((10, at), abs(x));
    out.store((11, at), reverse_bits(x));
}

macro_rules! integers {
    ($($test:ident $ty:ty;)*) => {$(
        #[test]
        fn $test() {
            let edges = [0, 1, 2, 3, 7, <$ty>::MAX, <$ty>::MIN, <$ty>::MAX - 1, <$ty>::MIN + 1, (0 as $ty).wrapping_sub(1), (0 as $ty).wrapping_sub(7), 100];
            for &d in &edges {
                let a: Vec<$ty> = edges.to_vec();
                let b = vec![d; edges.len()];
                let mut out = Tensor::<$ty, 2>::zeros(&Device::interpreter(), [12, edges.len()]).unwrap();
                launch(integer_ops::<$ty>(&tensor(&a), &tensor(&b), &mut out));
                let got = out.to_vec().unwrap();
                let width = <$ty>::BITS as i128;
                for (i, &x) in a.iter().enumerate() {
                    let inside = (0..width).contains(&(d as i128));
                    let negative = (x as i128) < 0;
                    let want: [$ty; 12] = [
                        x.wrapping_add(d), x.wrapping_sub(d), x.wrapping_mul(d),
                        if d == 0 { 0 } else { x.wrapping_div(d) },
                        if d == 0 { x } else { x.wrapping_rem(d) },
                        x.min(d), x.max(d),
                        if inside { x << d } else { 0 },
                        if inside { x >> d } else if negative { (0 as $ty).wrapping_sub(1) } else { 0 },
                        (0 as $ty).wrapping_sub(x),
                        if negative { (0 as $ty).wrapping_sub(x) } else { x },
                        x.reverse_bits(),
                    ];
                    for (row, w) in want.iter().enumerate() {
                        assert_eq!(got[row * a.len() + i], *w, "row {row}: {x} and {d}");
                    }
                }
            }
        }
    )*};
}
// Integers wrap; x/0 = 0, x%0 = x, MIN/-1 = MIN; shift amounts outside 0..width shift everything out.
integers! {
    integers_i8 i8; integers_u8 u8; integers_i16 i16; integers_u16 u16;
    integers_i32 i32; integers_u32 u32; integers_i64 i64; integers_u64 u64;
}

#[kernel]
fn constant_division(out: &mut Tensor<i64, 1>, seven: i64, two: i64) {
    out.store(0, scalar(-7i64) / 2);
    out.store(1, scalar(-7i64) % 2);
    out.store(2, scalar(7i64) / scalar(-2i64));
    out.store(3, -seven / two);
    out.store(4, -seven % two);
    out.store(5, seven / -two);
    // Ceiling division is written out: it is not `/`.
    out.store(6, -((seven) / two));
}

#[test]
fn constants_and_run_time_values_divide_alike() {
    let mut out = zeros_of::<i64>(7);
    launch(constant_division(&mut out, 7, 2));
    assert_eq!(out.to_vec().unwrap(), [-3, -1, -3, -3, -1, -3, -3]);
}

#[kernel]
fn divide(out: &mut Tensor<i32, 1>, a: i32, b: i32) {
    out.store(0, a / b);
    out.store(1, a % b);
}

#[test]
fn odd_divisions_warn_with_the_line() {
    let mut out = zeros_of::<i32>(2);
    let launched = launch(divide(&mut out, 5, 0));
    assert_eq!(launched.warnings.len(), 2);
    let first = &launched.warnings[0];
    assert!(first.contains("program (0, 0, 0) computes 5 / 0 (lane 0)"), "{first}");
    assert!(first.contains("rules_arithmetic.rs:"), "{first}");
    assert!(first.contains("out.store(0, a / b);"), "{first}");
    assert_eq!(out.to_vec().unwrap(), [0, 5]);
    let launched = launch(divide(&mut out, i32::MIN, -1));
    assert_eq!(launched.warnings.len(), 2);
    assert_eq!(out.to_vec().unwrap(), [i32::MIN, 0]);
}

#[kernel]
fn float_ops(a: &Tensor<f32, 1>, b: &Tensor<f32, 1>, out: &mut Tensor<f32, 2>) {
    let at = arange(N);
    let (x, y) = (a.load(at), b.load(at));
    out.store((0, at), max(x, y));
    out.store((1, at), min(x, y));
    out.store((2, at), x + y);
    out.store((3, at), x * y);
    out.store((4, at), x / y);
    out.store((5, at), x % y);
    out.store((6, at), -x);
    out.store((7, at), abs(x));
    out.store((8, at), floor(x));
    out.store((9, at), ceil(x));
    out.store((10, at), round(x));
    out.store((11, at), sqrt(x));
    out.store((12, at), clamp(x, -1.0, y));
}

const FLOATS: [f32; 13] = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    2.5,
    -2.5,
    f32::NAN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::MAX,
    1e-40,
    -1e-45,
    f32::MIN_POSITIVE,
];

#[test]
fn floats_keep_nan_signed_zero_and_subnormals() {
    let max = |a: f32, b: f32| match (a.is_nan() || b.is_nan(), a == b) {
        (true, _) => f32::NAN,
        (_, true) => {
            if a.is_sign_positive() {
                a
            } else {
                b
            }
        }
        _ => {
            if a > b {
                a
            } else {
                b
            }
        }
    };
    let min = |a: f32, b: f32| -max(-a, -b);
    for y in FLOATS {
        let b = [y; FLOATS.len()];
        let mut out = Tensor::<f32, 2>::zeros(&Device::interpreter(), [13, FLOATS.len()]).unwrap();
        launch(float_ops(&tensor(&FLOATS), &tensor(&b), &mut out));
        let got = out.to_vec().unwrap();
        for (i, &x) in FLOATS.iter().enumerate() {
            let want = [
                max(x, y),
                min(x, y),
                x + y,
                x * y,
                x / y,
                x % y,
                -x,
                x.abs(),
                x.floor(),
                x.ceil(),
                x.round_ties_even(),
                x.sqrt(),
                min(max(x, -1.0), y),
            ];
            let column: Vec<f32> = (0..13).map(|row| got[row * FLOATS.len() + i]).collect();
            assert_eq!(bits(&column), bits(&want), "{x} and {y}");
        }
    }
}

#[kernel]
fn transcendental(a: &Tensor<f32, 1>, out: &mut Tensor<f32, 2>) {
    let at = arange(N);
    let x = a.load(at);
    out.store((0, at), exp(x));
    out.store((1, at), exp2(x));
    out.store((2, at), log(x));
    out.store((3, at), log2(x));
    out.store((4, at), rsqrt(x));
    out.store((5, at), sin(x));
    out.store((6, at), cos(x));
    out.store((7, at), tanh(x));
    out.store((8, at), sigmoid(x));
    out.store((9, at), erf(x));
    out.store((10, at), fma(x, x, -1.0));
}

#[test]
fn functions_agree_with_f64() {
    let x = [
        0.0f32,
        -0.0,
        0.5,
        -0.5,
        1.0,
        3.25,
        -7.5,
        20.0,
        88.0,
        -100.0,
        1e-30,
        f32::INFINITY,
        f32::NAN,
    ];
    let mut out = Tensor::<f32, 2>::zeros(&Device::interpreter(), [11, x.len()]).unwrap();
    launch(transcendental(&tensor(&x), &mut out));
    let got = out.to_vec().unwrap();
    let functions: [fn(f64) -> f64; 9] = [
        f64::exp,
        f64::exp2,
        f64::ln,
        f64::log2,
        |v| 1.0 / v.sqrt(),
        f64::sin,
        f64::cos,
        f64::tanh,
        |v| 1.0 / (1.0 + (-v).exp()),
    ];
    for (row, f) in functions.iter().enumerate() {
        for (i, &x) in x.iter().enumerate() {
            let (got, want) = (got[row * 13 + i], f(f64::from(x)) as f32);
            // Two good f64 libraries may round an f32 result differently only at a tie.
            let close = got == want
                || (got.is_nan() && want.is_nan())
                || (got - want).abs() <= want.abs() * 1.2e-7;
            assert!(close, "row {row} of {x}: {got} and {want}");
        }
    }
    assert!((got[9 * 13 + 2] - 0.520_499_9).abs() < 1e-7, "erf(0.5) = 0.5204998778");
    let fused = 3.25f32.mul_add(3.25, -1.0);
    assert_eq!(got[10 * 13 + 5], fused);
}

#[kernel]
fn narrow_floats<T: Float>(a: &Tensor<f32, 1>, out: &mut Tensor<T, 1>) {
    let at = arange(N);
    out.store(at, a.load(at));
}

// A store into bf16 rounds to nearest, ties to even, and keeps NaN a NaN; the host's conversion too.
#[test]
fn bf16_rounds_to_nearest_even() {
    let cases: [(u32, u16); 5] = [
        (0x3F80_8000, 0x3F80),
        (0x3F81_8000, 0x3F82),
        (0x3F80_FFFF, 0x3F81),
        (0x3E89_CCD5, 0x3E8A),
        (0x7F7F_FFFF, 0x7F80),
    ];
    let mut input: Vec<f32> = cases.iter().map(|c| f32::from_bits(c.0)).collect();
    input.push(f32::from_bits(0x7F80_0001));
    let mut out = zeros_of::<bf16>(6);
    launch(narrow_floats::<bf16>(&tensor(&input), &mut out));
    let got = out.to_vec().unwrap();
    for (got, (from, want)) in got.iter().zip(cases) {
        assert_eq!(got.to_bits(), want, "{from:#x}");
        assert_eq!(bf16::from_f32(f32::from_bits(from)).to_bits(), want);
    }
    assert!(got[5].is_nan());
}

#[kernel]
fn folded_bf16(out: &mut Tensor<bf16, 1>) {
    out.store(0, scalar(1.005f32));
    out.store(1, scalar(0.1f32) * 3.0);
}

#[test]
fn folded_constants_round_like_values() {
    let mut out = zeros_of::<bf16>(2);
    launch(folded_bf16(&mut out));
    let want = [bf16::from_f32(1.005), bf16::from_f32(0.1f32 * 3.0)];
    assert_eq!(out.to_vec().unwrap(), want);
}

#[test]
fn f16_stores_round_and_saturate_to_infinity() {
    let input =
        [65504.0f32, 65519.0, 65520.0, 1e-8, 5.96e-8, 1.0 + 1.0 / 2048.0, 1.0 + 3.0 / 2048.0, -0.0];
    let mut out = zeros_of::<f16>(8);
    launch(narrow_floats::<f16>(&tensor(&input), &mut out));
    let got: Vec<u16> = out.to_vec().unwrap().iter().map(|v| v.to_bits()).collect();
    assert_eq!(got, [0x7bff, 0x7bff, 0x7c00, 0, 1, 0x3c00, 0x3c02, 0x8000]);
}

#[kernel]
fn float_casts(
    a: &Tensor<f32, 1>,
    i8s: &mut Tensor<i8, 1>,
    u8s: &mut Tensor<u8, 1>,
    i64s: &mut Tensor<i64, 1>,
    bools: &mut Tensor<bool, 1>,
) {
    let at = arange(N);
    let x = a.load(at);
    i8s.store(at, x.to::<i8>());
    u8s.store(at, x as u8);
    i64s.store(at, x.to::<i64>());
    bools.store(at, x.to::<bool>());
}

#[test]
fn float_casts_saturate_and_nan_is_zero() {
    let x = [
        1.9f32,
        -1.9,
        127.5,
        128.0,
        -129.0,
        300.0,
        -1.0,
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        -0.0,
        1e-45,
    ];
    let n = x.len();
    let (mut a, mut b, mut c, mut d) =
        (zeros_of::<i8>(n), zeros_of::<u8>(n), zeros_of::<i64>(n), zeros_of::<bool>(n));
    launch(float_casts(&tensor(&x), &mut a, &mut b, &mut c, &mut d));
    assert_eq!(a.to_vec().unwrap(), x.map(|v| v as i8));
    assert_eq!(b.to_vec().unwrap(), x.map(|v| v as u8));
    assert_eq!(c.to_vec().unwrap(), x.map(|v| v as i64));
    assert_eq!(d.to_vec().unwrap(), x.map(|v| v != 0.0));
}

#[kernel]
fn integer_casts(
    a: &Tensor<i64, 1>,
    narrow: &mut Tensor<i8, 1>,
    unsigned: &mut Tensor<u16, 1>,
    half: &mut Tensor<f16, 1>,
    float: &mut Tensor<f32, 1>,
) {
    let at = arange(N);
    let x = a.load(at);
    narrow.store(at, x.to::<i8>());
    unsigned.store(at, x.to::<u16>());
    half.store(at, x.to::<f16>());
    float.store(at, x as f32);
}

#[test]
fn integer_casts_wrap_and_round() {
    let x = [0i64, 127, 128, -129, 65_535, 65_536, i64::MAX, i64::MIN, 16_777_217, 2049];
    let n = x.len();
    let (mut a, mut b, mut c, mut d) =
        (zeros_of::<i8>(n), zeros_of::<u16>(n), zeros_of::<f16>(n), zeros_of::<f32>(n));
    launch(integer_casts(&tensor(&x), &mut a, &mut b, &mut c, &mut d));
    assert_eq!(a.to_vec().unwrap(), x.map(|v| v as i8));
    assert_eq!(b.to_vec().unwrap(), x.map(|v| v as u16));
    assert_eq!(c.to_vec().unwrap(), x.map(|v| f16::from_f32(v as f32)));
    assert_eq!(d.to_vec().unwrap(), x.map(|v| v as f32));
}

#[kernel]
fn reinterpret(a: &Tensor<f32, 1>, out: &mut Tensor<u32, 1>, back: &mut Tensor<f32, 1>) {
    let at = arange(N);
    let word = a.load(at).bitcast::<u32>();
    out.store(at, word);
    back.store(at, word.bitcast::<f32>());
}

#[test]
fn bitcasts_and_moves_keep_nan_payloads() {
    let x = [f32::from_bits(0x7f80_0001), f32::from_bits(0xffc0_1234), -0.0, 1.0];
    let (mut words, mut back) = (zeros_of::<u32>(4), zeros_of::<f32>(4));
    launch(reinterpret(&tensor(&x), &mut words, &mut back));
    assert_eq!(words.to_vec().unwrap(), x.map(f32::to_bits));
    let back: Vec<u32> = back.to_vec().unwrap().iter().map(|v| v.to_bits()).collect();
    assert_eq!(back, x.map(f32::to_bits));
}

#[kernel]
fn reductions<const W: usize>(
    a: &Tensor<f32, 1>,
    out: &mut Tensor<f32, 1>,
    index: &mut Tensor<i64, 1>,
) {
    let v = a.load(arange(W));
    out.store(0, v.max());
    out.store(1, v.min());
    out.store(2, v.sum());
    index.store(0, v.argmax());
    index.store(1, v.argmin());
}

// max and min propagate NaN; argmax and argmin take the first NaN, else the lowest index.
#[test]
fn reductions_propagate_nan_and_take_the_first() {
    type Case<const W: usize> = ([f32; W], f32, f32, [i64; 2]);
    fn check<const W: usize>((values, max, min, at): Case<W>) {
        let (mut out, mut index) = (zeros_of::<f32>(3), zeros_of::<i64>(2));
        launch(reductions::<W>(&tensor(&values), &mut out, &mut index));
        let got = out.to_vec().unwrap();
        assert_eq!(bits(&got[..2]), bits(&[max, min]), "{values:?}");
        assert_eq!(index.to_vec().unwrap(), at, "{values:?}");
    }
    check(([f32::NAN, 6.0, 8.0], f32::NAN, f32::NAN, [0, 0]));
    check(([1.0, f32::NAN], f32::NAN, f32::NAN, [1, 1]));
    check(([f32::INFINITY, f32::NAN], f32::NAN, f32::NAN, [1, 1]));
    check(([-0.0, 0.0], 0.0, -0.0, [0, 0]));
    check(([5.0, 5.0], 5.0, 5.0, [0, 0]));
    check(([f32::NEG_INFINITY; 2], f32::NEG_INFINITY, f32::NEG_INFINITY, [0, 0]));
}

#[kernel]
fn widening<T: Float>(a: &Tensor<T, 1>, out: &mut Tensor<f32, 1>) {
    let at = arange(4);
    let v = a.load(at);
    // f16 · f16 is an f32: 300² does not fit an f16.
    out.store(at, v * v);
}

#[test]
fn arithmetic_on_f16_is_f32() {
    let x = [300.0f32, 0.1, -2.0, 65504.0].map(f16::from_f32);
    let mut out = zeros_of::<f32>(4);
    launch(widening::<f16>(&tensor(&x), &mut out));
    assert_eq!(out.to_vec().unwrap(), x.map(|v| v.to_f32() * v.to_f32()));
}

#[kernel]
fn same_bits(a: &Tensor<f32, 1>, out: &mut Tensor<f32, 1>) {
    let v = a.load(arange(4096));
    out.store(0, v.sum());
}

// Same device, same configuration, same bits.
#[test]
fn sums_are_repeatable() {
    let x: Vec<f32> = (0..4096).map(|i| [1e8f32, 1.0, -1e8][i % 3]).collect();
    let mut seen = Vec::new();
    for _ in 0..20 {
        let mut out = zeros_of::<f32>(1);
        launch(same_bits(&tensor(&x), &mut out));
        seen.push(out.to_vec().unwrap()[0].to_bits());
    }
    assert!(seen.windows(2).all(|w| w[0] == w[1]));
}

#[kernel]
fn dots(
    a: &Tensor<f32, 2>,
    b: &Tensor<f32, 2>,
    i: &Tensor<i8, 2>,
    out: &mut Tensor<f32, 1>,
    wrapped: &mut Tensor<i32, 2>,
) {
    let x = a.load_tile((0, 0), [1, 1024]);
    let y = b.load_tile((0, 0), [1, 1024]);
    out.store(0, dot(x, y.t()).sum());
    out.store(1, dot_add(x, y.t(), full([1, 1], 2.0f32)).sum());
    let q = i.load_tile((0, 0), [2, 3]);
    wrapped.store_tile((0, 0), dot(q, q.t()));
}

// 1,024 ones with 1,024 copies of 1 + 2^-11: TF32 would give 1024.
#[test]
fn dots_are_full_f32_and_i32() {
    let device = Device::interpreter();
    let ones = Tensor::from_slice(&device, [1, 1024], &[1.0f32; 1024]).unwrap();
    let b = Tensor::from_slice(&device, [1, 1024], &[1.0f32 + 2f32.powi(-11); 1024]).unwrap();
    let q = Tensor::from_slice(&device, [2, 3], &[-128i8, 127, 1, -128, -128, 0]).unwrap();
    let mut out = zeros_of::<f32>(2);
    let mut wrapped = Tensor::<i32, 2>::zeros(&device, [2, 2]).unwrap();
    launch(dots(&ones, &b, &q, &mut out, &mut wrapped));
    assert_eq!(out.to_vec().unwrap(), [1024.5, 1026.5]);
    assert_eq!(wrapped.to_vec().unwrap(), [32514, 128, 128, 32768]);
}
