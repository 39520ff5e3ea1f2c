//! Registers of other lanes.

use super::printer::Printer;
use super::{EmitError, types};
use metile_device::{ExchangeOp, Statement};
use metile_ir::DType;

pub(super) fn print(
    printer: &mut Printer<'_>,
    op: ExchangeOp,
    statement: &Statement,
) -> Result<(), EmitError> {
    let (Some(&result), Some(&a)) = (statement.results.first(), statement.operands.first()) else {
        return Ok(());
    };
    let dtype = printer.dtype(a);
    printer.each(result, |printer, i| {
        let value = printer.at(a, i);
        let (name, lane) = match op {
            ExchangeOp::Xor(mask) => ("simd_shuffle_xor", format!("ushort({mask})")),
            ExchangeOp::Index => {
                let lane = statement.operands.get(1).map(|&lane| printer.at(lane, i));
                ("simd_shuffle", format!("ushort({} & 31)", lane.unwrap_or_default()))
            }
        };
        let ty = types::register(dtype);
        match dtype {
            DType::Bool => format!("{name}(ushort({value}), {lane}) != 0"),
            // There is none of 64 bits: halves go side by side.
            DType::I64 | DType::U64 => {
                format!("as_type<{ty}>({name}(as_type<uint2>({value}), {lane}))")
            }
            DType::BF16 => format!("as_type<bfloat>({name}(as_type<ushort>({value}), {lane}))"),
            _ => format!("{name}({value}, {lane})"),
        }
    });
    Ok(())
}
