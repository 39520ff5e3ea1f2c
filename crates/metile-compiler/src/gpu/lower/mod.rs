//! From a planned kernel to its Device IR.

mod control;
mod dot;
mod elementwise;
mod exchange;
mod free;
mod memory;
mod packed;
mod reduce;
mod stage;
mod sync;
mod threads;
mod views;
mod warpgroup;

use super::class::Class;
use super::facts::Facts;
use super::layout::Layout;
use super::plan::{Plan, Traversal, plan};
use super::target::Target;
use metile_device::{Builder, PositionOp, Program, Shared, Type as DeviceType, Value as Dv, Word};
use metile_ir::diagnostic::Diagnostic;
use metile_ir::dtype::DType;
use metile_ir::scalar::Scalar;
use metile_ir::tile::{
    BinaryOp, Kernel, MAX_RANK, Op, OpId, OpKind, RegionId, Shape, TileType, Type, Value, Verified,
};
use stage::Staged;
use std::collections::{HashMap, HashSet};
use sync::Pending;
use views::View;

/// What a Tile IR value is in the program.
#[derive(Clone, Debug)]
enum Val {
    /// A scalar, the same in every thread.
    Scalar(Dv),
    /// A tile, as registers of its layout.
    Tile(Dv, Layout),
    /// Computed where it is used.
    Free,
    /// In shared memory, as warpgroups read it.
    Staged(Staged),
    /// A view.
    View(View),
    /// Parameter `n`, a list of tensors.
    List(u16),
}

/// What is found again within the block where it was computed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Known {
    /// A thread's part of a coordinate.
    Coordinate(Layout, usize),
    /// A free value in a layout.
    Free(Value, Layout),
    /// A constant.
    Constant(Scalar),
    /// The program's place on an axis.
    Program(u8),
    /// Where the thread is, or a word.
    Position(u32, u32),
    /// A tile in another layout than its own.
    Converted(Value, Layout),
    /// Where the units of a layout lie in swizzled rows.
    Swizzled(Layout, usize, usize),
}

struct Lowering<'k> {
    kernel: &'k Kernel,
    target: Target,
    classes: &'k [Class],
    plan: Plan,
    facts: Facts<'k>,
    b: Builder,
    values: HashMap<Value, Val>,
    known: Vec<HashMap<Known, Dv>>,
    words: HashMap<Word, u32>,
    /// Shared memory through which tiles change their layout.
    scratch: Option<Shared>,
    scratch_bytes: u32,
    /// Rings of loops that have ended.
    free_rings: Vec<Shared>,
    pending: Pending,
    /// Loads of the loops around that were begun an iteration ago.
    ahead: HashSet<OpId>,
    /// Products whose sums over threads wait for the end of their loop.
    deferred: HashSet<OpId>,
}

/// The Device IR of `kernel` for blocks of `target`, for launches whose arguments are of `classes`, one for each parameter.
///
/// # Errors
/// What the target can't do, at its line.
pub fn lower(
    kernel: &Verified,
    target: &Target,
    classes: &[Class],
) -> Result<Program, Box<Diagnostic>> {
    let kernel = kernel.kernel();
    let plan = plan(kernel, target, classes);
    let mut b = Builder::new(kernel.name.clone(), plan.warps);
    b.program.persistent = kernel.persistent;
    b.program.blocks_per_processor = plan.blocks;
    b.program.files.clone_from(&kernel.files);
    let mut lowering = Lowering {
        kernel,
        target: *target,
        classes,
        facts: Facts::new(kernel, classes),
        plan,
        b,
        values: HashMap::new(),
        known: vec![HashMap::new()],
        words: HashMap::new(),
        scratch: None,
        scratch_bytes: 0,
        free_rings: Vec::new(),
        pending: Pending::default(),
        ahead: HashSet::new(),
        deferred: HashSet::new(),
    };
    lowering.declare();
    lowering.parameters();
    lowering.region(kernel.body)?;
    if let Some(scratch) = lowering.scratch {
        lowering.b.program.shared[scratch].bytes = lowering.scratch_bytes;
    }
    Ok(lowering.b.finish())
}

impl<'k> Lowering<'k> {
    /// The words of a launch: the same for every kernel of the same parameters.
    fn declare(&mut self) {
        let mut words: Vec<Word> = (0..3).map(Word::GridExtent).collect();
        words.extend([Word::Report, Word::GridBarrier]);
        for (n, &parameter) in self.kernel.parameters.iter().enumerate() {
            views::declare(n as u16, self.kernel.ty(parameter), &mut words);
        }
        self.words = words.iter().enumerate().map(|(n, &word)| (word, n as u32)).collect();
        self.b.program.words = words;
    }

    fn word(&mut self, word: Word) -> Dv {
        let n = self.words.get(&word).copied().unwrap_or(0);
        self.position(PositionOp::Word(n))
    }

    fn position(&mut self, op: PositionOp) -> Dv {
        let key = match op {
            PositionOp::Block => (0, 0),
            PositionOp::Blocks => (1, 0),
            PositionOp::Thread => (2, 0),
            PositionOp::Lane => (3, 0),
            PositionOp::Warp => (4, 0),
            PositionOp::Word(n) => (5, n),
        };
        self.remember(Known::Position(key.0, key.1), |l| l.b.position(op))
    }

    fn constant(&mut self, scalar: Scalar) -> Dv {
        self.remember(Known::Constant(scalar), |l| l.b.constant(scalar))
    }
    fn int(&mut self, dtype: DType, v: i64) -> Dv {
        self.constant(Scalar::int(dtype, i128::from(v)))
    }
    fn i64(&mut self, v: i64) -> Dv {
        self.int(DType::I64, v)
    }

    /// What `key` stands for, computed if it is not known here yet.
    fn remember(&mut self, key: Known, make: impl FnOnce(&mut Self) -> Dv) -> Dv {
        if let Some(&known) = self.known.iter().rev().find_map(|scope| scope.get(&key)) {
            return known;
        }
        let made = make(self);
        if let Some(scope) = self.known.last_mut() {
            scope.insert(key, made);
        }
        made
    }

    fn refuse(&self, op: &Op, message: impl Into<String>) -> Box<Diagnostic> {
        Box::new(Diagnostic::error(message).at(op.span).in_kernel(&self.kernel.name))
    }

    fn tile_type(&self, value: Value) -> TileType {
        self.kernel.ty(value).tile().unwrap_or(TileType::scalar(DType::I64))
    }
    fn shape(&self, value: Value) -> Shape {
        self.tile_type(value).shape
    }
    fn dtype(&self, value: Value) -> DType {
        self.tile_type(value).dtype
    }
    fn is_scalar(&self, value: Value) -> bool {
        matches!(self.kernel.ty(value), Type::Tile(t) if t.shape.is_scalar())
    }

    /// The layout that the plan gives `value`.
    fn layout(&self, value: Value) -> Layout {
        self.plan.layouts.get(&value).cloned().unwrap_or_else(|| {
            let shape = self.shape(value);
            Layout::blocked(&shape, shape.rank().saturating_sub(1), 1, self.plan.warps)
        })
    }

    fn set(&mut self, value: Value, val: Val) {
        self.values.insert(value, val);
    }

    /// A scalar that threads found out each for itself, but alike.
    fn set_scalar(&mut self, value: Value, made: Dv) {
        let made = self.b.uniform(made);
        self.set(value, Val::Scalar(made));
    }

    /// A tile computed in some layout, moved to the one that the plan gives it.
    fn set_tile(&mut self, value: Value, made: Dv, layout: Layout) {
        let wanted = self.layout(value);
        let (dtype, shape) = (self.dtype(value), self.shape(value));
        let made = self.converted(made, dtype, &shape, &layout, &wanted);
        self.set(value, Val::Tile(made, wanted));
    }

    /// The scalar `value`.
    fn scalar(&mut self, value: Value) -> Dv {
        match self.values.get(&value) {
            Some(&Val::Scalar(v)) => v,
            _ => {
                // Every scalar was set when its operation was lowered.
                let zero = Scalar::zero(self.dtype(value));
                self.constant(zero)
            }
        }
    }

    /// The tile `value` in `layout`; one register may stand for all.
    fn tile(&mut self, value: Value, layout: &Layout) -> Dv {
        match self.values.get(&value) {
            Some(Val::Scalar(v)) => *v,
            Some(Val::Tile(v, own)) if own == layout => *v,
            Some(Val::Tile(v, own)) => {
                let (v, own) = (*v, own.clone());
                let (dtype, shape) = (self.dtype(value), self.shape(value));
                let key = Known::Converted(value, layout.clone());
                self.remember(key, |l| l.converted(v, dtype, &shape, &own, layout))
            }
            _ => self.free_tile(value, layout),
        }
    }

    /// The same with all registers of the layout.
    fn whole_tile(&mut self, value: Value, layout: &Layout) -> Dv {
        let tile = self.tile(value, layout);
        self.b.spread(tile, layout.count())
    }

    fn region(&mut self, region: RegionId) -> Result<(), Box<Diagnostic>> {
        let kernel = self.kernel;
        for &id in &kernel.regions[region].ops {
            let op = &kernel.ops[id];
            self.b.span = op.span;
            self.op(id, op)?;
        }
        Ok(())
    }

    fn op(&mut self, id: OpId, op: &'k Op) -> Result<(), Box<Diagnostic>> {
        let free = |l: &Self| op.results.first().is_some_and(|&r| l.plan.free[r.index()]);
        if free(self) {
            for &result in &op.results {
                self.set(result, Val::Free);
            }
            return Ok(());
        }
        match &op.kind {
            OpKind::ProgramId(_) | OpKind::NumPrograms(_) | OpKind::Constant(_) => self.grid(op),
            OpKind::Arange => {}
            OpKind::Unary(_)
            | OpKind::Binary(_)
            | OpKind::Compare(_)
            | OpKind::Select
            | OpKind::Fma
            | OpKind::Cast
            | OpKind::Bitcast => self.elementwise(op),
            OpKind::Broadcast
            | OpKind::Reshape
            | OpKind::Transpose(_)
            | OpKind::Slice { .. }
            | OpKind::Cat { .. }
            | OpKind::Gather { .. } => self.rearrange(op),
            OpKind::Reduce { op: kind, axis } => self.reduce(op, *kind, *axis as usize),
            OpKind::Scan { op: kind, axis } => self.scan(op, *kind, *axis as usize),
            OpKind::Dot { transpose_a, transpose_b } => {
                self.dot(id, op, (*transpose_a, *transpose_b));
            }
            OpKind::Dim { .. } | OpKind::Narrow { .. } | OpKind::Pick { .. } | OpKind::ListItem => {
                self.view_op(op);
            }
            OpKind::LoadTile if self.plan.staged.contains(&id) || self.ahead.contains(&id) => {}
            OpKind::Load { .. } | OpKind::LoadTile => self.load(op),
            OpKind::Store { .. } | OpKind::StoreTile => self.store(op),
            OpKind::AtomicRmw(_) | OpKind::AtomicCas => self.atomic(op)?,
            OpKind::CounterAdd | OpKind::CounterWait | OpKind::GridBarrier => self.sync_op(op),
            OpKind::Assert { message } => self.assert(op, message),
            OpKind::Print { .. } => {
                return Err(Box::new(
                    Diagnostic::error("`print!` does not run on a GPU")
                        .at(op.span)
                        .in_kernel(&self.kernel.name)
                        .hint("run the kernel on the interpreter or the CPU, or compare devices with `metile kernel diff`"),
                ));
            }
            OpKind::For | OpKind::While | OpKind::If => self.control(id, op)?,
            OpKind::Yield | OpKind::Condition | OpKind::Return => {}
        }
        Ok(())
    }

    /// Constants that are scalars, and the program's place in the grid.
    fn grid(&mut self, op: &Op) {
        let value = match op.kind {
            OpKind::Constant(scalar) => self.constant(scalar),
            OpKind::NumPrograms(axis) => self.word(Word::GridExtent(axis)),
            OpKind::ProgramId(axis) => self.program_id(axis),
            _ => return,
        };
        self.set(op.results[0], Val::Scalar(value));
    }

    /// The program's place on an axis of the grid, from the block's number.
    fn program_id(&mut self, axis: u8) -> Dv {
        self.remember(Known::Program(axis), |l| match l.plan.traversal {
            Traversal::Grouped(group) if axis < 2 => l.grouped_id(axis, group),
            _ => l.linear_id(axis),
        })
    }

    fn linear_id(&mut self, axis: u8) -> Dv {
        let mut at = self.position(PositionOp::Block);
        for before in 0..axis {
            let extent = self.word(Word::GridExtent(before));
            at = self.b.binary(BinaryOp::Div, at, extent);
        }
        if axis < 2 {
            let extent = self.word(Word::GridExtent(axis));
            at = self.b.binary(BinaryOp::Rem, at, extent);
        }
        at
    }

    /// See [`Traversal::Grouped`].
    fn grouped_id(&mut self, axis: u8, group: u32) -> Dv {
        let (x, y) = (self.word(Word::GridExtent(0)), self.word(Word::GridExtent(1)));
        let plane = self.b.binary(BinaryOp::Mul, x, y);
        let block = self.position(PositionOp::Block);
        let block = self.b.binary(BinaryOp::Rem, block, plane);
        let most = self.i64(i64::from(group));
        let size = self.b.binary(BinaryOp::Mul, x, most);
        let first = self.b.binary(BinaryOp::Div, block, size);
        let first = self.b.binary(BinaryOp::Mul, first, most);
        let left = self.b.binary(BinaryOp::Sub, y, first);
        let rows = self.b.binary(BinaryOp::Min, left, most);
        let within = self.b.binary(BinaryOp::Rem, block, size);
        if axis == 0 {
            return self.b.binary(BinaryOp::Div, within, rows);
        }
        let row = self.b.binary(BinaryOp::Rem, within, rows);
        self.b.binary(BinaryOp::Add, first, row)
    }

    fn parameters(&mut self) {
        for (n, &parameter) in self.kernel.parameters.iter().enumerate() {
            let n = n as u16;
            let val = match self.kernel.ty(parameter) {
                Type::Tile(t) => {
                    Val::Scalar(self.word(Word::Scalar { parameter: n, dtype: t.dtype }))
                }
                Type::Tensor(t) => Val::View(self.parameter_view(n, t)),
                Type::TensorList(_) => Val::List(n),
            };
            self.set(parameter, val);
        }
    }
}

/// Elements from neighbour to neighbour along each axis of a tile in scratch, each side rounded up to a power of two.
fn padded_strides(shape: &Shape) -> [i64; MAX_RANK] {
    let mut strides = [0; MAX_RANK];
    let mut step = 1;
    for axis in (0..shape.rank()).rev() {
        strides[axis] = step;
        step *= shape.side(axis).next_power_of_two() as i64;
    }
    strides
}

/// Elements of a tile with its sides rounded up.
fn padded_elements(shape: &Shape) -> usize {
    shape.sides().iter().map(|s| s.next_power_of_two()).product()
}

/// What moves a `bool`: bytes.
fn moved(dtype: DType) -> DType {
    if dtype == DType::Bool { DType::U8 } else { dtype }
}

fn registers(dtype: DType, count: u32) -> DeviceType {
    DeviceType::registers(dtype, count)
}
