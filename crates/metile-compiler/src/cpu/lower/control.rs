//! Loops and branches.

use super::{Hint, Lowering, SlotView, Val};
use crate::cpu::form::*;
use metile_ir::tile::{Op, OpKind, RegionId, Shape, Value};

/// Where a value that goes round a loop, or comes out of a branch, lives.
#[derive(Clone, Copy, Debug)]
enum Home {
    Reg(Reg),
    Slot(SlotId, Shape),
}

impl Home {
    fn val(self) -> Val {
        match self {
            Home::Reg(reg) => Val::Reg(reg),
            Home::Slot(slot, shape) => Val::Slot(SlotView::whole(slot, &shape)),
        }
    }
}

impl Lowering<'_> {
    pub(super) fn control(&mut self, op: &Op) {
        match op.kind {
            OpKind::For => self.for_loop(op),
            OpKind::While => self.while_loop(op),
            _ => self.branch(op),
        }
    }

    fn homes(&mut self, values: &[Value]) -> Vec<Home> {
        values
            .iter()
            .map(|&value| {
                let shape = self.shape(value);
                if shape.is_scalar() {
                    return Home::Reg(self.reg());
                }
                Home::Slot(self.slot(self.dtype(value), &shape), shape)
            })
            .collect()
    }

    fn settle_in(&mut self, values: &[Value], homes: &[Home]) {
        for (&value, home) in values.iter().zip(homes) {
            self.set(value, home.val());
        }
    }

    fn terminator(&self, region: RegionId) -> Vec<Value> {
        let last = self.kernel.regions[region].ops.last();
        last.map(|&op| self.kernel.ops[op].operands.clone()).unwrap_or_default()
    }

    fn for_loop(&mut self, op: &Op) {
        let region = op.regions[0];
        let [low, high, step] = [0, 1, 2].map(|n| self.scalar(op.operands[n]));
        let homes = self.homes(&op.results);
        self.move_in(&op.operands[3..], &homes);
        self.close();
        let arguments = self.kernel.regions[region].arguments.clone();
        let index = self.reg();
        self.set(arguments[0], Val::Reg(index));
        self.settle_in(&arguments[1..], &homes);
        let start = self.code.len();
        self.emit(Instr::ForStart { index, low, high, exit: 0 });
        let yields = self.terminator(region);
        self.expect(&yields, &homes, Some(&arguments[1..]));
        self.region(region);
        self.move_in(&yields, &homes);
        self.done_with(&yields);
        self.leave();
        self.emit(Instr::ForEnd { index, high, step, body: start + 1 });
        let exit = self.code.len();
        self.patch(start, exit);
        self.loops.push((start, exit));
        self.settle_in(&op.results, &homes);
    }

    fn while_loop(&mut self, op: &Op) {
        let (test, body) = (op.regions[0], op.regions[1]);
        let homes = self.homes(&op.results);
        self.move_in(&op.operands, &homes);
        self.close();
        let start = self.code.len();
        let arguments = self.kernel.regions[test].arguments.clone();
        self.settle_in(&arguments, &homes);
        let leaving = self.terminator(test);
        self.region(test);
        let condition = self.scalar(leaving[0]);
        // The carried values may overwrite what the condition lies in.
        let kept = self.reg();
        self.emit(Instr::Scalar { op: ScalarOp::Move, a: condition, b: 0, c: 0, to: kept });
        self.move_in(&leaving[1..], &homes);
        self.done_with(&leaving);
        self.leave();
        let jump = self.code.len();
        self.emit(Instr::JumpUnless(kept, 0));
        let arguments = self.kernel.regions[body].arguments.clone();
        self.settle_in(&arguments, &homes);
        let yields = self.terminator(body);
        self.expect(&yields, &homes, Some(&arguments));
        self.region(body);
        self.move_in(&yields, &homes);
        self.done_with(&yields);
        self.leave();
        self.emit(Instr::Jump(start));
        let exit = self.code.len();
        self.patch(jump, exit);
        self.loops.push((start, exit));
        self.settle_in(&op.results, &homes);
    }

    fn branch(&mut self, op: &Op) {
        let condition = self.scalar(op.operands[0]);
        self.close();
        let homes = self.homes(&op.results);
        let jump = self.code.len();
        self.emit(Instr::JumpUnless(condition, 0));
        self.arm(op.regions[0], &homes);
        let skip = self.code.len();
        self.emit(Instr::Jump(0));
        self.patch(jump, skip + 1);
        self.arm(op.regions[1], &homes);
        let end = self.code.len();
        self.patch(skip, end);
        self.settle_in(&op.results, &homes);
    }

    fn arm(&mut self, region: RegionId, homes: &[Home]) {
        let yields = self.terminator(region);
        self.expect(&yields, homes, None);
        self.region(region);
        self.move_in(&yields, homes);
        self.done_with(&yields);
        self.leave();
    }

    fn patch(&mut self, at: usize, target: usize) {
        if let Some(to) = self.code[at].target_mut() {
            *to = target;
        }
    }

    fn done_with(&mut self, values: &[Value]) {
        for value in values {
            self.uses[value.index()] -= 1;
        }
    }

    /// Says where the values that a region gives at its end are wanted.
    fn expect(&mut self, yields: &[Value], homes: &[Home], arguments: Option<&[Value]>) {
        for (n, (value, home)) in yields.iter().zip(homes).enumerate() {
            let once = yields.iter().filter(|v| *v == value).count() == 1;
            if let (Home::Slot(slot, _), true) = (home, once) {
                let argument = arguments.map(|a| a[n]);
                self.hints.insert(*value, Hint { slot: *slot, argument });
            }
        }
    }

    /// Puts `values` where they live from now on, as if all at once.
    fn move_in(&mut self, values: &[Value], homes: &[Home]) {
        // Ends the pass that makes them, so that they can go straight where they are wanted.
        self.close();
        let slots: Vec<SlotId> = homes
            .iter()
            .filter_map(|home| match home {
                Home::Slot(slot, _) => Some(*slot),
                Home::Reg(_) => None,
            })
            .collect();
        // A tile that lies in another one's home, or turned round in its own, is copied aside first.
        let mut pending: Vec<(Value, SlotId, Shape)> = Vec::new();
        for (&value, home) in values.iter().zip(homes) {
            let Home::Slot(slot, shape) = *home else { continue };
            if let Val::Slot(view) = self.val(value) {
                if view.slot == slot && view.is_whole(&shape) {
                    continue;
                }
                if slots.contains(&view.slot) {
                    let aside = self.slot(self.dtype(value), &shape);
                    self.copy_to(value, aside);
                    pending.push((value, slot, shape));
                    self.aside(value, aside, &shape);
                    continue;
                }
            }
            pending.push((value, slot, shape));
        }
        for (value, slot, _) in pending {
            self.copy_to(value, slot);
        }
        self.move_scalars(values, homes);
    }

    /// From here to the end of the region `value` is read from the copy.
    fn aside(&mut self, value: Value, slot: SlotId, shape: &Shape) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.push((value, self.values[value.index()].clone()));
        }
        self.set(value, Val::Slot(SlotView::whole(slot, shape)));
    }

    fn move_scalars(&mut self, values: &[Value], homes: &[Home]) {
        let mut moves: Vec<(Reg, Reg)> = Vec::new();
        for (&value, home) in values.iter().zip(homes) {
            if let Home::Reg(to) = *home {
                let from = self.scalar(value);
                if from != to {
                    moves.push((from, to));
                }
            }
        }
        let targets: Vec<Reg> = moves.iter().map(|&(_, to)| to).collect();
        let crossed = moves.iter().any(|(from, _)| targets.contains(from));
        if crossed {
            for (from, _) in &mut moves {
                let kept = self.reg();
                self.emit(Instr::Scalar { op: ScalarOp::Move, a: *from, b: 0, c: 0, to: kept });
                *from = kept;
            }
        }
        for (from, to) in moves {
            self.emit(Instr::Scalar { op: ScalarOp::Move, a: from, b: 0, c: 0, to });
        }
    }
}
