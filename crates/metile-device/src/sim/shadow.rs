//! Which accesses of different threads nothing orders.
//!
//! Each unit of memory remembers the accesses that a later one could race with, stamped with who made them and how
//! many barriers that block (and, in shared memory, that warp) had passed. Of another block's accesses a thread knows
//! those before a grid barrier, and those before the last barrier ahead of a release that it, or its block before a
//! barrier, acquired.

use crate::program::WARP;
use std::collections::HashMap;

/// An access: by whom, when, and with which step of the code.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    pub block: u32,
    pub thread: u16,
    /// Barriers that the block passed.
    pub epoch: u32,
    /// Barriers that the warp passed.
    pub warp_epoch: u32,
    /// Grid barriers that the launch passed.
    pub grid: u32,
    pub step: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
    /// Reads and writes; does not race with its like, and orders nothing.
    Atomic,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    Shared,
    Device,
}

/// Of each block, how many epochs are known.
#[derive(Clone, Debug, Default)]
pub(super) struct Knowledge(HashMap<u32, u32>);

impl Knowledge {
    pub fn join(&mut self, other: &Knowledge) {
        for (&block, &epoch) in &other.0 {
            self.add(block, epoch);
        }
    }
    pub fn add(&mut self, block: u32, epoch: u32) {
        let known = self.0.entry(block).or_default();
        *known = epoch.max(*known);
    }
    fn covers(&self, stamp: &Stamp) -> bool {
        self.0.get(&stamp.block).is_some_and(|&known| known > stamp.epoch)
    }
}

/// Who accesses now, and what it knows of other blocks.
#[derive(Clone, Copy)]
pub(super) struct Now<'a> {
    pub stamp: Stamp,
    pub space: Space,
    pub known: &'a Knowledge,
    /// What single threads acquired since the block's last barrier.
    pub acquired: &'a [(u16, Knowledge)],
    /// Whether blocks may wait for each other: how many of them have to be remembered.
    pub synchronized: bool,
}

impl Now<'_> {
    fn comes_after(&self, a: &Stamp) -> bool {
        let b = &self.stamp;
        if a.block == b.block {
            let warp = |t: u16| u32::from(t) / WARP;
            return a.thread == b.thread
                || a.epoch < b.epoch
                || self.space == Space::Shared
                    && warp(a.thread) == warp(b.thread)
                    && a.warp_epoch < b.warp_epoch;
        }
        a.grid < b.grid
            || self.known.covers(a)
            || self.acquired.iter().any(|(t, known)| *t == b.thread && known.covers(a))
    }
}

/// What one unit of memory remembers.
#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    /// The last plain write.
    write: Option<Stamp>,
    since: Option<Box<Since>>,
}

/// Accesses since the last plain write, none ordered before another.
#[derive(Clone, Debug, Default)]
struct Since {
    reads: Vec<Stamp>,
    atomics: Vec<Stamp>,
}

impl Cell {
    /// Records an access; gives an earlier one that it races with, and whether that one wrote.
    pub fn access(&mut self, kind: Access, now: &Now<'_>) -> Option<(Stamp, Access)> {
        let race = self.race(kind, now);
        match kind {
            // Who comes after this write comes after all that it came after.
            Access::Write => *self = Cell { write: Some(now.stamp), since: None },
            Access::Read => remember(&mut self.since.get_or_insert_default().reads, now),
            Access::Atomic => remember(&mut self.since.get_or_insert_default().atomics, now),
        }
        race
    }

    fn race(&self, kind: Access, now: &Now<'_>) -> Option<(Stamp, Access)> {
        let unordered = |stamp: &&Stamp| !now.comes_after(stamp);
        if let Some(write) = self.write.as_ref().filter(unordered) {
            return Some((*write, Access::Write));
        }
        let since = self.since.as_ref()?;
        let atomics = if kind == Access::Atomic { &[][..] } else { &since.atomics };
        let reads = if kind == Access::Read { &[][..] } else { &since.reads };
        let atomic = atomics.iter().find(unordered).map(|s| (*s, Access::Atomic));
        atomic.or_else(|| reads.iter().find(unordered).map(|s| (*s, Access::Read)))
    }
}

/// Adds a stamp to `stamps` unless those there would race with whatever it would race with.
fn remember(stamps: &mut Vec<Stamp>, now: &Now<'_>) {
    stamps.retain(|s| !now.comes_after(s));
    let own = now.stamp;
    let warp = |s: &Stamp| u32::from(s.thread) / WARP;
    let mut same_block = stamps.iter().filter(|s| s.block == own.block);
    let covered = match (same_block.next(), same_block.next()) {
        // Two warps, or two threads of this one: any other thread races with one of them.
        (Some(a), Some(b)) => warp(a) != warp(b) || warp(a) == warp(&own),
        _ => false,
    };
    let mut others = stamps.iter().filter(|s| s.block != own.block).map(|s| s.block);
    let blocks = match others.next() {
        Some(first) => 1 + usize::from(others.any(|b| b != first)),
        None => 0,
    };
    // Blocks that never wait for each other: two of them stand for all.
    if !covered && (now.synchronized || blocks < 2) {
        stamps.push(own);
    }
}

/// The memory of a storage that is written, unit by unit, made as it is touched.
#[derive(Debug, Default)]
pub(super) struct Pages(Vec<Option<Box<[Cell]>>>);

/// Units of a page.
const PAGE: usize = 256;

impl Pages {
    pub fn cell(&mut self, unit: usize) -> &mut Cell {
        let page = unit / PAGE;
        if self.0.len() <= page {
            self.0.resize_with(page + 1, || None);
        }
        let cells =
            self.0[page].get_or_insert_with(|| vec![Cell::default(); PAGE].into_boxed_slice());
        &mut cells[unit % PAGE]
    }
}
