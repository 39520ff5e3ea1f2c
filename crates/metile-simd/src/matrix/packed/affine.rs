//! MLX's affine groups: `scale·q + bias`, integers, scales and biases in an array each. Integers follow
//! each other without gaps, so that a block is a unit here.

use super::super::operand::Element;
use super::legacy::nibbles;
use super::{Blocks, Layout, Row, Sign, UNIT};
use crate::lanes::{LANES, Lanes, Words};
use half::{bf16, f16};
use metile_ir::dtype::{Affine, AffineScale};

/// The layout of a format's groups.
#[derive(Clone, Copy)]
pub(super) struct Groups {
    units: usize,
    scale: AffineScale,
}

impl Groups {
    pub(super) fn new(format: Affine) -> Groups {
        Groups { units: format.group.get() / UNIT, scale: format.scale }
    }

    /// Widens the scales and biases of the groups of `count` units from unit `first` on.
    #[inline(always)]
    unsafe fn scales<L: Lanes>(
        self,
        row: Row,
        first: usize,
        count: usize,
        scales: *mut f32,
        mins: *mut f32,
    ) {
        let (first, count) = (first / self.units, count / self.units);
        for (part, to) in [(row.0[1], scales), (row.0[2], mins)] {
            // SAFETY: passed on to the caller.
            unsafe {
                match self.scale {
                    AffineScale::F16 => widen::<L, f16>(part, first, count, to),
                    AffineScale::BF16 => widen::<L, bf16>(part, first, count, to),
                    AffineScale::F32 => widen::<L, f32>(part, first, count, to),
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn widen<L: Lanes, E: Element>(part: *const u8, first: usize, count: usize, to: *mut f32) {
    let from = part.cast::<E>().wrapping_add(first);
    // SAFETY: the groups are in memory; the array has room for `count` rounded up to a vector.
    unsafe {
        for at in (0..count).step_by(LANES) {
            let left = count - at;
            let v: L = if left >= LANES {
                E::load(from.add(at))
            } else {
                E::load_first(from.add(at), left)
            };
            v.store(to.add(at));
        }
    }
}

/// 4-bit integers: element `2i` in the low nibble of byte `i`, `2i + 1` in the high one.
#[derive(Clone, Copy)]
pub(super) struct Four(pub(super) Groups);
/// 8-bit integers.
#[derive(Clone, Copy)]
pub(super) struct Eight(pub(super) Groups);

/// What both widths have alike; units have `$bytes`.
macro_rules! groups {
    ($bytes:literal) => {
        const OFFSET: f32 = 0.0;
        const MIN: bool = true;
        const HALVES: bool = false;
        const PAIRS: bool = false;
        const UNITS: usize = 1;
        const KINDS: usize = 1;

        #[inline(always)]
        fn per_scale(self) -> usize {
            self.0.units
        }
        #[inline(always)]
        fn address(self, row: Row, block: usize, _: usize) -> *const u8 {
            row.0[0].wrapping_add(block * $bytes)
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
            // SAFETY: passed on to the caller.
            unsafe { self.0.scales::<L>(row, first, count, scales, mins) }
        }
    };
}

impl Blocks for Four {
    groups!(16);
    const LAYOUT: Layout = Layout::Paired;
    #[inline(always)]
    unsafe fn integers<L: Lanes>(self, row: Row, block: usize, unit: usize) -> L::Words {
        // SAFETY: the group is in memory.
        unsafe { nibbles::<L>(self.address(row, block, unit)) }
    }
}

impl Blocks for Eight {
    groups!(32);
    const LAYOUT: Layout = Layout::Memory(Sign::Unsigned);
    #[inline(always)]
    unsafe fn integers<L: Lanes>(self, row: Row, block: usize, unit: usize) -> L::Words {
        // SAFETY: the group is in memory.
        unsafe { L::Words::load(self.address(row, block, unit)) }
    }
}
