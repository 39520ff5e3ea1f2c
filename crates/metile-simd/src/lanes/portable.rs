//! Arrays that the compiler turns into whatever vectors its target has.

use super::{LANES, Lanes, Words};
use std::array::from_fn;

/// Eight `f32` in an array.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub struct Portable([f32; LANES]);

/// Eight words in an array.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub struct PortableWords([u32; LANES]);

/// `f16` bits to `f32` without a branch: the exponent is rebiased by a multiplication, which also
/// normalizes subnormals.
#[inline(always)]
fn widen_f16(half: u16) -> f32 {
    let magnitude = (u32::from(half) & 0x7fff) << 13;
    let rebiased = (f32::from_bits(magnitude) * f32::from_bits(0x7780_0000)).to_bits();
    let special = if magnitude >= 0x0f80_0000 { 0x7f80_0000 } else { 0 };
    f32::from_bits(rebiased | special | (u32::from(half) & 0x8000) << 16)
}

impl Portable {
    #[inline(always)]
    fn zip(self, b: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        Portable(from_fn(|i| f(self.0[i], b.0[i])))
    }
}

impl Lanes for Portable {
    // 32 of four lanes on AArch64, 16 on x86-64.
    const MANY: bool = cfg!(target_arch = "aarch64");
    type Words = PortableWords;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Portable([x; LANES])
    }
    #[inline(always)]
    unsafe fn splat_f16(bits: u16) -> Self {
        Portable([widen_f16(bits); LANES])
    }
    #[inline(always)]
    unsafe fn splat_f16_pair(bits: u32) -> [Self; 2] {
        [bits as u16, (bits >> 16) as u16].map(|half| Portable([widen_f16(half); LANES]))
    }
    #[inline(always)]
    unsafe fn from_f16(halves: [u32; 4]) -> Self {
        Portable(from_fn(|i| widen_f16((halves[i / 2] >> (i % 2 * 16)) as u16)))
    }
    #[inline(always)]
    unsafe fn splat_two(p: *const f32) -> Self {
        // SAFETY: valid for 2 reads by contract.
        let [a, b] = unsafe { p.cast::<[f32; 2]>().read_unaligned() };
        Portable([a, a, a, a, b, b, b, b])
    }
    #[inline(always)]
    unsafe fn load_u8(p: *const u8) -> Self {
        // SAFETY: valid for 8 reads by contract.
        Portable(unsafe { p.cast::<[u8; LANES]>().read_unaligned() }.map(f32::from))
    }
    #[inline(always)]
    unsafe fn load_i8(p: *const u8) -> Self {
        // SAFETY: valid for 8 reads by contract.
        Portable(unsafe { p.cast::<[i8; LANES]>().read_unaligned() }.map(f32::from))
    }
    #[inline(always)]
    unsafe fn from_array(values: [f32; LANES]) -> Self {
        Portable(values)
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: valid for 8 reads by contract.
        Portable(unsafe { p.cast::<[f32; LANES]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn load_first(p: *const f32, count: usize) -> Self {
        let mut lanes = [0.0; LANES];
        for (i, lane) in lanes.iter_mut().enumerate().take(count) {
            // SAFETY: valid for `count` reads by contract.
            *lane = unsafe { p.add(i).read_unaligned() };
        }
        Portable(lanes)
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> Self {
        // SAFETY: valid for 8 reads by contract.
        let halves = unsafe { p.cast::<[u16; LANES]>().read_unaligned() };
        Portable(halves.map(widen_f16))
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> Self {
        // SAFETY: valid for 8 reads by contract.
        let halves = unsafe { p.cast::<[u16; LANES]>().read_unaligned() };
        Portable(halves.map(|h| f32::from_bits(u32::from(h) << 16)))
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: valid for 8 writes by contract.
        unsafe { p.cast::<[f32; LANES]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn store_first(self, p: *mut f32, count: usize) {
        for (i, lane) in self.0.iter().enumerate().take(count) {
            // SAFETY: valid for `count` writes by contract.
            unsafe { p.add(i).write_unaligned(*lane) };
        }
    }
    #[inline(always)]
    fn prefetch(_: *const u8) {}
    #[inline(always)]
    fn to_array(self) -> [f32; LANES] {
        self.0
    }
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        self.zip(b, |x, y| x + y)
    }
    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        self.zip(b, |x, y| x - y)
    }
    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        self.zip(b, |x, y| x * y)
    }
    #[inline(always)]
    fn div(self, b: Self) -> Self {
        self.zip(b, |x, y| x / y)
    }
    #[inline(always)]
    fn min(self, b: Self) -> Self {
        self.zip(b, |x, y| if x < y { x } else { y })
    }
    #[inline(always)]
    fn max(self, b: Self) -> Self {
        self.zip(b, |x, y| if x > y { x } else { y })
    }
    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        // Fused where the target's baseline has it; a call to a software `fma` would be far slower.
        #[cfg(any(target_arch = "aarch64", target_feature = "fma"))]
        return Portable(from_fn(|i| self.0[i].mul_add(b.0[i], c.0[i])));
        #[cfg(not(any(target_arch = "aarch64", target_feature = "fma")))]
        self.mul(b).add(c)
    }
    #[inline(always)]
    fn sum(self) -> f32 {
        let v = self.0;
        let quads = [v[0] + v[4], v[1] + v[5], v[2] + v[6], v[3] + v[7]];
        (quads[0] + quads[2]) + (quads[1] + quads[3])
    }
    #[inline(always)]
    fn sums(v: [Self; LANES]) -> Self {
        Portable(v.map(Lanes::sum))
    }
    #[inline(always)]
    fn transpose(v: [Self; LANES]) -> [Self; LANES] {
        from_fn(|i| Portable(from_fn(|j| v[j].0[i])))
    }
}

impl PortableWords {
    #[inline(always)]
    fn zip(self, b: Self, f: impl Fn(u32, u32) -> u32) -> Self {
        PortableWords(from_fn(|i| f(self.0[i], b.0[i])))
    }
    #[inline(always)]
    fn bytes(self) -> [u8; 32] {
        from_fn(|i| (self.0[i / 4] >> (i % 4 * 8)) as u8)
    }
    #[inline(always)]
    fn from_bytes(b: [u8; 32]) -> Self {
        PortableWords(from_fn(|i| {
            u32::from_le_bytes([b[4 * i], b[4 * i + 1], b[4 * i + 2], b[4 * i + 3]])
        }))
    }
}

impl Words for PortableWords {
    type Floats = Portable;

    #[inline(always)]
    unsafe fn splat(x: u32) -> Self {
        PortableWords([x; LANES])
    }
    #[inline(always)]
    unsafe fn from_array(words: [u32; LANES]) -> Self {
        PortableWords(words)
    }
    #[inline(always)]
    unsafe fn load(p: *const u8) -> Self {
        // SAFETY: valid for 32 reads by contract.
        Self::from_bytes(unsafe { p.cast::<[u8; 32]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn load_twice(p: *const u8) -> Self {
        // SAFETY: valid for 16 reads by contract.
        let half = unsafe { p.cast::<[u8; 16]>().read_unaligned() };
        Self::from_bytes(from_fn(|i| half[i % 16]))
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut u8) {
        // SAFETY: valid for 32 writes by contract.
        unsafe { p.cast::<[u8; 32]>().write_unaligned(self.bytes()) }
    }
    #[inline(always)]
    fn and(self, b: Self) -> Self {
        self.zip(b, |x, y| x & y)
    }
    #[inline(always)]
    fn or(self, b: Self) -> Self {
        self.zip(b, |x, y| x | y)
    }
    #[inline(always)]
    fn equal(self, b: Self) -> Self {
        self.zip(b, |x, y| if x == y { u32::MAX } else { 0 })
    }
    #[inline(always)]
    fn equal_bytes(self, b: Self) -> Self {
        let (x, y) = (self.bytes(), b.bytes());
        Self::from_bytes(from_fn(|i| if x[i] == y[i] { 255 } else { 0 }))
    }
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        self.zip(b, u32::wrapping_add)
    }
    #[inline(always)]
    fn shl<const N: i32>(self) -> Self {
        PortableWords(self.0.map(|x| x << N))
    }
    #[inline(always)]
    fn shr<const N: i32>(self) -> Self {
        PortableWords(self.0.map(|x| x >> N))
    }
    #[inline(always)]
    fn shr_each(self, counts: Self) -> Self {
        self.zip(counts, |x, n| x >> (n & 31))
    }
    #[inline(always)]
    fn shuffle_halves(self, table: Self) -> Self {
        let (x, t) = (self.bytes(), table.bytes());
        Self::from_bytes(from_fn(|i| x[i / 16 * 16 + usize::from(t[i] & 15)]))
    }
    #[inline(always)]
    fn as_floats(self) -> Portable {
        Portable(self.0.map(f32::from_bits))
    }
    #[inline(always)]
    fn to_floats(self) -> Portable {
        Portable(self.0.map(|x| x as i32 as f32))
    }
    #[inline(always)]
    fn widen_u8(self) -> [Portable; 4] {
        let b = self.bytes();
        from_fn(|v| Portable(from_fn(|i| f32::from(b[8 * v + i]))))
    }
    #[inline(always)]
    fn widen_i8(self) -> [Portable; 4] {
        let b = self.bytes();
        from_fn(|v| Portable(from_fn(|i| f32::from(b[8 * v + i] as i8))))
    }
    #[inline(always)]
    fn interleave_halves(self) -> Self {
        let b = self.bytes();
        Self::from_bytes(from_fn(|i| b[i / 2 + i % 2 * 16]))
    }
    #[inline(always)]
    fn dot_u7_i8(self, b: Self) -> Self {
        let (x, y) = (self.bytes(), b.bytes());
        PortableWords(from_fn(|i| {
            (0..4).map(|j| i32::from(x[4 * i + j]) * i32::from(y[4 * i + j] as i8)).sum::<i32>()
                as u32
        }))
    }
    #[inline(always)]
    unsafe fn dot_u8_i16(bytes: *const u8, x: *const i16) -> Self {
        // SAFETY: valid for 32 reads by contract.
        let (w, x) = unsafe {
            (bytes.cast::<[u8; 32]>().read_unaligned(), x.cast::<[i16; 32]>().read_unaligned())
        };
        dot_i16(w.map(i16::from), x)
    }
    #[inline(always)]
    unsafe fn dot_i8_i16(bytes: *const u8, x: *const i16) -> Self {
        // SAFETY: valid for 32 reads by contract.
        let (w, x) = unsafe {
            (bytes.cast::<[i8; 32]>().read_unaligned(), x.cast::<[i16; 32]>().read_unaligned())
        };
        dot_i16(w.map(i16::from), x)
    }
}

/// Sums of four products each.
#[inline(always)]
fn dot_i16(w: [i16; 32], x: [i16; 32]) -> PortableWords {
    PortableWords(from_fn(|i| {
        (0..4).map(|j| i32::from(w[i + 8 * j]) * i32::from(x[i + 8 * j])).sum::<i32>() as u32
    }))
}
