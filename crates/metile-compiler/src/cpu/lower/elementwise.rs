//! Operations on one element at a time.

use super::{Lowering, Val};
use crate::cpu::form::*;
use metile_ir::dtype::DType;
use metile_ir::tile::{BinaryOp, Op, OpKind, Value};

impl Lowering<'_> {
    pub(super) fn elementwise(&mut self, op: &Op) {
        let result = op.results[0];
        if self.shape(result).is_scalar() {
            return self.on_scalars(op);
        }
        self.settle(&op.operands);
        // A tile of one scalar stays one.
        let uniform: Option<Vec<Reg>> = op
            .operands
            .iter()
            .map(|&v| match self.val(v) {
                Val::Uniform(reg) => Some(reg),
                _ => None,
            })
            .collect();
        if let Some(regs) = uniform {
            let to = self.scalar_op(op, &regs);
            return self.set(result, Val::Uniform(to));
        }
        match op.kind {
            OpKind::Binary(binary) if self.on_indices(binary, op) => {}
            OpKind::Compare(compare) => {
                let pair = (self.index(op.operands[0]), self.index(op.operands[1]));
                if let (Some(a), Some(b)) = pair {
                    return self.set(result, Val::Mask(compare, a, b));
                }
                self.on_chunks(op);
            }
            OpKind::Cast if self.widens(op) => {}
            _ => self.on_chunks(op),
        }
    }

    /// The operation on scalars that `op` is.
    fn scalar_op(&mut self, op: &Op, regs: &[Reg]) -> Reg {
        let dtype = self.dtype(op.operands[0]);
        let kind = match op.kind {
            OpKind::Unary(unary) => ScalarOp::Unary(unary, dtype),
            OpKind::Binary(binary) => ScalarOp::Binary(binary, dtype),
            OpKind::Compare(compare) => ScalarOp::Compare(compare, dtype),
            OpKind::Select => ScalarOp::Select,
            OpKind::Fma => ScalarOp::Fma,
            OpKind::Cast => ScalarOp::Cast(dtype, self.dtype(op.results[0])),
            _ => ScalarOp::Move,
        };
        let to = self.reg();
        let at = |n: usize| regs.get(n).copied().unwrap_or(0);
        let instr = Instr::Scalar { op: kind, a: at(0), b: at(1), c: at(2), to };
        self.emit_for(&op.operands, &op.results, instr);
        self.track(kind, regs, to);
        to
    }

    /// Remembers sums of registers, so that two indices can be told apart by a constant.
    fn track(&mut self, op: ScalarOp, regs: &[Reg], to: Reg) {
        let ScalarOp::Binary(binary, DType::I64) = op else { return };
        let (a, b) = (self.linear(regs[0]), self.linear(regs[1]));
        let sum = match binary {
            BinaryOp::Add => a.plus(&b, 1),
            BinaryOp::Sub => a.plus(&b, -1),
            BinaryOp::Mul => match (a.known(), b.known()) {
                (Some(k), _) => crate::cpu::Linear::default().plus(&b, k),
                (_, Some(k)) => crate::cpu::Linear::default().plus(&a, k),
                _ => None,
            },
            _ => None,
        };
        // Only sums of registers that keep their value: those of loops change under it.
        if let Some(sum) = sum {
            self.linear.insert(to, sum);
        }
    }

    fn on_scalars(&mut self, op: &Op) {
        let regs: Vec<Reg> = op.operands.iter().map(|&v| self.scalar(v)).collect();
        let to = self.scalar_op(op, &regs);
        self.set(op.results[0], Val::Reg(to));
    }

    /// Sums and multiples of index tiles are index tiles.
    fn on_indices(&mut self, binary: BinaryOp, op: &Op) -> bool {
        let (Some(a), Some(b)) = (self.index(op.operands[0]), self.index(op.operands[1])) else {
            return false;
        };
        let zero = crate::cpu::Index::uniform(crate::cpu::Linear::default());
        let constant = |index: &crate::cpu::Index| {
            index.steps.iter().all(|&s| s == 0).then(|| index.base.known()).flatten()
        };
        let sum = match binary {
            BinaryOp::Add => a.plus(&b, 1),
            BinaryOp::Sub => a.plus(&b, -1),
            BinaryOp::Mul => match (constant(&a), constant(&b)) {
                (Some(k), _) => zero.plus(&b, k),
                (_, Some(k)) => zero.plus(&a, k),
                _ => None,
            },
            _ => None,
        };
        if let Some(index) = sum {
            self.set(op.results[0], Val::Index(index));
            return true;
        }
        false
    }

    /// `f16` or `bf16` memory is widened as it is read.
    fn widens(&mut self, op: &Op) -> bool {
        let half = matches!(self.dtype(op.operands[0]), DType::F16 | DType::BF16);
        if !half || self.dtype(op.results[0]) != DType::F32 {
            return false;
        }
        let Val::Memory(mut access) = self.val(op.operands[0]) else { return false };
        access.widen = true;
        self.set(op.results[0], Val::Memory(access));
        true
    }

    fn on_chunks(&mut self, op: &Op) {
        let (result, shape) = (op.results[0], self.shape(op.results[0]));
        let dtype = self.dtype(op.operands[0]);
        self.join_with(shape, &op.operands);
        let operands: Vec<Value> = op.operands.clone();
        // Values of the pass stay where they are while it is open; a pass that is full is ended
        // before the first operand is looked up.
        match op.kind {
            OpKind::Unary(unary) => {
                let a = self.chunk(operands[0]);
                self.make(result, |to| Step::Unary { op: unary, dtype, a, to });
            }
            OpKind::Binary(binary) => {
                let (a, b) = (self.source(operands[0]), self.source(operands[1]));
                self.make(result, |to| Step::Binary { op: binary, dtype, a, b, to });
            }
            OpKind::Compare(compare) => {
                let (a, b) = (self.source(operands[0]), self.source(operands[1]));
                self.make(result, |to| Step::Compare { op: compare, dtype, a, b, to });
            }
            OpKind::Select => {
                let dtype = self.dtype(result);
                if let Val::Mask(op, x, y) = self.val(operands[0]) {
                    let (a, b) = (self.source(operands[1]), self.source(operands[2]));
                    return self.make(result, |to| Step::SelectIndex { dtype, op, x, y, a, b, to });
                }
                let c = self.chunk(operands[0]);
                let (a, b) = (self.chunk(operands[1]), self.chunk(operands[2]));
                self.make(result, |to| Step::Select { dtype, c, a, b, to });
            }
            OpKind::Fma => {
                let a = self.chunk(operands[0]);
                let (b, c) = (self.chunk(operands[1]), self.chunk(operands[2]));
                self.make(result, |to| Step::Fma { a, b, c, to });
            }
            OpKind::Cast => {
                let to_dtype = self.dtype(result);
                let a = self.chunk(operands[0]);
                self.make(result, |to| Step::Cast { from: dtype, dtype: to_dtype, a, to });
            }
            _ => {
                // The same bits under another name; chunks have no dtype of their own.
                let a = self.chunk(operands[0]);
                self.make(result, |to| Step::Cast { from: dtype, dtype, a, to });
            }
        }
    }
}
