//! The passes. Each takes a kernel that keeps the verifier's rules and leaves one that does, giving
//! the same bits on the interpreter, NaN payloads included. What each does is said in its file.
//!
//! Warnings of the interpreter are advisory: a pass may remove an operation that would have warned.

pub mod canonicalize;
pub mod cse;
pub mod dce;
pub mod fold;
pub mod licm;
mod placement;

use metile_ir::tile::{Kernel, Value};
use std::collections::HashMap;

/// Makes every operand that is a key its value, following chains.
fn replace_uses(kernel: &mut Kernel, with: &HashMap<Value, Value>) {
    if with.is_empty() {
        return;
    }
    for id in kernel.walk(kernel.body) {
        for operand in &mut kernel.ops[id].operands {
            while let Some(&next) = with.get(operand) {
                *operand = next;
            }
        }
    }
}
