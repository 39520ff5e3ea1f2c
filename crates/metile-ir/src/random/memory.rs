//! Views, loads, stores and atomics.

use super::build::{Generator, View};
use crate::dtype::{DType, Format};
use crate::tile::{AtomicOp, BinaryOp, OpKind, Shape, TensorType, TileType, Value};

impl Generator<'_, '_> {
    fn pick_view(&mut self, fits: impl Fn(&Self, &View) -> bool) -> Option<View> {
        let all: Vec<View> = self.views.iter().copied().filter(|v| fits(self, v)).collect();
        self.choices.pick(&all)
    }

    /// A view of a view, an item of a list, or an extent.
    pub(super) fn view(&mut self) -> Option<()> {
        match self.choices.below(4) {
            0 => {
                let view = self.pick_view(|_, _| true)?;
                let axis = self.choices.below(view.ty.rank as usize) as u8;
                self.op(OpKind::Dim { axis }, &[view.value], None)?;
            }
            1 if !self.lists.is_empty() => {
                let (list, ty) = self.choices.pick(&self.lists.clone())?;
                let index = self.index()?;
                let value = self.op(OpKind::ListItem, &[list, index], None)?;
                self.views.push(View { value, ty, written: None, own: false });
            }
            2 => {
                let view = self.pick_view(|_, v| whole_axes(v.ty) > 0)?;
                let axis = self.choices.below(whole_axes(view.ty)) as u8;
                let start = self.index()?;
                let length = match self.choices.chance(64) {
                    true => self.op(OpKind::Dim { axis }, &[view.value], None)?,
                    false => self.index()?,
                };
                let operands = [view.value, start, length];
                let value = self.op(OpKind::Narrow { axis }, &operands, None)?;
                self.views.push(View { value, ..view });
            }
            _ => {
                let view = self.pick_view(|_, v| v.ty.rank > 1 && whole_axes(v.ty) > 0)?;
                let axis = self.choices.below(whole_axes(view.ty)) as u8;
                let index = self.index()?;
                let value = self.op(OpKind::Pick { axis }, &[view.value, index], None)?;
                let ty = TensorType { rank: view.ty.rank - 1, ..view.ty };
                self.views.push(View { value, ty, ..view });
            }
        }
        Some(())
    }

    /// A scalar index: often a small one.
    pub(super) fn index(&mut self) -> Option<Value> {
        let i64s = TileType::scalar(DType::I64);
        match self.choices.below(6) {
            0..=2 => {
                let small = self.choices.below(8) as i64;
                self.int(small)
            }
            3 => {
                let a = self.want(i64s)?;
                let mask = self.int(7)?;
                self.op(OpKind::Binary(BinaryOp::And), &[a, mask], None)
            }
            4 => {
                let near = self.choices.below(8) as i64 - 4;
                self.int(near)
            }
            _ => self.want(i64s),
        }
    }

    pub(super) fn load(&mut self) -> Option<()> {
        let view = self.pick_view(Self::readable)?;
        let dtype = view.ty.format.loaded();
        let fill = self.want(TileType::scalar(dtype))?;
        let mut operands = vec![view.value];
        if self.choices.chance(96) {
            let rank = view.ty.rank as usize;
            for _ in 0..rank {
                operands.push(self.index()?);
            }
            operands.push(fill);
            let shape = self.shape_of_rank(rank)?;
            self.op(OpKind::LoadTile, &operands, Some(TileType::new(dtype, shape)))?;
            return Some(());
        }
        let shape = self.shape();
        for _ in 0..view.ty.rank {
            operands.push(self.coordinate(shape)?);
        }
        let masked = self.choices.chance(96);
        if masked {
            operands.push(self.want(TileType::new(DType::Bool, shape))?);
        }
        operands.push(fill);
        self.op(OpKind::Load { masked }, &operands, None)?;
        Some(())
    }

    /// A coordinate for reading: lanes may meet, and may lie outside.
    fn coordinate(&mut self, shape: Shape) -> Option<Value> {
        let ints: Vec<DType> = DType::ALL.into_iter().filter(|d| d.is_int()).collect();
        let dtype = if self.choices.chance(64) { self.choices.pick(&ints)? } else { DType::I64 };
        match self.choices.below(4) {
            0 | 1 if shape.rank() > 0 => {
                let axis = shape.rank() - 1 - self.choices.below(shape.rank());
                self.positions(shape, axis, dtype)
            }
            2 => self.want(TileType::new(dtype, shape)),
            _ => {
                let index = self.index()?;
                self.op(OpKind::Broadcast, &[index], Some(TileType::new(DType::I64, shape)))
            }
        }
    }

    fn shape_of_rank(&mut self, rank: usize) -> Option<Shape> {
        let mut sides = vec![1; rank];
        let mut room = self.limits.elements.max(1);
        for side in sides.iter_mut().rev() {
            *side = 1 + self.choices.below(room.min(9));
            room /= *side;
        }
        Shape::new(&sides).ok()
    }

    pub(super) fn store(&mut self) -> Option<()> {
        let view = self.pick_view(Self::writable)?;
        let value = self.any(|_| true)?;
        self.store_value(view, value)
    }

    /// Stores `value`, converted and reshaped to fit, in elements that differ.
    pub(super) fn store_value(&mut self, view: View, value: Value) -> Option<()> {
        let dtype = view.ty.format.loaded();
        let mut value = value;
        let ty = self.ty(value)?;
        if ty.dtype != dtype {
            // A conversion by value hides the sign of a zero, and which NaN it is.
            let truth = ty.dtype == DType::Bool || dtype == DType::Bool;
            let fits = !truth && ty.dtype.bits() == dtype.bits() && self.limits.payloads;
            let kind = if fits { OpKind::Bitcast } else { OpKind::Cast };
            value = self.op(kind, &[value], Some(TileType::new(dtype, ty.shape)))?;
        }
        let rank = view.ty.rank as usize;
        let mut operands = vec![view.value];
        if self.choices.chance(80) {
            let mut sides = ty.shape.sides();
            if sides.len() > rank {
                sides = vec![ty.shape.elements()];
            }
            while sides.len() < rank {
                sides.insert(0, 1);
            }
            let to = TileType::new(dtype, Shape::new(&sides).ok()?);
            for _ in 0..rank {
                operands.push(self.index()?);
            }
            operands.push(self.op(OpKind::Reshape, &[value], Some(to))?);
            return self.effect(OpKind::StoreTile, &operands);
        }
        // Lanes differ by their position along the last axes of the view.
        let axes = ty.shape.rank().min(rank);
        let shape = if ty.shape.rank() > axes || axes == 0 {
            Shape::new(&[ty.shape.elements()]).ok()?
        } else {
            ty.shape
        };
        let to = TileType::new(dtype, shape);
        let value = self.op(OpKind::Reshape, &[value], Some(to))?;
        let coordinates = self.distinct(rank, shape)?;
        operands.extend(coordinates);
        let masked = self.choices.chance(80);
        if masked {
            operands.push(self.want(TileType::new(DType::Bool, shape))?);
        }
        operands.push(value);
        self.effect(OpKind::Store { masked }, &operands)
    }

    /// Coordinates of `rank` axes for a tile of at least one axis and at most `rank`, such that no two
    /// lanes have the same: the last ones go with the tile's axes, the others are the same everywhere.
    fn distinct(&mut self, rank: usize, shape: Shape) -> Option<Vec<Value>> {
        let everywhere = rank.checked_sub(shape.rank())?;
        let mut coordinates = Vec::new();
        for n in 0..rank {
            let ty = TileType::new(DType::I64, shape);
            if n < everywhere {
                let index = self.index()?;
                coordinates.push(self.op(OpKind::Broadcast, &[index], Some(ty))?);
                continue;
            }
            // Steps and starts keep lanes apart as long as the numbers don't wrap around to each
            // other, so they are small, and the dtype is not the narrowest.
            let wide = [DType::I64, DType::I64, DType::I32, DType::U32, DType::I16, DType::U64];
            let mut at = self.positions(shape, n - everywhere, DType::I64)?;
            if self.choices.chance(48) {
                let step = crate::Scalar::i64(2 + self.choices.below(2) as i64);
                let step = self.constant(ty, step)?;
                at = self.op(OpKind::Binary(BinaryOp::Mul), &[at, step], None)?;
            }
            if self.choices.chance(96) {
                let start = self.index()?;
                let start = self.op(OpKind::Broadcast, &[start], Some(ty))?;
                at = self.op(OpKind::Binary(BinaryOp::Add), &[at, start], None)?;
            }
            let dtype = self.choices.pick(&wide)?;
            if dtype != DType::I64 {
                at = self.op(OpKind::Cast, &[at], Some(TileType::new(dtype, shape)))?;
            }
            coordinates.push(at);
        }
        Some(coordinates)
    }

    pub(super) fn atomic(&mut self) -> Option<()> {
        if self.choices.chance(112)
            && let Some(sum) = self.choices.pick(&self.sums.clone())
        {
            let shape = self.shape();
            let at = self.coordinate(shape)?;
            let value = self.want(TileType::new(sum.dtype, shape))?;
            let visible = self.tiles.len();
            self.op(OpKind::AtomicRmw(sum.op), &[sum.value, at, value], None)?;
            // What was there before depends on who came first: nobody gets to use it.
            self.tiles.truncate(visible);
            return Some(());
        }
        let word = |v: &View| v.ty.format.loaded().is_int() && v.ty.format.loaded().bits() >= 32;
        let view = self.pick_view(|g, v| g.writable(v) && word(v))?;
        let rank = view.ty.rank as usize;
        let own = 1 + self.choices.below(rank.min(2));
        let shape = self.shape_of_rank(own)?;
        let ty = TileType::new(view.ty.format.loaded(), shape);
        let mut operands = vec![view.value];
        operands.extend(self.distinct(rank, shape)?);
        if self.choices.chance(80) {
            operands.extend([self.want(ty)?, self.want(ty)?]);
            self.op(OpKind::AtomicCas, &operands, None)?;
            return Some(());
        }
        let all = [AtomicOp::Add, AtomicOp::Max, AtomicOp::Min, AtomicOp::Exchange];
        let op = self.choices.pick(&all)?;
        operands.push(self.want(ty)?);
        self.op(OpKind::AtomicRmw(op), &operands, None)?;
        Some(())
    }
}

/// How many of the first axes a view may cut: all, but for the packed one.
fn whole_axes(ty: TensorType) -> usize {
    ty.rank as usize - usize::from(matches!(ty.format, Format::Packed(_)))
}
