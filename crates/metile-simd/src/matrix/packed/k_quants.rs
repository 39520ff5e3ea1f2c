//! GGUF's 256-element super-blocks, eight units each.

use super::{Blocks, Layout, Row};
use crate::lanes::{LANES, Lanes, Words};

/// `(d·scale)·q - dmin·min`: `d`, `dmin` f16, 12 bytes of scales, 128 bytes of nibbles. Each 32 bytes
/// hold two units: low nibbles, then high ones.
#[derive(Clone, Copy)]
pub(super) struct Q4K;
/// As [`Q4K`], with a fifth bit of each element in 32 bytes before the nibbles: bit `unit` of byte
/// `within`.
#[derive(Clone, Copy)]
pub(super) struct Q5K;
/// `(d·scale)·(q - 32)`: 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 signed scales (one
/// per 16 elements), `d` f16. Each half of 128 elements is four units.
#[derive(Clone, Copy)]
pub(super) struct Q6K;

/// Scales and mins of blocks that begin with `d`, `dmin` and 12 bytes of 6-bit integers: bytes 0..4 hold
/// four scales, bytes 4..8 four mins, bytes 8..12 the low nibbles of the other scales and mins, whose
/// high pairs are the top bits of the first eight bytes.
#[inline(always)]
unsafe fn six_bits<L: Lanes>(
    first: *const u8,
    bytes: usize,
    count: usize,
    scales: *mut f32,
    mins: *mut f32,
) {
    for i in 0..count {
        let block = first.wrapping_add(i * bytes);
        // SAFETY: the blocks are in memory, the arrays have eight floats for each.
        unsafe {
            let word = |at: usize| block.add(at).cast::<u32>().read_unaligned();
            let (s, m, rest) = (word(4), word(8), word(12));
            let (six, four, pair) = (0x3f3f_3f3f, 0x0f0f_0f0f, 0x3030_3030);
            let (low, high) = (rest & four | s >> 2 & pair, rest >> 4 & four | m >> 2 & pair);
            let integers = [s & six, low, m & six, high];
            let [d, dmin] = L::splat_f16_pair(word(0));
            let of = |half: usize| L::load_u8(integers.as_ptr().add(2 * half).cast());
            of(0).mul(d).store(scales.add(i * LANES));
            of(1).mul(dmin).mul(L::splat(-1.0)).store(mins.add(i * LANES));
        }
    }
}

/// Low or high nibbles of 32 bytes.
#[inline(always)]
unsafe fn nibbles<L: Lanes>(p: *const u8, high: bool) -> L::Words {
    // SAFETY: valid for 32 reads by the caller's contract.
    unsafe {
        let bytes = L::Words::load(p);
        let bytes = if high { bytes.shr::<4>() } else { bytes };
        bytes.and(L::Words::splat(0x0f0f_0f0f))
    }
}

/// What [`Q4K`] and [`Q5K`] have alike; `$at` is where the nibbles begin.
macro_rules! with_min {
    ($bytes:literal, $at:literal) => {
        const OFFSET: f32 = 0.0;
        const MIN: bool = true;
        const HALVES: bool = false;
        const PAIRS: bool = false;
        const LAYOUT: Layout = Layout::Straight;
        const UNITS: usize = 8;
        const KINDS: usize = 2;

        #[inline(always)]
        fn address(self, row: Row, block: usize, unit: usize) -> *const u8 {
            row.0[0].wrapping_add(block * $bytes + $at + unit / 2 * 32)
        }
        #[inline(always)]
        unsafe fn scales<L: Lanes>(
            self,
            row: Row,
            first: usize,
            count: usize,
            scales: *mut f32,
            mins: *mut f32,
        ) {
            let first = row.0[0].wrapping_add(first * $bytes);
            // SAFETY: passed on to the caller.
            unsafe { six_bits::<L>(first, $bytes, count, scales, mins) }
        }
    };
}

impl Blocks for Q4K {
    with_min!(144, 16);
    #[inline(always)]
    unsafe fn integers<L: Lanes>(self, row: Row, block: usize, unit: usize) -> L::Words {
        // SAFETY: the block is in memory.
        unsafe { nibbles::<L>(self.address(row, block, unit), unit % 2 == 1) }
    }
}

impl Blocks for Q5K {
    with_min!(176, 48);
    #[inline(always)]
    unsafe fn integers<L: Lanes>(self, row: Row, block: usize, unit: usize) -> L::Words {
        // SAFETY: the block is in memory.
        unsafe {
            let low = nibbles::<L>(self.address(row, block, unit), unit % 2 == 1);
            let bit = L::Words::splat(0x0101_0101 << unit);
            let high = L::Words::load(row.0[0].wrapping_add(block * 176 + 16));
            low.or(high.and(bit).equal_bytes(bit).and(L::Words::splat(0x1010_1010)))
        }
    }
}

impl Blocks for Q6K {
    const OFFSET: f32 = 32.0;
    const MIN: bool = false;
    const HALVES: bool = true;
    const PAIRS: bool = false;
    const LAYOUT: Layout = Layout::Straight;
    const UNITS: usize = 8;
    const KINDS: usize = 4;

    #[inline(always)]
    fn address(self, row: Row, block: usize, unit: usize) -> *const u8 {
        row.0[0].wrapping_add(block * 210 + unit / 4 * 64 + unit % 2 * 32)
    }
    #[inline(always)]
    unsafe fn integers<L: Lanes>(self, row: Row, block: usize, unit: usize) -> L::Words {
        // SAFETY: the block is in memory.
        unsafe {
            let low = nibbles::<L>(self.address(row, block, unit), unit % 4 >= 2);
            let pairs = row.0[0].wrapping_add(block * 210 + 128 + unit / 4 * 32);
            let pairs = L::Words::load(pairs);
            let pairs = match unit % 4 {
                0 => pairs.shl::<4>(),
                1 => pairs.shl::<2>(),
                2 => pairs,
                _ => pairs.shr::<2>(),
            };
            low.or(pairs.and(L::Words::splat(0x3030_3030)))
        }
    }
    #[inline(always)]
    unsafe fn scales<L: Lanes>(
        self,
        row: Row,
        first: usize,
        count: usize,
        scales: *mut f32,
        _: *mut f32,
    ) {
        for i in 0..count {
            let block = row.0[0].wrapping_add((first + i) * 210);
            // SAFETY: the block is in memory, the array has sixteen floats for it.
            unsafe {
                let d = L::splat_f16(block.add(208).cast::<u16>().read_unaligned());
                L::load_i8(block.add(192)).mul(d).store(scales.add(2 * LANES * i));
                L::load_i8(block.add(200)).mul(d).store(scales.add(2 * LANES * i + LANES));
            }
        }
    }
}
