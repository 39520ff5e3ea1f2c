//! Loops and branches.

use super::{Lowering, Val, registers};
use metile_device::{Block, ControlOp, Op as DeviceOp, Type as DeviceType, Value as Dv};
use metile_ir::diagnostic::Diagnostic;
use metile_ir::dtype::DType;
use metile_ir::tile::{Op, OpKind, RegionId, Value};
use std::collections::HashMap;

type Refused = Box<Diagnostic>;

impl<'k> Lowering<'k> {
    pub(super) fn control(&mut self, op: &'k Op) -> Result<(), Refused> {
        match op.kind {
            OpKind::For => self.for_loop(op),
            OpKind::While => self.while_loop(op),
            _ => self.branch(op),
        }
    }

    /// The type of `value` in registers.
    fn carried_type(&self, value: Value) -> DeviceType {
        match self.is_scalar(value) {
            true => DeviceType::one(self.dtype(value)),
            false => registers(self.dtype(value), self.layout(value).count()),
        }
    }

    /// `value` as it is carried: a scalar, or all registers of `like`'s layout.
    fn carried(&mut self, value: Value, like: Value) -> Dv {
        match self.is_scalar(value) {
            true => self.scalar(value),
            false => {
                let layout = self.layout(like);
                self.whole_tile(value, &layout)
            }
        }
    }

    /// A new value for `value`, which stands for it from here on.
    fn receive(&mut self, value: Value) -> Dv {
        let ty = self.carried_type(value);
        let received = self.b.value(ty);
        let val = match self.is_scalar(value) {
            true => Val::Scalar(received),
            false => Val::Tile(received, self.layout(value)),
        };
        self.set(value, val);
        received
    }

    /// A block of `region`, ending with what it yields as `like` are carried; `skip` operands of the terminator come before those.
    fn block(
        &mut self,
        region: RegionId,
        arguments: Vec<Dv>,
        like: &[Value],
        end: ControlOp,
    ) -> Result<Block, Refused> {
        self.known.push(HashMap::new());
        self.b.begin(arguments);
        self.region(region)?;
        let kernel = self.kernel;
        let last = kernel.regions[region].ops.last().map(|&id| &kernel.ops[id]);
        let yielded = last.map_or(&[][..], |op| &op.operands[..]);
        let mut operands = Vec::new();
        let (condition, carried) = match end {
            ControlOp::Condition => {
                yielded.split_first().map_or((None, yielded), |(c, r)| (Some(*c), r))
            }
            _ => (None, yielded),
        };
        if let Some(condition) = condition {
            operands.push(self.scalar(condition));
        }
        for (&value, &like) in carried.iter().zip(like) {
            let value = self.carried(value, like);
            operands.push(value);
        }
        self.b.push(DeviceOp::Control(end), &operands, &[]);
        self.known.pop();
        Ok(self.b.end())
    }

    fn for_loop(&mut self, op: &'k Op) -> Result<(), Refused> {
        let region = op.regions[0];
        let arguments = self.kernel.regions[region].arguments.clone();
        let (index, carried) = (arguments[0], &arguments[1..]);
        let mut operands: Vec<Dv> = op.operands[..3].iter().map(|&v| self.scalar(v)).collect();
        for (&init, &like) in op.operands[3..].iter().zip(carried) {
            let init = self.carried(init, like);
            operands.push(init);
        }
        let again = self.pending_of(region);
        self.expect(&again);
        let mut entering = vec![self.b.value(DeviceType::one(DType::I64))];
        self.set(index, Val::Scalar(entering[0]));
        for &argument in carried {
            entering.push(self.receive(argument));
        }
        let body = self.block(region, entering, carried, ControlOp::Yield)?;
        self.expect(&again);
        let results: Vec<Dv> = op.results.iter().map(|&r| self.receive(r)).collect();
        let kind = DeviceOp::Control(ControlOp::For { unroll: false });
        self.b.push_with(kind, operands, results, vec![body]);
        Ok(())
    }

    fn while_loop(&mut self, op: &'k Op) -> Result<(), Refused> {
        let (test, body) = (op.regions[0], op.regions[1]);
        let tested = self.kernel.regions[test].arguments.clone();
        let carried = self.kernel.regions[body].arguments.clone();
        let mut operands = Vec::new();
        for (&init, &like) in op.operands.iter().zip(&tested) {
            let init = self.carried(init, like);
            operands.push(init);
        }
        let mut again = self.pending_of(test);
        again.join(self.pending_of(body));
        self.expect(&again);
        let entering = tested.iter().map(|&v| self.receive(v)).collect();
        let test_block = self.block(test, entering, &carried, ControlOp::Condition)?;
        let entering = carried.iter().map(|&v| self.receive(v)).collect();
        let body_block = self.block(body, entering, &tested, ControlOp::Yield)?;
        self.expect(&again);
        let results: Vec<Dv> = op.results.iter().map(|&r| self.receive(r)).collect();
        let kind = DeviceOp::Control(ControlOp::While);
        self.b.push_with(kind, operands, results, vec![test_block, body_block]);
        Ok(())
    }

    fn branch(&mut self, op: &'k Op) -> Result<(), Refused> {
        let condition = self.scalar(op.operands[0]);
        let before = self.pending.clone();
        let mut blocks = Vec::new();
        let mut after = before.clone();
        for &region in &op.regions {
            self.pending = before.clone();
            blocks.push(self.block(region, Vec::new(), &op.results, ControlOp::Yield)?);
            after.join(self.pending.clone());
        }
        self.pending = after;
        let results: Vec<Dv> = op.results.iter().map(|&r| self.receive(r)).collect();
        self.b.push_with(DeviceOp::Control(ControlOp::If), vec![condition], results, blocks);
        Ok(())
    }
}
