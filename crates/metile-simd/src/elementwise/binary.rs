//! Two operands, and three.

use super::int::Int;
use super::unary::map;
use super::{MAX_RUN, Operand, Work, dispatch, float, run, run_mut};
use crate::Level;
use metile_ir::dtype::DType;
use metile_ir::tile::{BinaryOp, CompareOp};
use std::mem::MaybeUninit;

struct Zip<'r, T, U, F> {
    a: &'r [T],
    b: &'r [T],
    out: &'r mut [U],
    f: F,
}
impl<T: Copy, U, F: Fn(T, T) -> U> Work for Zip<'_, T, U, F> {
    type Output = ();
    #[inline(always)]
    fn go<const FUSED: bool>(self) {
        for ((out, &a), &b) in self.out.iter_mut().zip(self.a).zip(self.b) {
            *out = (self.f)(a, b);
        }
    }
}

/// Two operands of which one may be a single element.
#[derive(Clone, Copy)]
struct Pair<'r, T> {
    a: &'r [T],
    b: &'r [T],
    one_a: bool,
    one_b: bool,
}

impl<T: Copy> Pair<'_, T> {
    fn zip<U>(self, level: Level, out: &mut [U], f: impl Fn(T, T) -> U) {
        match (self.one_a, self.one_b) {
            (false, false) => dispatch(level, Zip { a: self.a, b: self.b, out, f }),
            (true, false) => {
                let a = self.a[0];
                map(level, self.b, out, |b| f(a, b));
            }
            (false, true) => {
                let b = self.b[0];
                map(level, self.a, out, |a| f(a, b));
            }
            (true, true) => {
                for out in out {
                    *out = f(self.a[0], self.b[0]);
                }
            }
        }
    }

    /// One loop for all levels, for dtypes that are rarely in a hurry.
    fn zip_plainly<U>(self, out: &mut [U], f: impl Fn(T, T) -> U) {
        let last = |run: &[T], i: usize| run[i.min(run.len() - 1)];
        for (i, out) in out.iter_mut().enumerate() {
            *out = f(last(self.a, i), last(self.b, i));
        }
    }

    /// Single elements are repeated first, for operations that are not worth three loops.
    fn zip_runs<U>(self, level: Level, out: &mut [U], f: impl Fn(T, T) -> U) {
        let n = out.len();
        if !self.one_a && !self.one_b {
            return dispatch(level, Zip { a: self.a, b: self.b, out, f });
        }
        let mut repeated = [const { MaybeUninit::uninit() }; MAX_RUN];
        if self.one_a {
            let a = repeat(self.a[0], &mut repeated[..n]);
            if self.one_b {
                return dispatch(level, Zip { a, b: a, out, f: |a, _| f(a, self.b[0]) });
            }
            return dispatch(level, Zip { a, b: self.b, out, f });
        }
        let b = repeat(self.b[0], &mut repeated[..n]);
        dispatch(level, Zip { a: self.a, b, out, f });
    }
}

/// `x` in every place.
fn repeat<T: Copy>(x: T, into: &mut [MaybeUninit<T>]) -> &[T] {
    for place in &mut *into {
        place.write(x);
    }
    // SAFETY: every place was written.
    unsafe { std::slice::from_raw_parts(into.as_ptr().cast(), into.len()) }
}

fn floats(level: Level, op: BinaryOp, p: Pair<'_, f32>, out: &mut [f32]) {
    match op {
        BinaryOp::Add => p.zip(level, out, |a, b| a + b),
        BinaryOp::Sub => p.zip(level, out, |a, b| a - b),
        BinaryOp::Mul => p.zip(level, out, |a, b| a * b),
        BinaryOp::Div => p.zip(level, out, |a, b| a / b),
        BinaryOp::Max => p.zip(level, out, float::max),
        BinaryOp::Min => p.zip(level, out, float::min),
        // The exact remainder takes a loop of its own for each element. Bit operations are refused by
        // the verifier.
        _ => p.zip_runs(Level::Portable, out, |a, b| a % b),
    }
}

/// Dtypes that programs compute with.
fn ints<T: Int>(level: Level, op: BinaryOp, p: Pair<'_, T>, out: &mut [T]) {
    macro_rules! zip {
        ($f:expr) => {
            p.zip_runs(level, out, $f)
        };
    }
    match op {
        BinaryOp::Add => zip!(T::add),
        BinaryOp::Sub => zip!(T::sub),
        BinaryOp::Mul => zip!(T::mul),
        BinaryOp::And => zip!(T::and),
        BinaryOp::Or => zip!(T::or),
        BinaryOp::Shl => zip!(T::shl),
        BinaryOp::Shr => zip!(T::shr),
        _ => rare_ints(op, p, out),
    }
}

/// Dtypes that are mostly stored.
fn rare_ints<T: Int>(op: BinaryOp, p: Pair<'_, T>, out: &mut [T]) {
    // One loop over a function pointer: dtypes times operations times levels would be many loops.
    let f: fn(T, T) -> T = match op {
        BinaryOp::Add => T::add,
        BinaryOp::Sub => T::sub,
        BinaryOp::Mul => T::mul,
        BinaryOp::Div => T::div,
        BinaryOp::Rem => T::rem,
        BinaryOp::Min => |a, b| if b < a { b } else { a },
        BinaryOp::Max => |a, b| if b > a { b } else { a },
        BinaryOp::And => T::and,
        BinaryOp::Or => T::or,
        BinaryOp::Xor => T::xor,
        BinaryOp::Shl => T::shl,
        BinaryOp::Shr => T::shr,
    };
    p.zip_plainly(out, f);
}

fn bools(level: Level, op: BinaryOp, p: Pair<'_, u8>, out: &mut [u8]) {
    match op {
        BinaryOp::And => p.zip_runs(level, out, |a, b| a & b),
        BinaryOp::Or => p.zip_runs(level, out, |a, b| a | b),
        // The only other one that is defined on truth values.
        _ => p.zip_plainly(out, |a, b| a ^ b),
    }
}

/// `f32` and `i64`, which masks are made of.
fn comparisons<T: Copy + PartialOrd>(level: Level, op: CompareOp, p: Pair<'_, T>, out: &mut [u8]) {
    match op {
        CompareOp::Eq => p.zip_runs(level, out, |a, b| u8::from(a == b)),
        CompareOp::Ne => p.zip_runs(level, out, |a, b| u8::from(a != b)),
        CompareOp::Lt => p.zip_runs(level, out, |a, b| u8::from(a < b)),
        CompareOp::Le => p.zip_runs(level, out, |a, b| u8::from(a <= b)),
        CompareOp::Gt => p.zip_runs(level, out, |a, b| u8::from(a > b)),
        CompareOp::Ge => p.zip_runs(level, out, |a, b| u8::from(a >= b)),
    }
}

fn rare_comparisons<T: Copy + PartialOrd>(op: CompareOp, p: Pair<'_, T>, out: &mut [u8]) {
    let f: fn(T, T) -> u8 = match op {
        CompareOp::Eq => |a, b| u8::from(a == b),
        CompareOp::Ne => |a, b| u8::from(a != b),
        CompareOp::Lt => |a, b| u8::from(a < b),
        CompareOp::Le => |a, b| u8::from(a <= b),
        CompareOp::Gt => |a, b| u8::from(a > b),
        CompareOp::Ge => |a, b| u8::from(a >= b),
    };
    p.zip_plainly(out, f);
}

/// The operands as runs.
///
/// # Safety
/// As [`binary`]'s.
unsafe fn pair<'r, T>(a: Operand, b: Operand, n: usize) -> Pair<'r, T> {
    // SAFETY: as the caller promises.
    unsafe {
        Pair {
            a: run(a.first, if a.one { 1 } else { n }),
            b: run(b.first, if b.one { 1 } else { n }),
            one_a: a.one,
            one_b: b.one,
        }
    }
}

/// `out = a op b`, `n` elements, at most [`MAX_RUN`].
///
/// # Safety
/// The runs are valid and aligned for `n` elements of `dtype` (one, for a single one); `out` overlaps
/// nothing that is read.
pub unsafe fn binary(
    level: Level,
    op: BinaryOp,
    dtype: DType,
    a: Operand,
    b: Operand,
    out: *mut u8,
    n: usize,
) {
    if n == 0 {
        return;
    }
    macro_rules! on {
        ($ty:ty, |$p:ident, $out:ident| $call:expr) => {{
            // SAFETY: as the caller promises.
            let ($p, $out) = unsafe { (pair::<$ty>(a, b, n), run_mut::<$ty>(out, n)) };
            $call
        }};
    }
    match dtype {
        DType::F32 => on!(f32, |p, out| floats(level, op, p, out)),
        DType::I32 => on!(i32, |p, out| ints(level, op, p, out)),
        DType::I64 => on!(i64, |p, out| ints(level, op, p, out)),
        DType::Bool => on!(u8, |p, out| bools(level, op, p, out)),
        DType::I8 => on!(i8, |p, out| rare_ints(op, p, out)),
        DType::U8 => on!(u8, |p, out| rare_ints(op, p, out)),
        DType::I16 => on!(i16, |p, out| rare_ints(op, p, out)),
        DType::U16 => on!(u16, |p, out| rare_ints(op, p, out)),
        DType::U32 => on!(u32, |p, out| rare_ints(op, p, out)),
        DType::U64 => on!(u64, |p, out| rare_ints(op, p, out)),
        // Arithmetic is not defined on these.
        DType::F16 | DType::BF16 => {}
    }
}

/// `out = a op b` as bytes 0 and 1, `n` elements, at most [`MAX_RUN`].
///
/// # Safety
/// As [`binary`]'s; `out` holds `n` bytes.
pub unsafe fn compare(
    level: Level,
    op: CompareOp,
    dtype: DType,
    a: Operand,
    b: Operand,
    out: *mut u8,
    n: usize,
) {
    if n == 0 {
        return;
    }
    macro_rules! on {
        ($ty:ty, |$p:ident, $out:ident| $call:expr) => {{
            // SAFETY: as the caller promises.
            let ($p, $out) = unsafe { (pair::<$ty>(a, b, n), run_mut::<u8>(out, n)) };
            $call
        }};
    }
    match dtype {
        DType::F32 => on!(f32, |p, out| comparisons(level, op, p, out)),
        DType::I64 => on!(i64, |p, out| comparisons(level, op, p, out)),
        DType::I8 => on!(i8, |p, out| rare_comparisons(op, p, out)),
        DType::U8 | DType::Bool => on!(u8, |p, out| rare_comparisons(op, p, out)),
        DType::I16 => on!(i16, |p, out| rare_comparisons(op, p, out)),
        DType::U16 => on!(u16, |p, out| rare_comparisons(op, p, out)),
        DType::I32 => on!(i32, |p, out| rare_comparisons(op, p, out)),
        DType::U32 => on!(u32, |p, out| rare_comparisons(op, p, out)),
        DType::U64 => on!(u64, |p, out| rare_comparisons(op, p, out)),
        // Arithmetic is not defined on these.
        DType::F16 | DType::BF16 => {}
    }
}

struct Fma<'r>(&'r [f32], &'r [f32], &'r [f32], &'r mut [f32]);
impl Work for Fma<'_> {
    type Output = ();
    #[inline(always)]
    fn go<const FUSED: bool>(self) {
        for (((out, &a), &b), &c) in self.3.iter_mut().zip(self.0).zip(self.1).zip(self.2) {
            // One rounding with or without the instruction.
            *out = if FUSED { a.mul_add(b, c) } else { metile_ir::arith::float::fma(a, b, c) };
        }
    }
}

/// `out = a · b + c` rounded once, `n` elements.
///
/// # Safety
/// As [`binary`]'s, with runs of `f32`.
pub unsafe fn fma(level: Level, a: *const u8, b: *const u8, c: *const u8, out: *mut u8, n: usize) {
    // SAFETY: as the caller promises.
    let work = unsafe { Fma(run(a, n), run(b, n), run(c, n), run_mut(out, n)) };
    dispatch(level, work);
}
