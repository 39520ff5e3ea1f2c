//! Passes: element-wise work, a chunk at a time.

use super::machine::{CHUNK_BYTES, Machine, coordinate};
use super::view::{read_bits, write_bits};
use super::walk::{self, Walk};
use metile_compiler::cpu::{CHUNK, Index, Pass, Place, ReductionTarget, Source, Step};
use metile_ir::arith;
use metile_ir::dtype::DType;
use metile_ir::tile::{BinaryOp, CompareOp, MAX_RANK, ReduceOp};
use metile_simd::elementwise::{self as simd, Operand};
use metile_simd::reduce::Running;
use std::mem::MaybeUninit;

/// A pass under way: where it is, and where its chunks are.
struct Here<'p> {
    pass: &'p Pass,
    /// The position on all axes but the last.
    position: [usize; MAX_RANK],
    /// The first element of the row, and how many.
    start: usize,
    n: usize,
    chunks: *mut u8,
    /// Where each chunk lies.
    temps: [MaybeUninit<*mut u8>; MAX_TEMPS],
    /// What each operand that is read in place was resolved to.
    read: [MaybeUninit<*const u8>; MAX_ACCESSES],
}

/// As many chunks as the compiler lets a pass have, and those that its last operation adds.
const MAX_TEMPS: usize = 128;

/// As many operands as the compiler lets a pass have, and those that its last operation adds.
const MAX_ACCESSES: usize = 128;

/// Rows further apart than this are not fetched ahead: the guess is as good as none.
const MAX_AHEAD: usize = 1 << 24;

pub(super) fn run(machine: &mut Machine<'_>, pass: &Pass) {
    let shape = pass.shape;
    let inner = shape.rank() - 1;
    let side = shape.side(inner);
    let rows = shape.elements() / side;
    let chunks =
        machine.worker.chunks.grow((pass.temps as usize + pass.accesses.len()) * CHUNK_BYTES);
    let mut here = Here {
        pass,
        position: [0; MAX_RANK],
        start: 0,
        n: CHUNK.min(side),
        chunks,
        temps: [const { MaybeUninit::uninit() }; MAX_TEMPS],
        read: [const { MaybeUninit::uninit() }; MAX_ACCESSES],
    };
    let mut bases = std::mem::take(&mut machine.worker.bases);
    bases.clear();
    for access in &pass.accesses {
        walk::bases(access, &machine.program.regs, &mut bases);
    }
    let mut running = std::mem::take(&mut machine.worker.running);
    running.clear();
    running.extend(pass.reductions.iter().map(|r| Running::new(r.op, r.dtype)));
    let mut walks = std::mem::take(&mut machine.worker.walks);
    for temp in 0..pass.temps {
        here.temps[temp as usize].write(here.own(temp));
    }
    for step in &pass.setup {
        here.step(machine, step, &[], &mut running);
    }
    for _ in 0..rows {
        walks.clear();
        let mut at = 0;
        for access in &pass.accesses {
            let axes = match &access.place {
                Place::Tensor { index, .. } => index.len(),
                Place::Slot { .. } => 0,
            };
            let own = &bases[at..at + axes];
            walks.push(walk::along_row(machine, access, &shape, &here.position, own));
            at += axes;
        }
        for (state, reduction) in running.iter_mut().zip(&pass.reductions) {
            *state = Running::new(reduction.op, reduction.dtype);
        }
        let (low, high) = if pass.only_stores { hull(pass, &walks) } else { (0, side) };
        let mut start = low;
        while start < high {
            here.start = start;
            here.n = CHUNK.min(high - start);
            for &(temp, access) in &pass.homes {
                let walk = &walks[access as usize];
                let bytes = pass.accesses[access as usize].dtype.bytes();
                here.temps[temp as usize].write(walk.first.wrapping_add(start * bytes));
            }
            here.resolve(machine, &walks);
            for step in &pass.steps {
                here.step(machine, step, &walks, &mut running);
            }
            start += here.n;
        }
        here.finish_row(machine, &running);
        // The next position, as an odometer counts.
        for axis in (0..inner).rev() {
            here.position[axis] += 1;
            if here.position[axis] < shape.side(axis) {
                break;
            }
            here.position[axis] = 0;
        }
    }
    machine.worker.bases = bases;
    machine.worker.running = running;
    machine.worker.walks = walks;
}

/// The stretch of a row that any store writes to.
fn hull(pass: &Pass, walks: &[Walk]) -> (usize, usize) {
    let mut hull = (usize::MAX, 0);
    for step in &pass.steps {
        if let Step::Store { access, .. } = step {
            let walk = &walks[*access as usize];
            if walk.low < walk.high {
                hull = (hull.0.min(walk.low), hull.1.max(walk.high));
            }
        }
    }
    if hull.0 > hull.1 { (0, 0) } else { hull }
}

impl Here<'_> {
    /// The memory that is set aside for a chunk.
    fn own(&self, temp: u16) -> *mut u8 {
        self.chunks.wrapping_add(temp as usize * CHUNK_BYTES)
    }
    /// Where a chunk lies: there, or in the slot it is kept in, or where it was found.
    fn temp(&self, temp: u16) -> *mut u8 {
        // SAFETY: each chunk of the pass was given its place when the pass began.
        unsafe { self.temps[temp as usize].assume_init() }
    }
    /// The chunk that operand `access` is copied to where it can't be read in place.
    fn copy(&self, access: u16) -> *mut u8 {
        self.own(self.pass.temps + access)
    }

    /// Finds the operands that are read in place. Where there is time, asks for what the next row will
    /// read: as far on as this row is from the last one.
    fn resolve(&mut self, machine: &mut Machine<'_>, walks: &[Walk]) {
        let ahead = self.pass.heavy || self.pass.only_stores;
        for &access in &self.pass.reads {
            let at = access as usize;
            let copy = self.copy(access);
            if ahead && matches!(self.pass.accesses[at].place, Place::Tensor { .. }) {
                self.fetch_ahead(machine, at, &walks[at]);
            }
            let (operand, walk) = (&self.pass.accesses[at], &walks[at]);
            self.read[at].write(walk::read(machine, operand, walk, self.start, self.n, copy));
        }
    }

    fn fetch_ahead(&self, machine: &mut Machine<'_>, at: usize, walk: &Walk) {
        let bytes = self.pass.accesses[at].dtype.bytes();
        if walk.step != bytes as isize {
            return;
        }
        let last = &mut machine.worker.last[self.pass.first_access + at];
        let first = walk.first.cast_const();
        // The chunks of a row in turn: the distance is known once the second row begins.
        if self.start <= walk.low {
            let before = last.0.addr();
            let moved = first.addr().wrapping_sub(before) as isize;
            *last = (first, if before == 0 { 0 } else { moved });
        }
        let distance = last.1;
        if distance != 0 && distance.unsigned_abs() <= MAX_AHEAD {
            let from = first.wrapping_offset(distance).wrapping_add(self.start * bytes);
            simd::prefetch(from, self.n * bytes);
        }
    }

    fn pointer(&self, source: Source) -> *const u8 {
        match source {
            Source::Temp(temp) => self.temp(temp),
            // SAFETY: every operand that a step reads in place was found before.
            Source::Access(access) => unsafe { self.read[access as usize].assume_init() },
            // Only operands of binary steps and comparisons are scalars.
            Source::Reg(_) => std::ptr::null(),
        }
    }

    fn operand(&self, machine: &Machine<'_>, source: Source) -> Operand {
        match source {
            Source::Reg(reg) => Operand {
                first: std::ptr::from_ref(&machine.program.regs[reg as usize]).cast(),
                one: true,
            },
            other => Operand { first: self.pointer(other), one: false },
        }
    }

    fn step(
        &mut self,
        machine: &mut Machine<'_>,
        step: &Step,
        walks: &[Walk],
        running: &mut [Running],
    ) {
        let (level, n) = (machine.worker.level, self.n);
        // SAFETY: chunks hold any `n` elements and are made before they are read; the compiler gives no
        // step a result that overlaps what it reads.
        unsafe {
            match *step {
                Step::Fill { dtype, reg, to } => {
                    simd::fill(dtype.bytes(), machine.reg(reg), self.temp(to), CHUNK);
                }
                Step::Load { access, to } => {
                    let (operand, walk) =
                        (&self.pass.accesses[access as usize], &walks[access as usize]);
                    let to = self.temp(to);
                    let from = walk::read(machine, operand, walk, self.start, n, to);
                    if from != to.cast_const() {
                        simd::copy(operand.read_dtype().bytes(), from, to, n);
                    }
                }
                Step::Index { ref index, to } => {
                    let (first, step) = self.index(machine, index);
                    simd::index(level, first, step, self.temp(to), n);
                }
                Step::IndexCompare { op, ref a, ref b, to } => {
                    let (a, b) = (self.index(machine, a), self.index(machine, b));
                    compare_indices(op, a, b, self.temp(to), n);
                }
                Step::Unary { op, dtype, a, to } => {
                    simd::unary(level, op, dtype, self.pointer(a), self.temp(to), n);
                }
                Step::Binary { op, dtype, a, b, to } => {
                    let (a, b) = (self.operand(machine, a), self.operand(machine, b));
                    simd::binary(level, op, dtype, a, b, self.temp(to), n);
                }
                Step::Compare { op, dtype, a, b, to } => {
                    let (a, b) = (self.operand(machine, a), self.operand(machine, b));
                    simd::compare(level, op, dtype, a, b, self.temp(to), n);
                }
                Step::Select { dtype, c, a, b, to } => {
                    let [c, a, b] = [c, a, b].map(|source| self.pointer(source));
                    simd::select(level, dtype.bytes(), c, a, b, self.temp(to), n);
                }
                Step::Fma { a, b, c, to } => {
                    let [a, b, c] = [a, b, c].map(|source| self.pointer(source));
                    simd::fma(level, a, b, c, self.temp(to), n);
                }
                Step::Cast { from, dtype, a, to } => {
                    simd::cast(level, from, dtype, self.pointer(a), self.temp(to), n);
                }
                Step::Chain { ref chain, a, b, c, reduction, to } => {
                    let (b, c) = (self.operand(machine, b), self.operand(machine, c));
                    let value = metile_simd::chain::chain(
                        level,
                        chain,
                        self.pointer(a),
                        b,
                        c,
                        self.temp(to),
                        n,
                    );
                    if let Some(reduction) = reduction {
                        running[reduction as usize].take_combined(value, n);
                    }
                }
                Step::SelectIndex { .. } => self.select_index(machine, step),
                Step::Gather { .. } => self.gather(machine, step),
                Step::Scatter { .. } => self.scatter(machine, step),
                Step::Store { access, value } => {
                    let (operand, walk) =
                        (&self.pass.accesses[access as usize], &walks[access as usize]);
                    let stream = match operand.place {
                        Place::Tensor { view, .. } => machine.program.views[view as usize].stream,
                        Place::Slot { .. } => false,
                    };
                    walk::write(machine, operand, walk, self.start, n, self.pointer(value), stream);
                }
                Step::Reduce { reduction, value } => {
                    let along_row =
                        self.pass.reductions[reduction as usize].axis + 1 == self.pass.shape.rank();
                    if along_row {
                        let state = &mut running[reduction as usize];
                        state.take(level, self.pointer(value), n);
                    } else {
                        self.reduce_rows(machine, reduction, value);
                    }
                }
            }
        }
    }

    /// The first number of an index tile on this chunk, and the step to the next.
    fn index(&self, machine: &Machine<'_>, index: &Index) -> (i64, i64) {
        let inner = self.pass.shape.rank() - 1;
        let mut first = index.base.value(&machine.program.regs);
        for axis in 0..inner {
            first = first.wrapping_add(index.steps[axis].wrapping_mul(self.position[axis] as i64));
        }
        let step = index.steps[inner];
        (first.wrapping_add(step.wrapping_mul(self.start as i64)), step)
    }

    /// A choice by position: mostly all of the one or all of the other, which then need not move.
    fn select_index(&mut self, machine: &Machine<'_>, step: &Step) {
        let Step::SelectIndex { dtype, op, ref x, ref y, a, b, to } = *step else { return };
        let (x, y) = (self.index(machine, x), self.index(machine, y));
        let (n, bytes, out) = (self.n, dtype.bytes(), self.temp(to));
        let (a, b) = (self.pointer(a), self.pointer(b));
        let kept = self.pass.homes.iter().any(|(temp, _)| *temp == to);
        let own = if kept { out } else { self.own(to) };
        match cut(op, x, y, n) {
            Some((head, at)) if at == n && !kept => {
                // Read-only from here on, so it may be what others read as well.
                let found = if head { a } else { b };
                self.temps[to as usize].write(found.cast_mut());
            }
            Some((head, at)) => {
                self.temps[to as usize].write(own);
                let (first, second) = if head { (a, b) } else { (b, a) };
                // SAFETY: chunks hold any `n` elements; `own` is nobody else's.
                unsafe {
                    simd::copy(bytes, first, own, at);
                    let skip = at * bytes;
                    simd::copy(bytes, second.wrapping_add(skip), own.wrapping_add(skip), n - at);
                }
            }
            None => {
                self.temps[to as usize].write(own);
                let mut mask = [const { MaybeUninit::<u8>::uninit() }; CHUNK];
                let mask: *mut u8 = mask.as_mut_ptr().cast();
                // SAFETY: as above; the mask holds a chunk.
                unsafe {
                    compare_indices(op, x, y, mask, n);
                    simd::select(machine.worker.level, bytes, mask, a, b, own, n);
                }
            }
        }
    }

    /// The coordinates of lane `lane`; `None` where one does not fit an `i64`.
    fn coordinates(&self, at: &[(Source, DType)], lane: usize) -> Option<[i64; MAX_RANK]> {
        let mut index = [0; MAX_RANK];
        for (axis, &(source, dtype)) in at.iter().enumerate() {
            let bytes = dtype.bytes();
            // SAFETY: the chunk has `n` coordinates.
            let bits = unsafe { read_bits(self.pointer(source).wrapping_add(lane * bytes), bytes) };
            index[axis] = coordinate(bits, dtype)?;
        }
        Some(index)
    }

    fn gather(&self, machine: &mut Machine<'_>, step: &Step) {
        let Step::Gather { view, format, ref at, fill, to } = *step else { return };
        let (bytes, fill) = (format.loaded().bytes(), machine.reg(fill));
        let view = machine.program.views[view as usize];
        for lane in 0..self.n {
            let found = self
                .coordinates(at, lane)
                .and_then(|index| view.read(format, &index[..at.len()], &mut machine.worker.block));
            let place = self.temp(to).wrapping_add(lane * bytes);
            // SAFETY: the chunk has room for `n` elements.
            unsafe { write_bits(place, bytes, found.unwrap_or(fill)) };
        }
    }

    fn scatter(&self, machine: &Machine<'_>, step: &Step) {
        let Step::Scatter { view, dtype, ref at, mask, value } = *step else { return };
        let (bytes, view) = (dtype.bytes(), &machine.program.views[view as usize]);
        let value = self.pointer(value);
        for lane in 0..self.n {
            // SAFETY: the mask has a byte for each lane.
            let wanted = mask.is_none_or(|m| unsafe { *self.pointer(m).wrapping_add(lane) != 0 });
            if !wanted {
                continue;
            }
            let place = self.coordinates(at, lane).and_then(|i| view.place(dtype, &i[..at.len()]));
            if let Some(place) = place {
                // SAFETY: the chunk has `n` elements; the place is one of the tensor's.
                unsafe {
                    write_bits(place, bytes, read_bits(value.wrapping_add(lane * bytes), bytes));
                }
            }
        }
    }

    /// A reduction along another axis than the last: the rows are combined one by one.
    fn reduce_rows(&self, machine: &Machine<'_>, reduction: u16, value: Source) {
        let reduction = &self.pass.reductions[reduction as usize];
        let ReductionTarget::Slot { slot, strides } = &reduction.to else { return };
        let inner = self.pass.shape.rank() - 1;
        let bytes = reduction.dtype.bytes();
        let row: i64 = (0..inner).map(|a| strides[a] * self.position[a] as i64).sum();
        let at = (row + self.start as i64) as usize * bytes;
        let to = machine.slot(*slot).wrapping_add(at);
        let from = self.pointer(value);
        // SAFETY: the slot has a row as long as the pass's.
        unsafe {
            if self.position[reduction.axis] == 0 {
                return simd::copy(bytes, from, to, self.n);
            }
            let op = match reduction.op {
                ReduceOp::Sum => BinaryOp::Add,
                ReduceOp::Max => BinaryOp::Max,
                _ => BinaryOp::Min,
            };
            let mut sum = [const { MaybeUninit::<u64>::uninit() }; CHUNK];
            let out: *mut u8 = sum.as_mut_ptr().cast();
            let (a, b) = (Operand { first: to, one: false }, Operand { first: from, one: false });
            simd::binary(machine.worker.level, op, reduction.dtype, a, b, out, self.n);
            simd::copy(bytes, out, to, self.n);
        }
    }

    fn finish_row(&self, machine: &mut Machine<'_>, running: &[Running]) {
        let inner = self.pass.shape.rank() - 1;
        for (state, reduction) in running.iter().zip(&self.pass.reductions) {
            if reduction.axis != inner {
                continue;
            }
            match &reduction.to {
                ReductionTarget::Reg(reg) => machine.set(*reg, state.result()),
                ReductionTarget::Slot { slot, strides } => {
                    let at: i64 = (0..inner).map(|a| strides[a] * self.position[a] as i64).sum();
                    let bytes = match reduction.op {
                        ReduceOp::ArgMax | ReduceOp::ArgMin => 8,
                        _ => reduction.dtype.bytes(),
                    };
                    let place = machine.slot(*slot).wrapping_add(at as usize * bytes);
                    // SAFETY: the slot has an element for each row.
                    unsafe { write_bits(place, bytes, state.result()) };
                }
            }
        }
    }
}

/// Where `a op b` holds on a chunk of `n`, for numbers that go up in steps: whether on its first
/// elements, and up to which. `None` if it may change more than once.
fn cut(
    op: CompareOp,
    (a, step_a): (i64, i64),
    (b, step_b): (i64, i64),
    n: usize,
) -> Option<(bool, usize)> {
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
unsafe fn compare_indices(
    op: CompareOp,
    (a, step_a): (i64, i64),
    (b, step_b): (i64, i64),
    out: *mut u8,
    n: usize,
) {
    // SAFETY: as the caller promises.
    let out = unsafe { std::slice::from_raw_parts_mut(out, n) };
    if let Some((head, at)) = cut(op, (a, step_a), (b, step_b), n) {
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
