//! What orders the accesses of a block's threads: barriers where one thread may touch what another does.

use super::Lowering;
use super::threads::Evaluated;
use super::views::View;
use crate::gpu::layout::Layout;
use crate::gpu::steps::steps;
use metile_device::{ControlOp, Message, Op as DeviceOp, ReportOp, SyncOp, Value as Dv, Word};
use metile_ir::dtype::DType;
use metile_ir::tile::{Access, BinaryOp, CompareOp, Op, OpKind, RegionId, Type, Value};
use std::collections::HashMap;

/// Which elements a thread touches: accesses of one place by one layout are a thread's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    view: Value,
    coordinates: Vec<Value>,
    rectangle: bool,
    layout: Layout,
}

impl Place {
    /// The place of an access; `None` where several threads have the same elements.
    pub fn new(op: &Op, rank: usize, layout: &Layout) -> Option<Place> {
        (layout.repeated() == 0).then(|| Place {
            view: op.operands[0],
            coordinates: op.operands[1..=rank].to_vec(),
            rectangle: matches!(op.kind, OpKind::LoadTile | OpKind::StoreTile),
            layout: layout.clone(),
        })
    }
}

/// What threads have touched since the last barrier.
#[derive(Clone, Debug, Default)]
pub(super) struct Pending {
    /// Whether scratch may still be read.
    pub scratch: bool,
    reads: HashMap<u16, Vec<Option<Place>>>,
    writes: HashMap<u16, Vec<Option<Place>>>,
}

impl Pending {
    /// What either has touched.
    pub fn join(&mut self, other: Pending) {
        self.merge(&other);
    }

    fn merge(&mut self, other: &Pending) {
        self.scratch |= other.scratch;
        for (into, from) in [(&mut self.reads, &other.reads), (&mut self.writes, &other.writes)] {
            for (&parameter, places) in from {
                into.entry(parameter).or_default().extend(places.iter().cloned());
            }
        }
    }
}

fn apart(places: Option<&Vec<Option<Place>>>, place: &Option<Place>) -> bool {
    places.is_none_or(|known| known.iter().all(|k| k.is_some() && k == place))
}

impl Lowering<'_> {
    pub(super) fn barrier(&mut self) {
        self.b.barrier();
        self.pending = Pending::default();
    }

    /// A barrier between writes to scratch and its being read.
    pub(super) fn publish(&mut self) {
        self.barrier();
        self.pending.scratch = true;
    }

    pub(super) fn before_read(&mut self, view: &View, place: Option<Place>) {
        if !view.is_written() {
            return;
        }
        if !apart(self.pending.writes.get(&view.parameter), &place) {
            self.barrier();
        }
        self.pending.reads.entry(view.parameter).or_default().push(place);
    }

    pub(super) fn before_write(&mut self, view: &View, place: Option<Place>) {
        let earlier = &self.pending;
        if !apart(earlier.writes.get(&view.parameter), &place)
            || !apart(earlier.reads.get(&view.parameter), &place)
        {
            self.barrier();
        }
        self.pending.writes.entry(view.parameter).or_default().push(place);
    }

    /// What a region may have touched when it begins again.
    pub(super) fn pending_of(&self, region: RegionId) -> Pending {
        let mut pending = Pending { scratch: true, ..Pending::default() };
        for id in self.kernel.walk(region) {
            let op = &self.kernel.ops[id];
            let touched = op.operands.first().map(|&v| (v, self.kernel.ty(v)));
            let Some((view, Type::Tensor(t))) = touched else { continue };
            if t.access != Access::ReadWrite {
                continue;
            }
            let parameter = self.root(view);
            match op.kind {
                OpKind::Load { .. } | OpKind::LoadTile => {
                    pending.reads.entry(parameter).or_default().push(None);
                }
                OpKind::Store { .. }
                | OpKind::StoreTile
                | OpKind::AtomicRmw(_)
                | OpKind::AtomicCas => {
                    pending.writes.entry(parameter).or_default().push(None);
                }
                _ => {}
            }
        }
        pending
    }

    pub(super) fn expect(&mut self, other: &Pending) {
        self.pending.merge(other);
    }

    /// The parameter that a view comes from.
    fn root(&self, view: Value) -> u16 {
        let mut at = view;
        loop {
            match self.kernel.values[at].definition {
                metile_ir::tile::Definition::Parameter(n) => return n as u16,
                metile_ir::tile::Definition::Result(op, _) => at = self.kernel.ops[op].operands[0],
                metile_ir::tile::Definition::Argument(..) => return u16::MAX,
            }
        }
    }

    pub(super) fn sync_op(&mut self, op: &Op) {
        if op.kind == OpKind::GridBarrier {
            let counter = self.word(Word::GridBarrier);
            self.b.push(DeviceOp::Sync(SyncOp::GridBarrier), &[counter], &[]);
            self.pending = Pending::default();
            return;
        }
        let Some(view) = self.view(op.operands[0]) else { return };
        let (index, n) = (self.scalar(op.operands[1]), self.scalar(op.operands[2]));
        let layout = self.one_register();
        let fact = self.facts.of(op.operands[1]);
        let at = vec![self.scalar_everywhere(op.operands[1], 1)];
        let (offset, _) = self.offset(&view, &at, layout.count());
        let mask = self.within(index, fact, view.axes[0].extent);
        let operands = [view.pointers[0], offset, mask, n];
        if op.kind == OpKind::CounterAdd {
            self.barrier();
            let first = self.first_owner(&layout);
            let operands = [operands[0], operands[1], self.and(first, mask), operands[3]];
            self.b.push(DeviceOp::Sync(SyncOp::CounterAdd), &operands, &[]);
        } else {
            self.b.push(DeviceOp::Sync(SyncOp::CounterWait), &operands, &[]);
            self.barrier();
        }
    }

    pub(super) fn assert(&mut self, op: &Op, message: &str) {
        let condition = op.operands[0];
        let n = self.b.program.messages.len() as u32;
        self.b.program.messages.push(Message { text: message.to_owned(), span: op.span });
        let report = self.word(Word::Report);
        let (ok, element) = if self.is_scalar(condition) {
            (self.scalar(condition), self.int(DType::I32, 0))
        } else {
            let layout = match self.plan.layouts.get(&condition) {
                Some(layout) => layout.clone(),
                None => self.store_layout_of(condition),
            };
            let ok = self.tile(condition, &layout);
            let shape = self.shape(condition);
            let ok = match self.real(&layout, &shape) {
                Some(real) => {
                    let unreal = self.b.unary(metile_ir::tile::UnaryOp::Not, real);
                    self.b.binary(BinaryOp::Or, ok, unreal)
                }
                None => ok,
            };
            let element = self.linear(&layout, &shape, &shape.strides().map(|s| s as i64));
            (ok, element)
        };
        let count = self.b.program.count(ok).max(self.b.program.count(element));
        let [ok, element] = [ok, element].map(|v| self.b.spread(v, count));
        let assert = DeviceOp::Report(ReportOp::Assert { message: n });
        self.b.push(assert, &[report, ok, element], &[]);
    }

    fn store_layout_of(&self, value: Value) -> Layout {
        let shape = self.shape(value);
        Layout::blocked(&shape, shape.rank().saturating_sub(1), 1, self.plan.warps)
    }

    /// Whether two lanes of a store may meet in one element: the last in row-major order is to stay.
    pub(super) fn may_meet(&self, op: &Op, rank: usize) -> bool {
        if op.kind == OpKind::StoreTile {
            return false;
        }
        let shape = self.shape(op.operands[1]);
        let all: Option<Vec<Vec<i64>>> =
            op.operands[1..=rank].iter().map(|&c| steps(self.kernel, c)).collect();
        let Some(all) = all else { return true };
        // Every axis of the tile moves some coordinate that no other axis moves.
        let alone = |steps: &Vec<i64>, axis: usize| {
            steps[axis] != 0 && steps.iter().filter(|&&s| s != 0).count() == 1
        };
        (0..shape.rank())
            .filter(|&axis| shape.side(axis) > 1)
            .any(|axis| !all.iter().any(|steps| alone(steps, axis)))
    }

    /// A store whose lanes may meet: warp by warp and lane by lane, in row-major order.
    pub(super) fn store_in_order(
        &mut self,
        op: &Op,
        view: &View,
        layout: &Layout,
        coordinates: &[Evaluated],
        mask: Option<Dv>,
        value: Dv,
    ) {
        let Some(&source) = op.operands.last() else { return };
        let (dtype, shape) = (self.dtype(source), self.shape(source));
        let stored = if dtype == DType::Bool { self.b.cast(value, DType::U8) } else { value };
        let real = self.real(layout, &shape);
        let inside = self.inside(view, coordinates);
        let owner = self.first_owner(layout);
        let mask = self.all(&[mask, real, inside, owner]);
        let linear = self.linear(layout, &shape, &shape.strides().map(|s| s as i64));
        let (offset, immediates) = self.offset(view, coordinates, layout.count());
        let count = layout.count();
        let stored = self.b.spread(stored, count);
        self.before_write(view, None);
        // Each element has its turn, and the block waits for it.
        let (low, high) = (self.int(DType::I32, 0), self.int(DType::I32, shape.elements() as i64));
        let step = self.int(DType::I32, 1);
        let turn = self.b.value(metile_device::Type::one(DType::I32));
        self.known.push(HashMap::new());
        self.b.begin(vec![turn]);
        let mine = self.b.compare(CompareOp::Eq, linear, turn);
        let mask = self.and(mask, mine);
        let mask = self.b.spread(mask, count);
        let store = metile_device::MemoryOp::Store { width: 1, immediates, masked: true };
        self.b.push(DeviceOp::Memory(store), &[view.pointers[0], offset, mask, stored], &[]);
        self.b.barrier();
        self.b.push(DeviceOp::Control(ControlOp::Yield), &[], &[]);
        let body = self.b.end();
        self.known.pop();
        let op = DeviceOp::Control(ControlOp::For { unroll: false });
        self.b.push_with(op, vec![low, high, step], Vec::new(), vec![body]);
    }
}
