//! GGUF's 32-element blocks. Low nibbles are elements 0 to 15, high nibbles 16 to 31.

use super::{Blocks, Order, Range, Row, halves_at};
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

/// A block, its scale and its min.
#[derive(Clone, Copy)]
pub(super) struct Open<L> {
    block: *const u8,
    scale: L,
    min: L,
}

/// The parts of the trait that every format here has alike.
macro_rules! one_unit {
    () => {
        const ORDER: Order = Order::Straight;
        const KINDS: usize = 1;
        type Open<L: Lanes> = Open<L>;
        #[inline(always)]
        fn units(self) -> usize {
            1
        }
        #[inline(always)]
        unsafe fn open<L: Lanes>(self, row: Row, block: usize) -> Open<L> {
            let block = row.0[0].wrapping_add(block * Self::BYTES);
            // SAFETY: the block is in memory; all are longer than 4 bytes.
            unsafe {
                let [scale, second] = halves_at::<L>(block);
                Open { block, scale, min: if Self::MIN { second } else { L::splat(0.0) } }
            }
        }
        #[inline(always)]
        unsafe fn scale<L: Lanes>(self, open: &Open<L>, _: usize) -> L {
            open.scale
        }
        #[inline(always)]
        unsafe fn min<L: Lanes>(self, open: &Open<L>, _: usize) -> L {
            open.min
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
    const MIN: bool = false;
    const OFFSET: f32 = 8.0;
    const RANGE: Range = Range::U7;
    #[inline(always)]
    unsafe fn integers<L: Lanes>(self, open: &Open<L>, _: usize) -> L::Words {
        // SAFETY: the block is in memory.
        unsafe { nibbles::<L>(open.block.add(2)) }
    }
}

impl Blocks for Q4_1 {
    one_unit!();
    const MIN: bool = true;
    const OFFSET: f32 = 0.0;
    const RANGE: Range = Range::U7;
    #[inline(always)]
    unsafe fn integers<L: Lanes>(self, open: &Open<L>, _: usize) -> L::Words {
        // SAFETY: the block is in memory.
        unsafe { nibbles::<L>(open.block.add(4)) }
    }
}

impl Blocks for Q5_0 {
    one_unit!();
    const MIN: bool = false;
    const OFFSET: f32 = 16.0;
    const RANGE: Range = Range::U7;
    #[inline(always)]
    unsafe fn integers<L: Lanes>(self, open: &Open<L>, _: usize) -> L::Words {
        // SAFETY: the block is in memory.
        unsafe { nibbles::<L>(open.block.add(6)).or(fifth_bits::<L>(open.block.add(2))) }
    }
}

impl Blocks for Q5_1 {
    one_unit!();
    const MIN: bool = true;
    const OFFSET: f32 = 0.0;
    const RANGE: Range = Range::U7;
    #[inline(always)]
    unsafe fn integers<L: Lanes>(self, open: &Open<L>, _: usize) -> L::Words {
        // SAFETY: the block is in memory.
        unsafe { nibbles::<L>(open.block.add(8)).or(fifth_bits::<L>(open.block.add(4))) }
    }
}

impl Blocks for Q8_0 {
    one_unit!();
    const MIN: bool = false;
    const OFFSET: f32 = 0.0;
    const RANGE: Range = Range::I8;
    #[inline(always)]
    unsafe fn integers<L: Lanes>(self, open: &Open<L>, _: usize) -> L::Words {
        // SAFETY: the block is in memory.
        unsafe { L::Words::load(open.block.add(2)) }
    }
}
