//! Arithmetic and moves, with the language's own arithmetic.

use super::block::Warp;
use super::registers::{LANES, lane};
use crate::ops::*;
use crate::program::{Program, Statement, Type};
use metile_ir::arith::{self, float};
use metile_ir::dtype::DType;
use metile_ir::scalar::Scalar;

pub(super) fn run(program: &Program, warp: &mut Warp, op: &RegisterOp, s: &Statement) {
    let result = s.results[0];
    let ty = program.ty(result);
    let mut room = warp.registers.room(ty);
    let operand = |n: usize| warp.registers.get(s.operands[n]);
    let dtype = |n: usize| program.dtype(s.operands[n]).unwrap_or(DType::I64);
    match op {
        RegisterOp::Constant(scalars) => {
            for (n, words) in room.chunks_exact_mut(LANES).enumerate() {
                let scalar = scalars.get(n).or(scalars.first());
                words.fill(scalar.map_or(0, |s| s.bits()));
            }
        }
        RegisterOp::Unary(op) => unary(*op, dtype(0), operand(0), &mut room),
        RegisterOp::Binary(op) => binary(*op, dtype(0), operand(0), operand(1), &mut room),
        RegisterOp::Compare(op) => compare(*op, dtype(0), operand(0), operand(1), &mut room),
        RegisterOp::Select => {
            let (test, a, b) = (operand(0), operand(1), operand(2));
            each(&mut room, |n, at| lane(if lane(test, n, at) != 0 { a } else { b }, n, at));
        }
        RegisterOp::Fma => {
            let f = |n: usize| f32::from_bits(n as u32);
            let (a, b, c) = (operand(0), operand(1), operand(2));
            each(&mut room, |n, at| {
                let of = |words: &[u64]| f(lane(words, n, at) as usize);
                u64::from(float::fma(of(a), of(b), of(c)).to_bits())
            });
        }
        RegisterOp::Cast => {
            let (from, to) = (dtype(0), program.dtype(result).unwrap_or(DType::I64));
            let a = operand(0);
            each(&mut room, |n, at| {
                arith::cast(Scalar::from_bits(from, lane(a, n, at)), to).bits()
            });
        }
        RegisterOp::Bitcast | RegisterOp::Uniform => {
            let a = operand(0);
            each(&mut room, |n, at| lane(a, n, at));
        }
        RegisterOp::Pick(from) => {
            for (to, &from) in room.chunks_exact_mut(LANES).zip(from) {
                let from = from as usize * LANES;
                to.copy_from_slice(&operand(0)[from..from + LANES]);
            }
        }
        RegisterOp::Join => {
            let mut first = 0;
            for n in 0..s.operands.len() {
                let part = operand(n);
                room[first..first + part.len()].copy_from_slice(part);
                first += part.len();
            }
        }
        RegisterOp::Pack => {
            let a = operand(0);
            if dtype(0) == DType::U32 {
                each(&mut room, |n, at| lane(a, n / 2, at) >> (n % 2 * 16) & 0xffff);
            } else {
                each(&mut room, |n, at| lane(a, 2 * n, at) | lane(a, 2 * n + 1, at) << 16);
            }
        }
    }
    debug_assert!(matches!(ty, Type::Registers { .. }));
    warp.registers.set(result, room);
}

/// Every register of every lane.
fn each(room: &mut [u64], mut f: impl FnMut(usize, usize) -> u64) {
    for (n, words) in room.chunks_exact_mut(LANES).enumerate() {
        for (at, word) in words.iter_mut().enumerate() {
            *word = f(n, at);
        }
    }
}

fn unary(op: UnaryOp, dtype: DType, a: &[u64], room: &mut [u64]) {
    match float::unary(op) {
        Some(f) if dtype == DType::F32 => {
            each(room, |n, at| u64::from(f(f32::from_bits(lane(a, n, at) as u32)).to_bits()));
        }
        _ => each(room, |n, at| {
            let a = Scalar::from_bits(dtype, lane(a, n, at));
            arith::unary(op, a).map_or(0, Scalar::bits)
        }),
    }
}

fn binary(op: BinaryOp, dtype: DType, a: &[u64], b: &[u64], room: &mut [u64]) {
    if let (DType::F32, Some(f)) = (dtype, float::binary(op)) {
        let of = |words: &[u64], n, at| f32::from_bits(lane(words, n, at) as u32);
        return each(room, |n, at| u64::from(f(of(a, n, at), of(b, n, at)).to_bits()));
    }
    // What addresses are made of, without the way through 128 bits.
    if let (Some(f), DType::I32 | DType::U32 | DType::I64 | DType::U64) = (plain(op), dtype) {
        let keep = if dtype.bytes() == 4 { u64::from(u32::MAX) } else { u64::MAX };
        return each(room, |n, at| f(lane(a, n, at), lane(b, n, at)) & keep);
    }
    each(room, |n, at| {
        let of = |words: &[u64]| Scalar::from_bits(dtype, lane(words, n, at));
        arith::binary(op, of(a), of(b)).map_or(0, Scalar::bits)
    });
}

/// Operations whose low bits depend on low bits alone.
fn plain(op: BinaryOp) -> Option<fn(u64, u64) -> u64> {
    Some(match op {
        BinaryOp::Add => u64::wrapping_add,
        BinaryOp::Sub => u64::wrapping_sub,
        BinaryOp::Mul => u64::wrapping_mul,
        BinaryOp::And => |a, b| a & b,
        BinaryOp::Or => |a, b| a | b,
        BinaryOp::Xor => |a, b| a ^ b,
        _ => return None,
    })
}

fn compare(op: CompareOp, dtype: DType, a: &[u64], b: &[u64], room: &mut [u64]) {
    let signed = |bits: u64| match dtype {
        DType::I32 => i64::from(bits as u32 as i32),
        _ => bits as i64,
    };
    if matches!(dtype, DType::I32 | DType::I64) {
        return each(room, |n, at| {
            let order = signed(lane(a, n, at)).cmp(&signed(lane(b, n, at)));
            u64::from(arith::holds(op, Some(order)))
        });
    }
    each(room, |n, at| {
        let of = |words: &[u64]| Scalar::from_bits(dtype, lane(words, n, at));
        u64::from(arith::compare(op, of(a), of(b)).unwrap_or(false))
    });
}
