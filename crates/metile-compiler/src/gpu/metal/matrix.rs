//! `simdgroup_matrix`: 8×8 matrices that a SIMD group holds, in a layout that is Apple's own.

use super::printer::{INDEX, Printer};
use super::{EmitError, types};
use metile_device::{MatrixOp, Shared, Statement, Type, Value};
use metile_ir::DType;

pub(super) fn print(
    printer: &mut Printer<'_>,
    op: &MatrixOp,
    statement: &Statement,
) -> Result<(), EmitError> {
    for &value in statement.operands.iter().chain(&statement.results) {
        check(printer, statement, value)?;
    }
    let result = statement.results.first().copied();
    match (op, &statement.operands[..], result) {
        (MatrixOp::FillFragment, &[value], Some(to)) => {
            let dtype = of(printer, to).map_or(DType::F32, |(dtype, _)| dtype);
            let fill = format!(
                "make_filled_simdgroup_matrix<{}, 8, 8>({})",
                types::register(dtype),
                printer.at(value, 0)
            );
            define(printer, to, |_, i| format!("{i} = {fill};"));
        }
        (
            MatrixOp::LoadFragment { buffer, stride, transposed, immediates },
            &[offset],
            Some(to),
        ) => {
            printer.declare(to);
            let dtype = of(printer, to).map_or(DType::F32, |(dtype, _)| dtype);
            for (n, immediate) in immediates.iter().enumerate() {
                let from = address(printer, *buffer, dtype, offset, *immediate);
                let to = printer.at(to, n);
                let transposed = if *transposed { ", ulong2(0), true" } else { "" };
                printer.line(format_args!("simdgroup_load({to}, {from}, {stride}{transposed});"));
            }
        }
        (MatrixOp::StoreFragment { buffer, stride, immediates }, &[fragment, offset], _) => {
            let dtype = of(printer, fragment).map_or(DType::F32, |(dtype, _)| dtype);
            for (n, immediate) in immediates.iter().enumerate() {
                let to = address(printer, *buffer, dtype, offset, *immediate);
                let from = printer.at(fragment, n);
                printer.line(format_args!("simdgroup_store({from}, {to}, {stride});"));
            }
        }
        (&MatrixOp::MultiplyFragments { m, n, k }, &[a, b, c], Some(to)) => {
            let (m, n, k) = (usize::from(m), usize::from(n), usize::from(k));
            printer.declare(to);
            let name = printer.name(to);
            printer.assign(&name, printer.program.ty(to), c);
            for row in 0..m {
                for column in 0..n {
                    let sum = printer.at(to, row * n + column);
                    for step in 0..k {
                        let (a, b) =
                            (printer.at(a, row * k + step), printer.at(b, step * n + column));
                        printer.line(format_args!(
                            "simdgroup_multiply_accumulate({sum}, {a}, {b}, {sum});"
                        ));
                    }
                }
            }
        }
        _ => {
            return Err(printer.unsupported(
                statement,
                "matrix product of a warpgroup, or with operands in registers, nor `ldmatrix`",
                "they are NVIDIA's; plan the kernel for the `apple` machine class",
            ));
        }
    }
    Ok(())
}

fn of(printer: &Printer<'_>, value: Value) -> Option<(DType, u32)> {
    match printer.program.ty(value) {
        Type::Fragment { dtype, count, .. } => Some((dtype, count)),
        _ => None,
    }
}

/// Metal's matrices are 8×8, of floats.
fn check(printer: &Printer<'_>, statement: &Statement, value: Value) -> Result<(), EmitError> {
    match printer.program.ty(value) {
        Type::Fragment { dtype, rows, columns, .. }
            if (rows, columns) != (8, 8) || !dtype.is_float() =>
        {
            Err(printer.unsupported(
                statement,
                format!("matrix fragment of {rows}×{columns} {dtype}"),
                "`simdgroup_matrix` is 8×8 of f16, bf16 or f32",
            ))
        }
        _ => Ok(()),
    }
}

/// Declares a value and assigns each of its matrices.
fn define(
    printer: &mut Printer<'_>,
    value: Value,
    text: impl Fn(&mut Printer<'_>, &str) -> String,
) {
    printer.declare(value);
    let count = of(printer, value).map_or(1, |(_, count)| count);
    let at = printer.at(value, INDEX);
    let text = text(printer, &at);
    match count {
        1 => printer.line(text),
        _ => printer.over(count, text),
    }
}

fn address(
    printer: &Printer<'_>,
    buffer: Shared,
    dtype: DType,
    offset: Value,
    immediate: i64,
) -> String {
    let name = printer.shared.get(buffer.index()).cloned().unwrap_or_default();
    let (ty, offset) = (types::memory(dtype), printer.at(offset, 0));
    match immediate {
        0 => format!("(threadgroup {ty}*){name} + {offset}"),
        1.. => format!("(threadgroup {ty}*){name} + {offset} + {immediate}"),
        _ => format!("(threadgroup {ty}*){name} + {offset} - {}", immediate.unsigned_abs()),
    }
}
