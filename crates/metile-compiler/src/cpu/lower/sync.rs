//! Waiting for other programs, and talking to people.

use super::Lowering;
use crate::cpu::form::*;
use metile_ir::tile::{Op, OpKind};

impl Lowering<'_> {
    pub(super) fn sync(&mut self, op: &Op) {
        match &op.kind {
            OpKind::CounterAdd | OpKind::CounterWait => {
                let view = self.view_of(op.operands[0]);
                let (index, n) = (self.scalar(op.operands[1]), self.scalar(op.operands[2]));
                self.close();
                let kind =
                    if op.kind == OpKind::CounterAdd { CounterOp::Add } else { CounterOp::Wait };
                let name = self.kernel.parameter_name(self.roots[view as usize]);
                self.emit(Instr::Counter { op: kind, view, index, n, name, span: op.span });
            }
            OpKind::GridBarrier => {
                self.close();
                self.emit(Instr::Barrier { span: op.span });
            }
            OpKind::Assert { message } => {
                let once =
                    self.is_invariant(&op.operands) && self.shape(op.operands[0]).is_scalar();
                let value = self.carrier(op.operands[0]);
                let assert = Instr::Assert { value, message: message.clone(), span: op.span };
                if once {
                    return self.prologue.push(assert);
                }
                self.close();
                self.emit(assert);
            }
            OpKind::Print { format } => {
                let values = op.operands.iter().map(|&v| self.carrier(v)).collect();
                self.close();
                self.emit(Instr::Print { values, format: format.clone() });
            }
            _ => {}
        }
    }
}
