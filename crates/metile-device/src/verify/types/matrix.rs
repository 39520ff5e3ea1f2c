//! Matrix units.

use super::{Checked, On};
use crate::ops::*;
use crate::program::Type;
use metile_ir::dtype::DType;

pub(super) fn check(on: On<'_>, op: &MatrixOp) -> Checked {
    match op {
        MatrixOp::Mma(atom) => mma(on, *atom),
        MatrixOp::LoadMatrix { matrices, .. } => {
            on.takes(1, 1)?;
            if !matches!(matrices, 1 | 2 | 4) {
                return on.fail(format!("loads 1, 2 or 4 matrices, not {matrices}"));
            }
            on.exactly(0, Type::one(DType::I32))?;
            on.gives(0, Type::registers(DType::U32, u32::from(*matrices)))
        }
        MatrixOp::Wgmma(product) => wgmma(on, product),
        MatrixOp::WgmmaWait => {
            on.takes(1, 1)?;
            match on.operand(0) {
                Type::Registers { dtype: DType::F32, .. } => on.gives(0, on.operand(0)),
                other => on.fail(format!("takes sums in f32 registers, not {other}")),
            }
        }
        MatrixOp::FillFragment => {
            on.takes(1, 1)?;
            let (dtype, ..) = fragment(on, on.result(0))?;
            on.exactly(0, Type::one(dtype))
        }
        MatrixOp::LoadFragment { stride, immediates, .. } => {
            on.takes(1, 1)?;
            on.exactly(0, Type::one(DType::I32))?;
            let (_, count) = fragment(on, on.result(0))?;
            places(on, *stride, immediates, count)
        }
        MatrixOp::StoreFragment { stride, immediates, .. } => {
            on.takes(2, 0)?;
            on.exactly(1, Type::one(DType::I32))?;
            let (_, count) = fragment(on, on.operand(0))?;
            places(on, *stride, immediates, count)
        }
        MatrixOp::MultiplyFragments { m, n, k } => {
            on.takes(3, 1)?;
            let sides = [(m, k), (k, n), (m, n)];
            let mut dtypes = Vec::new();
            for (operand, (rows, columns)) in sides.into_iter().enumerate() {
                let (dtype, count) = fragment(on, on.operand(operand))?;
                let wanted = u32::from(*rows) * u32::from(*columns);
                if count != wanted {
                    return on.fail(format!(
                        "takes {rows} × {columns} matrices as operand {operand}, not {count}"
                    ));
                }
                dtypes.push(dtype);
            }
            if dtypes[0] != dtypes[1] {
                return on.fail(format!("multiplies {} by {}", dtypes[0], dtypes[1]));
            }
            if dtypes[2] != DType::F32 {
                return on.fail(format!("adds to f32, not to {}", dtypes[2]));
            }
            on.gives(0, on.operand(2))
        }
    }
}

/// Registers of `a`, `b` and `c`.
fn mma(on: On<'_>, atom: MmaAtom) -> Checked {
    on.takes(3, 1)?;
    let inputs: &[DType] = match atom {
        MmaAtom::Tf32M16N8K8 => &[DType::U32, DType::F32],
        _ => &[DType::U32],
    };
    for (n, wanted) in [(0, 4), (1, 2)] {
        let (dtype, count) = on.registers(n)?;
        if !inputs.contains(&dtype) || count != wanted {
            let first = inputs[0];
            return on
                .fail(format!("takes {first} x {wanted} as operand {n}, not {dtype} x {count}"));
        }
    }
    let sums = if atom == MmaAtom::I8M16N8K32 { DType::I32 } else { DType::F32 };
    on.exactly(2, Type::registers(sums, 4))?;
    on.gives(0, Type::registers(sums, 4))
}

/// Sides, buffers and registers of a warpgroup's product.
fn wgmma(on: On<'_>, product: &Wgmma) -> Checked {
    on.takes(3, 1)?;
    let Wgmma { dtype, row_blocks, columns, sum, a, b, .. } = *product;
    if !on.program.warps.is_multiple_of(4) {
        return on.fail(format!("needs whole groups of 4 warps, not {} warps", on.program.warps));
    }
    if !matches!(dtype, DType::F16 | DType::BF16) {
        return on.fail(format!("multiplies f16 or bf16, not {dtype}"));
    }
    let whole = columns <= 256 || columns.is_multiple_of(256);
    if !whole {
        return on.fail(format!("has {columns} columns, which is above 256 and no multiple of it"));
    }
    if row_blocks == 0
        || columns == 0
        || !columns.is_multiple_of(8)
        || sum == 0
        || !sum.is_multiple_of(16)
    {
        let rows = u32::from(row_blocks) * 64;
        return on.fail(format!(
            "has multiples of 64 rows, 8 columns and 16 products a sum, not {rows}, {columns} and {sum}"
        ));
    }
    for (operand, side) in [(a, u32::from(row_blocks) * 64), (b, u32::from(columns))] {
        let wanted = if operand.sum_inside { side } else { u32::from(sum) };
        if u32::from(operand.outer) < wanted {
            return on
                .fail(format!("needs {wanted} rows of an operand that has {}", operand.outer));
        }
    }
    on.exactly(0, Type::one(DType::I32))?;
    on.exactly(1, Type::one(DType::I32))?;
    let sums = Type::registers(DType::F32, u32::from(row_blocks) * u32::from(columns) / 2);
    on.exactly(2, sums)?;
    on.gives(0, sums)
}

/// Dtype and number of the matrices that `ty` is: 8×8 of a float.
fn fragment(on: On<'_>, ty: Type) -> Result<(DType, u32), Box<metile_ir::Diagnostic>> {
    match ty {
        Type::Fragment { dtype, rows: 8, columns: 8, count } if dtype.is_float() => {
            Ok((dtype, count))
        }
        ty => on.fail(format!("works on fragments of 8x8 floats, not on {ty}")),
    }
}

fn places(on: On<'_>, stride: u32, immediates: &[i64], count: u32) -> Checked {
    if stride < 8 {
        return on.fail(format!("has rows of 8 elements {stride} apart"));
    }
    if immediates.len() != count as usize {
        return on.fail(format!("has {} places for {count} matrices", immediates.len()));
    }
    Ok(())
}
