//! Which accesses of different programs nothing orders.
//!
//! Each element that may be written remembers the writes and the reads that a later access could
//! still race with, stamped with the program and how far it had come: how many releases it had done.
//! A program knows of another's accesses if it acquired a counter into which the other released
//! afterwards, directly or through others. A grid barrier orders everything before it, so that all
//! is forgotten there.

use super::machine::Program;
use crate::tile::OpId;
use std::collections::HashMap;

/// One element of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub buffer: usize,
    pub byte: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccessKind {
    Read,
    Write,
    /// Reads and writes; does not race with its like, and orders nothing.
    Atomic,
}

/// An access: by which program, after how many of its releases, at which operation.
#[derive(Clone, Copy, Debug)]
struct Stamp {
    program: u64,
    releases: u64,
    op: OpId,
}

impl Stamp {
    /// Whether `program` comes after this access.
    fn is_before(&self, program: &Program) -> bool {
        self.program == program.number
            || program.knows.0.get(&self.program).is_some_and(|&seen| seen > self.releases)
    }
}

#[derive(Debug, Default)]
struct Shadow {
    /// The last plain write.
    write: Option<Stamp>,
    /// Atomics since, none ordered before another.
    atomics: Vec<Stamp>,
    /// Reads since; the last of each program.
    reads: Vec<Stamp>,
}

/// What a program knows of others' progress since the last barrier: releases seen of each.
#[derive(Clone, Debug, Default)]
pub(super) struct Knowledge(HashMap<u64, u64>);

impl Knowledge {
    /// Takes in what `other` knows.
    pub fn join(&mut self, other: &Knowledge) {
        for (&program, &releases) in &other.0 {
            let mine = self.0.entry(program).or_default();
            *mine = releases.max(*mine);
        }
    }
    pub fn set(&mut self, program: u64, releases: u64) {
        self.0.insert(program, releases);
    }
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[derive(Debug)]
pub(super) struct Races {
    shadows: HashMap<Place, Shadow>,
    /// How many programs' reads, and how many programs' atomics, of one element are remembered.
    most: usize,
}

impl Races {
    /// `synchronized`: whether anything may order programs at all. Where nothing does, any two
    /// programs' accesses stand for those of all others, whichever program comes next.
    pub fn new(synchronized: bool) -> Races {
        Races { shadows: HashMap::new(), most: if synchronized { usize::MAX } else { 2 } }
    }

    /// Forgets all accesses: whatever comes is ordered after them.
    pub fn clear(&mut self) {
        self.shadows.clear();
    }

    /// Records an access; gives an earlier one that it races with: its operation and program.
    pub fn access(
        &mut self,
        place: Place,
        program: &Program,
        op: OpId,
        kind: AccessKind,
    ) -> Option<(OpId, u64)> {
        let most = self.most;
        let shadow = self.shadows.entry(place).or_default();
        let stamp = Stamp { program: program.number, releases: program.releases, op };
        let first = |earlier: &[Stamp]| earlier.iter().find(|s| !s.is_before(program)).copied();
        let mut race = shadow.write.filter(|w| !w.is_before(program));
        if kind != AccessKind::Atomic {
            race = race.or_else(|| first(&shadow.atomics));
        }
        if kind != AccessKind::Read {
            race = race.or_else(|| first(&shadow.reads));
        }
        match kind {
            AccessKind::Read => remember(&mut shadow.reads, stamp, most),
            AccessKind::Write => {
                // Who comes after this write comes after all that it came after.
                *shadow = Shadow { write: Some(stamp), ..Shadow::default() };
            }
            AccessKind::Atomic => {
                shadow.atomics.retain(|s| !s.is_before(program));
                remember(&mut shadow.atomics, stamp, most);
            }
        }
        race.map(|earlier| (earlier.op, earlier.program))
    }
}

/// Keeps the last access of each program.
fn remember(stamps: &mut Vec<Stamp>, stamp: Stamp, most: usize) {
    // A program mostly touches an element again before others do.
    if let Some(own) = stamps.iter_mut().rev().find(|s| s.program == stamp.program) {
        *own = stamp;
    } else if stamps.len() < most {
        stamps.push(stamp);
    }
}
