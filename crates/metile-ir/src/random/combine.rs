//! Reductions, scans and matrix products.

use super::build::Generator;
use crate::dtype::DType;
use crate::tile::{OpKind, ReduceOp, ScanOp, Shape, TileType, Value};

impl Generator<'_, '_> {
    pub(super) fn combine(&mut self) -> Option<()> {
        match self.choices.below(4) {
            0 | 1 => self.reduce()?,
            2 => {
                let op = self.choices.pick(&[ScanOp::Max, ScanOp::Min, ScanOp::Sum])?;
                let sum = op == ScanOp::Sum;
                let a = self.addends(sum, |d| d.is_arithmetic())?;
                let axis = self.choices.below(self.ty(a)?.shape.rank()) as u8;
                self.op(OpKind::Scan { op, axis }, &[a], None)?
            }
            _ => self.dot()?,
        };
        Some(())
    }

    /// A tile with axes; without floats if they would be summed, and sums must be exact.
    fn addends(&mut self, sum: bool, fits: impl Fn(DType) -> bool) -> Option<Value> {
        let exact = sum && !self.limits.inexact;
        self.any(|t| t.shape.rank() > 0 && fits(t.dtype) && !(exact && t.dtype.is_float()))
    }

    fn reduce(&mut self) -> Option<Value> {
        let all = [
            ReduceOp::Sum,
            ReduceOp::Max,
            ReduceOp::Min,
            ReduceOp::ArgMax,
            ReduceOp::ArgMin,
            ReduceOp::Any,
            ReduceOp::All,
        ];
        let op = self.choices.pick(&all)?;
        let truth = matches!(op, ReduceOp::Any | ReduceOp::All);
        let fits = |d: DType| if truth { d == DType::Bool } else { d.is_arithmetic() };
        let a = self.addends(op == ReduceOp::Sum, fits)?;
        let axis = self.choices.below(self.ty(a)?.shape.rank()) as u8;
        self.op(OpKind::Reduce { op, axis }, &[a], None)
    }

    fn dot(&mut self) -> Option<Value> {
        let floats = self.limits.inexact && !self.choices.chance(64);
        let fits = |d: DType| if floats { d.is_float() } else { d == DType::I8 };
        let a = match self.find(|t| t.shape.rank() == 2 && fits(t.dtype)) {
            Some(a) => a,
            None => {
                let (m, k) = (1 + self.choices.below(8), 1 + self.choices.below(8));
                let dtype = self.factor(floats)?;
                self.want(TileType::new(dtype, Shape::new(&[m, k]).ok()?))?
            }
        };
        let shape = self.ty(a)?.shape;
        let (transpose_a, transpose_b) = (self.choices.chance(96), self.choices.chance(96));
        let k = shape.side(usize::from(!transpose_a));
        let m = shape.side(usize::from(transpose_a));
        let room = (self.limits.elements / k.max(m)).clamp(1, 8);
        let n = 1 + self.choices.below(room);
        let sides = if transpose_b { [n, k] } else { [k, n] };
        let dtype = self.factor(floats)?;
        let mut b = self.want(TileType::new(dtype, Shape::new(&sides).ok()?))?;
        if self.choices.chance(32) {
            // A transposition that the flag could have been: twice, so that the sides fit.
            b = self.op(OpKind::Transpose(vec![1, 0]), &[b], None)?;
            b = self.op(OpKind::Transpose(vec![1, 0]), &[b], None)?;
        }
        let dtype = if floats { DType::F32 } else { DType::I32 };
        let acc = self.want(TileType::new(dtype, Shape::new(&[m, n]).ok()?))?;
        self.op(OpKind::Dot { transpose_a, transpose_b }, &[a, b, acc], None)
    }

    fn factor(&mut self, floats: bool) -> Option<DType> {
        match floats {
            true => self.choices.pick(&[DType::F32, DType::F16, DType::BF16]),
            false => Some(DType::I8),
        }
    }
}
