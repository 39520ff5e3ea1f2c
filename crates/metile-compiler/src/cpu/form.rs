//! The instructions of the tile machine.

use super::affine::Index;
use metile_ir::Span;
use metile_ir::dtype::{DType, Format};
use metile_ir::tile::{
    AtomicOp, BinaryOp, CompareOp, MAX_RANK, ReduceOp, ScanOp, Shape, TensorType, UnaryOp,
};
use metile_simd::chain::Chain;

/// A register: one scalar, as its memory image zero-extended to 64 bits.
pub type Reg = u32;
/// An entry of the table of views.
pub type ViewId = u32;
/// A tile with memory of its own.
pub type SlotId = u32;
/// A chunk of a pass: [`CHUNK`](super::CHUNK) elements.
pub type Temp = u16;

/// A kernel as the tile machine runs it.
#[derive(Clone, Debug)]
pub struct Form {
    /// The kernel's name.
    pub name: String,
    /// Where the kernel's parameters go.
    pub parameters: Vec<Parameter>,
    /// Registers with a fixed value.
    pub constants: Vec<(Reg, u64)>,
    /// Number of registers. The first six are the program's position and the grid's extents.
    pub regs: u32,
    /// The type of each view.
    pub views: Vec<TensorType>,
    /// Lists, each with the type of its tensors.
    pub lists: Vec<TensorType>,
    /// Whether each view is settled when arguments are bound.
    pub fixed_views: Vec<bool>,
    /// Run once, when arguments are bound: what depends on them and the grid alone.
    pub binding: Vec<Instr>,
    /// Run once a launch: what depends on what tensors hold, but not on the program.
    pub prologue: Vec<Instr>,
    /// Run for each program.
    pub code: Vec<Instr>,
    /// Byte offset and size of each slot in a program's scratch memory.
    pub slots: Vec<(usize, usize)>,
    /// Bytes of scratch memory that a program needs.
    pub scratch_bytes: usize,
    /// Operands in memory of all passes together.
    pub accesses: usize,
    /// Whether programs may wait for each other.
    pub persistent: bool,
}

/// Where an argument goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// A scalar to a register.
    Reg(Reg),
    /// A tensor to a view.
    View(ViewId),
    /// A list, by its number.
    List(u32),
}

/// An operation on scalars.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScalarOp {
    /// One operand.
    Unary(UnaryOp, DType),
    /// Two operands.
    Binary(BinaryOp, DType),
    /// Two operands, a truth value.
    Compare(CompareOp, DType),
    /// A truth value and two operands.
    Select,
    /// `f32` only.
    Fma,
    /// Conversion by value.
    Cast(DType, DType),
    /// The same bits.
    Move,
}

/// How a view is made of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewOp {
    /// `length` elements of `axis` from `start`.
    Narrow { axis: u8, start: Reg, length: Reg },
    /// The view at `index` of `axis`.
    Pick { axis: u8, index: Reg },
}

/// Operations on counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterOp {
    /// Adds, releasing.
    Add,
    /// Waits, acquiring.
    Wait,
}

/// One instruction. Jumps name positions in [`Form::code`].
#[derive(Clone, Debug)]
pub enum Instr {
    /// `to = op(a, b, c)`; operands that the operation does not take are ignored.
    Scalar { op: ScalarOp, a: Reg, b: Reg, c: Reg, to: Reg },
    /// The extent of an axis.
    Dim { view: ViewId, axis: u8, to: Reg },
    /// A view of a view.
    View { op: ViewOp, from: ViewId, to: ViewId },
    /// A tensor of a list.
    ListItem { list: u32, index: Reg, to: ViewId },
    /// One element, `fill` outside.
    LoadScalar {
        view: ViewId,
        format: Format,
        at: Vec<Reg>,
        /// Dtypes of the coordinates.
        coordinates: Vec<DType>,
        mask: Option<Reg>,
        fill: Reg,
        to: Reg,
    },
    /// One element, nothing outside.
    StoreScalar {
        view: ViewId,
        dtype: DType,
        at: Vec<Reg>,
        coordinates: Vec<DType>,
        mask: Option<Reg>,
        value: Reg,
    },
    /// The first element of a slot.
    LoadSlot { slot: SlotId, dtype: DType, to: Reg },
    /// Element-wise work over a tile.
    Pass(Box<Pass>),
    /// A matrix product.
    Dot(Box<Dot>),
    /// Anything else on whole tiles.
    Tile(Box<TileOp>),
    /// To another position.
    Jump(usize),
    /// To another position if the register is false.
    JumpUnless(Reg, usize),
    /// `index = low`; leaves the loop if that is not below `high`.
    ForStart { index: Reg, low: Reg, high: Reg, exit: usize },
    /// The next index, back to `body` if it is below `high`.
    ForEnd { index: Reg, high: Reg, step: Reg, body: usize },
    /// On a counter.
    Counter {
        op: CounterOp,
        view: ViewId,
        index: Reg,
        n: Reg,
        /// The counters' parameter.
        name: String,
        span: Option<Span>,
    },
    /// Waits for every program.
    Barrier { span: Option<Span> },
    /// Fails where an element is false.
    Assert { value: Carrier, message: String, span: Option<Span> },
    /// Shows values to a person.
    Print { values: Vec<Carrier>, format: String },
    /// Ends the program.
    End,
}

/// A value outside of passes: a register, or a slot in row-major order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Carrier {
    /// A scalar.
    Reg(Reg, DType),
    /// A tile.
    Slot(SlotId, DType, Shape),
}

/// Where an operand lies.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// In a tensor: one index per axis of it.
    Tensor { view: ViewId, format: Format, index: Vec<Index> },
    /// In a slot: element `offset + Σ strides · position`.
    Slot { slot: SlotId, offset: i64, strides: [i64; MAX_RANK] },
}

/// An operand of a pass or of a dot that lies in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// Where.
    pub place: Place,
    /// The dtype of its elements in memory; `f32` for packed formats.
    pub dtype: DType,
    /// Whether `f16` or `bf16` elements are widened to `f32` as they are read.
    pub widen: bool,
    /// What stands outside of the tensor; `None` for a slot and for what is written.
    pub fill: Option<Reg>,
}

impl Access {
    /// Whether elements are used as they lie in memory.
    pub fn is_plain(&self) -> bool {
        let packed = matches!(self.place, Place::Tensor { format: Format::Packed(_), .. });
        let bools = matches!(self.place, Place::Tensor { .. }) && self.dtype == DType::Bool;
        !packed && !bools && !self.widen
    }
    /// Whether the place of its tensor is known when arguments are bound, given [`Form::fixed_views`].
    pub fn is_fixed(&self, fixed_views: &[bool]) -> bool {
        match self.place {
            Place::Slot { .. } => true,
            Place::Tensor { view, .. } => fixed_views[view as usize],
        }
    }
    /// The dtype that a reader sees.
    pub fn read_dtype(&self) -> DType {
        if self.widen { DType::F32 } else { self.dtype }
    }
}

/// An operand of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// A chunk that an earlier step made.
    Temp(Temp),
    /// Memory.
    Access(u16),
    /// One scalar for all elements; only in [`Step::Binary`], [`Step::Compare`], [`Step::Chain`] and
    /// [`Step::SelectIndex`].
    Reg(Reg),
}

/// A loop over the positions of a tile, a chunk of the innermost axis at a time.
#[derive(Clone, Debug)]
pub struct Pass {
    /// The tile's shape; at least one axis.
    pub shape: Shape,
    /// Operands in memory.
    pub accesses: Vec<Access>,
    /// Run once, before the loop.
    pub setup: Vec<Step>,
    /// Run for each chunk, in order.
    pub steps: Vec<Step>,
    /// Reductions that the steps feed.
    pub reductions: Vec<Reduction>,
    /// Number of chunks that steps make.
    pub temps: u16,
    /// The number of this pass's first operand among those of all passes.
    pub first_access: usize,
    /// Chunks that are made where they are kept, through this operand: in a slot always, in a tensor
    /// where the chunk lies within it, side by side.
    pub homes: Vec<(Temp, u16)>,
    /// Operands that steps read in place, as [`Source::Access`].
    pub reads: Vec<u16>,
    /// Operands of which a row has one element, repeated, that steps read as such.
    pub ones: Vec<u16>,
    /// Rows that are handled at once, in one chunk: more than one where rows are short.
    pub together: usize,
    /// Whether the place of every operand's tensor is known when arguments are bound.
    pub fixed: bool,
    /// Whether the steps do nothing but store to tensors, so that elements which no store takes need
    /// not be computed.
    pub only_stores: bool,
    /// Whether the steps take long enough per element that fetching the next program's operands
    /// meanwhile pays.
    pub heavy: bool,
}

/// One operation on a chunk.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// `to = reg` everywhere.
    Fill { dtype: DType, reg: Reg, to: Temp },
    /// A copy of memory that may be written later.
    Load { access: u16, to: Temp },
    /// The numbers of an index tile.
    Index { index: Index, to: Temp },
    /// Two index tiles compared.
    IndexCompare { op: CompareOp, a: Index, b: Index, to: Temp },
    /// See [`UnaryOp`].
    Unary { op: UnaryOp, dtype: DType, a: Source, to: Temp },
    /// See [`BinaryOp`].
    Binary { op: BinaryOp, dtype: DType, a: Source, b: Source, to: Temp },
    /// See [`CompareOp`].
    Compare { op: CompareOp, dtype: DType, a: Source, b: Source, to: Temp },
    /// `a` where `c`, else `b`.
    Select { dtype: DType, c: Source, a: Source, b: Source, to: Temp },
    /// `a · b + c`, rounded once.
    Fma { a: Source, b: Source, c: Source, to: Temp },
    /// Conversion by value.
    Cast { from: DType, dtype: DType, a: Source, to: Temp },
    /// Elements of a tensor at coordinates that are no index tiles.
    Gather { view: ViewId, format: Format, at: Vec<(Source, DType)>, fill: Reg, to: Temp },
    /// Stores at coordinates that are no index tiles, or where a mask says so.
    Scatter {
        view: ViewId,
        dtype: DType,
        at: Vec<(Source, DType)>,
        mask: Option<Source>,
        value: Source,
    },
    /// A super-instruction: `second(a first b, c)`, fed to a reduction if there is one. Without `keep` nothing but
    /// the reduction reads the result.
    Chain {
        chain: Chain,
        a: Source,
        b: Source,
        c: Source,
        reduction: Option<u16>,
        to: Temp,
        keep: bool,
    },
    /// `a` where two index tiles compare so, else `b`.
    SelectIndex { dtype: DType, op: CompareOp, x: Index, y: Index, a: Source, b: Source, to: Temp },
    /// Writes to memory.
    Store { access: u16, value: Source },
    /// Feeds a reduction.
    Reduce { reduction: u16, value: Source },
}

/// A reduction over one axis of a pass.
#[derive(Clone, Debug, PartialEq)]
pub struct Reduction {
    /// How elements combine.
    pub op: ReduceOp,
    /// The dtype of the elements.
    pub dtype: DType,
    /// The axis that goes away.
    pub axis: usize,
    /// Where the result goes.
    pub to: ReductionTarget,
}

/// Where a reduction's result goes.
#[derive(Clone, Debug, PartialEq)]
pub enum ReductionTarget {
    /// A tile of one axis becomes a scalar.
    Reg(Reg),
    /// A slot with these strides over the pass's axes; 0 for the one that goes away.
    Slot { slot: SlotId, strides: [i64; MAX_RANK] },
}

/// `slot += a · bᵀ`.
#[derive(Clone, Debug)]
pub struct Dot {
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// Length of each dot product.
    pub k: usize,
    /// `a` over the axes `[m, k]`.
    pub a: Access,
    /// `b` over the axes `[n, k]`.
    pub b: Access,
    /// The accumulator and result, row-major `[m, n]`: `f32`, or `i32` for `i8` operands.
    pub slot: SlotId,
    /// Whether operands are `i8`.
    pub integer: bool,
}

/// Operations on whole tiles in slots, row-major.
#[derive(Clone, Debug)]
pub enum TileOp {
    /// A reduction that passes do not do.
    Reduce { op: ReduceOp, dtype: DType, axis: usize, from: SlotId, shape: Shape, to: SlotId },
    /// Inclusive prefixes.
    Scan { op: ScanOp, dtype: DType, axis: usize, from: SlotId, shape: Shape, to: SlotId },
    /// Elements of a tile at indices along an axis.
    Gather {
        dtype: DType,
        axis: usize,
        from: SlotId,
        shape: Shape,
        index: SlotId,
        index_dtype: DType,
        index_shape: Shape,
        to: SlotId,
    },
    /// Read-modify-write, lane by lane. `expected` makes it a compare-and-swap.
    Atomic {
        op: AtomicOp,
        dtype: DType,
        view: ViewId,
        at: Vec<Carrier>,
        expected: Option<Carrier>,
        value: Carrier,
        /// Where the old values go.
        to: Carrier,
        elements: usize,
    },
}

impl Step {
    /// Calls `f` with every operand in memory that the step reads in place.
    pub fn for_each_read(&self, f: &mut dyn FnMut(u16)) {
        let mut read = |source: &Source| {
            if let Source::Access(access) = source {
                f(*access);
            }
        };
        match self {
            Step::Fill { .. }
            | Step::Load { .. }
            | Step::Index { .. }
            | Step::IndexCompare { .. } => {}
            Step::Unary { a, .. } | Step::Cast { a, .. } => read(a),
            Step::Binary { a, b, .. } | Step::Compare { a, b, .. } => {
                [a, b].into_iter().for_each(read)
            }
            Step::Select { c, a, b, .. } | Step::Fma { a, b, c, .. } => {
                [a, b, c].into_iter().for_each(read);
            }
            Step::Chain { a, b, c, .. } => [a, b, c].into_iter().for_each(read),
            Step::SelectIndex { a, b, .. } => [a, b].into_iter().for_each(read),
            Step::Gather { at, .. } => at.iter().for_each(|(source, _)| read(source)),
            Step::Scatter { at, mask, value, .. } => {
                at.iter().for_each(|(source, _)| read(source));
                mask.iter().for_each(&mut read);
                read(value);
            }
            Step::Store { value, .. } | Step::Reduce { value, .. } => read(value),
        }
    }

    /// Calls `f` with every operand in memory that the step reads and may have as one element for a whole
    /// row, as it may have a scalar.
    pub fn for_each_one(&self, f: &mut dyn FnMut(u16)) {
        let mut one = |source: &Source| {
            if let Source::Access(access) = source {
                f(*access);
            }
        };
        match self {
            Step::Binary { a, b, .. } | Step::Compare { a, b, .. } if a != b => {
                // One of the two has to be a row.
                if !matches!(a, Source::Access(_) | Source::Reg(_)) {
                    one(b);
                } else if !matches!(b, Source::Access(_) | Source::Reg(_)) {
                    one(a);
                }
            }
            Step::Chain { b, c, .. } => [b, c].into_iter().for_each(one),
            _ => {}
        }
    }

    /// Calls `f` with every chunk that the step reads, then with the one it makes.
    pub fn for_each_temp(&mut self, f: &mut dyn FnMut(&mut Temp, bool)) {
        fn read(source: &mut Source, f: &mut dyn FnMut(&mut Temp, bool)) {
            if let Source::Temp(temp) = source {
                f(temp, false);
            }
        }
        match self {
            Step::Fill { to, .. }
            | Step::Load { to, .. }
            | Step::Index { to, .. }
            | Step::IndexCompare { to, .. } => f(to, true),
            Step::Unary { a, to, .. } | Step::Cast { a, to, .. } => {
                read(a, f);
                f(to, true);
            }
            Step::Binary { a, b, to, .. } | Step::Compare { a, b, to, .. } => {
                read(a, f);
                read(b, f);
                f(to, true);
            }
            Step::Select { c, a, b, to, .. } | Step::Fma { a, b, c, to } => {
                read(c, f);
                read(a, f);
                read(b, f);
                f(to, true);
            }
            Step::Chain { a, b, c, to, .. } => {
                read(a, f);
                read(b, f);
                read(c, f);
                f(to, true);
            }
            Step::SelectIndex { a, b, to, .. } => {
                read(a, f);
                read(b, f);
                f(to, true);
            }
            Step::Gather { at, to, .. } => {
                at.iter_mut().for_each(|(source, _)| read(source, f));
                f(to, true);
            }
            Step::Scatter { at, mask, value, .. } => {
                at.iter_mut().for_each(|(source, _)| read(source, f));
                if let Some(mask) = mask {
                    read(mask, f);
                }
                read(value, f);
            }
            Step::Store { value, .. } | Step::Reduce { value, .. } => read(value, f),
        }
    }
}

impl Instr {
    /// Calls `f` with every slot that the instruction reads or writes.
    pub fn for_each_slot(&self, f: &mut dyn FnMut(SlotId)) {
        let carrier = |c: &Carrier, f: &mut dyn FnMut(SlotId)| {
            if let Carrier::Slot(slot, ..) = c {
                f(*slot);
            }
        };
        let place = |access: &Access, f: &mut dyn FnMut(SlotId)| {
            if let Place::Slot { slot, .. } = access.place {
                f(slot);
            }
        };
        match self {
            Instr::Pass(pass) => {
                pass.accesses.iter().for_each(|a| place(a, f));
                for reduction in &pass.reductions {
                    if let ReductionTarget::Slot { slot, .. } = reduction.to {
                        f(slot);
                    }
                }
            }
            Instr::LoadSlot { slot, .. } => f(*slot),
            Instr::Dot(dot) => {
                place(&dot.a, f);
                place(&dot.b, f);
                f(dot.slot);
            }
            Instr::Tile(op) => match &**op {
                TileOp::Reduce { from, to, .. } | TileOp::Scan { from, to, .. } => {
                    f(*from);
                    f(*to);
                }
                TileOp::Gather { from, index, to, .. } => {
                    f(*from);
                    f(*index);
                    f(*to);
                }
                TileOp::Atomic { at, expected, value, to, .. } => {
                    at.iter().chain(expected).chain([value, to]).for_each(|c| carrier(c, f));
                }
            },
            Instr::Assert { value, .. } => carrier(value, f),
            Instr::Print { values, .. } => values.iter().for_each(|c| carrier(c, f)),
            _ => {}
        }
    }

    /// The position that the instruction may jump to.
    pub fn target_mut(&mut self) -> Option<&mut usize> {
        match self {
            Instr::Jump(to)
            | Instr::JumpUnless(_, to)
            | Instr::ForStart { exit: to, .. }
            | Instr::ForEnd { body: to, .. } => Some(to),
            _ => None,
        }
    }
}
