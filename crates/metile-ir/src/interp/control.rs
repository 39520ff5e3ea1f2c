//! Loops and branches: which region a program is in, and what is carried round.

use super::machine::{Frame, Launch, Program, i64_tile};
use super::value::Value;
use crate::tile::{Kernel, Op, OpId, OpKind, RegionId, Value as ValueId};
use std::rc::Rc;

impl Launch<'_, '_> {
    pub(super) fn enter(&mut self, program: &mut Program, id: OpId, op: &Op) {
        match op.kind {
            OpKind::For => {
                let low = program.int(op.operands[0]);
                self.iterate(program, id, low, op.operands[3..].to_vec());
            }
            OpKind::While => {
                program.push(self.kernel, op.regions[0], id, 0, &op.operands);
            }
            _ => {
                let taken = usize::from(!program.tile(op.operands[0]).truth());
                program.push(self.kernel, op.regions[taken], id, 0, &[]);
            }
        }
    }

    /// One round of a `For` at `index`, or its end.
    fn iterate(&mut self, program: &mut Program, id: OpId, index: i64, carried: Vec<ValueId>) {
        let op = &self.kernel.ops[id];
        if index >= program.int(op.operands[1]) {
            return program.assign(&op.results, &carried);
        }
        let region = op.regions[0];
        program.push_with(self.kernel, region, id, index, &carried);
    }

    pub(super) fn leave(&mut self, program: &mut Program, terminator: &Op) {
        let Some(frame) = program.frames.pop() else { return };
        let Some(owner) = frame.owner else { return };
        let op = &self.kernel.ops[owner];
        match op.kind {
            OpKind::For => {
                let step = program.int(op.operands[2]).max(1);
                match frame.index.checked_add(step) {
                    Some(next) => self.iterate(program, owner, next, terminator.operands.clone()),
                    None => program.assign(&op.results, &terminator.operands),
                }
            }
            OpKind::While => {
                program.push(self.kernel, op.regions[0], owner, 0, &terminator.operands);
            }
            _ => program.assign(&op.results, &terminator.operands),
        }
    }

    pub(super) fn condition(&mut self, program: &mut Program, terminator: &Op) {
        let Some(frame) = program.frames.pop() else { return };
        let Some(owner) = frame.owner else { return };
        let op = &self.kernel.ops[owner];
        let carried = &terminator.operands[1..];
        if program.tile(terminator.operands[0]).truth() {
            program.push(self.kernel, op.regions[1], owner, 0, carried);
        } else {
            program.assign(&op.results, carried);
        }
    }
}

impl Program {
    /// Gives `targets` the values of `sources`, all read before any is written.
    fn assign(&mut self, targets: &[ValueId], sources: &[ValueId]) {
        let values: Vec<Option<Value>> =
            sources.iter().map(|v| self.values[v.index()].clone()).collect();
        for (target, value) in targets.iter().zip(values) {
            self.values[target.index()] = value;
        }
    }

    fn push(
        &mut self,
        kernel: &Kernel,
        region: RegionId,
        owner: OpId,
        index: i64,
        carried: &[ValueId],
    ) {
        self.assign(&kernel.regions[region].arguments, carried);
        self.frames.push(Frame { region, next: 0, owner: Some(owner), index });
    }

    /// As [`push`](Self::push), with the index as the first argument.
    fn push_with(
        &mut self,
        kernel: &Kernel,
        region: RegionId,
        owner: OpId,
        index: i64,
        carried: &[ValueId],
    ) {
        let arguments = &kernel.regions[region].arguments;
        self.assign(&arguments[1..], carried);
        self.set(arguments[0], Value::Tile(Rc::new(i64_tile(index))));
        self.frames.push(Frame { region, next: 0, owner: Some(owner), index });
    }
}
