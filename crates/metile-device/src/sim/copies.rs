//! Copies that run beside the threads. Their bytes are taken when they begin and written when they are waited for, so
//! that who reads earlier reads what was there before.

use super::block::{Common, Warp};
use super::machine::Machine;
use super::registers::{lane, lanes, offset, truth};
use super::shared::{Doing, Place};
use super::{Failure, MAX_COPIES};
use crate::ops::CopyOp;
use crate::program::{Shared, Type};
use metile_ir::dtype::DType;
use std::collections::VecDeque;

/// The copies of a thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Copies {
    begun: Vec<Landing>,
    committed: VecDeque<Vec<Landing>>,
}

/// Bytes on their way.
#[derive(Clone, Copy, Debug)]
struct Landing {
    buffer: Shared,
    first: i64,
    bytes: [u8; 16],
    count: usize,
}

pub(super) fn run(
    m: &mut Machine<'_, '_, '_>,
    common: &mut Common,
    warp: &mut Warp,
    op: &CopyOp,
    step: u32,
    mask: u32,
) -> Result<(), Failure> {
    match op {
        CopyOp::Async { buffer, bytes, immediates, shared_immediates } => {
            let groups = immediates.iter().copied().zip(shared_immediates.iter().copied());
            let groups: Vec<(i64, i64)> = groups.collect();
            begin(m, common, warp, (*buffer, usize::from(*bytes)), &groups, step, mask)
        }
        CopyOp::Commit => {
            for lane in lanes(mask, 0) {
                let copies = &mut warp.copies[lane];
                if copies.committed.len() >= MAX_COPIES {
                    return Err(Failure::Copies);
                }
                let begun = std::mem::take(&mut copies.begun);
                copies.committed.push_back(begun);
            }
            Ok(())
        }
        CopyOp::Wait { pending } => {
            for lane in lanes(mask, warp.first_lane) {
                wait(m, common, warp, lane, usize::from(*pending), step);
            }
            Ok(())
        }
    }
}

fn begin(
    m: &mut Machine<'_, '_, '_>,
    common: &mut Common,
    warp: &mut Warp,
    (buffer, bytes): (Shared, usize),
    groups: &[(i64, i64)],
    step: u32,
    mask: u32,
) -> Result<(), Failure> {
    let s = m.code.steps[step as usize].statement;
    let Type::Pointer { dtype, .. } = m.program.ty(s.operands[0]) else { return Ok(()) };
    let wide = m.program.dtype(s.operands[1]) == Some(DType::I64);
    let pointer = lane(warp.registers.get(s.operands[0]), 0, 0);
    for at in lanes(mask, warp.first_lane) {
        for (g, &(immediate, shared_immediate)) in groups.iter().enumerate() {
            let mut image = [0; 16];
            if truth(warp.registers.get(s.operands[3]), g, at) {
                let element = offset(warp.registers.get(s.operands[1]), wide, g, at);
                let element = i128::from(element) + i128::from(immediate);
                let from = m.device_read(common, warp, at, step, (pointer, dtype, element), bytes);
                if let Some(from) = from {
                    image[..bytes].copy_from_slice(from);
                }
            }
            let element = offset(warp.registers.get(s.operands[2]), false, g, at);
            let first =
                element.saturating_add(shared_immediate).saturating_mul(dtype.bytes() as i64);
            let place = Place { buffer, first, bytes };
            if m.shared_access(common, warp, at, step, place, Doing::Begin).is_some() {
                let copies = &mut warp.copies[at];
                if copies.begun.len() >= MAX_COPIES {
                    return Err(Failure::Copies);
                }
                copies.begun.push(Landing { buffer, first, bytes: image, count: bytes });
            }
        }
    }
    Ok(())
}

fn wait(
    m: &mut Machine<'_, '_, '_>,
    common: &mut Common,
    warp: &mut Warp,
    lane: usize,
    pending: usize,
    step: u32,
) {
    while warp.copies[lane].committed.len() > pending {
        let group = warp.copies[lane].committed.pop_front().unwrap_or_default();
        for copy in group {
            let place = Place { buffer: copy.buffer, first: copy.first, bytes: copy.count };
            if let Some(to) = m.shared_access(common, warp, lane, step, place, Doing::Land) {
                to.copy_from_slice(&copy.bytes[..copy.count]);
            }
        }
    }
}
