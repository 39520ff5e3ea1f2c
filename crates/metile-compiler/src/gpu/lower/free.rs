//! Tiles that are computed from coordinates wherever they are needed.

use super::threads::{Affine, Evaluated};
use super::{Known, Lowering, Val};
use crate::gpu::facts::Fact;
use crate::gpu::layout::Layout;
use crate::gpu::steps::source;
use metile_device::{Op as DeviceOp, Type as DeviceType, Value as Dv};
use metile_ir::dtype::DType;
use metile_ir::tile::{BinaryOp, Op, OpKind, Shape, Value};

impl<'k> Lowering<'k> {
    /// The free tile `value` in `layout`: a register for each of the layout's, or one for all.
    pub(super) fn free_tile(&mut self, value: Value, layout: &Layout) -> Dv {
        let key = Known::Free(value, layout.clone());
        self.remember(key, |l| {
            let evaluated = l.evaluated(value, layout);
            l.registers_of(&evaluated)
        })
    }

    /// The integer tile `value` in `layout`, as a sum if it is one.
    pub(super) fn evaluated(&mut self, value: Value, layout: &Layout) -> Evaluated {
        if !matches!(self.values.get(&value), Some(Val::Free)) {
            return match self.is_scalar(value) {
                true => self.scalar_everywhere(value, layout.count()),
                false => Evaluated::Registers(self.tile(value, layout)),
            };
        }
        let coordinates = self.coordinates(layout, &self.shape(value));
        self.at(value, &coordinates, layout.count())
    }

    fn coordinates(&mut self, layout: &Layout, shape: &Shape) -> Vec<Evaluated> {
        (0..shape.rank()).map(|axis| Evaluated::Affine(self.coordinate(layout, axis))).collect()
    }

    pub(super) fn registers_of(&mut self, evaluated: &Evaluated) -> Dv {
        match evaluated {
            Evaluated::Affine(affine) => self.spelled_out(affine),
            Evaluated::Registers(v) => *v,
        }
    }

    /// A scalar in every register.
    pub(super) fn scalar_everywhere(&mut self, value: Value, count: u32) -> Evaluated {
        let scalar = self.scalar(value);
        match self.dtype(value) {
            DType::I64 => Evaluated::Affine(Affine {
                base: scalar,
                parts: vec![0; count as usize],
                fact: self.facts.of(value),
            }),
            _ => Evaluated::Registers(scalar),
        }
    }

    /// The free `value` at these coordinates, one for each axis of its shape.
    fn at(&mut self, value: Value, coordinates: &[Evaluated], count: u32) -> Evaluated {
        if self.is_scalar(value) {
            return self.scalar_everywhere(value, count);
        }
        let kernel = self.kernel;
        let Some(op) = kernel.defining_op(value).map(|id| &kernel.ops[id]) else {
            // Free values are results of operations.
            return self.scalar_everywhere(value, count);
        };
        match &op.kind {
            OpKind::Constant(scalar) => {
                let constant = self.constant(*scalar);
                match scalar.as_int().map(i64::try_from) {
                    Some(Ok(v)) if scalar.dtype() == DType::I64 => Evaluated::Affine(Affine {
                        base: constant,
                        parts: vec![0; count as usize],
                        fact: Fact::constant(v),
                    }),
                    _ => Evaluated::Registers(constant),
                }
            }
            OpKind::Arange => coordinates[0].clone(),
            OpKind::Broadcast | OpKind::Reshape | OpKind::Transpose(_) | OpKind::Slice { .. } => {
                self.at_moved(op, coordinates, count)
            }
            _ => self.at_elementwise(op, coordinates, count),
        }
    }

    /// Values that move elements: the operand at other coordinates.
    fn at_moved(&mut self, op: &'k Op, coordinates: &[Evaluated], count: u32) -> Evaluated {
        let from = op.operands[0];
        if self.is_scalar(from) {
            return self.scalar_everywhere(from, count);
        }
        let (source, target) = (self.shape(from), self.shape(op.results[0]));
        let moved: Vec<Evaluated> = match &op.kind {
            OpKind::Broadcast => {
                let lead = target.rank() - source.rank();
                (0..source.rank())
                    .map(|axis| match source.side(axis) {
                        1 => self.number(0, count),
                        _ => coordinates[lead + axis].clone(),
                    })
                    .collect()
            }
            OpKind::Transpose(axes) => {
                let mut moved = vec![None; axes.len()];
                for (to, &from) in axes.iter().enumerate() {
                    moved[from as usize] = Some(coordinates[to].clone());
                }
                moved.into_iter().flatten().collect()
            }
            OpKind::Slice { axis, start, step } => {
                let mut moved = coordinates.to_vec();
                let axis = *axis as usize;
                let scaled = self.scaled(&moved[axis], i64::from(*step), count);
                let start = self.number(i64::from(*start), count);
                moved[axis] = self.sum(&scaled, &start, 1);
                moved
            }
            _ => self.reshaped(&source, &target, coordinates, count),
        };
        self.at(from, &moved, count)
    }

    fn number(&mut self, v: i64, count: u32) -> Evaluated {
        let base = self.i64(v);
        Evaluated::Affine(Affine { base, parts: vec![0; count as usize], fact: Fact::constant(v) })
    }

    /// Coordinates in `source` of the elements at `coordinates` of its row-major reshape `target`.
    fn reshaped(
        &mut self,
        source: &Shape,
        target: &Shape,
        coordinates: &[Evaluated],
        count: u32,
    ) -> Vec<Evaluated> {
        let long = |s: &Shape| (0..s.rank()).filter(|&a| s.side(a) > 1).collect::<Vec<_>>();
        let (old, new) = (long(source), long(target));
        let sides = |s: &Shape, axes: &[usize]| axes.iter().map(|&a| s.side(a)).collect::<Vec<_>>();
        if sides(source, &old) == sides(target, &new) {
            return (0..source.rank())
                .map(|axis| match old.iter().position(|&a| a == axis) {
                    Some(n) => coordinates[new[n]].clone(),
                    None => self.number(0, count),
                })
                .collect();
        }
        let mut linear = self.number(0, count);
        for (axis, stride) in target.strides().into_iter().enumerate().take(target.rank()) {
            linear = self.sum(&linear, &coordinates[axis].clone(), stride as i64);
        }
        let linear = self.registers_of(&linear);
        let strides = source.strides();
        (0..source.rank())
            .map(|axis| {
                let stride = self.i64(strides[axis] as i64);
                let side = self.i64(source.side(axis) as i64);
                let at = self.b.binary(BinaryOp::Div, linear, stride);
                Evaluated::Registers(self.b.binary(BinaryOp::Rem, at, side))
            })
            .collect()
    }

    fn scaled(&mut self, value: &Evaluated, by: i64, count: u32) -> Evaluated {
        let zero = self.number(0, count);
        self.sum(&zero, value, by)
    }

    /// `a + by · b`, wrapping.
    pub(super) fn sum(&mut self, a: &Evaluated, b: &Evaluated, by: i64) -> Evaluated {
        if let (Evaluated::Affine(a), Evaluated::Affine(b)) = (a, b) {
            let parts = a.parts.iter().zip(&b.parts);
            let parts: Option<Vec<i64>> =
                parts.map(|(&x, &y)| x.checked_add(y.checked_mul(by)?)).collect();
            if let Some(parts) = parts {
                let scaled = self.times_number(b.base, by);
                let base = match a.fact {
                    Fact { low: 0, high: 0, .. } => scaled,
                    _ => self.b.binary(BinaryOp::Add, a.base, scaled),
                };
                let fact = a.fact.plus(b.fact.times(Fact::constant(by)));
                return Evaluated::Affine(Affine { base, parts, fact });
            }
        }
        let (a, b) = (self.registers_of(a), self.registers_of(b));
        let scaled = self.times_number(b, by);
        Evaluated::Registers(self.b.binary(BinaryOp::Add, a, scaled))
    }

    pub(super) fn times_number(&mut self, v: Dv, by: i64) -> Dv {
        if by == 1 {
            return v;
        }
        let by = self.i64(by);
        self.b.binary(BinaryOp::Mul, v, by)
    }

    fn at_elementwise(&mut self, op: &'k Op, coordinates: &[Evaluated], count: u32) -> Evaluated {
        let operands: Vec<Evaluated> =
            op.operands.iter().map(|&o| self.at(o, coordinates, count)).collect();
        if let (OpKind::Binary(kind), [a, b]) = (&op.kind, &operands[..])
            && self.dtype(op.results[0]) == DType::I64
            && let Some(sum) = self.affine_binary(*kind, a, b, (op.operands[0], op.operands[1]))
        {
            return sum;
        }
        let operands: Vec<Dv> = operands.iter().map(|e| self.registers_of(e)).collect();
        Evaluated::Registers(self.register_op(&op.kind, &operands, self.dtype(op.results[0])))
    }

    fn affine_binary(
        &mut self,
        kind: BinaryOp,
        a: &Evaluated,
        b: &Evaluated,
        (left, right): (Value, Value),
    ) -> Option<Evaluated> {
        let (Evaluated::Affine(_), Evaluated::Affine(_)) = (a, b) else { return None };
        let number = |l: &Self, v: Value| {
            let constant = l.kernel.constant(source(l.kernel, v))?;
            i64::try_from(constant.as_int()?).ok()
        };
        match kind {
            BinaryOp::Add => Some(self.sum(a, b, 1)),
            BinaryOp::Sub => Some(self.sum(a, b, -1)),
            BinaryOp::Mul => {
                let (value, by) = match (number(self, left), number(self, right)) {
                    (_, Some(by)) => (a, by),
                    (Some(by), _) => (b, by),
                    _ => return self.times_common(a, b),
                };
                let count = match value {
                    Evaluated::Affine(affine) => affine.parts.len() as u32,
                    Evaluated::Registers(_) => 1,
                };
                Some(self.scaled(value, by, count))
            }
            _ => None,
        }
    }

    /// A product of which one side is the same in every register and the other has no parts either.
    fn times_common(&mut self, a: &Evaluated, b: &Evaluated) -> Option<Evaluated> {
        let (Evaluated::Affine(a), Evaluated::Affine(b)) = (a, b) else { return None };
        if a.one_part() != Some(0) || b.one_part() != Some(0) {
            return None;
        }
        let base = self.b.binary(BinaryOp::Mul, a.base, b.base);
        Some(Evaluated::Affine(Affine { base, parts: a.parts.clone(), fact: a.fact.times(b.fact) }))
    }

    /// An element-wise operation on registers.
    pub(super) fn register_op(&mut self, kind: &OpKind, operands: &[Dv], dtype: DType) -> Dv {
        match *kind {
            OpKind::Unary(op) => self.b.unary(op, operands[0]),
            OpKind::Binary(op) => self.b.binary(op, operands[0], operands[1]),
            OpKind::Compare(op) => self.b.compare(op, operands[0], operands[1]),
            OpKind::Select => self.b.select(operands[0], operands[1], operands[2]),
            OpKind::Fma => self.b.fma(operands[0], operands[1], operands[2]),
            OpKind::Bitcast => self.b.bitcast(operands[0], dtype),
            _ => self.b.cast(operands[0], dtype),
        }
    }

    /// A statement with one result of `count` registers.
    pub(super) fn make(&mut self, op: DeviceOp, operands: &[Dv], dtype: DType, count: u32) -> Dv {
        self.b.one(op, operands, DeviceType::registers(dtype, count))
    }
}
