//! Q8_0 activations times packed rows: integers are multiplied as integers, the scales of both sides
//! applied to a unit's sum.

use super::super::Scratch;
use super::super::scratch::Key;
use super::kernel::{self, Block, Factor, GROUP, MOST, Part, ROWS, add_sum};
use super::{Blocks, Held, Layout, Scales, Sign, UNIT, Weights};
use crate::Level;
use crate::lanes::{self, LANES, Lanes, Words, Work};

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

#[derive(Clone, Copy)]
struct Quantized;

impl Factor for Quantized {
    const STEP: usize = size_of::<Unit>() / size_of::<f32>();
    unsafe fn four<F: Blocks>(level: Level, part: Part<F>) {
        // SAFETY: passed on to the caller.
        unsafe { lanes::run(level, Block::<F, Quantized, 4, 2>(part, [])) };
    }
    #[inline(always)]
    unsafe fn accumulate<L: Lanes, F: Blocks, const R: usize, const C: usize>(
        held: &[Held<L::Words>; C],
        scales: &[L; C],
        x: *const f32,
        stride: usize,
        acc: &mut [[L; C]; R],
    ) {
        // SAFETY: passed on to the caller.
        unsafe {
            for r in 0..R {
                let x = x.add(r * stride).cast::<Unit>();
                let words = (&raw const (*x).words).cast();
                for c in 0..C {
                    let q = held[c];
                    let sums = match F::LAYOUT {
                        Layout::Memory(Sign::Unsigned) => L::Words::dot_u8_i16(q.memory, words),
                        Layout::Memory(Sign::Signed) => L::Words::dot_i8_i16(q.memory, words),
                        _ => q.register.dot_u7_i8(L::Words::load((&raw const (*x).bytes).cast())),
                    };
                    let scale = scales[c].mul(L::load((&raw const (*x).scale).cast()));
                    acc[r][c] = sums.to_floats().mul_add(scale, acc[r][c]);
                }
            }
        }
    }
}

/// The products of the rows of `x` with the weights, `[rows, weights.rows]`; nothing if there are too
/// many.
///
/// # Safety
/// As [`super::multiply`]'s.
pub(super) unsafe fn multiply<F: Blocks>(
    level: Level,
    f: F,
    (shared, key): (usize, Option<Key>),
    x: Blocks8,
    w: Weights,
    scratch: &mut Scratch,
) -> Option<*const f32> {
    if x.rows > MOST {
        return None;
    }
    let units = w.units.1 - w.units.0;
    let span = Scales::of(f, w.units);
    // Rows begin at multiples of 32 bytes, as panels do.
    let stride = units * Quantized::STEP + span.stride;
    let padded = x.rows.next_multiple_of(GROUP);
    let (base, found) = scratch.arranged.floats(padded * stride, key);
    let y = scratch.y.floats(padded * w.rows);
    let scales = scratch.scales.floats(ROWS * 2 * span.stride);
    // SAFETY: passed on to the caller; `base` holds the padded rows.
    unsafe {
        for row in 0..if found { 0 } else { x.rows } {
            let to = base.add(row * stride);
            if row >= x.valid {
                std::ptr::write_bytes(to, 0, stride);
                continue;
            }
            let start = x.row_stride * row as isize + x.first as isize;
            let from = x.parts[0].wrapping_offset(start * BLOCK_BYTES as isize);
            std::ptr::write_bytes(to.add(units * Quantized::STEP), 0, span.stride);
            lanes::run(level, Arrange { f, from, shared, first: w.units.0, units, span, to });
        }
        let part = Part { f, w, span, x: base, stride, rows: x.rows, scales, y };
        kernel::multiply::<F, Quantized>(level, part);
    }
    Some(y)
}

/// Writes a row of blocks in the layout of the kernel, sums over zeros; elements from `shared` on are
/// zeros.
struct Arrange<F> {
    f: F,
    from: *const u8,
    shared: usize,
    first: usize,
    units: usize,
    span: Scales,
    to: *mut f32,
}

impl<F: Blocks> Work for Arrange<F> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        // SAFETY: blocks of valid elements are in memory, `to` has the units and sums.
        unsafe {
            let sums = self.to.add(self.units * Quantized::STEP);
            for unit in 0..self.units {
                let block = self.from.add(unit * BLOCK_BYTES);
                let scale = L::splat_f16(block.cast::<u16>().read_unaligned()).to_array();
                let mut from = block.add(2).cast::<[i8; UNIT]>().read_unaligned();
                let count = self.shared - unit * UNIT;
                if count < UNIT {
                    from[count..].fill(0);
                }
                let mut bytes = from;
                if F::LAYOUT == Layout::Paired {
                    for (byte, to) in bytes.iter_mut().enumerate() {
                        *to = from[F::LAYOUT.element(byte)];
                    }
                }
                let words = from.map(i16::from);
                self.to.cast::<Unit>().add(unit).write(Unit { scale, bytes, words });
                for half in 0..2 {
                    let sum: i32 = from[16 * half..][..16].iter().map(|&q| i32::from(q)).sum();
                    let sum = scale[0] * sum as f32;
                    add_sum(self.f, self.span, sums, (self.first + unit, half), sum);
                }
            }
        }
    }
}
