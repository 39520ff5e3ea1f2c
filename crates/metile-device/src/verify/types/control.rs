//! Loops and branches: what goes in, round and out agrees.

use super::{Checked, On};
use crate::ops::ControlOp;
use crate::program::{Block, Type, Value};
use metile_ir::dtype::DType;

pub(super) fn check(on: On<'_>, op: ControlOp) -> Checked {
    let s = on.statement;
    let results = types(on, &s.results);
    if results.contains(&Type::Token) {
        return on.fail("carries a token; tokens are waited for in order");
    }
    match op {
        ControlOp::For { .. } => {
            if s.operands.len() < 3 {
                return on.fail("takes low, high and step");
            }
            let index = on.operand(0);
            if index != Type::one(DType::I64) && index != Type::one(DType::I32) {
                return on.fail(format!("counts in i64 or i32, not in {index}"));
            }
            on.exactly(1, index)?;
            on.exactly(2, index)?;
            let entering: Vec<Type> = [index].into_iter().chain(results.iter().copied()).collect();
            agree(on, "start with", &types(on, &s.operands[3..]), &results)?;
            agree(on, "go round as", &types(on, &s.blocks[0].arguments), &entering)?;
            agree(on, "are yielded as", &types(on, end(&s.blocks[0])), &results)
        }
        ControlOp::While => {
            agree(on, "start with", &types(on, &s.operands), &results)?;
            let before = types(on, &s.blocks[0].arguments);
            agree(on, "enter the condition as", &before, &results)?;
            let condition = types(on, end(&s.blocks[0]));
            let Some((test, carried)) = condition.split_first() else {
                return on.fail("needs a bool in its `condition`");
            };
            if *test != Type::one(DType::Bool) {
                return on.fail(format!("tests a bool, not {test}"));
            }
            agree(on, "leave the condition as", carried, &results)?;
            let inside = types(on, &s.blocks[1].arguments);
            agree(on, "enter the body as", &inside, &results)?;
            agree(on, "are yielded as", &types(on, end(&s.blocks[1])), &results)
        }
        ControlOp::If => {
            on.takes(1, results.len())?;
            on.exactly(0, Type::one(DType::Bool))?;
            for block in &s.blocks {
                agree(on, "enter a branch as", &types(on, &block.arguments), &[])?;
                agree(on, "are yielded as", &types(on, end(block)), &results)?;
            }
            Ok(())
        }
        // Looked at with the statement that owns the block.
        ControlOp::Yield | ControlOp::Condition => on.takes(s.operands.len(), 0),
    }
}

fn types(on: On<'_>, values: &[Value]) -> Vec<Type> {
    values.iter().map(|&v| on.program.ty(v)).collect()
}

/// The values that a block ends with; the structure is known to be sound.
fn end(block: &Block) -> &[Value] {
    block.statements.last().map_or(&[], |s| &s.operands)
}

fn agree(on: On<'_>, what: &str, found: &[Type], wanted: &[Type]) -> Checked {
    if found == wanted {
        return Ok(());
    }
    let list =
        |types: &[Type]| types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    on.fail(format!("has values that {what} ({}), not ({})", list(found), list(wanted)))
}
