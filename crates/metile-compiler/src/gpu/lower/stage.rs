//! Loads that run ahead of their loop: copies to a ring of tiles in shared memory.

use super::threads::Evaluated;
use super::{Known, Lowering, Val};
use crate::gpu::hopper::Pipeline;
use crate::gpu::layout::Layout;
use crate::gpu::pipeline::slice;
use crate::gpu::plan::Plan;
use metile_device::{CopyOp, MatrixOp, Op as DeviceOp, Shared, SyncOp, Value as Dv};
use metile_ir::diagnostic::Diagnostic;
use metile_ir::dtype::DType;
use metile_ir::tile::{BinaryOp, CompareOp, Op, OpId, Shape, Value};
use std::collections::HashMap;

/// A tile of 16-bit elements in shared memory, in swizzled columns of 64: see [`metile_device::Wgmma`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Staged {
    pub buffer: Shared,
    /// Where it begins, in bytes.
    pub offset: Dv,
    /// Rows of contiguous elements.
    pub outer: usize,
}

/// A loop's pipeline while it is lowered.
#[derive(Clone, Debug)]
pub(super) struct Ring<'k> {
    op: &'k Op,
    /// The operations of its body.
    body: &'k [OpId],
    stages: u32,
    /// The loads, with their rings.
    loads: Vec<(OpId, Shared)>,
    high: Dv,
    step: Dv,
}

impl Ring<'_> {
    /// Products of the loop that are in flight from one iteration to the next.
    pub(super) fn in_flight(&self, plan: &Plan) -> Vec<OpId> {
        self.body.iter().copied().filter(|id| plan.in_flight.contains(id)).collect()
    }
}

/// Bytes of a row of a column.
const ROW: i64 = 128;

impl<'k> Lowering<'k> {
    /// Begins the first copies of the loop; the result goes with the loop's body.
    pub(super) fn begin_ring(
        &mut self,
        op: &'k Op,
        pipeline: &Pipeline,
        bounds: &[Dv],
    ) -> Result<Ring<'k>, Box<Diagnostic>> {
        let (low, high) = (bounds[0], bounds[1]);
        let one = self.i64(1);
        let step = self.b.binary(BinaryOp::Max, bounds[2], one);
        let mut loads = Vec::new();
        for &load in &pipeline.loads {
            let result = self.kernel.ops[load].results[0];
            let ty = self.tile_type(result);
            let bytes = (ty.shape.elements() * ty.dtype.bytes()) as u32;
            loads.push((load, self.ring_buffer(bytes * pipeline.stages)));
        }
        let body = &self.kernel.regions[op.regions[0]].ops;
        let ring = Ring { op, body, stages: pipeline.stages, loads, high, step };
        // The tiles may have been another loop's, or this one's when it last ran.
        self.barrier();
        let mut index = low;
        for stage in 0..ring.stages - 1 {
            let stage = self.int(DType::I32, i64::from(stage));
            self.copy_tiles(&ring, index, stage)?;
            index = self.b.binary(BinaryOp::Add, index, step);
        }
        Ok(ring)
    }

    /// Shared memory for a ring: that of a loop which has ended, if it fits.
    fn ring_buffer(&mut self, bytes: u32) -> Shared {
        let fits = |&buffer: &Shared| self.b.program.shared[buffer].bytes == bytes;
        if let Some(n) = self.free_rings.iter().position(fits) {
            return self.free_rings.swap_remove(n);
        }
        let name = format!("ring{}", self.b.program.shared.len());
        self.b.shared(name, bytes, 1024)
    }

    /// At the start of an iteration: waits for its tiles, which are stage `slot`, and for the products of the iteration before, whose place
    /// is free from here on.
    pub(super) fn turn_ring(&mut self, ring: &Ring<'k>, index: Dv, slot: Dv) {
        for product in ring.in_flight(&self.plan) {
            let sums = self.kernel.ops[product].operands[2];
            self.wait_for_sums(sums);
        }
        let pending = (ring.stages - 2) as u8;
        self.b.push(DeviceOp::Copy(CopyOp::Wait { pending }), &[], &[]);
        self.b.push(DeviceOp::Sync(SyncOp::AsyncFence), &[], &[]);
        self.barrier();
        // The body's own index and what follows from it.
        let argument = self.kernel.regions[ring.op.regions[0]].arguments[0];
        self.set(argument, Val::Scalar(index));
        for &(load, buffer) in &ring.loads {
            let result = self.kernel.ops[load].results[0];
            let ty = self.tile_type(result);
            let bytes = self.int(DType::I32, (ty.shape.elements() * ty.dtype.bytes()) as i64);
            let offset = self.b.binary(BinaryOp::Mul, slot, bytes);
            let outer = ty.shape.side(0);
            self.set(result, Val::Staged(Staged { buffer, offset, outer }));
        }
    }

    /// Begins the copies of a later iteration, in the place of the one before: ahead of the products, unless those are in flight meanwhile.
    pub(super) fn refill_ring(
        &mut self,
        ring: &Ring<'k>,
        index: Dv,
        slot: Dv,
    ) -> Result<(), Box<Diagnostic>> {
        let ahead = self.i64(i64::from(ring.stages) - 1);
        let ahead = self.b.binary(BinaryOp::Mul, ring.step, ahead);
        let later = self.b.binary(BinaryOp::Add, index, ahead);
        let before = self.previous(ring, slot);
        self.known.push(HashMap::new());
        self.copy_tiles(ring, later, before)?;
        self.known.pop();
        self.set(self.kernel.regions[ring.op.regions[0]].arguments[0], Val::Scalar(index));
        Ok(())
    }

    /// The sums `value` of products that were in flight.
    fn wait_for_sums(&mut self, value: Value) {
        if let Some(Val::Tile(sums, layout)) = self.values.get(&value).cloned() {
            let wait = DeviceOp::Matrix(MatrixOp::WgmmaWait);
            let done = self.b.one(wait, &[sums], self.b.program.ty(sums));
            self.set(value, Val::Tile(done, layout));
        }
    }

    fn previous(&mut self, ring: &Ring<'k>, slot: Dv) -> Dv {
        let last = self.int(DType::I32, i64::from(ring.stages) - 1);
        let zero = self.int(DType::I32, 0);
        let one = self.int(DType::I32, 1);
        let first = self.b.compare(CompareOp::Eq, slot, zero);
        let before = self.b.binary(BinaryOp::Sub, slot, one);
        self.b.select(first, last, before)
    }

    /// The slot of the iteration after.
    pub(super) fn next_slot(&mut self, ring: &Ring<'k>, slot: Dv) -> Dv {
        let end = self.int(DType::I32, i64::from(ring.stages));
        let zero = self.int(DType::I32, 0);
        let one = self.int(DType::I32, 1);
        let next = self.b.binary(BinaryOp::Add, slot, one);
        let over = self.b.compare(CompareOp::Ge, next, end);
        self.b.select(over, zero, next)
    }

    /// After the loop: nothing is under way any more.
    pub(super) fn end_ring(&mut self, ring: &Ring<'k>) {
        self.b.push(DeviceOp::Copy(CopyOp::Wait { pending: 0 }), &[], &[]);
        self.free_rings.extend(ring.loads.iter().map(|load| load.1));
        let region = &self.kernel.regions[ring.op.regions[0]];
        for product in ring.in_flight(&self.plan) {
            let sums = self.kernel.ops[product].operands[2];
            let place = region.arguments.iter().position(|&argument| argument == sums);
            if let Some(&result) = place.and_then(|n| ring.op.results.get(n - 1)) {
                self.wait_for_sums(result);
            }
        }
    }

    /// Begins the copies of the tiles of iteration `index` to stage `stage`.
    fn copy_tiles(&mut self, ring: &Ring<'k>, index: Dv, stage: Dv) -> Result<(), Box<Diagnostic>> {
        let kernel = self.kernel;
        let region = ring.op.regions[0];
        self.set(kernel.regions[region].arguments[0], Val::Scalar(index));
        let runs = self.b.compare(CompareOp::Lt, index, ring.high);
        for &(load, buffer) in &ring.loads {
            // The plan has staged only loads that have such a slice.
            for id in slice(kernel, region, load).unwrap_or_default() {
                self.op(id, &kernel.ops[id])?;
            }
            self.copy_tile(&kernel.ops[load], buffer, stage, runs)?;
        }
        let token = self.b.value(metile_device::Type::Token);
        self.b.push(DeviceOp::Copy(CopyOp::Commit), &[], &[token]);
        Ok(())
    }

    fn copy_tile(
        &mut self,
        op: &'k Op,
        buffer: Shared,
        stage: Dv,
        runs: Dv,
    ) -> Result<(), Box<Diagnostic>> {
        let Some(view) = self.view(op.operands[0]) else { return Ok(()) };
        let ty = self.tile_type(op.results[0]);
        let layout = Layout::blocked(&ty.shape, 1, 8, self.plan.warps);
        let coordinates: Vec<Evaluated> = (0..2)
            .map(|axis| {
                let origin = self.scalar_everywhere(op.operands[1 + axis], layout.count());
                let within = Evaluated::Affine(self.coordinate(&layout, axis));
                self.sum(&origin, &within, 1)
            })
            .collect();
        let address = self.address(&view, &coordinates, &layout, None, ty.dtype);
        if address.width < 2 {
            return Err(self.refuse(op, "internal: a staged load is not made of whole units"));
        }
        let width = usize::from(address.width);
        let owner = self.first_owner(&layout);
        let mask = self.all(&[address.mask, owner]);
        let mask = self.and(mask, runs);
        let key = Known::Swizzled(layout.clone(), ty.shape.side(0), width);
        let places = self.remember(key, |l| l.swizzled(&layout, &ty.shape, width));
        let elements = self.int(DType::I32, ty.shape.elements() as i64);
        let first = self.b.binary(BinaryOp::Mul, stage, elements);
        let places = self.b.binary(BinaryOp::Add, places, first);
        let groups = address.immediates.len();
        let copy = CopyOp::Async {
            buffer,
            bytes: address.width * 2,
            immediates: address.immediates,
            shared_immediates: vec![0; groups],
        };
        let operands = [view.pointers[0], address.offset, places, mask];
        self.b.push(DeviceOp::Copy(copy), &operands, &[]);
        Ok(())
    }

    /// Where each group of `width` registers lies in swizzled columns, in elements.
    pub(super) fn swizzled(&mut self, layout: &Layout, shape: &Shape, width: usize) -> Dv {
        let firsts: Vec<u32> = (0..layout.count()).step_by(width).collect();
        let at = |l: &mut Self, axis: usize| {
            let at = l.small_coordinate(layout, axis);
            let at = l.b.spread(at, layout.count());
            l.b.pick(at, firsts.clone())
        };
        let (row, element) = (at(self, 0), at(self, 1));
        let small = |l: &mut Self, op: BinaryOp, a: Dv, b: i64| {
            let b = l.int(DType::I32, b);
            l.b.binary(op, a, b)
        };
        let column = small(self, BinaryOp::Shr, element, 6);
        let column = small(self, BinaryOp::Mul, column, shape.side(0) as i64 * ROW / 2);
        let line = small(self, BinaryOp::Mul, row, ROW / 2);
        let unit = small(self, BinaryOp::Shr, element, 3);
        let unit = small(self, BinaryOp::And, unit, 7);
        let turn = small(self, BinaryOp::And, row, 7);
        let unit = self.b.binary(BinaryOp::Xor, unit, turn);
        let unit = small(self, BinaryOp::Shl, unit, 3);
        let rest = small(self, BinaryOp::And, element, 7);
        let place = self.b.binary(BinaryOp::Add, column, line);
        let place = self.b.binary(BinaryOp::Add, place, unit);
        self.b.binary(BinaryOp::Add, place, rest)
    }
}
