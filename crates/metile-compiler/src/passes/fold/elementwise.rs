//! Operations on one element at a time.

use crate::passes::facts::is_nan;
use metile_ir::tile::OpKind;
use metile_ir::{DType, Scalar, arith};

pub(super) fn value(kind: &OpKind, operands: &[Scalar], wanted: DType) -> Option<Scalar> {
    let payload_is_open = operands.iter().filter(|&&c| is_nan(c)).count() > 1;
    match (kind, operands) {
        (OpKind::Unary(op), &[a]) => arith::unary(*op, a),
        (OpKind::Binary(op), &[a, b]) if !payload_is_open => {
            if arith::division_is_odd(*op, a, b) {
                return None;
            }
            arith::binary(*op, a, b)
        }
        (OpKind::Compare(op), &[a, b]) => arith::compare(*op, a, b).map(Scalar::bool),
        (OpKind::Select, &[c, a, b]) => Some(if c.bits() != 0 { a } else { b }),
        (OpKind::Fma, &[a, b, c]) if !payload_is_open => arith::fma(a, b, c),
        (OpKind::Cast, &[a]) => Some(arith::cast(a, wanted)),
        (OpKind::Bitcast, &[a]) => arith::bitcast(a, wanted),
        _ => None,
    }
}
