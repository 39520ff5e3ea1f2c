//! Running programs: an explicit stack of regions, so that a program can be put aside and resumed.

use super::memory::{self, Access};
use super::order::Order;
use super::races::{Knowledge, Races};
use super::report::{self, Warnings};
use super::value::{Tile, Value, View};
use super::{Buffer, Failure, Options, Outcome, combine, elementwise, shape};
use crate::diagnostic::Diagnostic;
use crate::dtype::PackedFormat;
use crate::scalar::Scalar;
use crate::tile::{BinaryOp, Kernel, Op, OpId, OpKind, RegionId, TileType, Value as ValueId};
use std::collections::HashMap;
use std::rc::Rc;

/// A launch under way.
pub(super) struct Launch<'k, 'b> {
    pub kernel: &'k Kernel,
    pub options: &'k Options,
    grid: [u64; 3],
    pub buffers: &'k mut [Buffer<'b>],
    pub warnings: Warnings,
    pub races: Races,
    pub printed: Vec<String>,
    steps: u64,
    /// What was released into each counter, by buffer and byte.
    pub released: HashMap<(usize, usize), Knowledge>,
    /// The packed block decoded last.
    pub block: DecodedBlock,
}

/// A packed block that was just decoded; neighbours are usually read next.
#[derive(Default)]
pub(super) struct DecodedBlock {
    key: Option<(PackedFormat, Vec<(usize, usize)>)>,
    values: Vec<f32>,
}

impl DecodedBlock {
    /// The elements of the block of `format` whose arrays begin at these buffers and bytes, if it is
    /// the one remembered. All of them count: two tensors may share integers and not scales, or
    /// read the same bytes as two formats.
    pub fn get(&self, format: PackedFormat, arrays: &[(usize, usize)]) -> Option<&[f32]> {
        let (known, places) = self.key.as_ref()?;
        (*known == format && places == arrays).then_some(self.values.as_slice())
    }
    pub fn set(&mut self, format: PackedFormat, arrays: Vec<(usize, usize)>, values: Vec<f32>) {
        *self = DecodedBlock { key: Some((format, arrays)), values };
    }
    /// To be called when memory changes.
    pub fn forget(&mut self) {
        self.key = None;
    }
}

/// A program: its position, its values, and the regions it is in.
pub(super) struct Program {
    pub number: u64,
    pub id: [u64; 3],
    pub values: Vec<Option<Value>>,
    pub frames: Vec<Frame>,
    /// `CounterAdd`s done since the last grid barrier.
    pub releases: u64,
    pub knows: Knowledge,
}

/// A region under way.
pub(super) struct Frame {
    pub region: RegionId,
    pub next: usize,
    /// The loop or branch that the region belongs to.
    pub owner: Option<OpId>,
    /// Where a `For` is.
    pub index: i64,
}

/// Why a program stopped for now.
pub(super) enum Pause {
    Ended,
    Barrier(OpId),
    Counter(OpId),
}

type Step = Result<Option<Pause>, Failure>;

impl<'k, 'b> Launch<'k, 'b> {
    pub fn new(
        kernel: &'k Kernel,
        options: &'k Options,
        grid: [u64; 3],
        buffers: &'k mut [Buffer<'b>],
    ) -> Self {
        Launch {
            kernel,
            options,
            grid,
            buffers,
            warnings: Warnings::default(),
            races: Races::new(kernel.persistent),
            printed: Vec::new(),
            steps: 0,
            released: HashMap::new(),
            block: DecodedBlock::default(),
        }
    }

    /// Where program `number` is in the grid.
    pub fn program_id(&self, number: u64) -> [u64; 3] {
        let [x, y, _] = self.grid;
        [number % x, number / x % y, number / x / y]
    }

    pub fn program(&self, number: u64, arguments: &[Value]) -> Program {
        let mut values = vec![None; self.kernel.values.len()];
        for (&parameter, value) in self.kernel.parameters.iter().zip(arguments) {
            values[parameter.index()] = Some(value.clone());
        }
        let body = Frame { region: self.kernel.body, next: 0, owner: None, index: 0 };
        Program {
            number,
            id: self.program_id(number),
            values,
            frames: vec![body],
            releases: 0,
            knows: Knowledge::default(),
        }
    }

    pub fn run(mut self, programs: u64, arguments: &[Value]) -> Result<Outcome, Failure> {
        if self.kernel.persistent {
            self.run_together(programs, arguments)?;
        } else {
            let order = Order::new(programs, self.options.order_seed);
            for n in 0..programs {
                let mut program = self.program(order.at(n), arguments);
                self.resume(&mut program)?;
            }
        }
        Ok(Outcome { warnings: self.warnings.found, printed: self.printed, steps: self.steps })
    }

    /// Runs the program until it ends or waits.
    pub fn resume(&mut self, program: &mut Program) -> Result<Pause, Failure> {
        loop {
            let Some(frame) = program.frames.last_mut() else { return Ok(Pause::Ended) };
            let id = self.kernel.regions[frame.region].ops[frame.next];
            frame.next += 1;
            self.steps += 1;
            if self.options.step_limit.is_some_and(|limit| self.steps > limit) {
                return Err(Failure::StepLimit(self.steps - 1));
            }
            if let Some(pause) = self.step(program, id)? {
                return Ok(pause);
            }
        }
    }

    fn step(&mut self, program: &mut Program, id: OpId) -> Step {
        let op = &self.kernel.ops[id];
        match op.kind {
            OpKind::For | OpKind::While | OpKind::If => self.enter(program, id, op),
            OpKind::Yield => self.leave(program, op),
            OpKind::Condition => self.condition(program, op),
            OpKind::Return => {
                program.frames.clear();
            }
            OpKind::GridBarrier => return Ok(Some(Pause::Barrier(id))),
            OpKind::CounterAdd => self.counter_add(program, op),
            OpKind::CounterWait => {
                if !self.reached(program, id) {
                    // Run again when the counter is high enough.
                    if let Some(frame) = program.frames.last_mut() {
                        frame.next -= 1;
                    }
                    return Ok(Some(Pause::Counter(id)));
                }
                self.acquire(program, op);
            }
            OpKind::Assert { ref message } => self.assert(program, id, op, message)?,
            OpKind::Print { ref format } => self.print(program, op, format),
            _ => {
                if let Some(value) = self.value(program, id, op) {
                    program.set(op.results[0], value);
                }
            }
        }
        Ok(None)
    }

    fn value(&mut self, program: &Program, id: OpId, op: &Op) -> Option<Value> {
        let result = op.results.first().and_then(|&v| self.kernel.ty(v).tile());
        let tile = |n: usize| program.tile(op.operands[n]);
        let computed = match &op.kind {
            OpKind::ProgramId(axis) => i64_tile(program.id[*axis as usize] as i64),
            OpKind::NumPrograms(axis) => i64_tile(self.grid[*axis as usize] as i64),
            OpKind::Constant(scalar) => Tile::splat(result?, *scalar),
            OpKind::Arange => {
                let n = result?.shape.elements() as u64;
                Tile { ty: result?, bits: (0..n).collect() }
            }
            OpKind::Unary(unary) => elementwise::unary(*unary, &tile(0)),
            OpKind::Binary(binary) => {
                self.check_division(program, id, *binary, &tile(0), &tile(1));
                elementwise::binary(*binary, &tile(0), &tile(1))
            }
            OpKind::Compare(compare) => elementwise::compare(*compare, &tile(0), &tile(1)),
            OpKind::Select => elementwise::select(&tile(0), &tile(1), &tile(2)),
            OpKind::Fma => elementwise::fma(&tile(0), &tile(1), &tile(2)),
            OpKind::Cast => elementwise::cast(&tile(0), result?),
            OpKind::Bitcast => elementwise::bitcast(&tile(0), result?),
            OpKind::Broadcast => shape::broadcast(&tile(0), result?),
            OpKind::Reshape => shape::reshape(&tile(0), result?),
            OpKind::Transpose(axes) => shape::transpose(&tile(0), axes, result?),
            OpKind::Slice { axis, start, step } => {
                shape::slice(&tile(0), *axis as usize, *start as usize, *step as usize, result?)
            }
            OpKind::Cat { axis } => {
                let parts: Vec<Rc<Tile>> = op.operands.iter().map(|&v| program.tile(v)).collect();
                let parts: Vec<&Tile> = parts.iter().map(Rc::as_ref).collect();
                shape::cat(&parts, *axis as usize, result?)
            }
            OpKind::Gather { axis } => shape::gather(&tile(0), &tile(1), *axis as usize),
            OpKind::Reduce { op: reduce, axis } => {
                combine::reduce(*reduce, *axis as usize, &tile(0), result?)
            }
            OpKind::Scan { op: scan, axis } => combine::scan(*scan, *axis as usize, &tile(0)),
            OpKind::Dot { transpose_a, transpose_b } => {
                combine::dot(&tile(0), &tile(1), &tile(2), *transpose_a, *transpose_b)
            }
            _ => return self.memory(program, id, op, result),
        };
        Some(Value::Tile(Rc::new(computed)))
    }

    fn memory(
        &mut self,
        program: &Program,
        id: OpId,
        op: &Op,
        result: Option<TileType>,
    ) -> Option<Value> {
        let int = |n: usize| program.int(op.operands[n]);
        if let OpKind::ListItem = op.kind {
            return Some(Value::View(Rc::new(program.list_item(op.operands[0], int(1))?)));
        }
        let view = program.view(op.operands[0])?;
        let rank = view.shape.len();
        let coordinates: Vec<Rc<Tile>> =
            op.operands.iter().skip(1).take(rank).filter_map(|&v| program.try_tile(v)).collect();
        let rest = |n: usize| program.tile(op.operands[1 + rank + n]);
        let what = match op.kind {
            OpKind::Load { .. } | OpKind::LoadTile => "reads",
            OpKind::Store { .. } | OpKind::StoreTile => "writes",
            _ => "updates",
        };
        let access = Access { op: id, view: &view, what };
        let tile = match op.kind {
            OpKind::Dim { axis } => i64_tile(view.shape[axis as usize] as i64),
            OpKind::Narrow { axis } => {
                let narrowed = memory::narrow(&view, axis as usize, int(1), int(2));
                return Some(Value::View(Rc::new(narrowed)));
            }
            OpKind::Pick { axis } => {
                return Some(Value::View(Rc::new(memory::pick(&view, axis as usize, int(1)))));
            }
            OpKind::Load { masked } => {
                let (mask, fill) = (masked.then(|| rest(0)), rest(usize::from(masked)));
                self.load(program, &access, &coordinates, mask.as_deref(), &fill)
            }
            OpKind::LoadTile => self.load_tile(program, &access, &coordinates, &rest(0), result?),
            OpKind::Store { masked } => {
                let (mask, value) = (masked.then(|| rest(0)), rest(usize::from(masked)));
                self.store(program, &access, &coordinates, mask.as_deref(), &value);
                return None;
            }
            OpKind::StoreTile => {
                self.store_tile(program, &access, &coordinates, &rest(0));
                return None;
            }
            OpKind::AtomicRmw(atomic) => {
                let value = rest(0);
                let new = |n: usize, old| memory::atomic_value(atomic, old, value.get(n));
                self.atomic(program, &access, &coordinates, new)
            }
            OpKind::AtomicCas => {
                let (expected, value) = (rest(0), rest(1));
                let new = |n: usize, old| (old == expected.get(n)).then(|| value.get(n));
                self.atomic(program, &access, &coordinates, new)
            }
            _ => return None,
        };
        Some(Value::Tile(Rc::new(tile)))
    }

    fn check_division(&mut self, program: &Program, id: OpId, op: BinaryOp, a: &Tile, b: &Tile) {
        let watched = self.options.warn_division
            && self.warnings.is_new(id, "division", self.options.max_warnings);
        if !watched {
            return;
        }
        let Some(lane) = elementwise::odd_division(op, a, b) else { return };
        let sign = if op == BinaryOp::Div { "/" } else { "%" };
        let defined =
            if op == BinaryOp::Div { "x / 0 is 0, MIN / -1 is MIN" } else { "x % 0 is x" };
        let message = format!(
            "{} computes {} {sign} {} (lane {lane})",
            report::program(program.id),
            a.get(lane),
            b.get(lane)
        );
        let warning = Diagnostic::warning(message)
            .at(self.kernel.ops[id].span)
            .in_kernel(&self.kernel.name)
            .label(defined);
        self.warnings.add(id, "division", warning);
    }
}

impl Program {
    pub fn set(&mut self, id: ValueId, value: Value) {
        self.values[id.index()] = Some(value);
    }

    fn try_tile(&self, id: ValueId) -> Option<Rc<Tile>> {
        match &self.values[id.index()] {
            Some(Value::Tile(tile)) => Some(tile.clone()),
            _ => None,
        }
    }

    /// The tile `id`. The verifier made sure that there is one; an empty scalar stands in otherwise.
    pub fn tile(&self, id: ValueId) -> Rc<Tile> {
        self.try_tile(id).unwrap_or_else(|| Rc::new(Tile::scalar(Scalar::i64(0))))
    }

    pub fn int(&self, id: ValueId) -> i64 {
        self.tile(id).get(0).as_int().and_then(|v| i64::try_from(v).ok()).unwrap_or(0)
    }

    pub fn view(&self, id: ValueId) -> Option<Rc<View>> {
        match &self.values[id.index()] {
            Some(Value::View(view)) => Some(view.clone()),
            _ => None,
        }
    }

    /// Tensor `index` of a list; an empty view outside; `None` for an empty list's tensor, which has
    /// no type of its own to be empty of.
    fn list_item(&self, id: ValueId, index: i64) -> Option<View> {
        let Some(Value::List(items)) = &self.values[id.index()] else { return None };
        let found = usize::try_from(index).ok().and_then(|n| items.get(n)).cloned();
        found.or_else(|| items.first().map(|first| first.empty(first.shape.len())))
    }
}

pub(super) fn i64_tile(value: i64) -> Tile {
    Tile::scalar(Scalar::i64(value))
}
