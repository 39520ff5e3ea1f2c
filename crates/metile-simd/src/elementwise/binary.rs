//! Two operands, and three.

use super::int::Int;
use super::unary::map;
use super::{MAX_RUN, Operand, Work, dispatch, float, run, run_mut};
use crate::Level;
use metile_ir::dtype::DType;
use metile_ir::tile::{BinaryOp, CompareOp};

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

    /// Single elements are repeated first, for operations that are not worth three loops.
    fn zip_runs<U>(self, level: Level, out: &mut [U], f: impl Fn(T, T) -> U) {
        let n = out.len();
        let (mut left, mut right) = ([self.a[0]; MAX_RUN], [self.b[0]; MAX_RUN]);
        if !self.one_a {
            left[..n].copy_from_slice(self.a);
        }
        if !self.one_b {
            right[..n].copy_from_slice(self.b);
        }
        let a = if self.one_a { &left[..n] } else { self.a };
        let b = if self.one_b { &right[..n] } else { self.b };
        dispatch(level, Zip { a, b, out, f });
    }
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

fn ints<T: Int>(level: Level, op: BinaryOp, p: Pair<'_, T>, out: &mut [T]) {
    match op {
        BinaryOp::Add => p.zip_runs(level, out, T::add),
        BinaryOp::Sub => p.zip_runs(level, out, T::sub),
        BinaryOp::Mul => p.zip_runs(level, out, T::mul),
        BinaryOp::Div => p.zip_runs(level, out, T::div),
        BinaryOp::Rem => p.zip_runs(level, out, T::rem),
        BinaryOp::Min => p.zip_runs(level, out, |a, b| if b < a { b } else { a }),
        BinaryOp::Max => p.zip_runs(level, out, |a, b| if b > a { b } else { a }),
        BinaryOp::And => p.zip_runs(level, out, T::and),
        BinaryOp::Or => p.zip_runs(level, out, T::or),
        BinaryOp::Xor => p.zip_runs(level, out, T::xor),
        BinaryOp::Shl => p.zip_runs(level, out, T::shl),
        BinaryOp::Shr => p.zip_runs(level, out, T::shr),
    }
}

fn bools(level: Level, op: BinaryOp, p: Pair<'_, u8>, out: &mut [u8]) {
    match op {
        BinaryOp::And => p.zip_runs(level, out, |a, b| a & b),
        BinaryOp::Or => p.zip_runs(level, out, |a, b| a | b),
        // The only other one that is defined on truth values.
        _ => p.zip_runs(level, out, |a, b| a ^ b),
    }
}

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

macro_rules! by_dtype {
    ($dtype:expr, $on:ident) => {
        match $dtype {
            DType::F32 => $on!(f32, floats),
            DType::I8 => $on!(i8, ints),
            DType::U8 => $on!(u8, ints),
            DType::I16 => $on!(i16, ints),
            DType::U16 => $on!(u16, ints),
            DType::I32 => $on!(i32, ints),
            DType::U32 => $on!(u32, ints),
            DType::I64 => $on!(i64, ints),
            DType::U64 => $on!(u64, ints),
            DType::Bool => $on!(u8, bools),
            // Arithmetic is not defined on these.
            DType::F16 | DType::BF16 => {}
        }
    };
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
        ($ty:ty, $f:ident) => {{
            // SAFETY: as the caller promises.
            let (pair, out) = unsafe { (pair::<$ty>(a, b, n), run_mut::<$ty>(out, n)) };
            $f(level, op, pair, out)
        }};
    }
    by_dtype!(dtype, on);
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
        ($ty:ty, $f:ident) => {{
            // SAFETY: as the caller promises.
            let (pair, out) = unsafe { (pair::<$ty>(a, b, n), run_mut::<u8>(out, n)) };
            comparisons(level, op, pair, out)
        }};
    }
    by_dtype!(dtype, on);
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
