//! Running programs: an explicit stack of regions, so that a program can be put aside and resumed.

use super::memory::{self, Access};
use super::races::{Knowledge, Races};
use super::report::{self, Warnings};
use super::value::{Tile, Value, View};
use super::{Buffer, Failure, Options, Outcome, combine, elementwise, shape};
use crate::diagnostic::Diagnostic;
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
    printed: Vec<String>,
    steps: u64,
    /// What was released into each counter, by buffer and byte.
    released: HashMap<(usize, i64), Knowledge>,
    /// The packed block decoded last.
    pub block: DecodedBlock,
}

/// A packed block that was just decoded; neighbours are usually read next.
#[derive(Default)]
pub(super) struct DecodedBlock {
    pub key: Option<(usize, usize)>,
    pub values: Vec<f32>,
}

/// A program: its position, its values, and the regions it is in.
pub(super) struct Program {
    pub number: u64,
    pub id: [u64; 3],
    values: Vec<Option<Value>>,
    frames: Vec<Frame>,
    pub epoch: u64,
    pub releases: u64,
    pub knows: Knowledge,
}

/// A region under way.
struct Frame {
    region: RegionId,
    next: usize,
    /// The loop or branch that the region belongs to.
    owner: Option<OpId>,
    /// Where a `For` is.
    index: i64,
}

/// Why a program stopped for now.
enum Pause {
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
            races: Races::default(),
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

    fn program(&self, number: u64, arguments: &[Value]) -> Program {
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
            epoch: 0,
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

    /// All programs at once: each runs until it waits.
    fn run_together(&mut self, programs: u64, arguments: &[Value]) -> Result<(), Failure> {
        let order = Order::new(programs, self.options.order_seed);
        let mut ready: Vec<Program> =
            (0..programs).map(|n| self.program(order.at(n), arguments)).collect();
        let (mut at_barrier, mut ended) = (Vec::new(), 0u64);
        let mut waiting: Vec<(Program, OpId)> = Vec::new();
        while !ready.is_empty() {
            for mut program in std::mem::take(&mut ready) {
                match self.resume(&mut program)? {
                    Pause::Ended => ended += 1,
                    Pause::Barrier(op) => at_barrier.push((program, op)),
                    Pause::Counter(op) => waiting.push((program, op)),
                }
            }
            let (go, stay): (Vec<_>, Vec<_>) =
                waiting.into_iter().partition(|(program, op)| self.reached(program, *op));
            waiting = stay;
            ready.extend(go.into_iter().map(|(program, _)| program));
            if ready.is_empty() && waiting.is_empty() && at_barrier.len() as u64 == programs {
                ready.extend(at_barrier.drain(..).map(|(mut program, _)| {
                    program.epoch += 1;
                    program.releases = 0;
                    program.knows.clear();
                    program
                }));
                self.released.clear();
            }
        }
        match (waiting.first(), at_barrier.first()) {
            (None, None) => Ok(()),
            (Some((program, op)), _) => Err(self.deadlock(
                program,
                *op,
                "waits for a counter that nobody raises any more",
                "every `wait` needs as many `add`s by other programs",
            )),
            (None, Some((program, op))) => {
                let message = format!("waits at a grid barrier that {ended} of {programs} programs never reach");
                let hint = "every program of the grid passes every barrier: move it out of branches and loops that programs leave at different times";
                Err(self.deadlock(program, *op, &message, hint))
            }
        }
    }

    fn deadlock(&self, program: &Program, op: OpId, message: &str, hint: &str) -> Failure {
        let message = format!("{} {message}", report::program(program.id));
        Failure::Deadlock(Box::new(
            Diagnostic::error(message)
                .at(self.kernel.ops[op].span)
                .in_kernel(&self.kernel.name)
                .hint(hint),
        ))
    }

    /// Runs the program until it ends or waits.
    fn resume(&mut self, program: &mut Program) -> Result<Pause, Failure> {
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
        let coordinates: Vec<Rc<Tile>> = op
            .operands
            .iter()
            .skip(1)
            .take(rank)
            .filter_map(|&v| program.try_tile(v))
            .collect();
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
        let defined = if op == BinaryOp::Div { "x / 0 is 0, MIN / -1 is MIN" } else { "x % 0 is x" };
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

    fn assert(&self, program: &Program, id: OpId, op: &Op, message: &str) -> Result<(), Failure> {
        let condition = program.tile(op.operands[0]);
        let Some(lane) = condition.bits.iter().position(|&b| b == 0) else { return Ok(()) };
        let message = format!("assertion failed in {} (lane {lane}): {message}", report::program(program.id));
        let error = Diagnostic::error(message)
            .at(self.kernel.ops[id].span)
            .in_kernel(&self.kernel.name);
        Err(Failure::Assertion(Box::new(error)))
    }

    fn print(&mut self, program: &Program, op: &Op, format: &str) {
        let mut text = String::new();
        let mut values = op.operands.iter();
        for (n, piece) in format.split("{}").enumerate() {
            if n > 0
                && let Some(&value) = values.next()
            {
                text.push_str(&shown(&program.tile(value)));
            }
            text.push_str(piece);
        }
        self.printed.push(text);
    }

    fn enter(&mut self, program: &mut Program, id: OpId, op: &Op) {
        match op.kind {
            OpKind::For => {
                let low = program.int(op.operands[0]);
                self.iterate(program, id, low, op.operands[3..].to_vec());
            }
            OpKind::While => {
                program.push(self.kernel, op.regions[0], id, 0, &op.operands);
            }
            _ => {
                let taken = usize::from(!program.tile(op.operands[0]).truth());
                program.push(self.kernel, op.regions[taken], id, 0, &[]);
            }
        }
    }

    /// One round of a `For` at `index`, or its end.
    fn iterate(&mut self, program: &mut Program, id: OpId, index: i64, carried: Vec<ValueId>) {
        let op = &self.kernel.ops[id];
        if index >= program.int(op.operands[1]) {
            return program.assign(&op.results, &carried);
        }
        let region = op.regions[0];
        program.push_with(self.kernel, region, id, index, &carried);
    }

    fn leave(&mut self, program: &mut Program, terminator: &Op) {
        let Some(frame) = program.frames.pop() else { return };
        let Some(owner) = frame.owner else { return };
        let op = &self.kernel.ops[owner];
        match op.kind {
            OpKind::For => {
                let step = program.int(op.operands[2]).max(1);
                match frame.index.checked_add(step) {
                    Some(next) => self.iterate(program, owner, next, terminator.operands.clone()),
                    None => program.assign(&op.results, &terminator.operands),
                }
            }
            OpKind::While => {
                program.push(self.kernel, op.regions[0], owner, 0, &terminator.operands);
            }
            _ => program.assign(&op.results, &terminator.operands),
        }
    }

    fn condition(&mut self, program: &mut Program, terminator: &Op) {
        let Some(frame) = program.frames.pop() else { return };
        let Some(owner) = frame.owner else { return };
        let op = &self.kernel.ops[owner];
        let carried = &terminator.operands[1..];
        if program.tile(terminator.operands[0]).truth() {
            program.push(self.kernel, op.regions[1], owner, 0, carried);
        } else {
            program.assign(&op.results, carried);
        }
    }

    /// The byte of the counter that `op` names, if there is such a counter.
    fn counter(&self, program: &Program, op: &Op) -> Option<(usize, i64)> {
        let view = program.view(op.operands[0])?;
        let index = program.int(op.operands[1]);
        if index < 0 || index as u64 >= *view.shape.first()? {
            return None;
        }
        Some((view.parts[0].buffer, view.parts[0].byte_offset + index * view.strides[0] * 4))
    }

    fn count(&self, (buffer, byte): (usize, i64)) -> u32 {
        let bytes = &self.buffers[buffer].bytes()[byte as usize..byte as usize + 4];
        u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }

    fn counter_add(&mut self, program: &mut Program, op: &Op) {
        let Some(counter) = self.counter(program, op) else { return };
        let n = program.tile(op.operands[2]).bits[0] as u32;
        let sum = self.count(counter).wrapping_add(n);
        if let Some(bytes) = self.buffers[counter.0].bytes_mut() {
            bytes[counter.1 as usize..counter.1 as usize + 4].copy_from_slice(&sum.to_le_bytes());
        }
        program.releases += 1;
        let released = self.released.entry(counter).or_default();
        released.join(&program.knows);
        released.set(program.number, program.releases);
    }

    /// Whether the program may pass the `CounterWait` `id`.
    fn reached(&self, program: &Program, id: OpId) -> bool {
        let op = &self.kernel.ops[id];
        let wanted = program.tile(op.operands[2]).bits[0] as u32;
        self.counter(program, op).is_none_or(|counter| self.count(counter) >= wanted)
    }

    fn acquire(&mut self, program: &mut Program, op: &Op) {
        let released = self.counter(program, op).and_then(|counter| self.released.get(&counter));
        if let Some(released) = released {
            program.knows.join(released);
        }
    }
}

impl Program {
    fn set(&mut self, id: ValueId, value: Value) {
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

    fn int(&self, id: ValueId) -> i64 {
        self.tile(id).get(0).as_int().and_then(|v| i64::try_from(v).ok()).unwrap_or(0)
    }

    fn view(&self, id: ValueId) -> Option<Rc<View>> {
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

    /// Gives `targets` the values of `sources`, all read before any is written.
    fn assign(&mut self, targets: &[ValueId], sources: &[ValueId]) {
        let values: Vec<Option<Value>> =
            sources.iter().map(|v| self.values[v.index()].clone()).collect();
        for (target, value) in targets.iter().zip(values) {
            self.values[target.index()] = value;
        }
    }

    fn push(
        &mut self,
        kernel: &Kernel,
        region: RegionId,
        owner: OpId,
        index: i64,
        carried: &[ValueId],
    ) {
        self.assign(&kernel.regions[region].arguments, carried);
        self.frames.push(Frame { region, next: 0, owner: Some(owner), index });
    }

    /// As [`push`](Self::push), with the index as the first argument.
    fn push_with(
        &mut self,
        kernel: &Kernel,
        region: RegionId,
        owner: OpId,
        index: i64,
        carried: &[ValueId],
    ) {
        let arguments = &kernel.regions[region].arguments;
        self.assign(&arguments[1..], carried);
        self.set(arguments[0], Value::Tile(Rc::new(i64_tile(index))));
        self.frames.push(Frame { region, next: 0, owner: Some(owner), index });
    }
}

fn i64_tile(value: i64) -> Tile {
    Tile::scalar(Scalar::i64(value))
}

/// Elements of a tile that are printed.
const MAX_SHOWN: usize = 1024;

/// A scalar plainly, a tile in nested brackets.
fn shown(tile: &Tile) -> String {
    let sides = tile.ty.shape.sides();
    let mut text = String::new();
    for n in 0..tile.bits.len() {
        if n == MAX_SHOWN {
            text.push_str(", …");
            break;
        }
        let mut inner = 1;
        let opens = sides.iter().rev().filter(|&&side| {
            inner *= side;
            n % inner == 0
        });
        let opens = opens.count();
        if n > 0 {
            text.push_str(&"]".repeat(opens));
            text.push_str(", ");
        }
        text.push_str(&"[".repeat(opens));
        text.push_str(&tile.get(n).to_string());
    }
    text.push_str(&"]".repeat(sides.len()));
    text
}

/// The order in which programs run.
struct Order {
    programs: u64,
    factor: u64,
    offset: u64,
}

impl Order {
    fn new(programs: u64, seed: Option<u64>) -> Order {
        let Some(seed) = seed else { return Order { programs, factor: 1, offset: 0 } };
        let mixed = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31);
        // A factor coprime to the count makes the map a permutation.
        let gcd = |mut a: u64, mut b: u64| {
            while b > 0 {
                (a, b) = (b, a % b);
            }
            a
        };
        let mut factor = mixed % programs.max(1);
        while gcd(factor.max(1), programs) != 1 || factor == 0 {
            factor += 1;
        }
        Order { programs, factor, offset: (mixed >> 32) % programs.max(1) }
    }

    fn at(&self, n: u64) -> u64 {
        // Below 2^31 each, so the product fits.
        (n * self.factor + self.offset) % self.programs
    }
}
