//! Passes over one row whose operands, once arguments are bound, are all used where they lie: nothing is left
//! to find out but where the row begins, so that a short row costs little besides its work.

use super::by_position;
use super::machine::{CHUNK_BYTES, Machine};
use super::route::Route;
use metile_compiler::cpu::{CHUNK, Form, Instr, Pass, ReductionTarget, Source, Step};
use metile_ir::dtype::DType;
use metile_ir::tile::ReduceOp;
use metile_simd::elementwise::{self as simd, Operand};
use metile_simd::reduce;
use std::mem::MaybeUninit;

/// The most operands, chunks and reductions of such a pass.
const MAX_ACCESSES: usize = 8;
const MAX_TEMPS: usize = 8;
const MAX_REDUCTIONS: usize = 4;

/// A pass as settled: how many elements of the row it goes over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settled {
    n: usize,
}

/// The passes of a form that are settled by its operands' `routes`.
pub(super) fn settled(form: &Form, routes: &[Route]) -> Vec<Option<Settled>> {
    let mut settled = vec![None; form.accesses];
    for instr in &form.code {
        let Instr::Pass(pass) = instr else { continue };
        if let Some(place) = settled.get_mut(pass.first_access)
            && !pass.accesses.is_empty()
        {
            let routes = &routes[pass.first_access..][..pass.accesses.len()];
            *place = Settled::new(pass, routes);
        }
    }
    settled
}

impl Settled {
    /// `pass` with its operands' `routes`, if it is such a pass. Where a row begins outside of a tensor is
    /// still left to be seen.
    fn new(pass: &Pass, routes: &[Route]) -> Option<Settled> {
        let inner = pass.shape.rank() - 1;
        let one_row = (0..inner).all(|axis| pass.shape.side(axis) == 1);
        let few = pass.accesses.len() <= MAX_ACCESSES
            && usize::from(pass.temps) <= MAX_TEMPS
            && pass.reductions.len() <= MAX_REDUCTIONS;
        let known = pass.fixed && pass.together == 1 && one_row && few;
        if !known || !pass.steps.iter().chain(&pass.setup).all(|step| is_plain(pass, step)) {
            return None;
        }
        let stored = pass.steps.iter().filter_map(|step| match step {
            Step::Store { access, .. } => Some(routes[usize::from(*access)].high()),
            _ => None,
        });
        let side = pass.shape.side(inner);
        let n = if pass.only_stores { stored.max().unwrap_or(0) } else { side };
        let whole = |(access, route): (usize, &Route)| {
            route.is_all_or_nothing(n, pass.ones.contains(&(access as u16)))
        };
        (n > 0 && routes.iter().enumerate().all(whole)).then_some(Settled { n })
    }

    /// Runs the pass; false, with nothing done, if the row is not as it is mostly.
    pub fn run(self, machine: &mut Machine<'_>, pass: &Pass) -> bool {
        let routes = &machine.launch.bound.routes[pass.first_access..][..pass.accesses.len()];
        let mut row = Row {
            pass,
            n: self.n.min(CHUNK),
            accesses: [std::ptr::null_mut(); MAX_ACCESSES],
            temps: [MaybeUninit::uninit(); MAX_TEMPS],
        };
        for (place, (route, access)) in
            row.accesses.iter_mut().zip(routes.iter().zip(&pass.accesses))
        {
            let Some(first) = route.first(&machine.program.regs, machine.scratch) else {
                return false;
            };
            if first.addr() & (access.dtype.bytes() - 1) != 0 {
                return false;
            }
            *place = first;
        }
        if !pass.steps.iter().all(|step| row.chooses_one(machine, step, self.n)) {
            return false;
        }
        let chunks = machine.worker.chunks.grow(usize::from(pass.temps) * CHUNK_BYTES);
        for (temp, place) in row.temps.iter_mut().enumerate().take(usize::from(pass.temps)) {
            place.write(chunks.wrapping_add(temp * CHUNK_BYTES));
        }
        for step in &pass.setup {
            row.step(machine, step);
        }
        let mut totals = [None; MAX_REDUCTIONS];
        let mut start = 0;
        loop {
            for &(temp, access) in &pass.homes {
                row.temps[usize::from(temp)].write(row.accesses[usize::from(access)]);
            }
            for step in &pass.steps {
                if let Some((reduction, value)) = row.step(machine, step) {
                    let (n, op) =
                        (usize::from(reduction), pass.reductions[usize::from(reduction)].op);
                    totals[n] = Some(totals[n].map_or(value, |t| reduce::combine(op, t, value)));
                }
            }
            start += CHUNK;
            if start >= self.n {
                break;
            }
            row.n = CHUNK.min(self.n - start);
            for (n, (place, access)) in row.accesses.iter_mut().zip(&pass.accesses).enumerate() {
                if !pass.ones.contains(&(n as u16)) {
                    *place = place.wrapping_add(CHUNK * access.dtype.bytes());
                }
            }
        }
        for (reduction, total) in pass.reductions.iter().zip(totals) {
            if let ReductionTarget::Reg(reg) = reduction.to {
                // A pass has at least one element, so there is a total.
                machine.set(reg, total.map_or(0, |total: f32| u64::from(total.to_bits())));
            }
        }
        true
    }
}

/// Whether [`Row::step`] does the step.
fn is_plain(pass: &Pass, step: &Step) -> bool {
    let scalar = |reduction: u16| {
        let reduction = &pass.reductions[usize::from(reduction)];
        reduction.dtype == DType::F32
            && reduce::combines(reduction.op)
            && matches!(reduction.to, ReductionTarget::Reg(_))
    };
    match step {
        Step::Fill { .. }
        | Step::Load { .. }
        | Step::Unary { .. }
        | Step::Binary { .. }
        | Step::Compare { .. }
        | Step::Select { .. }
        | Step::Fma { .. }
        | Step::Cast { .. }
        | Step::SelectIndex { .. }
        | Step::Store { .. } => true,
        Step::Chain { reduction, .. } => reduction.is_none_or(scalar),
        Step::Reduce { reduction, .. } => scalar(*reduction),
        _ => false,
    }
}

/// A chunk of the row: where its operands and what is made of them lie.
struct Row<'p> {
    pass: &'p Pass,
    n: usize,
    accesses: [*mut u8; MAX_ACCESSES],
    temps: [MaybeUninit<*mut u8>; MAX_TEMPS],
}

impl Row<'_> {
    #[inline(always)]
    fn temp(&self, temp: u16) -> *mut u8 {
        // SAFETY: every chunk of the pass was given its place.
        unsafe { self.temps[usize::from(temp)].assume_init() }
    }

    #[inline(always)]
    fn pointer(&self, source: Source) -> *const u8 {
        match source {
            Source::Temp(temp) => self.temp(temp),
            Source::Access(access) => self.accesses[usize::from(access)],
            // Only operands of binary steps, comparisons and choices are scalars.
            Source::Reg(_) => std::ptr::null(),
        }
    }

    #[inline(always)]
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

    /// Whether a choice by position is the same for the whole row of `n`, as all other steps are.
    fn chooses_one(&self, machine: &Machine<'_>, step: &Step, n: usize) -> bool {
        let Step::SelectIndex { op, ref x, ref y, .. } = *step else { return true };
        let inner = self.pass.shape.rank() - 1;
        by_position::choice(&machine.program.regs, (op, x, y), inner, n).is_some()
    }

    /// Does a step; gives what a reduction gets of it.
    #[inline(always)]
    fn step(&self, machine: &Machine<'_>, step: &Step) -> Option<(u16, f32)> {
        let (level, n) = (machine.worker.level, self.n);
        // SAFETY: chunks and operands hold `n` elements, aligned, and are made before they are read; the
        // compiler gives no step a result that overlaps what it reads.
        unsafe {
            match *step {
                Step::Chain { ref chain, a, b, c, reduction, to, keep } => {
                    let (b, c) = (self.operand(machine, b), self.operand(machine, c));
                    let sum = !keep && chain.reduce == Some(ReduceOp::Sum);
                    let out = if sum { std::ptr::null_mut() } else { self.temp(to) };
                    let from = self.pointer(a);
                    let value = metile_simd::chain::chain(level, chain, from, b, c, out, n);
                    return reduction.map(|reduction| (reduction, value));
                }
                Step::Reduce { reduction, value } => {
                    let op = self.pass.reductions[usize::from(reduction)].op;
                    return Some((reduction, reduce::whole(level, op, self.pointer(value), n)));
                }
                Step::Fill { dtype, reg, to } => {
                    simd::fill(dtype.bytes(), machine.reg(reg), self.temp(to), CHUNK);
                }
                Step::Load { access, to } => {
                    let dtype = self.pass.accesses[usize::from(access)].dtype;
                    self.copy(dtype, self.accesses[usize::from(access)], self.temp(to));
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
                Step::SelectIndex { dtype, op, ref x, ref y, a, b, to } => {
                    let inner = self.pass.shape.rank() - 1;
                    // One choice for the whole row, as was seen before.
                    let first = by_position::choice(&machine.program.regs, (op, x, y), inner, 1);
                    let chosen = if first == Some(true) { a } else { b };
                    match chosen {
                        Source::Reg(reg) => {
                            simd::fill(dtype.bytes(), machine.reg(reg), self.temp(to), n);
                        }
                        other => self.copy(dtype, self.pointer(other), self.temp(to)),
                    }
                }
                Step::Store { access, value } => {
                    let dtype = self.pass.accesses[usize::from(access)].dtype;
                    self.copy(dtype, self.pointer(value), self.accesses[usize::from(access)]);
                }
                // `is_plain` leaves nothing else.
                _ => {}
            }
        }
        None
    }

    /// # Safety
    /// Both hold the row's elements.
    unsafe fn copy(&self, dtype: DType, from: *const u8, to: *mut u8) {
        if from != to.cast_const() {
            // SAFETY: as the caller promises.
            unsafe { simd::copy(dtype.bytes(), from, to, self.n) };
        }
    }
}
