//! The type rules: which operands an operation takes, and what its results are.
//!
//! The builder uses them to type results, the verifier to check programs that came from elsewhere,
//! so there is one set of rules. Control operations are checked in [`verify`](super::verify).

mod combine;
mod elementwise;
mod memory;
mod shape;
mod sync;

use super::{Kernel, OpKind, TensorType, TileType, Type, Value};
use crate::diagnostic::Diagnostic;
use crate::dtype::DType;

/// An operation's operands while its rule is applied.
struct Operands<'k> {
    kernel: &'k Kernel,
    values: &'k [Value],
    name: &'static str,
}

/// The types of the results of `kind` on `operands`.
///
/// `result` is the wanted type of the result; operations whose result does not follow from their
/// operands (`Constant`, `Arange`, `Cast`, `Bitcast`, `Broadcast`, `Reshape`, `Slice`, `LoadTile`)
/// need it, the others ignore it.
///
/// # Errors
/// The rule that is broken, with the types found and what would be right.
pub fn result_types(
    kernel: &Kernel,
    kind: &OpKind,
    operands: &[Value],
    result: Option<TileType>,
) -> Result<Vec<Type>, Diagnostic> {
    let name = op_name(kind);
    if let Some(value) = operands.iter().find(|v| !kernel.values.contains(**v)) {
        return Err(Diagnostic::error(format!(
            "`{name}` uses {value:?}, which is no value of the kernel"
        )));
    }
    let args = Operands { kernel, values: operands, name };
    match kind {
        OpKind::ProgramId(_)
        | OpKind::NumPrograms(_)
        | OpKind::Constant(_)
        | OpKind::Arange
        | OpKind::Unary(_)
        | OpKind::Binary(_)
        | OpKind::Compare(_)
        | OpKind::Select
        | OpKind::Fma
        | OpKind::Cast
        | OpKind::Bitcast => elementwise::result(kind, &args, result).map(|t| vec![Type::Tile(t)]),
        OpKind::Broadcast
        | OpKind::Reshape
        | OpKind::Transpose(_)
        | OpKind::Slice { .. }
        | OpKind::Cat { .. }
        | OpKind::Gather { .. } => shape::result(kind, &args, result).map(|t| vec![Type::Tile(t)]),
        OpKind::Reduce { .. } | OpKind::Scan { .. } | OpKind::Dot { .. } => {
            combine::result(kind, &args).map(|t| vec![Type::Tile(t)])
        }
        OpKind::Dim { .. }
        | OpKind::Narrow { .. }
        | OpKind::Pick { .. }
        | OpKind::ListItem
        | OpKind::Load { .. }
        | OpKind::Store { .. }
        | OpKind::LoadTile
        | OpKind::StoreTile
        | OpKind::AtomicRmw(_)
        | OpKind::AtomicCas => memory::results(kind, &args, result),
        OpKind::CounterAdd
        | OpKind::CounterWait
        | OpKind::GridBarrier
        | OpKind::Assert { .. }
        | OpKind::Print { .. } => sync::check(kind, &args).map(|()| Vec::new()),
        OpKind::For
        | OpKind::While
        | OpKind::If
        | OpKind::Yield
        | OpKind::Condition
        | OpKind::Return => Err(Diagnostic::error(format!("`{name}` is typed by its regions"))),
    }
}

/// The operation's name in the text form and in messages.
pub fn op_name(kind: &OpKind) -> &'static str {
    match kind {
        OpKind::ProgramId(_) => "program_id",
        OpKind::NumPrograms(_) => "num_programs",
        OpKind::Constant(_) => "constant",
        OpKind::Arange => "arange",
        OpKind::Unary(op) => elementwise::unary_name(*op),
        OpKind::Binary(op) => elementwise::binary_name(*op),
        OpKind::Compare(op) => elementwise::compare_name(*op),
        OpKind::Select => "select",
        OpKind::Fma => "fma",
        OpKind::Cast => "cast",
        OpKind::Bitcast => "bitcast",
        OpKind::Broadcast => "broadcast",
        OpKind::Reshape => "reshape",
        OpKind::Transpose(_) => "transpose",
        OpKind::Slice { .. } => "slice",
        OpKind::Cat { .. } => "cat",
        OpKind::Gather { .. } => "gather",
        OpKind::Reduce { .. } => "reduce",
        OpKind::Scan { .. } => "scan",
        OpKind::Dot { .. } => "dot",
        OpKind::Dim { .. } => "dim",
        OpKind::Narrow { .. } => "narrow",
        OpKind::Pick { .. } => "pick",
        OpKind::ListItem => "item",
        OpKind::Load { .. } => "load",
        OpKind::Store { .. } => "store",
        OpKind::LoadTile => "load_tile",
        OpKind::StoreTile => "store_tile",
        OpKind::AtomicRmw(_) => "atomic",
        OpKind::AtomicCas => "atomic_cas",
        OpKind::CounterAdd => "counter_add",
        OpKind::CounterWait => "counter_wait",
        OpKind::GridBarrier => "grid_barrier",
        OpKind::Assert { .. } => "assert",
        OpKind::Print { .. } => "print",
        OpKind::For => "for",
        OpKind::While => "while",
        OpKind::If => "if",
        OpKind::Yield => "yield",
        OpKind::Condition => "condition",
        OpKind::Return => "return",
    }
}

impl Operands<'_> {
    fn error(&self, message: impl AsRef<str>) -> Diagnostic {
        Diagnostic::error(format!("`{}` {}", self.name, message.as_ref()))
    }

    fn expect_count(&self, count: usize) -> Result<(), Diagnostic> {
        if self.values.len() == count {
            return Ok(());
        }
        Err(self.error(format!("takes {count} operands, not {}", self.values.len())))
    }

    fn get(&self, n: usize) -> Result<Value, Diagnostic> {
        self.values.get(n).copied().ok_or_else(|| self.error(format!("lacks operand {}", n + 1)))
    }

    fn tile(&self, n: usize) -> Result<TileType, Diagnostic> {
        let ty = self.kernel.ty(self.get(n)?);
        ty.tile()
            .ok_or_else(|| self.error(format!("needs a tile as operand {}, not a {ty}", n + 1)))
    }

    fn tensor(&self, n: usize) -> Result<TensorType, Diagnostic> {
        let ty = self.kernel.ty(self.get(n)?);
        ty.tensor()
            .ok_or_else(|| self.error(format!("needs a tensor as operand {}, not a {ty}", n + 1)))
    }

    fn same(&self, first: usize, second: usize) -> Result<TileType, Diagnostic> {
        let (a, b) = (self.tile(first)?, self.tile(second)?);
        if a.dtype != b.dtype {
            return Err(self
                .error(format!("needs one dtype on both sides, not {} and {}", a.dtype, b.dtype))
                .hint(format!("convert one side with `.to::<{}>()`", a.dtype)));
        }
        if a.shape != b.shape {
            return Err(self
                .error(format!("needs one shape on both sides, not {} and {}", a.shape, b.shape))
                .hint("shapes broadcast from the last axis: sides must be equal or 1"));
        }
        Ok(a)
    }

    fn scalar(&self, n: usize, dtype: DType) -> Result<(), Diagnostic> {
        let found = self.tile(n)?;
        if found == TileType::scalar(dtype) {
            return Ok(());
        }
        Err(self.error(format!("needs one {dtype} as operand {}, not {found}", n + 1)))
    }

    fn wanted(&self, result: Option<TileType>) -> Result<TileType, Diagnostic> {
        result.ok_or_else(|| self.error("needs its result type said"))
    }

    fn axis(&self, axis: u8, rank: usize) -> Result<usize, Diagnostic> {
        if (axis as usize) < rank {
            return Ok(axis as usize);
        }
        let legal = match rank {
            0 => "a scalar has no axes".to_owned(),
            1 => "the only axis is 0".to_owned(),
            _ => format!("axes are 0 to {}", rank - 1),
        };
        Err(self.error(format!("is asked for axis {axis}")).hint(legal))
    }
}
