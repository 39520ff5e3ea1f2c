//! Loops and branches.

use super::stage::Ring;
use super::{Lowering, Val, registers};
use crate::gpu::pipeline::slice;
use metile_device::{Block, ControlOp, Op as DeviceOp, Type as DeviceType, Value as Dv};
use metile_ir::diagnostic::Diagnostic;
use metile_ir::dtype::DType;
use metile_ir::scalar::Scalar;
use metile_ir::tile::{BinaryOp, Op, OpId, OpKind, RegionId, Value};
use std::collections::HashMap;

type Refused = Box<Diagnostic>;

/// What of a loop's body runs ahead of it.
#[derive(Clone, Debug)]
enum Early<'a, 'k> {
    None,
    /// Copies to shared memory, with the slot of this iteration.
    Ring(&'a Ring<'k>, Dv),
    /// Loads to registers.
    Loads(EarlyLoads<'a, 'k>),
}

/// Loads of the loop `op` that are begun an iteration early.
#[derive(Clone, Debug)]
struct EarlyLoads<'a, 'k> {
    op: &'k Op,
    step: Dv,
    loads: &'a [OpId],
    /// The tiles of the iteration that begins.
    tiles: &'a [Dv],
}

impl<'k> Lowering<'k> {
    pub(super) fn control(&mut self, id: OpId, op: &'k Op) -> Result<(), Refused> {
        match op.kind {
            OpKind::For => self.for_loop(id, op),
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
        early: Early<'_, 'k>,
    ) -> Result<Block, Refused> {
        self.known.push(HashMap::new());
        let index = arguments.first().copied();
        self.b.begin(arguments);
        let mut later = Vec::new();
        match (&early, index) {
            (Early::Ring(ring, slot), Some(index)) => {
                self.turn_ring(ring, index, *slot);
                if ring.in_flight(&self.plan).is_empty() {
                    self.refill_ring(ring, index, *slot)?;
                }
            }
            (Early::Loads(loads), Some(index)) => later = self.turn_loads(loads, index)?,
            _ => {}
        }
        self.region(region)?;
        if let (Early::Ring(ring, slot), Some(index)) = (&early, index)
            && !ring.in_flight(&self.plan).is_empty()
        {
            self.refill_ring(ring, index, *slot)?;
        }
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
            let part = kernel.defining_op(value).filter(|id| self.deferred.contains(id));
            let value = match (part, self.values.get(&value)) {
                (Some(_), Some(&Val::Tile(part, _))) => part,
                _ => self.carried(value, like),
            };
            operands.push(value);
        }
        operands.extend(later);
        if let Early::Ring(ring, slot) = early {
            let next = self.next_slot(ring, slot);
            operands.push(next);
        }
        self.b.push(DeviceOp::Control(end), &operands, &[]);
        self.known.pop();
        Ok(self.b.end())
    }

    fn for_loop(&mut self, id: OpId, op: &'k Op) -> Result<(), Refused> {
        let kernel = self.kernel;
        let region = op.regions[0];
        let arguments = &kernel.regions[region].arguments;
        let (index, carried) = (arguments[0], &arguments[1..]);
        let last = kernel.regions[region].ops.last().map(|&id| &kernel.ops[id]);
        let yielded = last.map_or(&[][..], |op| &op.operands[..]);
        let waiting: Vec<Option<OpId>> = carried
            .iter()
            .zip(yielded)
            .map(|(&argument, &yielded)| self.deferrable(region, argument, yielded))
            .collect();
        self.deferred.extend(waiting.iter().flatten());
        let mut operands: Vec<Dv> = op.operands[..3].iter().map(|&v| self.scalar(v)).collect();
        for ((&init, &like), &wait) in op.operands[3..].iter().zip(carried).zip(&waiting) {
            operands.push(match wait {
                Some(id) => self.nothing_yet(id),
                None => self.carried(init, like),
            });
        }
        self.hold_operands(id);
        let ring = match self.plan.pipelines.get(&id).cloned() {
            Some(pipeline) => Some(self.begin_ring(op, &pipeline, &operands)?),
            None => None,
        };
        let ahead = self.plan.ahead.get(&id).cloned().unwrap_or_default();
        let first = self.early_tiles(op, &ahead, operands[0])?;
        operands.extend(&first);
        let again = self.pending_of(region);
        self.expect(&again);
        let mut entering = vec![self.b.value(DeviceType::one(DType::I64))];
        self.set(index, Val::Scalar(entering[0]));
        for (&argument, &wait) in carried.iter().zip(&waiting) {
            entering.push(self.receive_part(argument, wait));
        }
        let tiles: Vec<Dv> =
            first.iter().map(|&tile| self.b.value(self.b.program.ty(tile))).collect();
        entering.extend(&tiles);
        let slot = ring.as_ref().map(|_| self.b.value(DeviceType::one(DType::I32)));
        entering.extend(slot);
        let zero = self.int(DType::I32, 0);
        operands.extend(slot.map(|_| zero));
        let early = match ring.as_ref().zip(slot) {
            Some((ring, slot)) => Early::Ring(ring, slot),
            None if ahead.is_empty() => Early::None,
            None => {
                Early::Loads(EarlyLoads { op, step: operands[2], loads: &ahead, tiles: &tiles })
            }
        };
        self.ahead.extend(&ahead);
        let body = self.block(region, entering, carried, ControlOp::Yield, early)?;
        self.expect(&again);
        let mut results: Vec<Dv> =
            op.results.iter().zip(&waiting).map(|(&r, &wait)| self.receive_part(r, wait)).collect();
        results.extend(tiles.iter().map(|&tile| self.b.value(self.b.program.ty(tile))));
        if slot.is_some() {
            let last = self.b.value(DeviceType::one(DType::I32));
            results.push(last);
        }
        let kind = DeviceOp::Control(ControlOp::For { unroll: false });
        self.b.push_with(kind, operands, results.clone(), vec![body]);
        if let Some(ring) = &ring {
            self.end_ring(ring);
        }
        for (n, &wait) in waiting.iter().enumerate() {
            if let Some(id) = wait {
                self.finish_deferred(id, op.operands[3 + n], results[n], op.results[n]);
            }
        }
        Ok(())
    }

    /// The tiles of the loop's first iteration whose loads run ahead of it.
    fn early_tiles(&mut self, op: &'k Op, loads: &[OpId], index: Dv) -> Result<Vec<Dv>, Refused> {
        let (kernel, region) = (self.kernel, op.regions[0]);
        // What is computed for this index is not known for others.
        self.known.push(HashMap::new());
        self.set(kernel.regions[region].arguments[0], Val::Scalar(index));
        let mut tiles = Vec::new();
        for &load in loads {
            // The plan has only loads that have such a slice.
            for id in slice(kernel, region, load).unwrap_or_default() {
                self.op(id, &kernel.ops[id])?;
            }
            let op = &kernel.ops[load];
            self.load(op);
            tiles.push(match self.values.get(&op.results[0]) {
                Some(&Val::Tile(tile, _)) => tile,
                _ => self.i64(0),
            });
        }
        self.known.pop();
        Ok(tiles)
    }

    /// At the start of an iteration: begins the loads of the next one, beyond the last perhaps, where they are masked or for nothing; this
    /// one's tiles were loaded before.
    fn turn_loads(&mut self, early: &EarlyLoads<'_, 'k>, index: Dv) -> Result<Vec<Dv>, Refused> {
        let one = self.i64(1);
        let step = self.b.binary(BinaryOp::Max, early.step, one);
        let next = self.b.binary(BinaryOp::Add, index, step);
        let later = self.early_tiles(early.op, early.loads, next)?;
        self.set(self.kernel.regions[early.op.regions[0]].arguments[0], Val::Scalar(index));
        for (&load, &tile) in early.loads.iter().zip(early.tiles) {
            let result = self.kernel.ops[load].results[0];
            let layout = self.layout(result);
            self.set(result, Val::Tile(tile, layout));
        }
        Ok(later)
    }

    /// Zeros that a deferred product begins with.
    fn nothing_yet(&mut self, id: OpId) -> Dv {
        let DeviceType::Registers { dtype, count } = self.deferred_type(id) else {
            return self.i64(0);
        };
        let zero = self.constant(Scalar::zero(dtype));
        self.b.spread(zero, count)
    }

    /// As [`receive`](Self::receive); of a deferred product what the threads have of it.
    fn receive_part(&mut self, value: Value, wait: Option<OpId>) -> Dv {
        let Some(id) = wait else { return self.receive(value) };
        let ty = self.deferred_type(id);
        let received = self.b.value(ty);
        let layout = self.layout(value);
        self.set(value, Val::Tile(received, layout));
        received
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
        let test_block = self.block(test, entering, &carried, ControlOp::Condition, Early::None)?;
        let entering = carried.iter().map(|&v| self.receive(v)).collect();
        let body_block = self.block(body, entering, &tested, ControlOp::Yield, Early::None)?;
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
            blocks.push(self.block(
                region,
                Vec::new(),
                &op.results,
                ControlOp::Yield,
                Early::None,
            )?);
            after.join(self.pending.clone());
        }
        self.pending = after;
        let results: Vec<Dv> = op.results.iter().map(|&r| self.receive(r)).collect();
        self.b.push_with(DeviceOp::Control(ControlOp::If), vec![condition], results, blocks);
        Ok(())
    }
}
