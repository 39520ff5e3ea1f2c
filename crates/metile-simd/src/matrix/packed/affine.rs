//! MLX's affine groups: `scale·q + bias`, integers, scales and biases in an array each.

use super::legacy::nibbles;
use super::{Blocks, Order, Range, Row, half_at};
use crate::lanes::{Lanes, Words};
use metile_ir::dtype::{Affine, AffineScale};

/// The layout of a format's groups.
#[derive(Clone, Copy)]
pub(super) struct Groups {
    units: usize,
    scale: AffineScale,
}

impl Groups {
    pub(super) fn new(format: Affine) -> Groups {
        Groups { units: format.group.get() / super::UNIT, scale: format.scale }
    }

    #[inline(always)]
    unsafe fn open<L: Lanes>(self, row: Row, group: usize, unit_bytes: usize) -> Group<L> {
        let number = |part: *const u8| -> L {
            // SAFETY: the group's scale and bias are in memory.
            unsafe {
                match self.scale {
                    AffineScale::F16 => half_at(part.add(2 * group)),
                    AffineScale::BF16 => {
                        let bits = part.cast::<u16>().add(group).read_unaligned();
                        L::splat(f32::from_bits(u32::from(bits) << 16))
                    }
                    AffineScale::F32 => L::splat(part.cast::<f32>().add(group).read_unaligned()),
                }
            }
        };
        Group {
            integers: row.0[0].wrapping_add(group * self.units * unit_bytes),
            scale: number(row.0[1]),
            bias: number(row.0[2]),
        }
    }
}

/// A group with its scale and bias.
#[derive(Clone, Copy)]
pub(super) struct Group<L> {
    integers: *const u8,
    scale: L,
    bias: L,
}

/// 4-bit integers: element `2i` in the low nibble of byte `i`, `2i + 1` in the high one.
#[derive(Clone, Copy)]
pub(super) struct Four(pub(super) Groups);
/// 8-bit integers.
#[derive(Clone, Copy)]
pub(super) struct Eight(pub(super) Groups);

macro_rules! group {
    ($unit_bytes:literal) => {
        const OFFSET: f32 = 0.0;
        const MIN: bool = true;
        const KINDS: usize = 1;
        type Open<L: Lanes> = Group<L>;
        #[inline(always)]
        fn units(self) -> usize {
            self.0.units
        }
        #[inline(always)]
        unsafe fn open<L: Lanes>(self, row: Row, block: usize) -> Group<L> {
            // SAFETY: the group is in memory.
            unsafe { self.0.open::<L>(row, block, $unit_bytes) }
        }
        #[inline(always)]
        unsafe fn scale<L: Lanes>(self, group: &Group<L>, _: usize) -> L {
            group.scale
        }
        #[inline(always)]
        unsafe fn min<L: Lanes>(self, group: &Group<L>, _: usize) -> L {
            group.bias
        }
    };
}

impl Blocks for Four {
    group!(16);
    const RANGE: Range = Range::U7;
    const ORDER: Order = Order::Paired;
    #[inline(always)]
    unsafe fn integers<L: Lanes>(self, group: &Group<L>, unit: usize) -> L::Words {
        // SAFETY: the group is in memory.
        unsafe { nibbles::<L>(group.integers.add(16 * unit)) }
    }
}

impl Blocks for Eight {
    group!(32);
    const RANGE: Range = Range::U8;
    const ORDER: Order = Order::Straight;
    #[inline(always)]
    unsafe fn integers<L: Lanes>(self, group: &Group<L>, unit: usize) -> L::Words {
        // SAFETY: the group is in memory.
        unsafe { L::Words::load(group.integers.add(32 * unit)) }
    }
}
