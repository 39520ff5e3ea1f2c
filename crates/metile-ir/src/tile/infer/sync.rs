//! Operations between programs, and for people.

use super::Operands;
use crate::diagnostic::Diagnostic;
use crate::dtype::DType;
use crate::tile::{Access, OpKind};

pub(super) fn check(kind: &OpKind, args: &Operands<'_>) -> Result<(), Diagnostic> {
    match kind {
        OpKind::CounterAdd | OpKind::CounterWait => {
            args.expect_count(3)?;
            let counters = args.tensor(0)?;
            if counters.access != Access::Counter {
                return Err(args
                    .error("needs counters")
                    .hint("declare the parameter as `&Counters`"));
            }
            args.scalar(1, DType::I64)?;
            args.scalar(2, DType::U32)?;
            persistent(args)
        }
        OpKind::GridBarrier => {
            args.expect_count(0)?;
            persistent(args)
        }
        OpKind::Assert { .. } => {
            args.expect_count(1)?;
            let condition = args.tile(0)?;
            if condition.dtype != DType::Bool {
                return Err(args.error(format!("checks a bool, not {condition}")));
            }
            Ok(())
        }
        OpKind::Print { format } => {
            for n in 0..args.values.len() {
                args.tile(n)?;
            }
            let holes = format.matches("{}").count();
            if holes != args.values.len() {
                return Err(
                    args.error(format!("has {holes} places for {} values", args.values.len()))
                );
            }
            Ok(())
        }
        _ => Err(args.error("has results")),
    }
}

fn persistent(args: &Operands<'_>) -> Result<(), Diagnostic> {
    if args.kernel.persistent {
        return Ok(());
    }
    Err(args.error("may be used in persistent kernels only: the programs of an ordinary launch do not all run at once").hint(
        "mark the kernel `#[kernel(persistent)]`, or split the work into two launches",
    ))
}
