//! Constants and operations on one element at a time.

use super::value::Tile;
use crate::arith;
use crate::dtype::DType;
use crate::scalar::Scalar;
use crate::tile::{BinaryOp, CompareOp, TileType, UnaryOp};

pub(super) fn unary(op: UnaryOp, a: &Tile) -> Tile {
    if a.ty.dtype == DType::F32
        && let Some(f) = arith::float::unary(op)
    {
        let bits = a.bits.iter().map(|&x| u64::from(f(f32::from_bits(x as u32)).to_bits()));
        return Tile { ty: a.ty, bits: bits.collect() };
    }
    Tile::collect(
        a.ty,
        a.scalars().map(|x| arith::unary(op, x).unwrap_or(Scalar::zero(a.ty.dtype))),
    )
}

pub(super) fn binary(op: BinaryOp, a: &Tile, b: &Tile) -> Tile {
    if a.ty.dtype == DType::F32
        && let Some(f) = arith::float::binary(op)
    {
        let pairs = a.bits.iter().zip(&b.bits);
        let bits = pairs.map(|(&x, &y)| {
            u64::from(f(f32::from_bits(x as u32), f32::from_bits(y as u32)).to_bits())
        });
        return Tile { ty: a.ty, bits: bits.collect() };
    }
    let zero = Scalar::zero(a.ty.dtype);
    let pairs = a.scalars().zip(b.scalars());
    Tile::collect(a.ty, pairs.map(|(x, y)| arith::binary(op, x, y).unwrap_or(zero)))
}

/// The first lane whose division is defined but odd.
pub(super) fn odd_division(op: BinaryOp, a: &Tile, b: &Tile) -> Option<usize> {
    let division = matches!(op, BinaryOp::Div | BinaryOp::Rem) && a.ty.dtype.is_int();
    if !division {
        return None;
    }
    a.scalars().zip(b.scalars()).position(|(x, y)| arith::division_is_odd(op, x, y))
}

pub(super) fn compare(op: CompareOp, a: &Tile, b: &Tile) -> Tile {
    let ty = TileType::new(DType::Bool, a.ty.shape);
    let pairs = a.scalars().zip(b.scalars());
    Tile::collect(ty, pairs.map(|(x, y)| Scalar::bool(arith::compare(op, x, y).unwrap_or(false))))
}

pub(super) fn select(condition: &Tile, a: &Tile, b: &Tile) -> Tile {
    let lanes = condition.bits.iter().zip(a.bits.iter().zip(&b.bits));
    Tile { ty: a.ty, bits: lanes.map(|(&c, (&x, &y))| if c != 0 { x } else { y }).collect() }
}

pub(super) fn fma(a: &Tile, b: &Tile, c: &Tile) -> Tile {
    let lanes = a.scalars().zip(b.scalars()).zip(c.scalars());
    let zero = Scalar::zero(a.ty.dtype);
    Tile::collect(a.ty, lanes.map(|((x, y), z)| arith::fma(x, y, z).unwrap_or(zero)))
}

pub(super) fn cast(a: &Tile, to: TileType) -> Tile {
    Tile::collect(to, a.scalars().map(|x| arith::cast(x, to.dtype)))
}

pub(super) fn bitcast(a: &Tile, to: TileType) -> Tile {
    Tile { ty: to, bits: a.bits.clone() }
}
