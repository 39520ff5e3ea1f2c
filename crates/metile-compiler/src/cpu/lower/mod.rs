//! From Tile IR to the CPU form.

mod control;
mod dot;
mod elementwise;
mod fuse;
mod memory;
mod pass;
mod prologue;
mod rearrange;
mod reduce;
mod sync;

use super::affine::{Index, Linear};
use super::form::*;
use super::layout;
use metile_ir::dtype::DType;
use metile_ir::scalar::Scalar;
use metile_ir::tile::{
    CompareOp, Kernel, MAX_RANK, OpId, OpKind, RegionId, Shape, Type, Value, Verified,
};
use pass::Open;
use std::collections::HashMap;

/// What a Tile IR value is in the CPU form.
#[derive(Clone, Debug)]
enum Val {
    /// A scalar.
    Reg(Reg),
    /// A tile of one scalar.
    Uniform(Reg),
    /// An index tile: made where it is used.
    Index(Index),
    /// A comparison of index tiles: made where it is used.
    Mask(CompareOp, Index, Index),
    /// What a tensor that nobody writes holds: read where it is used.
    Memory(Access),
    /// A tile in a slot.
    Slot(SlotView),
    /// Made by the open pass.
    Temp(Source),
    /// A view.
    View(ViewId),
    /// A list of tensors.
    List(u32),
}

/// A tile in a slot, or a rearrangement of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SlotView {
    slot: SlotId,
    offset: i64,
    strides: [i64; MAX_RANK],
}

impl SlotView {
    fn whole(slot: SlotId, shape: &Shape) -> SlotView {
        SlotView { slot, offset: 0, strides: row_major(shape) }
    }
    fn is_whole(&self, shape: &Shape) -> bool {
        let plain = row_major(shape);
        let moves = |axis: usize| shape.side(axis) > 1 && self.strides[axis] != plain[axis];
        self.offset == 0 && !(0..shape.rank()).any(moves)
    }
}

fn row_major(shape: &Shape) -> [i64; MAX_RANK] {
    shape.strides().map(|s| s as i64)
}

/// Where the value that a region yields should be put, so that it need not be moved.
#[derive(Clone, Debug)]
struct Hint {
    slot: SlotId,
    /// The loop's own value in that slot, which has to be done with by then.
    argument: Option<Value>,
}

struct Lowering<'k> {
    kernel: &'k Kernel,
    values: Vec<Option<Val>>,
    /// How often each value is still to be used.
    uses: Vec<u32>,
    /// Whether each value is the same for every program.
    invariant: Vec<bool>,
    /// The parameter that each view comes from.
    roots: Vec<usize>,
    views: Vec<metile_ir::tile::TensorType>,
    lists: Vec<metile_ir::tile::TensorType>,
    list_roots: Vec<usize>,
    regs: u32,
    constants: HashMap<(DType, u64), Reg>,
    known: HashMap<Reg, u64>,
    linear: HashMap<Reg, Linear>,
    slot_bytes: Vec<usize>,
    /// How many regions were around when each value was made.
    depths: Vec<usize>,
    /// Values that lie in each slot.
    tenants: Vec<Vec<Value>>,
    prologue: Vec<Instr>,
    code: Vec<Instr>,
    /// Positions of loops in the code, for the lifetime of slots.
    loops: Vec<(usize, usize)>,
    accesses: usize,
    open: Option<Open>,
    hints: HashMap<Value, Hint>,
    /// What values were before they were copied to a slot, for each region around.
    scopes: Vec<Vec<(Value, Option<Val>)>>,
}

/// The CPU form of `kernel`.
pub fn lower(kernel: &Verified) -> Form {
    let kernel = kernel.kernel();
    let mut uses = vec![0; kernel.values.len()];
    for op in kernel.walk(kernel.body) {
        for operand in &kernel.ops[op].operands {
            uses[operand.index()] += 1;
        }
    }
    let mut lowering = Lowering {
        kernel,
        values: vec![None; kernel.values.len()],
        uses,
        invariant: vec![false; kernel.values.len()],
        roots: Vec::new(),
        views: Vec::new(),
        lists: Vec::new(),
        list_roots: Vec::new(),
        regs: 6,
        constants: HashMap::new(),
        known: HashMap::new(),
        linear: HashMap::new(),
        slot_bytes: Vec::new(),
        depths: vec![0; kernel.values.len()],
        tenants: Vec::new(),
        prologue: Vec::new(),
        code: Vec::new(),
        loops: Vec::new(),
        accesses: 0,
        open: None,
        hints: HashMap::new(),
        scopes: Vec::new(),
    };
    let parameters = lowering.parameters();
    lowering.region(kernel.body);
    lowering.leave();
    lowering.finish(parameters)
}

impl Lowering<'_> {
    fn parameters(&mut self) -> Vec<Parameter> {
        let mut parameters = Vec::new();
        for (n, &value) in self.kernel.parameters.iter().enumerate() {
            self.invariant[value.index()] = true;
            let (val, parameter) = match self.kernel.ty(value) {
                Type::Tile(_) => {
                    let reg = self.reg();
                    (Val::Reg(reg), Parameter::Reg(reg))
                }
                Type::Tensor(ty) => {
                    let view = self.view(ty, n);
                    (Val::View(view), Parameter::View(view))
                }
                Type::TensorList(ty) => {
                    self.lists.push(ty);
                    self.list_roots.push(n);
                    let list = self.lists.len() as u32 - 1;
                    (Val::List(list), Parameter::List(list))
                }
            };
            self.values[value.index()] = Some(val);
            parameters.push(parameter);
        }
        parameters
    }

    fn finish(mut self, parameters: Vec<Parameter>) -> Form {
        let (slots, scratch_bytes) = layout::place(&self.code, &self.loops, &self.slot_bytes);
        let mut constants: Vec<(Reg, u64)> =
            self.constants.iter().map(|(&(_, bits), &reg)| (reg, bits)).collect();
        constants.sort_unstable();
        let (binding, prologue) = prologue::split(self.prologue, self.regs, self.views.len());
        let fixed_views = prologue::fixed_views([&prologue, &self.code], self.views.len());
        for instr in &mut self.code {
            if let Instr::Pass(pass) = instr {
                pass.fixed = pass.accesses.iter().all(|access| access.is_fixed(&fixed_views));
            }
        }
        Form {
            name: self.kernel.name.clone(),
            parameters,
            constants,
            regs: self.regs,
            views: self.views,
            lists: self.lists,
            fixed_views,
            binding,
            prologue,
            code: self.code,
            slots,
            scratch_bytes,
            accesses: self.accesses,
            persistent: self.kernel.persistent,
        }
    }

    // Names for registers, views and slots.

    fn reg(&mut self) -> Reg {
        self.regs += 1;
        self.regs - 1
    }
    fn view(&mut self, ty: metile_ir::tile::TensorType, root: usize) -> ViewId {
        self.views.push(ty);
        self.roots.push(root);
        self.views.len() as u32 - 1
    }
    fn slot(&mut self, dtype: DType, shape: &Shape) -> SlotId {
        self.slot_bytes.push(dtype.bytes() * shape.elements());
        self.tenants.push(Vec::new());
        self.slot_bytes.len() as u32 - 1
    }
    fn constant(&mut self, scalar: Scalar) -> Reg {
        let key = (scalar.dtype(), scalar.bits());
        if let Some(&reg) = self.constants.get(&key) {
            return reg;
        }
        let reg = self.reg();
        self.constants.insert(key, reg);
        self.known.insert(reg, scalar.bits());
        if scalar.dtype() == DType::I64 {
            self.linear.insert(reg, Linear::constant(scalar.bits() as i64));
        }
        reg
    }

    // What values are.

    fn val(&self, value: Value) -> Val {
        // The verifier made sure that values are defined before they are used.
        self.values[value.index()].clone().unwrap_or(Val::Reg(0))
    }
    fn set(&mut self, value: Value, val: Val) {
        if let Val::Slot(view) = val {
            self.tenants[view.slot as usize].push(value);
        }
        if self.values[value.index()].is_none() {
            self.depths[value.index()] = self.scopes.len();
        }
        self.values[value.index()] = Some(val);
    }
    fn shape(&self, value: Value) -> Shape {
        self.kernel.ty(value).tile().map_or(Shape::SCALAR, |t| t.shape)
    }
    fn dtype(&self, value: Value) -> DType {
        self.kernel.ty(value).tile().map_or(DType::I64, |t| t.dtype)
    }
    /// The register of a scalar. Closes the open pass if that is what makes it.
    fn scalar(&mut self, value: Value) -> Reg {
        if let Some(open) = &self.open
            && open.makes(value)
        {
            self.close();
        }
        match self.val(value) {
            Val::Reg(reg) | Val::Uniform(reg) => reg,
            _ => 0,
        }
    }
    /// The view or list entry that `value` is.
    fn view_of(&self, value: Value) -> ViewId {
        match self.val(value) {
            Val::View(view) => view,
            _ => 0,
        }
    }
    fn linear(&self, reg: Reg) -> Linear {
        self.linear.get(&reg).cloned().unwrap_or_else(|| Linear::reg(reg))
    }
    /// The index tile that an `i64` value is, if it is one.
    fn index(&self, value: Value) -> Option<Index> {
        if self.dtype(value) != DType::I64 {
            return None;
        }
        match self.val(value) {
            Val::Index(index) => Some(index),
            Val::Uniform(reg) | Val::Reg(reg) => Some(Index::uniform(self.linear(reg))),
            _ => None,
        }
    }

    // Emitting.

    fn emit(&mut self, instr: Instr) {
        self.code.push(instr);
    }
    /// Emits what computes scalars or views from `operands`: once a launch, if none of them depends
    /// on the program.
    fn emit_for(&mut self, operands: &[Value], results: &[Value], instr: Instr) {
        if self.is_invariant(operands) {
            for result in results {
                self.invariant[result.index()] = true;
            }
            self.prologue.push(instr);
        } else {
            self.code.push(instr);
        }
    }

    /// Whether what is computed here from `operands` is the same for every program.
    fn is_invariant(&self, operands: &[Value]) -> bool {
        self.scopes.len() == 1 && operands.iter().all(|v| self.invariant[v.index()])
    }

    fn region(&mut self, region: RegionId) {
        self.scopes.push(Vec::new());
        for &op in &self.kernel.regions[region].ops {
            self.op(op);
        }
    }
    /// Leaves the region entered last. The owner has used what its terminator gives.
    fn leave(&mut self) {
        self.close();
        for (value, val) in self.scopes.pop().unwrap_or_default().into_iter().rev() {
            self.values[value.index()] = val;
        }
    }

    fn op(&mut self, id: OpId) {
        let op = &self.kernel.ops[id];
        match &op.kind {
            OpKind::ProgramId(axis) => self.set(op.results[0], Val::Reg(u32::from(*axis))),
            OpKind::NumPrograms(axis) => {
                self.invariant[op.results[0].index()] = true;
                self.set(op.results[0], Val::Reg(3 + u32::from(*axis)));
            }
            OpKind::Constant(scalar) => {
                let reg = self.constant(*scalar);
                self.invariant[op.results[0].index()] = true;
                let scalar = self.shape(op.results[0]).is_scalar();
                self.set(op.results[0], if scalar { Val::Reg(reg) } else { Val::Uniform(reg) });
            }
            OpKind::Arange => self.set(op.results[0], Val::Index(Index::along(0))),
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
            OpKind::Reduce { .. } | OpKind::Scan { .. } => self.combine(op),
            OpKind::Dot { .. } => self.dot(op),
            OpKind::Dim { .. }
            | OpKind::Narrow { .. }
            | OpKind::Pick { .. }
            | OpKind::ListItem
            | OpKind::Load { .. }
            | OpKind::Store { .. }
            | OpKind::LoadTile
            | OpKind::StoreTile
            | OpKind::AtomicRmw(_)
            | OpKind::AtomicCas => self.memory(op),
            OpKind::CounterAdd
            | OpKind::CounterWait
            | OpKind::GridBarrier
            | OpKind::Assert { .. }
            | OpKind::Print { .. } => self.sync(op),
            OpKind::For | OpKind::While | OpKind::If => self.control(op),
            OpKind::Return => {
                self.close();
                self.emit(Instr::End);
            }
            // The loop or branch that owns the region looks at its terminator.
            OpKind::Yield | OpKind::Condition => return,
        }
        for operand in &op.operands {
            self.uses[operand.index()] -= 1;
        }
    }
}
