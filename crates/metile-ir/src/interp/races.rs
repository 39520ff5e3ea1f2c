//! Which accesses of different programs nothing orders.
//!
//! Each element that may be written remembers its last write and the reads since, stamped with the
//! program and how far it had come: how many grid barriers it had passed, and how many releases it
//! had done since. A program knows of another's accesses if a barrier lies between, or if it
//! acquired a counter into which the other released afterwards, directly or through others.

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
    Atomic,
}

/// An access: by which program, how far it had come, at which operation.
#[derive(Clone, Copy, Debug)]
struct Stamp {
    program: u64,
    epoch: u64,
    releases: u64,
    op: OpId,
    atomic: bool,
}

#[derive(Debug, Default)]
struct Shadow {
    write: Option<Stamp>,
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

#[derive(Debug, Default)]
pub(super) struct Races {
    shadows: HashMap<Place, Shadow>,
}

/// Reads of one element that are remembered; more are of no use for finding a first race.
const MAX_READS: usize = 16;

impl Races {
    /// Records an access; gives an earlier one that it races with.
    pub fn access(
        &mut self,
        place: Place,
        program: &Program,
        op: OpId,
        kind: AccessKind,
    ) -> Option<(OpId, u64)> {
        let shadow = self.shadows.entry(place).or_default();
        let atomic = kind == AccessKind::Atomic;
        let ordered = |earlier: &Stamp| {
            earlier.program == program.number
                || earlier.epoch < program.epoch
                || (earlier.atomic && atomic)
                || program.knows.0.get(&earlier.program).is_some_and(|&r| r > earlier.releases)
        };
        let stamp = Stamp {
            program: program.number,
            epoch: program.epoch,
            releases: program.releases,
            op,
            atomic,
        };
        let mut race = shadow.write.filter(|w| !ordered(w));
        if kind == AccessKind::Read {
            let known = shadow.reads.iter().position(|r| r.program == program.number);
            match known {
                Some(n) => shadow.reads[n] = stamp,
                None if shadow.reads.len() < MAX_READS => shadow.reads.push(stamp),
                None => {}
            }
        } else {
            race = race.or_else(|| shadow.reads.iter().find(|r| !ordered(r)).copied());
            shadow.write = Some(stamp);
            shadow.reads.clear();
        }
        race.map(|earlier| (earlier.op, earlier.program))
    }
}
