//! Reductions and scans.

use super::{Lowering, SlotView, Val, row_major};
use crate::cpu::form::*;
use metile_ir::dtype::DType;
use metile_ir::tile::{MAX_RANK, Op, OpKind, ReduceOp, Value};

impl Lowering<'_> {
    pub(super) fn combine(&mut self, op: &Op) {
        let (from, result) = (op.operands[0], op.results[0]);
        let (dtype, shape) = (self.dtype(from), self.shape(from));
        let to = self.shape(result);
        match op.kind {
            OpKind::Reduce { op: reduce, axis } => {
                let axis = axis as usize;
                let last = axis + 1 == shape.rank();
                if last || matches!(reduce, ReduceOp::Sum | ReduceOp::Max | ReduceOp::Min) {
                    return self.in_pass(from, result, reduce, axis);
                }
                let slot = self.in_whole_slot(from);
                self.close();
                let out = self.slot(self.dtype(result), &to);
                let tile = TileOp::Reduce { op: reduce, dtype, axis, from: slot, shape, to: out };
                self.emit(Instr::Tile(Box::new(tile)));
                self.set(result, Val::Slot(SlotView::whole(out, &to)));
            }
            OpKind::Scan { op: scan, axis } => {
                let (axis, slot) = (axis as usize, self.in_whole_slot(from));
                self.close();
                let out = self.slot(dtype, &shape);
                let tile = TileOp::Scan { op: scan, dtype, axis, from: slot, shape, to: out };
                self.emit(Instr::Tile(Box::new(tile)));
                self.set(result, Val::Slot(SlotView::whole(out, &shape)));
            }
            _ => {}
        }
    }

    fn in_pass(&mut self, from: Value, result: Value, reduce: ReduceOp, axis: usize) {
        let (dtype, shape) = (self.dtype(from), self.shape(from));
        self.join_with(shape, &[from]);
        let source = self.chunk(from);
        let to = self.shape(result);
        let target = if to.is_scalar() {
            ReductionTarget::Reg(self.reg())
        } else {
            let slot = self.slot(result_dtype(reduce, dtype), &to);
            let inner = row_major(&to);
            let mut strides = [0; MAX_RANK];
            for (a, stride) in strides.iter_mut().enumerate().take(shape.rank()) {
                let without = if a < axis { a } else { a.wrapping_sub(1) };
                *stride = if a == axis { 0 } else { inner[without] };
            }
            ReductionTarget::Slot { slot, strides }
        };
        self.reduce_into(result, source, Reduction { op: reduce, dtype, axis, to: target });
    }
}

fn result_dtype(reduce: ReduceOp, dtype: DType) -> DType {
    match reduce {
        ReduceOp::ArgMax | ReduceOp::ArgMin => DType::I64,
        _ => dtype,
    }
}
