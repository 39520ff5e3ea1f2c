//! Arithmetic and moves. An operation is defined on the dtypes that the language's arithmetic is.

use super::{Checked, On};
use crate::ops::RegisterOp;
use crate::program::Type;
use metile_ir::arith;
use metile_ir::dtype::DType;
use metile_ir::scalar::Scalar;

pub(super) fn check(on: On<'_>, op: &RegisterOp) -> Checked {
    match op {
        RegisterOp::Constant(scalars) => return constant(on, scalars),
        RegisterOp::Pick(from) => return pick(on, from),
        RegisterOp::Join => return join(on),
        RegisterOp::Pack => return pack(on),
        _ => {}
    }
    let operands = match op {
        RegisterOp::Unary(_) | RegisterOp::Cast | RegisterOp::Bitcast | RegisterOp::Uniform => 1,
        RegisterOp::Binary(_) | RegisterOp::Compare(_) => 2,
        _ => 3,
    };
    on.takes(operands, 1)?;
    let mut count = 1;
    for n in 0..operands {
        count = count.max(on.registers(n)?.1);
    }
    let dtype = on.registers(0)?.0;
    let result = elementwise(on, op, dtype, count)?;
    on.gives(0, Type::registers(result, count))
}

/// Checks the operands; gives the dtype of the result.
fn elementwise(
    on: On<'_>,
    op: &RegisterOp,
    dtype: DType,
    count: u32,
) -> Result<DType, Box<metile_ir::Diagnostic>> {
    let zero = Scalar::zero(dtype);
    let (defined, result) = match op {
        RegisterOp::Unary(op) => (arith::unary(*op, zero).is_some(), dtype),
        RegisterOp::Binary(op) => (arith::binary(*op, zero, zero).is_some(), dtype),
        RegisterOp::Compare(op) => (arith::compare(*op, zero, zero).is_some(), DType::Bool),
        RegisterOp::Fma => (dtype == DType::F32, dtype),
        RegisterOp::Bitcast => {
            let to = to(on)?;
            (arith::bitcast(zero, to).is_some(), to)
        }
        RegisterOp::Cast => (true, to(on)?),
        RegisterOp::Uniform => (true, dtype),
        _ => (dtype == DType::Bool, on.registers(1)?.0),
    };
    if !defined {
        return on.fail(format!("is not defined on {dtype}"));
    }
    let select = matches!(op, RegisterOp::Select);
    for n in 0..on.statement.operands.len() {
        let wanted = if select && n > 0 { result } else { dtype };
        on.spread(n, &[wanted], count)?;
    }
    Ok(result)
}

fn to(on: On<'_>) -> Result<DType, Box<metile_ir::Diagnostic>> {
    match on.result(0) {
        Type::Registers { dtype, .. } => Ok(dtype),
        ty => on.fail(format!("gives registers, not {ty}")),
    }
}

fn constant(on: On<'_>, scalars: &[Scalar]) -> Checked {
    on.takes(0, 1)?;
    let Type::Registers { dtype, count } = on.result(0) else {
        return on.fail(format!("gives registers, not {}", on.result(0)));
    };
    if scalars.len() != 1 && scalars.len() != count as usize {
        return on.fail(format!("has {} scalars for {count} registers", scalars.len()));
    }
    match scalars.iter().find(|s| s.dtype() != dtype) {
        Some(other) => on.fail(format!("gives {dtype} with a scalar of {}", other.dtype())),
        None => Ok(()),
    }
}

fn pick(on: On<'_>, from: &[u32]) -> Checked {
    on.takes(1, 1)?;
    let (dtype, count) = on.registers(0)?;
    if let Some(beyond) = from.iter().find(|&&f| f >= count) {
        return on.fail(format!("picks register {beyond} of {count}"));
    }
    on.gives(0, Type::registers(dtype, from.len() as u32))
}

fn join(on: On<'_>) -> Checked {
    let operands = on.statement.operands.len();
    if operands == 0 {
        return on.fail("takes at least one operand");
    }
    on.takes(operands, 1)?;
    let dtype = on.registers(0)?.0;
    let mut total = 0u32;
    for n in 0..operands {
        let (other, count) = on.registers(n)?;
        if other != dtype {
            return on.fail(format!("joins {dtype} with {other}"));
        }
        total = total.saturating_add(count);
    }
    on.gives(0, Type::registers(dtype, total))
}

fn pack(on: On<'_>) -> Checked {
    on.takes(1, 1)?;
    let (from, count) = on.registers(0)?;
    let half = |dtype| matches!(dtype, DType::F16 | DType::BF16);
    match (from, on.result(0)) {
        (DType::U32, Type::Registers { dtype, count: n }) if half(dtype) && n == 2 * count => {
            Ok(())
        }
        (from, Type::Registers { dtype: DType::U32, count: n }) if half(from) && count == 2 * n => {
            Ok(())
        }
        (_, to) => on.fail(format!(
            "turns u32 x n into f16 or bf16 x 2 n or back, not {from} x {count} into {to}"
        )),
    }
}
