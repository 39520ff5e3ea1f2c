//! Q8_0 activations times packed rows: integers are multiplied as integers, the scales of both sides
//! applied to a unit's sum.

use super::super::Scratch;
use super::kernel::{self, Factor, Part, ROWS, add_sum};
use super::{Blocks, Layout, Row, Scales, Sign, UNIT, Weights};
use crate::Level;
use crate::lanes::{LANES, Lanes, Words};
use half::f16;

/// Bytes of a Q8_0 block.
const BLOCK_BYTES: usize = 34;

/// Rows of Q8_0 blocks from block `first` on; those beyond `valid` are zeros.
pub(super) struct Blocks8 {
    pub(super) parts: [*const u8; 3],
    pub(super) row_stride: isize,
    pub(super) first: usize,
    pub(super) valid: usize,
    pub(super) rows: usize,
}

/// A unit of activations: its scale, and its integers in the order of the weights': bytes for
/// integers in registers, else 16 bits each for bytes in memory.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
struct Unit {
    scale: [f32; LANES],
    bytes: [i8; UNIT],
    words: [i16; UNIT],
}

/// The integers of a unit of weights: in a register, or where they are.
#[derive(Clone, Copy)]
union Integers<W: Copy> {
    register: W,
    memory: *const u8,
}

#[derive(Clone, Copy)]
struct Quantized;

impl Factor for Quantized {
    const STEP: usize = size_of::<Unit>() / size_of::<f32>();
    type Held<L: Lanes> = Integers<L::Words>;
    #[inline(always)]
    unsafe fn hold<L: Lanes, F: Blocks>(
        f: F,
        row: Row,
        block: usize,
        unit: usize,
    ) -> Integers<L::Words> {
        match F::LAYOUT {
            Layout::Memory(_) => Integers { memory: f.address(row, block, unit) },
            // SAFETY: passed on to the caller.
            _ => unsafe { Integers { register: f.integers::<L>(row, block, unit) } },
        }
    }
    #[inline(always)]
    unsafe fn product<L: Lanes, F: Blocks>(q: Integers<L::Words>, x: *const f32) -> L {
        let x = x.cast::<Unit>();
        // SAFETY: the layout says which field `hold` made; `x` is a unit.
        unsafe {
            let words = (&raw const (*x).words).cast();
            let sums = match F::LAYOUT {
                Layout::Memory(Sign::Unsigned) => L::Words::dot_u8_i16(q.memory, words),
                Layout::Memory(Sign::Signed) => L::Words::dot_i8_i16(q.memory, words),
                _ => q.register.dot_u7_i8(L::Words::load((&raw const (*x).bytes).cast())),
            };
            sums.to_floats().mul(L::load((&raw const (*x).scale).cast()))
        }
    }
}

/// The products of the rows of `x` with the weights, `[rows, weights.rows]`.
///
/// # Safety
/// As [`super::multiply`]'s.
pub(super) unsafe fn multiply<F: Blocks>(
    level: Level,
    f: F,
    shared: usize,
    x: Blocks8,
    w: Weights,
    scratch: &mut Scratch,
) -> *const f32 {
    let units = w.units.1 - w.units.0;
    let span = Scales::of(f, w.units);
    // Rows begin at multiples of 32 bytes, as panels do.
    let stride = units * Quantized::STEP + span.stride;
    let padded = x.rows.next_multiple_of(4);
    let base = scratch.x.zeros(padded * stride);
    let y = scratch.y.floats(padded * w.rows);
    let scales = scratch.scales.zeros(ROWS * 2 * span.stride);
    // SAFETY: passed on to the caller; `base` holds the padded rows.
    unsafe {
        for row in 0..x.rows.min(x.valid) {
            let start = x.row_stride * row as isize + x.first as isize;
            let from = x.parts[0].wrapping_offset(start * BLOCK_BYTES as isize);
            let to = base.add(row * stride);
            let sums = to.add(units * Quantized::STEP);
            for unit in 0..units {
                let count = UNIT.min(shared - unit * UNIT);
                let block = from.add(unit * BLOCK_BYTES);
                let arranged = arrange::<F>(block, count);
                to.cast::<Unit>().add(unit).write(arranged);
                for half in 0..2 {
                    let bytes = (0..16).map(|e| F::LAYOUT.byte(half * 16 + e));
                    let sum: i32 = bytes.map(|byte| i32::from(arranged.bytes[byte])).sum();
                    let sum = arranged.scale[0] * sum as f32;
                    add_sum(f, span, sums, (w.units.0 + unit, half), sum);
                }
            }
        }
        let part = Part { f, w, span, x: base, stride, rows: x.rows, scales, y };
        kernel::multiply::<F, Quantized>(level, part);
    }
    y
}

/// A block in the layout of the kernel; elements from `count` on are zeros.
///
/// # Safety
/// The block is in memory.
unsafe fn arrange<F: Blocks>(block: *const u8, count: usize) -> Unit {
    // SAFETY: passed on to the caller.
    let (scale, from) = unsafe {
        let bits = block.cast::<u16>().read_unaligned();
        (f16::from_bits(bits).to_f32(), block.add(2).cast::<[i8; UNIT]>().read_unaligned())
    };
    let mut bytes = [0; UNIT];
    for (e, x) in from.iter().enumerate().take(count) {
        bytes[F::LAYOUT.byte(e)] = *x;
    }
    Unit { scale: [scale; LANES], bytes, words: bytes.map(i16::from) }
}
