//! Passes: element-wise work, a chunk at a time.

use super::machine::{CHUNK_BYTES, Machine, coordinate};
use super::route::{Route, Walk};
use super::view::{read_bits, write_bits};
use metile_compiler::cpu::{CHUNK, Pass, Reduction, ReductionTarget, Source, Step};
use metile_ir::dtype::DType;
use metile_ir::tile::{BinaryOp, MAX_RANK, ReduceOp};
use metile_simd::chain::Chain;
use metile_simd::elementwise::{self as simd, Operand};
use metile_simd::reduce::{self, Running};
use std::mem::MaybeUninit;

/// A pass under way: where it is, and where its chunks are.
pub(super) struct Here<'p> {
    pub pass: &'p Pass,
    /// Where the rows of each operand lie, and the row that it is on.
    pub routes: [MaybeUninit<&'p Route>; MAX_ACCESSES],
    pub walks: [MaybeUninit<Walk>; MAX_ACCESSES],
    /// The position on all axes but the last.
    pub position: [usize; MAX_RANK],
    /// The first element of the row in this chunk, and how many elements the chunk has.
    pub start: usize,
    pub n: usize,
    /// Rows that the chunk has: one, or several whole ones.
    pub rows: usize,
    chunks: *mut u8,
    /// Where each chunk lies.
    temps: [MaybeUninit<*mut u8>; MAX_TEMPS],
    /// What each operand that is read in place was resolved to.
    pub read: [MaybeUninit<*const u8>; MAX_ACCESSES],
}

/// As many chunks as the compiler lets a pass have, and those that its last operation adds.
const MAX_TEMPS: usize = 128;

/// As many operands as the compiler lets a pass have, and those that its last operation adds.
const MAX_ACCESSES: usize = 128;

pub(super) fn run(machine: &mut Machine<'_>, pass: &Pass) {
    let bound = machine.launch.bound;
    if let Some(Some(settled)) = bound.settled.get(pass.first_access)
        && !pass.accesses.is_empty()
        && settled.run(machine, pass)
    {
        return;
    }
    let known = &bound.routes[pass.first_access..][..pass.accesses.len()];
    // Routes over views that the program itself made.
    let mut own = std::mem::take(&mut machine.worker.routes);
    if !pass.fixed {
        own.resize_with(own.len().max(known.len()), Route::default);
        for (n, access) in pass.accesses.iter().enumerate() {
            if !access.is_fixed(&machine.form.fixed_views) {
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
        rows: 1,
        chunks,
        temps: [const { MaybeUninit::uninit() }; MAX_TEMPS],
        read: [const { MaybeUninit::uninit() }; MAX_ACCESSES],
    };
    for (n, access) in pass.accesses.iter().enumerate() {
        let fixed = pass.fixed || access.is_fixed(&machine.form.fixed_views);
        here.routes[n].write(if fixed { &known[n] } else { &own[n] });
    }
    here.run(machine);
    machine.worker.routes = own;
}

impl Here<'_> {
    fn run(&mut self, machine: &mut Machine<'_>) {
        let pass = self.pass;
        let inner = self.outer();
        let side = pass.shape.side(inner);
        let mut running = std::mem::take(&mut machine.worker.running);
        for temp in 0..pass.temps {
            self.set_temp(temp, self.own(temp));
        }
        for step in &pass.setup {
            self.step(machine, step, &mut []);
        }
        loop {
            let mut done = 1;
            if pass.together > 1 {
                done = pass.together.min(pass.shape.side(inner - 1) - self.position[inner - 1]);
                self.several_rows(machine, done);
            } else {
                self.n = side;
                self.find_rows(machine);
                running.clear();
                running.extend(pass.reductions.iter().map(|r| Running::new(r.op, r.dtype)));
                let (low, high) = if pass.only_stores { self.hull() } else { (0, side) };
                self.start = low;
                while self.start < high {
                    self.n = CHUNK.min(high - self.start);
                    self.chunk(machine, &mut running);
                    self.start += self.n;
                }
                self.finish_row(machine, &running);
            }
            if !self.advance(done) {
                break;
            }
        }
        machine.worker.running = running;
    }

    /// As many whole rows as `rows`, in one chunk.
    fn several_rows(&mut self, machine: &mut Machine<'_>, rows: usize) {
        let side = self.pass.shape.side(self.outer());
        self.rows = rows;
        self.n = rows * side;
        self.find_rows(machine);
        if self.pass.only_stores {
            self.rows = self.stored_rows(machine);
            self.n = self.rows * side;
        }
        if self.rows > 0 {
            self.chunk(machine, &mut []);
        }
    }

    fn chunk(&mut self, machine: &mut Machine<'_>, running: &mut [Running]) {
        let pass = self.pass;
        self.place_homes();
        self.resolve(machine);
        for step in &pass.steps {
            self.step(machine, step, running);
        }
    }

    /// Goes on by some rows, as an odometer counts; false after the last.
    fn advance(&mut self, rows: usize) -> bool {
        let mut by = rows;
        for axis in (0..self.outer()).rev() {
            self.position[axis] += by;
            if self.position[axis] < self.pass.shape.side(axis) {
                return true;
            }
            self.position[axis] = 0;
            by = 1;
        }
        false
    }

    /// The number of axes but the last.
    pub(super) fn outer(&self) -> usize {
        self.pass.shape.rank() - 1
    }
    /// Elements of each row in this chunk.
    pub(super) fn width(&self) -> usize {
        if self.pass.together == 1 { self.n } else { self.pass.shape.side(self.outer()) }
    }

    /// The memory that is set aside for a chunk.
    pub(super) fn own(&self, temp: u16) -> *mut u8 {
        self.chunks.wrapping_add(temp as usize * CHUNK_BYTES)
    }
    /// Where a chunk lies: there, or in the slot it is kept in, or where it was found.
    pub(super) fn temp(&self, temp: u16) -> *mut u8 {
        // SAFETY: each chunk of the pass was given its place when the pass began.
        unsafe { self.temps[temp as usize].assume_init() }
    }
    pub(super) fn set_temp(&mut self, temp: u16, place: *mut u8) {
        self.temps[temp as usize].write(place);
    }
    /// The chunk that operand `access` is copied to where it can't be read in place.
    pub(super) fn copy(&self, access: u16) -> *mut u8 {
        self.own(self.pass.temps + access)
    }

    pub(super) fn pointer(&self, source: Source) -> *const u8 {
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
            Source::Access(access) => {
                Operand { first: self.pointer(source), one: self.pass.ones.contains(&access) }
            }
            Source::Temp(temp) => Operand { first: self.temp(temp), one: false },
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
                    let to = self.temp(to);
                    let from = self.read(machine, access, to);
                    if from != to.cast_const() {
                        let dtype = self.pass.accesses[access as usize].read_dtype();
                        simd::copy(dtype.bytes(), from, to, n);
                    }
                }
                Step::Index { ref index, to } => self.numbers(machine, index, self.temp(to)),
                Step::IndexCompare { op, ref a, ref b, to } => {
                    self.compare_by_index(machine, (op, a, b), self.temp(to));
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
                Step::Chain { .. } => self.chain(machine, step, running),
                Step::SelectIndex { .. } => self.select_by_index(machine, step),
                Step::Gather { .. } => self.gather(machine, step),
                Step::Scatter { .. } => self.scatter(machine, step),
                Step::Store { access, value } => {
                    self.write(machine, access, self.pointer(value));
                }
                Step::Reduce { reduction, value } => {
                    let along_row = self.pass.reductions[reduction as usize].axis == self.outer();
                    match (along_row, self.pass.together) {
                        (true, 1) => {
                            running[reduction as usize].take(level, self.pointer(value), n);
                        }
                        (true, _) => self.reduce_each(machine, reduction, self.pointer(value)),
                        (false, _) => self.combine_rows(machine, reduction, self.pointer(value)),
                    }
                }
            }
        }
    }

    fn chain(&mut self, machine: &mut Machine<'_>, step: &Step, running: &mut [Running]) {
        let Step::Chain { ref chain, a, b, c, reduction, to, keep } = *step else { return };
        let (level, n) = (machine.worker.level, self.n);
        let (b, c) = (self.operand(machine, b), self.operand(machine, c));
        let (from, out) = (self.pointer(a), self.temp(to));
        let alone = self.pass.together == 1;
        let chain = if alone { *chain } else { Chain { reduce: None, ..*chain } };
        let out =
            if keep || chain.reduce != Some(ReduceOp::Sum) { out } else { std::ptr::null_mut() };
        // SAFETY: as in `step`.
        let value = unsafe { metile_simd::chain::chain(level, &chain, from, b, c, out, n) };
        match reduction {
            Some(reduction) if alone => {
                running[reduction as usize].take_combined(value, n);
            }
            Some(reduction) => self.reduce_each(machine, reduction, out),
            None => {}
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

    /// A reduction along each of several rows.
    fn reduce_each(&self, machine: &mut Machine<'_>, reduction: u16, from: *const u8) {
        let reduction = &self.pass.reductions[reduction as usize];
        let (width, level) = (self.width(), machine.worker.level);
        let at_once = reduction.dtype == DType::F32 && reduce::combines(reduction.op);
        for row in 0..self.rows {
            let values = from.wrapping_add(row * width * reduction.dtype.bytes());
            // SAFETY: the chunk has its rows.
            let bits = unsafe {
                if at_once {
                    u64::from(reduce::whole(level, reduction.op, values, width).to_bits())
                } else {
                    let mut state = Running::new(reduction.op, reduction.dtype);
                    state.take(level, values, width);
                    state.result()
                }
            };
            self.put(machine, reduction, row, bits);
        }
    }

    /// A reduction along another axis than the last: the rows are combined one by one.
    fn combine_rows(&self, machine: &Machine<'_>, reduction: u16, from: *const u8) {
        let reduction = &self.pass.reductions[reduction as usize];
        let ReductionTarget::Slot { slot, strides } = &reduction.to else { return };
        let (inner, width) = (self.outer(), self.width());
        let bytes = reduction.dtype.bytes();
        let op = match reduction.op {
            ReduceOp::Sum => BinaryOp::Add,
            ReduceOp::Max => BinaryOp::Max,
            _ => BinaryOp::Min,
        };
        for row in 0..self.rows {
            let mut position = self.position;
            position[inner - 1] += row;
            let at: i64 = (0..inner).map(|a| strides[a] * position[a] as i64).sum();
            let at = (at + self.start as i64) as usize * bytes;
            let to = machine.slot(*slot).wrapping_add(at);
            let from = from.wrapping_add(row * width * bytes);
            // SAFETY: the slot has a row as long as the pass's.
            unsafe {
                if position[reduction.axis] == 0 {
                    simd::copy(bytes, from, to, width);
                    continue;
                }
                let mut sum = [const { MaybeUninit::<u64>::uninit() }; CHUNK];
                let out: *mut u8 = sum.as_mut_ptr().cast();
                let (a, b) =
                    (Operand { first: to, one: false }, Operand { first: from, one: false });
                simd::binary(machine.worker.level, op, reduction.dtype, a, b, out, width);
                simd::copy(bytes, out, to, width);
            }
        }
    }

    fn finish_row(&self, machine: &mut Machine<'_>, running: &[Running]) {
        for (state, reduction) in running.iter().zip(&self.pass.reductions) {
            if reduction.axis == self.outer() {
                self.put(machine, reduction, 0, state.result());
            }
        }
    }

    /// The result of a reduction along row `row` of this chunk, where it goes.
    fn put(&self, machine: &mut Machine<'_>, reduction: &Reduction, row: usize, bits: u64) {
        match &reduction.to {
            ReductionTarget::Reg(reg) => machine.set(*reg, bits),
            ReductionTarget::Slot { slot, strides } => {
                let inner = self.outer();
                let mut at: i64 = (0..inner).map(|a| strides[a] * self.position[a] as i64).sum();
                if row > 0 {
                    at += strides[inner - 1] * row as i64;
                }
                let bytes = match reduction.op {
                    ReduceOp::ArgMax | ReduceOp::ArgMin => 8,
                    _ => reduction.dtype.bytes(),
                };
                let place = machine.slot(*slot).wrapping_add(at as usize * bytes);
                // SAFETY: the slot has an element for each row.
                unsafe { write_bits(place, bytes, bits) };
            }
        }
    }
}
