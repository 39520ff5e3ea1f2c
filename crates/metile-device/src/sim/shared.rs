//! A block's shared memory.

use super::code::Code;
use super::findings::{Findings, Kind, Who};
use super::random::Random;
use super::shadow::{Access, Cell, Now};
use crate::program::{Program, Shared};

#[derive(Debug)]
pub(super) struct SharedMemory {
    buffers: Vec<Buffer>,
}

#[derive(Debug)]
struct Buffer {
    bytes: Vec<u8>,
    /// Bytes of a unit.
    unit: usize,
    units: Vec<Unit>,
}

#[derive(Clone, Debug, Default)]
struct Unit {
    cell: Cell,
    initialized: bool,
    /// Copies under way into it.
    pending: u16,
    /// Who wrote it last, and how many fences that thread had passed.
    written: Option<(u16, u32)>,
}

/// An access of `bytes` at byte `first` of a buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub buffer: Shared,
    pub first: i64,
    pub bytes: usize,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    Read,
    /// A read that may find nothing.
    Take,
    Write,
    /// A copy begins: the bytes will be written.
    Begin,
    /// A copy's bytes are written.
    Land,
    /// A matrix unit reads.
    Unit,
}

impl SharedMemory {
    /// Shared memory as a block finds it: anything.
    pub fn new(program: &Program, code: &Code<'_>, random: &mut Random) -> SharedMemory {
        let buffers = program.shared.iter().zip(&code.units).map(|((_, buffer), &unit)| {
            let (size, unit) = (buffer.bytes as usize, unit as usize);
            let bytes = (0..size.div_ceil(8)).flat_map(|_| random.next().to_le_bytes());
            let bytes = bytes.take(size).collect();
            Buffer { bytes, unit, units: vec![Unit::default(); size.div_ceil(unit)] }
        });
        SharedMemory { buffers: buffers.collect() }
    }

    /// The first byte of a place, if nobody wrote all of it; places outside of the buffer are not looked at.
    pub fn unwritten(&self, place: Place) -> Option<i64> {
        let buffer = &self.buffers[place.buffer.index()];
        let first = usize::try_from(place.first).ok()?;
        let units = first / buffer.unit..first.checked_add(place.bytes)?.div_ceil(buffer.unit);
        let missing = buffer.units.get(units)?.iter().any(|unit| !unit.initialized);
        missing.then_some(place.first)
    }

    /// Takes a place as not written: what was written there is nothing itself.
    pub fn forget(&mut self, place: Place) {
        let buffer = &mut self.buffers[place.buffer.index()];
        let Ok(first) = usize::try_from(place.first) else { return };
        let units = first / buffer.unit..(first + place.bytes).div_ceil(buffer.unit);
        for unit in buffer.units.get_mut(units).unwrap_or_default() {
            unit.initialized = false;
        }
    }

    /// The bytes of an access, after looking at it; `None` if they do not lie in the buffer.
    pub fn access(
        &mut self,
        program: &Program,
        findings: &mut Findings<'_>,
        place: Place,
        doing: Doing,
        now: &Now<'_>,
        fences: &[Vec<u32>],
    ) -> Option<&mut [u8]> {
        let step = now.stamp.step;
        let who = Who { block: u64::from(now.stamp.block), thread: u32::from(now.stamp.thread) };
        let name = &program.shared[place.buffer].name;
        let buffer = &mut self.buffers[place.buffer.index()];
        let end = place.first.checked_add(place.bytes as i64);
        let inside = end.is_some_and(|end| place.first >= 0 && end as usize <= buffer.bytes.len());
        if !inside {
            let size = buffer.bytes.len();
            findings.add(Kind::SharedBounds, step, || {
                format!(
                    "is outside of `{name}`: {who} accesses {} bytes at byte {} of {size}",
                    place.bytes, place.first
                )
            });
            return None;
        }
        let first = place.first as usize;
        if place.bytes > 0 && !first.is_multiple_of(place.bytes) {
            findings.add(Kind::Misaligned, step, || {
                format!(
                    "is misaligned: {who} accesses {} bytes at byte {first} of `{name}`",
                    place.bytes
                )
            });
        }
        let units = first / buffer.unit..(first + place.bytes).div_ceil(buffer.unit);
        for n in units {
            let unit = &mut buffer.units[n];
            let at = || format!("byte {} of `{name}`", n * buffer.unit);
            if doing == Doing::Land {
                unit.pending = unit.pending.saturating_sub(1);
            }
            if unit.pending > 0 {
                findings.add(Kind::NotWaitedFor, step, || {
                    format!("accesses {} while a copy into it is under way: {who}; nobody waited for it", at())
                });
            } else if matches!(doing, Doing::Read | Doing::Unit) && !unit.initialized {
                findings.add(Kind::Uninitialized, step, || {
                    format!("reads {}, which nobody wrote: {who}", at())
                });
            }
            if doing == Doing::Begin {
                unit.pending = unit.pending.saturating_add(1);
            }
            if matches!(doing, Doing::Write | Doing::Land) {
                unit.initialized = true;
                let thread = now.stamp.thread;
                let passed = fences.get(usize::from(thread)).map_or(0, Vec::len);
                unit.written = Some((thread, passed as u32));
            }
            if let (Doing::Unit, Some((thread, passed))) = (doing, unit.written) {
                // The first fence after the write, and a barrier after that.
                let fence = fences[usize::from(thread)].get(passed as usize);
                if fence.is_none_or(|&epoch| epoch >= now.stamp.epoch) {
                    findings.add(Kind::NotFenced, step, || {
                        format!(
                            "reads {}, which thread {thread} of block {} wrote without a fence and a barrier after that",
                            at(),
                            who.block
                        )
                    });
                }
            }
            let read = matches!(doing, Doing::Read | Doing::Take | Doing::Unit);
            let access = if read { Access::Read } else { Access::Write };
            if let Some(race) = unit.cell.access(access, now) {
                findings.race(Kind::SharedRace, step, who, access, at, race);
            }
        }
        buffer.bytes.get_mut(first..first + place.bytes)
    }
}
