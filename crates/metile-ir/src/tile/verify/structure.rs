//! Handles, regions, visibility and terminators.

use super::MAX_NESTING;
use crate::diagnostic::Diagnostic;
use crate::tile::infer::op_name;
use crate::tile::{Definition, Kernel, Op, OpId, OpKind, RegionId, Value};

/// The walk over regions. `visible` holds the values of the enclosing regions and of this one so far.
struct Walk<'k> {
    kernel: &'k Kernel,
    errors: Vec<Diagnostic>,
    visible: Vec<bool>,
    region_seen: Vec<bool>,
    op_seen: Vec<bool>,
}

/// One region under way: where it is, and what became visible in it.
struct Frame {
    region: RegionId,
    next: usize,
    owner: Option<OpId>,
    shown: Vec<Value>,
}

pub(super) fn check(kernel: &Kernel) -> Vec<Diagnostic> {
    let mut walk = Walk {
        kernel,
        errors: Vec::new(),
        visible: vec![false; kernel.values.len()],
        region_seen: vec![false; kernel.regions.len()],
        op_seen: vec![false; kernel.ops.len()],
    };
    for (n, &value) in kernel.parameters.iter().enumerate() {
        walk.define(value, Definition::Parameter(n as u32), None);
    }
    let mut stack = Vec::new();
    walk.enter(kernel.body, None, &mut stack);
    // One broken handle makes everything after it doubtful: the first error is the useful one.
    while let Some(mut frame) = stack.pop() {
        if !walk.errors.is_empty() {
            break;
        }
        let ops = &kernel.regions[frame.region].ops;
        let Some(&id) = ops.get(frame.next) else {
            for value in frame.shown {
                walk.visible[value.index()] = false;
            }
            if let Some(owner) = frame.owner {
                walk.leave(owner, frame.region, &mut stack);
            }
            continue;
        };
        frame.next += 1;
        let last = frame.next == ops.len();
        let (region, owner) = (frame.region, frame.owner);
        stack.push(frame);
        walk.op(id, region, owner, last, &mut stack);
    }
    walk.errors
}

impl Walk<'_> {
    fn fail(&mut self, op: Option<&Op>, message: String) {
        self.errors.push(Diagnostic::error(message).at(op.and_then(|o| o.span)));
    }

    fn define(&mut self, value: Value, definition: Definition, op: Option<&Op>) -> bool {
        if !self.kernel.values.contains(value) {
            self.fail(op, format!("{value:?} is no value of the kernel"));
            return false;
        }
        if self.kernel.values[value].definition != definition || self.visible[value.index()] {
            self.fail(op, format!("{value:?} does not come from where the kernel says it does"));
            return false;
        }
        self.visible[value.index()] = true;
        true
    }

    fn enter(&mut self, region: RegionId, owner: Option<OpId>, stack: &mut Vec<Frame>) {
        let op = owner.map(|o| &self.kernel.ops[o]);
        if !self.kernel.regions.contains(region) {
            return self.fail(op, format!("{region:?} is no region of the kernel"));
        }
        if std::mem::replace(&mut self.region_seen[region.index()], true) {
            return self.fail(op, format!("region {region:?} is used twice"));
        }
        if stack.len() >= MAX_NESTING {
            return self.fail(op, format!("regions nest more than {MAX_NESTING} deep"));
        }
        if self.kernel.regions[region].ops.is_empty() {
            return self.fail(op, "a region ends without a terminator".to_owned());
        }
        let mut shown = Vec::new();
        for (n, &value) in self.kernel.regions[region].arguments.iter().enumerate() {
            if self.define(value, Definition::Argument(region, n as u32), op) {
                shown.push(value);
            }
        }
        if owner.is_none() && !shown.is_empty() {
            self.fail(None, "the kernel's body takes no arguments".to_owned());
        }
        stack.push(Frame { region, next: 0, owner, shown });
    }

    fn op(
        &mut self,
        id: OpId,
        region: RegionId,
        owner: Option<OpId>,
        last: bool,
        stack: &mut Vec<Frame>,
    ) {
        if !self.kernel.ops.contains(id) {
            return self.fail(None, format!("{id:?} is no operation of the kernel"));
        }
        let op = &self.kernel.ops[id];
        let name = op_name(&op.kind);
        if std::mem::replace(&mut self.op_seen[id.index()], true) {
            return self.fail(Some(op), format!("`{name}` stands in two places"));
        }
        for &value in &op.operands {
            if !self.kernel.values.contains(value) || !self.visible[value.index()] {
                return self.fail(
                    Some(op),
                    format!("`{name}` uses {value:?}, which is not defined before it or not visible here"),
                );
            }
        }
        self.terminator(op, region, owner, last);
        if op.regions.len() != op.kind.region_count() {
            let (has, wants) = (op.regions.len(), op.kind.region_count());
            return self.fail(Some(op), format!("`{name}` has {has} regions, not {wants}"));
        }
        if let Some(&first) = op.regions.first() {
            self.enter(first, Some(id), stack);
        } else if let Some(frame) = stack.last_mut() {
            self.results(id, &mut frame.shown);
        }
    }

    /// After a region: the next one of its operation, or the operation's results.
    fn leave(&mut self, owner: OpId, region: RegionId, stack: &mut Vec<Frame>) {
        let regions = &self.kernel.ops[owner].regions;
        let next = regions.iter().position(|&r| r == region).map_or(0, |at| at + 1);
        if let Some(&next) = regions.get(next) {
            self.enter(next, Some(owner), stack);
        } else if let Some(parent) = stack.last_mut() {
            self.results(owner, &mut parent.shown);
        }
    }

    fn terminator(&mut self, op: &Op, region: RegionId, owner: Option<OpId>, last: bool) {
        let wanted = match owner.map(|o| &self.kernel.ops[o]) {
            None => OpKind::Return,
            Some(o) if o.kind == OpKind::While && o.regions.first() == Some(&region) => {
                OpKind::Condition
            }
            Some(_) => OpKind::Yield,
        };
        let name = op_name(&op.kind);
        if last && op.kind != wanted {
            self.fail(
                Some(op),
                format!("a region ends in `{name}`, not in `{}`", op_name(&wanted)),
            );
        } else if !last && op.kind.is_terminator() {
            self.fail(Some(op), format!("`{name}` stands before the end of its region"));
        }
    }

    fn results(&mut self, id: OpId, shown: &mut Vec<Value>) {
        let op = &self.kernel.ops[id];
        for (n, &value) in op.results.iter().enumerate() {
            if self.define(value, Definition::Result(id, n as u32), Some(op)) {
                shown.push(value);
            }
        }
    }
}
