//! Products of warpgroups (`wgmma`, sm_90a): both operands in shared memory, described by 64-bit words as PTX defines them.
//!
//! An operand lies in columns of 64 elements, 128 bytes a row, 16-byte units swapped by the row: PTX's 128-byte
//! swizzle. Where rows run along the sum, groups of 8 rows are 1,024 bytes apart, and 16 elements of the sum are 32 bytes within the
//! row. Where columns do, 8 steps of the sum are 1,024 bytes apart, and the next 64 rows of the matrix are the next column.

use super::EmitError;
use super::literal::c_type;
use super::printer::Printer;
use metile_device::{Block, MatrixOp, Op, Program, Statement, Wgmma, WgmmaOperand};
use metile_ir::dtype::DType;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Rows that one instruction computes.
const ROWS: u32 = 64;
/// Columns that one instruction computes at most.
const MOST_COLUMNS: u32 = 256;
/// Elements that one instruction sums along.
const STEP: u32 = 16;
/// Bytes of a row of a column of an operand.
const ROW_BYTES: u32 = 128;
/// Elements of the same.
const ROW_ELEMENTS: u32 = 64;
/// Bytes from one group of 8 rows to the next.
const GROUP_BYTES: u32 = 8 * ROW_BYTES;

/// Bytes from the operand's beginning to element (`along`, `sum`).
fn place(operand: &WgmmaOperand, along: u32, sum: u32) -> u32 {
    let (row, element) = if operand.sum_inside { (along, sum) } else { (sum, along) };
    let column = element / ROW_ELEMENTS;
    column * u32::from(operand.outer) * ROW_BYTES + row * ROW_BYTES + element % ROW_ELEMENTS * 2
}

/// Bytes from 64 rows of the matrix to the next, where they are columns of the buffer.
fn leading(operand: &WgmmaOperand) -> u32 {
    if operand.sum_inside { 16 } else { u32::from(operand.outer) * ROW_BYTES }
}

/// The columns of each instruction, with the first of them.
fn pieces(columns: u32) -> impl Iterator<Item = (u32, u32)> {
    (0..columns)
        .step_by(MOST_COLUMNS as usize)
        .map(move |first| (first, MOST_COLUMNS.min(columns - first)))
}

impl Printer<'_> {
    pub(super) fn wgmma(
        &mut self,
        product: &Wgmma,
        statement: &Statement,
    ) -> Result<(), EmitError> {
        let [a, b, c] = [0, 1, 2].map(|n| self.operand(statement, n));
        let (a, b, c) = (self.one(a?)?, self.one(b?)?, c?);
        let result = self.result(statement)?;
        let sums = self.declare(result)?;
        self.assign(result, c)?;
        let count = self.count(result);
        let address = |p: &mut Self, name: &str, operand: &WgmmaOperand, offset: &str| {
            let base = p.shared(operand.buffer, DType::U8)?;
            let name = p.namer.name(name);
            p.line(format_args!("const u32 {name} = metile::shared_at({base}) + {offset};"));
            Ok::<String, EmitError>(name)
        };
        let a = address(self, "left", &product.a, &a)?;
        let b = address(self, "right", &product.b, &b)?;
        self.line(format_args!("metile::wgmma_begin<{count}>({sums});"));
        let columns = u32::from(product.columns);
        let [leading_a, leading_b] = [&product.a, &product.b].map(leading);
        let transposed = (!product.a.sum_inside, !product.b.sum_inside);
        for sum in (0..u32::from(product.sum)).step_by(STEP as usize) {
            for block in 0..u32::from(product.row_blocks) {
                let left = place(&product.a, block * ROWS, sum);
                for (first, n) in pieces(columns) {
                    let right = place(&product.b, first, sum);
                    let register = block * columns / 2 + first / 2;
                    self.line(format_args!(
                        "metile::wgmma_{}_{n}<{}, {}>({sums} + {register}, metile::operand({a} + {left}, {leading_a}, \
                         {GROUP_BYTES}), metile::operand({b} + {right}, {leading_b}, {GROUP_BYTES}));",
                        c_type(product.dtype),
                        u8::from(transposed.0),
                        u8::from(transposed.1),
                    ));
                }
            }
        }
        self.line("metile::wgmma_commit();");
        if !product.in_flight {
            self.line(format_args!("metile::wgmma_wait<{count}>({sums});"));
        }
        Ok(())
    }
}

/// A function for each instruction that `program` has.
pub(super) fn functions(program: &Program) -> Option<String> {
    let mut kinds = BTreeSet::new();
    collect(&program.body, &mut kinds);
    if kinds.is_empty() {
        return None;
    }
    let mut text = String::from("namespace metile {\n");
    for (dtype, n) in kinds {
        // Writing to a String can't fail.
        let _ = write!(text, "\n{}", function(dtype, n));
    }
    text.push_str("\n}\n");
    Some(text)
}

fn collect(block: &Block, kinds: &mut BTreeSet<(DType, u32)>) {
    for statement in &block.statements {
        if let Op::Matrix(MatrixOp::Wgmma(product)) = &statement.op {
            kinds.extend(pieces(product.columns.into()).map(|(_, n)| (product.dtype, n)));
        }
        statement.blocks.iter().for_each(|inner| collect(inner, kinds));
    }
}

/// `sums += a · b` for 64 rows, `n` columns, 16 steps; an operand whose columns run along the sum is `TRANSPOSED`.
fn function(dtype: DType, n: u32) -> String {
    let ty = c_type(dtype);
    let registers = n / 2;
    let names: Vec<String> = (0..registers).map(|r| format!("%{r}")).collect();
    let outputs: Vec<String> = (0..registers).map(|r| format!("\"+f\"(sums[{r}])")).collect();
    let lines = |all: &[String], indent: &str, quote: &str| {
        let rows: Vec<String> =
            all.chunks(8).map(|row| format!("{indent}{quote}{}", row.join(", "))).collect();
        rows.join(if quote.is_empty() { ",\n" } else { ", \"\n" })
    };
    format!(
        "template <int TRANSPOSED_A, int TRANSPOSED_B> METILE void wgmma_{ty}_{n}(f32* sums, u64 a, u64 b) {{\n    \
         asm volatile(\"{{ .reg .pred add; setp.eq.u32 add, 1, 1; wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{ty}.{ty} {{\"\n{}}}, %{registers}, %{}, add, 1, 1, %{}, %{}; }}\"\n        : {}\n        \
         : \"l\"(a), \"l\"(b), \"n\"(TRANSPOSED_A), \"n\"(TRANSPOSED_B));\n}}\n",
        lines(&names, "        ", "\""),
        registers + 1,
        registers + 2,
        registers + 3,
        lines(&outputs, "", "").replace('\n', "\n          "),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use metile_device::Builder;

    #[test]
    fn elements_lie_where_the_operation_says() {
        let mut b = Builder::new("k", 4);
        let buffer = b.shared("tile", 1 << 16, 1024);
        let along_rows = WgmmaOperand { buffer, outer: 128, sum_inside: true };
        assert_eq!(place(&along_rows, 64, 0), 8192);
        assert_eq!(place(&along_rows, 0, 48), 96);
        assert_eq!(place(&along_rows, 0, 64), 128 * 128);
        let along_columns = WgmmaOperand { buffer, outer: 64, sum_inside: false };
        assert_eq!(place(&along_columns, 0, 16), 2048);
        assert_eq!(place(&along_columns, 64, 0), 64 * 128);
        assert_eq!(leading(&along_columns), 64 * 128);
        assert_eq!(pieces(320).collect::<Vec<_>>(), [(0, 256), (256, 64)]);
    }
}
