//! Cells and regions: how assignments become loop-carried values.
//!
//! A slot is one tile of a cell. Each open region knows the current value of the slots it has seen.
//! A loop body gets a region argument for every slot it reads that lives outside; when the body
//! ends, the slots written become carried values, and arguments of the others are forwarded to the
//! values they had before the loop.

use super::{At, Raw, Tracer};
use metile_ir::Diagnostic;
use metile_ir::tile::{Definition, OpKind, RegionId, TileType, Type, Value};
use std::collections::{BTreeSet, HashMap};

/// One tile of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Slot(u32);

impl Slot {
    /// The slot made `n` after this one; the tiles of one cell follow each other.
    pub(crate) fn after(self, n: u32) -> Slot {
        Slot(self.0 + n)
    }
}

pub(super) struct SlotData {
    name: String,
    /// `None` if the initial value is broken.
    ty: Option<TileType>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Root,
    Branch,
    Loop,
}

pub(super) struct Scope {
    region: RegionId,
    kind: Kind,
    current: HashMap<Slot, Value>,
    /// Region arguments made for slots that were read.
    arguments: HashMap<Slot, Value>,
    written: BTreeSet<Slot>,
    /// Slots from this one on were made inside.
    first_own: u32,
}

impl Scope {
    pub(super) fn root(region: RegionId) -> Scope {
        Scope {
            region,
            kind: Kind::Root,
            current: HashMap::new(),
            arguments: HashMap::new(),
            written: BTreeSet::new(),
            first_own: 0,
        }
    }

    fn outer_writes(&self) -> impl Iterator<Item = Slot> + '_ {
        self.written.iter().copied().filter(|slot| slot.0 < self.first_own)
    }
}

/// A region that was traced and left, not yet part of an operation.
pub(crate) struct Closed {
    scope: Scope,
}

/// The two kinds of loop.
pub(crate) enum Loop {
    /// Low, high, step.
    For([Raw; 3], Closed),
    /// The condition with its value, and the body.
    While(Closed, Raw, Closed),
}

impl Tracer {
    /// A new slot holding `init`.
    pub(crate) fn new_slot(&mut self, at: At, name: &str, init: Raw) -> Slot {
        let ty = self.tile_type(at, init);
        let slot = Slot(self.slots.len() as u32);
        self.slots.push(SlotData { name: name.to_owned(), ty });
        if let (Some(value), Some(scope)) = (init.value, self.scopes.last_mut()) {
            scope.current.insert(slot, value);
        }
        slot
    }

    pub(crate) fn read_slot(&mut self, slot: Slot) -> Raw {
        match self.slots[slot.0 as usize].ty {
            None => self.broken(),
            Some(_) => match self.read_at(self.scopes.len() - 1, slot) {
                Some(value) => self.raw(value),
                None => self.broken(),
            },
        }
    }

    fn read_at(&mut self, level: usize, slot: Slot) -> Option<Value> {
        // Scopes nest at most MAX_NESTING deep, so the recursion is bounded.
        let scope = &self.scopes[level];
        if let Some(&value) = scope.current.get(&slot) {
            return Some(value);
        }
        let value = match scope.kind {
            Kind::Root => return None,
            Kind::Branch => self.read_at(level - 1, slot)?,
            Kind::Loop => self.loop_argument(level, slot)?,
        };
        self.scopes[level].current.insert(slot, value);
        Some(value)
    }

    fn loop_argument(&mut self, level: usize, slot: Slot) -> Option<Value> {
        let data = &self.slots[slot.0 as usize];
        let (ty, name) = (data.ty?, data.name.clone());
        let region = self.scopes[level].region;
        let value = self.builder.argument(region, Type::Tile(ty), Some(name));
        self.scopes[level].arguments.insert(slot, value);
        Some(value)
    }

    pub(crate) fn write_slot(&mut self, at: At, slot: Slot, value: Raw) {
        let data = &self.slots[slot.0 as usize];
        let (Some(ty), name) = (data.ty, data.name.clone()) else { return };
        let Some(found) = self.tile_type(at, value) else { return };
        if found.shape.broadcast(&ty.shape) != Some(ty.shape) {
            return self.error(
                at,
                Diagnostic::error(format!(
                    "`{name}` holds a value of shape {} and can't take one of shape {}",
                    ty.shape, found.shape
                ))
                .hint("a variable keeps the shape it starts with; start it with `zeros` or `full` of the shape it needs"),
            );
        }
        let value = self.broadcast(at, value, ty.shape);
        if let (Some(value), Some(scope)) = (value.value, self.scopes.last_mut()) {
            scope.current.insert(slot, value);
            scope.written.insert(slot);
        }
    }

    /// Starts the region of a branch.
    pub(crate) fn open_branch(&mut self, at: At) {
        self.open(at, Kind::Branch);
    }
    /// Starts a region of a loop.
    pub(crate) fn open_loop(&mut self, at: At) {
        self.open(at, Kind::Loop);
    }

    fn open(&mut self, at: At, kind: Kind) {
        let limit = metile_ir::tile::verify::MAX_NESTING;
        if self.scopes.len() >= limit {
            self.error(
                at,
                Diagnostic::error(format!("loops and branches nest more than {limit} deep")),
            );
            // Recursion in a helper would never end; unwinding is the only way out.
            panic!("loops and branches nest more than {limit} deep");
        }
        let region = self.builder.new_region();
        let first_own = self.slots.len() as u32;
        self.scopes.push(Scope { kind, first_own, ..Scope::root(region) });
        self.builder.enter(region);
    }

    /// The index argument of the loop region under way.
    pub(crate) fn loop_index(&mut self) -> Raw {
        let region = self.builder.region();
        let ty = Type::Tile(TileType::scalar(metile_ir::DType::I64));
        let value = self.builder.argument(region, ty, None);
        self.raw(value)
    }

    /// Ends the region under way without a terminator: what it yields is not known yet.
    pub(crate) fn close(&mut self) -> Closed {
        let scope = match self.scopes.len() {
            0 | 1 => Scope::root(self.builder.region()),
            _ => self.scopes.pop().unwrap_or_else(|| Scope::root(self.builder.region())),
        };
        if let Some(outer) = self.scopes.last() {
            self.builder.enter(outer.region);
        }
        Closed { scope }
    }

    fn level(&self) -> usize {
        self.scopes.len() - 1
    }

    /// Ends `closed` with `kind`, yielding `first` and then the slots' values.
    fn terminate(&mut self, closed: &Closed, kind: OpKind, first: &[Value], values: &[Value]) {
        let outer = self.builder.enter(closed.scope.region);
        let operands: Vec<Value> = first.iter().chain(values).copied().collect();
        self.builder.control(kind, &operands, Vec::new(), &[]);
        self.builder.enter(outer);
    }

    /// Makes a branch of two traced regions; `gives` are the values each yields to the result.
    pub(crate) fn branch(
        &mut self,
        at: At,
        condition: Raw,
        then: (Closed, Vec<Raw>),
        otherwise: (Closed, Vec<Raw>),
    ) -> Vec<Raw> {
        let count = then.1.len();
        let written: BTreeSet<Slot> =
            then.0.scope.outer_writes().chain(otherwise.0.scope.outer_writes()).collect();
        let mut types: Vec<Type> = Vec::new();
        let mut whole = condition.value.is_some();
        for (a, b) in then.1.iter().zip(&otherwise.1) {
            let (a, b) = (self.tile_type(at, *a), self.tile_type(at, *b));
            match (a, b) {
                (Some(a), Some(b)) if a == b => types.push(Type::Tile(a)),
                (Some(a), Some(b)) => {
                    whole = false;
                    self.error(
                        at,
                        Diagnostic::error(format!(
                            "the two branches give values of shapes {} and {}",
                            a.shape, b.shape
                        ))
                        .hint("give both the same shape, as with `full(shape, value)`"),
                    );
                }
                _ => whole = false,
            }
        }
        for closed in [&then, &otherwise] {
            let mut values: Vec<Value> = closed.1.iter().filter_map(|r| r.value).collect();
            for slot in &written {
                let inside = closed.0.scope.current.get(slot).copied();
                values.extend(inside.or_else(|| self.read_at(self.level(), *slot)));
            }
            self.terminate(&closed.0, OpKind::Yield, &[], &values);
        }
        types.extend(written.iter().filter_map(|s| self.slot_type(*s)));
        let Some(test) = condition.value.filter(|_| whole) else {
            return vec![self.broken(); count];
        };
        let span = self.span(at);
        self.builder.set_span(Some(span));
        let regions = vec![then.0.scope.region, otherwise.0.scope.region];
        let op = self.builder.control(OpKind::If, &[test], regions, &types);
        let results = self.builder.kernel().ops[op].results.clone();
        self.write_results(&written, &results[count..]);
        results[..count].iter().map(|&v| self.raw(v)).collect()
    }

    fn slot_type(&self, slot: Slot) -> Option<Type> {
        self.slots[slot.0 as usize].ty.map(Type::Tile)
    }

    fn write_results(&mut self, slots: &BTreeSet<Slot>, results: &[Value]) {
        for (&slot, &value) in slots.iter().zip(results) {
            let name = self.slots[slot.0 as usize].name.clone();
            self.builder.kernel_mut().values[value].name = Some(name);
            if let Some(scope) = self.scopes.last_mut() {
                scope.current.insert(slot, value);
                scope.written.insert(slot);
            }
        }
    }

    /// Makes a loop of its traced regions.
    pub(crate) fn finish_loop(&mut self, at: At, this: Loop) {
        let regions: Vec<&Closed> = match &this {
            Loop::For(_, body) => vec![body],
            Loop::While(condition, _, body) => vec![condition, body],
        };
        let carried: BTreeSet<Slot> = regions.iter().flat_map(|c| c.scope.outer_writes()).collect();
        let level = self.level();
        let inits: Vec<Value> =
            carried.iter().filter_map(|&slot| self.read_at(level, slot)).collect();
        for closed in &regions {
            for (&slot, &argument) in &closed.scope.arguments {
                if !carried.contains(&slot)
                    && let Some(before) = self.read_at(level, slot)
                {
                    self.forwards.insert(argument, before);
                }
            }
            self.fix_arguments(closed, &carried, matches!(this, Loop::For(..)));
        }
        let types: Vec<Type> = carried.iter().filter_map(|s| self.slot_type(*s)).collect();
        let (kind, mut operands) = match &this {
            Loop::For(bounds, body) => {
                let values = self.carried_values(body, &carried);
                self.terminate(body, OpKind::Yield, &[], &values);
                (OpKind::For, bounds.iter().filter_map(|b| b.value).collect::<Vec<_>>())
            }
            Loop::While(condition, test, body) => {
                let values = self.carried_values(condition, &carried);
                self.terminate(condition, OpKind::Condition, test.value.as_slice(), &values);
                let values = self.carried_values(body, &carried);
                self.terminate(body, OpKind::Yield, &[], &values);
                (OpKind::While, Vec::new())
            }
        };
        operands.extend(inits);
        let ids: Vec<RegionId> = regions.iter().map(|c| c.scope.region).collect();
        let span = self.span(at);
        self.builder.set_span(Some(span));
        let op = self.builder.control(kind, &operands, ids, &types);
        let results = self.builder.kernel().ops[op].results.clone();
        self.write_results(&carried, &results);
    }

    /// Leaves the region with its index, if it has one, and one argument per carried slot, in order.
    fn fix_arguments(&mut self, closed: &Closed, carried: &BTreeSet<Slot>, indexed: bool) {
        let region = closed.scope.region;
        let mut arguments: Vec<Value> = Vec::new();
        if indexed {
            arguments.extend(self.builder.kernel().regions[region].arguments.first());
        }
        for &slot in carried {
            let known = closed.scope.arguments.get(&slot).copied();
            let made = || {
                let data = &self.slots[slot.0 as usize];
                data.ty.map(|ty| {
                    self.builder.argument(region, Type::Tile(ty), Some(data.name.clone()))
                })
            };
            arguments.extend(known.or_else(made));
        }
        let kernel = self.builder.kernel_mut();
        for (n, &value) in arguments.iter().enumerate() {
            kernel.values[value].definition = Definition::Argument(region, n as u32);
        }
        kernel.regions[region].arguments = arguments;
    }

    /// What each carried slot holds at the end of the region.
    fn carried_values(&mut self, closed: &Closed, carried: &BTreeSet<Slot>) -> Vec<Value> {
        let arguments = self.builder.kernel().regions[closed.scope.region].arguments.clone();
        let offset = arguments.len().saturating_sub(carried.len());
        carried
            .iter()
            .zip(arguments.into_iter().skip(offset))
            .map(|(slot, argument)| closed.scope.current.get(slot).copied().unwrap_or(argument))
            .collect()
    }
}
