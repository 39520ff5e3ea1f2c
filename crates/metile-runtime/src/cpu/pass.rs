//! Passes: element-wise work, a chunk at a time.

use super::machine::{CHUNK_BYTES, Machine, coordinate};
use super::route::{self, Route, Walk};
use super::view::{read_bits, write_bits};
use super::walk;
use metile_compiler::cpu::{Access, CHUNK, Index, Pass, Place, ReductionTarget, Source, Step};
use metile_ir::arith;
use metile_ir::dtype::DType;
use metile_ir::tile::{BinaryOp, CompareOp, MAX_RANK, ReduceOp};
use metile_simd::elementwise::{self as simd, Operand};
use metile_simd::reduce::Running;
use std::mem::MaybeUninit;

/// A pass under way: where it is, and where its chunks are.
struct Here<'p> {
    pass: &'p Pass,
    /// Where the rows of each operand lie, and the row that it is on.
    routes: [MaybeUninit<&'p Route>; MAX_ACCESSES],
    walks: [MaybeUninit<Walk>; MAX_ACCESSES],
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
    let bound = machine.launch.bound;
    let known = &bound.routes[pass.first_access..][..pass.accesses.len()];
    // Routes over views that the program itself made.
    let mut own = std::mem::take(&mut machine.worker.routes);
    if !pass.fixed {
        own.resize_with(own.len().max(known.len()), Route::default);
        for (n, access) in pass.accesses.iter().enumerate() {
            if !route::is_fixed(machine.form, access) {
                own[n].set(machine.form, pass, access, &machine.program.views);
            }
        }
    }
    let chunks =
        machine.worker.chunks.grow((pass.temps as usize + pass.accesses.len()) * CHUNK_BYTES);
    let mut here = Here {
        pass,
        routes: [const { MaybeUninit::uninit() }; MAX_ACCESSES],
        walks: [const { MaybeUninit::uninit() }; MAX_ACCESSES],
        position: [0; MAX_RANK],
        start: 0,
        n: 0,
        chunks,
        temps: [const { MaybeUninit::uninit() }; MAX_TEMPS],
        read: [const { MaybeUninit::uninit() }; MAX_ACCESSES],
    };
    for (n, access) in pass.accesses.iter().enumerate() {
        let fixed = pass.fixed || route::is_fixed(machine.form, access);
        here.routes[n].write(if fixed { &known[n] } else { &own[n] });
    }
    here.rows(machine);
    machine.worker.routes = own;
}

impl<'p> Here<'p> {
    fn rows(&mut self, machine: &mut Machine<'_>) {
        let pass = self.pass;
        let inner = pass.shape.rank() - 1;
        let side = pass.shape.side(inner);
        self.n = CHUNK.min(side);
        let mut running = std::mem::take(&mut machine.worker.running);
        for temp in 0..pass.temps {
            self.temps[temp as usize].write(self.own(temp));
        }
        for step in &pass.setup {
            self.step(machine, step, &mut []);
        }
        loop {
            for n in 0..pass.accesses.len() {
                let mut walk = Walk::NONE;
                let position = &self.position[..inner];
                self.route(n as u16).row(
                    &machine.program.regs,
                    machine.scratch,
                    position,
                    &mut walk,
                );
                self.walks[n].write(walk);
            }
            running.clear();
            running.extend(pass.reductions.iter().map(|r| Running::new(r.op, r.dtype)));
            let (low, high) = if pass.only_stores { self.hull() } else { (0, side) };
            let mut start = low;
            while start < high {
                self.start = start;
                self.n = CHUNK.min(high - start);
                self.place_homes();
                self.resolve(machine);
                for step in &pass.steps {
                    self.step(machine, step, &mut running);
                }
                start += self.n;
            }
            self.finish_row(machine, &running);
            if !self.next_row() {
                break;
            }
        }
        machine.worker.running = running;
    }

    /// Goes to the next position, as an odometer counts; false after the last.
    fn next_row(&mut self) -> bool {
        let inner = self.pass.shape.rank() - 1;
        for axis in (0..inner).rev() {
            self.position[axis] += 1;
            if self.position[axis] < self.pass.shape.side(axis) {
                return true;
            }
            self.position[axis] = 0;
        }
        false
    }

    /// The stretch of the row that any store writes to.
    fn hull(&self) -> (usize, usize) {
        let mut hull = (usize::MAX, 0);
        for step in &self.pass.steps {
            if let Step::Store { access, .. } = step {
                let walk = self.walk(*access);
                if walk.low < walk.high {
                    hull = (hull.0.min(walk.low), hull.1.max(walk.high));
                }
            }
        }
        if hull.0 > hull.1 { (0, 0) } else { hull }
    }

    /// Chunks that are made where they are kept go there.
    fn place_homes(&mut self) {
        for &(temp, access) in &self.pass.homes {
            let (operand, route, walk) = self.operand_at(access);
            let place = walk::in_place(operand, route, walk, (self.start, self.n));
            let place = place.filter(|_| !route.stream).unwrap_or_else(|| self.own(temp));
            self.temps[temp as usize].write(place);
        }
    }

    fn route(&self, access: u16) -> &'p Route {
        // SAFETY: every operand of the pass was given its route when the pass began.
        unsafe { self.routes[access as usize].assume_init() }
    }
    fn walk(&self, access: u16) -> &Walk {
        // SAFETY: every operand of the pass was given its walk when the row began.
        unsafe { self.walks[access as usize].assume_init_ref() }
    }
    fn operand_at(&self, access: u16) -> (&'p Access, &'p Route, &Walk) {
        (&self.pass.accesses[access as usize], self.route(access), self.walk(access))
    }
    fn outer(&self) -> usize {
        self.pass.shape.rank() - 1
    }

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
    fn resolve(&mut self, machine: &mut Machine<'_>) {
        let ahead = self.pass.heavy || self.pass.only_stores;
        for &access in &self.pass.reads {
            let operand = self.operand_at(access);
            if ahead && matches!(operand.0.place, Place::Tensor { .. }) {
                self.fetch_ahead(machine, access);
            }
            let (position, copy) = (&self.position[..self.outer()], self.copy(access));
            let found = walk::read(machine, operand, position, (self.start, self.n), copy);
            self.read[access as usize].write(found);
        }
    }

    fn fetch_ahead(&self, machine: &mut Machine<'_>, access: u16) {
        let (operand, route, walk) = self.operand_at(access);
        let bytes = operand.dtype.bytes();
        if route.step() != bytes as isize {
            return;
        }
        let last = &mut machine.worker.last[self.pass.first_access + access as usize];
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

    fn step(&mut self, machine: &mut Machine<'_>, step: &Step, running: &mut [Running]) {
        let (level, n) = (machine.worker.level, self.n);
        // SAFETY: chunks hold any `n` elements and are made before they are read; the compiler gives no
        // step a result that overlaps what it reads.
        unsafe {
            match *step {
                Step::Fill { dtype, reg, to } => {
                    simd::fill(dtype.bytes(), machine.reg(reg), self.temp(to), CHUNK);
                }
                Step::Load { access, to } => {
                    let (operand, to) = (self.operand_at(access), self.temp(to));
                    let position = &self.position[..self.outer()];
                    let from = walk::read(machine, operand, position, (self.start, n), to);
                    if from != to.cast_const() {
                        simd::copy(operand.0.read_dtype().bytes(), from, to, n);
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
                    let operand = self.operand_at(access);
                    walk::write(machine, operand, (self.start, n), self.pointer(value));
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
        let (n, out) = (self.n, self.temp(to));
        let kept = self.pass.homes.iter().any(|(temp, _)| *temp == to);
        let own = if kept { out } else { self.own(to) };
        let cut = cut(op, x, y, n);
        if let Some((head, at)) = cut
            && at == n
            && !kept
            && let found @ (Source::Temp(_) | Source::Access(_)) = if head { a } else { b }
        {
            // Read-only from here on, so it may be what others read as well.
            self.temps[to as usize].write(self.pointer(found).cast_mut());
            return;
        }
        self.temps[to as usize].write(own);
        let Some((head, at)) = cut else {
            return self.select_often(machine, dtype, (op, x, y), [a, b], own);
        };
        let (first, second) = if head { (a, b) } else { (b, a) };
        self.part(machine, dtype, first, own, 0..at);
        self.part(machine, dtype, second, own, at..n);
    }

    /// Elements `range` of a chunk or a scalar, at their place in the chunk `to`.
    fn part(
        &self,
        machine: &Machine<'_>,
        dtype: DType,
        from: Source,
        to: *mut u8,
        range: std::ops::Range<usize>,
    ) {
        let bytes = dtype.bytes();
        let (skip, n) = (range.start * bytes, range.len());
        // SAFETY: chunks hold the elements; `to` is nobody else's.
        unsafe {
            match from {
                Source::Reg(reg) => simd::fill(bytes, machine.reg(reg), to.wrapping_add(skip), n),
                other => {
                    let from = self.pointer(other).wrapping_add(skip);
                    simd::copy(bytes, from, to.wrapping_add(skip), n);
                }
            }
        }
    }

    /// A choice by position that changes more than once in the chunk.
    fn select_often(
        &self,
        machine: &Machine<'_>,
        dtype: DType,
        (op, x, y): (CompareOp, (i64, i64), (i64, i64)),
        operands: [Source; 2],
        to: *mut u8,
    ) {
        let mut mask = [const { MaybeUninit::<u8>::uninit() }; CHUNK];
        let mut filled = [const { [const { MaybeUninit::<u64>::uninit() }; CHUNK] }; 2];
        let (mask, n): (*mut u8, usize) = (mask.as_mut_ptr().cast(), self.n);
        let mut pointers = [std::ptr::null(); 2];
        for ((pointer, source), filled) in pointers.iter_mut().zip(operands).zip(&mut filled) {
            *pointer = match source {
                Source::Reg(_) => {
                    let filled = filled.as_mut_ptr().cast();
                    self.part(machine, dtype, source, filled, 0..n);
                    filled.cast_const()
                }
                other => self.pointer(other),
            };
        }
        // SAFETY: chunks, the mask and what is filled hold any `n` elements.
        unsafe {
            compare_indices(op, x, y, mask, n);
            let [a, b] = pointers;
            simd::select(machine.worker.level, dtype.bytes(), mask, a, b, to, n);
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
