//! Operands in memory: which elements of a row lie where.

use super::machine::Machine;
use super::view::View;
use metile_compiler::cpu::{Access, Index, Place};
use metile_ir::dtype::{DType, Format};
use metile_ir::tile::{MAX_RANK, Shape};
use metile_simd::elementwise as simd;
use std::mem::MaybeUninit;

/// An operand on the row that a pass is at: elements `low .. high` of the row lie in memory, `step`
/// bytes apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Walk {
    /// Where element 0 of the row is, or would be.
    pub first: *mut u8,
    pub step: isize,
    pub low: usize,
    pub high: usize,
    /// For packed formats: the block that element 0's row begins with, and its column from there;
    /// each with what it changes from element to element.
    pub unit: (i64, i64),
    pub column: (i64, i64),
}

/// The values of every index of a tensor operand at position 0.
pub(super) fn bases(access: &Access, regs: &[u64], into: &mut Vec<i64>) {
    if let Place::Tensor { index, .. } = &access.place {
        into.extend(index.iter().map(|i| i.base.value(regs)));
    }
}

/// The walk of `access` along the last axis of `shape` at `position` on the others. `bases` are the
/// operand's own.
pub(super) fn along_row(
    machine: &Machine<'_>,
    access: &Access,
    shape: &Shape,
    position: &[usize; MAX_RANK],
    bases: &[i64],
) -> Walk {
    let inner = shape.rank() - 1;
    let side = shape.side(inner);
    match &access.place {
        Place::Slot { slot, offset, strides } => {
            let bytes = access.dtype.bytes() as i64;
            let at: i64 = offset + (0..inner).map(|a| strides[a] * position[a] as i64).sum::<i64>();
            Walk {
                first: machine.slot(*slot).wrapping_offset((at * bytes) as isize),
                step: (strides[inner] * bytes) as isize,
                low: 0,
                high: side,
                unit: (0, 0),
                column: (0, 0),
            }
        }
        Place::Tensor { view, format, index } => {
            let view = &machine.program.views[*view as usize];
            let mut row = Row::new(inner, side);
            for (axis, (index, base)) in index.iter().zip(bases).enumerate() {
                row.axis(view, axis, index, *base, position);
            }
            row.walk(view, *format)
        }
    }
}

/// A row of a tensor operand, axis by axis.
struct Row {
    inner: usize,
    low: i64,
    high: i64,
    start: [i64; MAX_RANK],
    steps: [i64; MAX_RANK],
}

impl Row {
    fn new(inner: usize, side: usize) -> Row {
        let (start, steps) = ([0; MAX_RANK], [0; MAX_RANK]);
        Row { inner, low: 0, high: side as i64, start, steps }
    }

    /// Cuts the row to where coordinate `axis` lies within the view.
    fn axis(
        &mut self,
        view: &View,
        axis: usize,
        index: &Index,
        base: i64,
        position: &[usize; MAX_RANK],
    ) {
        let start = (0..self.inner)
            .fold(base, |sum, a| sum.wrapping_add(index.steps[a] * position[a] as i64));
        let (step, extent) = (index.steps[self.inner], view.shape[axis]);
        let (low, high) = within(start, step, extent, self.high);
        self.low = self.low.max(low);
        self.high = self.high.min(high);
        self.start[axis] = start;
        self.steps[axis] = step;
    }

    fn walk(&self, view: &View, format: Format) -> Walk {
        let low = self.low.max(0);
        let high = self.high.max(low);
        let (mut at, mut step) = (0i64, 0i64);
        let axes = match format {
            Format::Plain(_) => view.rank,
            // The last axis is counted in elements, not in blocks.
            Format::Packed(_) => view.rank - 1,
        };
        for axis in 0..axes {
            at = at.wrapping_add(self.start[axis].wrapping_mul(view.strides[axis]));
            step = step.wrapping_add(self.steps[axis].wrapping_mul(view.strides[axis]));
        }
        let mut walk = Walk {
            first: view.parts[0],
            step: 0,
            low: low as usize,
            high: high as usize,
            unit: (at, step),
            column: (0, 0),
        };
        match format {
            Format::Plain(dtype) => {
                let bytes = dtype.bytes() as i64;
                walk.first = view.parts[0].wrapping_offset(at.wrapping_mul(bytes) as isize);
                walk.step = step.wrapping_mul(bytes) as isize;
            }
            Format::Packed(_) => {
                let last = view.rank - 1;
                walk.column = (self.start[last], self.steps[last]);
            }
        }
        walk
    }
}

/// The positions `low .. high` within `0 .. side` at which `start + step · position` lies in
/// `0 .. extent`.
pub(super) fn within(start: i64, step: i64, extent: i64, side: i64) -> (i64, i64) {
    match step {
        0 if start >= 0 && start < extent => (0, side),
        0 => (0, 0),
        1.. => {
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

/// Elements `start .. start + n` of the row that `walk` is on, in `chunk` unless they lie side by
/// side in memory as they are wanted.
pub(super) fn read(
    machine: &mut Machine<'_>,
    access: &Access,
    walk: &Walk,
    start: usize,
    n: usize,
    chunk: *mut u8,
) -> *const u8 {
    let dtype = access.dtype;
    let bytes = dtype.bytes();
    let whole = walk.low <= start && start + n <= walk.high;
    let packed = match &access.place {
        Place::Tensor { format: Format::Packed(p), .. } => Some(*p),
        _ => None,
    };
    let plain = packed.is_none() && !access.widen && dtype != DType::Bool;
    let from = walk.first.wrapping_offset(walk.step.wrapping_mul(start as isize));
    if whole && plain && walk.step == bytes as isize && from.align_offset(bytes) == 0 {
        return from;
    }
    let wide = access.read_dtype().bytes();
    if !whole {
        let fill = access.fill.map_or(0, |reg| machine.reg(reg));
        let fill = if access.widen { widened(fill, dtype) } else { fill };
        // SAFETY: a chunk holds any `n` elements.
        unsafe { simd::fill(wide, fill, chunk, n) };
    }
    let low = walk.low.clamp(start, start + n);
    let high = walk.high.clamp(low, start + n);
    if low == high {
        return chunk;
    }
    let to = chunk.wrapping_add((low - start) * wide);
    let count = high - low;
    if let Some(format) = packed {
        read_packed(machine, access, format, walk, low, count, to.cast());
        return chunk;
    }
    let from = walk.first.wrapping_offset(walk.step.wrapping_mul(low as isize));
    let level = machine.worker.level;
    // SAFETY: elements `low .. high` of the row lie in memory that the launch holds; the chunk has
    // room for them. What halves are widened from lies side by side, aligned or copied first.
    unsafe {
        if access.widen {
            let mut halves = [const { MaybeUninit::<u16>::uninit() }; simd::MAX_RUN];
            let aligned = walk.step == 2 && from.align_offset(2) == 0;
            let source = if aligned {
                from.cast_const()
            } else {
                let copy = halves.as_mut_ptr().cast();
                simd::gather_strided(2, from, walk.step, copy, count);
                copy.cast_const()
            };
            simd::widen(level, dtype, source, to, count);
        } else if walk.step == bytes as isize {
            simd::copy(bytes, from, to, count);
        } else {
            simd::gather_strided(bytes, from, walk.step, to, count);
        }
        if dtype == DType::Bool {
            simd::normalize_bools(to, count);
        }
    }
    chunk
}

fn widened(bits: u64, from: DType) -> u64 {
    use metile_ir::{arith, scalar::Scalar};
    arith::cast(Scalar::from_bits(from, bits), DType::F32).bits()
}

/// Elements of a packed row, block by block.
fn read_packed(
    machine: &mut Machine<'_>,
    access: &Access,
    format: metile_ir::PackedFormat,
    walk: &Walk,
    low: usize,
    count: usize,
    to: *mut f32,
) {
    let Place::Tensor { view, .. } = &access.place else { return };
    let view = machine.program.views[*view as usize];
    let block = format.block_elements() as i64;
    let mut n = 0;
    while n < count {
        let element = (low + n) as i64;
        let column = walk.column.0 + walk.column.1 * element;
        let unit = walk.unit.0 + walk.unit.1 * element + column / block;
        // SAFETY: columns of elements within the shape lie in the row's own blocks.
        let values = unsafe { machine.worker.block.decode(&view, format, unit) };
        let at = (column % block) as usize;
        let along = walk.unit.1 == 0 && walk.column.1 == 1;
        let run = if along { (values.len() - at).min(count - n) } else { 1 };
        for (i, value) in values[at..at + run].iter().enumerate() {
            // SAFETY: the chunk has room for `count` elements.
            unsafe { *to.add(n + i) = *value };
        }
        n += run;
    }
}

/// Writes `n` elements at `from` to the row that `walk` is on, from element `start` on.
pub(super) fn write(
    machine: &Machine<'_>,
    access: &Access,
    walk: &Walk,
    start: usize,
    n: usize,
    from: *const u8,
    stream: bool,
) {
    let bytes = access.dtype.bytes();
    let low = walk.low.clamp(start, start + n);
    let high = walk.high.clamp(low, start + n);
    if low == high {
        return;
    }
    let from = from.wrapping_add((low - start) * bytes);
    let to = walk.first.wrapping_offset(walk.step.wrapping_mul(low as isize));
    // SAFETY: elements `low .. high` of the row lie in memory that the launch holds for writing, or
    // in a slot; what is written comes from a chunk.
    unsafe {
        if walk.step != bytes as isize {
            simd::copy_strided(bytes, from, to, walk.step, high - low);
        } else if stream {
            simd::stream(machine.worker.level, from, to, (high - low) * bytes);
        } else {
            simd::copy(bytes, from, to, high - low);
        }
    }
}
