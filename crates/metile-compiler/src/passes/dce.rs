//! Dead code: operations whose results nobody uses, and values that loops carry for nobody.
//!
//! A `while` stays even if nothing comes of it: it may be meant not to end.

use super::placement::Placement;
use metile_ir::tile::{Definition, Kernel, OpId, OpKind, RegionId, Value};
use std::collections::HashSet;

/// Removes dead code; whether there was any.
pub fn run(kernel: &mut Kernel) -> bool {
    let mut live = Live::new(kernel);
    for id in kernel.walk(kernel.body) {
        let kind = &kernel.ops[id].kind;
        let kept = kind.has_effect() && !matches!(kind, OpKind::Yield | OpKind::Condition);
        if kept || matches!(kind, OpKind::While) {
            live.op(id);
        }
    }
    live.spread();
    let Live { ops, values, .. } = live;
    sweep(kernel, &ops, &values)
}

struct Live<'k> {
    kernel: &'k Kernel,
    placement: Placement,
    ops: HashSet<OpId>,
    values: HashSet<Value>,
    todo: Vec<Value>,
}

impl<'k> Live<'k> {
    fn new(kernel: &'k Kernel) -> Self {
        let placement = Placement::of(kernel);
        Live { kernel, placement, ops: HashSet::new(), values: HashSet::new(), todo: Vec::new() }
    }

    fn value(&mut self, value: Value) {
        if self.values.insert(value) {
            self.todo.push(value);
        }
    }

    /// The operation happens, so what decides over it and what it works on is needed.
    fn op(&mut self, id: OpId) {
        if !self.ops.insert(id) {
            return;
        }
        let op = &self.kernel.ops[id];
        match op.kind {
            OpKind::For => op.operands[..3].iter().for_each(|&v| self.value(v)),
            OpKind::While => {
                if let Some(&test) = self.terminator(op.regions[0]).first() {
                    self.value(test);
                }
            }
            _ => op.operands.iter().for_each(|&v| self.value(v)),
        }
        if let Some(region) = self.placement.region_of(id)
            && let Some(owner) = self.placement.owner_of(region)
        {
            self.op(owner);
        }
    }

    fn terminator(&self, region: RegionId) -> &'k [Value] {
        let last = self.kernel.regions[region].ops.last();
        last.map_or(&[], |&op| self.kernel.ops[op].operands.as_slice())
    }

    fn spread(&mut self) {
        while let Some(value) = self.todo.pop() {
            match self.kernel.values[value].definition {
                Definition::Parameter(_) => {}
                Definition::Result(op, n) => {
                    self.op(op);
                    self.carried(op, n as usize);
                }
                Definition::Argument(region, n) => {
                    let Some(owner) = self.placement.owner_of(region) else { continue };
                    self.op(owner);
                    let index = matches!(self.kernel.ops[owner].kind, OpKind::For) as usize;
                    if let Some(n) = (n as usize).checked_sub(index) {
                        self.carried(owner, n);
                    }
                }
            }
        }
    }

    /// What carried value `n` of a loop or branch comes from, goes round as, and ends up as: all of
    /// these are needed together.
    fn carried(&mut self, id: OpId, n: usize) {
        let op = &self.kernel.ops[id];
        let argument = |region: RegionId, n: usize| self.kernel.regions[region].arguments[n];
        let mut linked = Vec::new();
        match op.kind {
            OpKind::For => {
                linked.push(op.operands[3 + n]);
                linked.push(argument(op.regions[0], n + 1));
                linked.push(self.terminator(op.regions[0])[n]);
            }
            OpKind::While => {
                linked.push(op.operands[n]);
                linked.push(argument(op.regions[0], n));
                linked.push(self.terminator(op.regions[0])[n + 1]);
                linked.push(argument(op.regions[1], n));
                linked.push(self.terminator(op.regions[1])[n]);
            }
            OpKind::If => {
                linked.extend(op.regions.iter().map(|&r| self.terminator(r)[n]));
            }
            _ => return,
        }
        linked.push(op.results[n]);
        linked.into_iter().for_each(|v| self.value(v));
    }
}

fn sweep(kernel: &mut Kernel, ops: &HashSet<OpId>, values: &HashSet<Value>) -> bool {
    let mut changed = false;
    let mut stack = vec![kernel.body];
    while let Some(region) = stack.pop() {
        let before = kernel.regions[region].ops.clone();
        let kept: Vec<OpId> = before
            .iter()
            .copied()
            .filter(|id| {
                ops.contains(id)
                    || matches!(kernel.ops[*id].kind, OpKind::Yield | OpKind::Condition)
            })
            .collect();
        changed |= kept.len() != before.len();
        for &id in &kept {
            changed |= drop_carried(kernel, id, values);
            stack.extend(&kernel.ops[id].regions);
        }
        kernel.regions[region].ops = kept;
    }
    changed
}

/// Takes the carried values that nobody needs out of a loop or branch.
fn drop_carried(kernel: &mut Kernel, id: OpId, values: &HashSet<Value>) -> bool {
    let op = &kernel.ops[id];
    let dead: Vec<usize> =
        (0..op.results.len()).filter(|&n| !values.contains(&op.results[n])).collect();
    if dead.is_empty() || op.regions.is_empty() {
        return false;
    }
    let (kind, regions) = (op.kind.clone(), op.regions.clone());
    let first_init = if kind == OpKind::For { 3 } else { 0 };
    let first_argument = usize::from(kind == OpKind::For);
    for &n in dead.iter().rev() {
        let op = &mut kernel.ops[id];
        op.results.remove(n);
        if kind != OpKind::If {
            op.operands.remove(first_init + n);
        }
        for (r, &region) in regions.iter().enumerate() {
            if kind != OpKind::If {
                kernel.regions[region].arguments.remove(first_argument + n);
            }
            let first = usize::from(kind == OpKind::While && r == 0);
            if let Some(&last) = kernel.regions[region].ops.last() {
                kernel.ops[last].operands.remove(first + n);
            }
        }
    }
    for (n, value) in kernel.ops[id].results.clone().into_iter().enumerate() {
        kernel.values[value].definition = Definition::Result(id, n as u32);
    }
    for region in regions {
        for (n, value) in kernel.regions[region].arguments.clone().into_iter().enumerate() {
            kernel.values[value].definition = Definition::Argument(region, n as u32);
        }
    }
    true
}
