//! Products that warpgroups compute.

use super::dot::Operand;
use super::stage::Staged;
use super::{Lowering, Val};
use crate::gpu::layout::Layout;
use metile_device::{
    MatrixOp, Op as DeviceOp, PositionOp, Shared, SyncOp, Type as DeviceType, Value as Dv, Wgmma,
    WgmmaOperand,
};
use metile_ir::dtype::DType;
use metile_ir::tile::{BinaryOp, Op, OpId, Value};

impl Lowering<'_> {
    pub(super) fn warpgroup_product(&mut self, id: OpId, op: &Op, a: Operand, b: Operand) {
        let result = op.results[0];
        let layout = self.layout(result);
        let acc = self.whole_tile(op.operands[2], &layout);
        let (left, right) = self.shared_operands(a, b);
        let shape = self.shape(result);
        let (m, n) = (shape.side(0), shape.side(1));
        let sum = self.shape(a.value).side(a.long);
        let groups = self.plan.warps as usize / 4;
        let rows = m / groups;
        // The warpgroup's first row: rows of operands are 128 bytes, columns of 64 elements lie one after the other.
        let warp = self.position(PositionOp::Warp);
        let two = self.int(DType::I32, 2);
        let group = self.b.binary(BinaryOp::Shr, warp, two);
        let step = if a.long == 1 { rows * 128 } else { rows / 64 * left.outer * 128 };
        let step = self.int(DType::I32, step as i64);
        let first = self.b.binary(BinaryOp::Mul, group, step);
        let a_at = self.b.binary(BinaryOp::Add, left.offset, first);
        let operand = |staged: Staged, sum_inside| WgmmaOperand {
            buffer: staged.buffer,
            outer: staged.outer as u16,
            sum_inside,
        };
        let product = Wgmma {
            dtype: self.dtype(a.value),
            row_blocks: (rows / 64) as u8,
            columns: n as u16,
            sum: sum as u16,
            a: operand(left, a.long == 1),
            b: operand(right, b.long == 1),
            in_flight: self.plan.in_flight.contains(&id),
        };
        let ty = DeviceType::registers(DType::F32, layout.count());
        let op = DeviceOp::Matrix(MatrixOp::Wgmma(product));
        let made = self.b.one(op, &[a_at, right.offset, acc], ty);
        self.set(result, Val::Tile(made, layout));
    }

    /// Stores operands to shared memory for the products of the loop `id` that comes next.
    pub(super) fn hold_operands(&mut self, id: OpId) {
        for value in self.plan.held.get(&id).cloned().unwrap_or_default() {
            if matches!(self.values.get(&value), Some(Val::Staged(_))) {
                continue;
            }
            let shape = self.shape(value);
            let layout = self.own_layout(value);
            let tile = self.whole_tile(value, &layout);
            let name = format!("held{}", self.b.program.shared.len());
            let buffer = self.b.shared(name, shape.elements() as u32 * 2, 1024);
            // Products of the time before may still read it.
            self.barrier();
            self.store_swizzled(buffer, 0, value, (tile, layout));
            self.b.push(DeviceOp::Sync(SyncOp::AsyncFence), &[], &[]);
            self.barrier();
            let offset = self.zero();
            self.set(value, Val::Staged(Staged { buffer, offset, outer: shape.side(0) }));
        }
    }

    /// Stores the tile of `value` from byte `base` of `buffer` on, as [`Wgmma`] reads operands.
    fn store_swizzled(
        &mut self,
        buffer: Shared,
        base: usize,
        value: Value,
        (tile, layout): (Dv, Layout),
    ) {
        let shape = self.shape(value);
        let width = vector(&layout);
        let place = self.swizzled(&layout, &shape, width);
        let first = self.int(DType::I32, base as i64 / 2);
        let place = self.b.binary(BinaryOp::Add, place, first);
        let groups = layout.count() as usize / width;
        let owner = self.first_owner(&layout);
        self.store_shared((buffer, width), place, vec![0; groups], owner, tile);
    }

    /// Both operands in shared memory: where copies put them, or stored there now.
    fn shared_operands(&mut self, a: Operand, b: Operand) -> (Staged, Staged) {
        let staged = |l: &Self, operand: Operand| match l.values.get(&operand.value) {
            Some(Val::Staged(staged)) => Some(*staged),
            _ => None,
        };
        let (left, right) = (staged(self, a), staged(self, b));
        if let (Some(left), Some(right)) = (left, right) {
            return (left, right);
        }
        let bytes = |l: &Self, operand: Operand| l.shape(operand.value).elements() * 2;
        let (a_bytes, b_bytes) = (
            if left.is_none() { bytes(self, a) } else { 0 },
            if right.is_none() { bytes(self, b) } else { 0 },
        );
        let tiles = [(a, left), (b, right)].map(|(operand, staged)| {
            // Conversions that this needs use scratch themselves.
            staged.is_none().then(|| {
                let layout = self.own_layout(operand.value);
                (self.whole_tile(operand.value, &layout), layout)
            })
        });
        let scratch = self.scratch(a_bytes + b_bytes);
        self.b.program.shared[scratch].align = 1024;
        let mut base = 0;
        let mut made = [left, right];
        for ((made, tile), operand) in made.iter_mut().zip(tiles).zip([a, b]) {
            let Some((tile, layout)) = tile else { continue };
            let shape = self.shape(operand.value);
            self.store_swizzled(scratch, base, operand.value, (tile, layout));
            let offset = self.int(DType::I32, base as i64);
            *made = Some(Staged { buffer: scratch, offset, outer: shape.side(0) });
            base += shape.elements() * 2;
        }
        self.b.push(DeviceOp::Sync(SyncOp::AsyncFence), &[], &[]);
        self.publish();
        let none = Staged { buffer: scratch, offset: self.zero(), outer: 1 };
        (made[0].unwrap_or(none), made[1].unwrap_or(none))
    }

    fn zero(&mut self) -> Dv {
        self.int(DType::I32, 0)
    }
}

/// How many neighbouring registers are neighbours of a row's unit.
fn vector(layout: &Layout) -> usize {
    let along = |n: usize| {
        layout.registers.get(n).is_some_and(|bit| bit.axis == 1 && usize::from(bit.bit) == n)
    };
    1 << (0..3).take_while(|&n| along(n)).count()
}
