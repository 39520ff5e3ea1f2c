//! What does not change in a loop leaves it.
//!
//! An operation of a loop's own region whose operands come from outside goes before the loop, if it
//! is pure; from there an outer loop may pass it on. Nothing leaves a branch: that would run it where
//! it did not run before. A loop may run not at all, so what leaves it must be safe to run: every
//! operation is defined on all operands, and only integer divisions that the interpreter may warn of
//! stay, so that no warning is added about a loop that never ran. A hoisted load may warn of
//! coordinates outside of a shape where the interpreter is asked to.

use super::edit::{compact, placed};
use super::facts::{is_pure, may_warn_of_division};
use metile_ir::tile::{Kernel, OpId, OpKind, RegionId};

/// Runs the pass; gives the new kernel, and whether anything changed.
pub fn run(mut kernel: Kernel) -> (Kernel, bool) {
    let order = placed(&kernel);
    let mut depths = Depths::new(&kernel, &order);
    let mut before: Vec<Vec<OpId>> = vec![Vec::new(); kernel.ops.len()];
    let mut changed = false;
    // Inner loops come after outer ones, so backwards they are emptied first.
    for &(region, op) in order.iter().rev() {
        if matches!(kernel.ops[op].kind, OpKind::For | OpKind::While) {
            let outside = depths.regions[region.index()];
            let moved = hoist(&mut kernel, &mut depths, &mut before, outside, op);
            changed |= !moved.is_empty();
            before[op.index()] = moved;
        }
    }
    if !changed {
        return (kernel, false);
    }
    let regions: Vec<RegionId> = kernel.regions.iter().map(|(region, _)| region).collect();
    for region in regions {
        kernel.regions[region].ops = settled(&mut kernel, &mut before, region);
    }
    (compact(&kernel), true)
}

/// The operations of `region`, each after those that were moved before it.
fn settled(kernel: &mut Kernel, before: &mut [Vec<OpId>], region: RegionId) -> Vec<OpId> {
    let mut settled = Vec::new();
    for op in std::mem::take(&mut kernel.regions[region].ops) {
        settled.append(&mut before[op.index()]);
        settled.push(op);
    }
    settled
}

/// How deep each region lies, and the region of each value's definition. A value that is visible in
/// a loop comes from outside of it exactly if it is defined less deep than the loop's own regions.
struct Depths {
    regions: Vec<usize>,
    values: Vec<usize>,
}

impl Depths {
    fn new(kernel: &Kernel, order: &[(RegionId, OpId)]) -> Depths {
        let mut depths =
            Depths { regions: vec![0; kernel.regions.len()], values: vec![0; kernel.values.len()] };
        for &(region, op) in order {
            let depth = depths.regions[region.index()];
            for &result in &kernel.ops[op].results {
                depths.values[result.index()] = depth;
            }
            for &nested in &kernel.ops[op].regions {
                depths.regions[nested.index()] = depth + 1;
                for &argument in &kernel.regions[nested].arguments {
                    depths.values[argument.index()] = depth + 1;
                }
            }
        }
        depths
    }
}

/// Takes what does not change out of the loop `op`, which stands at depth `outside`.
fn hoist(
    kernel: &mut Kernel,
    depths: &mut Depths,
    before: &mut [Vec<OpId>],
    outside: usize,
    op: OpId,
) -> Vec<OpId> {
    let mut moved = Vec::new();
    for region in kernel.ops[op].regions.clone() {
        let ops = settled(kernel, before, region);
        let (leaving, staying): (Vec<OpId>, Vec<OpId>) = ops.into_iter().partition(|&inner| {
            let data = &kernel.ops[inner];
            let free = data.operands.iter().all(|v| depths.values[v.index()] <= outside);
            let leaves = free && is_pure(kernel, data) && !may_warn_of_division(kernel, data);
            if leaves {
                for &result in &data.results {
                    depths.values[result.index()] = outside;
                }
            }
            leaves
        });
        kernel.regions[region].ops = staying;
        moved.extend(leaving);
    }
    moved
}
