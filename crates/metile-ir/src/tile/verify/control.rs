//! Loops and branches: what goes in, round and out agrees.

use crate::diagnostic::Diagnostic;
use crate::dtype::DType;
use crate::tile::{Kernel, Op, OpKind, RegionId, TileType, Type, Value};

pub(super) fn check(kernel: &Kernel, op: &Op) -> Result<(), Diagnostic> {
    let results = types(kernel, &op.results);
    if let Some(ty) = results.iter().find(|t| t.tile().is_none()) {
        return Err(Diagnostic::error(format!(
            "a {ty} can't be carried through a loop or branch; only tiles and scalars can"
        )));
    }
    match op.kind {
        OpKind::For => {
            let index = Type::Tile(TileType::scalar(DType::I64));
            let bounds = types(kernel, op.operands.get(..3).unwrap_or_default());
            if bounds != [index; 3] {
                return Err(Diagnostic::error("`for` needs i64 bounds and an i64 step"));
            }
            agree("start with", &types(kernel, &op.operands[3..]), &results)?;
            let arguments = types(kernel, &kernel.regions[op.regions[0]].arguments);
            let expected: Vec<Type> =
                std::iter::once(index).chain(results.iter().copied()).collect();
            agree("go round as", &arguments, &expected)?;
            agree("are yielded as", &terminator(kernel, op.regions[0]), &results)
        }
        OpKind::While => {
            agree("start with", &types(kernel, &op.operands), &results)?;
            let condition = terminator(kernel, op.regions[0]);
            let Some((&test, carried)) = condition.split_first() else {
                return Err(Diagnostic::error("`condition` needs a bool"));
            };
            boolean("while", test)?;
            agree(
                "enter the condition as",
                &types(kernel, &kernel.regions[op.regions[0]].arguments),
                &results,
            )?;
            agree("leave the condition as", carried, &results)?;
            agree(
                "enter the body as",
                &types(kernel, &kernel.regions[op.regions[1]].arguments),
                &results,
            )?;
            agree("are yielded as", &terminator(kernel, op.regions[1]), &results)
        }
        _ => {
            let [test] = op.operands[..] else {
                return Err(Diagnostic::error("`if` takes one operand"));
            };
            boolean("if", kernel.ty(test))?;
            for &region in &op.regions {
                if !kernel.regions[region].arguments.is_empty() {
                    return Err(Diagnostic::error("a branch takes no arguments"));
                }
                agree("are yielded as", &terminator(kernel, region), &results)?;
            }
            Ok(())
        }
    }
}

fn types(kernel: &Kernel, values: &[Value]) -> Vec<Type> {
    values.iter().map(|&v| kernel.ty(v)).collect()
}

/// The types the region's terminator gives; the structure is known to be sound.
fn terminator(kernel: &Kernel, region: RegionId) -> Vec<Type> {
    kernel.regions[region]
        .ops
        .last()
        .map(|&op| types(kernel, &kernel.ops[op].operands))
        .unwrap_or_default()
}

fn boolean(what: &str, found: Type) -> Result<(), Diagnostic> {
    if found == Type::Tile(TileType::scalar(DType::Bool)) {
        return Ok(());
    }
    Err(Diagnostic::error(format!("`{what}` needs one bool, not {found}"))
        .hint("reduce a tile of bools with `.any()` or `.all()`"))
}

fn agree(what: &str, found: &[Type], wanted: &[Type]) -> Result<(), Diagnostic> {
    if found == wanted {
        return Ok(());
    }
    let list =
        |types: &[Type]| types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    Err(Diagnostic::error(format!(
        "the values carried through a loop or branch {what} ({}), not ({})",
        list(found),
        list(wanted)
    )))
}
