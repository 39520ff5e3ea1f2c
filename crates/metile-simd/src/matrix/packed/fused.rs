//! `f32` rows times packed rows: integers are widened in registers and multiplied.

use super::super::scratch::Key;
use super::super::{Operand, Scratch};
use super::kernel::{self, Block, Factor, GROUP, MOST, Part, ROWS, add_sum};
use super::{Blocks, Held, Layout, Scales, UNIT, Weights, quarter};
use crate::Level;
use crate::lanes::{self, LANES, Lanes, Work};

/// Elements in the order of [`quarter`], divided by its powers of two.
#[derive(Clone, Copy)]
struct Elements;

impl Factor for Elements {
    const STEP: usize = UNIT;
    unsafe fn four<F: Blocks>(level: Level, part: Part<F>) {
        // SAFETY: passed on to the caller.
        unsafe { lanes::run(level, Block::<F, Elements, 4, 1>(part, [])) };
    }
    #[inline(always)]
    unsafe fn accumulate<L: Lanes, F: Blocks, const R: usize, const C: usize>(
        held: &[Held<L::Words>; C],
        scales: &[L; C],
        x: *const f32,
        stride: usize,
        acc: &mut [[L; C]; R],
    ) {
        // SAFETY: passed on to the caller; a unit has 32 floats.
        unsafe {
            // All chains advance together: one after the other they would fill the machine's queue of
            // waiting instructions.
            let mut sums = [[L::splat(0.0); C]; R];
            for j in 0..UNIT / LANES {
                for c in 0..C {
                    let q = quarter::<L, F>(&held[c], j);
                    for r in 0..R {
                        let x = L::load(x.add(r * stride + j * LANES));
                        sums[r][c] = if j == 0 { q.mul(x) } else { q.mul_add(x, sums[r][c]) };
                    }
                }
            }
            for c in 0..C {
                for r in 0..R {
                    acc[r][c] = scales[c].mul_add(sums[r][c], acc[r][c]);
                }
            }
        }
    }
}

/// Below this, an element divided by 2^24 would lose bits.
const SMALLEST: f32 = f32::MIN_POSITIVE * (1 << 24) as f32;

/// The products of `rows` rows of `x` (those beyond its valid ones zeros) with the weights,
/// `[rows, weights.rows]`; nothing if there are too many or `x` has elements too small for it.
///
/// # Safety
/// As [`super::multiply`]'s.
pub(super) unsafe fn multiply<F: Blocks>(
    level: Level,
    f: F,
    (shared, key): (usize, Option<Key>),
    x: &Operand,
    rows: usize,
    w: Weights,
    scratch: &mut Scratch,
) -> Option<*const f32> {
    if rows > MOST {
        return None;
    }
    let units = w.units.1 - w.units.0;
    let span = Scales::of(f, w.units);
    let stride = units * UNIT + span.stride;
    let padded = rows.next_multiple_of(GROUP);
    let (base, found) = scratch.arranged.floats(padded * stride, key);
    let straight = scratch.strip.floats(units * UNIT);
    let y = scratch.y.floats(padded * w.rows);
    let scales = scratch.scales.floats(ROWS * 2 * span.stride);
    // SAFETY: passed on to the caller; `base` holds the rows.
    unsafe {
        for row in 0..if found { 0 } else { rows } {
            let to = base.add(row * stride);
            if row >= x.valid_rows {
                std::ptr::write_bytes(to, 0, stride);
                continue;
            }
            x.gather(level, row, 0, shared, straight);
            std::ptr::write_bytes(straight.add(shared), 0, units * UNIT - shared);
            std::ptr::write_bytes(to.add(units * UNIT), 0, span.stride);
            let from = std::slice::from_raw_parts(straight, units * UNIT);
            if !lanes::run(level, Arrange { f, from, first: w.units.0, span, to }) {
                scratch.arranged.forget();
                return None;
            }
        }
        let part = Part { f, w, span, x: base, stride, rows, scales, y };
        kernel::multiply::<F, Elements>(level, part);
    }
    Some(y)
}

/// Writes a row in the layout of the kernel, sums over zeros; false if an element is too small for it.
struct Arrange<'a, F> {
    f: F,
    from: &'a [f32],
    first: usize,
    span: Scales,
    to: *mut f32,
}

impl<F: Blocks> Work for Arrange<'_, F> {
    type Output = bool;
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) -> bool {
        let sums = self.to.wrapping_add(self.from.len());
        let mut tiny = false;
        for (unit, from) in self.from.as_chunks::<UNIT>().0.iter().enumerate() {
            for x in from {
                tiny |= (x.abs() < SMALLEST) & (*x != 0.0);
            }
            // SAFETY: `to` has 32 floats a unit, and sums after all of them.
            unsafe {
                self.to.cast::<[f32; UNIT]>().add(unit).write(arranged::<F>(from));
                for half in 0..2 {
                    let from = from.as_ptr().add(half * 16);
                    let sum = L::load(from).add(L::load(from.add(LANES))).sum();
                    add_sum(self.f, self.span, sums, (self.first + unit, half), sum);
                }
            }
        }
        !tiny
    }
}

/// A unit in the order of [`quarter`], divided by its powers of two.
#[inline(always)]
fn arranged<F: Blocks>(from: &[f32; UNIT]) -> [f32; UNIT] {
    let mut to = *from;
    if !matches!(F::LAYOUT, Layout::Memory(_)) {
        for byte in 0..UNIT {
            let (word, within) = (byte / 4, byte % 4);
            let x = from[F::LAYOUT.element(byte)];
            to[within * LANES + word] = x * (1.0 / (1u32 << (8 * within)) as f32);
        }
    }
    to
}
