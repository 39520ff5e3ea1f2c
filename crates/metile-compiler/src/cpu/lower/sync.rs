//! Waiting for other programs, and talking to people.

use super::Lowering;
use crate::cpu::form::*;
use metile_ir::tile::{Op, OpId, OpKind};

impl Lowering<'_> {
    pub(super) fn sync(&mut self, id: OpId, op: &Op) {
        match &op.kind {
            OpKind::CounterAdd | OpKind::CounterWait => {
                let view = self.view_of(op.operands[0]);
                let (index, n) = (self.scalar(op.operands[1]), self.scalar(op.operands[2]));
                self.close();
                let kind =
                    if op.kind == OpKind::CounterAdd { CounterOp::Add } else { CounterOp::Wait };
                self.emit(Instr::Counter { op: kind, view, index, n, source: id });
            }
            OpKind::GridBarrier => {
                self.close();
                self.emit(Instr::Barrier { source: id });
            }
            OpKind::Assert { message } => {
                let value = self.carrier(op.operands[0]);
                self.close();
                self.emit(Instr::Assert { value, message: message.clone(), span: op.span });
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
