//! Eight `f32` at once, and the 32 bytes beside them: what every primitive is written over.
//!
//! Bodies are generic over [`Lanes`] and marked `#[inline(always)]`; [`run`] compiles them once per
//! [`Level`]. Only the constructors are unsafe: a value proves that the machine has its instructions.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod portable;

#[cfg(target_arch = "x86_64")]
pub use avx2::{Avx2, Avx2Words};
pub use portable::{Portable, PortableWords};

use crate::Level;

/// Lanes of a vector.
pub const LANES: usize = 8;

/// Eight `f32`. `unsafe` constructors need the instructions of the level that the type stands for, and
/// pointers valid for the elements they touch; no alignment.
pub trait Lanes: Copy {
    /// Whether the level has 16 registers or more of eight lanes.
    const MANY: bool;
    /// The 32 bytes, or eight 32-bit words, of this level.
    type Words: Words<Floats = Self>;

    /// `x` in every lane.
    ///
    /// # Safety
    /// The machine has the level.
    unsafe fn splat(x: f32) -> Self;
    /// The IEEE half with these bits, widened, in every lane.
    ///
    /// # Safety
    /// The machine has the level.
    unsafe fn splat_f16(bits: u16) -> Self;
    /// As [`Lanes::splat_f16`], of the low half of `bits` and of the high one.
    ///
    /// # Safety
    /// The machine has the level.
    unsafe fn splat_f16_pair(bits: u32) -> [Self; 2];
    /// Eight IEEE halves, the first in the low bits of the first word, widened.
    ///
    /// # Safety
    /// The machine has the level.
    unsafe fn from_f16(halves: [u32; 4]) -> Self;
    /// Four lanes of `p[0]`, four of `p[1]`.
    ///
    /// # Safety
    /// The machine has the level; `p` is valid for 2 reads.
    unsafe fn splat_two(p: *const f32) -> Self;
    /// Eight unsigned bytes, converted.
    ///
    /// # Safety
    /// The machine has the level; `p` is valid for 8 reads.
    unsafe fn load_u8(p: *const u8) -> Self;
    /// Eight signed bytes, converted.
    ///
    /// # Safety
    /// The machine has the level; `p` is valid for 8 reads.
    unsafe fn load_i8(p: *const u8) -> Self;
    /// Eight values.
    ///
    /// # Safety
    /// The machine has the level.
    unsafe fn from_array(values: [f32; LANES]) -> Self;
    /// `p[0..8]`.
    ///
    /// # Safety
    /// The machine has the level; `p` is valid for 8 reads.
    unsafe fn load(p: *const f32) -> Self;
    /// `p[0..count]`, then zeros. `count` is below 8.
    ///
    /// # Safety
    /// The machine has the level; `p` is valid for `count` reads.
    unsafe fn load_first(p: *const f32, count: usize) -> Self;
    /// Eight IEEE halves, widened.
    ///
    /// # Safety
    /// The machine has the level; `p` is valid for 8 reads.
    unsafe fn load_f16(p: *const u16) -> Self;
    /// Eight bfloat16, widened.
    ///
    /// # Safety
    /// The machine has the level; `p` is valid for 8 reads.
    unsafe fn load_bf16(p: *const u16) -> Self;
    /// Writes `p[0..8]`.
    ///
    /// # Safety
    /// `p` is valid for 8 writes.
    unsafe fn store(self, p: *mut f32);
    /// Writes `p[0..count]`. `count` is below 8.
    ///
    /// # Safety
    /// `p` is valid for `count` writes.
    unsafe fn store_first(self, p: *mut f32, count: usize);
    /// Asks for the cache line at `p`; any address will do.
    fn prefetch(p: *const u8);
    /// The lanes in order.
    fn to_array(self) -> [f32; LANES];
    /// `self + b`.
    fn add(self, b: Self) -> Self;
    /// `self - b`.
    fn sub(self, b: Self) -> Self;
    /// `self * b`.
    fn mul(self, b: Self) -> Self;
    /// `self / b`.
    fn div(self, b: Self) -> Self;
    /// `self < b ? self : b`: `b` where either is NaN.
    fn min(self, b: Self) -> Self;
    /// `self > b ? self : b`: `b` where either is NaN.
    fn max(self, b: Self) -> Self;
    /// `self * b + c`: fused where the level has the instruction, else rounded twice.
    fn mul_add(self, b: Self, c: Self) -> Self;
    /// The sum of the lanes, in a fixed order.
    fn sum(self) -> f32;
    /// Lane `i` of the result is the sum of `v[i]`.
    fn sums(v: [Self; LANES]) -> Self;
    /// The 8×8 transpose.
    fn transpose(v: [Self; LANES]) -> [Self; LANES];
}

/// Eight 32-bit words, or 32 bytes with byte `4i + j` in bits `8j..8j+8` of word `i`.
pub trait Words: Copy {
    /// The floats of this level.
    type Floats;

    /// `x` in every word.
    ///
    /// # Safety
    /// The machine has the level.
    unsafe fn splat(x: u32) -> Self;
    /// Eight words.
    ///
    /// # Safety
    /// The machine has the level.
    unsafe fn from_array(words: [u32; LANES]) -> Self;
    /// 32 bytes.
    ///
    /// # Safety
    /// The machine has the level; `p` is valid for 32 reads.
    unsafe fn load(p: *const u8) -> Self;
    /// 16 bytes, twice.
    ///
    /// # Safety
    /// The machine has the level; `p` is valid for 16 reads.
    unsafe fn load_twice(p: *const u8) -> Self;
    /// Writes 32 bytes.
    ///
    /// # Safety
    /// `p` is valid for 32 writes.
    unsafe fn store(self, p: *mut u8);
    /// Bitwise and.
    fn and(self, b: Self) -> Self;
    /// Bitwise or.
    fn or(self, b: Self) -> Self;
    /// Words equal to those of `b` become all ones, others zero.
    fn equal(self, b: Self) -> Self;
    /// Bytes equal to those of `b` become all ones, others zero.
    fn equal_bytes(self, b: Self) -> Self;
    /// Wrapping sum of words.
    fn add(self, b: Self) -> Self;
    /// Each word shifted left.
    fn shl<const N: i32>(self) -> Self;
    /// Each word shifted right, zeros coming in.
    fn shr<const N: i32>(self) -> Self;
    /// Word `i` shifted right by `counts[i]`, below 32.
    fn shr_each(self, counts: Self) -> Self;
    /// Byte `p` of the result is byte `table[p]` of the same 16-byte half.
    fn shuffle_halves(self, table: Self) -> Self;
    /// The bits of words as floats.
    fn as_floats(self) -> Self::Floats;
    /// Words as signed integers, converted.
    fn to_floats(self) -> Self::Floats;
    /// Bytes as unsigned integers, in order.
    fn widen_u8(self) -> [Self::Floats; 4];
    /// Bytes as signed integers, in order.
    fn widen_i8(self) -> [Self::Floats; 4];
    /// Bytes 0, 16, 1, 17, 2, 18, …
    fn interleave_halves(self) -> Self;
    /// Word `i`: the sum over bytes `4i..4i+4` of `self` (unsigned, at most 127) times `b` (signed).
    fn dot_u7_i8(self, b: Self) -> Self;
    /// Words whose sum is that of the products of 32 unsigned bytes and 32 integers that fit a byte.
    ///
    /// # Safety
    /// The machine has the level; both are valid for 32 reads.
    unsafe fn dot_u8_i16(bytes: *const u8, x: *const i16) -> Self;
    /// Words whose sum is that of the products of 32 signed bytes and 32 integers that fit a byte.
    ///
    /// # Safety
    /// The machine has the level; both are valid for 32 reads.
    unsafe fn dot_i8_i16(bytes: *const u8, x: *const i16) -> Self;
}

/// Work compiled for each level. Everything that `run` calls must be inlined into it.
pub trait Work {
    /// What it gives back.
    type Output;
    /// Does the work with `L`'s vectors; mark it `#[inline(always)]`.
    ///
    /// # Safety
    /// The machine has the level of `L`; the implementor's own conditions hold.
    unsafe fn run<L: Lanes>(self) -> Self::Output;
}

/// Does `work` with the instructions of `level`.
///
/// # Safety
/// The machine has `level`; the work's own conditions hold.
pub unsafe fn run<W: Work>(level: Level, work: W) -> W::Output {
    // SAFETY: passed on to the caller.
    unsafe {
        match level {
            Level::Portable => work.run::<Portable>(),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => avx2::run(work),
            #[cfg(not(target_arch = "x86_64"))]
            Level::Avx2 => unreachable!("AVX2 is a level of x86-64 only"),
        }
    }
}
