//! A block that runs: what its threads share, and where each warp is.

use super::agreement::Agreements;
use super::code::Code;
use super::copies::Copies;
use super::random::Random;
use super::registers::{LANES, Registers};
use super::shadow::Knowledge;
use super::shared::SharedMemory;
use crate::program::Program;

#[derive(Debug)]
pub(super) struct Block {
    pub common: Common,
    pub warps: Vec<Warp>,
}

/// What the threads of a block have in common.
#[derive(Debug)]
pub(super) struct Common {
    pub number: u64,
    pub shared: SharedMemory,
    /// Barriers passed.
    pub epoch: u32,
    /// What all threads know of other blocks.
    pub known: Knowledge,
    /// What single threads acquired since the last barrier.
    pub acquired: Vec<(u16, Knowledge)>,
    /// Of each thread, the epochs in which it made its writes visible to matrix units.
    pub fences: Vec<Vec<u32>>,
    /// What warps said that all threads agree on.
    pub agreements: Agreements,
}

#[derive(Debug)]
pub(super) struct Warp {
    pub number: u32,
    pub registers: Registers,
    pub frames: Vec<Frame>,
    /// Barriers of the warp passed.
    pub epoch: u32,
    pub state: State,
    /// Copies under way, of each lane.
    pub copies: Vec<Copies>,
    /// The lane that goes first where lanes do something one after the other.
    pub first_lane: usize,
}

/// Where a warp is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Running,
    /// At a barrier of the block, which is this step.
    Barrier(u32),
    GridBarrier(u32),
    /// At a product of its warpgroup.
    Group(u32),
    /// Until a counter is raised.
    Counter(u32),
    Ended,
}

/// A block of statements under way.
#[derive(Debug)]
pub(super) struct Frame {
    pub block: u32,
    /// The next step.
    pub next: u32,
    /// Lanes that run it.
    pub mask: u32,
    pub kind: FrameKind,
}

#[derive(Debug)]
pub(super) enum FrameKind {
    Body,
    For { step: u32, counts: Box<Counts> },
    While { step: u32 },
    If { step: u32, other: Option<(u32, u32)> },
}

/// Where the lanes are in a loop.
#[derive(Debug)]
pub(super) struct Counts {
    pub index: [i64; LANES],
    pub high: [i64; LANES],
    pub step: [i64; LANES],
    /// Whether the index is `i64`, not `i32`.
    pub wide: bool,
}

impl Block {
    pub fn new(program: &Program, code: &Code<'_>, number: u64, random: &mut Random) -> Block {
        let body = &code.blocks[0];
        let warps = (0..program.warps).map(|number| Warp {
            number,
            registers: Registers::new(program),
            frames: vec![Frame {
                block: 0,
                next: body.first,
                mask: u32::MAX,
                kind: FrameKind::Body,
            }],
            epoch: 0,
            state: State::Running,
            copies: vec![Copies::default(); LANES],
            first_lane: random.below(LANES as u64) as usize,
        });
        let warps = warps.collect();
        let common = Common {
            number,
            shared: SharedMemory::new(program, code, random),
            epoch: 0,
            known: Knowledge::default(),
            acquired: Vec::new(),
            agreements: Agreements::default(),
            fences: vec![Vec::new(); program.threads() as usize],
        };
        Block { common, warps }
    }
}
