//! Waiting: grid barriers, counters, and programs that can never go on.

use super::Failure;
use super::machine::{Launch, Pause, Program};
use super::order::Order;
use super::report;
use super::value::{Value, View};
use crate::diagnostic::Diagnostic;
use crate::tile::{Op, OpId};
use std::rc::Rc;

/// The most programs that may wait at once: each keeps its values, and the grid must not decide how
/// much memory that takes. Far more than any device keeps resident.
pub const MAX_WAITING: usize = 1 << 16;

/// Programs that wait, with the operation each waits at.
#[derive(Default)]
struct Waiting {
    at_barrier: Vec<(Program, OpId)>,
    at_counter: Vec<(Program, OpId)>,
    ended: u64,
}

/// One element of a tensor of counters.
struct Counter {
    view: Rc<View>,
    index: i64,
    /// Its buffer and byte.
    place: (usize, usize),
}

impl Launch<'_, '_> {
    /// All programs at once: each runs until it waits.
    pub(super) fn run_together(
        &mut self,
        programs: u64,
        arguments: &[Value],
    ) -> Result<(), Failure> {
        let order = Order::new(programs, self.options.order_seed);
        let mut waiting = Waiting::default();
        for n in 0..programs {
            let program = self.program(order.at(n), arguments);
            self.advance(program, &mut waiting)?;
        }
        loop {
            let ready = self.ready(&mut waiting, programs);
            if ready.is_empty() {
                return self.all_ended(&waiting, programs);
            }
            for program in ready {
                self.advance(program, &mut waiting)?;
            }
        }
    }

    fn advance(&mut self, mut program: Program, waiting: &mut Waiting) -> Result<(), Failure> {
        match self.resume(&mut program)? {
            Pause::Ended => waiting.ended += 1,
            Pause::Barrier(op) => waiting.at_barrier.push((program, op)),
            Pause::Counter(op) => waiting.at_counter.push((program, op)),
        }
        if waiting.at_barrier.len() + waiting.at_counter.len() > MAX_WAITING {
            return Err(Failure::TooManyWaiting);
        }
        Ok(())
    }

    /// The programs that can go on: those whose counter is high enough, or all of them, once all are
    /// at a barrier.
    fn ready(&mut self, waiting: &mut Waiting, programs: u64) -> Vec<Program> {
        let (go, stay): (Vec<_>, Vec<_>) = std::mem::take(&mut waiting.at_counter)
            .into_iter()
            .partition(|(program, op)| self.reached(program, *op));
        waiting.at_counter = stay;
        if !go.is_empty() || waiting.at_barrier.len() as u64 != programs {
            return go.into_iter().map(|(program, _)| program).collect();
        }
        // Everything before a barrier is ordered before everything after it: nothing that happened
        // until now can race any more, and nobody needs to know of it.
        self.races.clear();
        self.released.clear();
        let mut all: Vec<Program> = waiting.at_barrier.drain(..).map(|(p, _)| p).collect();
        for program in &mut all {
            program.releases = 0;
            program.knows.clear();
        }
        all
    }

    /// An error if a program still waits, and so waits for ever.
    fn all_ended(&self, waiting: &Waiting, programs: u64) -> Result<(), Failure> {
        let both = || waiting.at_counter.iter().chain(&waiting.at_barrier);
        let Some((program, op)) = both().next() else { return Ok(()) };
        let (message, hint) = match self.counter(program, &self.kernel.ops[*op]) {
            Some(counter) if !waiting.at_counter.is_empty() => (
                format!(
                    "waits for counter {} of `{}` to reach {}, but it stays at {}",
                    counter.index,
                    self.kernel.parameter_name(counter.view.parameter),
                    program.tile(self.kernel.ops[*op].operands[2]).get(0),
                    self.count(&counter)
                ),
                "every wait needs as many adds by other programs",
            ),
            _ => (
                format!(
                    "waits at a grid barrier that {} of {programs} programs never reach",
                    waiting.ended
                ),
                "every program of the grid passes every barrier: move it out of branches and loops \
                 that programs leave at different times",
            ),
        };
        let mut error =
            Diagnostic::error(format!("deadlock: {} {message}", report::program(program.id)))
                .at(self.kernel.ops[*op].span)
                .in_kernel(&self.kernel.name)
                .hint(hint);
        let mut named = vec![*op];
        for (program, op) in both() {
            if named.contains(op) {
                continue;
            }
            named.push(*op);
            if let Some(span) = self.kernel.ops[*op].span {
                let label = format!("{} waits here", report::program(program.id));
                error.related.push((span, label));
            }
        }
        Err(Failure::Deadlock(Box::new(error)))
    }

    /// The counter that `op` names, if there is such a counter.
    fn counter(&self, program: &Program, op: &Op) -> Option<Counter> {
        let view = program.view(*op.operands.first()?)?;
        let index = program.int(*op.operands.get(1)?);
        let (&extent, &stride) = (view.shape.first()?, view.strides.first()?);
        if index < 0 || index as u64 >= extent {
            return None;
        }
        // In the shape, so within the buffer.
        let part = view.parts.first()?;
        let place = (part.buffer, (part.byte_offset + index * stride * 4) as usize);
        Some(Counter { view, index, place })
    }

    fn count(&self, counter: &Counter) -> u32 {
        let (buffer, byte) = counter.place;
        let bytes = &self.buffers[buffer].bytes()[byte..byte + 4];
        u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }

    /// Adds to the counter, wrapping; nothing happens where there is no such counter.
    pub(super) fn counter_add(&mut self, program: &mut Program, op: &Op) {
        let Some(counter) = self.counter(program, op) else { return };
        let n = program.tile(op.operands[2]).bits[0] as u32;
        let sum = self.count(&counter).wrapping_add(n);
        let (buffer, byte) = counter.place;
        if let Some(bytes) = self.buffers[buffer].bytes_mut() {
            bytes[byte..byte + 4].copy_from_slice(&sum.to_le_bytes());
        }
        self.block.forget();
        program.releases += 1;
        let released = self.released.entry(counter.place).or_default();
        released.join(&program.knows);
        released.set(program.number, program.releases);
    }

    /// Whether the program may pass the `CounterWait` `id`; it may where there is no such counter.
    pub(super) fn reached(&self, program: &Program, id: OpId) -> bool {
        let op = &self.kernel.ops[id];
        let wanted = program.tile(op.operands[2]).bits[0] as u32;
        self.counter(program, op).is_none_or(|counter| self.count(&counter) >= wanted)
    }

    /// Takes in what was released into the counter.
    pub(super) fn acquire(&mut self, program: &mut Program, op: &Op) {
        let Some(counter) = self.counter(program, op) else { return };
        if let Some(released) = self.released.get(&counter.place) {
            program.knows.join(released);
        }
    }
}
