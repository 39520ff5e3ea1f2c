//! The functions that emitted source calls, in the namespace `metile`.

use super::wgmma;
use metile_device::{Block, Op, Program};
use std::borrow::Cow;

/// Names of the language's dtypes.
pub const TYPES: &str = include_str!("prelude/types.h");
/// What takes a PTX instruction.
pub(super) const INTRINSICS: &str = include_str!("prelude/intrinsics.h");
/// Meanings of arithmetic, for any C++17 compiler that is given CUDA's built-in functions and what
/// `intrinsics.h` defines.
pub const ARITHMETIC: &str = include_str!("prelude/arithmetic.h");
const MEMORY: &str = include_str!("prelude/memory.h");
const THREADS: &str = include_str!("prelude/threads.h");
const MATRICES: &str = include_str!("prelude/matrices.h");
const WARPGROUPS: &str = include_str!("prelude/warpgroups.h");
const COPIES: &str = include_str!("prelude/copies.h");

/// The parts that `program` needs, in order.
pub(super) fn parts(program: &Program) -> Vec<Cow<'static, str>> {
    let mut parts: Vec<Cow<'static, str>> =
        [TYPES, INTRINSICS, ARITHMETIC, MEMORY].map(Cow::Borrowed).into();
    let mut needs = [false; 3];
    mark(&program.body, &mut needs);
    let optional = [THREADS, MATRICES, COPIES].map(Cow::Borrowed);
    parts.extend(
        optional.into_iter().zip(needs).filter_map(|(part, needed)| needed.then_some(part)),
    );
    if let Some(functions) = wgmma::functions(program) {
        parts.push(Cow::Borrowed(WARPGROUPS));
        parts.push(Cow::Owned(functions));
    }
    parts
}

fn mark(block: &Block, needs: &mut [bool; 3]) {
    for statement in &block.statements {
        match statement.op {
            Op::Exchange(_) | Op::Sync(_) | Op::Report(_) => needs[0] = true,
            Op::Matrix(_) => needs[1] = true,
            Op::Copy(_) => needs[2] = true,
            Op::Position(_) | Op::Register(_) | Op::Memory(_) | Op::Control(_) => {}
        }
        for nested in &statement.blocks {
            mark(nested, needs);
        }
    }
}
