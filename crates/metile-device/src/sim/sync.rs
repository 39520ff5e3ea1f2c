//! Barriers and counters: what a warp does when it comes to one. The schedule lets it go on.

use super::block::{Common, State, Warp};
use super::findings::Kind;
use super::machine::Machine;
use super::memory::{read_element, write_element};
use super::registers::{lane, lanes, truth};
use super::shadow::Access;
use crate::ops::SyncOp;
use metile_ir::dtype::DType;

pub(super) fn run(
    m: &mut Machine<'_, '_, '_>,
    common: &mut Common,
    warp: &mut Warp,
    op: SyncOp,
    step: u32,
    mask: u32,
) {
    match op {
        SyncOp::Barrier => {
            m.whole_warp(common, warp, step, mask);
            warp.state = State::Barrier(step);
        }
        SyncOp::GridBarrier => {
            m.whole_warp(common, warp, step, mask);
            // What the barrier counts in is the device's: here it only has to be there.
            let s = m.code.steps[step as usize].statement;
            if m.memory.find(m.pointer(warp, s.operands[0])).is_none() {
                let block = common.number;
                m.findings.add(Kind::DeviceBounds, step, || {
                    format!("counts in memory that is no tensor's: block {block}")
                });
            }
            warp.state = State::GridBarrier(step);
        }
        SyncOp::WarpBarrier => {
            m.whole_warp(common, warp, step, mask);
            warp.epoch += 1;
        }
        SyncOp::AsyncFence => {
            for at in lanes(mask, 0) {
                let thread = m.stamp(common, warp, at, step).thread;
                common.fences[usize::from(thread)].push(common.epoch);
            }
        }
        SyncOp::CounterAdd => add(m, common, warp, step, mask),
        SyncOp::CounterWait => wait(m, common, warp, step, mask),
    }
}

/// The place of the counter that a lane names, for the lanes that take part.
fn counter(
    m: &mut Machine<'_, '_, '_>,
    common: &Common,
    warp: &Warp,
    step: u32,
    at: usize,
) -> Option<(usize, usize)> {
    let s = m.code.steps[step as usize].statement;
    if !truth(warp.registers.get(s.operands[2]), 0, at) {
        return None;
    }
    let pointer = m.pointer(warp, s.operands[0]);
    let element = i128::from(lane(warp.registers.get(s.operands[1]), 0, at) as i64);
    let place = (pointer, DType::U32, element);
    m.device_access(common, warp, at, step, place, 4, Access::Atomic)
}

fn add(m: &mut Machine<'_, '_, '_>, common: &mut Common, warp: &Warp, step: u32, mask: u32) {
    let s = m.code.steps[step as usize].statement;
    for at in lanes(mask, warp.first_lane) {
        let Some((storage, first)) = counter(m, common, warp, step, at) else { continue };
        let Some(bytes) = m.memory.bytes_mut(storage) else { continue };
        let bytes = &mut bytes[first..first + 4];
        let n = lane(warp.registers.get(s.operands[3]), 0, at);
        write_element(bytes, read_element(bytes).wrapping_add(n));
        let thread = m.stamp(common, warp, at, step).thread;
        // What the block wrote before its last barrier, and what this thread knows of others.
        let released = m.counters.entry((storage, first as u64)).or_default();
        released.join(&common.known);
        for (_, acquired) in common.acquired.iter().filter(|(t, _)| *t == thread) {
            released.join(acquired);
        }
        released.add(common.number as u32, common.epoch);
        m.raised = true;
    }
}

fn wait(m: &mut Machine<'_, '_, '_>, common: &mut Common, warp: &mut Warp, step: u32, mask: u32) {
    let s = m.code.steps[step as usize].statement;
    let mut acquired = Vec::new();
    for at in lanes(mask, warp.first_lane) {
        let Some((storage, first)) = counter(m, common, warp, step, at) else { continue };
        let raised = read_element(&m.memory.bytes(storage)[first..first + 4]);
        if raised < lane(warp.registers.get(s.operands[3]), 0, at) {
            // Once more when a counter was raised.
            if let Some(frame) = warp.frames.last_mut() {
                frame.next = step;
            }
            warp.state = State::Counter(step);
            return;
        }
        let thread = m.stamp(common, warp, at, step).thread;
        if let Some(known) = m.counters.get(&(storage, first as u64)) {
            acquired.push((thread, known.clone()));
        }
    }
    common.acquired.append(&mut acquired);
}
