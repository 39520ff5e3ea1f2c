//! Matrix units.

use super::EmitError;
use super::printer::Printer;
use metile_device::{MatrixOp, MmaAtom, Statement};
use metile_ir::dtype::DType;

impl Printer<'_> {
    pub(super) fn matrix(&mut self, op: &MatrixOp, statement: &Statement) -> Result<(), EmitError> {
        match op {
            MatrixOp::Mma(atom) => {
                let [a, b, c] = [0, 1, 2].map(|n| self.operand(statement, n));
                let (a, b, c) =
                    (self.pointer_to(a?, 0)?, self.pointer_to(b?, 0)?, self.pointer_to(c?, 0)?);
                let name = self.declare(self.result(statement)?)?;
                let function = match atom {
                    MmaAtom::F16M16N8K16 => "mma_f16",
                    MmaAtom::Bf16M16N8K16 => "mma_bf16",
                    MmaAtom::Tf32M16N8K8 => "mma_tf32",
                    MmaAtom::I8M16N8K32 => "mma_i8",
                };
                self.line(format_args!("metile::{function}({name}, {a}, {b}, {c});"));
                Ok(())
            }
            MatrixOp::LoadMatrix { buffer, matrices, transposed } => {
                if !matches!(matrices, 1 | 2 | 4) {
                    return Err(self.malformed(format_args!("a load of {matrices} matrices")));
                }
                let offset = self.one(self.operand(statement, 0)?)?;
                let base = self.shared(*buffer, DType::U16)?;
                let result = self.result(statement)?;
                let name = self.declare(result)?;
                let to = if self.count(result) == 1 { format!("&{name}") } else { name };
                self.line(format_args!(
                    "metile::load_matrix<{matrices}, {transposed}>({base} + {offset}, {to});"
                ));
                Ok(())
            }
            MatrixOp::Wgmma(product) => self.wgmma(product, statement),
            MatrixOp::WgmmaWait => {
                let sums = self.operand(statement, 0)?;
                let result = self.result(statement)?;
                let to = self.declare(result)?;
                self.assign(result, sums)?;
                let count = self.count(result);
                self.line(format_args!("metile::wgmma_wait<{count}>({to});"));
                Ok(())
            }
            MatrixOp::FillFragment
            | MatrixOp::LoadFragment { .. }
            | MatrixOp::StoreFragment { .. }
            | MatrixOp::MultiplyFragments { .. } => {
                Err(self.unsupported("matrices in a layout of their own"))
            }
        }
    }
}
