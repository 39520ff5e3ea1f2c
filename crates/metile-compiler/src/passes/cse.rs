//! Common subexpressions: one operation instead of several that give the same value.
//!
//! Loads count if the tensor is only read: its memory does not change during a launch.

use super::replace_uses;
use metile_ir::tile::{Access, Kernel, Op, OpId, OpKind, RegionId, Type, Value};
use std::collections::HashMap;

/// What makes two operations the same.
type Key = (OpKind, Vec<Value>, Type);

/// Merges equal operations; whether there were any.
pub fn run(kernel: &mut Kernel) -> bool {
    let mut merger = Merger { same: HashMap::new(), seen: Vec::new() };
    merger.region(kernel, kernel.body);
    replace_uses(kernel, &merger.same);
    // The operations merged away are dead now and go with the next dead-code pass.
    !merger.same.is_empty()
}

struct Merger {
    same: HashMap<Value, Value>,
    /// The values visible in each enclosing region, outermost first.
    seen: Vec<HashMap<Key, Value>>,
}

impl Merger {
    // Regions nest at most `verify::MAX_NESTING` deep.
    fn region(&mut self, kernel: &Kernel, region: RegionId) {
        self.seen.push(HashMap::new());
        for &id in &kernel.regions[region].ops {
            self.op(kernel, id);
            for &inner in &kernel.ops[id].regions {
                self.region(kernel, inner);
            }
        }
        self.seen.pop();
    }

    fn op(&mut self, kernel: &Kernel, id: OpId) {
        let op = &kernel.ops[id];
        let [result] = op.results[..] else { return };
        if !is_pure(kernel, op) {
            return;
        }
        let operands =
            op.operands.iter().map(|v| self.same.get(v).copied().unwrap_or(*v)).collect();
        let key = (op.kind.clone(), operands, kernel.ty(result));
        if let Some(&first) = self.seen.iter().find_map(|scope| scope.get(&key)) {
            if first != result {
                self.same.insert(result, first);
            }
        } else if let Some(scope) = self.seen.last_mut() {
            scope.insert(key, result);
        }
    }
}

/// Whether an operation gives the same value wherever its operands are the same.
pub(super) fn is_pure(kernel: &Kernel, op: &Op) -> bool {
    let reads = matches!(op.kind, OpKind::Load { .. } | OpKind::LoadTile);
    let constant_memory = || {
        let tensor = op.operands.first().and_then(|&v| kernel.ty(v).tensor());
        tensor.is_some_and(|t| t.access == Access::Read)
    };
    !op.kind.has_effect() && op.regions.is_empty() && (!reads || constant_memory())
}
