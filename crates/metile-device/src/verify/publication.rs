//! Shared memory is read after what publishes it, and copies are waited for: what is certain without running.
//!
//! Reported: a copy that no `copy_commit` or no `copy_wait` follows; a buffer that only copies write, read before any
//! `copy_wait`; a buffer read by all threads at one place, or by a warp as a matrix, before any barrier. A loop that
//! encloses the reading statement counts as being before it.

use super::structure::shared_buffers;
use super::uniform::{Level, Uniformity};
use super::{Limits, error, walk};
use crate::ops::*;
use crate::program::{Block, Program, Shared, Statement};
use metile_ir::diagnostic::Diagnostic;
use std::collections::HashSet;

pub(super) fn check(program: &Program, _: &Limits) -> Vec<Diagnostic> {
    let mut errors = unfinished(program);
    let mut order = Order {
        program,
        levels: Uniformity::of(program),
        stored: HashSet::new(),
        copied: HashSet::new(),
        errors: Vec::new(),
    };
    walk(&program.body, &mut |s| {
        for buffer in shared_buffers(&s.op) {
            match s.op {
                Op::Copy(_) => order.copied.insert(buffer),
                _ if reads(&s.op) => false,
                _ => order.stored.insert(buffer),
            };
        }
    });
    order.block(&program.body, Seen::default());
    errors.append(&mut order.errors);
    errors
}

/// Copies with nothing after them, in the order of the text, that would commit or wait for them; around a loop,
/// what stands earlier in it comes after as well.
fn unfinished(program: &Program) -> Vec<Diagnostic> {
    let mut errors = Vec::new();
    after(&program.body, (false, false), &mut errors);
    errors
}

/// Whether a commit and a wait stand in `block` or one nested in it.
fn finishes(block: &Block) -> (bool, bool) {
    let mut found = (false, false);
    walk(block, &mut |s| match s.op {
        Op::Copy(CopyOp::Commit) => found.0 = true,
        Op::Copy(CopyOp::Wait { .. }) => found.1 = true,
        _ => {}
    });
    found
}

fn after(block: &Block, mut later: (bool, bool), errors: &mut Vec<Diagnostic>) {
    for s in block.statements.iter().rev() {
        let is_loop = matches!(s.op, Op::Control(ControlOp::For { .. } | ControlOp::While));
        let mut inside = (false, false);
        for nested in &s.blocks {
            let own = finishes(nested);
            inside = (inside.0 || own.0, inside.1 || own.1);
        }
        let both = (later.0 || inside.0, later.1 || inside.1);
        for nested in &s.blocks {
            after(nested, if is_loop { both } else { later }, errors);
        }
        match s.op {
            Op::Copy(CopyOp::Async { .. }) if !later.0 => {
                errors.push(error(s, "begins a copy that is never committed"));
            }
            Op::Copy(CopyOp::Async { .. }) if !later.1 => {
                errors.push(error(s, "begins a copy that is never waited for"));
            }
            Op::Copy(CopyOp::Commit) => later.0 = true,
            Op::Copy(CopyOp::Wait { .. }) => later.1 = true,
            _ => {}
        }
        later = (later.0 || inside.0, later.1 || inside.1);
    }
}

fn reads(op: &Op) -> bool {
    matches!(
        op,
        Op::Memory(MemoryOp::LoadShared { .. })
            | Op::Matrix(
                MatrixOp::LoadMatrix { .. } | MatrixOp::LoadFragment { .. } | MatrixOp::Wgmma(_)
            )
    )
}

/// What may have run before a statement.
#[derive(Clone, Copy, Default)]
struct Seen {
    wait: bool,
    barrier: bool,
    warp_barrier: bool,
}

impl Seen {
    fn add(&mut self, op: &Op) {
        match op {
            Op::Copy(CopyOp::Wait { .. }) => self.wait = true,
            Op::Sync(SyncOp::Barrier | SyncOp::GridBarrier) => self.barrier = true,
            Op::Sync(SyncOp::WarpBarrier) => self.warp_barrier = true,
            _ => {}
        }
    }
}

struct Order<'p> {
    program: &'p Program,
    levels: Uniformity,
    stored: HashSet<Shared>,
    copied: HashSet<Shared>,
    errors: Vec<Diagnostic>,
}

impl Order<'_> {
    fn block(&mut self, block: &Block, mut seen: Seen) -> Seen {
        for s in &block.statements {
            if reads(&s.op) {
                shared_buffers(&s.op).for_each(|buffer| self.read(s, buffer, seen));
            }
            seen.add(&s.op);
            let mut inside = seen;
            if matches!(s.op, Op::Control(ControlOp::For { .. } | ControlOp::While)) {
                for nested in &s.blocks {
                    walk(nested, &mut |s| inside.add(&s.op));
                }
            }
            for nested in &s.blocks {
                let left = self.block(nested, inside);
                seen.wait |= left.wait;
                seen.barrier |= left.barrier;
                seen.warp_barrier |= left.warp_barrier;
            }
        }
        seen
    }

    fn read(&mut self, s: &Statement, buffer: Shared, seen: Seen) {
        let name = &self.program.shared[buffer].name;
        let (stored, copied) = (self.stored.contains(&buffer), self.copied.contains(&buffer));
        if !stored && !copied {
            self.errors.push(error(s, format!("reads `{name}`, which nothing writes")));
        } else if !stored && !seen.wait {
            self.errors.push(error(
                s,
                format!("reads `{name}`, which copies write, before any `copy_wait`"),
            ));
        } else if !self.published(s, seen) {
            self.errors.push(error(
                s,
                format!("reads what other threads wrote to `{name}` before any barrier"),
            ));
        }
    }

    fn published(&self, s: &Statement, seen: Seen) -> bool {
        let one_place = match s.op {
            Op::Matrix(MatrixOp::Wgmma(_)) => return seen.barrier,
            Op::Matrix(_) => return seen.barrier || seen.warp_barrier,
            _ => s.operands.first().is_some_and(|&v| self.levels.level(v) == Level::Block),
        };
        !one_place || seen.barrier || seen.warp_barrier && self.program.warps == 1
    }
}
