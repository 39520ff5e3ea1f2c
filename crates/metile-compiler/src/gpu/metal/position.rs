//! Where the thread is, and what the launch passed.

use super::printer::Printer;
use super::{EmitError, types};
use metile_device::{PositionOp, Statement, Type, Value};
use metile_ir::DType;

pub(super) fn print(
    printer: &mut Printer<'_>,
    op: PositionOp,
    statement: &Statement,
) -> Result<(), EmitError> {
    let Some(&result) = statement.results.first() else { return Ok(()) };
    let expression = match op {
        PositionOp::Block => "block".to_owned(),
        PositionOp::Blocks => "arguments.blocks".to_owned(),
        PositionOp::Thread => return number(printer, result, "int(warp * 32 + lane)"),
        PositionOp::Lane => return number(printer, result, "int(lane)"),
        PositionOp::Warp => return number(printer, result, "int(warp)"),
        PositionOp::Word(n) => word(printer, n, statement),
    };
    printer.alias(result, expression);
    Ok(())
}

fn number(printer: &mut Printer<'_>, result: Value, expression: &str) -> Result<(), EmitError> {
    printer.each(result, |_, _| expression.to_owned());
    Ok(())
}

fn word(printer: &Printer<'_>, n: u32, statement: &Statement) -> String {
    let name = printer.words.get(&n).cloned().unwrap_or_default();
    let ty = statement.results.first().map(|&value| printer.program.ty(value));
    match ty {
        Some(Type::Registers { dtype, .. }) => {
            let word = format!("arguments.{name}");
            let of = types::register(dtype);
            match dtype {
                DType::Bool => format!("({word} != 0)"),
                DType::U64 => word,
                // The low bits of the word.
                DType::F16 | DType::BF16 | DType::F32 => {
                    format!("as_type<{of}>({}({word}))", types::bits(dtype))
                }
                _ => format!("{of}({word})"),
            }
        }
        _ => name,
    }
}
