//! The simulator: runs a program as a GPU would, and reports what a GPU would not.
//!
//! Blocks run one after the other, those of a persistent program side by side. The warps of a block take turns in an
//! order drawn from a seed, and so do the branches of a warp whose lanes part. Values are the language's, bit for bit.
//! Shared memory holds anything before it is written, and a copy's bytes land when the copy is waited for.
//!
//! Reported, at the kernel's line, each once for each statement: see [`Kind`]. A launch ends early for a reason that
//! [`Failure`] gives. Races are found by what orders two accesses, not by the order that the seed led to: barriers in a
//! block, barriers of a warp for its accesses of shared memory, grid barriers, and counters from the last barrier before
//! they are raised to the first after they are waited for.

mod access;
mod agreement;
mod arithmetic;
mod block;
mod code;
mod control;
mod copies;
mod exchange;
mod findings;
mod fragments;
mod machine;
mod matrix;
mod memory;
mod poison;
mod random;
mod registers;
mod report;
mod schedule;
mod shadow;
mod shared;
mod sync;
mod warpgroup;

pub use findings::{Finding, Kind};
pub use memory::Memory;

use crate::verify::Verified;
use metile_ir::diagnostic::Diagnostic;
use std::collections::HashMap;

/// The most blocks of a persistent program: all are in memory at once.
pub const MAX_RESIDENT: u64 = 1024;
/// The most copies that a thread has under way.
pub const MAX_COPIES: usize = 1 << 12;

/// A launch.
#[derive(Debug)]
pub struct Launch<'a, 'm> {
    /// How many blocks run.
    pub blocks: u64,
    /// What is passed, as [`Program::words`](crate::program::Program::words) says; addresses are those that `memory` gave.
    pub words: &'a [u64],
    /// What the addresses point to.
    pub memory: &'a mut Memory<'m>,
}

/// How to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the order of warps, blocks, branches and lanes is drawn from.
    pub seed: u64,
    /// How many statements all warps together may run.
    pub step_limit: u64,
    /// After how many findings the rest are dropped.
    pub max_findings: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { seed: 0, step_limit: 1 << 32, max_findings: 100 }
    }
}

/// What a launch left besides its results.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What is wrong with the program.
    pub findings: Vec<Finding>,
    /// Statements run.
    pub steps: u64,
}

/// Why a launch ended early. What it wrote until then stays written.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The number of words is not the program's.
    #[error("the program takes {wanted} words, not {given}")]
    Words {
        /// Words of the program.
        wanted: usize,
        /// Words given.
        given: usize,
    },
    /// More blocks than there are numbers for.
    #[error("a launch has fewer than 2^32 blocks, not {0}")]
    Blocks(u64),
    /// More than [`MAX_RESIDENT`] blocks of a persistent program.
    #[error("{0} blocks wait for each other; the simulator has room for {MAX_RESIDENT}")]
    TooManyBlocks(u64),
    /// Threads wait for each other, or for threads that have ended.
    #[error("{0}")]
    Deadlock(Box<Diagnostic>),
    /// [`Options::step_limit`] is reached.
    #[error("the launch ran {0} statements without ending")]
    StepLimit(u64),
    /// A thread has more than [`MAX_COPIES`] copies under way.
    #[error("a thread has more than {MAX_COPIES} copies under way")]
    Copies,
}

/// Runs `program`.
///
/// # Errors
/// See [`Failure`].
pub fn run(
    program: &Verified,
    launch: Launch<'_, '_>,
    options: &Options,
) -> Result<Outcome, Failure> {
    let program = program.program();
    if launch.words.len() != program.words.len() {
        return Err(Failure::Words { wanted: program.words.len(), given: launch.words.len() });
    }
    if launch.blocks > u64::from(u32::MAX) {
        return Err(Failure::Blocks(launch.blocks));
    }
    if launch.blocks == 0 {
        return Ok(Outcome::default());
    }
    let code = code::Code::new(program);
    let pages = (0..launch.memory.len()).map(|_| shadow::Pages::default()).collect();
    let mut machine = machine::Machine {
        program,
        code: &code,
        options,
        words: launch.words,
        blocks: launch.blocks,
        memory: launch.memory,
        pages,
        findings: findings::Findings::new(program, &code, options.max_findings),
        random: random::Random::new(options.seed),
        steps: 0,
        grid_epoch: 0,
        counters: HashMap::new(),
        raised: false,
    };
    schedule::run(&mut machine)?;
    Ok(Outcome { findings: machine.findings.found, steps: machine.steps })
}
