//! What the simulator finds, and how it is said.

use super::code::Code;
use super::shadow::{Access, Stamp};
use crate::print::name;
use crate::program::Program;
use metile_ir::diagnostic::Diagnostic;
use std::collections::HashSet;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Threads access the same shared memory, one of them writing, and no barrier orders them.
    SharedRace,
    /// Threads access the same memory of the device, one of them writing, and nothing orders them.
    DeviceRace,
    /// An access outside of a shared buffer.
    SharedBounds,
    /// A read of shared memory that nobody wrote.
    Uninitialized,
    /// An access outside of a tensor's storage.
    DeviceBounds,
    /// A write to a storage that the launch only reads.
    ReadOnly,
    /// A group that is not aligned to its size.
    Misaligned,
    /// A barrier, exchange or matrix operation to which not all threads come.
    Divergent,
    /// A value that threads were said to agree on, and do not.
    Disagreement,
    /// An access of shared memory into which a copy is under way.
    NotWaitedFor,
    /// A read by a matrix unit of what was not made visible to it.
    NotFenced,
}

/// Something wrong with the program.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What.
    pub kind: Kind,
    /// Where, and who.
    pub diagnostic: Diagnostic,
}

/// The findings of a launch: each kind once for each statement.
#[derive(Debug)]
pub(super) struct Findings<'p> {
    program: &'p Program,
    code: &'p Code<'p>,
    pub found: Vec<Finding>,
    seen: HashSet<(u32, Kind)>,
    most: usize,
}

/// Who does something: block and thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Who {
    pub block: u64,
    pub thread: u32,
}

impl std::fmt::Display for Who {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Numbers beyond threads' are those of matrix units.
        match self.thread.checked_sub(1 << 15) {
            Some(group) => write!(f, "the product of warpgroup {group} of block {}", self.block),
            None => write!(f, "thread {} of block {}", self.thread, self.block),
        }
    }
}

impl<'p> Findings<'p> {
    pub fn new(program: &'p Program, code: &'p Code<'p>, most: usize) -> Findings<'p> {
        Findings { program, code, found: Vec::new(), seen: HashSet::new(), most }
    }

    /// Adds a finding about `step` unless there is one of its kind; `message` goes after the name of the operation.
    pub fn add(&mut self, kind: Kind, step: u32, message: impl FnOnce() -> String) {
        self.add_related(kind, step, || (message(), None));
    }

    /// The same with another statement that has to do with it.
    pub fn add_related(
        &mut self,
        kind: Kind,
        step: u32,
        message: impl FnOnce() -> (String, Option<(u32, String)>),
    ) {
        if self.found.len() >= self.most || !self.seen.insert((step, kind)) {
            return;
        }
        let (message, other) = message();
        let mut diagnostic = self.diagnostic(step, &message);
        if let Some((other, label)) = other {
            let statement = self.code.steps[other as usize].statement;
            if let Some(span) = statement.span {
                diagnostic.related.push((span, label));
            }
        }
        self.found.push(Finding { kind, diagnostic });
    }

    /// An error about `step`.
    pub fn diagnostic(&self, step: u32, message: &str) -> Diagnostic {
        let statement = self.code.steps[step as usize].statement;
        Diagnostic::error(format!("`{}` {message}", name(&statement.op)))
            .at(statement.span)
            .in_kernel(&self.program.name)
    }

    /// Adds a race of an access at `step` with an earlier one.
    pub fn race(
        &mut self,
        kind: Kind,
        step: u32,
        who: Who,
        access: Access,
        place: impl FnOnce() -> String,
        (earlier, earlier_access): (Stamp, Access),
    ) {
        let other_name = name(&self.code.steps[earlier.step as usize].statement.op);
        self.add_related(kind, step, || {
            let other = Who { block: u64::from(earlier.block), thread: u32::from(earlier.thread) };
            let missing = match kind {
                Kind::SharedRace => "no barrier is between",
                _ if who.block == other.block => "no barrier is between",
                _ => "nothing orders the blocks",
            };
            let message = format!(
                "races: {who} {} {}, which {other} {} in `{other_name}`, and {missing}",
                verb(access),
                place(),
                past(earlier_access),
            );
            (message, Some((earlier.step, format!("`{other_name}` is here"))))
        });
    }
}

fn verb(access: Access) -> &'static str {
    match access {
        Access::Read => "reads",
        Access::Write => "writes",
        Access::Atomic => "updates",
    }
}

fn past(access: Access) -> &'static str {
    match access {
        Access::Read => "read",
        Access::Write => "wrote",
        Access::Atomic => "updated",
    }
}
