//! Matrix products.

use super::pass::slot_access;
use super::{Lowering, SlotView, Val};
use crate::cpu::affine::Index;
use crate::cpu::form::*;
use metile_ir::dtype::DType;
use metile_ir::tile::{Op, OpKind, Value};

impl Lowering<'_> {
    pub(super) fn dot(&mut self, op: &Op) {
        let OpKind::Dot { transpose_a, transpose_b } = op.kind else { return };
        let [a, b, acc] = op.operands[..] else { return };
        let result = op.results[0];
        let shape = self.shape(result);
        let (m, n) = (shape.side(0), shape.side(1));
        let k = self.shape(a).side(if transpose_a { 0 } else { 1 });
        let integer = self.dtype(result) == DType::I32;
        let left = self.matrix(a, transpose_a);
        let right = self.matrix(b, !transpose_b);
        let slot = self.accumulator(op, acc, result);
        self.close();
        self.emit(Instr::Dot(Box::new(Dot { m, n, k, a: left, b: right, slot, integer })));
        self.set(result, Val::Slot(SlotView::whole(slot, &shape)));
    }

    /// An operand over the axes [rows, k].
    fn matrix(&mut self, value: Value, swap: bool) -> Access {
        self.settle(&[value]);
        let zero_fill =
            |access: &Access| access.fill.is_none_or(|reg| self.known.get(&reg) == Some(&0));
        let mut access = match self.val(value) {
            Val::Memory(access) if zero_fill(&access) => access,
            _ => {
                let dtype = self.dtype(value);
                slot_access(self.in_slot(value), dtype)
            }
        };
        if swap {
            match &mut access.place {
                Place::Tensor { index, .. } => {
                    index.iter_mut().for_each(|Index { steps, .. }| steps.swap(0, 1));
                }
                Place::Slot { strides, .. } => strides.swap(0, 1),
            }
        }
        access
    }

    /// The slot that the product is added to, holding `acc`.
    fn accumulator(&mut self, op: &Op, acc: Value, result: Value) -> SlotId {
        let (dtype, shape) = (self.dtype(result), self.shape(result));
        self.settle(&[acc]);
        // Uses of this very operation do not keep a value alive.
        let mine: Vec<Value> = op.operands.clone();
        for value in &mine {
            self.uses[value.index()] -= 1;
        }
        let read_here = |slot: SlotId, lowering: &Self| {
            mine[..2]
                .iter()
                .any(|&v| matches!(lowering.val(v), Val::Slot(view) if view.slot == slot))
        };
        let wanted = self.destination(result, &[], &shape).filter(|&s| !read_here(s, self));
        let held = match self.val(acc) {
            Val::Slot(view) if view.is_whole(&shape) => {
                // What was made outside of this loop is needed again in its next round.
                let here = self.scopes.len();
                let free = self.tenants[view.slot as usize].iter().all(|tenant| {
                    self.uses[tenant.index()] == 0
                        && (self.depths[tenant.index()] == here || wanted == Some(view.slot))
                });
                let loop_owns = self.hints.values().any(|h| h.slot == view.slot);
                (free && !read_here(view.slot, self) && (!loop_owns || wanted == Some(view.slot)))
                    .then_some(view.slot)
            }
            _ => None,
        };
        for value in &mine {
            self.uses[value.index()] += 1;
        }
        match (wanted, held) {
            (Some(slot), Some(held)) if slot == held => slot,
            (None, Some(held)) => held,
            (wanted, _) => {
                let slot = wanted.unwrap_or_else(|| self.slot(dtype, &shape));
                self.copy_to(acc, slot);
                slot
            }
        }
    }
}
