//! Moving the elements of a tile whose elements are all the same.

use metile_ir::Scalar;

/// The scalar, if every operand is made of the same one.
pub(super) fn value(operands: &[Scalar]) -> Option<Scalar> {
    let (&first, rest) = operands.split_first()?;
    rest.iter().all(|&c| c == first).then_some(first)
}
