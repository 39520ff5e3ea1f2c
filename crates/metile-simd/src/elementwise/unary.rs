//! One operand.

use super::int::Int;
use super::{Work, dispatch, float, math, run, run_mut};
use crate::Level;
use metile_ir::dtype::DType;
use metile_ir::tile::UnaryOp;

/// Applies a function to each element.
struct Map<'r, T, U, F> {
    a: &'r [T],
    out: &'r mut [U],
    f: F,
}
impl<T: Copy, U, F: Fn(T) -> U> Work for Map<'_, T, U, F> {
    type Output = ();
    #[inline(always)]
    fn go<const FUSED: bool>(self) {
        for (out, &a) in self.out.iter_mut().zip(self.a) {
            *out = (self.f)(a);
        }
    }
}

/// `out = f(a)` at every level.
pub(super) fn map<T: Copy, U>(level: Level, a: &[T], out: &mut [U], f: impl Fn(T) -> U) {
    dispatch(level, Map { a, out, f });
}

/// Functions that are built with and without fused multiply-add.
macro_rules! fused {
    ($($name:ident)*) => {$(
        #[allow(non_camel_case_types)]
        struct $name<'r>(&'r [f32], &'r mut [f32]);
        impl Work for $name<'_> {
            type Output = ();
            #[inline(always)]
            fn go<const FUSED: bool>(self) {
                for (out, &x) in self.1.iter_mut().zip(self.0) {
                    *out = math::$name::<FUSED>(x);
                }
            }
        }
    )*};
}
fused!(exp exp2 log log2 tanh sigmoid erf);

/// `sin` or `cos`. Angles too large for the fast reduction are done again, one by one.
struct Sine<'r, const SHIFT: i32>(&'r [f32], &'r mut [f32]);
impl<const SHIFT: i32> Work for Sine<'_, SHIFT> {
    type Output = bool;
    #[inline(always)]
    fn go<const FUSED: bool>(self) -> bool {
        let mut large = false;
        for (out, &x) in self.1.iter_mut().zip(self.0) {
            *out = math::sine::<FUSED, SHIFT>(x);
            large |= is_large(x);
        }
        large
    }
}

#[inline(always)]
fn is_large(x: f32) -> bool {
    (x.abs() > math::SMALL_ANGLE) | x.is_nan()
}

fn sine<const SHIFT: i32>(level: Level, a: &[f32], out: &mut [f32], exact: fn(f64) -> f64) {
    if dispatch(level, Sine::<SHIFT>(a, out)) {
        for (out, &x) in out.iter_mut().zip(a) {
            if is_large(x) {
                *out = exact(f64::from(x)) as f32;
            }
        }
    }
}

fn floats(level: Level, op: UnaryOp, a: &[f32], out: &mut [f32]) {
    match op {
        UnaryOp::Neg => map(level, a, out, float::neg),
        UnaryOp::Abs => map(level, a, out, float::abs),
        UnaryOp::Exp => dispatch(level, exp(a, out)),
        UnaryOp::Exp2 => dispatch(level, exp2(a, out)),
        UnaryOp::Log => dispatch(level, log(a, out)),
        UnaryOp::Log2 => dispatch(level, log2(a, out)),
        UnaryOp::Sqrt => map(level, a, out, f32::sqrt),
        UnaryOp::Rsqrt => map(level, a, out, |x: f32| 1.0 / x.sqrt()),
        UnaryOp::Sin => sine::<0>(level, a, out, f64::sin),
        UnaryOp::Cos => sine::<1>(level, a, out, f64::cos),
        UnaryOp::Tanh => dispatch(level, tanh(a, out)),
        UnaryOp::Sigmoid => dispatch(level, sigmoid(a, out)),
        UnaryOp::Erf => dispatch(level, erf(a, out)),
        UnaryOp::Floor => map(level, a, out, f32::floor),
        UnaryOp::Ceil => map(level, a, out, f32::ceil),
        UnaryOp::Round => map(level, a, out, f32::round_ties_even),
        // Operations on integers only; the verifier refuses them here.
        UnaryOp::Not | UnaryOp::ReverseBits => out.copy_from_slice(a),
    }
}

fn ints<T: Int>(_: Level, op: UnaryOp, a: &[T], out: &mut [T]) {
    let f: fn(T) -> T = match op {
        UnaryOp::Neg => T::neg,
        UnaryOp::Abs => T::abs,
        UnaryOp::ReverseBits => T::reverse_bits,
        // The only other one that is defined on integers.
        _ => T::not,
    };
    for (out, &a) in out.iter_mut().zip(a) {
        *out = f(a);
    }
}

/// `out = op a`, `n` elements.
///
/// # Safety
/// The runs are valid and aligned for `n` elements of `dtype`; `out` overlaps nothing that is read.
pub unsafe fn unary(level: Level, op: UnaryOp, dtype: DType, a: *const u8, out: *mut u8, n: usize) {
    macro_rules! on {
        ($ty:ty, $f:ident) => {{
            // SAFETY: as the caller promises.
            let (a, out) = unsafe { (run::<$ty>(a, n), run_mut::<$ty>(out, n)) };
            $f(level, op, a, out)
        }};
    }
    match dtype {
        DType::F32 => on!(f32, floats),
        DType::I8 => on!(i8, ints),
        DType::U8 => on!(u8, ints),
        DType::I16 => on!(i16, ints),
        DType::U16 => on!(u16, ints),
        DType::I32 => on!(i32, ints),
        DType::U32 => on!(u32, ints),
        DType::I64 => on!(i64, ints),
        DType::U64 => on!(u64, ints),
        DType::Bool => {
            // SAFETY: as the caller promises.
            let (a, out) = unsafe { (run::<u8>(a, n), run_mut::<u8>(out, n)) };
            map(level, a, out, |x: u8| u8::from(x == 0));
        }
        // Arithmetic is not defined on these.
        DType::F16 | DType::BF16 => {}
    }
}
