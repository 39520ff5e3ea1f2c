//! Changing a kernel operation by operation.
//!
//! Replaced values are kept in a table and followed wherever an operand is looked at; one sweep at
//! the end writes them into the program, and [`compact`] drops what no region holds any more.

use metile_ir::Scalar;
use metile_ir::tile::verify::MAX_OPS;
use metile_ir::tile::{
    Definition, Kernel, Op, OpId, OpKind, Region, RegionId, TileType, Type, Value, ValueData,
};

/// How often one operation is rewritten in place before the next pass has to go on with it. No rule
/// undoes another, so this only bounds a mistake.
const MAX_TRIES: usize = 32;

/// What a rule did with an operation.
pub(super) enum Step {
    /// Nothing.
    Keep,
    /// Changed its kind or operands; rules may apply again.
    Changed,
    /// It goes away: its results are replaced, or it has no effect.
    Erase,
    /// These operations stand in its place; its results are replaced.
    Inline(Vec<OpId>),
}

/// A kernel being changed.
pub(super) struct Edit {
    pub kernel: Kernel,
    replaced: Vec<Option<Value>>,
    /// New operations to stand before the one looked at.
    before: Vec<OpId>,
    changed: bool,
}

/// Applies `rule` to every operation, outer regions before inner ones, definitions before uses.
pub(super) fn rewrite(kernel: Kernel, rule: impl Fn(&mut Edit, OpId) -> Step) -> (Kernel, bool) {
    let replaced = vec![None; kernel.values.len()];
    let mut edit = Edit { replaced, kernel, before: Vec::new(), changed: false };
    let mut regions = vec![edit.kernel.body];
    while let Some(region) = regions.pop() {
        let mut todo = std::mem::take(&mut edit.kernel.regions[region].ops);
        todo.reverse();
        let mut done = Vec::with_capacity(todo.len());
        while let Some(op) = todo.pop() {
            edit.resolve_operands(op);
            let mut step = rule(&mut edit, op);
            for _ in 0..MAX_TRIES {
                done.append(&mut edit.before);
                if !matches!(step, Step::Changed) {
                    break;
                }
                edit.changed = true;
                step = rule(&mut edit, op);
            }
            done.append(&mut edit.before);
            match step {
                Step::Keep | Step::Changed => {
                    regions.extend(&edit.kernel.ops[op].regions);
                    done.push(op);
                }
                Step::Erase => edit.changed = true,
                Step::Inline(ops) => {
                    edit.changed = true;
                    todo.extend(ops.into_iter().rev());
                }
            }
        }
        edit.kernel.regions[region].ops = done;
    }
    if edit.changed {
        return (edit.finish(), true);
    }
    (edit.kernel, false)
}

impl Edit {
    fn finish(mut self) -> Kernel {
        for (_, op) in placed(&self.kernel) {
            self.resolve_operands(op);
        }
        compact(&self.kernel)
    }

    fn resolve_operands(&mut self, op: OpId) {
        let operands = std::mem::take(&mut self.kernel.ops[op].operands);
        self.kernel.ops[op].operands = operands.into_iter().map(|v| self.resolve(v)).collect();
    }

    /// What stands for `value` now. A replacement is always defined before what it replaces, so the
    /// chain ends.
    pub fn resolve(&self, mut value: Value) -> Value {
        while let Some(Some(next)) = self.replaced.get(value.index()) {
            value = *next;
        }
        value
    }

    /// From here on, `with` stands for `value`; it must be visible wherever `value` is.
    pub fn substitute(&mut self, value: Value, with: Value) {
        let with = self.resolve(with);
        if with == value {
            return;
        }
        if self.replaced.len() <= value.index() {
            self.replaced.resize(self.kernel.values.len(), None);
        }
        self.replaced[value.index()] = Some(with);
        self.changed = true;
    }

    pub fn kind(&self, op: OpId) -> &OpKind {
        &self.kernel.ops[op].kind
    }

    /// The operands as they stand now.
    pub fn operands(&self, op: OpId) -> Vec<Value> {
        self.kernel.ops[op].operands.iter().map(|&v| self.resolve(v)).collect()
    }

    /// The type of the only result, if it is a tile.
    pub fn result_type(&self, op: OpId) -> Option<TileType> {
        self.kernel.ty(*self.kernel.ops[op].results.first()?).tile()
    }

    pub fn tile(&self, value: Value) -> Option<TileType> {
        self.kernel.ty(value).tile()
    }

    /// The operation that made `value`, and its operands as they stand now.
    pub fn definition(&self, value: Value) -> Option<(&OpKind, Vec<Value>)> {
        let op = self.kernel.defining_op(self.resolve(value))?;
        Some((self.kind(op), self.operands(op)))
    }

    /// The scalar that every element of `value` is, if it is a constant.
    pub fn constant(&self, value: Value) -> Option<Scalar> {
        self.kernel.constant(self.resolve(value))
    }

    /// A new operation before the one looked at; `None` if the kernel is as large as it may be.
    pub fn insert(
        &mut self,
        at: OpId,
        kind: OpKind,
        operands: Vec<Value>,
        ty: TileType,
    ) -> Option<Value> {
        if self.kernel.ops.len() >= MAX_OPS {
            return None;
        }
        let span = self.kernel.ops[at].span;
        let op = self.kernel.ops.push(Op {
            kind,
            operands,
            results: Vec::new(),
            regions: Vec::new(),
            span,
        });
        let value = self.kernel.values.push(ValueData {
            ty: Type::Tile(ty),
            definition: Definition::Result(op, 0),
            name: None,
        });
        self.kernel.ops[op].results.push(value);
        self.before.push(op);
        Some(value)
    }

    /// Makes `op` another operation with the same results.
    pub fn turn(&mut self, op: OpId, kind: OpKind, operands: Vec<Value>) -> Step {
        self.kernel.ops[op].kind = kind;
        self.kernel.ops[op].operands = operands;
        Step::Changed
    }

    /// Puts `with` in the place of the only result.
    pub fn replace(&mut self, op: OpId, with: Value) -> Step {
        if let Some(&result) = self.kernel.ops[op].results.first() {
            self.substitute(result, with);
        }
        Step::Erase
    }

    /// Puts `with` in the place of every result, in order.
    pub fn replace_all(&mut self, op: OpId, with: &[Value]) {
        let results = self.kernel.ops[op].results.clone();
        for (result, &value) in results.into_iter().zip(with) {
            self.substitute(result, value);
        }
    }

    /// The operations of `region` without its terminator, and the terminator's operands.
    pub fn open(&self, region: RegionId) -> (Vec<OpId>, Vec<Value>) {
        let mut ops = self.kernel.regions[region].ops.clone();
        let given = ops.pop().map(|last| self.operands(last)).unwrap_or_default();
        (ops, given)
    }
}

/// Every operation that stands in a region, with the region; outer before inner.
pub(super) fn placed(kernel: &Kernel) -> Vec<(RegionId, OpId)> {
    let mut found = Vec::new();
    let mut stack = vec![(kernel.body, 0)];
    while let Some((region, next)) = stack.pop() {
        if let Some(&op) = kernel.regions[region].ops.get(next) {
            stack.push((region, next + 1));
            found.push((region, op));
            stack.extend(kernel.ops[op].regions.iter().rev().map(|&r| (r, 0)));
        }
    }
    found
}

/// The same program with nothing in its arenas but what the program holds, in the program's order.
pub(super) fn compact(kernel: &Kernel) -> Kernel {
    let mut new = Kernel {
        persistent: kernel.persistent,
        precision: kernel.precision,
        files: kernel.files.clone(),
        ..Kernel::new(kernel.name.clone())
    };
    let mut values: Vec<Option<Value>> = vec![None; kernel.values.len()];
    let mut regions: Vec<Option<RegionId>> = vec![None; kernel.regions.len()];
    regions[kernel.body.index()] = Some(new.body);
    for (n, &old) in kernel.parameters.iter().enumerate() {
        let value = copy_value(kernel, &mut new, old, Definition::Parameter(n as u32));
        values[old.index()] = Some(value);
        new.parameters.push(value);
    }
    for (region, id) in placed(kernel) {
        let old = &kernel.ops[id];
        // Definitions come before uses in this order, so every operand has its new value.
        let operands = old.operands.iter().filter_map(|v| values[v.index()]).collect();
        let op = new.ops.push(Op {
            kind: old.kind.clone(),
            operands,
            results: Vec::new(),
            regions: Vec::new(),
            span: old.span,
        });
        if let Some(region) = regions[region.index()] {
            new.regions[region].ops.push(op);
        }
        for (n, &result) in old.results.iter().enumerate() {
            let value = copy_value(kernel, &mut new, result, Definition::Result(op, n as u32));
            values[result.index()] = Some(value);
            new.ops[op].results.push(value);
        }
        for &nested in &old.regions {
            let region = new.regions.push(Region::default());
            regions[nested.index()] = Some(region);
            new.ops[op].regions.push(region);
            for (n, &argument) in kernel.regions[nested].arguments.iter().enumerate() {
                let from = Definition::Argument(region, n as u32);
                let value = copy_value(kernel, &mut new, argument, from);
                values[argument.index()] = Some(value);
                new.regions[region].arguments.push(value);
            }
        }
    }
    new
}

fn copy_value(kernel: &Kernel, new: &mut Kernel, old: Value, definition: Definition) -> Value {
    let data = &kernel.values[old];
    new.values.push(ValueData { ty: data.ty, definition, name: data.name.clone() })
}
