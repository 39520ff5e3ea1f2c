//! The generator: what is visible, and how a value of a wanted type is come by.

use super::choices::Choices;
use super::{Limits, scalars};
use crate::dtype::{DType, Format, PackedFormat};
use crate::scalar::Scalar;
use crate::tile::{
    Access, AtomicOp, Builder, CompareOp, Kernel, OpKind, Precision, Shape, TensorType, TileType,
    Type, Value,
};

/// A tensor or view, and who may touch it.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    pub value: Value,
    pub ty: TensorType,
    /// For memory that is written: which tensor, by number.
    pub written: Option<usize>,
    /// For memory that is written: whether the view is this program's own row.
    pub own: bool,
}

/// A tensor that all programs raise by one operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sum {
    pub value: Value,
    pub dtype: DType,
    pub op: AtomicOp,
}

/// A program under way.
pub(super) struct Generator<'g, 'c> {
    pub b: Builder,
    pub choices: &'g mut Choices<'c>,
    pub limits: &'g Limits,
    /// The tiles visible here, oldest first.
    pub tiles: Vec<Value>,
    pub views: Vec<View>,
    pub lists: Vec<(Value, TensorType)>,
    pub sums: Vec<Sum>,
    pub counters: Option<Value>,
    pub next_counter: u64,
    /// For each written tensor: whether all may read it now, and nobody write it.
    pub shared: Vec<bool>,
    pub depth: usize,
    /// Whether every program runs this place equally often.
    pub uniform: bool,
    /// The number of programs, where it is known.
    pub programs: Option<Value>,
    budget: usize,
    named: usize,
}

/// What is visible at the start of a region.
pub(super) struct Scope {
    tiles: usize,
    views: usize,
    uniform: bool,
}

impl<'g, 'c> Generator<'g, 'c> {
    pub fn new(choices: &'g mut Choices<'c>, limits: &'g Limits) -> Self {
        Generator {
            b: Builder::new("random"),
            choices,
            limits,
            tiles: Vec::new(),
            views: Vec::new(),
            lists: Vec::new(),
            sums: Vec::new(),
            counters: None,
            next_counter: 0,
            shared: Vec::new(),
            depth: 0,
            uniform: true,
            programs: None,
            budget: limits.ops,
            named: 0,
        }
    }

    pub fn program(mut self) -> Kernel {
        let persistent = self.limits.persistent && self.choices.chance(64);
        self.b.kernel_mut().persistent = persistent;
        if self.choices.chance(32) {
            self.b.kernel_mut().precision = Precision::Relaxed;
        }
        let rows = self.parameters(persistent);
        // What is not done for lack of a fitting operand is left out, here and below.
        let _ = self.own_rows(&rows);
        let steps = self.choices.below(self.limits.ops.max(1));
        self.steps(steps);
        let _ = self.publish();
        self.b.control(OpKind::Return, &[], Vec::new(), &[]);
        self.b.finish()
    }

    /// Declares the parameters; gives the tensors that programs have rows of.
    fn parameters(&mut self, persistent: bool) -> Vec<(Value, TensorType)> {
        for n in 0..1 + self.choices.below(4) {
            let ty = self.read_type();
            let value = self.b.parameter(&format!("read{n}"), Type::Tensor(ty));
            self.views.push(View { value, ty, written: None, own: false });
        }
        if self.choices.chance(80) {
            let ty = self.read_type();
            let value = self.b.parameter("list", Type::TensorList(ty));
            self.lists.push((value, ty));
        }
        let mut rows = Vec::new();
        for n in 0..1 + self.choices.below(3) {
            let dtype = if self.choices.chance(96) { DType::F32 } else { self.dtype() };
            let rank = 2 + self.choices.below(3) as u8;
            let ty = TensorType { format: Format::Plain(dtype), rank, access: Access::ReadWrite };
            rows.push((self.b.parameter(&format!("out{n}"), Type::Tensor(ty)), ty));
        }
        if self.choices.chance(96) {
            let words = [DType::I32, DType::U32, DType::I64, DType::U64];
            let dtype = self.choices.pick(&words).unwrap_or(DType::I32);
            let op = self.choices.pick(&[AtomicOp::Add, AtomicOp::Max, AtomicOp::Min]);
            let ty =
                TensorType { format: Format::Plain(dtype), rank: 1, access: Access::ReadWrite };
            let value = self.b.parameter("sum", Type::Tensor(ty));
            self.sums.push(Sum { value, dtype, op: op.unwrap_or(AtomicOp::Add) });
        }
        for n in 0..self.choices.below(4) {
            let ty = Type::Tile(TileType::scalar(self.dtype()));
            let value = self.b.parameter(&format!("s{n}"), ty);
            self.tiles.push(value);
        }
        if persistent {
            let format = Format::Plain(DType::U32);
            let ty = TensorType { format, rank: 1, access: Access::Counter };
            self.counters = Some(self.b.parameter("counters", Type::Tensor(ty)));
        }
        rows
    }

    fn read_type(&mut self) -> TensorType {
        let rank = 1 + self.choices.below(4) as u8;
        let format = if self.choices.chance(64) {
            let all = PackedFormat::all();
            self.choices.pick(&all).map_or(Format::Plain(DType::F32), Format::Packed)
        } else {
            Format::Plain(self.dtype())
        };
        TensorType { format, rank, access: Access::Read }
    }

    /// Numbers the programs, and gives this one its row of each written tensor.
    fn own_rows(&mut self, rows: &[(Value, TensorType)]) -> Option<()> {
        let mut at = self.op(OpKind::ProgramId(2), &[], None)?;
        for axis in [1, 0] {
            let extent = self.op(OpKind::NumPrograms(axis), &[], None)?;
            let id = self.op(OpKind::ProgramId(axis), &[], None)?;
            at = self.op(OpKind::Binary(crate::tile::BinaryOp::Mul), &[at, extent], None)?;
            at = self.op(OpKind::Binary(crate::tile::BinaryOp::Add), &[at, id], None)?;
        }
        for (n, &(value, ty)) in rows.iter().enumerate() {
            self.shared.push(false);
            self.views.push(View { value, ty, written: Some(n), own: false });
            let own = self.op(OpKind::Pick { axis: 0 }, &[value, at], None)?;
            let ty = TensorType { rank: ty.rank - 1, ..ty };
            self.views.push(View { value: own, ty, written: Some(n), own: true });
        }
        if self.counters.is_some() {
            let mut all = self.op(OpKind::NumPrograms(0), &[], None)?;
            for axis in [1, 2] {
                let extent = self.op(OpKind::NumPrograms(axis), &[], None)?;
                all = self.op(OpKind::Binary(crate::tile::BinaryOp::Mul), &[all, extent], None)?;
            }
            let count = Some(TileType::scalar(DType::U32));
            self.programs = self.op(OpKind::Cast, &[all], count);
        }
        Some(())
    }

    /// Makes `count` things happen, if the budget allows.
    pub fn steps(&mut self, count: usize) {
        for _ in 0..count {
            if self.budget == 0 {
                return;
            }
            self.budget -= 1;
            let _ = self.step();
        }
    }

    fn step(&mut self) -> Option<()> {
        match self.choices.below(40) {
            0..=5 => self.elementwise(),
            6..=12 => self.chain(),
            13 | 14 => self.convert(),
            15..=18 => self.rearrange(),
            19..=21 => self.combine(),
            22..=24 => self.load(),
            25..=27 => self.store(),
            28 => self.atomic(),
            29 | 30 => self.view(),
            31..=34 => self.control(),
            35 => self.people(),
            36 | 37 => self.synchronize(),
            _ => self.position(),
        }
    }

    fn position(&mut self) -> Option<()> {
        let axis = self.choices.below(3) as u8;
        match self.choices.below(3) {
            0 => self.op(OpKind::ProgramId(axis), &[], None)?,
            1 => self.op(OpKind::NumPrograms(axis), &[], None)?,
            _ => {
                let side = 1 + self.choices.below(self.limits.elements.clamp(1, 40));
                let shape = Shape::new(&[side]).ok()?;
                self.op(OpKind::Arange, &[], Some(TileType::new(DType::I64, shape)))?
            }
        };
        Some(())
    }

    /// Stores values that are visible at the end, so that what was computed shows.
    fn publish(&mut self) -> Option<()> {
        let targets: Vec<View> = self.views.iter().copied().filter(|v| self.writable(v)).collect();
        for view in targets {
            for _ in 0..2 + self.choices.below(3) {
                let recent = self.tiles.len().min(24);
                let at = self.choices.below(recent);
                if let Some(&value) = self.tiles.iter().rev().nth(at) {
                    self.store_value(view, value)?;
                }
            }
        }
        Some(())
    }

    /// Whether this program may write through the view here.
    pub fn writable(&self, view: &View) -> bool {
        view.own && view.written.is_some_and(|n| !self.shared[n])
    }

    /// Whether this program may read through the view here.
    pub fn readable(&self, view: &View) -> bool {
        view.written.is_none_or(|n| view.own || self.shared[n])
    }

    pub fn open(&mut self) -> Scope {
        self.depth += 1;
        Scope { tiles: self.tiles.len(), views: self.views.len(), uniform: self.uniform }
    }

    pub fn close(&mut self, scope: &Scope) {
        self.depth -= 1;
        self.tiles.truncate(scope.tiles);
        self.views.truncate(scope.views);
        self.uniform = scope.uniform;
    }

    /// Appends an operation with one result, which becomes visible if it is a tile.
    pub fn op(
        &mut self,
        kind: OpKind,
        operands: &[Value],
        result: Option<TileType>,
    ) -> Option<Value> {
        let made = self.b.op(kind, operands, result);
        debug_assert!(made.is_ok(), "{made:?}");
        let value = made.ok()?;
        if self.choices.chance(8) {
            self.named += 1;
            let name = format!("v{}", self.named);
            self.b.kernel_mut().values[value].name = Some(name);
        }
        if self.b.kernel().ty(value).tile().is_some() {
            self.tiles.push(value);
        }
        Some(value)
    }

    /// Appends an operation without results.
    pub fn effect(&mut self, kind: OpKind, operands: &[Value]) -> Option<()> {
        let made = self.b.effect(kind, operands);
        debug_assert!(made.is_ok(), "{made:?}");
        made.ok()
    }

    pub fn ty(&self, value: Value) -> Option<TileType> {
        self.b.kernel().ty(value).tile()
    }

    /// Any dtype; `f32`, about which most rules are, more often.
    pub fn dtype(&mut self) -> DType {
        if self.choices.chance(64) {
            return DType::F32;
        }
        self.choices.pick(&DType::ALL).unwrap_or(DType::F32)
    }

    /// A shape of few elements.
    pub fn shape(&mut self) -> Shape {
        const SIDES: [usize; 10] = [1, 4, 8, 3, 2, 16, 5, 7, 32, 64];
        let rank = self.choices.below(5);
        let mut sides = Vec::new();
        let mut elements = 1;
        for _ in 0..rank {
            let side = self.choices.pick(&SIDES).unwrap_or(1);
            let side = if elements * side <= self.limits.elements { side } else { 1 };
            elements *= side;
            sides.push(side);
        }
        Shape::new(&sides).unwrap_or(Shape::SCALAR)
    }

    /// A visible tile that fits, recent ones more likely.
    pub fn find(&mut self, fits: impl Fn(TileType) -> bool) -> Option<Value> {
        let recent: Vec<Value> = self
            .tiles
            .iter()
            .rev()
            .copied()
            .filter(|&v| self.ty(v).is_some_and(&fits))
            .take(12)
            .collect();
        self.choices.pick(&recent)
    }

    /// Any visible tile that fits, or a new one of a type that does.
    pub fn any(&mut self, fits: impl Fn(TileType) -> bool) -> Option<Value> {
        if self.choices.below(8) > 0
            && let Some(found) = self.find(&fits)
        {
            return Some(found);
        }
        let shape = self.shape();
        let start = self.choices.below(DType::ALL.len());
        let dtypes = (0..DType::ALL.len()).map(|n| DType::ALL[(start + n) % DType::ALL.len()]);
        let ty = dtypes.map(|d| TileType::new(d, shape)).find(|&t| fits(t));
        match ty {
            Some(ty) => self.want(ty),
            None => self.find(fits),
        }
    }

    /// A value of this type: a constant, a visible one, or one made of a visible one.
    pub fn want(&mut self, ty: TileType) -> Option<Value> {
        let found = match self.choices.below(8) {
            0 => None,
            1..=4 => self.find(|t| t == ty),
            5 => match self.find(|t| t.shape == ty.shape && t.dtype != ty.dtype) {
                Some(from) => self.op(OpKind::Cast, &[from], Some(ty)),
                None => None,
            },
            6 => {
                let stretches = |t: TileType| {
                    t.dtype == ty.dtype && t.shape.broadcast(&ty.shape) == Some(ty.shape)
                };
                match self.find(stretches) {
                    Some(from) => self.op(OpKind::Broadcast, &[from], Some(ty)),
                    None => None,
                }
            }
            _ if ty.dtype == DType::Bool => self.comparison(ty.shape),
            _ => self.find(|t| t == ty),
        };
        match found {
            Some(found) => Some(found),
            None => {
                let scalar = scalars::constant(self.choices, ty.dtype);
                self.constant(ty, scalar)
            }
        }
    }

    pub fn constant(&mut self, ty: TileType, scalar: Scalar) -> Option<Value> {
        self.op(OpKind::Constant(scalar), &[], Some(ty))
    }

    pub fn int(&mut self, value: i64) -> Option<Value> {
        self.constant(TileType::scalar(DType::I64), Scalar::i64(value))
    }

    /// A tile of truth values that depends on something.
    fn comparison(&mut self, shape: Shape) -> Option<Value> {
        let fits = |t: TileType| t.shape == shape && t.dtype.is_arithmetic();
        let a = match self.find(fits) {
            Some(a) => a,
            None => self.constant(TileType::new(DType::I64, shape), Scalar::i64(1))?,
        };
        let scalar = scalars::constant(self.choices, self.ty(a)?.dtype);
        let b = self.constant(self.ty(a)?, scalar)?;
        let ops = [CompareOp::Lt, CompareOp::Ge, CompareOp::Ne];
        let op = self.choices.pick(&ops)?;
        self.op(OpKind::Compare(op), &[a, b], None)
    }
}
