//! What runs statements: one warp at a time, all its lanes at once.

use super::agreement;
use super::arithmetic;
use super::block::{Common, State, Warp};
use super::code::Code;
use super::findings::{Findings, Kind, Who};
use super::memory::Memory;
use super::random::Random;
use super::registers::{LANES, lane};
use super::shadow::{Access, Knowledge, Now, Pages, Space, Stamp};
use super::shared::{Doing, Place};
use super::{
    Failure, Options, access, control, copies, exchange, fragments, matrix, poison, report, sync,
};
use crate::ops::*;
use crate::program::{Program, Type, WARP};
use metile_ir::dtype::DType;
use metile_ir::scalar::Scalar;
use std::collections::HashMap;

/// A launch that runs.
pub(super) struct Machine<'a, 'p, 'm> {
    pub program: &'p Program,
    pub code: &'p Code<'p>,
    pub options: &'a Options,
    pub words: &'a [u64],
    pub blocks: u64,
    pub memory: &'a mut Memory<'m>,
    /// Of each storage.
    pub pages: Vec<Pages>,
    pub findings: Findings<'p>,
    pub random: Random,
    pub steps: u64,
    /// Grid barriers passed.
    pub grid_epoch: u32,
    /// What those who raised a counter knew, by storage and byte.
    pub counters: HashMap<(usize, u64), Knowledge>,
    /// Whether a counter was raised since waiting warps last looked.
    pub raised: bool,
}

impl<'p> Machine<'_, 'p, '_> {
    /// Runs a warp until it waits or ends, or for about so many statements.
    pub fn run(
        &mut self,
        common: &mut Common,
        warp: &mut Warp,
        quantum: u64,
    ) -> Result<(), Failure> {
        for _ in 0..quantum {
            let Some(frame) = warp.frames.last_mut() else {
                warp.state = State::Ended;
                return Ok(());
            };
            let step = frame.next;
            if step == self.code.blocks[frame.block as usize].end {
                // Nested blocks end in a statement that takes their frames away.
                warp.frames.pop();
                continue;
            }
            frame.next += 1;
            let mask = frame.mask;
            self.steps += 1;
            if self.steps > self.options.step_limit {
                return Err(Failure::StepLimit(self.options.step_limit));
            }
            self.step(common, warp, step, mask)?;
            if warp.state != State::Running {
                return Ok(());
            }
        }
        Ok(())
    }

    fn step(
        &mut self,
        common: &mut Common,
        warp: &mut Warp,
        step: u32,
        mask: u32,
    ) -> Result<(), Failure> {
        let statement = self.code.steps[step as usize].statement;
        if warp.registers.is_poisoned() {
            poison::check(self, warp, step, mask);
        }
        match &statement.op {
            Op::Control(op) => {
                control::run(self, warp, *op, step, mask);
                return Ok(());
            }
            Op::Position(op) => self.position(common, warp, *op, step),
            Op::Register(RegisterOp::Uniform) => agreement::run(self, common, warp, step, mask),
            Op::Register(op) => arithmetic::run(self.program, warp, op, statement),
            Op::Memory(op) => access::run(self, common, warp, op, step, mask),
            Op::Exchange(op) => {
                self.whole_warp(common, warp, step, mask);
                exchange::run(self.program, warp, *op, statement);
            }
            Op::Sync(op) => sync::run(self, common, warp, *op, step, mask),
            Op::Matrix(MatrixOp::Wgmma(_)) => {
                self.whole_warp(common, warp, step, mask);
                // Goes on when its group is here.
                warp.state = State::Group(step);
                return Ok(());
            }
            Op::Matrix(op) => {
                self.whole_warp(common, warp, step, mask);
                match op {
                    MatrixOp::Mma(atom) => matrix::multiply(self.program, warp, *atom, statement),
                    MatrixOp::LoadMatrix { buffer, matrices, transposed } => {
                        let form = (*buffer, usize::from(*matrices), *transposed);
                        matrix::load(self, common, warp, form, step);
                    }
                    _ => fragments::run(self, common, warp, op, step),
                }
            }
            Op::Copy(op) => {
                copies::run(self, common, warp, op, step, mask)?;
                for &token in &statement.results {
                    let room = warp.registers.room(Type::Token);
                    warp.registers.set(token, room);
                }
            }
            Op::Report(ReportOp::Assert { message }) => {
                report::assert(self, common, warp, *message, step, mask);
            }
        }
        if warp.registers.is_poisoned() {
            match &statement.op {
                Op::Register(_) | Op::Exchange(_) => poison::spread(self.program, warp, statement),
                Op::Memory(MemoryOp::Load { width, masked: true, .. }) => {
                    poison::filled(warp, statement, usize::from(*width));
                }
                _ => {}
            }
        }
        self.bury(warp, step);
        Ok(())
    }

    /// Gives back what nobody uses after `step`.
    pub fn bury(&self, warp: &mut Warp, step: u32) {
        for &value in &self.code.steps[step as usize].dies {
            warp.registers.drop(value);
        }
    }

    fn position(&mut self, common: &Common, warp: &mut Warp, op: PositionOp, step: u32) {
        let result = self.code.steps[step as usize].statement.results[0];
        let ty = self.program.ty(result);
        let mut room = warp.registers.room(ty);
        let first_thread = u64::from(warp.number * WARP);
        for (n, word) in room.iter_mut().enumerate() {
            *word = match op {
                PositionOp::Block => common.number,
                PositionOp::Blocks => self.blocks,
                PositionOp::Thread => first_thread + n as u64,
                PositionOp::Lane => n as u64,
                PositionOp::Warp => u64::from(warp.number),
                PositionOp::Word(at) => {
                    let bits = self.words.get(at as usize).copied().unwrap_or(0);
                    match ty {
                        Type::Registers { dtype, .. } => Scalar::from_bits(dtype, bits).bits(),
                        _ => bits,
                    }
                }
            };
        }
        warp.registers.set(result, room);
    }

    /// Reports lanes that do not come to where all of the warp must.
    pub fn whole_warp(&mut self, common: &Common, warp: &Warp, step: u32, mask: u32) {
        if mask != u32::MAX {
            let (number, block) = (warp.number, common.number);
            self.findings.add(Kind::Divergent, step, || {
                format!(
                    "stands in divergent flow: only {} lanes of warp {number} of block {block} come",
                    mask.count_ones()
                )
            });
        }
    }

    /// The stamp of what `lane` does now.
    pub fn stamp(&self, common: &Common, warp: &Warp, lane: usize, step: u32) -> Stamp {
        Stamp {
            block: common.number as u32,
            thread: (warp.number * WARP) as u16 + lane as u16,
            epoch: common.epoch,
            warp_epoch: warp.epoch,
            grid: self.grid_epoch,
            step,
        }
    }

    /// Looks at an access of shared memory; gives its bytes.
    pub fn shared_access<'c>(
        &mut self,
        common: &'c mut Common,
        warp: &Warp,
        lane: usize,
        step: u32,
        place: Place,
        doing: Doing,
    ) -> Option<&'c mut [u8]> {
        let now = Now {
            stamp: self.stamp(common, warp, lane, step),
            space: Space::Shared,
            known: &common.known,
            acquired: &[],
            synchronized: false,
        };
        common.shared.access(self.program, &mut self.findings, place, doing, &now, &common.fences)
    }

    /// Looks at a read of `bytes` at an element of the device's memory; gives them.
    pub fn device_read(
        &mut self,
        common: &Common,
        warp: &Warp,
        lane: usize,
        step: u32,
        at: (u64, DType, i128),
        bytes: usize,
    ) -> Option<&[u8]> {
        let (storage, first) =
            self.device_access(common, warp, lane, step, at, bytes, Access::Read)?;
        self.memory.bytes(storage).get(first..first + bytes)
    }

    /// Looks at an access of `bytes` at an element of the device's memory; gives storage and first byte.
    #[allow(clippy::too_many_arguments)]
    pub fn device_access(
        &mut self,
        common: &Common,
        warp: &Warp,
        lane: usize,
        step: u32,
        (pointer, dtype, element): (u64, DType, i128),
        bytes: usize,
        access: Access,
    ) -> Option<(usize, usize)> {
        let stamp = self.stamp(common, warp, lane, step);
        let who = Who { block: common.number, thread: u32::from(stamp.thread) };
        let Some(storage) = self.memory.find(pointer) else {
            self.findings.add(Kind::DeviceBounds, step, || {
                format!("accesses memory that is no tensor's: {who} at address {pointer:#x}")
            });
            return None;
        };
        let base = i128::from(self.memory.offset(storage, pointer));
        let first = base + element * dtype.bytes() as i128;
        let size = self.memory.bytes(storage).len();
        let name = self.memory.name(storage);
        if first < 0 || first + bytes as i128 > size as i128 {
            self.findings.add(Kind::DeviceBounds, step, || {
                format!(
                    "is outside of `{name}`: {who} accesses {bytes} bytes at byte {first} of {size}"
                )
            });
            return None;
        }
        let first = first as usize;
        if bytes > 0 && !first.is_multiple_of(bytes) {
            self.findings.add(Kind::Misaligned, step, || {
                format!("is misaligned: {who} accesses {bytes} bytes at byte {first} of `{name}`")
            });
        }
        if !self.memory.is_written(storage) {
            if access != Access::Read {
                self.findings.add(Kind::ReadOnly, step, || {
                    format!("writes `{name}`, which this launch only reads: {who}")
                });
                return None;
            }
            return Some((storage, first));
        }
        let now = Now {
            stamp,
            space: Space::Device,
            known: &common.known,
            acquired: &common.acquired,
            synchronized: self.program.persistent,
        };
        let unit = self.code.device_unit as usize;
        for n in first / unit..(first + bytes).div_ceil(unit) {
            if let Some(race) = self.pages[storage].cell(n).access(access, &now) {
                let place = || format!("byte {} of `{name}`", n * unit);
                self.findings.race(Kind::DeviceRace, step, who, access, place, race);
            }
        }
        Some((storage, first))
    }

    /// The address that a pointer operand holds.
    pub fn pointer(&self, warp: &Warp, value: crate::program::Value) -> u64 {
        warp.registers.get(value).first().copied().unwrap_or(0)
    }
}

/// What all lanes of a register have that are alike.
pub(super) fn uniform(words: &[u64]) -> u64 {
    lane(words, 0, 0)
}

/// All lanes.
pub(super) const ALL: std::ops::Range<usize> = 0..LANES;
