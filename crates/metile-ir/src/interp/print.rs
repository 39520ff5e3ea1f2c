//! What programs tell people: assertions and prints.

use super::Failure;
use super::machine::{Launch, Program};
use super::report;
use crate::diagnostic::Diagnostic;
use crate::scalar::Scalar;
use crate::span::Span;
use crate::tile::{Op, OpId, TileType};

/// Elements of a tile that are printed.
const MAX_SHOWN: usize = 1024;

/// Lines that are kept; the grid decides how often a kernel prints, and memory is bounded.
pub const MAX_PRINTED: usize = 1 << 16;

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
        let place = (self.kernel.ops[id].span, self.kernel.name.as_str());
        Err(assertion_failure(program.id, lane, message, place))
    }

    pub(super) fn print(&mut self, program: &Program, op: &Op, format: &str) {
        if self.printed.len() >= MAX_PRINTED {
            if self.printed.len() == MAX_PRINTED {
                self.printed.push("…".to_owned());
            }
            return;
        }
        let values = op.operands.iter().map(|&v| {
            let tile = program.tile(v);
            show(tile.ty, &tile.bits)
        });
        self.printed.push(printed_line(format, values));
    }
}

/// The failure of an assertion in the program at `id`: the first false element is number `lane`.
/// `place` is the assertion's line and the kernel's name.
pub fn assertion_failure(
    id: [u64; 3],
    lane: usize,
    message: &str,
    (span, kernel): (Option<Span>, &str),
) -> Failure {
    let message = format!("assertion failed in {} (lane {lane}): {message}", report::program(id));
    Failure::Assertion(Box::new(Diagnostic::error(message).at(span).in_kernel(kernel)))
}

/// `format` with each `{}` replaced by a value.
pub fn printed_line(format: &str, mut values: impl Iterator<Item = String>) -> String {
    let mut text = String::new();
    for (n, piece) in format.split("{}").enumerate() {
        if n > 0
            && let Some(value) = values.next()
        {
            text.push_str(&value);
        }
        text.push_str(piece);
    }
    text
}

/// A value as prints show it: a scalar plainly, a tile in nested brackets. `bits` are the elements'
/// memory images in row-major order.
pub fn show(ty: TileType, bits: &[u64]) -> String {
    let sides = ty.shape.sides();
    let mut text = String::new();
    for (n, &bits) in bits.iter().enumerate() {
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
        text.push_str(&Scalar::from_bits(ty.dtype, bits).to_string());
    }
    text.push_str(&"]".repeat(sides.len()));
    text
}
