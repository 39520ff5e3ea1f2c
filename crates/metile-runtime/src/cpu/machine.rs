//! Running one program of the CPU form.

use super::launch::Launch;
use super::route::Route;
use super::scalar::scalar;
use super::view::{Block, View, write_bits};
use super::{dot, pass, tile};
use metile_compiler::cpu::{CHUNK, Carrier, CounterOp, Form, Instr, Reg, SlotId};
use metile_ir::Span;
use metile_ir::dtype::DType;
use metile_ir::interp::{self, Failure};
use metile_ir::tile::TileType;
use metile_simd::Level;
use metile_simd::matrix::Scratch as Panels;
use metile_simd::reduce::Running;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of one chunk: the widest dtype, and a line so that chunks do not all begin at the same place
/// of a page.
pub(super) const CHUNK_BYTES: usize = CHUNK * 8 + 64;

/// A cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Bytes aligned to a cache line that only grow.
#[derive(Default)]
pub(super) struct Bytes(Vec<Line>);

impl Bytes {
    pub fn grow(&mut self, bytes: usize) -> *mut u8 {
        let lines = bytes.div_ceil(64).max(1);
        if self.0.len() < lines {
            self.0.resize(lines, Line([0; 64]));
        }
        self.0.as_mut_ptr().cast()
    }
}

/// The values of a program.
#[derive(Default)]
pub(super) struct Program {
    /// Its number in the grid.
    pub number: u64,
    pub regs: Vec<u64>,
    pub views: Vec<View>,
    pub scratch: Bytes,
    pub next: usize,
}

/// Why a program stopped for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    Ended,
    Barrier,
    Counter,
}

/// What a worker keeps from program to program and launch to launch.
pub(super) struct Worker {
    pub level: Level,
    pub program: Program,
    pub chunks: Bytes,
    pub panels: Panels,
    pub block: Block,
    /// Routes over views that a program itself made.
    pub routes: Vec<Route>,
    pub running: Vec<Running>,
    /// Where the row began that each operand of each pass was at last, and how far that was from the
    /// row before.
    pub last: Vec<(*const u8, isize)>,
    /// Operands of products that lie in no form these take.
    pub copies: [Vec<f32>; 2],
    pub bytes: [Vec<i8>; 2],
}

impl Worker {
    pub fn new() -> Worker {
        Worker {
            level: Level::detect(),
            program: Program::default(),
            chunks: Bytes::default(),
            panels: Panels::new(),
            block: Block::default(),
            routes: Vec::new(),
            running: Vec::new(),
            last: Vec::new(),
            copies: [Vec::new(), Vec::new()],
            bytes: [Vec::new(), Vec::new()],
        }
    }
}

/// A program under way on a worker.
pub(super) struct Machine<'m> {
    pub launch: &'m Launch<'m>,
    pub form: &'m Form,
    pub worker: &'m mut Worker,
    pub program: &'m mut Program,
    /// First byte of the program's scratch memory.
    pub scratch: *mut u8,
    /// Whether anything but a wait was done since the program was resumed.
    pub moved: bool,
}

impl<'m> Machine<'m> {
    pub fn new(launch: &'m Launch<'m>, worker: &'m mut Worker, program: &'m mut Program) -> Self {
        let form = launch.form();
        let scratch = program.scratch.grow(form.scratch_bytes);
        Machine { launch, form, worker, program, scratch, moved: false }
    }

    /// Registers and views as arguments left them.
    pub fn copy_bound(&mut self) {
        let bound = self.launch.bound;
        self.program.regs.clear();
        self.program.regs.extend_from_slice(&bound.regs);
        self.program.views.clear();
        self.program.views.extend_from_slice(&bound.views);
    }

    /// The launch's own values, and what follows for every program from what tensors hold now.
    ///
    /// # Errors
    /// If an assertion about them fails.
    pub fn begin(&mut self) -> Result<(), Failure> {
        self.copy_bound();
        if self.launch.bound.refused {
            self.once(&self.form.binding)?;
        }
        self.worker.block.forget();
        self.worker.last.clear();
        self.worker.last.resize(self.form.accesses, (std::ptr::null(), 0));
        self.once(&self.form.prologue)
    }

    /// Runs what is done once, for all programs.
    ///
    /// # Errors
    /// If an assertion fails.
    pub fn once(&mut self, instrs: &[Instr]) -> Result<(), Failure> {
        for instr in instrs {
            match instr {
                Instr::Assert { value, message, span } => self.assert(value, message, *span)?,
                // Nothing else there waits or fails.
                other => self.step(other),
            }
        }
        Ok(())
    }

    fn assert(&self, value: &Carrier, message: &str, span: Option<Span>) -> Result<(), Failure> {
        let lane = match *value {
            Carrier::Reg(reg, _) => (self.reg(reg) == 0).then_some(0),
            Carrier::Slot(..) => self.carried(value).1.iter().position(|&b| b == 0),
        };
        let Some(lane) = lane else { return Ok(()) };
        let id = [0, 1, 2].map(|axis| self.program.regs[axis]);
        Err(interp::assertion_failure(id, lane, message, (span, self.form.name.as_str())))
    }

    /// Puts the program at its start.
    pub fn start(&mut self, number: u64) {
        let [x, y, _] = self.launch.bound.grid;
        self.program.number = number;
        self.program.next = 0;
        let position = if number < x {
            // Most grids are a line, and divisions take long.
            [number, 0, 0]
        } else {
            [number % x, number / x % y, number / x / y]
        };
        self.program.regs[..3].copy_from_slice(&position);
    }

    /// Runs until the program ends or waits.
    ///
    /// # Errors
    /// If an assertion fails.
    pub fn run(&mut self) -> Result<Pause, Failure> {
        let form = self.form;
        loop {
            let instr = &form.code[self.program.next];
            self.program.next += 1;
            match instr {
                Instr::Jump(to) => self.program.next = *to,
                Instr::JumpUnless(reg, to) => {
                    if self.reg(*reg) == 0 {
                        self.program.next = *to;
                    }
                }
                Instr::ForStart { index, low, high, exit } => {
                    let low = self.reg(*low);
                    self.set(*index, low);
                    if low as i64 >= self.reg(*high) as i64 {
                        self.program.next = *exit;
                    }
                }
                Instr::ForEnd { index, high, step, body } => {
                    let step = (self.reg(*step) as i64).max(1);
                    let next = (self.reg(*index) as i64).checked_add(step);
                    if let Some(next) = next
                        && next < self.reg(*high) as i64
                    {
                        self.set(*index, next as u64);
                        self.program.next = *body;
                    }
                }
                Instr::Counter { op: CounterOp::Add, view, index, n, .. } => {
                    if let Some(counter) = self.counter(*view, *index) {
                        counter.fetch_add(self.reg(*n) as u32, Ordering::AcqRel);
                    }
                    self.moved = true;
                }
                Instr::Counter { op: CounterOp::Wait, view, index, n, .. } => {
                    let wanted = self.reg(*n) as u32;
                    let reached = self
                        .counter(*view, *index)
                        .is_none_or(|c| c.load(Ordering::Acquire) >= wanted);
                    if !reached {
                        self.program.next -= 1;
                        return Ok(Pause::Counter);
                    }
                    self.moved = true;
                }
                Instr::Barrier { .. } => return Ok(Pause::Barrier),
                Instr::Assert { value, message, span } => self.assert(value, message, *span)?,
                Instr::Print { values, format } => {
                    let values = values.iter().map(|value| {
                        let (ty, bits) = self.carried(value);
                        interp::show(ty, &bits)
                    });
                    let line = interp::printed_line(format, values);
                    self.launch.print(self.program.number, line);
                }
                Instr::End => return Ok(Pause::Ended),
                other => {
                    self.moved = true;
                    self.step(other);
                }
            }
        }
    }

    pub fn reg(&self, reg: Reg) -> u64 {
        self.program.regs[reg as usize]
    }
    pub fn set(&mut self, reg: Reg, bits: u64) {
        self.program.regs[reg as usize] = bits;
    }
    /// The first byte of a slot.
    pub fn slot(&self, slot: SlotId) -> *mut u8 {
        self.scratch.wrapping_add(self.form.slots[slot as usize].0)
    }

    /// An instruction that goes on to the next.
    fn step(&mut self, instr: &Instr) {
        match instr {
            Instr::Scalar { op, a, b, c, to } => {
                let bits = scalar(*op, self.reg(*a), self.reg(*b), self.reg(*c));
                self.set(*to, bits);
            }
            Instr::Dim { view, axis, to } => {
                let extent = self.program.views[*view as usize].shape[*axis as usize];
                self.set(*to, extent as u64);
            }
            Instr::View { op, from, to } => {
                let format = self.form.views[*from as usize].format;
                let view =
                    self.program.views[*from as usize].apply(*op, format, &self.program.regs);
                self.program.views[*to as usize] = view;
            }
            Instr::ListItem { list, index, to } => {
                let items = &self.launch.bound.lists[*list as usize];
                let found = usize::try_from(self.reg(*index)).ok().and_then(|n| items.get(n));
                let rank = items.first().map_or(1, |first| first.rank);
                let view = found.copied().unwrap_or(View { rank, ..View::none() });
                self.program.views[*to as usize] = view;
            }
            Instr::LoadScalar { view, format, at, coordinates, mask, fill, to } => {
                let wanted = mask.is_none_or(|m| self.reg(m) != 0);
                let found = wanted.then(|| self.index(at, coordinates)).flatten().and_then(|at| {
                    let view = &self.program.views[*view as usize];
                    view.read(*format, &at[..coordinates.len()], &mut self.worker.block)
                });
                let bits = found.unwrap_or_else(|| self.reg(*fill));
                self.set(*to, bits);
            }
            Instr::StoreScalar { view, dtype, at, coordinates, mask, value } => {
                let wanted = mask.is_none_or(|m| self.reg(m) != 0);
                let place = wanted.then(|| self.index(at, coordinates)).flatten().and_then(|at| {
                    self.program.views[*view as usize].place(*dtype, &at[..coordinates.len()])
                });
                if let Some(place) = place {
                    // SAFETY: an index within the shape lies in memory that the launch holds.
                    unsafe { write_bits(place, dtype.bytes(), self.reg(*value)) };
                }
            }
            Instr::LoadSlot { slot, dtype, to } => {
                // SAFETY: a slot has at least one element.
                let bits = unsafe { super::view::read_bits(self.slot(*slot), dtype.bytes()) };
                self.set(*to, bits);
            }
            Instr::Pass(pass) => pass::run(self, pass),
            Instr::Dot(product) => dot::run(self, product),
            Instr::Tile(op) => tile::run(self, op),
            // These decide what comes next: `run` deals with them.
            Instr::Jump(_)
            | Instr::JumpUnless(..)
            | Instr::ForStart { .. }
            | Instr::ForEnd { .. }
            | Instr::Counter { .. }
            | Instr::Barrier { .. }
            | Instr::Assert { .. }
            | Instr::Print { .. }
            | Instr::End => {}
        }
    }

    /// Scalar coordinates; `None` where one does not fit an `i64`, which is outside of any tensor.
    fn index(&self, at: &[Reg], dtypes: &[DType]) -> Option<[i64; 4]> {
        let mut index = [0; 4];
        for (axis, (&reg, &dtype)) in at.iter().zip(dtypes).enumerate() {
            index[axis] = coordinate(self.reg(reg), dtype)?;
        }
        Some(index)
    }

    /// The type and elements of a value outside of passes.
    pub fn carried(&self, value: &Carrier) -> (TileType, Vec<u64>) {
        match *value {
            Carrier::Reg(reg, dtype) => (TileType::scalar(dtype), vec![self.reg(reg)]),
            Carrier::Slot(slot, dtype, shape) => {
                let (first, bytes) = (self.slot(slot), dtype.bytes());
                let read = |n: usize| {
                    // SAFETY: the slot has the shape's elements.
                    unsafe { super::view::read_bits(first.wrapping_add(n * bytes), bytes) }
                };
                (TileType::new(dtype, shape), (0..shape.elements()).map(read).collect())
            }
        }
    }

    /// A counter, if there is such a counter.
    fn counter(&self, view: u32, index: Reg) -> Option<&AtomicU32> {
        let place = self.program.views[view as usize]
            .place(DType::U32, &[self.reg(index) as i64])?
            .cast::<u32>();
        if !place.is_aligned() {
            return None;
        }
        // SAFETY: a counter within the shape, aligned, reached by atomic operations only.
        Some(unsafe { AtomicU32::from_ptr(place) })
    }
}

/// The value of a coordinate; `None` beyond `i64`.
pub(super) fn coordinate(bits: u64, dtype: DType) -> Option<i64> {
    match dtype {
        DType::I64 => Some(bits as i64),
        DType::I32 => Some(i64::from(bits as u32 as i32)),
        DType::I16 => Some(i64::from(bits as u16 as i16)),
        DType::I8 => Some(i64::from(bits as u8 as i8)),
        DType::U64 => i64::try_from(bits).ok(),
        _ => Some(bits as i64),
    }
}
