//! The verifier. Its result, [`Verified`], is what the simulator and every emitter ask for: **a verified program
//! never makes them panic.**
//!
//! Checked:
//! * the name is an identifier; 1 to [`MAX_WARPS`] warps; at most [`MAX_STATEMENTS`] statements, nested at most
//!   [`MAX_NESTING`] deep; a value has 1 to [`MAX_REGISTERS`] registers;
//! * handles point into the program's arenas; a value is defined once, and used only after its definition in the same
//!   block or one nested in it; tokens are used by nobody;
//! * every nested block ends in `yield`, the first one of `while` in `condition`, and neither stands elsewhere;
//! * operands, results and attributes of each operation are what [`ops`](crate::ops) says: their number, dtypes and
//!   registers;
//! * values that enter a block, go round and leave it agree;
//! * a group of elements is 1 to 16 bytes; groups that share an offset are aligned alike; a shared buffer is aligned
//!   to the widest access of it; an offset that is a constant lies within its buffer;
//! * shared buffers and threads fit the [`Limits`];
//! * barriers stand only where all threads of the block come, exchanges and matrix operations only where all
//!   lanes of the warp come; pointers are the same in all threads, fragments in all lanes (see [`uniform`]);
//! * grid barriers and counters stand in persistent programs;
//! * every asynchronous copy is committed and waited for somewhere after it;
//! * a buffer is not read before anything that would publish what other threads wrote there, where that is certain (see
//!   [`publication`]).
//!
//! Not checked, and reported by the [simulator](crate::sim) when it happens: races, accesses out of bounds,
//! reads of shared memory that nobody wrote, slots of a pipeline used again too early or read before their copy
//! has landed, deadlock.

pub mod publication;
mod shared;
mod structure;
mod types;
pub mod uniform;

use crate::ops::Op;
use crate::program::{Block, MAX_WARPS, Program, Statement, Type};
use metile_ir::diagnostic::Diagnostic;

/// How deep blocks nest at most.
pub const MAX_NESTING: usize = 64;
/// How many statements a program has at most.
pub const MAX_STATEMENTS: usize = 1 << 20;
/// How many registers a value has at most.
pub const MAX_REGISTERS: u32 = 4096;
/// How many errors are given at most.
pub const MAX_ERRORS: usize = 32;

/// What a block may take of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Bytes of shared memory.
    pub shared_bytes: u32,
    /// Threads.
    pub threads: u32,
}

/// A program that keeps every rule listed in [`verify`](self).
#[derive(Clone, Debug)]
pub struct Verified {
    program: Program,
}

impl Verified {
    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }
    /// Gives the program back, to be changed and verified again.
    pub fn into_program(self) -> Program {
        self.program
    }
}

/// Checks every rule listed in [the module](self).
///
/// # Errors
/// Each rule that is broken, with the place: at least one, at most [`MAX_ERRORS`].
pub fn verify(program: Program, limits: &Limits) -> Result<Verified, Vec<Diagnostic>> {
    let mut errors = header(&program, limits);
    // Each step relies on what the ones before it found sound: handles, then types.
    let steps = [structure::check, types::check, shared::check, uniform::check, publication::check];
    for step in steps {
        if errors.is_empty() {
            errors = step(&program, limits);
        }
    }
    if errors.is_empty() {
        return Ok(Verified { program });
    }
    let all = errors.into_iter().take(MAX_ERRORS);
    Err(all.map(|e| e.in_kernel(&program.name)).collect())
}

fn header(program: &Program, limits: &Limits) -> Vec<Diagnostic> {
    let mut errors = Vec::new();
    let head = program.name.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    if !head || !program.name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        errors.push(Diagnostic::error(format!("`{}` is no name of a program", program.name)).hint(
            "a name is made of ASCII letters, digits and `_`, and does not begin with a digit",
        ));
    }
    if program.warps == 0 || program.warps > MAX_WARPS {
        errors.push(Diagnostic::error(format!(
            "a block has 1 to {MAX_WARPS} warps, not {}",
            program.warps
        )));
    } else if program.threads() > limits.threads {
        errors.push(Diagnostic::error(format!(
            "a block has {} threads, and the device allows {}",
            program.threads(),
            limits.threads
        )));
    }
    for (handle, value) in program.values.iter() {
        let count = match value.ty {
            Type::Registers { count, .. } | Type::Fragment { count, .. } => count,
            Type::Pointer { .. } | Type::Token => 1,
        };
        if count == 0 || count > MAX_REGISTERS {
            errors.push(Diagnostic::error(format!(
                "value {handle:?} is {}, and a value has 1 to {MAX_REGISTERS} registers",
                value.ty
            )));
        }
    }
    errors
}

/// Every statement of a block and of those nested in it, in the order they stand in.
pub(crate) fn walk<'p>(block: &'p Block, visit: &mut dyn FnMut(&'p Statement)) {
    for statement in &block.statements {
        visit(statement);
        for nested in &statement.blocks {
            walk(nested, visit);
        }
    }
}

/// An error about a statement.
fn error(statement: &Statement, message: impl AsRef<str>) -> Diagnostic {
    let name = crate::print::name(&statement.op);
    Diagnostic::error(format!("`{name}` {}", message.as_ref())).at(statement.span)
}

/// Whether `op` ends a block.
fn ends_block(op: &Op) -> bool {
    use crate::ops::ControlOp;
    matches!(op, Op::Control(ControlOp::Yield | ControlOp::Condition))
}
