//! Operations that rearrange elements.

use super::value::Tile;
use crate::tile::{MAX_RANK, Shape, TileType};

/// The tile whose element at each coordinate is `from`'s at the mapped one.
fn mapped(from: &Tile, to: TileType, source: impl Fn([usize; MAX_RANK]) -> usize) -> Tile {
    let count = to.shape.elements();
    let bits = (0..count).map(|n| from.bits[source(Tile::coordinates(&to.shape, n))]).collect();
    Tile { ty: to, bits }
}

pub(super) fn broadcast(from: &Tile, to: TileType) -> Tile {
    let (old, strides) = (from.ty.shape, from.ty.shape.strides());
    let lead = to.shape.rank() - old.rank();
    mapped(from, to, |at| {
        (0..old.rank())
            .map(|axis| if old.side(axis) == 1 { 0 } else { at[axis + lead] * strides[axis] })
            .sum()
    })
}

pub(super) fn reshape(from: &Tile, to: TileType) -> Tile {
    Tile { ty: to, bits: from.bits.clone() }
}

pub(super) fn transpose(from: &Tile, axes: &[u8], to: TileType) -> Tile {
    let strides = from.ty.shape.strides();
    mapped(from, to, |at| {
        axes.iter().enumerate().map(|(axis, &old)| at[axis] * strides[old as usize]).sum()
    })
}

pub(super) fn slice(from: &Tile, axis: usize, start: usize, step: usize, to: TileType) -> Tile {
    let strides = from.ty.shape.strides();
    mapped(from, to, |at| {
        (0..to.shape.rank())
            .map(|a| strides[a] * if a == axis { start + at[a] * step } else { at[a] })
            .sum()
    })
}

pub(super) fn cat(parts: &[&Tile], axis: usize, to: TileType) -> Tile {
    let mut bits = Vec::with_capacity(to.shape.elements());
    let outer: usize = (0..axis).map(|a| to.shape.side(a)).product();
    let chunk = |shape: &Shape| (axis..shape.rank()).map(|a| shape.side(a)).product::<usize>();
    for n in 0..outer {
        for part in parts {
            let size = chunk(&part.ty.shape);
            bits.extend_from_slice(&part.bits[n * size..(n + 1) * size]);
        }
    }
    Tile { ty: to, bits }
}

pub(super) fn gather(from: &Tile, index: &Tile, axis: usize) -> Tile {
    let strides = from.ty.shape.strides();
    let side = from.ty.shape.side(axis) as i128;
    let to = TileType::new(from.ty.dtype, index.ty.shape);
    let bits = (0..to.shape.elements()).map(|n| {
        let at = Tile::coordinates(&to.shape, n);
        let wanted = index.get(n).as_int().unwrap_or(-1);
        if !(0..side).contains(&wanted) {
            return 0;
        }
        let source: usize = (0..to.shape.rank())
            .map(|a| strides[a] * if a == axis { wanted as usize } else { at[a] })
            .sum();
        from.bits[source]
    });
    Tile { ty: to, bits: bits.collect() }
}
