//! The pass under construction.

use super::{Hint, Lowering, SlotView, Val, fuse};
use crate::cpu::CHUNK;
use crate::cpu::form::*;
use metile_ir::dtype::DType;
use metile_ir::tile::{Shape, Value};
use std::collections::HashMap;

/// Chunks and operands after which a pass is ended, so that they stay in the first-level cache.
const MAX_TEMPS: u16 = 48;
const MAX_ACCESSES: usize = 48;

/// A pass that element-wise operations of one shape still join.
#[derive(Debug)]
pub(super) struct Open {
    pub pass: Pass,
    /// Where values are that this pass reads or makes.
    sources: HashMap<Value, Source>,
    /// What it makes, in order.
    made: Vec<(Value, Temp)>,
    /// Scalars and tiles that its reductions make.
    reduced: Vec<(Value, Val)>,
    /// Places of tensors that may be written, by parameter.
    reads: Vec<(usize, Place)>,
    writes: Vec<(usize, Place)>,
    filled: HashMap<(DType, Reg), Temp>,
}

impl Open {
    fn new(shape: Shape) -> Open {
        Open {
            pass: Pass {
                shape,
                accesses: Vec::new(),
                setup: Vec::new(),
                steps: Vec::new(),
                reductions: Vec::new(),
                temps: 0,
                first_access: 0,
                homes: Vec::new(),
                reads: Vec::new(),
                ones: Vec::new(),
                together: 1,
                fixed: false,
                only_stores: false,
                heavy: false,
            },
            sources: HashMap::new(),
            made: Vec::new(),
            reduced: Vec::new(),
            reads: Vec::new(),
            writes: Vec::new(),
            filled: HashMap::new(),
        }
    }

    /// Whether `value` comes out of this pass, and only when it ends.
    pub fn makes(&self, value: Value) -> bool {
        self.reduced.iter().any(|(v, _)| *v == value)
    }

    pub fn temp(&mut self) -> Temp {
        self.pass.temps += 1;
        self.pass.temps - 1
    }

    fn access(&mut self, access: Access) -> u16 {
        let accesses = &mut self.pass.accesses;
        if let Some(at) = accesses.iter().position(|a| *a == access) {
            return at as u16;
        }
        accesses.push(access);
        accesses.len() as u16 - 1
    }

    /// For each operand, whether it is the only one of its tensor, and written.
    fn written_alone(&self, roots: &[usize]) -> Vec<bool> {
        let count = |list: &[(usize, Place)], root| list.iter().filter(|(r, _)| *r == root).count();
        let alone = |access: &Access| match access.place {
            Place::Tensor { view, .. } => {
                let root = roots[view as usize];
                count(&self.reads, root) == 0 && count(&self.writes, root) == 1
            }
            Place::Slot { .. } => false,
        };
        self.pass.accesses.iter().map(alone).collect()
    }

    /// A chunk in which every element is the scalar.
    pub fn filled(&mut self, dtype: DType, reg: Reg) -> Source {
        if let Some(&temp) = self.filled.get(&(dtype, reg)) {
            return Source::Temp(temp);
        }
        let to = self.temp();
        self.pass.setup.push(Step::Fill { dtype, reg, to });
        self.filled.insert((dtype, reg), to);
        Source::Temp(to)
    }

    /// Whether a read of what `root` holds at `place` may come after the writes of this pass.
    fn read_clashes(&self, root: usize) -> bool {
        self.writes.iter().any(|(other, _)| *other == root)
    }

    /// Whether a write at `place` may come in the same round as the accesses before it.
    fn write_clashes(&self, root: usize, place: &Place) -> bool {
        let clash = |(other, earlier): &(usize, Place)| {
            *other == root && earlier != place && !apart(earlier, place, &self.pass.shape)
        };
        // The same place: what was read of a chunk is read before the chunk is written. Written
        // twice is fine too: chunks are written in the order of the steps.
        self.reads.iter().chain(&self.writes).any(clash)
    }
}

/// Whether two walks over one view never meet: on some axis they differ by a constant that is larger
/// than the stretch either covers.
fn apart(a: &Place, b: &Place, shape: &Shape) -> bool {
    let (Place::Tensor { view: va, index: ia, .. }, Place::Tensor { view: vb, index: ib, .. }) =
        (a, b)
    else {
        return false;
    };
    va == vb
        && ia.iter().zip(ib).any(|(x, y)| {
            let span: i64 = (0..shape.rank())
                .map(|d| x.steps[d].saturating_abs() * (shape.side(d) as i64 - 1))
                .sum();
            let between = x.base.plus(&y.base, -1).and_then(|d| d.known());
            x.steps == y.steps && between.is_some_and(|d| d.unsigned_abs() > span as u64)
        })
}

impl Lowering<'_> {
    /// The open pass over `shape`; ends another one.
    pub(super) fn join(&mut self, shape: Shape) -> &mut Open {
        if self.open.as_ref().is_some_and(|open| open.pass.shape != shape) {
            self.close();
        }
        self.open.get_or_insert_with(|| Open::new(shape))
    }

    /// Ends the open pass if one of `values` is made only when it ends.
    pub(super) fn settle(&mut self, values: &[Value]) {
        let waits = self.open.as_ref().is_some_and(|open| values.iter().any(|&v| open.makes(v)));
        if waits {
            self.close();
        }
    }

    /// Opens or joins a pass over `shape` with room for another operation, in which every one of
    /// `values` can be had.
    pub(super) fn join_with(&mut self, shape: Shape, values: &[Value]) {
        self.settle(values);
        let full =
            |open: &Open| open.pass.temps >= MAX_TEMPS || open.pass.accesses.len() >= MAX_ACCESSES;
        if self.open.as_ref().is_some_and(full) {
            self.close();
        }
        self.join(shape);
    }

    /// `value` as an operand of the open pass, which has its shape.
    pub(super) fn source(&mut self, value: Value) -> Source {
        let val = self.val(value);
        let dtype = self.dtype(value);
        let shape = self.shape(value);
        let open = self.join(shape);
        if let Some(&source) = open.sources.get(&value) {
            return source;
        }
        let source = match val {
            Val::Reg(reg) | Val::Uniform(reg) => return Source::Reg(reg),
            Val::Temp(source) => source,
            Val::Index(index) => {
                let to = open.temp();
                open.pass.steps.push(Step::Index { index, to });
                Source::Temp(to)
            }
            Val::Mask(op, a, b) => {
                let to = open.temp();
                open.pass.steps.push(Step::IndexCompare { op, a, b, to });
                Source::Temp(to)
            }
            Val::Memory(access) => Source::Access(open.access(access)),
            Val::Slot(view) => Source::Access(open.access(slot_access(view, dtype))),
            Val::View(_) | Val::List(_) => Source::Reg(0),
        };
        open.sources.insert(value, source);
        source
    }

    /// As [`source`](Self::source), with scalars as chunks.
    pub(super) fn chunk(&mut self, value: Value) -> Source {
        let (dtype, shape) = (self.dtype(value), self.shape(value));
        match self.source(value) {
            Source::Reg(reg) => self.join(shape).filled(dtype, reg),
            source => source,
        }
    }

    /// Adds a step whose result is `value`.
    pub(super) fn make(&mut self, value: Value, step: impl FnOnce(Temp) -> Step) {
        let shape = self.shape(value);
        let open = self.join(shape);
        let to = open.temp();
        let step = step(to);
        open.pass.heavy |= is_heavy(&step);
        open.pass.steps.push(step);
        open.made.push((value, to));
        open.sources.insert(value, Source::Temp(to));
        self.set(value, Val::Temp(Source::Temp(to)));
    }

    /// Adds a reduction whose result, `value`, exists when the pass ends.
    pub(super) fn reduce_into(&mut self, value: Value, source: Source, reduction: Reduction) {
        let val = match &reduction.to {
            ReductionTarget::Reg(reg) => Val::Reg(*reg),
            ReductionTarget::Slot { slot, .. } => {
                Val::Slot(SlotView::whole(*slot, &self.shape(value)))
            }
        };
        self.set(value, val.clone());
        let Some(open) = &mut self.open else { return };
        open.pass.reductions.push(reduction);
        let reduction = open.pass.reductions.len() as u16 - 1;
        open.pass.steps.push(Step::Reduce { reduction, value: source });
        open.reduced.push((value, val));
    }

    /// Before a read in this pass of a tensor that may be written.
    pub(super) fn before_read(&mut self, shape: Shape, root: usize) {
        if self.join(shape).read_clashes(root) {
            self.close();
        }
        self.join(shape);
    }
    /// Before a write in this pass.
    pub(super) fn before_write(&mut self, shape: Shape, root: usize, place: &Place) {
        if self.join(shape).write_clashes(root, place) {
            self.close();
        }
        self.join(shape);
    }
    pub(super) fn note_read(&mut self, root: usize, place: Place) {
        if let Some(open) = &mut self.open {
            open.reads.push((root, place));
        }
    }
    pub(super) fn note_write(&mut self, root: usize, place: Place) {
        if let Some(open) = &mut self.open {
            open.writes.push((root, place));
        }
    }
    /// Whether the open pass touches what parameter `root` holds.
    pub(super) fn touches(&self, root: usize) -> bool {
        self.open
            .as_ref()
            .is_some_and(|o| o.reads.iter().chain(&o.writes).any(|(other, _)| *other == root))
    }
    /// Adds an operand in memory to the open pass.
    pub(super) fn add_access(&mut self, shape: Shape, access: Access) -> u16 {
        self.join(shape).access(access)
    }
    pub(super) fn push_step(&mut self, shape: Shape, step: Step) {
        self.join(shape).pass.steps.push(step);
    }

    /// Ends the open pass: what is still needed of it goes to slots.
    pub(super) fn close(&mut self) {
        let Some(mut open) = self.open.take() else { return };
        let shape = open.pass.shape;
        for (value, temp) in std::mem::take(&mut open.made) {
            if self.uses[value.index()] == 0 {
                continue;
            }
            let dtype = self.dtype(value);
            let slot = self
                .destination(value, &open.pass.accesses, &shape)
                .unwrap_or_else(|| self.slot(dtype, &shape));
            let view = SlotView::whole(slot, &shape);
            let access = open.access(slot_access(view, dtype));
            open.pass.steps.push(Step::Store { access, value: Source::Temp(temp) });
            self.set(value, Val::Slot(view));
        }
        if open
            .pass
            .steps
            .iter()
            .any(|s| matches!(s, Step::Store { .. } | Step::Scatter { .. } | Step::Reduce { .. }))
        {
            fuse::chains(&mut open.pass);
            fuse::choices(&mut open.pass);
            let alone = open.written_alone(&self.roots);
            fuse::homes(&mut open.pass, &alone);
            fuse::unread(&mut open.pass);
            reuse_temps(&mut open.pass);
            summarize(&mut open.pass);
            open.pass.first_access = self.accesses;
            self.accesses += open.pass.accesses.len();
            self.emit(Instr::Pass(Box::new(open.pass)));
        }
    }

    /// The slot in which the loop or branch around wants `value`, if nobody needs any more what lies
    /// there. `accesses` are the operands of the pass that makes it.
    pub(super) fn destination(
        &self,
        value: Value,
        accesses: &[Access],
        shape: &Shape,
    ) -> Option<SlotId> {
        let Hint { slot, argument } = self.hints.get(&value)?;
        let free = self.tenants[*slot as usize]
            .iter()
            .all(|tenant| *tenant == value || self.uses[tenant.index()] == 0);
        // A chunk may be overwritten only by the chunk that is computed from it.
        let in_step = accesses.iter().all(|access| match access.place {
            Place::Slot { slot: other, offset, strides } => {
                other != *slot || SlotView { slot: other, offset, strides }.is_whole(shape)
            }
            Place::Tensor { .. } => true,
        });
        let done = argument.is_none_or(|a| self.uses[a.index()] == 0);
        (free && in_step && done).then_some(*slot)
    }

    /// `value` in a slot, as a walk over it.
    pub(super) fn in_slot(&mut self, value: Value) -> SlotView {
        if let Some(open) = &self.open
            && (open.makes(value) || open.sources.contains_key(&value))
        {
            self.close();
        }
        if let Val::Slot(view) = self.val(value) {
            return view;
        }
        self.copy_out(value)
    }

    /// `value` in a slot of its own, row-major.
    pub(super) fn in_whole_slot(&mut self, value: Value) -> SlotId {
        let view = self.in_slot(value);
        if view.is_whole(&self.shape(value)) {
            return view.slot;
        }
        self.copy_out(value).slot
    }

    /// A copy of `value` in a new slot, which the value then lies in.
    fn copy_out(&mut self, value: Value) -> SlotView {
        let (dtype, shape) = (self.dtype(value), self.shape(value));
        let slot = self.slot(dtype, &shape);
        self.copy_to(value, slot);
        let view = SlotView::whole(slot, &shape);
        // Only from here to the end of this region: on other ways through the kernel the slot may
        // hold nothing yet.
        if let Some(scope) = self.scopes.last_mut() {
            scope.push((value, self.values[value.index()].clone()));
        }
        self.set(value, Val::Slot(view));
        view
    }

    /// Emits a pass that writes `value` to `slot`, row-major.
    pub(super) fn copy_to(&mut self, value: Value, slot: SlotId) {
        let shape = self.shape(value);
        self.copy_to_view(value, SlotView::whole(slot, &shape));
    }

    /// Emits a pass that writes `value` to the places that `view` walks over.
    pub(super) fn copy_to_view(&mut self, value: Value, view: SlotView) {
        let (dtype, shape) = (self.dtype(value), self.shape(value));
        if !matches!(self.val(value), Val::Temp(_)) {
            self.close();
        }
        self.join_with(shape, &[value]);
        let source = self.chunk(value);
        let access = self.add_access(shape, slot_access(view, dtype));
        self.push_step(shape, Step::Store { access, value: source });
        self.close();
    }
}

/// The operand that a walk over a slot is.
pub(super) fn slot_access(view: SlotView, dtype: DType) -> Access {
    let SlotView { slot, offset, strides } = view;
    Access { place: Place::Slot { slot, offset, strides }, dtype, widen: false, fill: None }
}

/// Whether a step takes so long that memory is idle meanwhile.
fn is_heavy(step: &Step) -> bool {
    use metile_ir::tile::UnaryOp as U;
    let Step::Unary { op, dtype: DType::F32, .. } = step else { return false };
    !matches!(op, U::Neg | U::Abs | U::Not | U::Floor | U::Ceil | U::Round | U::ReverseBits)
}

/// Notes which operands are read in place, and whether all that the pass leaves is in tensors.
fn summarize(pass: &mut Pass) {
    let mut reads = Vec::new();
    for step in &pass.steps {
        step.for_each_read(&mut |access| {
            if !reads.contains(&access) {
                reads.push(access);
            }
        });
    }
    let elsewhere = |step: &Step| match step {
        Step::Store { access, .. } => {
            matches!(pass.accesses[*access as usize].place, Place::Slot { .. })
        }
        Step::Scatter { .. } | Step::Reduce { .. } => true,
        _ => false,
    };
    let fed = |step: &Step| matches!(step, Step::Chain { reduction: Some(_), .. });
    let in_slot = |(_, access): &(Temp, u16)| {
        matches!(pass.accesses[*access as usize].place, Place::Slot { .. })
    };
    let only_stores =
        !pass.homes.iter().any(in_slot) && !pass.steps.iter().any(|s| elsewhere(s) || fed(s));
    pass.only_stores = only_stores;
    pass.together = together(pass);
    pass.ones = if pass.together == 1 { ones(pass, &reads) } else { Vec::new() };
    reads.retain(|access| !pass.ones.contains(access));
    pass.reads = reads;
}

/// Those of `reads` that have one element along a row, where no step needs more of it.
fn ones(pass: &Pass, reads: &[u16]) -> Vec<u16> {
    let inner = pass.shape.rank() - 1;
    let repeated = |access: &Access| match &access.place {
        Place::Slot { strides, .. } => strides[inner] == 0,
        Place::Tensor { index, .. } => index.iter().all(|i| i.steps[inner] == 0),
    };
    let (mut uses, mut as_one) = (vec![0; pass.accesses.len()], vec![0; pass.accesses.len()]);
    for step in &pass.steps {
        step.for_each_read(&mut |access| uses[access as usize] += 1);
        step.for_each_one(&mut |access| as_one[access as usize] += 1);
    }
    let fits = |&access: &u16| {
        let at = access as usize;
        let operand = &pass.accesses[at];
        operand.is_plain() && repeated(operand) && uses[at] == as_one[at]
    };
    reads.iter().copied().filter(fits).collect()
}

/// Rows that one chunk has room for, unless a chunk that is made in a slot would not lie there so.
fn together(pass: &Pass) -> usize {
    let Some(outer) = pass.shape.rank().checked_sub(2) else { return 1 };
    let side = pass.shape.side(outer + 1);
    let follow = |(_, access): &(Temp, u16)| match pass.accesses[*access as usize].place {
        Place::Slot { strides, .. } => strides[outer] == side as i64,
        Place::Tensor { .. } => true,
    };
    if pass.homes.iter().all(follow) { (CHUNK / side).clamp(1, pass.shape.side(outer)) } else { 1 }
}

/// Gives chunks whose lives do not meet the same memory. What a step makes never takes the place of
/// what it reads, since the two may differ in width.
fn reuse_temps(pass: &mut Pass) {
    let mut last = vec![0; pass.temps as usize];
    for (n, step) in pass.steps.iter_mut().enumerate() {
        step.for_each_temp(&mut |temp, _| last[*temp as usize] = n);
    }
    // A choice between two chunks may be one of them: these live on in it, and its own place is nobody
    // else's, who would write to them through it.
    let mut choices = Vec::new();
    for step in pass.steps.iter().rev() {
        if let Step::SelectIndex { a, b, to, .. } = step {
            choices.push(*to);
            let until = last[*to as usize];
            for source in [a, b] {
                if let Source::Temp(temp) = source {
                    last[*temp as usize] = last[*temp as usize].max(until);
                }
            }
        }
    }
    let mut fixed = vec![false; pass.temps as usize];
    for (temp, _) in &pass.homes {
        fixed[*temp as usize] = true;
    }
    for temp in choices {
        fixed[temp as usize] = true;
    }
    for step in &mut pass.setup {
        step.for_each_temp(&mut |temp, _| fixed[*temp as usize] = true);
    }
    let mut place: Vec<Option<Temp>> = vec![None; pass.temps as usize];
    let mut next: Temp = 0;
    for (temp, _) in fixed.iter().enumerate().filter(|(_, f)| **f) {
        place[temp] = Some(next);
        next += 1;
    }
    for step in &mut pass.setup {
        step.for_each_temp(&mut |temp, _| *temp = place[*temp as usize].unwrap_or(0));
    }
    for (temp, _) in &mut pass.homes {
        *temp = place[*temp as usize].unwrap_or(0);
    }
    let mut free: Vec<Temp> = Vec::new();
    for (n, step) in pass.steps.iter_mut().enumerate() {
        let mut done = Vec::new();
        step.for_each_temp(&mut |temp, made| {
            let old = *temp as usize;
            let new = *place[old].get_or_insert_with(|| {
                debug_assert!(made, "a chunk is made before it is read");
                free.pop().unwrap_or_else(|| {
                    next += 1;
                    next - 1
                })
            });
            *temp = new;
            if last[old] == n && !fixed[old] && !done.contains(&new) {
                done.push(new);
            }
        });
        free.extend(done);
    }
    pass.temps = next;
}
