//! Products with packed weights: blocks are taken apart in registers, 32 elements at a time.

mod affine;
mod decode;
mod fused;
mod k_quants;
mod kernel;
mod legacy;
mod quantized;

pub(super) use decode::decode;

use super::scratch::Key;
use super::small::{self, Targets};
use super::{Operand, Scratch, Source};
use crate::Level;
use crate::lanes::{LANES, Lanes, Words};
use metile_ir::dtype::AffineBits;
use metile_ir::{DType, PackedFormat};

/// Elements that share a scale at least pairwise: the unit of every loop over packed weights.
const UNIT: usize = 32;

/// One row of blocks: its first block in each array.
#[derive(Clone, Copy)]
pub(super) struct Row([*const u8; 3]);

impl Row {
    /// The row that begins `blocks` blocks after those at `parts`.
    pub(super) fn new(format: PackedFormat, parts: [*const u8; 3], blocks: isize) -> Row {
        let bytes = format.array_bytes();
        Row(std::array::from_fn(|i| parts[i].wrapping_offset(blocks * bytes[i] as isize)))
    }
}

/// How the 32 integers of a unit lie in memory, or in [`Blocks::integers`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// Bytes in order, at [`Blocks::address`].
    Memory(Sign),
    /// Byte `p` of the integers is element `p`; all are below 128.
    Straight,
    /// Byte `p` is element `2p`, byte `16 + p` is `2p + 1` (low and high nibbles of 16 bytes); all are
    /// below 128.
    Paired,
}

/// Whether bytes are signed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    Unsigned,
    Signed,
}

impl Layout {
    /// The element that byte `byte` of a unit is.
    const fn element(self, byte: usize) -> usize {
        match self {
            Layout::Memory(_) | Layout::Straight => byte,
            Layout::Paired => byte % 16 * 2 + byte / 16,
        }
    }
}

/// A format: `value = scale · (integer - OFFSET) + min`. A unit is 32 elements; a scale, and a min if
/// there is one, serve `per_scale` units, or half a one.
trait Blocks: Copy {
    /// Subtracted from the integers.
    const OFFSET: f32;
    /// Whether there is a min.
    const MIN: bool;
    /// Whether each half of a unit has its own scale.
    const HALVES: bool;
    /// Whether [`Blocks::scales`] writes each min after its scale, rather than into an array of its own.
    const PAIRS: bool;
    /// The integers' layout.
    const LAYOUT: Layout;
    /// Units of a block.
    const UNITS: usize;
    /// Units whose integers are taken apart differently; divides `UNITS`.
    const KINDS: usize;

    /// Units that share a scale, a power of two; 1 if they do not.
    #[inline(always)]
    fn per_scale(self) -> usize {
        1
    }
    /// Where the integers of a unit of a block begin.
    fn address(self, row: Row, block: usize, unit: usize) -> *const u8;
    /// The integers of a unit of a block, a byte each.
    ///
    /// # Safety
    /// The block is in memory; the machine has the level of `L`.
    unsafe fn integers<L: Lanes>(self, row: Row, block: usize, unit: usize) -> L::Words;
    /// Writes the scales, and the mins if there are any, of `count` blocks from block `first` on, those
    /// of [`Blocks::per_scale`] units from a multiple of it on. Up to seven more are written.
    ///
    /// # Safety
    /// The blocks are in memory, the arrays have room; the machine has the level of `L`.
    unsafe fn scales<L: Lanes>(
        self,
        row: Row,
        first: usize,
        count: usize,
        scales: *mut f32,
        mins: *mut f32,
    );
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

/// The integers of a unit: in a register, or where they are ([`Layout::Memory`]).
#[derive(Clone, Copy)]
struct Held<W> {
    register: W,
    memory: *const u8,
}

/// The integers of a unit of a block.
///
/// # Safety
/// The block is in memory; the machine has the level of `L`.
#[inline(always)]
unsafe fn hold<L: Lanes, F: Blocks>(f: F, row: Row, block: usize, unit: usize) -> Held<L::Words> {
    // SAFETY: passed on to the caller.
    unsafe {
        let register = match F::LAYOUT {
            Layout::Memory(_) => L::Words::splat(0),
            Layout::Straight | Layout::Paired => f.integers::<L>(row, block, unit),
        };
        Held { register, memory: f.address(row, block, unit) }
    }
}

/// A quarter of a unit's integers as floats: bytes `8j..8j + 8` of those in memory; else byte `4i + j` in
/// lane `i`, times `2^8j`, because integers stay where they are in their word, which saves a shift.
///
/// # Safety
/// The block is in memory; the machine has the level of `L`.
#[inline(always)]
unsafe fn quarter<L: Lanes, F: Blocks>(held: &Held<L::Words>, j: usize) -> L {
    // SAFETY: passed on to the caller.
    unsafe {
        match F::LAYOUT {
            Layout::Memory(Sign::Signed) => L::load_i8(held.memory.add(8 * j)),
            Layout::Memory(Sign::Unsigned) => L::load_u8(held.memory.add(8 * j)),
            Layout::Straight | Layout::Paired => {
                held.register.and(L::Words::splat(0xff << (8 * j))).to_floats()
            }
        }
    }
}

/// Scales and mins of a span of blocks, one array after the other.
#[derive(Clone, Copy)]
struct Scales {
    /// Floats of each array: a multiple of 8, zeros at the end.
    stride: usize,
    /// The first block of the span.
    first: usize,
    /// Blocks of the span.
    blocks: usize,
}

impl Scales {
    /// The span from unit `units.0` to unit `units.1`, whole groups of units that share a scale.
    fn of<F: Blocks>(f: F, units: (usize, usize)) -> Scales {
        let group = F::UNITS.max(f.per_scale());
        let (first, end) = (units.0 / group * group, units.1.next_multiple_of(group));
        let count = (end - first) / f.per_scale() * if F::HALVES || F::PAIRS { 2 } else { 1 };
        Scales {
            stride: count.next_multiple_of(LANES),
            first: first / F::UNITS,
            blocks: (end - first) / F::UNITS,
        }
    }

    /// Writes both arrays.
    ///
    /// # Safety
    /// The blocks are in memory, `to` has room for two arrays.
    #[inline(always)]
    unsafe fn write<L: Lanes, F: Blocks>(self, f: F, row: Row, to: *mut f32) {
        // SAFETY: passed on to the caller.
        unsafe { f.scales::<L>(row, self.first, self.blocks, to, to.add(self.stride)) }
    }

    /// How far after its scale a min is.
    #[inline(always)]
    fn to_min<F: Blocks>(self) -> usize {
        if F::PAIRS { 1 } else { self.stride }
    }

    /// Which scale is that of `unit`, or of its first half.
    #[inline(always)]
    fn index<F: Blocks>(self, f: F, unit: usize) -> usize {
        // `per_scale` is a power of two.
        ((unit - self.first * F::UNITS) >> f.per_scale().trailing_zeros())
            << usize::from(F::HALVES || F::PAIRS)
    }
}

/// The scale of each lane of a unit, bytes `4i..4i + 4` being in lane `i`.
///
/// # Safety
/// `at` points to the unit's scale; the machine has the level of `L`.
#[inline(always)]
unsafe fn scale_at<L: Lanes, F: Blocks>(at: *const f32) -> L {
    // SAFETY: halves have two scales.
    unsafe { if F::HALVES { L::splat_two(at) } else { L::splat(*at) } }
}

/// What does not depend on the integers: `Σ min · s` or `-OFFSET · Σ scale · s`, `s` being sums of `x`
/// over the elements of each scale.
///
/// # Safety
/// `scales` has two arrays, `sums` one; the machine has the level of `L`.
#[inline(always)]
unsafe fn constant_part<L: Lanes, F: Blocks>(
    span: Scales,
    scales: *const f32,
    sums: *const f32,
) -> L {
    // SAFETY: arrays have whole vectors.
    unsafe {
        let mut total = L::splat(0.0);
        if F::MIN || F::OFFSET != 0.0 {
            // Scales between mins meet zeros.
            let mins = F::MIN && !F::PAIRS;
            let factors = if mins { scales.add(span.stride) } else { scales };
            for at in (0..span.stride).step_by(LANES) {
                total = L::load(factors.add(at)).mul_add(L::load(sums.add(at)), total);
            }
        }
        if F::MIN { total } else { total.mul(L::splat(-F::OFFSET)) }
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
    /// Bytes of integers from one unit to the next, where units follow each other from row to row too
    /// and lines can be asked for ahead; else 0.
    unit_bytes: usize,
}

impl Weights {
    fn row(&self, row: usize) -> Row {
        Row::new(self.format, self.parts, row as isize * self.row_stride)
    }
}

/// Adds `x · wᵀ` over `k < shared` to `targets` if `w` is packed, its rows begin at a whole unit and `x`
/// has few rows, none of them all but zero; else does nothing and returns false.
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
    let per_block = format.block_elements() / UNIT;
    let dense = units.0 == 0 && row_stride.unsigned_abs() == units.1.div_ceil(per_block);
    let unit_bytes = if dense { format.array_bytes()[0] / per_block } else { 0 };
    let weights = Weights { format, parts, row_stride, rows: w.valid_rows, units, unit_bytes };
    let rows = targets.count();
    let key = key(x, rows, shared, format, units);
    // SAFETY: passed on to the caller. Blocks of valid elements are whole in memory.
    unsafe {
        let products = match x.source {
            Source::Packed { format: PackedFormat::Q8_0, parts, row_stride, first_k }
                if first_k % UNIT == 0 =>
            {
                let first = first_k / UNIT;
                let x = quantized::Blocks8 { parts, row_stride, first, valid: x.valid_rows, rows };
                with_blocks!(format, f => {
                    quantized::multiply(level, f, (shared, key), x, weights, scratch)
                })
            }
            _ => with_blocks!(format, f => {
                fused::multiply(level, f, (shared, key), x, rows, weights, scratch)
            }),
        };
        let Some(products) = products else { return false };
        for i in 0..rows {
            for j in 0..w.valid_rows {
                let mut value = *products.add(i * w.valid_rows + j);
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

/// What rows of `x` are once they are arranged; `None` if they may change.
fn key(
    x: &Operand,
    rows: usize,
    shared: usize,
    weights: PackedFormat,
    units: (usize, usize),
) -> Option<Key> {
    let (base, row_stride, k_stride, format) = match x.source {
        // Halves would need their dtype here; rows of activations are `f32`.
        Source::Plain { dtype, .. } if dtype != DType::F32 => return None,
        Source::Plain { base, row_stride, k_stride, .. } => (base, row_stride, k_stride, None),
        Source::Packed { format, parts, row_stride, first_k } => {
            (parts[0], row_stride, first_k as isize, Some(format))
        }
    };
    let (version, valid, formats) = (x.version, x.valid_rows, (format, weights));
    (version != 0).then_some(Key {
        version,
        base,
        row_stride,
        k_stride,
        rows,
        valid,
        shared,
        formats,
        units,
    })
}
