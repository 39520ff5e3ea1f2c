//! Conversions between dtypes.

use super::unary::map;
use super::{MAX_RUN, Work, dispatch, run, run_mut};
use crate::Level;
use crate::lanes::{self, LANES, Lanes};
use half::{bf16, f16};
use metile_ir::dtype::DType;
use std::mem::MaybeUninit;

/// To `f32`, from anything but `f16` and `bf16`.
macro_rules! to_float {
    ($level:expr, $ty:ty, $a:expr, $out:expr, $n:expr) => {{
        // SAFETY: as the caller of `cast` promises.
        let (a, out) = unsafe { (run::<$ty>($a, $n), run_mut::<f32>($out, $n)) };
        map($level, a, out, |x: $ty| x as f32)
    }};
}

/// From one integer or `f32` to all integers, wrapping or saturating as `as` does.
macro_rules! to_ints {
    ($from:ty, $to:expr, $a:expr, $out:expr, $n:expr) => {{
        macro_rules! one {
            ($ty:ty) => {{
                // SAFETY: as the caller of `cast` promises.
                let (a, out) = unsafe { (run::<$from>($a, $n), run_mut::<$ty>($out, $n)) };
                for (out, &x) in out.iter_mut().zip(a) {
                    *out = x as $ty;
                }
            }};
        }
        match $to {
            DType::I8 => one!(i8),
            DType::U8 => one!(u8),
            DType::I16 => one!(i16),
            DType::U16 => one!(u16),
            DType::I32 => one!(i32),
            DType::U32 => one!(u32),
            DType::I64 => one!(i64),
            _ => one!(u64),
        }
    }};
}

macro_rules! from_dtype {
    ($from:expr, $one:ident) => {
        match $from {
            DType::I8 => $one!(i8),
            DType::U8 | DType::Bool => $one!(u8),
            DType::I16 => $one!(i16),
            DType::U16 => $one!(u16),
            DType::I32 => $one!(i32),
            DType::U32 => $one!(u32),
            DType::I64 => $one!(i64),
            DType::U64 => $one!(u64),
            _ => $one!(f32),
        }
    };
}

/// `out = a` converted by value from `from` to `to`, `n` elements, at most [`MAX_RUN`]; see
/// [`metile_ir::arith::cast`] for the rules. Equal dtypes copy.
///
/// # Safety
/// The runs are valid and aligned for `n` elements of their dtypes and do not overlap.
pub unsafe fn cast(level: Level, from: DType, to: DType, a: *const u8, out: *mut u8, n: usize) {
    if from == to {
        // SAFETY: as the caller promises.
        unsafe { std::ptr::copy_nonoverlapping(a, out, n * from.bytes()) };
        return;
    }
    // What is no float32 on either side goes through one, as the language says.
    let mut wide = [const { MaybeUninit::<f32>::uninit() }; MAX_RUN];
    match (from, to) {
        (DType::F16 | DType::BF16, DType::F32) => {
            // SAFETY: as the caller promises.
            unsafe { widen(level, from, a, out, n) };
        }
        (DType::F16 | DType::BF16, _) => {
            // SAFETY: `wide` holds any run; the rest as the caller promises.
            unsafe {
                widen(level, from, a, wide.as_mut_ptr().cast(), n);
                cast(level, DType::F32, to, wide.as_ptr().cast(), out, n);
            }
        }
        (DType::F32, DType::F16 | DType::BF16) => {
            // SAFETY: as the caller promises.
            let (a, out) = unsafe { (run::<f32>(a, n), run_mut::<u16>(out, n)) };
            narrow(level, to, a, out);
        }
        (_, DType::F16 | DType::BF16) => {
            // SAFETY: `wide` holds any run; the rest as the caller promises.
            unsafe {
                cast(level, from, DType::F32, a, wide.as_mut_ptr().cast(), n);
                cast(level, DType::F32, to, wide.as_ptr().cast(), out, n);
            }
        }
        (_, DType::F32) => {
            macro_rules! one {
                ($ty:ty) => {
                    to_float!(level, $ty, a, out, n)
                };
            }
            from_dtype!(from, one);
        }
        (_, DType::Bool) => {
            macro_rules! one {
                ($ty:ty) => {{
                    // SAFETY: as the caller promises.
                    let (a, out) = unsafe { (run::<$ty>(a, n), run_mut::<u8>(out, n)) };
                    for (out, &x) in out.iter_mut().zip(a) {
                        *out = u8::from(x != (0 as $ty));
                    }
                }};
            }
            from_dtype!(from, one);
        }
        (DType::F32, DType::I8 | DType::U8 | DType::I16 | DType::U16) => {
            // SAFETY: as the caller promises.
            unsafe { to_narrow(level, to, a, out, n) };
        }
        _ => {
            macro_rules! one {
                ($ty:ty) => {
                    to_ints!($ty, to, a, out, n)
                };
            }
            from_dtype!(from, one);
        }
    }
}

/// `f32` to integers of 8 or 16 bits, as `as` does: cut off, saturating, 0 for NaN. Within the bounds a
/// conversion to 32 bits is a vector instruction.
///
/// # Safety
/// As [`cast`]'s.
unsafe fn to_narrow(level: Level, to: DType, a: *const u8, out: *mut u8, n: usize) {
    macro_rules! one {
        ($ty:ty) => {{
            // SAFETY: as the caller promises.
            let (a, out) = unsafe { (run::<f32>(a, n), run_mut::<$ty>(out, n)) };
            map(level, a, out, |x: f32| {
                let x = if x.is_nan() { 0.0 } else { x };
                let x = x.clamp(<$ty>::MIN as f32, <$ty>::MAX as f32);
                // SAFETY: a number within the bounds.
                unsafe { x.to_int_unchecked::<i32>() as $ty }
            });
        }};
    }
    match to {
        DType::I8 => one!(i8),
        DType::U8 => one!(u8),
        DType::I16 => one!(i16),
        _ => one!(u16),
    }
}

/// Halves to `f32` with the machine's own conversion.
struct Widen<'r> {
    a: &'r [u16],
    out: &'r mut [f32],
    brain: bool,
}
impl lanes::Work for Widen<'_> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let whole = self.a.len() / LANES * LANES;
        for n in (0..whole).step_by(LANES) {
            // SAFETY: `n + 8` elements are within both runs.
            unsafe {
                let p = self.a.as_ptr().add(n);
                let v = if self.brain { L::load_bf16(p) } else { L::load_f16(p) };
                v.store(self.out.as_mut_ptr().add(n));
            }
        }
        for (out, &x) in self.out[whole..].iter_mut().zip(&self.a[whole..]) {
            *out =
                if self.brain { bf16::from_bits(x).to_f32() } else { f16::from_bits(x).to_f32() };
        }
    }
}

/// `out = a` widened from `f16` or `bf16` to `f32`, `n` elements.
///
/// # Safety
/// As [`cast`]'s.
pub unsafe fn widen(level: Level, from: DType, a: *const u8, out: *mut u8, n: usize) {
    // SAFETY: as the caller promises; a level is only ever one that the machine has.
    unsafe {
        let (a, out) = (run(a, n), run_mut(out, n));
        lanes::run(level, Widen { a, out, brain: from == DType::BF16 });
    }
}

struct Narrow<'r, const BRAIN: bool>(&'r [f32], &'r mut [u16]);
impl<const BRAIN: bool> Work for Narrow<'_, BRAIN> {
    type Output = ();
    #[inline(always)]
    fn go<const FUSED: bool>(self) {
        for (out, &x) in self.1.iter_mut().zip(self.0) {
            *out = if BRAIN { to_bf16(x) } else { to_f16(x) };
        }
    }
}

fn narrow(level: Level, to: DType, a: &[f32], out: &mut [u16]) {
    if to == DType::BF16 {
        dispatch(level, Narrow::<true>(a, out));
    } else {
        dispatch(level, Narrow::<false>(a, out));
    }
}

/// To bfloat16, nearest, ties to even; NaNs stay NaNs, made quiet.
#[inline(always)]
fn to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    let nan = (bits >> 16) | 0x40;
    (if x.is_nan() { nan } else { rounded }) as u16
}

/// To IEEE binary16, nearest, ties to even, without branches.
#[inline(always)]
fn to_f16(x: f32) -> u16 {
    let bits = x.to_bits();
    let sign = (bits >> 16) & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    // Normal results: the exponent moved by 112, the mantissa rounded to 10 bits; too large ones
    // overflow to infinity by the carry, and are cut there.
    let normal =
        (magnitude.wrapping_add(0xfff + ((magnitude >> 13) & 1)).wrapping_sub(112 << 23)) >> 13;
    let normal = if normal > 0x7c00 || magnitude >= (143 << 23) { 0x7c00 } else { normal };
    // Subnormal results: adding ½ makes the machine round at the last place of a half.
    let small = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    let finite = if magnitude < (113 << 23) { small } else { normal };
    let nan = 0x7e00 | ((bits >> 13) & 0x3ff);
    (sign | if magnitude > 0x7f80_0000 { nan } else { finite }) as u16
}
