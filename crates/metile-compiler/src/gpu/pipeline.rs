//! Loads of a loop that can run ahead of it: copies to shared memory for the matrix units, several iterations early.

use super::class::Class;
use super::facts::{Fact, Facts};
use metile_ir::Format;
use metile_ir::tile::{Access, Definition, Kernel, OpId, OpKind, RegionId, Type, Value};
use std::collections::HashSet;

/// Loads of the loop `id` that feed nothing but the products `dots`, and don't depend on what the loop carries.
pub fn staged_loads(
    kernel: &Kernel,
    facts: &mut Facts<'_>,
    classes: &[Class],
    id: OpId,
    dots: &HashSet<OpId>,
) -> Vec<OpId> {
    let op = &kernel.ops[id];
    if op.kind != OpKind::For {
        return Vec::new();
    }
    let region = op.regions[0];
    let within: HashSet<OpId> = kernel.walk(region).into_iter().collect();
    let feeds_dots = |value: Value| {
        kernel
            .walk(kernel.body)
            .into_iter()
            .filter(|&user| kernel.ops[user].operands.contains(&value))
            .all(|user| {
                let user_op = &kernel.ops[user];
                dots.contains(&user) && within.contains(&user) && user_op.operands[2] != value
            })
    };
    kernel.regions[region]
        .ops
        .iter()
        .copied()
        .filter(|&load| {
            let op = &kernel.ops[load];
            op.kind == OpKind::LoadTile
                && feeds_dots(op.results[0])
                && copies_in_units(kernel, facts, classes, load)
                && slice(kernel, region, load).is_some()
        })
        .collect()
}

/// Whether rows of the load are made of whole, aligned units of eight elements.
fn copies_in_units(kernel: &Kernel, facts: &mut Facts<'_>, classes: &[Class], load: OpId) -> bool {
    let op = &kernel.ops[load];
    let (view, origin) = (op.operands[0], &op.operands[1..op.operands.len() - 1]);
    let Type::Tensor(ty) = kernel.ty(view) else { return false };
    let Format::Plain(dtype) = ty.format else { return false };
    let zero = op.operands.last().and_then(|&fill| kernel.constant(fill));
    if ty.access != Access::Read
        || dtype.bytes() != 2
        || ty.rank != 2
        || zero.is_none_or(|z| z.bits() != 0)
    {
        return false;
    }
    let whole = |fact: Fact| fact.multiple.is_multiple_of(8);
    if !origin.last().is_some_and(|&column| whole(facts.of(column))) {
        return false;
    }
    // Back to the parameter: no view may cut rows elsewhere than between units.
    let (mut at, mut rank) = (view, ty.rank as usize);
    loop {
        match kernel.values[at].definition {
            Definition::Parameter(n) => {
                let class = classes.get(n as usize).copied().unwrap_or_default();
                let rows = (1u8 << (rank - 1)) - 1;
                let round = |known: u8, wanted: u8| known & wanted == wanted;
                return class.unit
                    && class.aligned
                    && round(class.strides, rows)
                    && round(class.extents, 1 << (rank - 1));
            }
            Definition::Result(id, _) => {
                let op = &kernel.ops[id];
                match op.kind {
                    OpKind::Narrow { axis } if axis as usize + 1 == rank => return false,
                    OpKind::Narrow { .. } => {}
                    OpKind::Pick { axis } if axis as usize == rank => return false,
                    OpKind::Pick { .. } => rank += 1,
                    _ => return false,
                }
                at = op.operands[0];
            }
            Definition::Argument(..) => return false,
        }
    }
}

/// The operations of a loop's region that the place of `load` depends on, in order; `None` if it depends on anything but the loop's index
/// and values from outside.
pub fn slice(kernel: &Kernel, region: RegionId, load: OpId) -> Option<Vec<OpId>> {
    let mut wanted = HashSet::new();
    let op = &kernel.ops[load];
    let mut todo: Vec<Value> = op.operands.clone();
    let inside: HashSet<OpId> = kernel.walk(region).into_iter().collect();
    while let Some(value) = todo.pop() {
        match kernel.values[value].definition {
            Definition::Parameter(_) => {}
            Definition::Argument(of, n) if of == region => {
                if n != 0 {
                    return None;
                }
            }
            // Arguments of regions around are known there.
            Definition::Argument(..) => {}
            Definition::Result(id, _) if !inside.contains(&id) => {}
            Definition::Result(id, _) => {
                let op = &kernel.ops[id];
                let scalar = matches!(
                    op.kind,
                    OpKind::Constant(_)
                        | OpKind::ProgramId(_)
                        | OpKind::NumPrograms(_)
                        | OpKind::Unary(_)
                        | OpKind::Binary(_)
                        | OpKind::Compare(_)
                        | OpKind::Select
                        | OpKind::Cast
                        | OpKind::Dim { .. }
                        | OpKind::Narrow { .. }
                        | OpKind::Pick { .. }
                );
                if !scalar || !kernel.regions[region].ops.contains(&id) {
                    return None;
                }
                if wanted.insert(id) {
                    todo.extend(&op.operands);
                }
            }
        }
    }
    Some(kernel.regions[region].ops.iter().copied().filter(|id| wanted.contains(id)).collect())
}
