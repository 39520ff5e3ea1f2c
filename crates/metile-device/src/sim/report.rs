//! Failed assertions, written where the host will look.

use super::block::{Common, Warp};
use super::machine::Machine;
use super::memory::{read_element, write_element};
use super::registers::{lane, lanes, offset, truth};

/// Words of a report: 1 + message, block, element.
const WORDS: usize = 3;

pub(super) fn assert(
    m: &mut Machine<'_, '_, '_>,
    common: &Common,
    warp: &Warp,
    message: u32,
    step: u32,
    mask: u32,
) {
    let s = m.code.steps[step as usize].statement;
    let count = m.program.count(s.operands[1]) as usize;
    for at in lanes(mask, warp.first_lane) {
        for n in 0..count {
            if truth(warp.registers.get(s.operands[1]), n, at) {
                continue;
            }
            let element = offset(warp.registers.get(s.operands[2]), false, n, at);
            let report = lane(warp.registers.get(s.operands[0]), 0, 0);
            let Some(storage) = m.memory.find(report) else { continue };
            let first = m.memory.offset(storage, report) as usize;
            let bytes = m.memory.bytes_mut(storage);
            let words = bytes.and_then(|b| b.get_mut(first..first + 8 * WORDS));
            let Some(words) = words.filter(|words| read_element(&words[..8]) == 0) else {
                continue;
            };
            let report = [u64::from(message) + 1, common.number, element as u64];
            for (word, bits) in words.chunks_exact_mut(8).zip(report) {
                write_element(word, bits);
            }
        }
    }
}
