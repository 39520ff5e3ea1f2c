//! Which values are alike in all threads, and whether barriers stand where all threads come.
//!
//! A value is at a [`Level`]. What the launch passes is alike in the block, the lane and the thread vary. The
//! results of an operation are as its operands: a load from a place that is alike gives what is alike, in a program
//! without races, which the simulator looks for. Atomics, and what an exchange makes of varying values, vary;
//! only an exchange with one lane makes a value alike in the warp. What leaves a branch or a loop depends on its condition
//! or bounds as well. What is said to be [`RegisterOp::Uniform`] is believed. In a block of one warp, alike in the warp is alike in the block.

use super::{Limits, error};
use crate::ops::*;
use crate::program::{Block, Program, Statement, Type, Value};
use metile_ir::diagnostic::Diagnostic;

/// Among which threads a value is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// All threads of the block.
    Block,
    /// All lanes of a warp.
    Warp,
    /// Each thread has its own.
    Varying,
}

/// The level of every value of a program whose structure and types are sound.
#[derive(Clone, Debug)]
pub struct Uniformity(Vec<Level>);

impl Uniformity {
    /// Finds the levels.
    pub fn of(program: &Program) -> Uniformity {
        let mut rules = Rules {
            one_warp: program.warps == 1,
            levels: vec![Level::Block; program.values.len()],
            rules: Vec::new(),
            readers: vec![Vec::new(); program.values.len()],
        };
        rules.block(&program.body);
        rules.settle();
        Uniformity(rules.levels)
    }

    /// The level of `value`.
    pub fn level(&self, value: Value) -> Level {
        self.0.get(value.index()).copied().unwrap_or(Level::Varying)
    }
}

/// The outputs are at least at the level that follows from the inputs.
struct Rule {
    least: Level,
    /// The second of the inputs is a lane that the first is taken from.
    lane: bool,
    inputs: Vec<Value>,
    outputs: Vec<Value>,
}

struct Rules {
    one_warp: bool,
    levels: Vec<Level>,
    rules: Vec<Rule>,
    readers: Vec<Vec<usize>>,
}

impl Rules {
    fn rule(&mut self, least: Level, inputs: Vec<Value>, outputs: Vec<Value>) {
        for &value in &inputs {
            self.readers[value.index()].push(self.rules.len());
        }
        self.rules.push(Rule { least, lane: false, inputs, outputs });
    }

    fn block(&mut self, block: &Block) {
        for s in &block.statements {
            match s.op {
                Op::Control(op) => self.control(op, s),
                Op::Register(RegisterOp::Uniform) => {
                    self.rule(Level::Block, Vec::new(), s.results.clone());
                }
                _ => {
                    let least = least(&s.op);
                    self.rule(least, s.operands.clone(), s.results.clone());
                    if let (Op::Exchange(ExchangeOp::Index), Some(rule)) =
                        (&s.op, self.rules.last_mut())
                    {
                        rule.lane = true;
                    }
                }
            }
            for nested in &s.blocks {
                self.block(nested);
            }
        }
    }

    fn control(&mut self, op: ControlOp, s: &Statement) {
        let end = |n: usize| {
            s.blocks.get(n).and_then(|b| b.statements.last()).map_or(&[][..], |e| &e.operands)
        };
        let arguments = |n: usize| s.blocks.get(n).map_or(&[][..], |b| &b.arguments);
        let at = |values: &[Value], k: usize| values.get(k).copied();
        match op {
            ControlOp::For { .. } => {
                let bounds = s.operands.get(..3).unwrap_or_default();
                let index = arguments(0).first().copied();
                self.rule(Level::Block, bounds.to_vec(), index.into_iter().collect());
                for (k, &result) in s.results.iter().enumerate() {
                    let from = [at(&s.operands, 3 + k), at(end(0), k)];
                    let inputs = bounds.iter().copied().chain(from.into_iter().flatten()).collect();
                    let inside = at(arguments(0), 1 + k);
                    let outputs = inside.into_iter().chain([result]).collect();
                    self.rule(Level::Block, inputs, outputs);
                }
            }
            ControlOp::While => {
                let test = at(end(0), 0);
                for (k, &result) in s.results.iter().enumerate() {
                    let from = [test, at(&s.operands, k), at(end(1), k)];
                    let enter = at(arguments(0), k).into_iter().collect();
                    self.rule(Level::Block, from.into_iter().flatten().collect(), enter);
                    let from = [test, at(end(0), 1 + k)];
                    let leave = at(arguments(1), k).into_iter().chain([result]).collect();
                    self.rule(Level::Block, from.into_iter().flatten().collect(), leave);
                }
            }
            ControlOp::If => {
                for (k, &result) in s.results.iter().enumerate() {
                    let from = [at(&s.operands, 0), at(end(0), k), at(end(1), k)];
                    self.rule(Level::Block, from.into_iter().flatten().collect(), vec![result]);
                }
            }
            ControlOp::Yield | ControlOp::Condition => {}
        }
    }

    fn settle(&mut self) {
        let mut open: Vec<usize> = (0..self.rules.len()).rev().collect();
        while let Some(n) = open.pop() {
            let level = self.outcome(&self.rules[n]);
            for output in self.rules[n].outputs.clone() {
                if self.levels[output.index()] < level {
                    self.levels[output.index()] = level;
                    open.extend_from_slice(&self.readers[output.index()]);
                }
            }
        }
    }

    fn outcome(&self, rule: &Rule) -> Level {
        let mut inputs = rule.inputs.iter().map(|v| self.levels[v.index()]);
        let level = match (rule.lane, inputs.next()) {
            (true, Some(from)) => match inputs.next() {
                Some(Level::Varying) => from,
                _ => from.min(Level::Warp),
            },
            (_, first) => inputs.fold(first.unwrap_or(Level::Block), Level::max),
        };
        match level.max(rule.least) {
            Level::Warp if self.one_warp => Level::Block,
            level => level,
        }
    }
}

/// The level that the results have whatever the operands.
fn least(op: &Op) -> Level {
    match op {
        Op::Position(PositionOp::Thread | PositionOp::Lane) => Level::Varying,
        Op::Position(PositionOp::Warp) => Level::Warp,
        Op::Memory(MemoryOp::Atomic(_) | MemoryOp::AtomicCas) => Level::Varying,
        Op::Matrix(
            MatrixOp::Mma(_)
            | MatrixOp::Wgmma(_)
            | MatrixOp::WgmmaWait
            | MatrixOp::LoadMatrix { .. },
        ) => Level::Varying,
        Op::Matrix(_) => Level::Warp,
        _ => Level::Block,
    }
}

pub(super) fn check(program: &Program, _: &Limits) -> Vec<Diagnostic> {
    let levels = Uniformity::of(program);
    let mut errors = Vec::new();
    flow(program, &levels, &program.body, Level::Block, None, &mut errors);
    errors
}

/// What made the flow of a block vary.
type Cause<'p> = Option<&'p Statement>;

fn flow<'p>(
    program: &Program,
    levels: &Uniformity,
    block: &'p Block,
    level: Level,
    cause: Cause<'p>,
    errors: &mut Vec<Diagnostic>,
) {
    for s in &block.statements {
        if errors.len() >= super::MAX_ERRORS {
            return;
        }
        errors.extend(statement(s, level, cause));
        errors.extend(alike(program, levels, s));
        if s.blocks.is_empty() {
            continue;
        }
        let tests = match s.op {
            Op::Control(ControlOp::While) => {
                s.blocks[0].statements.last().and_then(|end| end.operands.get(..1))
            }
            Op::Control(ControlOp::For { .. }) => s.operands.get(..3),
            _ => s.operands.get(..1),
        };
        let own = tests.unwrap_or_default().iter().map(|&v| levels.level(v)).max();
        let inside = own.map_or(level, |own| own.max(level));
        let cause = if inside > level { Some(s) } else { cause };
        for nested in &s.blocks {
            flow(program, levels, nested, inside, cause, errors);
        }
    }
}

fn statement(s: &Statement, level: Level, cause: Cause<'_>) -> Option<Diagnostic> {
    let (most, who) = match s.op {
        Op::Sync(SyncOp::Barrier | SyncOp::GridBarrier) => (Level::Block, "threads of the block"),
        Op::Sync(SyncOp::WarpBarrier) | Op::Exchange(_) | Op::Matrix(_) => {
            (Level::Warp, "lanes of the warp")
        }
        _ => (Level::Varying, ""),
    };
    if level > most {
        let mut found = error(s, format!("stands where not all {who} come"))
            .hint("take it out of the branch or loop whose condition or bounds vary");
        if let Some(cause) = cause.and_then(|c| c.span) {
            found.related.push((cause, "the condition or bounds here vary".to_owned()));
        }
        return Some(found);
    }
    None
}

/// A pointer is the same in all threads of the block; a fragment, and where one is read from, in all lanes of a warp.
fn alike(program: &Program, levels: &Uniformity, s: &Statement) -> Option<Diagnostic> {
    let most = |value: &Value| match program.ty(*value) {
        Type::Pointer { .. } => Level::Block,
        Type::Fragment { .. } => Level::Warp,
        _ => Level::Varying,
    };
    let arguments = s.blocks.iter().flat_map(|b| &b.arguments);
    let broken = s.results.iter().chain(arguments).find(|v| levels.level(**v) > most(v));
    if let Some(&value) = broken {
        let ty = program.ty(value);
        let who =
            if most(&value) == Level::Block { "threads of the block" } else { "lanes of the warp" };
        return Some(error(s, format!("gives a {ty} that is not the same in all {who}")));
    }
    let fragments = match s.op {
        Op::Matrix(MatrixOp::FillFragment | MatrixOp::LoadFragment { .. }) => s.operands.get(..1),
        Op::Matrix(MatrixOp::StoreFragment { .. }) => s.operands.get(1..),
        Op::Matrix(MatrixOp::Wgmma(_)) => s.operands.get(..2),
        _ => None,
    };
    let mut fragments = fragments.unwrap_or_default().iter();
    let varies = fragments.any(|&v| levels.level(v) == Level::Varying);
    varies.then(|| error(s, "takes an operand that is the same in all lanes of the warp"))
}
