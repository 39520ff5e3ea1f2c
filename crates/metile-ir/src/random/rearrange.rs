//! Operations that rearrange elements.

use super::build::Generator;
use crate::dtype::DType;
use crate::tile::{MAX_RANK, OpKind, Shape, TileType, Value};

impl Generator<'_, '_> {
    pub(super) fn rearrange(&mut self) -> Option<()> {
        match self.choices.below(6) {
            0 => {
                let a = self.any(|_| true)?;
                let shape = self.stretched(self.ty(a)?.shape)?;
                let to = TileType::new(self.ty(a)?.dtype, shape);
                self.op(OpKind::Broadcast, &[a], Some(to))?
            }
            1 => {
                let a = self.any(|_| true)?;
                let shape = self.refolded(self.ty(a)?.shape)?;
                let to = TileType::new(self.ty(a)?.dtype, shape);
                self.op(OpKind::Reshape, &[a], Some(to))?
            }
            2 => {
                let a = self.any(|_| true)?;
                self.permuted(a)?
            }
            3 => self.slice()?,
            4 => self.cat()?,
            _ => {
                let a = self.any(|t| t.shape.rank() > 0)?;
                let shape = self.ty(a)?.shape;
                let axis = self.choices.below(shape.rank());
                let index = self.with_side(shape, axis, |_| true)?;
                self.op(OpKind::Gather { axis: axis as u8 }, &[a, index], None)?
            }
        };
        Some(())
    }

    /// A shape that `from` stretches to.
    pub(super) fn stretched(&mut self, from: Shape) -> Option<Shape> {
        let mut sides = from.sides();
        while sides.len() < MAX_RANK && self.choices.chance(128) {
            sides.insert(0, 1);
        }
        for n in 0..sides.len() {
            let elements: usize = sides.iter().product();
            let room = self.limits.elements / elements.max(1);
            if sides[n] == 1 && room > 1 {
                sides[n] = 1 + self.choices.below(room.min(8));
            }
        }
        Shape::new(&sides).ok()
    }

    /// Another shape of as many elements.
    pub(super) fn refolded(&mut self, from: Shape) -> Option<Shape> {
        let mut rest = from.elements();
        let mut sides = Vec::new();
        for _ in 0..self.choices.below(MAX_RANK) {
            let fits: Vec<usize> =
                [1, 2, 3, 4, 5, 7, 8].into_iter().filter(|s| rest.is_multiple_of(*s)).collect();
            let side = self.choices.pick(&fits)?;
            rest /= side;
            sides.push(side);
        }
        if rest > 1 || self.choices.chance(128) {
            sides.push(rest);
        }
        Shape::new(&sides).ok()
    }

    fn slice(&mut self) -> Option<Value> {
        let a = self.any(|t| t.shape.rank() > 0)?;
        let ty = self.ty(a)?;
        let axis = self.choices.below(ty.shape.rank());
        self.cut(a, axis)
    }

    fn cat(&mut self) -> Option<Value> {
        let a = self.any(|t| t.shape.rank() > 0)?;
        let ty = self.ty(a)?;
        let axis = self.choices.below(ty.shape.rank());
        let mut parts = vec![a];
        for _ in 0..self.choices.below(3) {
            let dtype = ty.dtype;
            parts.push(self.with_side(ty.shape, axis, |d| d == dtype)?);
        }
        let elements: usize =
            parts.iter().filter_map(|&v| self.ty(v)).map(|t| t.shape.elements()).sum();
        if elements > self.limits.elements {
            parts.truncate(1);
        }
        self.op(OpKind::Cat { axis: axis as u8 }, &parts, None)
    }

    /// A tile of the shape with any side along `axis`; of integers if every dtype will do.
    fn with_side(
        &mut self,
        shape: Shape,
        axis: usize,
        fits: impl Fn(DType) -> bool,
    ) -> Option<Value> {
        let same = |t: TileType| {
            let mut sides = t.shape.sides();
            sides.len() == shape.rank() && {
                sides[axis] = shape.side(axis);
                sides == shape.sides()
            }
        };
        let any = fits(DType::Bool) && fits(DType::F32);
        let wanted = |d: DType| if any { d.is_int() } else { fits(d) };
        if let Some(found) = self.find(|t| wanted(t.dtype) && same(t))
            && self.choices.chance(160)
        {
            return Some(found);
        }
        let mut sides = shape.sides();
        sides[axis] = 1 + self.choices.below(4);
        let dtypes: Vec<DType> = DType::ALL.into_iter().filter(|&d| wanted(d)).collect();
        let dtype = self.choices.pick(&dtypes)?;
        let shape = Shape::new(&sides).ok()?;
        if any && self.choices.chance(160) {
            return self.positions(shape, axis, dtype);
        }
        self.want(TileType::new(dtype, shape))
    }

    /// 0, 1, 2, … along `axis`, or the other way round, as `dtype`.
    pub(super) fn positions(&mut self, shape: Shape, axis: usize, dtype: DType) -> Option<Value> {
        let side = shape.side(axis);
        let line = TileType::new(DType::I64, Shape::new(&[side]).ok()?);
        let mut at = self.op(OpKind::Arange, &[], Some(line))?;
        if self.choices.chance(64) {
            let last = self.constant(line, crate::Scalar::i64(side as i64 - 1))?;
            at = self.op(OpKind::Binary(crate::tile::BinaryOp::Sub), &[last, at], None)?;
        }
        let mut sides = vec![1; shape.rank()];
        sides[axis] = side;
        let turned = TileType::new(DType::I64, Shape::new(&sides).ok()?);
        let at = self.op(OpKind::Reshape, &[at], Some(turned))?;
        let at = self.op(OpKind::Broadcast, &[at], Some(TileType::new(DType::I64, shape)))?;
        if dtype == DType::I64 {
            return Some(at);
        }
        self.op(OpKind::Cast, &[at], Some(TileType::new(dtype, shape)))
    }
}
