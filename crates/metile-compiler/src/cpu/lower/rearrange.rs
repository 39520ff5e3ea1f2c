//! Operations that rearrange elements: mostly other walks over the same memory.

use super::{Lowering, SlotView, Val, row_major};
use crate::cpu::affine::Rearrange;
use crate::cpu::form::*;
use metile_ir::tile::{Op, OpKind, Value};

impl Lowering<'_> {
    pub(super) fn rearrange(&mut self, op: &Op) {
        let (from, result) = (op.operands[0], op.results[0]);
        let to = self.shape(result);
        match &op.kind {
            OpKind::Broadcast => self.walk(op, Rearrange::Broadcast(&to)),
            OpKind::Reshape => self.walk(op, Rearrange::Reshape(&to)),
            OpKind::Transpose(axes) => self.walk(op, Rearrange::Transpose(axes)),
            OpKind::Slice { axis, start, step } => {
                let (start, step) = (i64::from(*start), i64::from(*step));
                self.walk(op, Rearrange::Slice { axis: *axis as usize, start, step });
            }
            OpKind::Cat { axis } => self.cat(&op.operands, *axis as usize, result),
            _ => {
                let OpKind::Gather { axis } = op.kind else { return };
                self.gather(from, op.operands[1], axis as usize, result);
            }
        }
    }

    fn walk(&mut self, op: &Op, walk: Rearrange<'_>) {
        let (from, result) = (op.operands[0], op.results[0]);
        let (shape, to) = (self.shape(from), self.shape(result));
        self.settle(&op.operands);
        if shape.is_scalar() || to.is_scalar() {
            return self.across_scalar(from, result);
        }
        let moved = match self.val(from) {
            Val::Reg(reg) | Val::Uniform(reg) => Some(Val::Uniform(reg)),
            Val::Index(index) => index.rearranged(&shape, &walk).map(Val::Index),
            Val::Mask(compare, a, b) => a
                .rearranged(&shape, &walk)
                .zip(b.rearranged(&shape, &walk))
                .map(|(a, b)| Val::Mask(compare, a, b)),
            Val::Memory(access) => self.walk_memory(access, &shape, &walk),
            _ => None,
        };
        if let Some(val) = moved {
            return self.set(result, val);
        }
        let view = self.in_slot(from);
        if let Some((by, strides)) = walk.apply(&shape, &view.strides) {
            let view = SlotView { slot: view.slot, offset: view.offset + by, strides };
            return self.set(result, Val::Slot(view));
        }
        // Only a reshape of something that is not row-major comes here.
        let slot = self.in_whole_slot(from);
        self.set(result, Val::Slot(SlotView { slot, offset: 0, strides: row_major(&to) }));
    }

    fn walk_memory(
        &self,
        access: Access,
        shape: &metile_ir::tile::Shape,
        walk: &Rearrange<'_>,
    ) -> Option<Val> {
        let Access { place: Place::Tensor { view, format, index }, dtype, widen, fill } = access
        else {
            return None;
        };
        let index: Option<Vec<_>> = index.iter().map(|i| i.rearranged(shape, walk)).collect();
        let place = Place::Tensor { view, format, index: index? };
        Some(Val::Memory(Access { place, dtype, widen, fill }))
    }

    /// A scalar becomes a tile of it; a tile of one element becomes a scalar.
    fn across_scalar(&mut self, from: Value, result: Value) {
        let (shape, to) = (self.shape(from), self.shape(result));
        match (shape.is_scalar(), to.is_scalar()) {
            (true, true) => {
                let reg = self.scalar(from);
                self.invariant[result.index()] = self.invariant[from.index()];
                self.set(result, Val::Reg(reg));
            }
            (true, false) => {
                let reg = self.scalar(from);
                self.invariant[result.index()] = self.invariant[from.index()];
                self.set(result, Val::Uniform(reg));
            }
            _ => {
                if let Val::Uniform(reg) = self.val(from) {
                    return self.set(result, Val::Reg(reg));
                }
                // The maximum of one element is that element, NaN payloads aside; a sum would lose
                // the sign of nothing, so a load from the slot it is.
                let slot = self.in_whole_slot(from);
                let (dtype, reg) = (self.dtype(from), self.reg());
                self.emit(Instr::LoadSlot { slot, dtype, to: reg });
                self.set(result, Val::Reg(reg));
            }
        }
    }

    /// Parts one after the other: each is written to its stretch of the result.
    fn cat(&mut self, parts: &[Value], axis: usize, result: Value) {
        let (dtype, shape) = (self.dtype(result), self.shape(result));
        let slot = self.slot(dtype, &shape);
        let strides = row_major(&shape);
        let mut start = 0;
        for &part in parts {
            let offset = start * strides[axis];
            self.copy_to_view(part, SlotView { slot, offset, strides });
            start += self.shape(part).side(axis) as i64;
        }
        self.set(result, Val::Slot(SlotView::whole(slot, &shape)));
    }

    fn gather(&mut self, from: Value, index: Value, axis: usize, result: Value) {
        let (from_slot, index_slot) = (self.in_whole_slot(from), self.in_whole_slot(index));
        self.close();
        let (dtype, shape) = (self.dtype(from), self.shape(from));
        let (index_dtype, index_shape) = (self.dtype(index), self.shape(index));
        let to = self.slot(dtype, &index_shape);
        let tile = TileOp::Gather {
            dtype,
            axis,
            from: from_slot,
            shape,
            index: index_slot,
            index_dtype,
            index_shape,
            to,
        };
        self.emit(Instr::Tile(Box::new(tile)));
        self.set(result, Val::Slot(SlotView::whole(to, &index_shape)));
    }
}
