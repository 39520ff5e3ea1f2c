//! Operations that move elements within tiles.

use crate::element::{Dtype, Int};
use crate::tile::Tile;
use crate::trace::{At, Raw, Tracer, here, with};
use metile_ir::Diagnostic;
use metile_ir::tile::{MAX_RANK, OpKind, Shape, TileType};
use std::ops::Range;

impl<T: Dtype> Tile<T> {
    /// The tile stretched to `shape`: axes match from the last, sides of 1 and missing axes repeat.
    #[track_caller]
    pub fn broadcast_to<const R: usize>(self, shape: [usize; R]) -> Tile<T> {
        let at = here();
        Tile::from_raw(with(|t| match t.make_shape(at, &shape) {
            Some(shape) => t.broadcast(at, self.raw, shape),
            None => t.broken(),
        }))
    }

    /// The same elements in row-major order with another shape.
    #[track_caller]
    pub fn reshape<const R: usize>(self, shape: [usize; R]) -> Tile<T> {
        let at = here();
        Tile::from_raw(with(|t| reshape(t, at, T::DTYPE, self.raw, &shape)))
    }

    /// A new axis of side 1 before `axis`.
    #[track_caller]
    pub fn expand(self, axis: usize) -> Tile<T> {
        let at = here();
        Tile::from_raw(with(|t| {
            let Some(shape) = t.shape(at, self.raw) else { return t.broken() };
            let mut sides = shape.sides();
            if axis > sides.len() {
                return fail(t, at, format!("`expand` at axis {axis} of a tile of shape {shape}"));
            }
            sides.insert(axis, 1);
            reshape(t, at, T::DTYPE, self.raw, &sides)
        }))
    }

    /// The tile without `axis`, whose side is 1.
    #[track_caller]
    pub fn squeeze(self, axis: usize) -> Tile<T> {
        let at = here();
        Tile::from_raw(with(|t| {
            let Some(shape) = t.shape(at, self.raw) else { return t.broken() };
            let mut sides = shape.sides();
            if sides.get(axis) != Some(&1) {
                return fail(t, at, format!("`squeeze` of axis {axis} of a tile of shape {shape}"));
            }
            sides.remove(axis);
            reshape(t, at, T::DTYPE, self.raw, &sides)
        }))
    }

    /// The tile with its axes in another order: axis `i` of the result is axis `axes[i]`.
    #[track_caller]
    pub fn transpose<const R: usize>(self, axes: [usize; R]) -> Tile<T> {
        let at = here();
        let axes = axes.iter().map(|&a| u8::try_from(a).unwrap_or(u8::MAX)).collect();
        Tile::from_raw(with(|t| t.op(at, OpKind::Transpose(axes), &[self.raw], None)))
    }

    /// A matrix transposed: `[m, n]` becomes `[n, m]`.
    #[track_caller]
    pub fn t(self) -> Tile<T> {
        let at = here();
        Tile::from_raw(with(|t| t.op(at, OpKind::Transpose(vec![1, 0]), &[self.raw], None)))
    }

    /// Elements `range` of `axis`; the range is known at compile time.
    #[track_caller]
    pub fn slice(self, axis: usize, range: Range<usize>) -> Tile<T> {
        self.slice_step(axis, range, 1)
    }

    /// Every `step`-th element of `range` of `axis`.
    #[track_caller]
    pub fn slice_step(self, axis: usize, range: Range<usize>, step: usize) -> Tile<T> {
        let at = here();
        Tile::from_raw(with(|t| slice(t, at, T::DTYPE, self.raw, axis, range, step)))
    }

    /// The tile cut into `N` equal parts along `axis`.
    #[track_caller]
    pub fn split<const N: usize>(self, axis: usize) -> [Tile<T>; N] {
        let at = here();
        with(|t| {
            let side = t.shape(at, self.raw).map_or(0, |s| s.side(axis));
            if N == 0 || side % N.max(1) != 0 {
                let broken =
                    fail(t, at, format!("`split` of axis {axis}, of side {side}, into {N} parts"));
                return [Tile::from_raw(broken); N];
            }
            let part = side / N;
            std::array::from_fn(|i| {
                Tile::from_raw(slice(t, at, T::DTYPE, self.raw, axis, i * part..(i + 1) * part, 1))
            })
        })
    }

    /// Elements of this tile at `index` along `axis`, the other coordinates being the index's own.
    /// Tile and index agree on the other sides; an index outside yields 0.
    #[track_caller]
    pub fn gather<I: Int>(self, axis: usize, index: Tile<I>) -> Tile<T> {
        let at = here();
        let axis = u8::try_from(axis).unwrap_or(u8::MAX);
        Tile::from_raw(with(|t| t.op(at, OpKind::Gather { axis }, &[self.raw, index.raw], None)))
    }
}

/// Tiles one after the other along `axis`; their other sides are equal.
#[track_caller]
pub fn cat<T: Dtype, const N: usize>(tiles: [Tile<T>; N], axis: usize) -> Tile<T> {
    let at = here();
    let axis = u8::try_from(axis).unwrap_or(u8::MAX);
    let raws: Vec<Raw> = tiles.iter().map(|tile| tile.raw).collect();
    Tile::from_raw(with(|t| t.op(at, OpKind::Cat { axis }, &raws, None)))
}

/// Two tiles of one shape side by side on a new last axis of side 2.
#[track_caller]
pub fn join<T: Dtype>(a: Tile<T>, b: Tile<T>) -> Tile<T> {
    let at = here();
    Tile::from_raw(with(|t| join_raw(t, at, T::DTYPE, a.raw, b.raw)))
}

/// Two tiles of one shape woven along the last axis: `a₀, b₀, a₁, b₁, …`.
#[track_caller]
pub fn interleave<T: Dtype>(a: Tile<T>, b: Tile<T>) -> Tile<T> {
    let at = here();
    Tile::from_raw(with(|t| {
        let Some(shape) = t.shape(at, a.raw) else { return t.broken() };
        let mut sides = shape.sides();
        let Some(last) = sides.last_mut() else {
            return fail(t, at, "`interleave` of scalars; use `join`".to_owned());
        };
        *last *= 2;
        let joined = join_raw(t, at, T::DTYPE, a.raw, b.raw);
        reshape(t, at, T::DTYPE, joined, &sides)
    }))
}

fn fail(t: &mut Tracer, at: At, message: String) -> Raw {
    t.error(at, Diagnostic::error(message));
    t.broken()
}

fn reshape(t: &mut Tracer, at: At, dtype: metile_ir::DType, raw: Raw, sides: &[usize]) -> Raw {
    match t.make_shape(at, sides) {
        Some(shape) => t.op(at, OpKind::Reshape, &[raw], Some(TileType::new(dtype, shape))),
        None => t.broken(),
    }
}

fn slice(
    t: &mut Tracer,
    at: At,
    dtype: metile_ir::DType,
    raw: Raw,
    axis: usize,
    range: Range<usize>,
    step: usize,
) -> Raw {
    let Some(shape) = t.shape(at, raw) else { return t.broken() };
    let mut sides = shape.sides();
    if axis >= sides.len() || range.end > sides[axis] || range.is_empty() || step == 0 {
        return fail(
            t,
            at,
            format!(
                "`slice` of {range:?} with step {step} along axis {axis} of a tile of shape {shape}"
            ),
        );
    }
    sides[axis] = range.len().div_ceil(step);
    let kind = OpKind::Slice {
        axis: axis.min(MAX_RANK) as u8,
        start: u32::try_from(range.start).unwrap_or(u32::MAX),
        step: u32::try_from(step).unwrap_or(u32::MAX),
    };
    match Shape::new(&sides) {
        Ok(shape) => t.op(at, kind, &[raw], Some(TileType::new(dtype, shape))),
        Err(why) => fail(t, at, why),
    }
}

fn join_raw(t: &mut Tracer, at: At, dtype: metile_ir::DType, a: Raw, b: Raw) -> Raw {
    let mut both = [a, b];
    let Some(shape) = t.broadcast_all(at, "join", &mut both) else { return t.broken() };
    let mut sides = shape.sides();
    sides.push(1);
    let axis = (sides.len() - 1) as u8;
    let parts = both.map(|raw| reshape(t, at, dtype, raw, &sides));
    t.op(at, OpKind::Cat { axis }, &parts, None)
}
