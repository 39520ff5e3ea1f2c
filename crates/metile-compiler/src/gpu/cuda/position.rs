//! Where the thread is, and the launch's words.

use super::EmitError;
use super::literal::c_type;
use super::printer::{Place, Printer};
use metile_device::{PositionOp, Statement, Type};
use metile_ir::dtype::DType;

impl Printer<'_> {
    pub(super) fn position(
        &mut self,
        op: PositionOp,
        statement: &Statement,
    ) -> Result<(), EmitError> {
        let result = self.result(statement)?;
        let text = match op {
            PositionOp::Block => "i64(blockIdx.x)".to_owned(),
            PositionOp::Blocks => "i64(gridDim.x)".to_owned(),
            PositionOp::Thread => "i32(threadIdx.x)".to_owned(),
            PositionOp::Lane => "i32(threadIdx.x % 32)".to_owned(),
            PositionOp::Warp => "i32(threadIdx.x / 32)".to_owned(),
            PositionOp::Word(n) => self.word(n)?,
        };
        let (ty, name) = (self.c_type(result)?, self.name(result));
        self.line(format_args!("{ty} {name} = {text};"));
        self.set_place(result, Place::Single(name));
        Ok(())
    }

    fn word(&self, n: u32) -> Result<String, EmitError> {
        let word = self.program.words.get(n as usize);
        let word = word.ok_or_else(|| self.malformed(format_args!("there is no word {n}")))?;
        Ok(match word.ty() {
            Type::Pointer { dtype, writable } => {
                let qualifier = if writable { "" } else { "const " };
                format!("metile::global<{qualifier}{}>(words.w[{n}])", c_type(dtype))
            }
            Type::Registers { dtype: DType::F32, .. } => {
                format!("__uint_as_float(u32(words.w[{n}]))")
            }
            Type::Registers { dtype: DType::Bool, .. } => format!("(words.w[{n}] & 1) != 0"),
            Type::Registers { dtype, .. } => format!("{}(words.w[{n}])", c_type(dtype)),
            ty @ (Type::Token | Type::Fragment { .. }) => {
                return Err(self.malformed(format_args!("word {n} is {ty}")));
            }
        })
    }
}
