//! What was computed before is not computed again.
//!
//! Two operations are one if they are of the same kind on the same operands with the same result
//! types, the first is visible where the second stands, and both are pure. Loads from tensors that
//! are only read are pure, since nobody writes those during a launch; loads from tensors that are
//! written are not merged.

use super::edit::compact;
use super::facts::{commutes, is_pure};
use metile_ir::tile::{CompareOp, Kernel, OpId, OpKind, RegionId, Type, Value};
use std::collections::HashMap;

/// What makes two operations the same.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    kind: OpKind,
    operands: Vec<Value>,
    results: Vec<Type>,
}

/// A region under way, and what became known in it.
struct Frame {
    region: RegionId,
    next: usize,
    known: Vec<Key>,
}

/// Runs the pass; gives the new kernel, and whether anything changed.
pub fn run(mut kernel: Kernel) -> (Kernel, bool) {
    let mut replaced: Vec<Option<Value>> = vec![None; kernel.values.len()];
    let mut gone = vec![false; kernel.ops.len()];
    let mut seen: HashMap<Key, Vec<Value>> = HashMap::new();
    let mut stack = vec![Frame { region: kernel.body, next: 0, known: Vec::new() }];
    let mut changed = false;
    while let Some(mut frame) = stack.pop() {
        let Some(&op) = kernel.regions[frame.region].ops.get(frame.next) else {
            // What the region computed is not visible after it.
            for key in frame.known {
                seen.remove(&key);
            }
            continue;
        };
        frame.next += 1;
        // Replacements are final, since definitions come before uses in this order; only one hop.
        for operand in &mut kernel.ops[op].operands {
            *operand = replaced[operand.index()].unwrap_or(*operand);
        }
        let nested: Vec<RegionId> = kernel.ops[op].regions.iter().rev().copied().collect();
        if is_pure(&kernel, &kernel.ops[op]) {
            let key = key(&kernel, op);
            let results = kernel.ops[op].results.clone();
            if let Some(earlier) = seen.get(&key) {
                for (&result, &value) in results.iter().zip(earlier) {
                    replaced[result.index()] = Some(value);
                }
                gone[op.index()] = true;
                changed = true;
            } else {
                seen.insert(key.clone(), results);
                frame.known.push(key);
            }
        }
        stack.push(frame);
        stack.extend(nested.into_iter().map(|region| Frame { region, next: 0, known: Vec::new() }));
    }
    if !changed {
        return (kernel, false);
    }
    let regions: Vec<RegionId> = kernel.regions.iter().map(|(region, _)| region).collect();
    for region in regions {
        kernel.regions[region].ops.retain(|op| !gone[op.index()]);
    }
    (compact(&kernel), true)
}

fn key(kernel: &Kernel, op: OpId) -> Key {
    let op = &kernel.ops[op];
    let mut operands = op.operands.clone();
    let dtype = operands.first().and_then(|&v| kernel.ty(v).tile()).map(|t| t.dtype);
    let symmetric = match (&op.kind, dtype) {
        (OpKind::Binary(kind), Some(dtype)) => commutes(*kind, dtype),
        (OpKind::Compare(kind), _) => matches!(kind, CompareOp::Eq | CompareOp::Ne),
        _ => false,
    };
    if symmetric {
        operands.sort_unstable();
    }
    let results = op.results.iter().map(|&v| kernel.ty(v)).collect();
    Key { kind: op.kind.clone(), operands, results }
}
