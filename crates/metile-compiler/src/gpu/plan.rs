//! How a kernel is spread over a block: the number of warps, how products are computed, and the layout of every tile.
//!
//! Tiles that have to be laid out alike form a class: operands and results of element-wise operations, a loop's
//! values. What can be computed anywhere from coordinates (constants, index tiles, masks) is *free*: it has no layout of
//! its own. Classes get their layouts from the largest down: from a product, from memory they are read from or written to,
//! or from a larger class that they are reduced from or broadcast to.

use super::ahead;
use super::class::Class;
use super::facts::Facts;
use super::hopper::{self, Pipeline};
use super::layout::{Bit, Layout, bits};
use super::target::{Machine, Target};
use metile_ir::tile::{Definition, Kernel, OpId, OpKind, RegionId, Shape, Type, UnaryOp, Value};
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

/// Rows (or columns) up to which a product is computed as sums along the other operand's rows.
const FEW_ROWS: usize = 8;

/// How a product is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DotForm {
    /// One operand has few rows: the other stays where it was loaded, and its rows are summed.
    FewRows {
        /// Whether it is the right operand that has few columns.
        right: bool,
    },
    /// Both operands pass through shared memory; each thread sums a rectangle of outer products.
    OuterProduct,
    /// Four warps at a time, by `wgmma`.
    Warpgroups,
}

/// The plan.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Warps of a block.
    pub warps: u32,
    /// Values that are computed where they are used.
    pub free: Vec<bool>,
    /// The layout of every other tile.
    pub layouts: HashMap<Value, Layout>,
    /// How each product is computed.
    pub dots: HashMap<OpId, DotForm>,
    /// Loops whose loads run ahead of them.
    pub pipelines: HashMap<OpId, Pipeline>,
    /// Loads that do.
    pub staged: HashSet<OpId>,
    /// Operands of warpgroups' products that lie in shared memory while a loop runs, by the loop.
    pub held: HashMap<OpId, Vec<Value>>,
    /// Products by warpgroups that go on while the next iteration begins.
    pub in_flight: HashSet<OpId>,
    /// Loads that are begun an iteration early, by their loop.
    pub ahead: HashMap<OpId, Vec<OpId>>,
    /// Blocks that should fit a multiprocessor at once.
    pub blocks: u32,
    /// In which order the programs of a launch begin.
    pub traversal: Traversal,
}

/// In which order the programs of a launch begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Traversal {
    /// Axis 0 fastest, then axis 1, then axis 2.
    Linear,
    /// Within each position of axis 2: this many positions of axis 1 at a time, those fastest, then axis 0. Programs that run at once then
    /// share what they read along both axes.
    Grouped(u32),
}

/// Plans `kernel` for blocks of `target` and arguments of `classes`.
pub fn plan(kernel: &Kernel, target: &Target, classes: &[Class]) -> Plan {
    let free = find_free(kernel);
    let ops = kernel.walk(kernel.body);
    let mut dots = HashMap::new();
    for &id in &ops {
        if let OpKind::Dot { .. } = kernel.ops[id].kind {
            dots.insert(id, dot_form(kernel, target, id));
        }
    }
    let grouped: HashSet<OpId> =
        dots.iter().filter(|d| *d.1 == DotForm::Warpgroups).map(|d| *d.0).collect();
    let mut facts = Facts::new(kernel, classes);
    let (pipelines, blocks) = match grouped.is_empty() {
        true => (HashMap::new(), 1),
        false => hopper::pipelines(kernel, &mut facts, classes, &grouped),
    };
    let staged = pipelines.values().flat_map(|p| p.loads.iter().copied()).collect();
    let held = ops.iter().map(|&id| (id, hopper::held(kernel, id, &grouped)));
    let held = held.filter(|(_, values)| !values.is_empty()).collect();
    let in_flight = hopper::in_flight(kernel, &grouped, &pipelines);
    let warps = warps(kernel, &free, &dots, target);
    // Products with few rows wait for memory alone: more blocks at once serve them better than more registers.
    let staged_products =
        dots.iter().filter(|d| *d.1 == DotForm::OuterProduct).map(|d| *d.0).collect();
    let threads = 32 * warps as usize;
    let ahead = ahead::loads(kernel, threads, &staged_products, |id| pipelines.contains_key(&id));
    let mut classes = ClassesOfTiles::new(kernel, &free);
    for &id in &ops {
        classes.join_for(id);
    }
    let mut wishes = Wishes { kernel, warps, classes, anchors: HashMap::new(), ties: Vec::new() };
    for &id in &ops {
        wishes.gather(id, &dots);
    }
    let layouts = wishes.resolve();
    // Tiles of products read rows by one axis of the grid and columns by the other.
    let traversal = match pipelines.is_empty() {
        true => Traversal::Linear,
        false => Traversal::Grouped(8),
    };
    Plan {
        warps,
        free,
        layouts,
        dots,
        pipelines,
        staged,
        held,
        in_flight,
        ahead,
        blocks,
        traversal,
    }
}

fn shape(kernel: &Kernel, value: Value) -> Shape {
    kernel.ty(value).tile().map_or(Shape::SCALAR, |t| t.shape)
}

fn is_tile(kernel: &Kernel, value: Value) -> bool {
    matches!(kernel.ty(value), Type::Tile(t) if !t.shape.is_scalar())
}

/// Values that are made of constants, positions and scalars by cheap arithmetic.
fn find_free(kernel: &Kernel) -> Vec<bool> {
    let mut free = vec![false; kernel.values.len()];
    for id in kernel.walk(kernel.body) {
        let op = &kernel.ops[id];
        let cheap = matches!(
            &op.kind,
            OpKind::Constant(_)
                | OpKind::Arange
                | OpKind::Broadcast
                | OpKind::Reshape
                | OpKind::Transpose(_)
                | OpKind::Slice { .. }
                | OpKind::Binary(_)
                | OpKind::Compare(_)
                | OpKind::Select
                | OpKind::Cast
                | OpKind::Bitcast
                | OpKind::Unary(UnaryOp::Neg | UnaryOp::Not | UnaryOp::Abs)
        );
        let all = |&v: &Value| free[v.index()] || !is_tile(kernel, v);
        if cheap && op.operands.iter().all(all) {
            for &result in &op.results {
                free[result.index()] = is_tile(kernel, result);
            }
        }
    }
    free
}

fn dot_sides(kernel: &Kernel, id: OpId) -> (usize, usize, usize) {
    let op = &kernel.ops[id];
    let out = shape(kernel, op.results[0]);
    let a = shape(kernel, op.operands[0]);
    let transposed = matches!(op.kind, OpKind::Dot { transpose_a: true, .. });
    (out.side(0), out.side(1), a.side(usize::from(!transposed)))
}

fn dot_form(kernel: &Kernel, target: &Target, id: OpId) -> DotForm {
    let (m, n, _) = dot_sides(kernel, id);
    if target.machine == Machine::Hopper && hopper::fits(kernel, id) {
        DotForm::Warpgroups
    } else if m <= FEW_ROWS && m <= n {
        DotForm::FewRows { right: false }
    } else if n <= FEW_ROWS {
        DotForm::FewRows { right: true }
    } else {
        DotForm::OuterProduct
    }
}

/// Bytes of the largest tile that a thread reads: four vectors are enough to wait for at once.
const THREAD_BYTES: usize = 64;

/// Enough warps that a thread has 64 bytes of the largest tile as it lies in memory, and of a product no more than 64 registers.
fn warps(kernel: &Kernel, free: &[bool], dots: &HashMap<OpId, DotForm>, target: &Target) -> u32 {
    let (mut largest, mut bytes) = (1, 4);
    for (value, data) in kernel.values.iter() {
        let live = match data.definition {
            Definition::Result(..) | Definition::Argument(..) => !free[value.index()],
            Definition::Parameter(_) => false,
        };
        if live && is_tile(kernel, value) {
            let padded: usize =
                shape(kernel, value).sides().iter().map(|s| s.next_power_of_two()).product();
            let loaded = loaded_bytes(kernel, value).unwrap_or(4);
            match padded.cmp(&largest) {
                Ordering::Greater => (largest, bytes) = (padded, loaded),
                Ordering::Equal => bytes = bytes.min(loaded),
                Ordering::Less => {}
            }
        }
    }
    let groups = dots.iter().filter(|d| *d.1 == DotForm::Warpgroups);
    let groups = groups.map(|(&id, _)| {
        let (m, n, _) = dot_sides(kernel, id);
        hopper::warps(m, n)
    });
    if let Some(warps) = groups.max() {
        return warps;
    }
    let mut warps = (largest * bytes.clamp(2, 4) / (32 * THREAD_BYTES)).clamp(1, 16) as u32;
    if dots.values().any(|&form| form == DotForm::OuterProduct) {
        warps = warps.clamp(4, 8);
    }
    warps.next_power_of_two().min(target.threads / 32)
}

/// Sets of values that are laid out alike.
struct ClassesOfTiles<'k> {
    kernel: &'k Kernel,
    free: &'k [bool],
    parent: Vec<usize>,
}

impl<'k> ClassesOfTiles<'k> {
    fn new(kernel: &'k Kernel, free: &'k [bool]) -> Self {
        ClassesOfTiles { kernel, free, parent: (0..kernel.values.len()).collect() }
    }

    fn of(&mut self, value: Value) -> usize {
        let mut at = value.index();
        while self.parent[at] != at {
            self.parent[at] = self.parent[self.parent[at]];
            at = self.parent[at];
        }
        at
    }

    fn counts(&self, value: Value) -> bool {
        is_tile(self.kernel, value) && !self.free[value.index()]
    }

    fn join(&mut self, a: Value, b: Value) {
        if self.counts(a) && self.counts(b) && shape(self.kernel, a) == shape(self.kernel, b) {
            let (a, b) = (self.of(a), self.of(b));
            self.parent[a.max(b)] = a.min(b);
        }
    }

    fn terminator(&self, region: RegionId) -> Option<&'k metile_ir::tile::Op> {
        self.kernel.regions[region].ops.last().map(|&id| &self.kernel.ops[id])
    }

    fn join_for(&mut self, id: OpId) {
        let kernel = self.kernel;
        let op = &kernel.ops[id];
        match &op.kind {
            OpKind::Unary(_)
            | OpKind::Binary(_)
            | OpKind::Compare(_)
            | OpKind::Select
            | OpKind::Fma
            | OpKind::Cast
            | OpKind::Bitcast
            | OpKind::Scan { .. }
            | OpKind::Load { .. }
            | OpKind::AtomicRmw(_)
            | OpKind::AtomicCas => {
                for &operand in &op.operands {
                    self.join(operand, op.results[0]);
                }
            }
            OpKind::Store { .. } => {
                if let Some((&value, rest)) = op.operands.split_last() {
                    for &operand in rest {
                        self.join(operand, value);
                    }
                }
            }
            OpKind::Dot { .. } => self.join(op.operands[2], op.results[0]),
            OpKind::Gather { .. } => self.join(op.operands[1], op.results[0]),
            OpKind::For => {
                let region = op.regions[0];
                let inits = &op.operands[3..];
                self.join_carried(region, 1, inits, &op.results, 0);
            }
            OpKind::While => {
                self.join_carried(op.regions[0], 0, &op.operands, &op.results, 1);
                self.join_carried(op.regions[1], 0, &op.operands, &op.results, 0);
            }
            OpKind::If => {
                for &region in &op.regions {
                    if let Some(end) = self.terminator(region) {
                        for (&yielded, &result) in end.operands.iter().zip(&op.results) {
                            self.join(yielded, result);
                        }
                    }
                }
            }
            _ => {}
        }
    }

    /// Joins what enters, is yielded by and leaves a loop's region; `first_*` skip the index and the condition.
    fn join_carried(
        &mut self,
        region: RegionId,
        first_argument: usize,
        inits: &[Value],
        results: &[Value],
        first_yielded: usize,
    ) {
        let kernel = self.kernel;
        let arguments = &kernel.regions[region].arguments[first_argument..];
        let yielded: Vec<Value> = self
            .terminator(region)
            .map(|end| end.operands.iter().skip(first_yielded).copied().collect())
            .unwrap_or_default();
        for (n, &argument) in arguments.iter().enumerate() {
            let also = [inits.get(n), results.get(n), yielded.get(n)];
            for &other in also.into_iter().flatten() {
                self.join(other, argument);
            }
        }
    }
}

/// How the layout of one class follows from another's.
#[derive(Clone, Debug)]
enum Tie {
    /// The other class without an axis.
    Without(usize),
    /// What broadcasts from the first shape to the second, the other's.
    BeforeBroadcast(Shape, Shape),
    /// The other with axes renamed.
    Transposed(Vec<u8>),
    /// The row-major reshape of the other from one shape to another.
    Reshaped(Shape, Shape),
    /// The sums of a product with few rows: of the other's axis `long` it keeps the other axis, as axis `keep` of the result, whose other
    /// axis has `few` elements in registers.
    Sums { long: usize, keep: usize, few: usize },
}

impl Tie {
    fn apply(&self, other: &Layout) -> Option<Layout> {
        match self {
            Tie::Without(axis) => Some(other.without(*axis)),
            Tie::BeforeBroadcast(from, to) => Some(other.before_broadcast(from, to)),
            Tie::Transposed(axes) => Some(other.transposed(axes)),
            Tie::Reshaped(from, to) => other.reshaped(from, to),
            Tie::Sums { long, keep, few } => Some(sums_layout(other, *long, *keep, *few)),
        }
    }
}

/// The layout of the sums along `long` of a matrix laid out as `matrix`, for `few` rows (or columns) of the other operand.
pub fn sums_layout(matrix: &Layout, long: usize, keep: usize, few: usize) -> Layout {
    let mut layout = matrix
        .renamed(|bit| (bit.axis as usize != long).then_some(Bit { axis: keep as u8, ..bit }));
    let axis = 1 - keep as u8;
    layout.registers.extend((0..bits(few)).map(|bit| Bit { axis, bit }));
    layout
}

/// What would suit each class.
struct Wishes<'k> {
    kernel: &'k Kernel,
    warps: u32,
    classes: ClassesOfTiles<'k>,
    /// By class: rank of the wish, and the layout.
    anchors: HashMap<usize, (u32, Layout)>,
    /// Class, the class it follows, and how.
    ties: Vec<(usize, usize, Tie)>,
}

impl Wishes<'_> {
    fn anchor(&mut self, value: Value, rank: u32, layout: Layout) {
        if !self.classes.counts(value) {
            return;
        }
        let class = self.classes.of(value);
        let known = self.anchors.get(&class).map_or(0, |k| k.0);
        if rank > known {
            self.anchors.insert(class, (rank, layout));
        }
    }

    fn tie(&mut self, value: Value, other: Value, tie: Tie) {
        if self.classes.counts(value) && self.classes.counts(other) {
            let (class, other) = (self.classes.of(value), self.classes.of(other));
            self.ties.push((class, other, tie));
        }
    }

    /// The layout for accesses of a tensor that holds elements of so many bytes, along the tile's last long axis.
    fn in_memory(&mut self, value: Value, bytes: usize) {
        let shape = shape(self.kernel, value);
        let inner = (0..shape.rank()).rev().find(|&a| shape.side(a) > 1).unwrap_or(0);
        let layout = Layout::blocked(&shape, inner, 16 / bytes.max(1), self.warps);
        // Narrow elements want longer vectors; those serve wide ones too.
        self.anchor(value, 2 + 16 / bytes.max(1) as u32, layout);
    }

    fn gather(&mut self, id: OpId, dots: &HashMap<OpId, DotForm>) {
        let op = &self.kernel.ops[id];
        match &op.kind {
            OpKind::Load { .. } | OpKind::LoadTile => {
                let bytes = element_bytes(self.kernel, op.operands[0]);
                self.in_memory(op.results[0], bytes);
            }
            OpKind::Store { .. } | OpKind::StoreTile => {
                let bytes = element_bytes(self.kernel, op.operands[0]);
                if let Some(&value) = op.operands.last() {
                    self.in_memory(value, bytes);
                }
            }
            OpKind::Reduce { axis, .. } => {
                self.tie(op.results[0], op.operands[0], Tie::Without(*axis as usize));
            }
            OpKind::Broadcast => {
                let (from, to) =
                    (shape(self.kernel, op.operands[0]), shape(self.kernel, op.results[0]));
                self.tie(op.operands[0], op.results[0], Tie::BeforeBroadcast(from, to));
            }
            OpKind::Transpose(axes) => {
                self.tie(op.results[0], op.operands[0], Tie::Transposed(axes.clone()));
                let mut back = vec![0; axes.len()];
                for (to, &from) in axes.iter().enumerate() {
                    back[from as usize] = to as u8;
                }
                self.tie(op.operands[0], op.results[0], Tie::Transposed(back));
            }
            OpKind::Reshape => {
                let (from, to) =
                    (shape(self.kernel, op.operands[0]), shape(self.kernel, op.results[0]));
                self.tie(op.results[0], op.operands[0], Tie::Reshaped(from, to));
                self.tie(op.operands[0], op.results[0], Tie::Reshaped(to, from));
            }
            OpKind::Dot { transpose_a, transpose_b } => {
                let form = dots.get(&id).copied().unwrap_or(DotForm::OuterProduct);
                self.dot(id, form, (*transpose_a, *transpose_b));
            }
            _ => {}
        }
    }

    fn dot(&mut self, id: OpId, form: DotForm, (ta, tb): (bool, bool)) {
        let op = &self.kernel.ops[id];
        let (m, n, _) = dot_sides(self.kernel, id);
        let (a, b, out) = (op.operands[0], op.operands[1], op.results[0]);
        match form {
            // A product of fewer rows than the block's warpgroups have repeats them.
            DotForm::Warpgroups if m >= 16 * self.warps as usize => {
                self.anchor(out, 100, hopper::sums(m, n, self.warps));
            }
            DotForm::Warpgroups | DotForm::OuterProduct => {
                let shape = shape(self.kernel, out);
                let side = |elements: usize| if elements >= 64 { 8 } else { 4 };
                let (rows, columns) = (side(m), side(n));
                self.anchor(out, 100, Layout::outer_product(&shape, rows, columns, self.warps));
                for (value, turned) in [(a, !ta), (b, tb)] {
                    if turned {
                        self.turning(value);
                    }
                }
            }
            DotForm::FewRows { right } => {
                let (matrix, long, keep, few) = match right {
                    false => (b, usize::from(tb), 1, m),
                    true => (a, usize::from(!ta), 0, n),
                };
                let bytes = self.kernel.ty(matrix).tile().map_or(4, |t| t.dtype.bytes());
                let shape = shape(self.kernel, matrix);
                let layout = match long {
                    // Rows lie along the sum: threads beside each other have neighbours of a row, warps have rows.
                    0 => Layout::blocked(&shape, 1, 16 / bytes, self.warps),
                    _ => rows_layout(&shape, long, 16 / bytes, self.warps),
                };
                self.anchor(matrix, 50, layout);
                self.tie(out, matrix, Tie::Sums { long, keep, few });
            }
        }
    }

    /// The layout for an operand whose rows are summed along, which are columns in shared memory; stronger than what would suit its loads.
    fn turning(&mut self, value: Value) {
        let Some(ty) = self.kernel.ty(value).tile() else { return };
        let loaded = loaded_bytes(self.kernel, value).unwrap_or(ty.dtype.bytes());
        self.anchor(value, 40, Layout::turning(&ty.shape, 16 / loaded.max(1), self.warps));
    }

    fn resolve(mut self) -> HashMap<Value, Layout> {
        let kernel = self.kernel;
        let mut members: HashMap<usize, Vec<Value>> = HashMap::new();
        for (value, _) in kernel.values.iter() {
            if self.classes.counts(value) {
                let class = self.classes.of(value);
                members.entry(class).or_default().push(value);
            }
        }
        let elements =
            |members: &[Value]| members.first().map_or(0, |&v| shape(kernel, v).elements());
        let mut order: Vec<usize> = members.keys().copied().collect();
        order.sort_by_key(|c| {
            let rank = self.anchors.get(c).map_or(0, |a| a.0);
            (std::cmp::Reverse(rank >= 50), std::cmp::Reverse(elements(&members[c])), *c)
        });
        let mut resolved: HashMap<usize, Layout> = HashMap::new();
        for class in order {
            let own = self.anchors.get(&class).filter(|a| a.0 >= 50).map(|a| a.1.clone());
            let followed = || {
                self.ties
                    .iter()
                    .filter(|t| t.0 == class)
                    .find_map(|(_, other, tie)| tie.apply(resolved.get(other)?))
            };
            let weak = || self.anchors.get(&class).map(|a| a.1.clone());
            let plain = || {
                let shape = members[&class].first().map_or(Shape::SCALAR, |&v| shape(kernel, v));
                Layout::blocked(&shape, shape.rank().saturating_sub(1), 4, self.warps)
            };
            let layout = own.or_else(followed).or_else(weak).unwrap_or_else(plain);
            resolved.insert(class, layout);
        }
        let mut layouts = HashMap::new();
        for (class, values) in members {
            for value in values {
                layouts.insert(value, resolved[&class].clone());
            }
        }
        layouts
    }
}

/// Bytes of an element in memory of what `value` is loaded from and perhaps cast, if it is.
fn loaded_bytes(kernel: &Kernel, value: Value) -> Option<usize> {
    let op = &kernel.ops[kernel.defining_op(value)?];
    match op.kind {
        OpKind::Cast => loaded_bytes(kernel, op.operands[0]),
        OpKind::Load { .. } | OpKind::LoadTile => Some(element_bytes(kernel, op.operands[0])),
        _ => None,
    }
}

/// Bytes of the elements of a tensor; packed ones are read several at a time, as if they had 2.
fn element_bytes(kernel: &Kernel, view: Value) -> usize {
    match kernel.ty(view) {
        Type::Tensor(t) => match t.format {
            metile_ir::Format::Plain(d) => d.bytes(),
            metile_ir::Format::Packed(_) => 2,
        },
        _ => 4,
    }
}

/// The layout of a matrix whose rows are summed along `long`: a warp has whole rows, several warps several rows.
fn rows_layout(shape: &Shape, long: usize, vector: usize, warps: u32) -> Layout {
    let other = 1 - long;
    let bit = |axis: usize| move |bit| Bit { axis: axis as u8, bit };
    let (k, n) = (bits(shape.side(long)), bits(shape.side(other)));
    let vector = (vector.trailing_zeros() as u8).min(k.saturating_sub(5));
    let first = (vector + 5).min(k);
    let mut order: Vec<Bit> = (0..first).map(bit(long)).collect();
    // Lanes that the row leaves idle take further rows.
    order.extend((0..n).map(bit(other)));
    order.extend((first..k).map(bit(long)));
    let mut rest = order.split_off(vector as usize).into_iter();
    let mut registers = order;
    let lanes = std::array::from_fn(|_| rest.next());
    let warps = (0..warps.trailing_zeros()).map(|_| rest.next()).collect();
    registers.extend(rest);
    Layout { registers, lanes, warps }
}
