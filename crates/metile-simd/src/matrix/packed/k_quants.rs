//! GGUF's 256-element super-blocks, eight units each.

use super::{Blocks, Order, Range, Row, half_at, halves_at};
use crate::lanes::{Lanes, Words};

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

/// A block of [`Q4K`] or [`Q5K`] and the scale and min of each unit.
#[derive(Clone, Copy)]
pub(super) struct ScaledMin {
    block: *const u8,
    scales: [f32; 8],
    mins: [f32; 8],
}

/// Opens a block that begins with `d`, `dmin` and 12 bytes of 6-bit scales and mins: bytes 0..4 hold
/// four scales, bytes 4..8 four mins, bytes 8..12 the low nibbles of the other scales and mins, whose
/// high pairs are the top bits of the first eight bytes.
#[inline(always)]
unsafe fn scaled_min<L: Lanes>(block: *const u8) -> ScaledMin {
    // SAFETY: the block is in memory.
    unsafe {
        let word = |at: usize| block.add(4 + at).cast::<u32>().read_unaligned();
        let (s, m, rest) = (word(0), word(4), word(8));
        let (six, four, pair) = (0x3f3f_3f3f, 0x0f0f_0f0f, 0x3030_3030);
        let words = [
            s & six,
            rest & four | s >> 2 & pair,
            m & six,
            rest >> 4 & four | m >> 2 & pair,
            0,
            0,
            0,
            0,
        ];
        let values = L::Words::from_array(words).widen_u8();
        let [d, dmin] = halves_at::<L>(block);
        ScaledMin {
            block,
            scales: values[0].mul(d).to_array(),
            mins: values[1].mul(dmin).mul(L::splat(-1.0)).to_array(),
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

/// The parts of the trait that [`Q4K`] and [`Q5K`] have alike.
macro_rules! with_min {
    ($bytes:literal) => {
        const OFFSET: f32 = 0.0;
        const MIN: bool = true;
        const RANGE: Range = Range::U7;
        const ORDER: Order = Order::Straight;
        const KINDS: usize = 2;
        type Open<L: Lanes> = ScaledMin;
        #[inline(always)]
        fn units(self) -> usize {
            8
        }
        #[inline(always)]
        unsafe fn open<L: Lanes>(self, row: Row, block: usize) -> ScaledMin {
            // SAFETY: the block is in memory.
            unsafe { scaled_min::<L>(row.0[0].wrapping_add(block * $bytes)) }
        }
        #[inline(always)]
        unsafe fn scale<L: Lanes>(self, block: &ScaledMin, unit: usize) -> L {
            // SAFETY: passed on to the caller.
            unsafe { L::splat(block.scales[unit]) }
        }
        #[inline(always)]
        unsafe fn min<L: Lanes>(self, block: &ScaledMin, unit: usize) -> L {
            // SAFETY: passed on to the caller.
            unsafe { L::splat(block.mins[unit]) }
        }
    };
}

impl Blocks for Q4K {
    with_min!(144);
    #[inline(always)]
    unsafe fn integers<L: Lanes>(self, block: &ScaledMin, unit: usize) -> L::Words {
        // SAFETY: the block is in memory.
        unsafe { nibbles::<L>(block.block.add(16 + unit / 2 * 32), unit % 2 == 1) }
    }
}

impl Blocks for Q5K {
    with_min!(176);
    #[inline(always)]
    unsafe fn integers<L: Lanes>(self, block: &ScaledMin, unit: usize) -> L::Words {
        // SAFETY: the block is in memory.
        unsafe {
            let low = nibbles::<L>(block.block.add(48 + unit / 2 * 32), unit % 2 == 1);
            let bit = L::Words::splat(0x0101_0101 << unit);
            let present = L::Words::load(block.block.add(16)).and(bit).equal_bytes(bit);
            low.or(present.and(L::Words::splat(0x1010_1010)))
        }
    }
}

/// A block of [`Q6K`] and its scales: lane `i` of unit `u` is that of bytes `4i..4i + 4`.
#[derive(Clone, Copy)]
pub(super) struct Halves {
    block: *const u8,
    scales: [f32; 16],
}

impl Blocks for Q6K {
    const OFFSET: f32 = 32.0;
    const MIN: bool = false;
    const RANGE: Range = Range::U7;
    const ORDER: Order = Order::Straight;
    const KINDS: usize = 4;
    type Open<L: Lanes> = Halves;
    #[inline(always)]
    fn units(self) -> usize {
        8
    }
    #[inline(always)]
    unsafe fn open<L: Lanes>(self, row: Row, block: usize) -> Halves {
        let block = row.0[0].wrapping_add(block * 210);
        // SAFETY: the block is in memory.
        unsafe {
            let d = half_at::<L>(block.add(208));
            let values = L::Words::load_twice(block.add(192)).widen_i8();
            let mut scales = [0.0; 16];
            values[0].mul(d).store(scales.as_mut_ptr());
            values[1].mul(d).store(scales.as_mut_ptr().add(8));
            Halves { block, scales }
        }
    }
    #[inline(always)]
    unsafe fn integers<L: Lanes>(self, block: &Halves, unit: usize) -> L::Words {
        let (part, group) = (unit / 4, unit % 4);
        // SAFETY: the block is in memory.
        unsafe {
            let low = nibbles::<L>(block.block.add(part * 64 + group % 2 * 32), group >= 2);
            let pairs = L::Words::load(block.block.add(128 + part * 32));
            let pairs = match group {
                0 => pairs.shl::<4>(),
                1 => pairs.shl::<2>(),
                2 => pairs,
                _ => pairs.shr::<2>(),
            };
            low.or(pairs.and(L::Words::splat(0x3030_3030)))
        }
    }
    #[inline(always)]
    unsafe fn scale<L: Lanes>(self, block: &Halves, unit: usize) -> L {
        let (a, b) = (block.scales[2 * unit], block.scales[2 * unit + 1]);
        // SAFETY: passed on to the caller.
        unsafe { L::from_array([a, a, a, a, b, b, b, b]) }
    }
    #[inline(always)]
    unsafe fn min<L: Lanes>(self, _: &Halves, _: usize) -> L {
        // SAFETY: passed on to the caller.
        unsafe { L::splat(0.0) }
    }
}
