//! What nobody uses goes away: operations without effect, and values carried through loops and
//! branches, cycles of them included.
//!
//! Everything starts out dead, and life spreads from what has an effect. A loop or branch that holds
//! nothing living goes as a whole, except for `while`, which may not end: that is an effect too.
//! A removed load, or integer division, warns of nothing any more: warnings are advice.

use super::edit::{compact, placed};
use metile_ir::tile::{Definition, Kernel, OpId, OpKind, RegionId, Value};

/// Runs the pass; gives the new kernel, and whether anything changed.
pub fn run(mut kernel: Kernel) -> (Kernel, bool) {
    let order = placed(&kernel);
    let mut life = Life::new(&kernel, &order);
    for &(_, op) in &order {
        let op_data = &kernel.ops[op];
        let root = op_data.kind == OpKind::While
            || (op_data.kind.has_effect() && !op_data.kind.is_terminator());
        if root {
            life.op(op);
        }
    }
    life.spread();
    let Life { ops: live, slots, .. } = life;
    let dead = order.iter().any(|&(_, op)| {
        let carried = !kernel.ops[op].regions.is_empty() && slots[op.index()].contains(&false);
        !live[op.index()] || carried
    });
    if !dead {
        return (kernel, false);
    }
    for &(_, op) in &order {
        if live[op.index()] && !kernel.ops[op].regions.is_empty() {
            trim(&mut kernel, op, &slots[op.index()]);
        }
    }
    let regions: Vec<RegionId> = kernel.regions.iter().map(|(region, _)| region).collect();
    for region in regions {
        kernel.regions[region].ops.retain(|op| live[op.index()]);
    }
    (compact(&kernel), true)
}

/// What is known to live so far.
struct Life<'k> {
    kernel: &'k Kernel,
    ops: Vec<bool>,
    values: Vec<bool>,
    /// For loops and branches: which of the carried values live. Each is one slot: the initial value,
    /// the region arguments, what is yielded, and the result.
    slots: Vec<Vec<bool>>,
    /// The loop or branch that each region belongs to, and each operation's region.
    owner: Vec<Option<OpId>>,
    home: Vec<Option<RegionId>>,
    todo: Vec<Value>,
}

impl<'k> Life<'k> {
    fn new(kernel: &'k Kernel, order: &[(RegionId, OpId)]) -> Life<'k> {
        let mut life = Life {
            kernel,
            ops: vec![false; kernel.ops.len()],
            values: vec![false; kernel.values.len()],
            slots: vec![Vec::new(); kernel.ops.len()],
            owner: vec![None; kernel.regions.len()],
            home: vec![None; kernel.ops.len()],
            todo: Vec::new(),
        };
        for &(region, op) in order {
            let data = &kernel.ops[op];
            life.home[op.index()] = Some(region);
            // Terminators live as long as their region does; their operands, slot by slot.
            life.ops[op.index()] = data.kind.is_terminator();
            for &nested in &data.regions {
                life.owner[nested.index()] = Some(op);
                life.slots[op.index()] = vec![false; data.results.len()];
            }
        }
        life
    }

    /// Marks `op` and everything around it, and what they need whatever is carried.
    fn op(&mut self, op: OpId) {
        let mut next = Some(op);
        while let Some(op) = next {
            if std::mem::replace(&mut self.ops[op.index()], true) {
                return;
            }
            let data = &self.kernel.ops[op];
            match data.kind {
                OpKind::For => self.todo.extend(data.operands.iter().take(3)),
                OpKind::While => {
                    let condition = data.regions.first().and_then(|&r| self.given(r).first());
                    self.todo.extend(condition);
                }
                _ => self.todo.extend(&data.operands),
            }
            next = self.home[op.index()].and_then(|region| self.owner[region.index()]);
        }
    }

    /// The operands of the region's terminator.
    fn given(&self, region: RegionId) -> &'k [Value] {
        let last = self.kernel.regions[region].ops.last();
        last.map_or(&[], |&op| &self.kernel.ops[op].operands)
    }

    fn spread(&mut self) {
        while let Some(value) = self.todo.pop() {
            if std::mem::replace(&mut self.values[value.index()], true) {
                continue;
            }
            match self.kernel.values[value].definition {
                Definition::Parameter(_) => {}
                Definition::Result(op, n) => {
                    self.op(op);
                    self.slot(op, Some(n as usize));
                }
                Definition::Argument(region, n) => {
                    let Some(op) = self.owner[region.index()] else { continue };
                    self.op(op);
                    let is_for = self.kernel.ops[op].kind == OpKind::For;
                    // The first argument of `for` is the index, which is in no slot.
                    self.slot(op, (n as usize).checked_sub(usize::from(is_for)));
                }
            }
        }
    }

    /// Marks carried value `n` of a loop or branch.
    fn slot(&mut self, op: OpId, n: Option<usize>) {
        let Some(n) = n else { return };
        let Some(slot) = self.slots[op.index()].get_mut(n) else { return };
        if std::mem::replace(slot, true) {
            return;
        }
        let data = &self.kernel.ops[op];
        if let Some(first) = first_init(&data.kind) {
            self.todo.extend(data.operands.get(first + n));
        }
        for &region in &data.regions {
            let skip = first_given(self.kernel, region);
            self.todo.extend(self.given(region).get(skip + n));
        }
    }
}

/// Which operand is the first initial value; a branch has none.
fn first_init(kind: &OpKind) -> Option<usize> {
    match kind {
        OpKind::For => Some(3),
        OpKind::While => Some(0),
        _ => None,
    }
}

/// Which operand of the region's terminator is the first value given: after the condition, if any.
fn first_given(kernel: &Kernel, region: RegionId) -> usize {
    let last = kernel.regions[region].ops.last();
    usize::from(last.is_some_and(|&op| kernel.ops[op].kind == OpKind::Condition))
}

/// Removes the slots of a loop or branch that do not live.
fn trim(kernel: &mut Kernel, op: OpId, slots: &[bool]) {
    if !slots.contains(&false) {
        return;
    }
    let keep = |values: &mut Vec<Value>, skip: usize| {
        let mut n = 0;
        values.retain(|_| {
            n += 1;
            n <= skip || slots.get(n - 1 - skip).copied().unwrap_or(true)
        });
    };
    if let Some(skip) = first_init(&kernel.ops[op].kind) {
        keep(&mut kernel.ops[op].operands, skip);
    }
    keep(&mut kernel.ops[op].results, 0);
    let index = usize::from(kernel.ops[op].kind == OpKind::For);
    for region in kernel.ops[op].regions.clone() {
        keep(&mut kernel.regions[region].arguments, index);
        let skip = first_given(kernel, region);
        if let Some(&last) = kernel.regions[region].ops.last() {
            keep(&mut kernel.ops[last].operands, skip);
        }
    }
    // The numbers of the results and arguments left are set anew when the kernel is compacted.
}
