//! GGUF's 32-element blocks. Low nibbles are elements 0 to 15, high nibbles 16 to 31.

use super::{Blocks, Order, Range, Row, half_at};
use crate::lanes::{Lanes, Words};

/// `d·(q - 8)`: `d` f16, 16 bytes of nibbles.
#[derive(Clone, Copy)]
pub(super) struct Q4_0;
/// `d·q + m`: `d`, `m` f16, 16 bytes of nibbles.
#[derive(Clone, Copy)]
pub(super) struct Q4_1;
/// `d·(q - 16)`: `d` f16, 4 bytes of fifth bits, 16 bytes of nibbles.
#[derive(Clone, Copy)]
pub(super) struct Q5_0;
/// `d·q + m`: `d`, `m` f16, 4 bytes of fifth bits, 16 bytes of nibbles.
#[derive(Clone, Copy)]
pub(super) struct Q5_1;
/// `d·q`: `d` f16, 32 signed bytes.
#[derive(Clone, Copy)]
pub(super) struct Q8_0;

/// The nibbles of 16 bytes: all low ones, then all high ones.
#[inline(always)]
pub(super) unsafe fn nibbles<L: Lanes>(p: *const u8) -> L::Words {
    // SAFETY: valid for 16 reads by the caller's contract.
    unsafe {
        let shifts = L::Words::from_array([0, 0, 0, 0, 4, 4, 4, 4]);
        L::Words::load_twice(p).shr_each(shifts).and(L::Words::splat(0x0f0f_0f0f))
    }
}

/// Bit `i` of the 32 bits at `p` as bit 4 of byte `i`.
#[inline(always)]
unsafe fn fifth_bits<L: Lanes>(p: *const u8) -> L::Words {
    // SAFETY: valid for 4 reads by the caller's contract.
    unsafe {
        let word = L::Words::splat(p.cast::<u32>().read_unaligned());
        // Every byte gets the byte of the word that its bit is in.
        let table = L::Words::from_array([
            0,
            0,
            0x0101_0101,
            0x0101_0101,
            0x0202_0202,
            0x0202_0202,
            0x0303_0303,
            0x0303_0303,
        ]);
        let bits = L::Words::from_array([
            0x0804_0201,
            0x8040_2010,
            0x0804_0201,
            0x8040_2010,
            0x0804_0201,
            0x8040_2010,
            0x0804_0201,
            0x8040_2010,
        ]);
        let present = word.shuffle_halves(table).and(bits).equal_bytes(bits);
        present.and(L::Words::splat(0x1010_1010))
    }
}

/// The parts of the trait that every format here has alike.
macro_rules! one_unit {
    () => {
        const ORDER: Order = Order::Straight;
        type Open<L: Lanes> = *const u8;
        #[inline(always)]
        fn units(self) -> usize {
            1
        }
        #[inline(always)]
        unsafe fn open<L: Lanes>(self, row: Row, block: usize) -> *const u8 {
            row.0[0].wrapping_add(block * Self::BYTES)
        }
        #[inline(always)]
        unsafe fn scale<L: Lanes>(self, block: &*const u8, _: usize) -> L {
            // SAFETY: the block is in memory.
            unsafe { L::splat(half_at::<L>(*block)) }
        }
    };
}

/// The min of formats without one.
macro_rules! no_min {
    () => {
        const MIN: bool = false;
        #[inline(always)]
        unsafe fn min<L: Lanes>(self, _: &*const u8, _: usize) -> L {
            // SAFETY: passed on to the caller.
            unsafe { L::splat(0.0) }
        }
    };
}

/// A min after the scale.
macro_rules! min_second {
    () => {
        const MIN: bool = true;
        #[inline(always)]
        unsafe fn min<L: Lanes>(self, block: &*const u8, _: usize) -> L {
            // SAFETY: the block is in memory.
            unsafe { L::splat(half_at::<L>(block.add(2))) }
        }
    };
}

macro_rules! bytes {
    ($($format:ty: $bytes:literal),*) => {
        $(impl $format {
            /// Bytes of a block.
            const BYTES: usize = $bytes;
        })*
    };
}
bytes!(Q4_0: 18, Q4_1: 20, Q5_0: 22, Q5_1: 24, Q8_0: 34);

impl Blocks for Q4_0 {
    one_unit!();
    no_min!();
    const OFFSET: f32 = 8.0;
    const RANGE: Range = Range::U7;
    #[inline(always)]
    unsafe fn integers<L: Lanes>(self, block: &*const u8, _: usize) -> L::Words {
        // SAFETY: the block is in memory.
        unsafe { nibbles::<L>(block.add(2)) }
    }
}

impl Blocks for Q4_1 {
    one_unit!();
    min_second!();
    const OFFSET: f32 = 0.0;
    const RANGE: Range = Range::U7;
    #[inline(always)]
    unsafe fn integers<L: Lanes>(self, block: &*const u8, _: usize) -> L::Words {
        // SAFETY: the block is in memory.
        unsafe { nibbles::<L>(block.add(4)) }
    }
}

impl Blocks for Q5_0 {
    one_unit!();
    no_min!();
    const OFFSET: f32 = 16.0;
    const RANGE: Range = Range::U7;
    #[inline(always)]
    unsafe fn integers<L: Lanes>(self, block: &*const u8, _: usize) -> L::Words {
        // SAFETY: the block is in memory.
        unsafe { nibbles::<L>(block.add(6)).or(fifth_bits::<L>(block.add(2))) }
    }
}

impl Blocks for Q5_1 {
    one_unit!();
    min_second!();
    const OFFSET: f32 = 0.0;
    const RANGE: Range = Range::U7;
    #[inline(always)]
    unsafe fn integers<L: Lanes>(self, block: &*const u8, _: usize) -> L::Words {
        // SAFETY: the block is in memory.
        unsafe { nibbles::<L>(block.add(8)).or(fifth_bits::<L>(block.add(4))) }
    }
}

impl Blocks for Q8_0 {
    one_unit!();
    no_min!();
    const OFFSET: f32 = 0.0;
    const RANGE: Range = Range::I8;
    #[inline(always)]
    unsafe fn integers<L: Lanes>(self, block: &*const u8, _: usize) -> L::Words {
        // SAFETY: the block is in memory.
        unsafe { L::Words::load(block.add(2)) }
    }
}
