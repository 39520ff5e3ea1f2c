//! What each operation takes and gives. The structure is known to be sound.

mod control;
mod matrix;
mod memory;
mod register;

use super::{Limits, error, walk};
use crate::ops::*;
use crate::program::{Program, Statement, Type};
use metile_ir::diagnostic::Diagnostic;
use metile_ir::dtype::DType;

pub(super) fn check(program: &Program, _: &Limits) -> Vec<Diagnostic> {
    let mut errors = Vec::new();
    walk(&program.body, &mut |statement| {
        if errors.len() < super::MAX_ERRORS {
            let on = On { program, statement };
            errors.extend(on.check().err().map(|e| *e));
        }
    });
    errors
}

type Checked = Result<(), Box<Diagnostic>>;

/// A statement that is looked at.
#[derive(Clone, Copy)]
struct On<'p> {
    program: &'p Program,
    statement: &'p Statement,
}

impl On<'_> {
    fn check(self) -> Checked {
        match &self.statement.op {
            Op::Position(op) => self.position(*op),
            Op::Register(op) => register::check(self, op),
            Op::Memory(op) => memory::check(self, op),
            Op::Exchange(op) => self.exchange(*op),
            Op::Sync(op) => memory::sync(self, *op),
            Op::Matrix(op) => matrix::check(self, op),
            Op::Copy(op) => memory::copy(self, op),
            Op::Control(op) => control::check(self, *op),
            Op::Report(ReportOp::Assert { message }) => self.assert(*message),
        }
    }

    fn fail<T>(self, message: impl AsRef<str>) -> Result<T, Box<Diagnostic>> {
        Err(Box::new(error(self.statement, message)))
    }

    /// Exactly so many operands and results.
    fn takes(self, operands: usize, results: usize) -> Checked {
        let s = self.statement;
        if s.operands.len() != operands {
            return self.fail(format!("takes {operands} operands, not {}", s.operands.len()));
        }
        if s.results.len() != results {
            return self.fail(format!("gives {results} results, not {}", s.results.len()));
        }
        Ok(())
    }

    /// The type of an operand that [`takes`](Self::takes) saw.
    fn operand(self, n: usize) -> Type {
        self.statement.operands.get(n).map_or(Type::Token, |&v| self.program.ty(v))
    }

    fn result(self, n: usize) -> Type {
        self.statement.results.get(n).map_or(Type::Token, |&v| self.program.ty(v))
    }

    /// Dtype and registers of an operand.
    fn registers(self, n: usize) -> Result<(DType, u32), Box<Diagnostic>> {
        match self.operand(n) {
            Type::Registers { dtype, count } => Ok((dtype, count)),
            ty => self.fail(format!("takes registers as operand {n}, not {ty}")),
        }
    }

    /// An operand of one of `dtypes` with `count` registers or 1.
    fn spread(self, n: usize, dtypes: &[DType], count: u32) -> Checked {
        let (dtype, has) = self.registers(n)?;
        if !dtypes.contains(&dtype) {
            let wanted: Vec<String> = dtypes.iter().map(ToString::to_string).collect();
            return self.fail(format!("takes {} as operand {n}, not {dtype}", wanted.join(" or ")));
        }
        if has != count && has != 1 {
            return self.fail(match count {
                1 => format!("takes 1 register as operand {n}, not {has}"),
                _ => format!("takes {count} registers or 1 as operand {n}, not {has}"),
            });
        }
        Ok(())
    }

    /// An operand of exactly this type.
    fn exactly(self, n: usize, ty: Type) -> Checked {
        match self.operand(n) {
            found if found == ty => Ok(()),
            found => self.fail(format!("takes {ty} as operand {n}, not {found}")),
        }
    }

    /// The only result, or result `n`, is this.
    fn gives(self, n: usize, ty: Type) -> Checked {
        match self.result(n) {
            found if found == ty => Ok(()),
            found => self.fail(format!("gives {ty}, not {found}")),
        }
    }

    fn position(self, op: PositionOp) -> Checked {
        self.takes(0, 1)?;
        let ty = match op {
            PositionOp::Block | PositionOp::Blocks => Type::one(DType::I64),
            PositionOp::Thread | PositionOp::Lane | PositionOp::Warp => Type::one(DType::I32),
            PositionOp::Word(n) => match self.program.words.get(n as usize) {
                Some(word) => word.ty(),
                None => {
                    let words = self.program.words.len();
                    return self.fail(format!("asks for word {n} of {words}"));
                }
            },
        };
        self.gives(0, ty)
    }

    fn exchange(self, op: ExchangeOp) -> Checked {
        match op {
            ExchangeOp::Xor(mask) => {
                self.takes(1, 1)?;
                if mask == 0 || u32::from(mask) >= crate::program::WARP {
                    return self
                        .fail(format!("exchanges lanes that differ in 1 to 31, not {mask}"));
                }
            }
            ExchangeOp::Index => {
                self.takes(2, 1)?;
                self.exactly(1, Type::one(DType::I32))?;
            }
        }
        let (dtype, count) = self.registers(0)?;
        self.gives(0, Type::registers(dtype, count))
    }

    fn assert(self, message: u32) -> Checked {
        self.takes(3, 0)?;
        if self.program.messages.get(message as usize).is_none() {
            return self.fail(format!("names message {message}, which there is not"));
        }
        self.exactly(0, Type::Pointer { dtype: DType::U64, writable: true })?;
        let (_, count) = self.registers(1)?;
        self.spread(1, &[DType::Bool], count)?;
        self.spread(2, &[DType::I32], count)
    }
}
