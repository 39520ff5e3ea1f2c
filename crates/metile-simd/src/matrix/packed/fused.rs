//! `f32` rows times packed rows: integers are widened in registers and multiplied.

use super::super::{Operand, Scratch};
use super::kernel::{self, Factor, Part, ROWS, add_sum};
use super::{Blocks, Row, Scales, UNIT, Weights, floats, place, shift};
use crate::Level;
use crate::lanes::{LANES, Lanes};

/// Elements in the order of [`floats`], divided by its powers of two.
#[derive(Clone, Copy)]
struct Elements;

impl Factor for Elements {
    const STEP: usize = UNIT;
    type Held<L: Lanes> = [L; 4];
    #[inline(always)]
    unsafe fn hold<L: Lanes, F: Blocks>(f: F, row: Row, block: usize, unit: usize) -> [L; 4] {
        // SAFETY: passed on to the caller.
        unsafe { floats::<L, F>(f, row, block, unit) }
    }
    #[inline(always)]
    unsafe fn product<L: Lanes, F: Blocks>(v: [L; 4], x: *const f32) -> L {
        // SAFETY: a unit has 32 floats.
        unsafe {
            let mut sum = v[0].mul(L::load(x));
            sum = v[1].mul_add(L::load(x.add(LANES)), sum);
            sum = v[2].mul_add(L::load(x.add(2 * LANES)), sum);
            v[3].mul_add(L::load(x.add(3 * LANES)), sum)
        }
    }
}

/// Below this, an element divided by 2^24 would lose bits.
const SMALLEST: f32 = f32::MIN_POSITIVE * (1 << 24) as f32;

/// The products of `rows` rows of `x` (those beyond its valid ones zeros) with the weights,
/// `[rows, weights.rows]`; nothing if `x` has elements too small for it.
///
/// # Safety
/// As [`super::multiply`]'s.
pub(super) unsafe fn multiply<F: Blocks>(
    level: Level,
    f: F,
    shared: usize,
    x: &Operand,
    rows: usize,
    w: Weights,
    scratch: &mut Scratch,
) -> Option<*const f32> {
    let units = w.units.1 - w.units.0;
    let span = Scales::of(f, w.units);
    let stride = units * UNIT + span.stride;
    let padded = rows.next_multiple_of(4);
    let base = scratch.x.zeros(padded * stride);
    let straight = scratch.strip.floats(units * UNIT);
    let y = scratch.y.floats(padded * w.rows);
    let scales = scratch.scales.zeros(ROWS * 2 * span.stride);
    // SAFETY: passed on to the caller; `base` holds the padded rows.
    unsafe {
        for row in 0..rows.min(x.valid_rows) {
            x.gather(level, row, 0, shared, straight);
            std::ptr::write_bytes(straight.add(shared), 0, units * UNIT - shared);
            let from = std::slice::from_raw_parts(straight, units * UNIT);
            if !arrange(f, from, (w.units.0, span), base.add(row * stride)) {
                return None;
            }
        }
        let part = Part { f, w, span, x: base, stride, rows, scales, y };
        kernel::multiply::<F, Elements>(level, part);
    }
    Some(y)
}

/// A row in the layout of the kernel, over zeros; false if an element is too small for it.
unsafe fn arrange<F: Blocks>(
    f: F,
    from: &[f32],
    (first, span): (usize, Scales),
    to: *mut f32,
) -> bool {
    let places: [usize; UNIT] = std::array::from_fn(place::<F>);
    let factors: [f32; UNIT] = std::array::from_fn(|e| 1.0 / (1u32 << shift::<F>(e)) as f32);
    let sums = to.wrapping_add(from.len());
    let mut tiny = false;
    for (unit, from) in from.as_chunks::<UNIT>().0.iter().enumerate() {
        for e in 0..UNIT {
            tiny |= from[e].abs() < SMALLEST && from[e] != 0.0;
            // SAFETY: `to` has 32 floats a unit.
            unsafe { *to.add(unit * UNIT + places[e]) = from[e] * factors[e] };
        }
        for half in 0..2 {
            let mut four = [0.0; 4];
            for (e, x) in from[half * 16..][..16].iter().enumerate() {
                four[e % 4] += x;
            }
            // SAFETY: the sums follow the units.
            unsafe {
                let sum = (four[0] + four[1]) + (four[2] + four[3]);
                add_sum(f, span, sums, (first + unit, half), sum);
            }
        }
    }
    !tiny
}
