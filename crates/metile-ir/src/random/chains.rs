//! Operations on each other's results that rules of algebra are about: what a compiler would simplify
//! is rare in programs whose operations are drawn one by one.

use super::build::Generator;
use super::scalars;
use crate::dtype::DType;
use crate::scalar::Scalar;
use crate::tile::{BinaryOp, OpKind, Shape, TileType, UnaryOp, Value};

impl Generator<'_, '_> {
    /// A chain, whose end is often stored at once, so that it shows.
    pub(super) fn chain(&mut self) -> Option<()> {
        let end = match self.choices.below(14) {
            0..=2 => self.neutral()?,
            3 => {
                let a = self.any(|t| t.shape.rank() > 1)?;
                let a = self.permuted(a)?;
                self.permuted(a)?
            }
            4 => {
                let a = self.any(|t| t.shape.rank() > 0 && t.shape.elements() > 3)?;
                let sides = self.ty(a)?.shape.sides();
                let axis = (0..sides.len()).max_by_key(|&n| sides[n])?;
                let a = self.cut(a, axis)?;
                self.cut(a, axis)?
            }
            5 | 6 => {
                let mut a = self.any(|_| true)?;
                let shape = self.ty(a)?.shape;
                for _ in 0..2 {
                    let to = TileType::new(self.dtype(), shape);
                    a = self.op(OpKind::Cast, &[a], Some(to))?;
                }
                a
            }
            7 => self.twice()?,
            8 | 9 => self.choice()?,
            10 | 11 => self.signs()?,
            12 => self.overwritten()?,
            _ => self.folded()?,
        };
        if self.choices.chance(200) {
            self.show(end)?;
        }
        Some(())
    }

    /// Stores a value where it keeps its bits, if there is such a place.
    fn show(&mut self, value: Value) -> Option<()> {
        let dtype = self.ty(value)?.dtype;
        let all: Vec<_> = self.views.iter().copied().filter(|v| self.writable(v)).collect();
        let same: Vec<_> = all.iter().copied().filter(|v| v.ty.format.loaded() == dtype).collect();
        let view = self.choices.pick(if same.is_empty() { &all } else { &same })?;
        self.store_value(view, value)
    }

    /// Float arithmetic that changes a zero's sign or a NaN's bits, if anything.
    fn signs(&mut self) -> Option<Value> {
        let mut a = self.any(|t| t.dtype == DType::F32)?;
        let ty = self.ty(a)?;
        let ops = [BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Div];
        for _ in 0..1 + self.choices.below(3) {
            let op = self.choices.pick(&ops)?;
            let all = match op {
                BinaryOp::Add | BinaryOp::Sub => [0.0, -0.0],
                _ => [1.0, -1.0],
            };
            let b = self.choices.pick(&all)?;
            let b = self.constant(ty, Scalar::f32(b))?;
            let pair = if self.choices.chance(64) { [b, a] } else { [a, b] };
            a = self.op(OpKind::Binary(op), &pair, None)?;
        }
        Some(a)
    }

    /// What lies somewhere before and after something else is stored there.
    fn overwritten(&mut self) -> Option<Value> {
        let all: Vec<_> = self.views.iter().copied().filter(|v| self.writable(v)).collect();
        let view = self.choices.pick(&all)?;
        let ty = TileType::scalar(view.ty.format.loaded());
        let mut operands = vec![view.value];
        for _ in 0..view.ty.rank {
            operands.push(self.index()?);
        }
        let fill = self.special(ty)?;
        let place = operands.clone();
        operands.push(fill);
        let before = self.op(OpKind::Load { masked: false }, &operands, None)?;
        let value = self.want(ty)?;
        let store = [&place[..], &[value]].concat();
        self.effect(OpKind::Store { masked: false }, &store)?;
        let after = self.op(OpKind::Load { masked: false }, &operands, None)?;
        self.show(before)?;
        Some(after)
    }

    /// A constant of this type, such as rules are about.
    fn special(&mut self, ty: TileType) -> Option<Value> {
        let scalar = match self.choices.below(3) {
            0 => Scalar::zero(ty.dtype),
            1 => scalars::neutral(ty.dtype, self.choices.byte()),
            _ => scalars::constant(self.choices, ty.dtype),
        };
        self.constant(ty, scalar)
    }

    /// Arithmetic with such constants, or with itself.
    fn neutral(&mut self) -> Option<Value> {
        let mut a = self.any(|t| t.dtype.is_arithmetic() || t.dtype == DType::Bool)?;
        let ty = self.ty(a)?;
        let ops = match ty.dtype {
            DType::Bool => &[BinaryOp::And, BinaryOp::Or, BinaryOp::Xor][..],
            DType::F32 => &super::elementwise::BINARY[..7],
            _ => &super::elementwise::BINARY[..],
        };
        for _ in 0..1 + self.choices.below(3) {
            let op = self.choices.pick(ops)?;
            let b = match self.choices.below(6) {
                0 => a,
                1 if ty.dtype.is_arithmetic() => {
                    self.op(OpKind::Unary(UnaryOp::Neg), &[a], None)?
                }
                _ => self.special(ty)?,
            };
            let pair = if self.choices.chance(64) { [b, a] } else { [a, b] };
            a = self.op(OpKind::Binary(op), &pair, None)?;
        }
        Some(a)
    }

    /// Any order of the axes.
    pub(super) fn permuted(&mut self, a: Value) -> Option<Value> {
        let mut axes: Vec<u8> = (0..self.ty(a)?.shape.rank() as u8).collect();
        for n in (1..axes.len()).rev() {
            // Zeros swap each axis with the first, so that the least choice moves something.
            axes.swap(n, self.choices.below(n + 1));
        }
        self.op(OpKind::Transpose(axes), &[a], None)
    }

    /// A slice along `axis`.
    pub(super) fn cut(&mut self, a: Value, axis: usize) -> Option<Value> {
        let ty = self.ty(a)?;
        let side = ty.shape.side(axis);
        let start = self.choices.below(side.min(4));
        let step = 1 + self.choices.below(3);
        let most = (side - start).div_ceil(step);
        let mut sides = ty.shape.sides();
        sides[axis] = most - if self.choices.chance(64) { self.choices.below(most) } else { 0 };
        let to = TileType::new(ty.dtype, Shape::new(&sides).ok()?);
        let kind = OpKind::Slice { axis: axis as u8, start: start as u32, step: step as u32 };
        self.op(kind, &[a], Some(to))
    }

    /// An operation and its like.
    fn twice(&mut self) -> Option<Value> {
        let ops = [UnaryOp::Neg, UnaryOp::Not, UnaryOp::Abs, UnaryOp::ReverseBits];
        let first = self.choices.pick(&ops)?;
        let a = self.any(|t| super::elementwise::unary_fits(first, t.dtype))?;
        let dtype = self.ty(a)?.dtype;
        let fits: Vec<UnaryOp> =
            ops.into_iter().filter(|&op| super::elementwise::unary_fits(op, dtype)).collect();
        let second = if self.choices.chance(128) { first } else { self.choices.pick(&fits)? };
        let a = self.op(OpKind::Unary(first), &[a], None)?;
        self.op(OpKind::Unary(second), &[a], None)
    }

    /// A comparison, its opposite, and what is chosen by it.
    fn choice(&mut self) -> Option<Value> {
        let a = self.any(|t| t.dtype.is_arithmetic())?;
        let ty = self.ty(a)?;
        let b = if self.choices.chance(64) { a } else { self.special(ty)? };
        let op = self.choices.pick(&super::elementwise::COMPARE)?;
        let pair = if self.choices.chance(96) { [b, a] } else { [a, b] };
        let mut c = self.op(OpKind::Compare(op), &pair, None)?;
        if self.choices.chance(128) {
            c = self.op(OpKind::Unary(UnaryOp::Not), &[c], None)?;
        }
        let arm = if self.choices.chance(128) { self.ty(c)? } else { ty };
        let (a, b) = (self.special(arm)?, self.special(arm)?);
        self.op(OpKind::Select, &[c, a, b], None)
    }

    /// Reshaped or stretched, and again.
    fn folded(&mut self) -> Option<Value> {
        let mut a = self.any(|_| true)?;
        let reshape = self.choices.chance(128);
        for _ in 0..2 {
            let ty = self.ty(a)?;
            let shape = if reshape { self.refolded(ty.shape)? } else { self.stretched(ty.shape)? };
            let kind = if reshape { OpKind::Reshape } else { OpKind::Broadcast };
            a = self.op(kind, &[a], Some(TileType::new(ty.dtype, shape)))?;
        }
        Some(a)
    }
}
