//! What a launch reports of failed assertions.

use metile_device::Program;
use metile_ir::interp::{self, Failure};

/// Words of a report: 0, or 1 + the message; the block; the element.
pub(crate) const WORDS: usize = 3;

/// The failure that a launch over `grid` reported, if it did.
///
/// # Errors
/// That failure.
pub(crate) fn outcome(
    program: &Program,
    grid: [u64; 3],
    [message, block, element]: [u64; WORDS],
) -> Result<(), Failure> {
    if message == 0 {
        return Ok(());
    }
    let known = program.messages.get((message - 1) as usize);
    let (text, span) = known.map_or(("an unknown assertion", None), |m| (m.text.as_str(), m.span));
    let [x, y, _] = grid.map(|extent| extent.max(1));
    let id = [block % x, block / x % y, block / x / y];
    Err(interp::assertion_failure(id, element as usize, text, (span, &program.name)))
}
