//! Reductions and scans.

use super::{Lowering, Val, padded_elements, padded_strides};
use crate::gpu::layout::Layout;
use metile_device::Value as Dv;
use metile_ir::dtype::DType;
use metile_ir::scalar::Scalar;
use metile_ir::tile::{BinaryOp, CompareOp, Op, ReduceOp, ScanOp, Shape};

/// Elements that are being combined, with their indices for arg-reductions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Partial {
    pub value: Dv,
    pub index: Option<Dv>,
}

/// The scalar that changes nothing.
fn neutral(op: ReduceOp, dtype: DType) -> Scalar {
    let bits = dtype.bits();
    let (least, most) = match dtype {
        DType::F32 => (Scalar::f32(f32::NEG_INFINITY), Scalar::f32(f32::INFINITY)),
        d if d.is_signed_int() => {
            (Scalar::int(d, -1i128 << (bits - 1)), Scalar::int(d, (1i128 << (bits - 1)) - 1))
        }
        d => (Scalar::zero(d), Scalar::int(d, (1i128 << bits) - 1)),
    };
    match op {
        // -0, so that a sum of nothing but -0 is -0.
        ReduceOp::Sum if dtype == DType::F32 => Scalar::f32(-0.0),
        ReduceOp::Sum => Scalar::zero(dtype),
        ReduceOp::Max | ReduceOp::ArgMax => least,
        ReduceOp::Min | ReduceOp::ArgMin => most,
        ReduceOp::Any => Scalar::bool(false),
        ReduceOp::All => Scalar::bool(true),
    }
}

impl Lowering<'_> {
    pub(super) fn reduce(&mut self, op: &Op, kind: ReduceOp, axis: usize) {
        let (from, result) = (op.operands[0], op.results[0]);
        let (shape, dtype) = (self.shape(from), self.dtype(from));
        let layout = self.own_layout(from);
        let mut value = self.whole_tile(from, &layout);
        if !shape.side(axis).is_power_of_two() {
            let at = self.small_coordinate(&layout, axis);
            let side = self.int(DType::I32, shape.side(axis) as i64);
            let real = self.b.compare(CompareOp::Lt, at, side);
            let nothing = self.constant(neutral(kind, dtype));
            value = self.b.select(real, value, nothing);
        }
        let index = matches!(kind, ReduceOp::ArgMax | ReduceOp::ArgMin).then(|| {
            let at = self.small_coordinate(&layout, axis);
            self.b.spread(at, layout.count())
        });
        let all = Partial { value, index };
        let combined = self.along(kind, all, &layout, &shape, axis);
        let made = match combined.index {
            Some(index) => self.b.cast(index, DType::I64),
            None => combined.value,
        };
        let without = layout.without(axis);
        match self.is_scalar(result) {
            true => self.set_scalar(result, made),
            false => self.set_tile(result, made, without),
        }
    }

    /// Everything along `axis` combined, in the layout without it, in every thread that held a part.
    pub(super) fn along(
        &mut self,
        kind: ReduceOp,
        partial: Partial,
        layout: &Layout,
        shape: &Shape,
        axis: usize,
    ) -> Partial {
        let within = self.registers_along(kind, partial, layout, axis);
        self.threads_along(kind, within, layout, shape, axis)
    }

    /// The registers of a thread that differ in bits along `axis`, combined by halves.
    fn registers_along(
        &mut self,
        kind: ReduceOp,
        partial: Partial,
        layout: &Layout,
        axis: usize,
    ) -> Partial {
        let mut partial = partial;
        let mut bits = layout.registers.clone();
        while let Some(place) = bits.iter().rposition(|b| b.axis as usize == axis) {
            let count = 1u32 << (bits.len() - 1);
            let half = |set: u32| -> Vec<u32> {
                let low = (1 << place) - 1;
                (0..count).map(|n| n & low | (n & !low) << 1 | set << place).collect()
            };
            let (a, b) = (self.picked(partial, half(0)), self.picked(partial, half(1)));
            partial = self.combine(kind, a, b);
            bits.remove(place);
        }
        partial
    }

    fn picked(&mut self, partial: Partial, registers: Vec<u32>) -> Partial {
        Partial {
            value: self.b.pick(partial.value, registers.clone()),
            index: partial.index.map(|i| self.b.pick(i, registers)),
        }
    }

    /// The lanes and warps that differ in bits along `axis`.
    pub(super) fn threads_along(
        &mut self,
        kind: ReduceOp,
        partial: Partial,
        layout: &Layout,
        shape: &Shape,
        axis: usize,
    ) -> Partial {
        let mut partial = partial;
        for (lane, bit) in layout.lanes.iter().enumerate() {
            if bit.is_some_and(|bit| bit.axis as usize == axis) {
                let mask = 1 << lane;
                let other = Partial {
                    value: self.b.shuffle_xor(partial.value, mask),
                    index: partial.index.map(|i| self.b.shuffle_xor(i, mask)),
                };
                partial = self.combine(kind, partial, other);
            }
        }
        let warps: Vec<u8> = (0..layout.warps.len())
            .filter(|&n| layout.warps[n].is_some_and(|bit| bit.axis as usize == axis))
            .map(|n| n as u8)
            .collect();
        match warps.is_empty() {
            true => partial,
            false => self.warps_along(kind, partial, layout, shape, axis, &warps),
        }
    }

    /// Each warp leaves its part in shared memory, and every thread combines them in order.
    fn warps_along(
        &mut self,
        kind: ReduceOp,
        partial: Partial,
        layout: &Layout,
        shape: &Shape,
        axis: usize,
        warps: &[u8],
    ) -> Partial {
        let without = layout.without(axis);
        let mut sides = shape.sides();
        sides.remove(axis);
        let rest = Shape::new(&sides).unwrap_or(Shape::SCALAR);
        let (strides, elements) = (padded_strides(&rest), padded_elements(&rest));
        let parts = 1usize << warps.len();
        // The warp's place among those that are combined.
        let thread = self.position(metile_device::PositionOp::Thread);
        let mut place = None;
        for (to, &warp) in warps.iter().enumerate() {
            let shift = self.int(DType::I32, i64::from(warp) + 5);
            let one = self.int(DType::I32, 1);
            let up = self.int(DType::I32, to as i64);
            let bit = self.b.binary(BinaryOp::Shr, thread, shift);
            let bit = self.b.binary(BinaryOp::And, bit, one);
            let bit = self.b.binary(BinaryOp::Shl, bit, up);
            place = Some(self.plus(place, bit));
        }
        let at = self.linear(&without, &rest, &strides);
        let size = self.int(DType::I32, elements as i64);
        let mine = match place {
            Some(place) => self.b.binary(BinaryOp::Mul, place, size),
            None => size,
        };
        let to = self.b.binary(BinaryOp::Add, at, mine);
        let owner = {
            // Lanes and other warps that hold the same part.
            let mut repeated = without.repeated();
            for &warp in warps {
                repeated &= !(1 << (warp + 5));
            }
            self.nth_bits_clear(repeated)
        };
        let mut gathered = Vec::new();
        let count = without.count();
        for value in [Some(partial.value), partial.index].into_iter().flatten() {
            let dtype = self.b.program.dtype(value).unwrap_or(DType::I32);
            let positions: Vec<i64> = (0..parts)
                .flat_map(|part| vec![(part * elements) as i64; count as usize])
                .collect();
            let firsts = self.b.ints(DType::I32, &positions);
            let repeated: Vec<u32> = (0..parts as u32 * count)
                .map(|n| if self.b.program.count(at) == 1 { 0 } else { n % count })
                .collect();
            let own = self.b.pick(at, repeated);
            let wanted = self.b.binary(BinaryOp::Add, own, firsts);
            gathered.push(self.through_shared(
                dtype,
                parts * elements,
                &[(value, to, owner)],
                wanted,
            ));
        }
        let part = |l: &mut Self, n: u32| -> Partial {
            let registers: Vec<u32> = (n * count..(n + 1) * count).collect();
            Partial {
                value: l.b.pick(gathered[0], registers.clone()),
                index: gathered.get(1).map(|&i| l.b.pick(i, registers)),
            }
        };
        let mut combined = part(self, 0);
        for n in 1..parts as u32 {
            let next = part(self, n);
            combined = self.combine(kind, combined, next);
        }
        combined
    }

    /// Whether none of these bits of the thread's number is set; `None` for no bits.
    fn nth_bits_clear(&mut self, bits: u32) -> Option<Dv> {
        if bits == 0 {
            return None;
        }
        let thread = self.position(metile_device::PositionOp::Thread);
        let mask = self.int(DType::I32, i64::from(bits));
        let zero = self.int(DType::I32, 0);
        let set = self.b.binary(BinaryOp::And, thread, mask);
        Some(self.b.compare(CompareOp::Eq, set, zero))
    }

    fn combine(&mut self, kind: ReduceOp, a: Partial, b: Partial) -> Partial {
        let binary = match kind {
            ReduceOp::Sum => BinaryOp::Add,
            ReduceOp::Max => BinaryOp::Max,
            ReduceOp::Min => BinaryOp::Min,
            ReduceOp::Any => BinaryOp::Or,
            ReduceOp::All => BinaryOp::And,
            ReduceOp::ArgMax | ReduceOp::ArgMin => return self.better(kind, a, b),
        };
        Partial { value: self.b.binary(binary, a.value, b.value), index: None }
    }

    /// The first NaN, else the larger (or smaller), else the lower index.
    fn better(&mut self, kind: ReduceOp, a: Partial, b: Partial) -> Partial {
        let (Some(at), Some(bt)) = (a.index, b.index) else { return a };
        let beyond = if kind == ReduceOp::ArgMax { CompareOp::Gt } else { CompareOp::Lt };
        let mut wins = self.b.compare(beyond, b.value, a.value);
        let mut equal = self.b.compare(CompareOp::Eq, b.value, a.value);
        if self.b.program.dtype(a.value) == Some(DType::F32) {
            let a_nan = self.b.compare(CompareOp::Ne, a.value, a.value);
            let b_nan = self.b.compare(CompareOp::Ne, b.value, b.value);
            let a_number = self.b.unary(metile_ir::tile::UnaryOp::Not, a_nan);
            let first_nan = self.b.binary(BinaryOp::And, b_nan, a_number);
            wins = self.b.binary(BinaryOp::Or, wins, first_nan);
            let both = self.b.binary(BinaryOp::And, a_nan, b_nan);
            equal = self.b.binary(BinaryOp::Or, equal, both);
        }
        let lower = self.b.compare(CompareOp::Lt, bt, at);
        let tie = self.b.binary(BinaryOp::And, equal, lower);
        let wins = self.b.binary(BinaryOp::Or, wins, tie);
        Partial {
            value: self.b.select(wins, b.value, a.value),
            index: Some(self.b.select(wins, bt, at)),
        }
    }

    /// Inclusive prefixes, by steps of 1, 2, 4, … (Hillis and Steele, 1986).
    pub(super) fn scan(&mut self, op: &Op, kind: ScanOp, axis: usize) {
        let (from, result) = (op.operands[0], op.results[0]);
        let (shape, dtype) = (self.shape(from), self.dtype(from));
        let layout = self.layout(result);
        let binary = match kind {
            ScanOp::Sum => BinaryOp::Add,
            ScanOp::Max => BinaryOp::Max,
            ScanOp::Min => BinaryOp::Min,
        };
        let strides = padded_strides(&shape);
        let elements = padded_elements(&shape);
        let at = self.linear(&layout, &shape, &strides);
        let coordinate = self.small_coordinate(&layout, axis);
        let mut value = self.whole_tile(from, &layout);
        let mut step = 1;
        while step < shape.side(axis) {
            let by = self.int(DType::I32, step as i64);
            let reaches = self.b.compare(CompareOp::Ge, coordinate, by);
            let back = self.int(DType::I32, step as i64 * strides[axis]);
            let earlier = self.b.binary(BinaryOp::Sub, at, back);
            let earlier = self.b.select(reaches, earlier, at);
            let owner = self.first_owner(&layout);
            let other = self.through_shared(dtype, elements, &[(value, at, owner)], earlier);
            let sum = self.b.binary(binary, other, value);
            value = self.b.select(reaches, sum, value);
            value = self.b.spread(value, layout.count());
            step *= 2;
        }
        self.set(result, Val::Tile(value, layout));
    }
}
