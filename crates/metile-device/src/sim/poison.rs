//! Registers read from shared memory that nobody wrote. Tiles are padded, so that programs read such places and then
//! leave what they got aside: it is an error only where it decides something or leaves the block's memory.

use super::block::Warp;
use super::findings::{Kind, Who};
use super::machine::Machine;
use super::registers::{LANES, Registers, lane, truth};
use crate::ops::*;
use crate::program::{Program, Shared, Statement, Value};
use metile_ir::dtype::DType;

/// Which lanes of which registers hold nothing, and the first such read.
#[derive(Clone, Debug)]
pub(super) struct Poison {
    /// Of each register, the lanes.
    lanes: Vec<u32>,
    origin: Origin,
}

/// A read of what nobody wrote.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub step: u32,
    pub buffer: Shared,
    pub byte: i64,
    pub who: Who,
}

impl Poison {
    pub fn new(registers: usize, origin: Origin) -> Poison {
        Poison { lanes: vec![0; registers], origin }
    }

    pub fn add(&mut self, register: usize, lane: usize) {
        self.lanes[register] |= 1 << lane;
    }

    /// Lanes of register `n`; of the only one if there is one.
    fn of(&self, n: usize) -> u32 {
        let n = if self.lanes.len() == 1 { 0 } else { n };
        self.lanes.get(n).copied().unwrap_or(0)
    }

    pub fn holds(&self, n: usize, lane: usize) -> bool {
        self.of(n) >> lane & 1 != 0
    }

    /// What `mask` names from `new`, the rest from `old`.
    pub fn merged(old: Option<&Poison>, new: Option<&Poison>, mask: u32) -> Option<Poison> {
        let any = new.or(old)?;
        let lanes = (0..any.lanes.len()).map(|n| {
            let of = |p: Option<&Poison>| p.map_or(0, |p| p.of(n));
            of(old) & !mask | of(new) & mask
        });
        Poison { lanes: lanes.collect(), origin: any.origin }.if_any()
    }

    fn if_any(self) -> Option<Poison> {
        self.lanes.iter().any(|&lanes| lanes != 0).then_some(self)
    }
}

/// Gives the results of arithmetic and exchanges what their operands have.
pub(super) fn spread(program: &Program, warp: &mut Warp, s: &Statement) {
    let registers = &warp.registers;
    let operands: Vec<Option<&Poison>> = s.operands.iter().map(|&v| registers.poison(v)).collect();
    let Some(origin) = operands.iter().flatten().next().map(|p| p.origin) else { return };
    let of = |k: usize, n: usize| operands.get(k).copied().flatten().map_or(0, |p| p.of(n));
    let result = s.results[0];
    let count = program.count(result) as usize;
    let union = |n: usize| (0..operands.len()).fold(0, |all, k| all | of(k, n));
    let lanes: Vec<u32> = match &s.op {
        Op::Register(RegisterOp::Pick(from)) => from.iter().map(|&f| of(0, f as usize)).collect(),
        Op::Register(RegisterOp::Join) => {
            let parts = s.operands.iter().enumerate();
            parts
                .flat_map(|(k, &v)| (0..program.count(v) as usize).map(move |n| of(k, n)))
                .collect()
        }
        Op::Register(RegisterOp::Pack) if program.dtype(s.operands[0]) == Some(DType::U32) => {
            (0..count).map(|n| of(0, n / 2)).collect()
        }
        Op::Register(RegisterOp::Pack) => {
            (0..count).map(|n| of(0, 2 * n) | of(0, 2 * n + 1)).collect()
        }
        Op::Register(RegisterOp::Select) => {
            let test = |n| bits(registers, s.operands[0], n, |b| b != 0);
            (0..count).map(|n| of(0, n) | test(n) & of(1, n) | !test(n) & of(2, n)).collect()
        }
        Op::Register(RegisterOp::Binary(op @ (BinaryOp::And | BinaryOp::Or))) => {
            // A side that decides alone.
            let bool = program.dtype(result) == Some(DType::Bool);
            let decides = |k: usize, n| match op {
                BinaryOp::And => bits(registers, s.operands[k], n, |b| b == 0) & !of(k, n),
                _ if bool => bits(registers, s.operands[k], n, |b| b != 0) & !of(k, n),
                _ => 0,
            };
            (0..count).map(|n| union(n) & !decides(0, n) & !decides(1, n)).collect()
        }
        Op::Exchange(op) => {
            let other = |at: usize| match op {
                ExchangeOp::Xor(mask) => at ^ usize::from(*mask),
                ExchangeOp::Index => lane(registers.get(s.operands[1]), 0, at) as usize % LANES,
            };
            let moved = |n| (0..LANES).fold(0, |all, at| all | (of(0, n) >> other(at) & 1) << at);
            (0..count).map(|n| moved(n) | of(1, 0)).collect()
        }
        _ => (0..count).map(union).collect(),
    };
    let made = Poison { lanes, origin }.if_any();
    warp.registers.set_poison(result, made);
}

/// The lanes of a register for which `holds`.
fn bits(registers: &Registers, value: Value, n: usize, holds: impl Fn(u64) -> bool) -> u32 {
    let words = registers.get(value);
    (0..LANES).fold(0, |all, at| all | u32::from(holds(lane(words, n, at))) << at)
}

/// Reports operands that decide something, or leave for the device's memory, and hold nothing.
pub(super) fn check(m: &mut Machine<'_, '_, '_>, warp: &Warp, step: u32, mask: u32) {
    let s = m.code.steps[step as usize].statement;
    // Values, and the operand that says of which registers.
    let (values, masks): (&[Value], Option<Value>) = match &s.op {
        Op::Memory(MemoryOp::Load { masked, .. }) => {
            (&s.operands[1..2], masked.then(|| s.operands[2]))
        }
        Op::Memory(MemoryOp::Store { masked: true, .. }) => (&s.operands[1..], Some(s.operands[2])),
        Op::Memory(MemoryOp::StoreShared { masked, .. }) => {
            (&s.operands[..1], masked.then(|| s.operands[1]))
        }
        Op::Memory(MemoryOp::LoadShared { .. } | MemoryOp::Entry) => (&s.operands[..], None),
        Op::Memory(MemoryOp::Store { .. }) => (&s.operands[1..], None),
        Op::Memory(_) | Op::Sync(SyncOp::CounterAdd | SyncOp::CounterWait) => {
            (&s.operands[1..], Some(s.operands[2]))
        }
        Op::Control(ControlOp::For { .. }) => (&s.operands[..3], None),
        Op::Control(ControlOp::If | ControlOp::Condition) => (&s.operands[..1], None),
        Op::Control(_) | Op::Register(_) | Op::Exchange(_) | Op::Position(_) => return,
        _ => (&s.operands[..], None),
    };
    for &value in values.iter().chain(&masks) {
        let Some(poison) = warp.registers.poison(value) else { continue };
        let width = match (&s.op, m.program.count(value)) {
            (Op::Memory(MemoryOp::Store { width, immediates, .. }), count)
                if count as usize == usize::from(*width) * immediates.len() =>
            {
                usize::from(*width)
            }
            _ => 1,
        };
        let used = (0..poison.lanes.len()).any(|n| {
            (0..LANES).any(|at| {
                let wanted = |v| truth(warp.registers.get(v), n / width, at);
                let taken = Some(value) == masks || masks.is_none_or(wanted);
                mask >> at & 1 != 0 && taken && poison.holds(n, at)
            })
        });
        if used {
            let origin = poison.origin;
            let buffer = &m.program.shared[origin.buffer].name;
            m.findings.add_related(Kind::Uninitialized, origin.step, || {
                let message = format!(
                    "reads byte {} of `{buffer}`, which nobody wrote: {}",
                    origin.byte, origin.who
                );
                let user = crate::print::name(&s.op);
                (message, Some((step, format!("`{user}` uses what was read"))))
            });
        }
    }
}

/// What a masked load has of its fill.
pub(super) fn filled(warp: &mut Warp, s: &Statement, width: usize) {
    let [.., mask, fill] = s.operands[..] else { return };
    let Some(poison) = warp.registers.poison(fill).cloned() else { return };
    let count = warp.registers.get(s.results[0]).len() / LANES;
    let lanes =
        (0..count).map(|n| poison.of(n) & bits(&warp.registers, mask, n / width, |b| b == 0));
    let made = Poison { lanes: lanes.collect(), origin: poison.origin }.if_any();
    warp.registers.set_poison(s.results[0], made);
}
