//! Registers of other lanes.

use super::block::Warp;
use super::registers::{LANES, lane, offset};
use crate::ops::ExchangeOp;
use crate::program::{Program, Statement};

pub(super) fn run(program: &Program, warp: &mut Warp, op: ExchangeOp, s: &Statement) {
    let mut room = warp.registers.room(program.ty(s.results[0]));
    let a = warp.registers.get(s.operands[0]);
    let other = |at: usize| match op {
        ExchangeOp::Xor(mask) => (at ^ usize::from(mask)) % LANES,
        // The low five bits name the lane, as hardware takes them.
        ExchangeOp::Index => {
            let lane = offset(warp.registers.get(s.operands[1]), false, 0, at);
            lane.rem_euclid(LANES as i64) as usize
        }
    };
    for (n, words) in room.chunks_exact_mut(LANES).enumerate() {
        for (at, word) in words.iter_mut().enumerate() {
            *word = lane(a, n, other(at));
        }
    }
    warp.registers.set(s.results[0], room);
}
