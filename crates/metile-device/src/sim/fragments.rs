//! Matrices in a layout that the vendor keeps to itself (`simdgroup_matrix`). Which lane reads or writes which element
//! is drawn from the seed.

use super::block::{Common, Warp};
use super::machine::{Machine, uniform};
use super::memory::{read_element, write_element};
use super::registers::{LANES, MATRIX, offset};
use super::shared::{Doing, Place};
use crate::ops::MatrixOp;
use crate::program::{Shared, Statement, Type, Value};
use metile_ir::arith;
use metile_ir::dtype::DType;
use metile_ir::scalar::Scalar;

pub(super) fn run(
    m: &mut Machine<'_, '_, '_>,
    common: &mut Common,
    warp: &mut Warp,
    op: &MatrixOp,
    step: u32,
) {
    let s = m.code.steps[step as usize].statement;
    match op {
        MatrixOp::FillFragment => {
            let dtype = m.program.dtype(s.operands[0]).unwrap_or(DType::F32);
            let bits = uniform(warp.registers.get(s.operands[0]));
            let value = Scalar::from_bits(dtype, bits).as_f32().unwrap_or(f32::NAN);
            let mut room = warp.registers.room(m.program.ty(s.results[0]));
            room.fill(u64::from(value.to_bits()));
            warp.registers.set(s.results[0], room);
        }
        MatrixOp::LoadFragment { buffer, stride, transposed, immediates } => {
            let form = (*buffer, *stride, *transposed);
            load(m, common, warp, form, immediates, step);
        }
        MatrixOp::StoreFragment { buffer, stride, immediates } => {
            store(m, common, warp, (*buffer, *stride), immediates, step);
        }
        MatrixOp::MultiplyFragments { m: rows, n, k } => {
            let sides = (usize::from(*rows), usize::from(*n), usize::from(*k));
            let mut room = warp.registers.copy(s.operands[2]);
            multiply(warp, s, sides, &mut room);
            warp.registers.set(s.results[0], room);
        }
        MatrixOp::WgmmaWait => {
            let sums = warp.registers.copy(s.operands[0]);
            warp.registers.set(s.results[0], sums);
        }
        MatrixOp::Mma(_) | MatrixOp::LoadMatrix { .. } | MatrixOp::Wgmma(_) => {}
    }
}

fn dtype(m: &Machine<'_, '_, '_>, value: Value) -> DType {
    match m.program.ty(value) {
        Type::Fragment { dtype, .. } => dtype,
        _ => DType::F32,
    }
}

/// The elements in the order that the lanes get them, two each.
fn order(m: &Machine<'_, '_, '_>) -> Vec<usize> {
    super::random::Random::new(m.options.seed).shuffled(MATRIX)
}

fn load(
    m: &mut Machine<'_, '_, '_>,
    common: &mut Common,
    warp: &mut Warp,
    (buffer, stride, transposed): (Shared, u32, bool),
    immediates: &[i64],
    step: u32,
) {
    let s = m.code.steps[step as usize].statement;
    let dtype = dtype(m, s.results[0]);
    let mut room = warp.registers.room(m.program.ty(s.results[0]));
    let base = offset(warp.registers.get(s.operands[0]), false, 0, 0);
    let order = order(m);
    for (matrix, &immediate) in room.chunks_exact_mut(MATRIX).zip(immediates) {
        for (n, &element) in order.iter().enumerate() {
            let (row, column) = (element / 8, element % 8);
            let (down, across) = if transposed { (column, row) } else { (row, column) };
            let place = place(buffer, dtype, base, immediate, stride, (down, across));
            let bytes = m.shared_access(common, warp, n / 2 % LANES, step, place, Doing::Read);
            let bits = read_element(bytes.unwrap_or_default());
            let value = Scalar::from_bits(dtype, bits).as_f32().unwrap_or(f32::NAN);
            matrix[element] = u64::from(value.to_bits());
        }
    }
    warp.registers.set(s.results[0], room);
}

fn store(
    m: &mut Machine<'_, '_, '_>,
    common: &mut Common,
    warp: &mut Warp,
    (buffer, stride): (Shared, u32),
    immediates: &[i64],
    step: u32,
) {
    let s = m.code.steps[step as usize].statement;
    let dtype = dtype(m, s.operands[0]);
    let base = offset(warp.registers.get(s.operands[1]), false, 0, 0);
    let order = order(m);
    for (k, &immediate) in immediates.iter().enumerate() {
        for (n, &element) in order.iter().enumerate() {
            let bits = warp.registers.get(s.operands[0])[k * MATRIX + element];
            let value = arith::cast(Scalar::from_bits(DType::F32, bits), dtype);
            let place = place(buffer, dtype, base, immediate, stride, (element / 8, element % 8));
            let bytes = m.shared_access(common, warp, n / 2 % LANES, step, place, Doing::Write);
            if let Some(bytes) = bytes {
                write_element(bytes, value.bits());
            }
        }
    }
}

fn place(
    buffer: Shared,
    dtype: DType,
    base: i64,
    immediate: i64,
    stride: u32,
    (row, column): (usize, usize),
) -> Place {
    let element = base
        .saturating_add(immediate)
        .saturating_add(row as i64 * i64::from(stride))
        .saturating_add(column as i64);
    let bytes = dtype.bytes();
    Place { buffer, first: element.saturating_mul(bytes as i64), bytes }
}

/// `c + a · b` by matrices; each product of two matrices is summed in `f64` and rounded once.
fn multiply(warp: &Warp, s: &Statement, (rows, n, k): (usize, usize, usize), c: &mut [u64]) {
    let element = |value: Value, matrix: usize, at: usize| {
        f64::from(f32::from_bits(warp.registers.get(value)[matrix * MATRIX + at] as u32))
    };
    for i in 0..rows {
        for j in 0..n {
            let c = &mut c[(i * n + j) * MATRIX..][..MATRIX];
            for x in 0..k {
                for (at, sum) in c.iter_mut().enumerate() {
                    let (row, column) = (at / 8, at % 8);
                    let products = (0..8).map(|y| {
                        element(s.operands[0], i * k + x, row * 8 + y)
                            * element(s.operands[1], x * n + j, y * 8 + column)
                    });
                    let total = f64::from(f32::from_bits(*sum as u32)) + products.sum::<f64>();
                    *sum = u64::from((total as f32).to_bits());
                }
            }
        }
    }
}
