//! Handles, visibility, nesting and the ends of blocks.

use super::{Limits, MAX_NESTING, MAX_STATEMENTS, ends_block, error};
use crate::ops::*;
use crate::program::{Block, Program, Shared, Statement, Type, Value};
use metile_ir::diagnostic::Diagnostic;

pub(super) fn check(program: &Program, _: &Limits) -> Vec<Diagnostic> {
    let count = program.values.len();
    let mut walk =
        Walk { program, visible: vec![false; count], defined: vec![false; count], statements: 0 };
    // One broken handle makes everything after it doubtful: the first error is the useful one.
    match walk.block(&program.body, End::None, 0) {
        Ok(()) => Vec::new(),
        Err(error) => vec![*error],
    }
}

type Checked = Result<(), Box<Diagnostic>>;

/// How a block ends.
#[derive(Clone, Copy, PartialEq)]
enum End {
    /// With its last statement: the body.
    None,
    Yield,
    Condition,
}

struct Walk<'p> {
    program: &'p Program,
    visible: Vec<bool>,
    defined: Vec<bool>,
    statements: usize,
}

impl Walk<'_> {
    fn block(&mut self, block: &Block, end: End, depth: usize) -> Checked {
        if depth > MAX_NESTING {
            return Err(Box::new(Diagnostic::error(format!(
                "blocks nest more than {MAX_NESTING} deep"
            ))));
        }
        if end == End::None && !block.arguments.is_empty() {
            return Err(Box::new(Diagnostic::error("the program's body takes no arguments")));
        }
        let mut shown = Vec::new();
        for &value in &block.arguments {
            self.define(value, None, &mut shown)?;
        }
        for (n, statement) in block.statements.iter().enumerate() {
            self.statement(statement, depth, &mut shown)?;
            self.end(statement, end, n + 1 == block.statements.len())?;
        }
        if end != End::None && block.statements.is_empty() {
            return Err(Box::new(Diagnostic::error("a nested block has no end")));
        }
        for value in shown {
            self.visible[value.index()] = false;
        }
        Ok(())
    }

    fn end(&self, statement: &Statement, end: End, last: bool) -> Checked {
        if !last {
            if ends_block(&statement.op) {
                return Err(Box::new(error(statement, "stands before the end of its block")));
            }
            return Ok(());
        }
        let wanted = match end {
            End::None if ends_block(&statement.op) => {
                return Err(Box::new(error(statement, "ends no nested block")));
            }
            End::None => return Ok(()),
            End::Yield => ControlOp::Yield,
            End::Condition => ControlOp::Condition,
        };
        if statement.op != Op::Control(wanted) {
            let name = crate::print::name(&Op::Control(wanted));
            return Err(Box::new(error(
                statement,
                format!("ends a block that must end in `{name}`"),
            )));
        }
        Ok(())
    }

    fn define(
        &mut self,
        value: Value,
        statement: Option<&Statement>,
        shown: &mut Vec<Value>,
    ) -> Checked {
        let fail = |message: String| {
            let found = Diagnostic::error(message).at(statement.and_then(|s| s.span));
            Err(Box::new(found))
        };
        if !self.program.values.contains(value) {
            return fail(format!("{value:?} is no value of the program"));
        }
        if std::mem::replace(&mut self.defined[value.index()], true) {
            return fail(format!("value {value:?} is defined twice"));
        }
        self.visible[value.index()] = true;
        shown.push(value);
        Ok(())
    }

    fn statement(&mut self, s: &Statement, depth: usize, shown: &mut Vec<Value>) -> Checked {
        self.statements += 1;
        if self.statements > MAX_STATEMENTS {
            let message = format!("the program has more than {MAX_STATEMENTS} statements");
            return Err(Box::new(Diagnostic::error(message)));
        }
        for &value in &s.operands {
            if !self.program.values.contains(value) || !self.visible[value.index()] {
                let message =
                    format!("uses {value:?}, which is not defined before it or not visible here");
                return Err(Box::new(error(s, message)));
            }
            if self.program.ty(value) == Type::Token {
                return Err(Box::new(error(s, "uses a token; tokens are waited for in order")));
            }
        }
        let unknown = shared_buffers(&s.op).find(|&b| !self.program.shared.contains(b));
        if let Some(buffer) = unknown {
            return Err(Box::new(error(s, format!("names no shared buffer: {buffer:?}"))));
        }
        let ends: &[End] = match s.op {
            Op::Control(ControlOp::For { .. }) => &[End::Yield],
            Op::Control(ControlOp::While) => &[End::Condition, End::Yield],
            Op::Control(ControlOp::If) => &[End::Yield, End::Yield],
            _ => &[],
        };
        if s.blocks.len() != ends.len() {
            let message = format!("has {} blocks, not {}", s.blocks.len(), ends.len());
            return Err(Box::new(error(s, message)));
        }
        for (block, &end) in s.blocks.iter().zip(ends) {
            self.block(block, end, depth + 1).map_err(|e| match e.span {
                None => Box::new(e.at(s.span)),
                Some(_) => e,
            })?;
        }
        for &value in &s.results {
            self.define(value, Some(s), shown)?;
        }
        Ok(())
    }
}

/// The shared buffers that `op` names.
pub(crate) fn shared_buffers(op: &Op) -> impl Iterator<Item = Shared> {
    let buffers = match op {
        Op::Matrix(MatrixOp::Wgmma(product)) => [Some(product.a.buffer), Some(product.b.buffer)],
        Op::Memory(MemoryOp::LoadShared { buffer, .. } | MemoryOp::StoreShared { buffer, .. })
        | Op::Matrix(
            MatrixOp::LoadMatrix { buffer, .. }
            | MatrixOp::LoadFragment { buffer, .. }
            | MatrixOp::StoreFragment { buffer, .. },
        )
        | Op::Copy(CopyOp::Async { buffer, .. }) => [Some(*buffer), None],
        _ => [None; 2],
    };
    buffers.into_iter().flatten()
}
