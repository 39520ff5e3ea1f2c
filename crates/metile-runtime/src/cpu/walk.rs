//! Rows of operands in memory, read and written.

use super::machine::Machine;
use super::route::{Route, Walk};
use super::view::read_bits;
use metile_compiler::cpu::{Access, Place, ViewId};
use metile_ir::dtype::{DType, Format};
use metile_simd::elementwise as simd;
use std::mem::MaybeUninit;
use std::ops::Range;

/// The positions `low .. high` within `0 .. side` at which `start + step · position` lies in
/// `0 .. extent`.
pub(super) fn within(start: i64, step: i64, extent: i64, side: i64) -> (i64, i64) {
    match step {
        0 if start >= 0 && start < extent => (0, side),
        0 => (0, 0),
        1 => {
            let low = if start >= 0 { 0 } else { start.saturating_neg() };
            let high = extent.saturating_sub(start).max(0);
            (low.min(side), high.min(side))
        }
        2.. => {
            // The first position that is not negative, and the first that is too large.
            let low = if start >= 0 { 0 } else { div_up(-i128::from(start), step) };
            let room = i128::from(extent) - i128::from(start);
            let high = if room <= 0 { 0 } else { div_up(room, step) };
            (low.min(side), high.min(side))
        }
        _ => {
            let back = step.unsigned_abs() as i64;
            let over = i128::from(start) - (i128::from(extent) - 1);
            let low = if over <= 0 { 0 } else { div_up(over, back) };
            let high = if start < 0 { 0 } else { (start / back).saturating_add(1) };
            (low.min(side), high.min(side))
        }
    }
}

/// `a / b` rounded up, for positive `a` and `b`, at most `i64::MAX`.
fn div_up(a: i128, b: i64) -> i64 {
    let quotient = (a + i128::from(b) - 1) / i128::from(b);
    i64::try_from(quotient).unwrap_or(i64::MAX)
}

/// Where elements `start .. start + n` of a row lie, if they lie side by side as they are wanted.
#[inline]
pub(super) fn in_place(
    access: &Access,
    route: &Route,
    walk: &Walk,
    (start, n): (usize, usize),
) -> Option<*mut u8> {
    let bytes = access.dtype.bytes();
    let from = walk.first.wrapping_add(start * bytes);
    let aligned = from.addr() & (bytes - 1) == 0;
    (route.direct && aligned && walk.low <= start && start + n <= walk.high).then_some(from)
}

/// Copies elements `start .. start + n` of the row that `walk` is on to `chunk`, as a reader sees them.
/// `position` is the row's on the outer axes.
pub(super) fn copy_row(
    machine: &mut Machine<'_>,
    (access, route, walk): (&Access, &Route, &Walk),
    position: &[usize],
    (start, n): (usize, usize),
    chunk: *mut u8,
) {
    let dtype = access.dtype;
    let bytes = dtype.bytes();
    let step = route.step();
    let wide = access.read_dtype().bytes();
    let low = walk.low.clamp(start, start + n);
    let high = walk.high.clamp(low, start + n);
    if high - low < n {
        let fill = access.fill.map_or(0, |reg| machine.reg(reg));
        let fill = if access.widen { widened(fill, dtype) } else { fill };
        let after = chunk.wrapping_add((high - start) * wide);
        // SAFETY: a chunk holds any `n` elements.
        unsafe {
            simd::fill(wide, fill, chunk, low - start);
            simd::fill(wide, fill, after, start + n - high);
        }
    }
    if low == high {
        return;
    }
    let to = chunk.wrapping_add((low - start) * wide);
    let count = high - low;
    if let Place::Tensor { view, format: Format::Packed(format), .. } = access.place {
        let row = PackedRow {
            view,
            format,
            unit: (route.unit(&machine.program.regs, position), step as i64),
            column: (route.column.at(&machine.program.regs, position), route.column.step),
        };
        return row.read(machine, low, count, to.cast());
    }
    let from = walk.first.wrapping_offset(step.wrapping_mul(low as isize));
    let level = machine.worker.level;
    // SAFETY: elements `low .. high` of the row lie in memory that the launch holds; the chunk has
    // room for them. What halves are widened from lies side by side, aligned or copied first.
    unsafe {
        if access.widen {
            let mut halves = [const { MaybeUninit::<u16>::uninit() }; simd::MAX_RUN];
            let aligned = step == 2 && from.align_offset(2) == 0;
            let source = if aligned {
                from.cast_const()
            } else {
                let copy = halves.as_mut_ptr().cast();
                simd::gather_strided(2, from, step, copy, count);
                copy.cast_const()
            };
            simd::widen(level, dtype, source, to, count);
        } else if step == bytes as isize {
            simd::copy(bytes, from, to, count);
        } else {
            simd::gather_strided(bytes, from, step, to, count);
        }
        if dtype == DType::Bool {
            simd::normalize_bools(to, count);
        }
    }
}

/// Copies `height` rows of `width` elements to `chunk`, of which those in `rows` lie within the tensor, all
/// as `walk` has the first one. The operand is plain.
pub(super) fn copy_rows(
    machine: &Machine<'_>,
    (access, route, walk): (&Access, &Route, &Walk),
    rows: Range<usize>,
    (height, width): (usize, usize),
    chunk: *mut u8,
) {
    let bytes = access.dtype.bytes();
    let fill = access.fill.map_or(0, |reg| machine.reg(reg));
    let at = |row: usize, element: usize| chunk.wrapping_add((row * width + element) * bytes);
    let (low, high) = (walk.low.min(width), walk.high.min(width));
    let (step, next) = (route.step(), route.row_step());
    let mut from = walk.first.wrapping_offset(step.wrapping_mul(low as isize));
    from = from.wrapping_offset(next.wrapping_mul(rows.start as isize));
    // SAFETY: the chunk has the rows; elements `low .. high` of those in `rows` lie in memory that the
    // launch holds.
    unsafe {
        simd::fill(bytes, fill, at(0, 0), rows.start * width);
        for row in rows.clone() {
            if low > 0 || high < width {
                simd::fill(bytes, fill, at(row, 0), low);
                simd::fill(bytes, fill, at(row, high), width - high);
            }
            let (to, count) = (at(row, low), high - low);
            if step == bytes as isize {
                simd::copy(bytes, from, to, count);
            } else if step == 0 && count > 0 {
                simd::fill(bytes, read_bits(from, bytes), to, count);
            } else {
                simd::gather_strided(bytes, from, step, to, count);
            }
            from = from.wrapping_offset(next);
        }
        simd::fill(bytes, fill, at(rows.end, 0), (height - rows.end) * width);
    }
}

fn widened(bits: u64, from: DType) -> u64 {
    use metile_ir::{arith, scalar::Scalar};
    arith::cast(Scalar::from_bits(from, bits), DType::F32).bits()
}

/// A row of a packed operand.
struct PackedRow {
    view: ViewId,
    format: metile_ir::PackedFormat,
    /// The block that element 0's row begins with, and its column from there; each with what it
    /// changes from element to element.
    unit: (i64, i64),
    column: (i64, i64),
}

impl PackedRow {
    /// `count` elements from `low` on, block by block.
    fn read(&self, machine: &mut Machine<'_>, low: usize, count: usize, to: *mut f32) {
        let view = machine.program.views[self.view as usize];
        let block = self.format.block_elements() as i64;
        let mut n = 0;
        while n < count {
            let element = (low + n) as i64;
            let column = self.column.0 + self.column.1 * element;
            let unit = self.unit.0 + self.unit.1 * element + column / block;
            // SAFETY: columns of elements within the shape lie in the row's own blocks.
            let values = unsafe { machine.worker.block.decode(&view, self.format, unit) };
            let at = (column % block) as usize;
            let along = self.unit.1 == 0 && self.column.1 == 1;
            let run = if along { (values.len() - at).min(count - n) } else { 1 };
            for (i, value) in values[at..at + run].iter().enumerate() {
                // SAFETY: the chunk has room for `count` elements.
                unsafe { *to.add(n + i) = *value };
            }
            n += run;
        }
    }
}

/// Writes `n` elements at `from` to the row that `walk` is on, from element `start` on.
pub(super) fn write(
    machine: &Machine<'_>,
    (access, route, walk): (&Access, &Route, &Walk),
    (start, n): (usize, usize),
    from: *const u8,
) {
    let bytes = access.dtype.bytes();
    let step = route.step();
    let low = walk.low.clamp(start, start + n);
    let high = walk.high.clamp(low, start + n);
    if low == high {
        return;
    }
    let from = from.wrapping_add((low - start) * bytes);
    let to = walk.first.wrapping_offset(step.wrapping_mul(low as isize));
    if to.cast_const() == from {
        // It was made there.
        return;
    }
    // SAFETY: elements `low .. high` of the row lie in memory that the launch holds for writing, or
    // in a slot; what is written comes from a chunk.
    unsafe {
        if step != bytes as isize {
            simd::copy_strided(bytes, from, to, step, high - low);
        } else if route.stream {
            simd::stream(machine.worker.level, from, to, (high - low) * bytes);
        } else {
            simd::copy(bytes, from, to, high - low);
        }
    }
}
