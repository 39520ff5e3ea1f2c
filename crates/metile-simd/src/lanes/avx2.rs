//! 256-bit vectors of x86-64 with AVX2, FMA and F16C.

use super::{LANES, Lanes, Words, Work};
use std::arch::x86_64::*;

/// Eight `f32` in a `ymm` register.
#[derive(Clone, Copy, Debug)]
pub struct Avx2(__m256);

/// 32 bytes in a `ymm` register.
#[derive(Clone, Copy, Debug)]
pub struct Avx2Words(__m256i);

/// Calls intrinsics whose only condition is that the machine has them.
macro_rules! has_avx2 {
    ($e:expr) => {
        // SAFETY: vectors are made only where the machine has AVX2, FMA and F16C.
        unsafe { $e }
    };
}

/// Compiles `work` with AVX2, FMA and F16C.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn run<W: Work>(work: W) -> W::Output {
    // SAFETY: passed on to the caller.
    unsafe { work.run::<Avx2>() }
}

/// All ones in the first `count` words.
#[inline(always)]
unsafe fn first(count: usize) -> __m256i {
    static ONES_THEN_ZEROS: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
    debug_assert!(count <= LANES);
    // SAFETY: 8 - count .. 16 - count lies in the table.
    unsafe { _mm256_loadu_si256(ONES_THEN_ZEROS.as_ptr().add(LANES - count).cast()) }
}

impl Lanes for Avx2 {
    const MANY: bool = true;
    type Words = Avx2Words;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        has_avx2!(Avx2(_mm256_set1_ps(x)))
    }
    #[inline(always)]
    unsafe fn splat_f16(bits: u16) -> Self {
        // Broadcast first: a single half would be inserted into a register with an older value, on
        // which it would then depend.
        has_avx2!(Avx2(_mm256_cvtph_ps(_mm_set1_epi16(bits as i16))))
    }
    #[inline(always)]
    unsafe fn splat_f16_pair(bits: u32) -> [Self; 2] {
        has_avx2!({
            let pairs = _mm256_cvtph_ps(_mm_set1_epi32(bits as i32));
            [Avx2(_mm256_moveldup_ps(pairs)), Avx2(_mm256_movehdup_ps(pairs))]
        })
    }
    #[inline(always)]
    unsafe fn from_f16(halves: [u32; 4]) -> Self {
        let [a, b, c, d] = halves.map(|pair| pair as i32);
        has_avx2!(Avx2(_mm256_cvtph_ps(_mm_setr_epi32(a, b, c, d))))
    }
    #[inline(always)]
    unsafe fn splat_two(p: *const f32) -> Self {
        // SAFETY: valid for 2 reads by contract.
        unsafe {
            let (a, b) = (_mm256_broadcast_ss(&*p), _mm256_broadcast_ss(&*p.add(1)));
            Avx2(_mm256_blend_ps::<0xf0>(a, b))
        }
    }
    #[inline(always)]
    unsafe fn load_u8(p: *const u8) -> Self {
        // SAFETY: valid for 8 reads by contract.
        unsafe { Avx2(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(p.cast())))) }
    }
    #[inline(always)]
    unsafe fn load_i8(p: *const u8) -> Self {
        // SAFETY: valid for 8 reads by contract.
        unsafe { Avx2(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(p.cast())))) }
    }
    #[inline(always)]
    unsafe fn from_array(values: [f32; LANES]) -> Self {
        // SAFETY: the array has 8 elements.
        unsafe { Avx2(_mm256_loadu_ps(values.as_ptr())) }
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: valid for 8 reads by contract.
        unsafe { Avx2(_mm256_loadu_ps(p)) }
    }
    #[inline(always)]
    unsafe fn load_first(p: *const f32, count: usize) -> Self {
        // SAFETY: lanes that are masked off are not read.
        unsafe { Avx2(_mm256_maskload_ps(p, first(count))) }
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> Self {
        // SAFETY: valid for 8 reads by contract.
        unsafe { Avx2(_mm256_cvtph_ps(_mm_loadu_si128(p.cast()))) }
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> Self {
        // SAFETY: valid for 8 reads by contract.
        unsafe {
            let words = _mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast()));
            Avx2(_mm256_castsi256_ps(_mm256_slli_epi32::<16>(words)))
        }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: valid for 8 writes by contract.
        unsafe { _mm256_storeu_ps(p, self.0) }
    }
    #[inline(always)]
    unsafe fn store_first(self, p: *mut f32, count: usize) {
        // SAFETY: lanes that are masked off are not written.
        unsafe { _mm256_maskstore_ps(p, first(count), self.0) }
    }
    #[inline(always)]
    fn prefetch(p: *const u8) {
        // SAFETY: a prefetch of any address is harmless.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast()) }
    }
    #[inline(always)]
    fn to_array(self) -> [f32; LANES] {
        let mut out = [0.0; LANES];
        // SAFETY: the array has 8 elements.
        unsafe { _mm256_storeu_ps(out.as_mut_ptr(), self.0) };
        out
    }
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        has_avx2!(Avx2(_mm256_add_ps(self.0, b.0)))
    }
    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        has_avx2!(Avx2(_mm256_sub_ps(self.0, b.0)))
    }
    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        has_avx2!(Avx2(_mm256_mul_ps(self.0, b.0)))
    }
    #[inline(always)]
    fn div(self, b: Self) -> Self {
        has_avx2!(Avx2(_mm256_div_ps(self.0, b.0)))
    }
    #[inline(always)]
    fn min(self, b: Self) -> Self {
        has_avx2!(Avx2(_mm256_min_ps(self.0, b.0)))
    }
    #[inline(always)]
    fn max(self, b: Self) -> Self {
        has_avx2!(Avx2(_mm256_max_ps(self.0, b.0)))
    }
    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        has_avx2!(Avx2(_mm256_fmadd_ps(self.0, b.0, c.0)))
    }
    #[inline(always)]
    fn sum(self) -> f32 {
        has_avx2!({
            let quad =
                _mm_add_ps(_mm256_castps256_ps128(self.0), _mm256_extractf128_ps::<1>(self.0));
            let pair = _mm_add_ps(quad, _mm_movehl_ps(quad, quad));
            _mm_cvtss_f32(_mm_add_ss(pair, _mm_shuffle_ps::<1>(pair, pair)))
        })
    }
    #[inline(always)]
    fn sums(v: [Self; LANES]) -> Self {
        has_avx2!({
            let low =
                _mm256_hadd_ps(_mm256_hadd_ps(v[0].0, v[1].0), _mm256_hadd_ps(v[2].0, v[3].0));
            let high =
                _mm256_hadd_ps(_mm256_hadd_ps(v[4].0, v[5].0), _mm256_hadd_ps(v[6].0, v[7].0));
            Avx2(_mm256_add_ps(
                _mm256_permute2f128_ps::<0x20>(low, high),
                _mm256_permute2f128_ps::<0x31>(low, high),
            ))
        })
    }
    #[inline(always)]
    fn transpose(v: [Self; LANES]) -> [Self; LANES] {
        has_avx2!({
            let (p0, p1) = (_mm256_unpacklo_ps(v[0].0, v[1].0), _mm256_unpackhi_ps(v[0].0, v[1].0));
            let (p2, p3) = (_mm256_unpacklo_ps(v[2].0, v[3].0), _mm256_unpackhi_ps(v[2].0, v[3].0));
            let (p4, p5) = (_mm256_unpacklo_ps(v[4].0, v[5].0), _mm256_unpackhi_ps(v[4].0, v[5].0));
            let (p6, p7) = (_mm256_unpacklo_ps(v[6].0, v[7].0), _mm256_unpackhi_ps(v[6].0, v[7].0));
            let q = [
                _mm256_shuffle_ps::<0x44>(p0, p2),
                _mm256_shuffle_ps::<0xee>(p0, p2),
                _mm256_shuffle_ps::<0x44>(p1, p3),
                _mm256_shuffle_ps::<0xee>(p1, p3),
                _mm256_shuffle_ps::<0x44>(p4, p6),
                _mm256_shuffle_ps::<0xee>(p4, p6),
                _mm256_shuffle_ps::<0x44>(p5, p7),
                _mm256_shuffle_ps::<0xee>(p5, p7),
            ];
            [
                Avx2(_mm256_permute2f128_ps::<0x20>(q[0], q[4])),
                Avx2(_mm256_permute2f128_ps::<0x20>(q[1], q[5])),
                Avx2(_mm256_permute2f128_ps::<0x20>(q[2], q[6])),
                Avx2(_mm256_permute2f128_ps::<0x20>(q[3], q[7])),
                Avx2(_mm256_permute2f128_ps::<0x31>(q[0], q[4])),
                Avx2(_mm256_permute2f128_ps::<0x31>(q[1], q[5])),
                Avx2(_mm256_permute2f128_ps::<0x31>(q[2], q[6])),
                Avx2(_mm256_permute2f128_ps::<0x31>(q[3], q[7])),
            ]
        })
    }
}

impl Words for Avx2Words {
    type Floats = Avx2;

    #[inline(always)]
    unsafe fn splat(x: u32) -> Self {
        has_avx2!(Avx2Words(_mm256_set1_epi32(x as i32)))
    }
    #[inline(always)]
    unsafe fn from_array(words: [u32; LANES]) -> Self {
        // SAFETY: the array has 32 bytes.
        unsafe { Avx2Words(_mm256_loadu_si256(words.as_ptr().cast())) }
    }
    #[inline(always)]
    unsafe fn load(p: *const u8) -> Self {
        // SAFETY: valid for 32 reads by contract.
        unsafe { Avx2Words(_mm256_loadu_si256(p.cast())) }
    }
    #[inline(always)]
    unsafe fn load_twice(p: *const u8) -> Self {
        // SAFETY: valid for 16 reads by contract.
        unsafe { Avx2Words(_mm256_broadcastsi128_si256(_mm_loadu_si128(p.cast()))) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut u8) {
        // SAFETY: valid for 32 writes by contract.
        unsafe { _mm256_storeu_si256(p.cast(), self.0) }
    }
    #[inline(always)]
    fn and(self, b: Self) -> Self {
        has_avx2!(Avx2Words(_mm256_and_si256(self.0, b.0)))
    }
    #[inline(always)]
    fn or(self, b: Self) -> Self {
        has_avx2!(Avx2Words(_mm256_or_si256(self.0, b.0)))
    }
    #[inline(always)]
    fn equal(self, b: Self) -> Self {
        has_avx2!(Avx2Words(_mm256_cmpeq_epi32(self.0, b.0)))
    }
    #[inline(always)]
    fn equal_bytes(self, b: Self) -> Self {
        has_avx2!(Avx2Words(_mm256_cmpeq_epi8(self.0, b.0)))
    }
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        has_avx2!(Avx2Words(_mm256_add_epi32(self.0, b.0)))
    }
    #[inline(always)]
    fn shl<const N: i32>(self) -> Self {
        has_avx2!(Avx2Words(_mm256_slli_epi32::<N>(self.0)))
    }
    #[inline(always)]
    fn shr<const N: i32>(self) -> Self {
        has_avx2!(Avx2Words(_mm256_srli_epi32::<N>(self.0)))
    }
    #[inline(always)]
    fn shr_each(self, counts: Self) -> Self {
        has_avx2!(Avx2Words(_mm256_srlv_epi32(self.0, counts.0)))
    }
    #[inline(always)]
    fn shuffle_halves(self, table: Self) -> Self {
        has_avx2!(Avx2Words(_mm256_shuffle_epi8(self.0, table.0)))
    }
    #[inline(always)]
    fn as_floats(self) -> Avx2 {
        has_avx2!(Avx2(_mm256_castsi256_ps(self.0)))
    }
    #[inline(always)]
    fn to_floats(self) -> Avx2 {
        has_avx2!(Avx2(_mm256_cvtepi32_ps(self.0)))
    }
    #[inline(always)]
    fn widen_u8(self) -> [Avx2; 4] {
        has_avx2!({
            let (low, high) =
                (_mm256_castsi256_si128(self.0), _mm256_extracti128_si256::<1>(self.0));
            [
                Avx2(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(low))),
                Avx2(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128::<8>(low)))),
                Avx2(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(high))),
                Avx2(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128::<8>(high)))),
            ]
        })
    }
    #[inline(always)]
    fn widen_i8(self) -> [Avx2; 4] {
        has_avx2!({
            let (low, high) =
                (_mm256_castsi256_si128(self.0), _mm256_extracti128_si256::<1>(self.0));
            [
                Avx2(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(low))),
                Avx2(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128::<8>(low)))),
                Avx2(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(high))),
                Avx2(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128::<8>(high)))),
            ]
        })
    }
    #[inline(always)]
    fn interleave_halves(self) -> Self {
        has_avx2!({
            let (low, high) =
                (_mm256_castsi256_si128(self.0), _mm256_extracti128_si256::<1>(self.0));
            let (first, second) = (_mm_unpacklo_epi8(low, high), _mm_unpackhi_epi8(low, high));
            Avx2Words(_mm256_set_m128i(second, first))
        })
    }
    #[inline(always)]
    fn dot_u7_i8(self, b: Self) -> Self {
        // Two products of at most 127·128 fit 16 bits.
        has_avx2!(Avx2Words(_mm256_madd_epi16(
            _mm256_maddubs_epi16(self.0, b.0),
            _mm256_set1_epi16(1)
        )))
    }
    #[inline(always)]
    unsafe fn dot_u8_i16(bytes: *const u8, x: *const i16) -> Self {
        // SAFETY: valid for 32 reads by contract.
        unsafe {
            let low = _mm256_cvtepu8_epi16(_mm_loadu_si128(bytes.cast()));
            let high = _mm256_cvtepu8_epi16(_mm_loadu_si128(bytes.add(16).cast()));
            let low = _mm256_madd_epi16(low, _mm256_loadu_si256(x.cast()));
            let high = _mm256_madd_epi16(high, _mm256_loadu_si256(x.add(16).cast()));
            Avx2Words(_mm256_add_epi32(low, high))
        }
    }
    #[inline(always)]
    unsafe fn dot_i8_i16(bytes: *const u8, x: *const i16) -> Self {
        // SAFETY: valid for 32 reads by contract.
        unsafe {
            let low = _mm256_cvtepi8_epi16(_mm_loadu_si128(bytes.cast()));
            let high = _mm256_cvtepi8_epi16(_mm_loadu_si128(bytes.add(16).cast()));
            let low = _mm256_madd_epi16(low, _mm256_loadu_si256(x.cast()));
            let high = _mm256_madd_epi16(high, _mm256_loadu_si256(x.add(16).cast()));
            Avx2Words(_mm256_add_epi32(low, high))
        }
    }
}
