//! Products of four warps at once, operands in shared memory (`wgmma`).
//!
//! A matrix unit reads for none of the threads: whatever they wrote needs a fence and a barrier before, and what they
//! write after needs a barrier.

use super::block::Block;
use super::machine::{ALL, Machine};
use super::memory::read_element;
use super::registers::{LANES, lane};
use super::shadow::{Now, Space};
use super::shared::{Doing, Place};
use crate::ops::{MatrixOp, Op, Wgmma, WgmmaOperand};
use metile_ir::scalar::Scalar;

/// Warps of a group.
const WARPS: usize = 4;
/// The number that the matrix unit of the first group goes by, beyond those of threads.
const UNIT: u16 = 1 << 15;

impl WgmmaOperand {
    /// The byte of an element: `outside` counts rows, `inside` goes along one.
    fn byte(&self, outside: usize, inside: usize) -> usize {
        let column = inside / 64 * usize::from(self.outer) * 128;
        let unit = (inside % 64 / 8) ^ (outside % 8);
        column + outside * 128 + unit * 16 + inside % 8 * 2
    }
}

/// The sums of warpgroup `group`, whose warps are all at `step`.
pub(super) fn multiply(m: &mut Machine<'_, '_, '_>, block: &mut Block, group: usize, step: u32) {
    let s = m.code.steps[step as usize].statement;
    let Op::Matrix(MatrixOp::Wgmma(product)) = &s.op else { return };
    let (rows, columns) = (usize::from(product.row_blocks) * 64, usize::from(product.columns));
    let sum = usize::from(product.sum);
    let first = group * WARPS;
    let offset = |n: usize| {
        let words = block.warps[first].registers.get(s.operands[n]);
        i64::from(lane(words, 0, 0) as u32 as i32)
    };
    let (at_a, at_b) = (offset(0), offset(1));
    let a = operand(m, block, (group, step), product, (product.a, at_a), rows);
    let b = operand(m, block, (group, step), product, (product.b, at_b), columns);
    for w in 0..WARPS {
        let warp = &mut block.warps[first + w];
        let mut room = warp.registers.room(m.program.ty(s.results[0]));
        for n in 0..room.len() / LANES {
            let (row_block, column_block) = (n / 4 / (columns / 8), n / 4 % (columns / 8));
            for at in ALL {
                let row = row_block * 64 + w * 16 + n / 2 % 2 * 8 + at / 4;
                let column = column_block * 8 + at % 4 * 2 + n % 2;
                let pairs = a[row * sum..][..sum].iter().zip(&b[column * sum..][..sum]);
                let total: f64 = pairs.map(|(x, y)| x * y).sum();
                let c = f32::from_bits(lane(warp.registers.get(s.operands[2]), n, at) as u32);
                room[n * LANES + at] = u64::from(((f64::from(c) + total) as f32).to_bits());
            }
        }
        warp.registers.set(s.results[0], room);
        m.bury(warp, step);
    }
}

/// The elements of an operand, those of one sum together, for `side` sums.
fn operand(
    m: &mut Machine<'_, '_, '_>,
    block: &mut Block,
    (group, step): (usize, u32),
    product: &Wgmma,
    (operand, offset): (WgmmaOperand, i64),
    side: usize,
) -> Vec<f64> {
    let sum = usize::from(product.sum);
    let mut stamp = m.stamp(&block.common, &block.warps[group * WARPS], 0, step);
    stamp.thread = UNIT + group as u16;
    let common = &mut block.common;
    let now = Now {
        stamp,
        space: Space::Shared,
        known: &common.known,
        acquired: &[],
        synchronized: false,
    };
    let mut elements = Vec::with_capacity(side * sum);
    for n in 0..side {
        for x in 0..sum {
            let (outside, inside) = if operand.sum_inside { (n, x) } else { (x, n) };
            let first = offset.saturating_add(operand.byte(outside, inside) as i64);
            let place = Place { buffer: operand.buffer, first, bytes: 2 };
            let bytes = common.shared.access(
                m.program,
                &mut m.findings,
                place,
                Doing::Unit,
                &now,
                &common.fences,
            );
            let bits = read_element(bytes.unwrap_or_default());
            let value = Scalar::from_bits(product.dtype, bits).as_f32();
            elements.push(value.map_or(f64::NAN, f64::from));
        }
    }
    elements
}
