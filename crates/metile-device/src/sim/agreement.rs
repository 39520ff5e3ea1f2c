//! Values that all threads of a block are said to agree on.

use super::block::{Common, Warp};
use super::findings::Kind;
use super::machine::Machine;
use super::registers::{LANES, lane, lanes};
use std::collections::{HashMap, VecDeque};

/// For each statement, what the warp that came first said each time that it came.
#[derive(Debug, Default)]
pub(super) struct Agreements(HashMap<u32, Rounds>);

#[derive(Debug, Default)]
struct Rounds {
    /// Rounds that all warps have been through, and which are forgotten.
    past: usize,
    said: VecDeque<Said>,
    /// How often each warp came.
    came: HashMap<u32, usize>,
}

#[derive(Debug)]
struct Said {
    registers: Vec<u64>,
    warps: u32,
}

impl Agreements {
    /// Whether `warp`, one of `warps`, says what the others said in the same round.
    fn agree(&mut self, step: u32, warp: u32, warps: u32, registers: Vec<u64>) -> bool {
        let rounds = self.0.entry(step).or_default();
        let came = rounds.came.entry(warp).or_default();
        let round = *came - rounds.past;
        *came += 1;
        let agrees = match rounds.said.get_mut(round) {
            Some(said) => {
                said.warps += 1;
                said.registers == registers
            }
            None => {
                rounds.said.push_back(Said { registers, warps: 1 });
                true
            }
        };
        while rounds.said.front().is_some_and(|said| said.warps == warps) {
            rounds.said.pop_front();
            rounds.past += 1;
        }
        agrees
    }
}

pub(super) fn run(
    m: &mut Machine<'_, '_, '_>,
    common: &mut Common,
    warp: &mut Warp,
    step: u32,
    mask: u32,
) {
    let s = m.code.steps[step as usize].statement;
    let words = warp.registers.copy(s.operands[0]);
    let count = words.len() / LANES;
    let Some(first) = lanes(mask, 0).next() else { return };
    let registers: Vec<u64> = (0..count).map(|n| lane(&words, n, first)).collect();
    let differs = |at: &usize| (0..count).any(|n| lane(&words, n, *at) != registers[n]);
    let (number, block) = (warp.number, common.number);
    if let Some(other) = lanes(mask, 0).find(differs) {
        m.findings.add(Kind::Disagreement, step, || {
            format!("differs between lanes {first} and {other} of warp {number} of block {block}")
        });
    } else if !common.agreements.agree(step, number, m.program.warps, registers) {
        m.findings.add(Kind::Disagreement, step, || {
            format!("differs between warp {number} of block {block} and another one")
        });
    }
    warp.registers.set(s.results[0], words);
}
