//! GGUF's 32-element blocks. Low nibbles are elements 0 to 15, high nibbles 16 to 31.

use super::{Blocks, Layout, Row, Sign};
use crate::lanes::{LANES, Lanes, Words};

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
        let table =
            [0, 0, 0x0101_0101, 0x0101_0101, 0x0202_0202, 0x0202_0202, 0x0303_0303, 0x0303_0303];
        let (even, odd) = (0x0804_0201, 0x8040_2010);
        let bits = L::Words::from_array([even, odd, even, odd, even, odd, even, odd]);
        let bytes = word.shuffle_halves(L::Words::from_array(table));
        bytes.and(bits).equal_bytes(bits).and(L::Words::splat(0x1010_1010))
    }
}

/// Scales that begin blocks of `bytes`, each followed by its min if there is one.
#[inline(always)]
unsafe fn leading<L: Lanes, const MIN: bool>(
    first: *const u8,
    bytes: usize,
    count: usize,
    scales: *mut f32,
) {
    let numbers = if MIN { 2 } else { 1 };
    let step = LANES / numbers;
    let half = |block: usize| {
        // SAFETY: a block in memory.
        u32::from(unsafe { first.wrapping_add(block * bytes).cast::<u16>().read_unaligned() })
    };
    // Collected in registers: a vector read back right after its words were written would wait for them
    // to reach the cache.
    let pair = |at: usize, i: usize| {
        if MIN {
            // SAFETY: a block in memory.
            unsafe { first.wrapping_add((at + i) * bytes).cast::<u32>().read_unaligned() }
        } else {
            half(at + 2 * i) | half(at + 2 * i + 1) << 16
        }
    };
    // SAFETY: the array has room for whole vectors.
    let write = |at: usize, pairs| unsafe { L::from_f16(pairs).store(scales.add(at * numbers)) };
    let whole = count / step * step;
    let left = count - whole;
    if left > 0 && whole > 0 {
        // What is written beyond the last block has to be zeros.
        write(whole, [0; 4]);
    }
    for at in (0..whole).step_by(step) {
        write(at, std::array::from_fn(|i| pair(at, i)));
    }
    if left > 0 && whole > 0 {
        // With some blocks that were converted before: it takes longer to tell which there are.
        let at = count - step;
        write(at, std::array::from_fn(|i| pair(at, i)));
    } else if left > 0 {
        let present = |i: usize| if i < left { half(i) } else { 0 };
        write(
            0,
            std::array::from_fn(|i| match MIN {
                true if i < left => pair(0, i),
                true => 0,
                false => present(2 * i) | present(2 * i + 1) << 16,
            }),
        );
    }
}

/// Blocks of `$bytes` whose integers begin at byte `$at`.
macro_rules! blocks {
    ($format:ty, $bytes:literal, $at:literal, $offset:literal, $min:literal, $layout:expr, $integers:ident) => {
        impl Blocks for $format {
            const OFFSET: f32 = $offset;
            const MIN: bool = $min;
            const HALVES: bool = false;
            const PAIRS: bool = $min;
            const LAYOUT: Layout = $layout;
            const UNITS: usize = 1;
            const KINDS: usize = 1;

            #[inline(always)]
            fn address(self, row: Row, block: usize, _: usize) -> *const u8 {
                row.0[0].wrapping_add(block * $bytes + $at)
            }
            #[inline(always)]
            unsafe fn integers<L: Lanes>(self, row: Row, block: usize, unit: usize) -> L::Words {
                // SAFETY: the block is in memory.
                unsafe { $integers::<L>(self.address(row, block, unit)) }
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
                let first = row.0[0].wrapping_add(first * $bytes);
                // SAFETY: passed on to the caller.
                unsafe { leading::<L, $min>(first, $bytes, count, scales) }
            }
        }
    };
}

/// Nibbles with their fifth bits, which lie before them.
#[inline(always)]
unsafe fn five_bits<L: Lanes>(p: *const u8) -> L::Words {
    // SAFETY: the block is in memory.
    unsafe { nibbles::<L>(p).or(fifth_bits::<L>(p.wrapping_sub(4))) }
}

/// Signed bytes.
#[inline(always)]
unsafe fn bytes<L: Lanes>(p: *const u8) -> L::Words {
    // SAFETY: the block is in memory.
    unsafe { L::Words::load(p) }
}

blocks!(Q4_0, 18, 2, 8.0, false, Layout::Straight, nibbles);
blocks!(Q4_1, 20, 4, 0.0, true, Layout::Straight, nibbles);
blocks!(Q5_0, 22, 6, 16.0, false, Layout::Straight, five_bits);
blocks!(Q5_1, 24, 8, 0.0, true, Layout::Straight, five_bits);
blocks!(Q8_0, 34, 2, 0.0, false, Layout::Memory(Sign::Signed), bytes);
