//! Moving elements between threads: changes of layout, and operations that rearrange tiles.

use super::{Lowering, Val, moved, padded_elements, padded_strides};
use crate::gpu::layout::{Bit, Layout};
use metile_device::{MemoryOp, Op as DeviceOp, Shared, Value as Dv};
use metile_ir::dtype::DType;
use metile_ir::scalar::Scalar;
use metile_ir::tile::{BinaryOp, CompareOp, MAX_RANK, Op, OpKind, Shape};

impl Lowering<'_> {
    /// Row-major positions, by these strides, of a thread's elements: `i32`.
    pub(super) fn linear(
        &mut self,
        layout: &Layout,
        shape: &Shape,
        strides: &[i64; MAX_RANK],
    ) -> Dv {
        let mut sum = None;
        let mut parts = vec![0i64; layout.count() as usize];
        for (axis, &stride) in strides.iter().enumerate().take(shape.rank()) {
            for (part, at) in parts.iter_mut().zip(Self::register_parts(layout, axis)) {
                *part += at * stride;
            }
            let moves = layout.thread_bits().any(|(_, bit)| bit.axis as usize == axis);
            if moves {
                let at = self.thread_part(layout, axis);
                let stride = self.int(DType::I32, stride);
                let at = self.b.binary(BinaryOp::Mul, at, stride);
                sum = Some(self.plus(sum, at));
            }
        }
        if parts.iter().all(|&p| p == 0) {
            return match sum {
                Some(sum) => sum,
                None => self.int(DType::I32, 0),
            };
        }
        let parts = self.b.ints(DType::I32, &parts);
        self.plus(sum, parts)
    }

    /// Shared memory for `bytes`, which nobody reads any more.
    pub(super) fn scratch(&mut self, bytes: usize) -> Shared {
        if self.pending.scratch {
            self.barrier();
        }
        self.pending.scratch = true;
        self.scratch_bytes = self.scratch_bytes.max(bytes as u32);
        match self.scratch {
            Some(scratch) => scratch,
            None => {
                let scratch = self.b.shared("scratch", 0, 16);
                self.scratch = Some(scratch);
                scratch
            }
        }
    }

    /// Bytes of shared memory that scratch may take.
    pub(super) fn scratch_limit(&self) -> usize {
        self.target.shared_bytes as usize
    }

    pub(super) fn store_shared(
        &mut self,
        (buffer, width): (Shared, usize),
        offset: Dv,
        immediates: Vec<i64>,
        mask: Option<Dv>,
        value: Dv,
    ) {
        let mut operands = vec![offset];
        operands.extend(mask);
        operands.push(value);
        let width = width as u8;
        let store = MemoryOp::StoreShared { buffer, width, immediates, masked: mask.is_some() };
        self.b.push(DeviceOp::Memory(store), &operands, &[]);
    }

    pub(super) fn load_shared(
        &mut self,
        buffer: Shared,
        offset: Dv,
        immediates: Vec<i64>,
        dtype: DType,
    ) -> Dv {
        let count = immediates.len() as u32;
        let load = MemoryOp::LoadShared { buffer, width: 1, immediates };
        self.make(DeviceOp::Memory(load), &[offset], dtype, count)
    }

    /// Puts `parts` in shared memory, each at its positions where its mask holds, and takes what lies at `wanted`. Positions are below
    /// `elements`; more than shared memory holds pass through it in turns.
    pub(super) fn through_shared(
        &mut self,
        dtype: DType,
        elements: usize,
        parts: &[(Dv, Dv, Option<Dv>)],
        wanted: Dv,
    ) -> Dv {
        let stored = moved(dtype);
        let most = self.scratch_limit() / stored.bytes();
        let turn = if elements <= most { elements } else { 1 << most.ilog2() };
        let count = self.b.program.count(wanted);
        let mut result: Option<Dv> = None;
        for first in (0..elements).step_by(turn) {
            let scratch = self.scratch(turn.min(elements) * stored.bytes());
            let only = elements > turn;
            for &(value, at, mask) in parts {
                let value = if dtype == DType::Bool { self.b.cast(value, stored) } else { value };
                let (at, mask) = match only {
                    false => (at, mask),
                    true => {
                        let (at, here) = self.in_turn(at, first, turn);
                        (at, Some(self.and(mask, here)))
                    }
                };
                let count = [Some(value), Some(at), mask]
                    .into_iter()
                    .flatten()
                    .map(|v| self.b.program.count(v))
                    .max()
                    .unwrap_or(1);
                let value = self.b.spread(value, count);
                self.store_shared((scratch, 1), at, vec![0; count as usize], mask, value);
            }
            self.publish();
            let taken = match only {
                false => self.load_shared(scratch, wanted, vec![0; count as usize], stored),
                true => {
                    let (at, here) = self.in_turn(wanted, first, turn);
                    let zero = self.int(DType::I32, 0);
                    let at = self.b.select(here, at, zero);
                    let taken = self.load_shared(scratch, at, vec![0; count as usize], stored);
                    match result {
                        Some(earlier) => self.b.select(here, taken, earlier),
                        None => taken,
                    }
                }
            };
            result = Some(taken);
        }
        let taken = match result {
            Some(taken) => taken,
            None => self.constant(Scalar::zero(stored)),
        };
        match dtype {
            DType::Bool => {
                let zero = self.int(stored, 0);
                self.b.compare(CompareOp::Ne, taken, zero)
            }
            _ => taken,
        }
    }

    /// Positions counted from `first`, and whether they are among the next `turn`.
    fn in_turn(&mut self, at: Dv, first: usize, turn: usize) -> (Dv, Dv) {
        let (first, turn) = (self.int(DType::I32, first as i64), self.int(DType::I32, turn as i64));
        let zero = self.int(DType::I32, 0);
        let at = self.b.binary(BinaryOp::Sub, at, first);
        let low = self.b.compare(CompareOp::Ge, at, zero);
        let high = self.b.compare(CompareOp::Lt, at, turn);
        (at, self.b.binary(BinaryOp::And, low, high))
    }

    /// The tile `value`, laid out as `from`, laid out as `to`.
    pub(super) fn converted(
        &mut self,
        value: Dv,
        dtype: DType,
        shape: &Shape,
        from: &Layout,
        to: &Layout,
    ) -> Dv {
        if from == to {
            return value;
        }
        if self.b.program.count(value) == 1 && from.count() > 1 {
            // One register that stands for all is the same in every thread.
            return self.b.spread(value, to.count());
        }
        let value = self.b.spread(value, from.count());
        if let Some(picked) = from.same_threads(to) {
            return self.b.pick(value, picked);
        }
        let strides = padded_strides(shape);
        let at = self.linear(from, shape, &strides);
        let wanted = self.linear(to, shape, &strides);
        let owner = self.first_owner(from);
        self.through_shared(dtype, padded_elements(shape), &[(value, at, owner)], wanted)
    }

    /// What the first of the threads that hold an element have, in all of them.
    pub(super) fn broadcast_from_owners(
        &mut self,
        value: Dv,
        dtype: DType,
        shape: &Shape,
        layout: &Layout,
    ) -> Dv {
        let Some(owner) = self.first_owner(layout) else { return value };
        let strides = padded_strides(shape);
        let at = self.linear(layout, shape, &strides);
        self.through_shared(dtype, padded_elements(shape), &[(value, at, Some(owner))], at)
    }

    pub(super) fn rearrange(&mut self, op: &Op) {
        let (from, result) = (op.operands[0], op.results[0]);
        if self.is_scalar(from) && self.is_scalar(result) {
            let scalar = self.scalar(from);
            return self.set(result, Val::Scalar(scalar));
        }
        match &op.kind {
            OpKind::Broadcast => self.broadcast(op),
            OpKind::Reshape => self.reshape(op),
            OpKind::Transpose(axes) => {
                let layout = self.own_layout(from);
                let tile = self.whole_tile(from, &layout);
                self.set_tile(result, tile, layout.transposed(axes));
            }
            OpKind::Slice { axis, start, step } => {
                self.slice(op, *axis as usize, *start as usize, *step as usize);
            }
            OpKind::Cat { axis } => self.cat(op, *axis as usize),
            OpKind::Gather { axis } => self.gather(op, *axis as usize),
            _ => {}
        }
    }

    /// The layout that `value` is in, or would best be computed in.
    pub(super) fn own_layout(&self, value: metile_ir::tile::Value) -> Layout {
        match self.values.get(&value) {
            Some(Val::Tile(_, layout)) => layout.clone(),
            Some(Val::Scalar(_)) => self.one_register(),
            _ => self.layout(value),
        }
    }

    fn broadcast(&mut self, op: &Op) {
        let (from, result) = (op.operands[0], op.results[0]);
        let layout = self.layout(result);
        let (source, target) = (self.shape(from), self.shape(result));
        let before = layout.before_broadcast(&source, &target);
        let tile = self.whole_tile(from, &before);
        let lead = (target.rank() - source.rank()) as u8;
        // A register of the result comes from the one with the same bits.
        let registers = (0..layout.count())
            .map(|register| {
                let mut at = 0;
                for (n, bit) in before.registers.iter().enumerate() {
                    let wide = Bit { axis: bit.axis + lead, bit: bit.bit };
                    let place = layout.registers.iter().position(|&b| b == wide);
                    at |= place.map_or(0, |place| (register >> place & 1) << n);
                }
                at
            })
            .collect();
        let made = self.b.pick(tile, registers);
        self.set(result, Val::Tile(made, layout));
    }

    fn reshape(&mut self, op: &Op) {
        let (from, result) = (op.operands[0], op.results[0]);
        let (source, target) = (self.shape(from), self.shape(result));
        let layout = self.own_layout(from);
        if target.is_scalar() {
            // One element, which the thread may have to get from its owner.
            let tile = self.whole_tile(from, &self.one_register());
            return self.set_scalar(result, tile);
        }
        if source.is_scalar() {
            let scalar = self.scalar(from);
            let layout = self.layout(result);
            let made = self.b.spread(scalar, layout.count());
            return self.set(result, Val::Tile(made, layout));
        }
        let tile = self.whole_tile(from, &layout);
        if let Some(renamed) = layout.reshaped(&source, &target) {
            return self.set_tile(result, tile, renamed);
        }
        let wanted = self.layout(result);
        let plain = |shape: &Shape| shape.strides().map(|s| s as i64);
        let at = self.linear(&layout, &source, &plain(&source));
        let real = self.real(&layout, &source);
        let owner = self.first_owner(&layout);
        let mask = self.all(&[real, owner]);
        let to = self.linear(&wanted, &target, &plain(&target));
        let to = self.clamped(to, source.elements());
        let dtype = self.dtype(result);
        let made = self.through_shared(dtype, source.elements(), &[(tile, at, mask)], to);
        let made = self.b.spread(made, wanted.count());
        self.set(result, Val::Tile(made, wanted));
    }

    /// Positions, those beyond `elements` (which hold nothing real) made the last.
    fn clamped(&mut self, at: Dv, elements: usize) -> Dv {
        let last = self.int(DType::I32, elements as i64 - 1);
        self.b.binary(BinaryOp::Min, at, last)
    }

    fn slice(&mut self, op: &Op, axis: usize, start: usize, step: usize) {
        let (from, result) = (op.operands[0], op.results[0]);
        let (source, target) = (self.shape(from), self.shape(result));
        let layout = self.own_layout(from);
        let tile = self.whole_tile(from, &layout);
        if step == 1
            && let Some((part, kept)) = layout.aligned_part(axis, start, target.side(axis))
        {
            let made = self.b.pick(tile, kept);
            return self.set_tile(result, made, part);
        }
        let wanted = self.layout(result);
        let strides = padded_strides(&source);
        let at = self.linear(&layout, &source, &strides);
        let owner = self.first_owner(&layout);
        let mut stepped = strides;
        stepped[axis] *= step as i64;
        let to = self.linear(&wanted, &target, &stepped);
        let first = self.int(DType::I32, start as i64 * strides[axis]);
        let to = self.b.binary(BinaryOp::Add, to, first);
        let elements = padded_elements(&source);
        let to = self.clamped(to, elements);
        let dtype = self.dtype(result);
        let made = self.through_shared(dtype, elements, &[(tile, at, owner)], to);
        let made = self.b.spread(made, wanted.count());
        self.set(result, Val::Tile(made, wanted));
    }

    fn cat(&mut self, op: &Op, axis: usize) {
        let result = op.results[0];
        if let Some((made, layout)) = self.cat_registers(op, axis) {
            return self.set_tile(result, made, layout);
        }
        let (target, dtype) = (self.shape(result), self.dtype(result));
        let wanted = self.layout(result);
        let strides = padded_strides(&target);
        let mut parts = Vec::new();
        let mut start = 0;
        for &part in &op.operands {
            let shape = self.shape(part);
            let layout = self.own_layout(part);
            let tile = self.whole_tile(part, &layout);
            let at = self.linear(&layout, &shape, &strides);
            let first = self.int(DType::I32, start as i64 * strides[axis]);
            let at = self.b.binary(BinaryOp::Add, at, first);
            let real = self.real(&layout, &shape);
            let owner = self.first_owner(&layout);
            parts.push((tile, at, self.all(&[real, owner])));
            start += shape.side(axis);
        }
        let to = self.linear(&wanted, &target, &strides);
        let made = self.through_shared(dtype, padded_elements(&target), &parts, to);
        let made = self.b.spread(made, wanted.count());
        self.set(result, Val::Tile(made, wanted));
    }

    /// Equal parts whose number and sides are powers of two become further registers.
    fn cat_registers(&mut self, op: &Op, axis: usize) -> Option<(Dv, Layout)> {
        let side = self.shape(op.operands[0]).side(axis);
        let equal = op.operands.iter().all(|&o| self.shape(o).side(axis) == side);
        if !equal || !side.is_power_of_two() || !op.operands.len().is_power_of_two() {
            return None;
        }
        let mut layout = self.own_layout(op.operands[0]);
        let tiles: Vec<Dv> = op.operands.iter().map(|&o| self.whole_tile(o, &layout)).collect();
        let low = super::super::layout::bits(side);
        let more = super::super::layout::bits(op.operands.len());
        layout.registers.extend((0..more).map(|n| Bit { axis: axis as u8, bit: low + n }));
        Some((self.b.join(&tiles), layout))
    }

    fn gather(&mut self, op: &Op, axis: usize) {
        let (from, index, result) = (op.operands[0], op.operands[1], op.results[0]);
        let (source, target) = (self.shape(from), self.shape(result));
        let (dtype, side) = (self.dtype(result), source.side(axis));
        let layout = self.own_layout(from);
        let tile = self.whole_tile(from, &layout);
        let wanted = self.layout(result);
        let strides = padded_strides(&source);
        let at = self.linear(&layout, &source, &strides);
        let owner = self.first_owner(&layout);
        // Where each result lies: its own coordinates, and the index along the axis.
        let indices = self.whole_tile(index, &wanted);
        let indices = self.b.cast(indices, DType::I64);
        let (zero, end) = (self.i64(0), self.i64(side as i64));
        let low = self.b.compare(CompareOp::Ge, indices, zero);
        let high = self.b.compare(CompareOp::Lt, indices, end);
        let within = self.b.binary(BinaryOp::And, low, high);
        let indices = self.b.select(within, indices, zero);
        let indices = self.b.cast(indices, DType::I32);
        let mut others = strides;
        others[axis] = 0;
        let to = self.linear(&wanted, &target, &others);
        let stride = self.int(DType::I32, strides[axis]);
        let along = self.b.binary(BinaryOp::Mul, indices, stride);
        let to = self.b.binary(BinaryOp::Add, to, along);
        let elements = padded_elements(&source);
        let made = self.through_shared(dtype, elements, &[(tile, at, owner)], to);
        let nothing = self.constant(Scalar::zero(dtype));
        let made = self.b.select(within, made, nothing);
        let made = self.b.spread(made, wanted.count());
        self.set(result, Val::Tile(made, wanted));
    }
}
