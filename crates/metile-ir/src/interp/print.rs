//! What programs tell people: assertions and prints.

use super::Failure;
use super::machine::{Launch, Program};
use super::report;
use super::value::Tile;
use crate::diagnostic::Diagnostic;
use crate::tile::{Op, OpId};

/// Elements of a tile that are printed.
const MAX_SHOWN: usize = 1024;

/// Lines that are kept; the grid decides how often a kernel prints, and memory is bounded.
pub(super) const MAX_PRINTED: usize = 1 << 16;

impl Launch<'_, '_> {
    pub(super) fn assert(
        &self,
        program: &Program,
        id: OpId,
        op: &Op,
        message: &str,
    ) -> Result<(), Failure> {
        let condition = program.tile(op.operands[0]);
        let Some(lane) = condition.bits.iter().position(|&b| b == 0) else { return Ok(()) };
        let message =
            format!("assertion failed in {} (lane {lane}): {message}", report::program(program.id));
        let error =
            Diagnostic::error(message).at(self.kernel.ops[id].span).in_kernel(&self.kernel.name);
        Err(Failure::Assertion(Box::new(error)))
    }

    pub(super) fn print(&mut self, program: &Program, op: &Op, format: &str) {
        if self.printed.len() >= MAX_PRINTED {
            if self.printed.len() == MAX_PRINTED {
                self.printed.push("…".to_owned());
            }
            return;
        }
        let mut text = String::new();
        let mut values = op.operands.iter();
        for (n, piece) in format.split("{}").enumerate() {
            if n > 0
                && let Some(&value) = values.next()
            {
                text.push_str(&shown(&program.tile(value)));
            }
            text.push_str(piece);
        }
        self.printed.push(text);
    }
}

/// A scalar plainly, a tile in nested brackets.
fn shown(tile: &Tile) -> String {
    let sides = tile.ty.shape.sides();
    let mut text = String::new();
    for n in 0..tile.bits.len() {
        if n == MAX_SHOWN {
            text.push_str(", …");
            break;
        }
        let mut inner = 1;
        let opens = sides.iter().rev().filter(|&&side| {
            inner *= side;
            n % inner == 0
        });
        let opens = opens.count();
        if n > 0 {
            text.push_str(&"]".repeat(opens));
            text.push_str(", ");
        }
        text.push_str(&"[".repeat(opens));
        text.push_str(&tile.get(n).to_string());
    }
    text.push_str(&"]".repeat(sides.len()));
    text
}
