//! Operands in memory with strides and extents put in: where a row of one lies, as sums over the
//! program's registers. Made once when arguments are bound, where the tensor is known by then.

use super::view::View;
use super::walk::within;
use metile_compiler::cpu::{Access, Form, Index, Instr, Linear, Pass, Place};
use metile_ir::dtype::{DType, Format};
use metile_ir::tile::MAX_RANK;
use std::ops::Range;

/// A number that depends on the program and on the row: what each outer axis adds, and each element
/// along the row.
#[derive(Debug, Default)]
pub(super) struct Course {
    start: Linear,
    outer: [i64; MAX_RANK],
    pub step: i64,
}

impl Course {
    fn clear(&mut self) {
        self.start.constant = 0;
        self.start.terms.clear();
        self.outer = [0; MAX_RANK];
        self.step = 0;
    }

    /// Adds `factor` times an index tile whose last axis is `inner`.
    fn add(&mut self, index: &Index, inner: usize, factor: i64) {
        self.start.add(&index.base, factor);
        for axis in 0..inner {
            let by = index.steps[axis].wrapping_mul(factor);
            self.outer[axis] = self.outer[axis].wrapping_add(by);
        }
        self.step = self.step.wrapping_add(index.steps[inner].wrapping_mul(factor));
    }

    /// The number at element 0 of the row at `position` on the outer axes.
    #[inline]
    pub fn at(&self, regs: &[u64], position: &[usize]) -> i64 {
        let mut value = self.start.value(regs);
        for (by, &at) in self.outer.iter().zip(position) {
            value = value.wrapping_add(by.wrapping_mul(at as i64));
        }
        value
    }
}

/// A coordinate that has to lie in `0 .. extent`.
#[derive(Debug, Default)]
struct Limit {
    coordinate: Course,
    extent: i64,
}

/// Where the rows of an operand lie.
#[derive(Debug, Default)]
pub(super) struct Route {
    /// Where bytes are counted from; `None` for the program's scratch memory.
    base: Option<*mut u8>,
    /// Bytes from there; for packed formats, blocks.
    at: Course,
    /// For packed formats: the column.
    pub column: Course,
    /// The elements within the tensor where no limit cuts the row.
    high: usize,
    limits: Vec<Limit>,
    used: usize,
    /// The pass's last axis.
    inner: usize,
    /// Whether elements lie side by side as they are wanted, so that a whole row is used in place.
    pub direct: bool,
    /// Whether each row goes on where the one before ends, so that several are one long row.
    pub flat: bool,
    /// Whether the tensor is more than the caches hold: what is written should go past them, and what
    /// is read be asked for in time.
    pub stream: bool,
}

// SAFETY: a route is a place in memory; who uses it holds the storage's lock.
unsafe impl Send for Route {}
// SAFETY: as above.
unsafe impl Sync for Route {}

/// A row of an operand: elements `low .. high` lie in memory, from `first` on, where element 0 is or
/// would be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Walk {
    pub first: *mut u8,
    pub low: usize,
    pub high: usize,
}

impl Walk {
    pub const NONE: Walk = Walk { first: std::ptr::null_mut(), low: 0, high: 0 };
}

/// The routes of all operands of a form's passes whose tensors are known when arguments are bound;
/// those of others are empty.
pub(super) fn routes(form: &Form, views: &[View], grid: [u64; 3]) -> Vec<Route> {
    let mut routes: Vec<Route> = Vec::new();
    routes.resize_with(form.accesses, Route::default);
    for instr in &form.code {
        let Instr::Pass(pass) = instr else { continue };
        for (n, access) in pass.accesses.iter().enumerate() {
            if access.is_fixed(&form.fixed_views) {
                let route = &mut routes[pass.first_access + n];
                route.set(form, pass, access, views);
                route.drop_limits(grid);
            }
        }
    }
    routes
}

impl Route {
    /// Puts in the places, strides and extents that hold now.
    pub fn set(&mut self, form: &Form, pass: &Pass, access: &Access, views: &[View]) {
        let inner = pass.shape.rank() - 1;
        let side = pass.shape.side(inner);
        self.flat = pass.together > 1 && is_flat(access, inner, side as i64, views);
        self.at.clear();
        self.column.clear();
        self.used = 0;
        self.inner = inner;
        self.high = side;
        self.stream = false;
        let mut packed = false;
        match &access.place {
            Place::Slot { slot, offset, strides } => {
                let bytes = access.dtype.bytes() as i64;
                self.base = None;
                let first = form.slots[*slot as usize].0 as i64;
                self.at.start.constant = first.wrapping_add(offset.wrapping_mul(bytes));
                for (to, stride) in self.at.outer.iter_mut().zip(&strides[..inner]) {
                    *to = stride.wrapping_mul(bytes);
                }
                self.at.step = strides[inner].wrapping_mul(bytes);
            }
            Place::Tensor { view, format, index } => {
                let view = &views[*view as usize];
                self.base = Some(view.parts[0]);
                self.stream = view.stream;
                let (bytes, axes) = match format {
                    Format::Plain(dtype) => (dtype.bytes() as i64, view.rank),
                    // The last axis is counted in elements, not in blocks.
                    Format::Packed(_) => (1, view.rank - 1),
                };
                packed = matches!(format, Format::Packed(_));
                for (axis, index) in index.iter().enumerate() {
                    if axis < axes {
                        self.at.add(index, inner, view.strides[axis].wrapping_mul(bytes));
                    } else {
                        self.column.add(index, inner, 1);
                    }
                    self.limit(index, inner, view.shape[axis]);
                }
            }
        }
        // Any byte is a truth value in a tensor, but only 0 and 1 in a tile.
        let as_it_is = self.base.is_none() || access.dtype != DType::Bool;
        let side_by_side = self.at.step == access.dtype.bytes() as i64;
        self.direct = !packed && !access.widen && as_it_is && side_by_side;
    }

    fn limit(&mut self, index: &Index, inner: usize, extent: i64) {
        let outer = index.steps[..inner].iter().any(|&step| step != 0);
        if let (Some(start), false, false) = (index.base.known(), outer, self.flat) {
            let (low, high) = within(start, index.steps[inner], extent, self.high as i64);
            if low == 0 {
                self.high = self.high.min(high.max(0) as usize);
                return;
            }
        }
        if self.limits.len() == self.used {
            self.limits.push(Limit::default());
        }
        let limit = &mut self.limits[self.used];
        limit.coordinate.clear();
        limit.coordinate.add(index, inner, 1);
        limit.extent = extent;
        self.used += 1;
    }

    /// Drops the limits that no program of a grid comes up to.
    fn drop_limits(&mut self, grid: [u64; 3]) {
        let limits = &mut self.limits[..self.used];
        let mut kept = 0;
        for n in 0..limits.len() {
            if !limits[n].holds_for_all(grid) {
                limits.swap(kept, n);
                kept += 1;
            }
        }
        self.used = kept;
    }

    /// The elements of a row that lie within the tensor, if nothing that is known later cuts it.
    pub fn high(&self) -> usize {
        self.high
    }

    /// Whether the first `n` elements of a row, or its `one` element, are used where they lie, unless the row as
    /// a whole is outside of the tensor.
    pub fn is_all_or_nothing(&self, n: usize, one: bool) -> bool {
        let whole = |limit: &Limit| limit.coordinate.step == 0;
        let limits = &self.limits[..self.used];
        (self.direct || one) && !self.stream && self.high >= n && limits.iter().all(whole)
    }

    /// Where the row at position 0 of all outer axes begins, if limits that cut no row in two leave it.
    #[inline]
    pub fn first(&self, regs: &[u64], scratch: *mut u8) -> Option<*mut u8> {
        for limit in &self.limits[..self.used] {
            let at = limit.coordinate.start.value(regs);
            if at < 0 || at >= limit.extent {
                return None;
            }
        }
        let at = self.at.start.value(regs);
        Some(self.base.unwrap_or(scratch).wrapping_offset(at as isize))
    }

    /// Bytes (blocks, for packed formats) from element to element.
    pub fn step(&self) -> isize {
        self.at.step as isize
    }

    /// Bytes from row to row along the last but one axis of a pass of at least two.
    pub fn row_step(&self) -> isize {
        self.at.outer[self.inner - 1] as isize
    }

    /// For packed formats: the block that element 0's row begins with.
    pub fn unit(&self, regs: &[u64], position: &[usize]) -> i64 {
        self.at.at(regs, position)
    }

    /// The row at `position` on the outer axes, of `side` elements, of a program whose scratch memory is
    /// `scratch`.
    #[inline]
    pub fn row(&self, regs: &[u64], scratch: *mut u8, position: &[usize], side: usize) -> Walk {
        let mut walk = self.uncut(regs, scratch, position, side);
        for limit in &self.limits[..self.used] {
            limit.cut(limit.coordinate.at(regs, position), side, &mut walk);
        }
        walk.high = walk.high.max(walk.low);
        walk
    }

    /// The row before limits cut it.
    #[inline]
    fn uncut(&self, regs: &[u64], scratch: *mut u8, position: &[usize], side: usize) -> Walk {
        let at = self.at.at(regs, position);
        let first = self.base.unwrap_or(scratch).wrapping_offset(at as isize);
        Walk { first, low: 0, high: if self.flat { side } else { self.high } }
    }

    /// What `rows` rows of `side` elements along the last but one axis have in common, the first being at
    /// `position`: which of them lie within the tensor at all, and then the same elements of each, as of the
    /// first. `None` if they differ.
    pub fn rows(
        &self,
        regs: &[u64],
        scratch: *mut u8,
        position: &[usize],
        (side, rows): (usize, usize),
    ) -> Option<(Range<usize>, Walk)> {
        let axis = position.len() - 1;
        let mut walk = self.uncut(regs, scratch, position, side);
        let (mut first, mut end) = (0, rows);
        for limit in &self.limits[..self.used] {
            let start = limit.coordinate.at(regs, position);
            let by_row = limit.coordinate.outer[axis];
            if by_row == 0 {
                limit.cut(start, side, &mut walk);
            } else if limit.coordinate.step == 0 {
                let (low, high) = within(start, by_row, limit.extent, rows as i64);
                first = first.max(low.max(0) as usize);
                end = end.min(high.max(0) as usize);
            } else {
                return None;
            }
        }
        walk.high = walk.high.max(walk.low);
        Some((first..end.max(first), walk))
    }
}

impl Limit {
    /// Whether the coordinate depends on the program's position alone, and is within the extent wherever a grid has
    /// a program.
    fn holds_for_all(&self, grid: [u64; 3]) -> bool {
        let Course { start, outer, step } = &self.coordinate;
        if *step != 0 || outer.iter().any(|&by| by != 0) {
            return false;
        }
        let constant = i128::from(start.constant);
        let (mut low, mut high) = (constant, constant);
        for &(reg, by) in &start.terms {
            let Some(&extent) = grid.get(reg as usize) else { return false };
            let far = i128::from(by).saturating_mul(i128::from(extent.saturating_sub(1)));
            low = low.saturating_add(far.min(0));
            high = high.saturating_add(far.max(0));
        }
        low >= 0 && high < i128::from(self.extent)
    }

    /// Cuts a row of `side` elements, whose coordinate begins at `start`, to the extent.
    #[inline]
    fn cut(&self, start: i64, side: usize, walk: &mut Walk) {
        let step = self.coordinate.step;
        if step == 0 && start >= 0 && start < self.extent {
            return;
        }
        let (low, high) = within(start, step, self.extent, side as i64);
        walk.low = walk.low.max(low.max(0) as usize);
        walk.high = walk.high.min(high.max(0) as usize);
    }
}

/// Whether each row of an operand, of `side` elements, goes on where the one before ends, within the tensor
/// as in memory.
fn is_flat(access: &Access, inner: usize, side: i64, views: &[View]) -> bool {
    let Some(outer) = inner.checked_sub(1) else { return false };
    match &access.place {
        Place::Slot { strides, .. } => strides[outer] == strides[inner].wrapping_mul(side),
        Place::Tensor { format: Format::Packed(_), .. } => false,
        Place::Tensor { view, index, .. } => {
            let strides = &views[*view as usize].strides;
            let along = |axis: usize| {
                let terms = index.iter().zip(strides);
                terms.fold(0i64, |sum, (i, s)| sum.wrapping_add(i.steps[axis].wrapping_mul(*s)))
            };
            along(outer) == along(inner).wrapping_mul(side)
                && index.iter().all(|i| i.steps[outer] == i.steps[inner].wrapping_mul(side))
        }
    }
}
