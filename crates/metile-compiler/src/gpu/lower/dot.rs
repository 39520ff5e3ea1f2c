//! Matrix products.

use super::reduce::Partial;
use super::{Lowering, Val};
use crate::gpu::layout::{Bit, Layout, bits};
use crate::gpu::plan::{DotForm, sums_layout};
use metile_device::{ControlOp, MemoryOp, Op as DeviceOp, Shared, Type as DeviceType, Value as Dv};
use metile_ir::dtype::DType;
use metile_ir::scalar::Scalar;
use metile_ir::tile::{BinaryOp, CompareOp, Op, OpId, OpKind, ReduceOp, RegionId, Value};
use std::collections::HashMap;

/// One operand of a product: a matrix with an axis that is summed along and one that stays.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand {
    pub value: Value,
    /// The axis that is summed along.
    pub long: usize,
}

/// A product of which one operand has few rows: the other's kept axis is axis `keep` of the result.
#[derive(Clone, Copy, Debug)]
struct FewRows {
    few: Operand,
    matrix: Operand,
    keep: usize,
}

/// A staged operand: a column for each element along the sum, its elements turned so that threads that store to several columns, or load from
/// one, meet different banks.
#[derive(Clone, Copy, Debug)]
struct Columns {
    /// Where it begins, in elements.
    base: usize,
    /// Elements from one column to the next.
    stride: usize,
    /// The bits of the place within a column that are turned.
    turns: usize,
}

impl Columns {
    /// Columns of `side` elements, of which each thread loads those that its registers have along `axis` of `sums`.
    fn new(side: usize, sums: &Layout, axis: usize) -> Columns {
        let registers =
            (0..sums.count()).fold(0, |all, r| all | sums.register_part(r, axis) as usize);
        // Neighbours up to 8 stay together; what registers add has to be added after turning.
        let turns = 0b11000 & (side - 1) & !registers;
        let padding = if turns == 0 { 4 } else { 0 };
        Columns { base: 0, stride: side + padding, turns }
    }

    /// By what the places of column `k` are turned: exclusive or with this.
    fn turn(self, k: usize) -> usize {
        ((k >> 2) ^ (k >> 4)) << 3 & self.turns
    }
}

impl Operand {
    fn kept(self) -> usize {
        1 - self.long
    }
}

impl Lowering<'_> {
    pub(super) fn dot(&mut self, id: OpId, op: &Op, (ta, tb): (bool, bool)) {
        if let Some(rows) = self.few_rows_of(id, op) {
            return self.few_rows(id, op, rows);
        }
        let a = Operand { value: op.operands[0], long: usize::from(!ta) };
        let b = Operand { value: op.operands[1], long: usize::from(tb) };
        if self.plan.dots.get(&id) == Some(&DotForm::Warpgroups)
            && self.shape(op.results[0]).side(0) >= 16 * self.plan.warps as usize
        {
            return self.warpgroup_product(id, op, a, b);
        }
        self.outer_product(op, a, b);
    }

    /// The type that products are summed in.
    fn summed(&self, op: &Op) -> DType {
        self.dtype(op.results[0])
    }

    /// `a * b + c` of the type that is summed in.
    fn add_product(&mut self, dtype: DType, a: Dv, b: Dv, c: Dv) -> Dv {
        if dtype == DType::F32 {
            return self.b.fma(a, b, c);
        }
        let product = self.b.binary(BinaryOp::Mul, a, b);
        self.b.binary(BinaryOp::Add, c, product)
    }

    /// The operand in `layout`, widened, with zeros for what is no element along the axis that is summed along.
    fn operand(&mut self, operand: Operand, layout: &Layout, dtype: DType) -> Dv {
        let tile = self.whole_tile(operand.value, layout);
        let tile = self.b.cast(tile, dtype);
        let side = self.shape(operand.value).side(operand.long);
        if side.is_power_of_two() {
            return tile;
        }
        let at = self.small_coordinate(layout, operand.long);
        let side = self.int(DType::I32, side as i64);
        let real = self.b.compare(CompareOp::Lt, at, side);
        let zero = self.constant(Scalar::zero(dtype));
        let tile = self.b.select(real, tile, zero);
        self.b.spread(tile, layout.count())
    }

    /// `few` has a handful of rows: each meets the whole of `matrix` where its threads hold it, and the products are summed along its
    /// rows.
    fn few_rows(&mut self, id: OpId, op: &Op, rows: FewRows) {
        let (acc, result) = (op.operands[2], op.results[0]);
        if self.deferred.contains(&id) {
            // The loop around adds up threads' parts, and sums them over the threads when it ends.
            let Some(&Val::Scalar(before) | &Val::Tile(before, _)) = self.values.get(&acc) else {
                return;
            };
            let sums = self.thread_sums(op, rows, Some(before));
            let layout = self.layout(result);
            return self.set(result, Val::Tile(sums, layout));
        }
        let sums = self.thread_sums(op, rows, None);
        let (product, layout) = self.block_sums(rows, sums);
        let acc = self.whole_tile(acc, &layout);
        let sum = self.b.binary(BinaryOp::Add, acc, product);
        self.set_tile(result, sum, layout);
    }

    /// How a product with few rows is to be computed, if it is one.
    fn few_rows_of(&self, id: OpId, op: &Op) -> Option<FewRows> {
        let OpKind::Dot { transpose_a, transpose_b } = op.kind else { return None };
        let a = Operand { value: op.operands[0], long: usize::from(!transpose_a) };
        let b = Operand { value: op.operands[1], long: usize::from(transpose_b) };
        match self.plan.dots.get(&id)? {
            DotForm::FewRows { right: false } => Some(FewRows { few: a, matrix: b, keep: 1 }),
            DotForm::FewRows { right: true } => Some(FewRows { few: b, matrix: a, keep: 0 }),
            DotForm::OuterProduct | DotForm::Warpgroups => None,
        }
    }

    fn row_count(&self, rows: FewRows) -> usize {
        self.shape(rows.few.value).side(rows.few.kept())
    }

    /// What each thread has of the sums: for every row the registers of the matrix's kept axis.
    fn thread_sums(&mut self, op: &Op, rows: FewRows, before: Option<Dv>) -> Dv {
        let FewRows { few, matrix, .. } = rows;
        let dtype = self.summed(op);
        let layout = self.own_layout(matrix.value);
        let count = self.row_count(rows);
        let tile = self.operand(matrix, &layout, dtype);
        // The rows, where the matrix's threads need them: its layout along the sum, all rows in registers.
        let mut beside = layout.renamed(|bit| {
            (bit.axis as usize == matrix.long).then_some(Bit { axis: few.long as u8, ..bit })
        });
        let long_registers = beside.registers.len();
        let axis = few.kept() as u8;
        beside.registers.extend((0..bits(count)).map(|bit| Bit { axis, bit }));
        let row_tiles = self.operand(few, &beside, dtype);
        let kept = layout.without(matrix.long).count();
        let mut sums = Vec::new();
        for row in 0..count as u32 {
            let first = row << long_registers;
            let registers = (first..first + (1 << long_registers)).collect();
            let factors = self.b.pick(row_tiles, registers);
            let start = before.map(|b| self.b.pick(b, (row * kept..(row + 1) * kept).collect()));
            sums.push(self.row_by_matrix(dtype, tile, &layout, (factors, start), matrix.long));
        }
        let zero = self.constant(Scalar::zero(dtype));
        let zero = self.b.spread(zero, kept);
        sums.resize(count.next_power_of_two(), zero);
        self.b.join(&sums)
    }

    /// The sums of all threads' parts, and their layout.
    fn block_sums(&mut self, rows: FewRows, sums: Dv) -> (Dv, Layout) {
        let FewRows { matrix, keep, .. } = rows;
        let layout = self.own_layout(matrix.value);
        let shape = self.shape(matrix.value);
        let kept = layout.without(matrix.long).count();
        let count = self.row_count(rows);
        let mut parts: Vec<Dv> = (0..count.next_power_of_two() as u32)
            .map(|row| self.b.pick(sums, (row * kept..(row + 1) * kept).collect()))
            .collect();
        for part in parts.iter_mut().take(count) {
            let partial = Partial { value: *part, index: None };
            *part = self.threads_along(ReduceOp::Sum, partial, &layout, &shape, matrix.long).value;
        }
        (self.b.join(&parts), sums_layout(&layout, matrix.long, keep, count))
    }

    /// The product that adds to the carried value `argument` of a loop's region and is carried on, if nothing else looks at either:
    /// then its sums over threads can wait until the loop ends.
    pub(super) fn deferrable(
        &self,
        region: RegionId,
        argument: Value,
        yielded: Value,
    ) -> Option<OpId> {
        let kernel = self.kernel;
        let id = kernel.defining_op(yielded)?;
        let op = &kernel.ops[id];
        let rows = self.few_rows_of(id, op)?;
        let uses = |value: Value| {
            kernel
                .walk(region)
                .iter()
                .map(|&id| kernel.ops[id].operands.iter().filter(|&&o| o == value).count())
                .sum::<usize>()
        };
        let here = kernel.regions[region].ops.contains(&id);
        let fits = op.operands[2] == argument && uses(argument) == 1 && uses(yielded) == 1;
        // The matrix is made in the loop, so that its layout is the plan's.
        let planned = self.plan.layouts.contains_key(&rows.matrix.value);
        (here && fits && planned).then_some(id)
    }

    /// The type of what such a loop carries.
    pub(super) fn deferred_type(&self, id: OpId) -> DeviceType {
        let op = &self.kernel.ops[id];
        let dtype = self.summed(op);
        let count = self.few_rows_of(id, op).map_or(1, |rows| {
            let layout = self.layout(rows.matrix.value);
            sums_layout(&layout, rows.matrix.long, rows.keep, self.row_count(rows)).count()
        });
        DeviceType::registers(dtype, count)
    }

    /// What the loop's result is: the value from before it and the sums.
    pub(super) fn finish_deferred(&mut self, id: OpId, init: Value, sums: Dv, result: Value) {
        let kernel = self.kernel;
        let Some(rows) = self.few_rows_of(id, &kernel.ops[id]) else { return };
        let (product, layout) = self.block_sums(rows, sums);
        let init = self.whole_tile(init, &layout);
        let sum = self.b.binary(BinaryOp::Add, init, product);
        self.set_tile(result, sum, layout);
    }

    /// A thread's part of the sums of a row, in the registers of `layout` along `long`, with each row of the matrix; on top of what there
    /// is.
    fn row_by_matrix(
        &mut self,
        dtype: DType,
        matrix: Dv,
        layout: &Layout,
        (row, start): (Dv, Option<Dv>),
        long: usize,
    ) -> Dv {
        let kept: Vec<usize> = places(layout, |bit| bit.axis as usize != long);
        let summed: Vec<usize> = places(layout, |bit| bit.axis as usize == long);
        let mut sum = start;
        for k in 0..1u32 << summed.len() {
            let registers = (0..1u32 << kept.len())
                .map(|n| spread_bits(n, &kept) | spread_bits(k, &summed))
                .collect();
            let column = self.b.pick(matrix, registers);
            let factor = self.b.pick(row, vec![k]);
            sum = Some(match sum {
                None => self.b.binary(BinaryOp::Mul, column, factor),
                Some(sum) => self.add_product(dtype, column, factor, sum),
            });
        }
        // There is at least one register along the sum.
        sum.unwrap_or(matrix)
    }

    /// Both operands pass through shared memory in pieces along the sum; each thread multiplies its rows by its columns.
    fn outer_product(&mut self, op: &Op, a: Operand, b: Operand) {
        let dtype = self.summed(op);
        let layout = self.layout(op.results[0]);
        let mut acc = self.whole_tile(op.operands[2], &layout);
        let k = self.shape(a.value).side(a.long).next_power_of_two();
        let left = Columns::new(self.kept_side(a), &layout, 0);
        let right = Columns::new(self.kept_side(b), &layout, 1);
        let bytes_per_k = (left.stride + right.stride) * dtype.bytes();
        let mut piece = k;
        while piece > 1 && piece * bytes_per_k > self.scratch_limit() {
            piece /= 2;
        }
        let right = Columns { base: piece * left.stride, ..right };
        let (al, bl) = (self.own_layout(a.value), self.own_layout(b.value));
        let tiles = (self.operand(a, &al, dtype), self.operand(b, &bl, dtype));
        for first in (0..k).step_by(piece) {
            let scratch = self.scratch(piece * bytes_per_k);
            self.stage(scratch, a, (tiles.0, &al), (first, piece), left);
            self.stage(scratch, b, (tiles.1, &bl), (first, piece), right);
            self.publish();
            acc = self.multiply_staged(dtype, &layout, acc, (scratch, piece), (left, right));
        }
        self.set(op.results[0], Val::Tile(acc, layout));
    }

    fn kept_side(&self, operand: Operand) -> usize {
        self.shape(operand.value).side(operand.kept()).next_power_of_two()
    }

    /// Puts the part of an operand from `first` along the sum into shared memory, as columns.
    fn stage(
        &mut self,
        scratch: Shared,
        operand: Operand,
        (tile, layout): (Dv, &Layout),
        (first, piece): (usize, usize),
        to: Columns,
    ) {
        let (order, width) = neighbours_first(layout, operand.kept(), self.summed_dtype(tile));
        let along = |l: &Layout, r: u32, axis: usize| l.register_part(r, axis) as usize;
        let low = bits(piece);
        let above = |bit: &Bit| bit.axis as usize == operand.long && bit.bit >= low;
        let by_thread = layout.thread_bits().any(|(_, bit)| above(&bit));
        // Groups of registers in this piece, as far as registers tell.
        let groups: Vec<&[u32]> = order
            .chunks(width)
            .filter(|group| {
                along(layout, group[0], operand.long) / piece == first / piece || by_thread
            })
            .collect();
        let firsts: Vec<(usize, usize)> = groups
            .iter()
            .map(|group| {
                (along(layout, group[0], operand.long), along(layout, group[0], operand.kept()))
            })
            .collect();
        let (at, immediates) = self.column_places(layout, operand, to, first, &firsts);
        let mut mask = self.first_owner(layout);
        if by_thread {
            let k = self.small_coordinate(layout, operand.long);
            let k = self.b.spread(k, layout.count());
            let k = self.b.pick(k, groups.iter().map(|group| group[0]).collect());
            let ends = [first, first + piece].map(|end| self.int(DType::I32, end as i64));
            let after = self.b.compare(CompareOp::Ge, k, ends[0]);
            let before = self.b.compare(CompareOp::Lt, k, ends[1]);
            let here = self.b.binary(BinaryOp::And, after, before);
            mask = Some(self.and(mask, here));
        }
        let tile = self.b.pick(tile, groups.into_iter().flatten().copied().collect());
        self.store_shared((scratch, width), at, immediates, mask, tile);
    }

    fn summed_dtype(&self, tile: Dv) -> DType {
        match self.b.program.ty(tile) {
            DeviceType::Registers { dtype, .. } => dtype,
            _ => DType::F32,
        }
    }

    /// Where a thread's elements lie whose registers add these coordinates along the sum and beside it: places, and what is added to them.
    fn column_places(
        &mut self,
        layout: &Layout,
        operand: Operand,
        to: Columns,
        first: usize,
        parts: &[(usize, usize)],
    ) -> (Dv, Vec<i64>) {
        let k = self.thread_part(layout, operand.long);
        let side = self.thread_part(layout, operand.kept());
        let turned = self.turned(side, k, to);
        let stride = self.int(DType::I32, to.stride as i64);
        let column = self.b.binary(BinaryOp::Mul, k, stride);
        let shift = to.base as i64 - (first * to.stride) as i64;
        // Turning is linear: what registers add turns the place of thread and register together.
        let turns: Vec<usize> =
            parts.iter().map(|&(k, side)| (side ^ to.turn(k)) & to.turns).collect();
        let mut kinds: Vec<usize> = turns.clone();
        kinds.sort_unstable();
        kinds.dedup();
        let places: Vec<Dv> = kinds
            .iter()
            .map(|&turn| {
                let turn = self.int(DType::I32, turn as i64);
                let side = self.b.binary(BinaryOp::Xor, turned, turn);
                self.b.binary(BinaryOp::Add, column, side)
            })
            .collect();
        let places = self.b.join(&places);
        let which =
            turns.iter().map(|turn| kinds.iter().position(|k| k == turn).unwrap_or(0) as u32);
        let at = self.b.pick(places, which.collect());
        let rest = |&(k, side): &(usize, usize)| {
            (k * to.stride + ((side ^ to.turn(k)) & !to.turns)) as i64 + shift
        };
        (at, parts.iter().map(rest).collect())
    }

    /// `side`, turned as in column `k`.
    fn turned(&mut self, side: Dv, k: Dv, columns: Columns) -> Dv {
        if columns.turns == 0 {
            return side;
        }
        let number = |l: &mut Self, n: usize| l.int(DType::I32, n as i64);
        let (two, four, three) = (number(self, 2), number(self, 4), number(self, 3));
        let turns = number(self, columns.turns);
        let low = self.b.binary(BinaryOp::Shr, k, two);
        let high = self.b.binary(BinaryOp::Shr, k, four);
        let turn = self.b.binary(BinaryOp::Xor, low, high);
        let turn = self.b.binary(BinaryOp::Shl, turn, three);
        let turn = self.b.binary(BinaryOp::And, turn, turns);
        self.b.binary(BinaryOp::Xor, side, turn)
    }

    /// `acc` and the product of the staged operands.
    fn multiply_staged(
        &mut self,
        dtype: DType,
        layout: &Layout,
        acc: Dv,
        (scratch, piece): (Shared, usize),
        (left, right): (Columns, Columns),
    ) -> Dv {
        let rows = places(layout, |bit| bit.axis == 0);
        let columns = places(layout, |bit| bit.axis == 1);
        let count = layout.count();
        let of_rows: Vec<u32> = (0..count).map(|r| gather_bits(r, &rows)).collect();
        let of_columns: Vec<u32> = (0..count).map(|r| gather_bits(r, &columns)).collect();
        let part = |axis: usize, places: &[usize]| -> Vec<i64> {
            (0..1u32 << places.len())
                .map(|n| layout.register_part(spread_bits(n, places), axis))
                .collect()
        };
        let (row_parts, column_parts) = (part(0, &rows), part(1, &columns));
        let (row_at, column_at) = (self.thread_part(layout, 0), self.thread_part(layout, 1));
        let end = self.int(DType::I32, piece as i64);
        let (zero, one) = (self.int(DType::I32, 0), self.int(DType::I32, 1));
        let k = self.b.value(DeviceType::one(DType::I32));
        let ty = DeviceType::registers(dtype, count);
        let (before, after) = (self.b.value(ty), self.b.value(ty));
        self.known.push(HashMap::new());
        self.b.begin(vec![k, before]);
        let mut load = |at: Dv, parts: &[i64], columns: Columns| {
            let at = self.turned(at, k, columns);
            let stride = self.int(DType::I32, columns.stride as i64);
            let column = self.b.binary(BinaryOp::Mul, k, stride);
            let at = self.b.binary(BinaryOp::Add, column, at);
            let base = self.int(DType::I32, columns.base as i64);
            let at = self.b.binary(BinaryOp::Add, at, base);
            self.load_vectors(scratch, at, parts, dtype)
        };
        let (a, b) = (load(row_at, &row_parts, left), load(column_at, &column_parts, right));
        let (a, b) = (self.b.pick(a, of_rows), self.b.pick(b, of_columns));
        let sum = self.add_product(dtype, a, b, before);
        self.b.push(DeviceOp::Control(ControlOp::Yield), &[sum], &[]);
        let body = self.b.end();
        self.known.pop();
        let acc = self.b.spread(acc, count);
        let unroll = DeviceOp::Control(ControlOp::For { unroll: true });
        self.b.push_with(unroll, vec![zero, end, one, acc], vec![after], vec![body]);
        after
    }

    /// Elements of shared memory at `at` and these parts, neighbours together.
    fn load_vectors(&mut self, buffer: Shared, at: Dv, parts: &[i64], dtype: DType) -> Dv {
        let mut width = (16 / dtype.bytes()).min(parts.len());
        let together = |width: usize| {
            parts.chunks(width).all(|group| {
                group[0] % width as i64 == 0
                    && group.iter().enumerate().all(|(n, &p)| p == group[0] + n as i64)
            })
        };
        while width > 1 && !together(width) {
            width /= 2;
        }
        let immediates = parts.iter().copied().step_by(width).collect();
        let load = MemoryOp::LoadShared { buffer, width: width as u8, immediates };
        self.make(DeviceOp::Memory(load), &[at], dtype, parts.len() as u32)
    }
}

/// The registers of `layout` in an order in which up to 16 bytes of neighbours along `axis` are beside each other, and how many.
fn neighbours_first(layout: &Layout, axis: usize, dtype: DType) -> (Vec<u32>, usize) {
    let most = (16 / dtype.bytes()).max(1).trailing_zeros() as usize;
    let place = |n: usize| {
        let wanted = Bit { axis: axis as u8, bit: n as u8 };
        layout.registers.iter().position(|&bit| bit == wanted)
    };
    let first: Vec<usize> = (0..most).map_while(place).collect();
    let others = (0..layout.registers.len()).filter(|n| !first.contains(n));
    let all: Vec<usize> = first.iter().copied().chain(others).collect();
    ((0..layout.count()).map(|n| spread_bits(n, &all)).collect(), 1 << first.len())
}

/// Which bits of the register number are of this kind.
fn places(layout: &Layout, of: impl Fn(&Bit) -> bool) -> Vec<usize> {
    (0..layout.registers.len()).filter(|&n| of(&layout.registers[n])).collect()
}

/// The bits of `n` at these places.
fn spread_bits(n: u32, places: &[usize]) -> u32 {
    places.iter().enumerate().fold(0, |at, (bit, &place)| at | (n >> bit & 1) << place)
}

/// The bits of `register` at these places, beside each other.
fn gather_bits(register: u32, places: &[usize]) -> u32 {
    places.iter().enumerate().fold(0, |at, (bit, &place)| at | (register >> place & 1) << bit)
}
