//! Steps whose values depend on where an element is: index tiles, comparisons of them, and choices by them.

use super::machine::Machine;
use super::pass::Here;
use metile_compiler::cpu::{CHUNK, Index, Source, Step};
use metile_ir::arith;
use metile_ir::dtype::DType;
use metile_ir::tile::CompareOp;
use metile_simd::elementwise as simd;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Numbers that go up in steps along a row: the first, and the step.
type Line = (i64, i64);

impl Here<'_> {
    /// The numbers of an index tile on row `row` of this chunk.
    fn line(&self, machine: &Machine<'_>, index: &Index, row: usize) -> Line {
        let inner = self.outer();
        let mut first = index.base.value(&machine.program.regs);
        for axis in 0..inner {
            first = first.wrapping_add(index.steps[axis].wrapping_mul(self.position[axis] as i64));
        }
        if row > 0 {
            first = first.wrapping_add(index.steps[inner - 1].wrapping_mul(row as i64));
        }
        let step = index.steps[inner];
        (first.wrapping_add(step.wrapping_mul(self.start as i64)), step)
    }

    /// The numbers of an index tile.
    pub(super) fn numbers(&self, machine: &Machine<'_>, index: &Index, to: *mut u8) {
        let width = self.width();
        for row in 0..self.rows {
            let (first, step) = self.line(machine, index, row);
            // SAFETY: the chunk has room for its rows.
            unsafe {
                simd::index(
                    machine.worker.level,
                    first,
                    step,
                    to.wrapping_add(8 * row * width),
                    width,
                );
            }
        }
    }

    /// Two index tiles compared.
    pub(super) fn compare_by_index(
        &self,
        machine: &Machine<'_>,
        (op, a, b): (CompareOp, &Index, &Index),
        to: *mut u8,
    ) {
        let width = self.width();
        for row in 0..self.rows {
            let lines = (self.line(machine, a, row), self.line(machine, b, row));
            // SAFETY: the chunk has room for its rows.
            unsafe { compare_lines(op, lines, to.wrapping_add(row * width), width) };
        }
    }

    /// A choice by position: mostly all of the one or all of the other, which then need not move.
    pub(super) fn select_by_index(&mut self, machine: &Machine<'_>, step: &Step) {
        let Step::SelectIndex { dtype, op, ref x, ref y, a, b, to } = *step else { return };
        // Made where one of the two already is, the other is put in.
        let in_place = [a, b].contains(&Source::Temp(to));
        let kept = in_place || self.pass.homes.iter().any(|(temp, _)| *temp == to);
        let own = if kept { self.temp(to) } else { self.own(to) };
        let width = self.width();
        for row in 0..self.rows {
            let lines = (self.line(machine, x, row), self.line(machine, y, row));
            let range = row * width..(row + 1) * width;
            let cut = cut(op, lines, width);
            if let Some((head, at)) = cut
                && at == self.n
                && !kept
                && let found @ (Source::Temp(_) | Source::Access(_)) = if head { a } else { b }
            {
                // Read-only from here on, so it may be what others read as well.
                let found = self.pointer(found).cast_mut();
                return self.set_temp(to, found);
            }
            let Some((head, at)) = cut else {
                self.select_often(machine, dtype, (op, lines), [a, b], own, range);
                continue;
            };
            let (first, second) = if head { (a, b) } else { (b, a) };
            self.part(machine, dtype, first, own, range.start..range.start + at);
            self.part(machine, dtype, second, own, range.start + at..range.end);
        }
        self.set_temp(to, own);
    }

    /// Elements `range` of a chunk or a scalar, at their place in the chunk `to`.
    fn part(
        &self,
        machine: &Machine<'_>,
        dtype: DType,
        from: Source,
        to: *mut u8,
        range: Range<usize>,
    ) {
        let bytes = dtype.bytes();
        let (skip, n) = (range.start * bytes, range.len());
        // SAFETY: chunks hold the elements; `to` is nobody else's.
        unsafe {
            match from {
                Source::Reg(reg) => simd::fill(bytes, machine.reg(reg), to.wrapping_add(skip), n),
                other => {
                    let (from, to) =
                        (self.pointer(other).wrapping_add(skip), to.wrapping_add(skip));
                    if from != to.cast_const() {
                        simd::copy(bytes, from, to, n);
                    }
                }
            }
        }
    }

    /// A choice by position that changes more than once in a row.
    fn select_often(
        &self,
        machine: &Machine<'_>,
        dtype: DType,
        (op, lines): (CompareOp, (Line, Line)),
        operands: [Source; 2],
        to: *mut u8,
        range: Range<usize>,
    ) {
        let mut mask = [const { MaybeUninit::<u8>::uninit() }; CHUNK];
        let mut filled = [const { [const { MaybeUninit::<u64>::uninit() }; CHUNK] }; 2];
        let mask: *mut u8 = mask.as_mut_ptr().cast();
        let (n, skip) = (range.len(), range.start * dtype.bytes());
        let mut pointers = [std::ptr::null(); 2];
        for ((pointer, source), filled) in pointers.iter_mut().zip(operands).zip(&mut filled) {
            *pointer = match source {
                Source::Reg(_) => {
                    let filled = filled.as_mut_ptr().cast();
                    self.part(machine, dtype, source, filled, 0..n);
                    filled.cast_const()
                }
                other => self.pointer(other).wrapping_add(skip),
            };
        }
        // SAFETY: chunks, the mask and what is filled hold the elements.
        unsafe {
            compare_lines(op, lines, mask, n);
            let [mut a, mut b] = pointers;
            let to = to.wrapping_add(skip);
            // A step's result overlaps nothing that it reads.
            let aside = [&mut a, &mut b].into_iter().zip(&mut filled);
            for (pointer, filled) in aside.filter(|(p, _)| **p == to.cast_const()) {
                let filled = filled.as_mut_ptr().cast();
                simd::copy(dtype.bytes(), *pointer, filled, n);
                *pointer = filled;
            }
            simd::select(machine.worker.level, dtype.bytes(), mask, a, b, to, n);
        }
    }
}

/// Whether `x op y` holds on the first `n` elements along axis `inner`, at position 0 of the others; `None` where
/// it may hold on some of them only.
pub(super) fn choice(
    regs: &[u64],
    (op, x, y): (CompareOp, &Index, &Index),
    inner: usize,
    n: usize,
) -> Option<bool> {
    let line = |index: &Index| (index.base.value(regs), index.steps[inner]);
    cut(op, (line(x), line(y)), n).filter(|&(_, at)| at == n).map(|(holds, _)| holds)
}

/// Where `a op b` holds on a chunk of `n`, for numbers that go up in steps: whether on its first
/// elements, and up to which. `None` if it may change more than once.
fn cut(op: CompareOp, ((a, step_a), (b, step_b)): (Line, Line), n: usize) -> Option<(bool, usize)> {
    let last = n as i64 - 1;
    let end = |first: i64, step: i64| step.checked_mul(last).and_then(|d| first.checked_add(d));
    // Neither side wraps, nor does their difference, which is then monotonic.
    let (_, _) = (end(a, step_a)?, end(b, step_b)?);
    let (first, step) = (a.checked_sub(b)?, step_a.checked_sub(step_b)?);
    let far = end(first, step)?;
    if matches!(op, CompareOp::Eq | CompareOp::Ne) && step != 0 {
        return None;
    }
    let holds = |d: i64| arith::holds(op, Some(d.cmp(&0)));
    let head = holds(first);
    if holds(far) == head {
        return Some((head, n));
    }
    let (mut low, mut high) = (0, n - 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if holds(first + step * middle as i64) == head {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some((head, high))
}

/// `out = a op b` as bytes, for numbers that go up in steps.
///
/// # Safety
/// `out` holds `n` bytes.
unsafe fn compare_lines(
    op: CompareOp,
    ((a, step_a), (b, step_b)): (Line, Line),
    out: *mut u8,
    n: usize,
) {
    // SAFETY: as the caller promises.
    let out = unsafe { std::slice::from_raw_parts_mut(out, n) };
    if let Some((head, at)) = cut(op, ((a, step_a), (b, step_b)), n) {
        out[..at].fill(u8::from(head));
        out[at..].fill(u8::from(!head));
        return;
    }
    for (i, out) in out.iter_mut().enumerate() {
        let x = a.wrapping_add(step_a.wrapping_mul(i as i64));
        let y = b.wrapping_add(step_b.wrapping_mul(i as i64));
        *out = u8::from(arith::holds(op, Some(x.cmp(&y))));
    }
}
