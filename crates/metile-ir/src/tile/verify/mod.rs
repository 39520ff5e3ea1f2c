//! The verifier. Its result, [`Verified`], is what the interpreter, the passes and every back-end
//! ask for: **a verified kernel never makes them panic.**
//!
//! Checked:
//! * handles point into the kernel's arenas; a region belongs to one operation; regions nest at most
//!   [`MAX_NESTING`] deep;
//! * a value is used only after its definition, in the same region or one nested in it, and the
//!   definition recorded with each value is the true one;
//! * every region ends in its terminator, and no terminator stands elsewhere;
//! * operand and result types follow the rules of [`infer`](super::infer);
//! * loop-carried values, region arguments, yielded values and results agree;
//! * parameters are scalars, tensors or lists; packed tensors are only read;
//! * synchronization stands in persistent kernels only;
//! * the kernel's name and size: at most [`MAX_OPS`] operations.
//!
//! Not checked, and defined instead: division by zero, accesses outside of a tensor's shape,
//! gather indices. Not checked, and reported by the interpreter when it happens: races between programs, a grid
//! barrier that some program never reaches, counters nobody raises.

mod control;
mod structure;

use super::{Kernel, OpKind, Type};
use crate::diagnostic::Diagnostic;
use crate::dtype::Format;
use crate::tile::{Access, MAX_RANK};

/// How deep regions nest at most.
pub const MAX_NESTING: usize = 64;

/// How many operations a kernel has at most.
pub const MAX_OPS: usize = 1 << 20;

/// A kernel that keeps every rule listed in [`verify`](self).
#[derive(Clone, Debug)]
pub struct Verified {
    kernel: Kernel,
}

impl Verified {
    /// The kernel.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }
    /// Gives the kernel back, to be changed and verified again.
    pub fn into_kernel(self) -> Kernel {
        self.kernel
    }
}

/// Checks every rule listed in [the module](self).
///
/// # Errors
/// Each rule that is broken, with the place; at least one.
pub fn verify(kernel: Kernel) -> Result<Verified, Vec<Diagnostic>> {
    let mut errors = header(&kernel);
    if errors.is_empty() {
        errors = structure::check(&kernel);
    }
    // Types are looked at only in a sound structure, where every handle may be followed.
    if errors.is_empty() {
        errors = types(&kernel);
    }
    if errors.is_empty() {
        return Ok(Verified { kernel });
    }
    Err(errors.into_iter().map(|e| e.in_kernel(&kernel.name)).collect())
}

fn header(kernel: &Kernel) -> Vec<Diagnostic> {
    let mut errors = Vec::new();
    let head = kernel.name.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    if !head || !kernel.name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        errors.push(Diagnostic::error(format!("`{}` is no kernel name", kernel.name)).hint(
            "a name is made of ASCII letters, digits and `_`, and does not begin with a digit",
        ));
    }
    if kernel.ops.len() > MAX_OPS {
        errors.push(Diagnostic::error(format!(
            "the kernel has {} operations; at most {MAX_OPS} are allowed",
            kernel.ops.len()
        )));
    }
    for (n, &value) in kernel.parameters.iter().enumerate() {
        if !kernel.values.contains(value) {
            errors.push(Diagnostic::error(format!("parameter {n} is no value of the kernel")));
            continue;
        }
        if let Some(message) = parameter(kernel.ty(value)) {
            errors.push(Diagnostic::error(format!("parameter {n}: {message}")));
        }
    }
    errors
}

fn parameter(ty: Type) -> Option<String> {
    match ty {
        Type::Tile(t) if t.shape.is_scalar() => None,
        Type::Tile(t) => Some(format!("a tile ({t}) can't be passed; pass a tensor")),
        Type::Tensor(t) | Type::TensorList(t) => {
            if t.rank == 0 || t.rank as usize > MAX_RANK {
                return Some(format!("a tensor has 1 to {MAX_RANK} axes, not {}", t.rank));
            }
            let packed = matches!(t.format, Format::Packed(_));
            if packed && t.access != Access::Read {
                return Some(format!("{} is a packed format, which is only read", t.format));
            }
            let counters = t.access == Access::Counter;
            if counters && (t.rank != 1 || t.format != Format::Plain(crate::DType::U32)) {
                return Some("counters are u32 with one axis".to_owned());
            }
            if matches!(ty, Type::TensorList(_)) && t.access != Access::Read {
                return Some("a list of tensors is only read".to_owned());
            }
            None
        }
    }
}

fn types(kernel: &Kernel) -> Vec<Diagnostic> {
    let mut errors = Vec::new();
    for id in kernel.walk(kernel.body) {
        let op = &kernel.ops[id];
        let outcome = match op.kind {
            OpKind::For | OpKind::While | OpKind::If => control::check(kernel, op),
            // Terminators are checked with the operation that owns their region.
            OpKind::Yield | OpKind::Condition | OpKind::Return => Ok(()),
            _ => results(kernel, op),
        };
        if let Err(error) = outcome {
            errors.push(error.at(op.span));
        }
    }
    errors
}

fn results(kernel: &Kernel, op: &super::Op) -> Result<(), Diagnostic> {
    let found: Vec<Type> = op.results.iter().map(|&v| kernel.ty(v)).collect();
    let wanted = found.first().and_then(|t| t.tile());
    let types = super::infer::result_types(kernel, &op.kind, &op.operands, wanted)?;
    if types != found {
        let list =
            |types: &[Type]| types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        return Err(Diagnostic::error(format!(
            "`{}` gives ({}), not ({})",
            super::infer::op_name(&op.kind),
            list(&types),
            list(&found)
        )));
    }
    Ok(())
}
