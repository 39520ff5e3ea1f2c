//! Products with packed weights: blocks are taken apart in registers, 32 elements at a time.

mod affine;
mod decode;
mod fused;
mod k_quants;
mod legacy;
mod quantized;

pub(super) use decode::decode;

use super::small::{self, Targets};
use super::{Operand, Scratch, Source};
use crate::Level;
use crate::lanes::{Lanes, Words};
use metile_ir::PackedFormat;
use metile_ir::dtype::AffineBits;

/// Elements that share a scale at least pairwise: the unit of every loop over packed weights.
const UNIT: usize = 32;

/// One row of blocks: its first block in each array.
#[derive(Clone, Copy)]
pub(super) struct Row([*const u8; 3]);

impl Row {
    /// The row that begins `blocks` blocks after those at `parts`.
    pub(super) fn new(format: PackedFormat, parts: [*const u8; 3], blocks: isize) -> Row {
        let bytes = block_bytes(format);
        Row(std::array::from_fn(|i| parts[i].wrapping_offset(blocks * bytes[i] as isize)))
    }
}

/// [`PackedFormat::block_bytes`] without an allocation; 0 for arrays that the format lacks.
fn block_bytes(format: PackedFormat) -> [usize; 3] {
    match format {
        PackedFormat::Q4_0 => [18, 0, 0],
        PackedFormat::Q4_1 => [20, 0, 0],
        PackedFormat::Q5_0 => [22, 0, 0],
        PackedFormat::Q5_1 => [24, 0, 0],
        PackedFormat::Q8_0 => [34, 0, 0],
        PackedFormat::Q4K => [144, 0, 0],
        PackedFormat::Q5K => [176, 0, 0],
        PackedFormat::Q6K => [210, 0, 0],
        PackedFormat::Affine(a) => {
            let scale = a.scale.dtype().bytes();
            [a.group.get() * a.bits.get() / 8, scale, scale]
        }
    }
}

/// Which element byte `p` of a unit's 32 integers is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Element `p`.
    Straight,
    /// Byte `p` is element `2p`, byte `16 + p` is `2p + 1`: low and high nibbles of 16 bytes.
    Paired,
}

/// What the integers of a format can be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Range {
    /// `0..=127`.
    U7,
    /// `0..=255`.
    U8,
    /// `-128..=127`.
    I8,
}

/// A format: `value = scale · (integer - OFFSET) + min`, a scale and a min per unit or half unit.
trait Blocks: Copy {
    /// Subtracted from the integers.
    const OFFSET: f32;
    /// Whether there is a min.
    const MIN: bool;
    /// The integers' range.
    const RANGE: Range;
    /// The integers' order.
    const ORDER: Order;
    /// Units whose integers are taken apart differently.
    const KINDS: usize;
    /// A block with its scales at hand.
    type Open<L: Lanes>: Copy;

    /// Units of a block.
    fn units(self) -> usize;
    /// Block `block` of a row.
    ///
    /// # Safety
    /// The block is in memory; the machine has the level of `L`.
    unsafe fn open<L: Lanes>(self, row: Row, block: usize) -> Self::Open<L>;
    /// The 32 integers of a unit.
    ///
    /// # Safety
    /// The block is in memory; the machine has the level of `L`.
    unsafe fn integers<L: Lanes>(self, block: &Self::Open<L>, unit: usize) -> L::Words;
    /// The scale of bytes `4i..4i + 4` in lane `i`.
    ///
    /// # Safety
    /// The machine has the level of `L`.
    unsafe fn scale<L: Lanes>(self, block: &Self::Open<L>, unit: usize) -> L;
    /// The min, or zero.
    ///
    /// # Safety
    /// The machine has the level of `L`.
    unsafe fn min<L: Lanes>(self, block: &Self::Open<L>, unit: usize) -> L;
}

/// Runs `$body` with `$f` the [`Blocks`] of `$format`.
macro_rules! with_blocks {
    ($format:expr, $f:ident => $body:expr) => {
        match $format {
            PackedFormat::Q4_0 => {
                let $f = legacy::Q4_0;
                $body
            }
            PackedFormat::Q4_1 => {
                let $f = legacy::Q4_1;
                $body
            }
            PackedFormat::Q5_0 => {
                let $f = legacy::Q5_0;
                $body
            }
            PackedFormat::Q5_1 => {
                let $f = legacy::Q5_1;
                $body
            }
            PackedFormat::Q8_0 => {
                let $f = legacy::Q8_0;
                $body
            }
            PackedFormat::Q4K => {
                let $f = k_quants::Q4K;
                $body
            }
            PackedFormat::Q5K => {
                let $f = k_quants::Q5K;
                $body
            }
            PackedFormat::Q6K => {
                let $f = k_quants::Q6K;
                $body
            }
            PackedFormat::Affine(a) => match a.bits {
                AffineBits::B4 => {
                    let $f = affine::Four(affine::Groups::new(a));
                    $body
                }
                AffineBits::B8 => {
                    let $f = affine::Eight(affine::Groups::new(a));
                    $body
                }
            },
        }
    };
}
use with_blocks;

/// The `f16` at `p`, widened.
#[inline(always)]
unsafe fn half_at<L: Lanes>(p: *const u8) -> L {
    // SAFETY: valid for two reads by the caller's contract.
    unsafe { L::splat_f16(p.cast::<u16>().read_unaligned()) }
}

/// The two `f16` at `p`, widened.
#[inline(always)]
unsafe fn halves_at<L: Lanes>(p: *const u8) -> [L; 2] {
    // SAFETY: valid for four reads by the caller's contract.
    unsafe { L::splat_f16_pair(p.cast::<u32>().read_unaligned()) }
}

/// Bytes `j, j + 4, …` of the unit as floats in vector `j`; [`Range::I8`] in the order of the bytes.
#[inline(always)]
unsafe fn expand<L: Lanes, F: Blocks>(integers: L::Words) -> [L; 4] {
    if F::RANGE == Range::I8 {
        return integers.widen_i8();
    }
    // SAFETY: an `L::Words` exists, so the machine has the level.
    let byte = unsafe { L::Words::splat(0xff) };
    [
        integers.and(byte).to_floats(),
        integers.shr::<8>().and(byte).to_floats(),
        integers.shr::<16>().and(byte).to_floats(),
        integers.shr::<24>().to_floats(),
    ]
}

/// Where `expand` puts element `e` of a unit.
fn expanded_at<F: Blocks>(e: usize) -> usize {
    let byte = byte_of::<F>(e);
    if F::RANGE == Range::I8 { byte } else { byte % 4 * 8 + byte / 4 }
}

/// The byte of element `e` of a unit.
fn byte_of<F: Blocks>(e: usize) -> usize {
    match F::ORDER {
        Order::Straight => e,
        Order::Paired => e / 2 + e % 2 * 16,
    }
}

/// Rows of a packed factor, from unit `units.0` to unit `units.1` of each.
#[derive(Clone, Copy)]
struct Weights {
    format: PackedFormat,
    parts: [*const u8; 3],
    row_stride: isize,
    rows: usize,
    units: (usize, usize),
}

impl Weights {
    fn row(&self, row: usize) -> Row {
        Row::new(self.format, self.parts, row as isize * self.row_stride)
    }
}

/// Adds `x · wᵀ` over `k < shared` to `targets` if `w` is packed and its rows begin at a whole unit;
/// else does nothing and returns false.
///
/// # Safety
/// As [`super::dot`]'s; `shared` elements are valid in both.
pub(super) unsafe fn multiply(
    level: Level,
    shared: usize,
    x: &Operand,
    w: &Operand,
    targets: Targets,
    scratch: &mut Scratch,
) -> bool {
    let Source::Packed { format, parts, row_stride, first_k } = w.source else { return false };
    if first_k % UNIT != 0 {
        return false;
    }
    let units = (first_k / UNIT, (first_k + shared).div_ceil(UNIT));
    let weights = Weights { format, parts, row_stride, rows: w.valid_rows, units };
    let rows = targets.count();
    // SAFETY: passed on to the caller. Blocks of valid elements are whole in memory.
    unsafe {
        let results = match x.source {
            Source::Packed { format: PackedFormat::Q8_0, parts, row_stride, first_k }
                if first_k % UNIT == 0 =>
            {
                let x = quantized::Blocks8 {
                    parts,
                    row_stride,
                    first: first_k / UNIT,
                    valid: x.valid_rows,
                    rows,
                };
                with_blocks!(format, f => quantized::multiply(level, f, shared, x, weights, scratch))
            }
            _ => with_blocks!(format, f => {
                fused::multiply(level, f, shared, x, rows, weights, scratch)
            }),
        };
        for i in 0..rows {
            for j in 0..w.valid_rows {
                let mut value = *results.add(i * w.valid_rows + j);
                // With scales and integers apart, what is not finite may differ from the decoded
                // product; and only there can it.
                if !value.is_finite() {
                    value = small::one(level, shared, (x, i), (w, j), scratch);
                }
                *targets.at(i, j) += value;
            }
        }
    }
    true
}
