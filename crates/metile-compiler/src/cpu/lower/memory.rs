//! Views, loads, stores and atomics.

use super::{Lowering, Val};
use crate::cpu::affine::Index;
use crate::cpu::form::*;
use metile_ir::tile::{Access as TensorAccess, AtomicOp, Op, OpKind, Value};

impl Lowering<'_> {
    pub(super) fn memory(&mut self, op: &Op) {
        match op.kind {
            OpKind::Dim { axis } => {
                let (view, to) = (self.view_of(op.operands[0]), self.reg());
                let instr = Instr::Dim { view, axis, to };
                self.emit_for(&op.operands, &op.results, instr);
                self.set(op.results[0], Val::Reg(to));
            }
            OpKind::Narrow { axis } => {
                let (start, length) = (self.scalar(op.operands[1]), self.scalar(op.operands[2]));
                self.view_op(op, ViewOp::Narrow { axis, start, length });
            }
            OpKind::Pick { axis } => {
                let index = self.scalar(op.operands[1]);
                self.view_op(op, ViewOp::Pick { axis, index });
            }
            OpKind::ListItem => self.list_item(op),
            OpKind::Load { masked } => self.load(op, masked),
            OpKind::LoadTile => self.load_tile(op),
            OpKind::Store { masked } => self.store(op, masked),
            OpKind::StoreTile => self.store_tile(op),
            OpKind::AtomicRmw(atomic) => self.atomic(op, atomic, false),
            _ => self.atomic(op, AtomicOp::Exchange, true),
        }
    }

    fn new_view(&mut self, op: &Op, root: usize) -> ViewId {
        let ty = self.kernel.ty(op.results[0]).tensor();
        // The verifier made sure that the result is a tensor.
        let fallback = self.views.first().copied();
        match ty.or(fallback) {
            Some(ty) => self.view(ty, root),
            None => 0,
        }
    }

    fn view_op(&mut self, op: &Op, kind: ViewOp) {
        let from = self.view_of(op.operands[0]);
        let root = self.roots[from as usize];
        let to = self.new_view(op, root);
        self.emit_for(&op.operands, &op.results, Instr::View { op: kind, from, to });
        self.set(op.results[0], Val::View(to));
    }

    fn list_item(&mut self, op: &Op) {
        let index = self.scalar(op.operands[1]);
        let Val::List(list) = self.val(op.operands[0]) else { return };
        let root = self.list_roots[list as usize];
        let to = self.new_view(op, root);
        self.emit_for(&op.operands, &op.results, Instr::ListItem { list, index, to });
        self.set(op.results[0], Val::View(to));
    }

    fn rank(&self, view: ViewId) -> usize {
        self.views[view as usize].rank as usize
    }
    fn is_read_only(&self, view: ViewId) -> bool {
        self.views[view as usize].access == TensorAccess::Read
    }

    fn load(&mut self, op: &Op, masked: bool) {
        let view = self.view_of(op.operands[0]);
        let rank = self.rank(view);
        let coordinates = &op.operands[1..=rank];
        let mask = masked.then(|| op.operands[1 + rank]);
        let fill = *op.operands.last().unwrap_or(&op.operands[0]);
        if self.shape(op.results[0]).is_scalar() {
            return self.load_scalar(op, view, coordinates, mask, fill);
        }
        self.settle(&op.operands);
        let index: Option<Vec<Index>> = coordinates.iter().map(|&c| self.index(c)).collect();
        let fill_reg = self.scalar(fill);
        match index {
            Some(index) => self.load_at(op.results[0], view, index, fill_reg, mask),
            None => self.gather_load(op.results[0], view, coordinates, fill_reg, mask),
        }
    }

    fn load_tile(&mut self, op: &Op) {
        let view = self.view_of(op.operands[0]);
        let rank = self.rank(view);
        let index = self.rectangle(&op.operands[1..=rank]);
        let fill = self.scalar(op.operands[1 + rank]);
        self.load_at(op.results[0], view, index, fill, None);
    }

    /// The coordinates of a rectangle at `origin`.
    fn rectangle(&mut self, origin: &[Value]) -> Vec<Index> {
        let start = |(axis, &value): (usize, &Value)| {
            let reg = self.scalar(value);
            let mut index = Index::uniform(self.linear(reg));
            index.steps[axis] = 1;
            index
        };
        origin.iter().enumerate().map(start).collect()
    }

    /// A load along index tiles. What nobody writes is read where it is used, as often as it is.
    fn load_at(
        &mut self,
        result: Value,
        view: ViewId,
        index: Vec<Index>,
        fill: Reg,
        mask: Option<Value>,
    ) {
        let format = self.views[view as usize].format;
        let place = Place::Tensor { view, format, index };
        let access = Access { place, dtype: format.loaded(), widen: false, fill: Some(fill) };
        if mask.is_none() && self.is_read_only(view) {
            return self.set(result, Val::Memory(access));
        }
        let shape = self.shape(result);
        let root = self.roots[view as usize];
        self.join_with(shape, mask.as_slice());
        if !self.is_read_only(view) {
            self.before_read(shape, root);
            self.note_read(root, access.place.clone());
        }
        let dtype = access.dtype;
        let Some(mask) = mask else {
            let access = self.add_access(shape, access);
            return self.make(result, |to| Step::Load { access, to });
        };
        let access = self.add_access(shape, access);
        let loaded = self.join(shape).temp();
        self.push_step(shape, Step::Load { access, to: loaded });
        let c = self.chunk(mask);
        let b = self.join(shape).filled(dtype, fill);
        self.make(result, |to| Step::Select { dtype, c, a: Source::Temp(loaded), b, to });
    }

    fn gather_load(
        &mut self,
        result: Value,
        view: ViewId,
        coordinates: &[Value],
        fill: Reg,
        mask: Option<Value>,
    ) {
        let shape = self.shape(result);
        let format = self.views[view as usize].format;
        let root = self.roots[view as usize];
        let mut used = coordinates.to_vec();
        used.extend(mask);
        self.join_with(shape, &used);
        if !self.is_read_only(view) {
            self.before_read(shape, root);
        }
        let at = coordinates.iter().map(|&c| (self.chunk(c), self.dtype(c))).collect();
        let dtype = format.loaded();
        // No place that another walk is known to keep clear of.
        let anywhere = Place::Tensor { view, format, index: Vec::new() };
        if !self.is_read_only(view) {
            self.note_read(root, anywhere);
        }
        let Some(mask) = mask else {
            return self.make(result, |to| Step::Gather { view, format, at, fill, to });
        };
        let loaded = self.join(shape).temp();
        self.push_step(shape, Step::Gather { view, format, at, fill, to: loaded });
        let c = self.chunk(mask);
        let b = self.join(shape).filled(dtype, fill);
        self.make(result, |to| Step::Select { dtype, c, a: Source::Temp(loaded), b, to });
    }

    fn load_scalar(
        &mut self,
        op: &Op,
        view: ViewId,
        coordinates: &[Value],
        mask: Option<Value>,
        fill: Value,
    ) {
        if self.touches(self.roots[view as usize]) {
            self.close();
        }
        let format = self.views[view as usize].format;
        let at = coordinates.iter().map(|&c| self.scalar(c)).collect();
        let dtypes = coordinates.iter().map(|&c| self.dtype(c)).collect();
        let mask = mask.map(|m| self.scalar(m));
        let (fill, to) = (self.scalar(fill), self.reg());
        let instr = Instr::LoadScalar { view, format, at, coordinates: dtypes, mask, fill, to };
        if self.is_read_only(view) {
            self.emit_for(&op.operands, &op.results, instr);
        } else {
            self.emit(instr);
        }
        self.set(op.results[0], Val::Reg(to));
    }

    fn store(&mut self, op: &Op, masked: bool) {
        let view = self.view_of(op.operands[0]);
        let rank = self.rank(view);
        let coordinates = &op.operands[1..=rank];
        let mask = masked.then(|| op.operands[1 + rank]);
        let value = *op.operands.last().unwrap_or(&op.operands[0]);
        let dtype = self.dtype(value);
        if self.shape(value).is_scalar() {
            if self.touches(self.roots[view as usize]) {
                self.close();
            }
            let at = coordinates.iter().map(|&c| self.scalar(c)).collect();
            let dtypes = coordinates.iter().map(|&c| self.dtype(c)).collect();
            let mask = mask.map(|m| self.scalar(m));
            let value = self.scalar(value);
            let instr = Instr::StoreScalar { view, dtype, at, coordinates: dtypes, mask, value };
            return self.emit(instr);
        }
        self.settle(&op.operands);
        let index: Option<Vec<Index>> = coordinates.iter().map(|&c| self.index(c)).collect();
        match (index, mask) {
            (Some(index), None) => self.store_at(view, index, value),
            _ => self.scatter(view, coordinates, mask, value),
        }
    }

    fn store_tile(&mut self, op: &Op) {
        let view = self.view_of(op.operands[0]);
        let rank = self.rank(view);
        let index = self.rectangle(&op.operands[1..=rank]);
        let value = op.operands[1 + rank];
        self.store_at(view, index, value);
    }

    fn store_at(&mut self, view: ViewId, index: Vec<Index>, value: Value) {
        let (dtype, shape) = (self.dtype(value), self.shape(value));
        let format = self.views[view as usize].format;
        let root = self.roots[view as usize];
        let place = Place::Tensor { view, format, index };
        self.join_with(shape, &[value]);
        self.before_write(shape, root, &place);
        let source = self.chunk(value);
        self.note_write(root, place.clone());
        let access = self.add_access(shape, Access { place, dtype, widen: false, fill: None });
        self.push_step(shape, Step::Store { access, value: source });
    }

    fn scatter(&mut self, view: ViewId, coordinates: &[Value], mask: Option<Value>, value: Value) {
        let (dtype, shape) = (self.dtype(value), self.shape(value));
        let format = self.views[view as usize].format;
        let root = self.roots[view as usize];
        let mut used = coordinates.to_vec();
        used.extend(mask);
        used.push(value);
        self.join_with(shape, &used);
        let anywhere = Place::Tensor { view, format, index: Vec::new() };
        if self.touches(root) {
            self.close();
        }
        self.join(shape);
        let at = coordinates.iter().map(|&c| (self.chunk(c), self.dtype(c))).collect();
        let mask = mask.map(|m| self.chunk(m));
        let source = self.chunk(value);
        self.push_step(shape, Step::Scatter { view, dtype, at, mask, value: source });
        self.note_write(root, anywhere);
        // A second write may meet the first in another order.
        self.close();
    }

    fn atomic(&mut self, op: &Op, atomic: AtomicOp, swap: bool) {
        let view = self.view_of(op.operands[0]);
        let rank = self.rank(view);
        let at: Vec<Carrier> = op.operands[1..=rank].iter().map(|&c| self.carrier(c)).collect();
        let expected = swap.then(|| self.carrier(op.operands[1 + rank]));
        let value = self.carrier(*op.operands.last().unwrap_or(&op.operands[0]));
        self.close();
        let (result, dtype) = (op.results[0], self.dtype(op.results[0]));
        let shape = self.shape(result);
        let to = if shape.is_scalar() {
            let reg = self.reg();
            self.set(result, Val::Reg(reg));
            Carrier::Reg(reg, dtype)
        } else {
            let slot = self.slot(dtype, &shape);
            self.set(result, Val::Slot(super::SlotView::whole(slot, &shape)));
            Carrier::Slot(slot, dtype, shape)
        };
        let elements = shape.elements();
        let tile = TileOp::Atomic { op: atomic, dtype, view, at, expected, value, to, elements };
        self.emit(Instr::Tile(Box::new(tile)));
    }

    /// `value` outside of passes.
    pub(super) fn carrier(&mut self, value: Value) -> Carrier {
        let (dtype, shape) = (self.dtype(value), self.shape(value));
        if shape.is_scalar() {
            return Carrier::Reg(self.scalar(value), dtype);
        }
        Carrier::Slot(self.in_whole_slot(value), dtype, shape)
    }
}
