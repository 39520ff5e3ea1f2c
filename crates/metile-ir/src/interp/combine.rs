//! Reductions, scans and the matrix product.

use super::value::Tile;
use crate::arith;
use crate::dtype::DType;
use crate::scalar::Scalar;
use crate::tile::{BinaryOp, ReduceOp, ScanOp, Shape, TileType};

/// The positions of the elements of each lane along `axis`, lane by lane.
fn lanes(shape: &Shape, axis: usize) -> impl Iterator<Item = Vec<usize>> + use<> {
    let (side, step) = (shape.side(axis), shape.strides()[axis]);
    let outer = shape.elements() / (side * step);
    (0..outer).flat_map(move |o| {
        (0..step).map(move |inner| (0..side).map(|i| (o * side + i) * step + inner).collect())
    })
}

pub(super) fn reduce(op: ReduceOp, axis: usize, from: &Tile, to: TileType) -> Tile {
    let values = lanes(&from.ty.shape, axis).map(|lane| {
        let elements = lane.iter().map(|&n| from.get(n));
        match op {
            ReduceOp::Sum => sum(from.ty.dtype, elements),
            ReduceOp::Max => extreme(BinaryOp::Max, from.ty.dtype, elements),
            ReduceOp::Min => extreme(BinaryOp::Min, from.ty.dtype, elements),
            ReduceOp::ArgMax => first_extreme(BinaryOp::Max, from.ty.dtype, elements),
            ReduceOp::ArgMin => first_extreme(BinaryOp::Min, from.ty.dtype, elements),
            ReduceOp::Any => Scalar::bool(lane.iter().any(|&n| from.bits[n] != 0)),
            ReduceOp::All => Scalar::bool(lane.iter().all(|&n| from.bits[n] != 0)),
        }
    });
    Tile::collect(to, values)
}

/// `f32` in `f64`, rounded once; integers wrapping.
fn sum(dtype: DType, elements: impl Iterator<Item = Scalar>) -> Scalar {
    if dtype == DType::F32 {
        // From -0, so that a sum of nothing but -0 is -0, as adding them in f32 is.
        let total =
            elements.fold(-0.0, |total: f64, s| total + s.as_f32().map_or(f64::NAN, f64::from));
        return Scalar::f32(total as f32);
    }
    let add = |a, b| arith::binary(BinaryOp::Add, a, b).unwrap_or(a);
    elements.fold(Scalar::zero(dtype), add)
}

fn extreme(op: BinaryOp, dtype: DType, elements: impl Iterator<Item = Scalar>) -> Scalar {
    let pick = |a, b| arith::binary(op, a, b).unwrap_or(a);
    elements.reduce(pick).unwrap_or(Scalar::zero(dtype))
}

/// The index of the first NaN, else of the first element that equals the extreme; -0 equals +0.
fn first_extreme(
    op: BinaryOp,
    dtype: DType,
    elements: impl Iterator<Item = Scalar> + Clone,
) -> Scalar {
    let wanted = extreme(op, dtype, elements.clone());
    let mut elements = elements;
    let at = match wanted.as_f32() {
        Some(value) => elements.position(|e| {
            e.as_f32().is_some_and(|e| if value.is_nan() { e.is_nan() } else { e == value })
        }),
        None => elements.position(|e| e == wanted),
    };
    Scalar::i64(at.map_or(0, |n| n as i64))
}

pub(super) fn scan(op: ScanOp, axis: usize, from: &Tile) -> Tile {
    let mut out = from.clone();
    let float = from.ty.dtype == DType::F32;
    for lane in lanes(&from.ty.shape, axis) {
        let mut total = -0.0f64;
        let mut so_far: Option<Scalar> = None;
        for n in lane {
            let element = from.get(n);
            let next = match (op, so_far) {
                (ScanOp::Sum, _) if float => {
                    total += element.as_f32().map_or(f64::NAN, f64::from);
                    Scalar::f32(total as f32)
                }
                (_, None) => element,
                (ScanOp::Sum, Some(before)) => combine(BinaryOp::Add, before, element),
                (ScanOp::Max, Some(before)) => combine(BinaryOp::Max, before, element),
                (ScanOp::Min, Some(before)) => combine(BinaryOp::Min, before, element),
            };
            so_far = Some(next);
            out.bits[n] = next.bits();
        }
    }
    out
}

fn combine(op: BinaryOp, a: Scalar, b: Scalar) -> Scalar {
    arith::binary(op, a, b).unwrap_or(a)
}

/// `acc + a · b`: floats as the sum of exact products in `f64`, then `acc`, rounded once to `f32`; `i8` in wrapping `i32`.
pub(super) fn dot(a: &Tile, b: &Tile, acc: &Tile, transpose_a: bool, transpose_b: bool) -> Tile {
    let (m, n) = (acc.ty.shape.side(0), acc.ty.shape.side(1));
    let k = a.ty.shape.side(if transpose_a { 0 } else { 1 });
    let at_a = |i: usize, x: usize| if transpose_a { x * m + i } else { i * k + x };
    let at_b = |x: usize, j: usize| if transpose_b { j * k + x } else { x * n + j };
    let mut bits = Vec::with_capacity(m * n);
    if acc.ty.dtype == DType::I32 {
        let byte = |t: &Tile, n: usize| i32::from(t.bits[n] as u8 as i8);
        for i in 0..m {
            for j in 0..n {
                let start = acc.bits[i * n + j] as u32 as i32;
                let total = (0..k).fold(start, |total, x| {
                    total.wrapping_add(byte(a, at_a(i, x)) * byte(b, at_b(x, j)))
                });
                bits.push(u64::from(total as u32));
            }
        }
        return Tile { ty: acc.ty, bits };
    }
    let widen = |t: &Tile| -> Vec<f64> { t.f32s().into_iter().map(f64::from).collect() };
    let (left, right, start) = (widen(a), widen(b), widen(acc));
    for i in 0..m {
        for j in 0..n {
            let sum = (0..k).fold(-0.0, |sum: f64, x| sum + left[at_a(i, x)] * right[at_b(x, j)]);
            let total = start[i * n + j] + sum;
            bits.push(u64::from((total as f32).to_bits()));
        }
    }
    Tile { ty: acc.ty, bits }
}
