//! Loads, stores and atomics.

use super::sync::Place;
use super::threads::{Affine, Evaluated};
use super::views::View;
use super::{Lowering, Val, moved};
use crate::gpu::facts::{Fact, divisor};
use crate::gpu::layout::Layout;
use metile_device::{MemoryOp, Op as DeviceOp, Value as Dv};
use metile_ir::diagnostic::Diagnostic;
use metile_ir::dtype::{DType, Format};
use metile_ir::tile::{BinaryOp, CompareOp, Op, OpKind, Shape, Value};

/// Where the registers of a thread lie in an array.
pub(super) struct Address {
    /// Elements of a group.
    pub width: u8,
    /// The offset of each group, or of all.
    pub offset: Dv,
    /// What is added for each group.
    pub immediates: Vec<i64>,
    /// Which groups lie in the view; `None` for all.
    pub mask: Option<Dv>,
}

impl Lowering<'_> {
    /// The coordinates of an access, one for each axis of the tensor.
    fn access(&mut self, op: &Op, rank: usize, layout: &Layout) -> Vec<Evaluated> {
        let rectangle = matches!(op.kind, OpKind::LoadTile | OpKind::StoreTile);
        (0..rank)
            .map(|axis| {
                let value = op.operands[1 + axis];
                if rectangle {
                    let origin = self.scalar_everywhere(value, layout.count());
                    let within = Evaluated::Affine(self.coordinate(layout, axis));
                    return self.sum(&origin, &within, 1);
                }
                match self.dtype(value) {
                    DType::I64 => self.evaluated(value, layout),
                    _ => Evaluated::Registers(self.wide_index(value, layout)),
                }
            })
            .collect()
    }

    /// An index of another integer type: what does not fit an `i64` is outside of everything.
    fn wide_index(&mut self, value: Value, layout: &Layout) -> Dv {
        let index = self.tile(value, layout);
        let wide = self.b.cast(index, DType::I64);
        if self.dtype(value) != DType::U64 {
            return wide;
        }
        // Beyond 2^63 it is negative as an i64.
        wide
    }

    pub(super) fn load(&mut self, op: &Op) {
        let result = op.results[0];
        let Some(view) = self.view(op.operands[0]) else { return };
        let rank = view.ty.rank as usize;
        let masked = op.kind == OpKind::Load { masked: true };
        let fill = op.operands.last().map(|&f| self.scalar(f));
        let scalar = self.is_scalar(result);
        let layout = if scalar { self.one_register() } else { self.layout(result) };
        let coordinates = self.access(op, rank, &layout);
        let mask = masked.then(|| self.tile(op.operands[1 + rank], &layout));
        self.before_read(&view, Place::new(op, rank, &layout));
        let fill = fill.unwrap_or_else(|| self.i64(0));
        let made = match view.ty.format {
            Format::Packed(format) => {
                self.load_packed(&view, format, &coordinates, mask, fill, &layout)
            }
            Format::Plain(dtype) => {
                self.load_plain(&view, dtype, &coordinates, mask, fill, &layout)
            }
        };
        match scalar {
            true => self.set_scalar(result, made),
            false => self.set(result, Val::Tile(made, layout)),
        }
    }

    fn load_plain(
        &mut self,
        view: &View,
        dtype: DType,
        coordinates: &[Evaluated],
        mask: Option<Dv>,
        fill: Dv,
        layout: &Layout,
    ) -> Dv {
        let address = self.address(view, coordinates, layout, mask, dtype);
        let count = layout.count();
        let stored = moved(dtype);
        let mut operands = vec![view.pointers[0], address.offset];
        let masked = address.mask.is_some();
        if let Some(mask) = address.mask {
            let fill = if dtype == DType::Bool { self.b.cast(fill, stored) } else { fill };
            operands.extend([mask, fill]);
        }
        let load = MemoryOp::Load {
            width: address.width,
            immediates: address.immediates,
            masked,
            constant: !view.is_written(),
        };
        let made = self.make(DeviceOp::Memory(load), &operands, stored, count);
        match dtype {
            DType::Bool => {
                let zero = self.int(stored, 0);
                self.b.compare(CompareOp::Ne, made, zero)
            }
            _ => made,
        }
    }

    /// The layout of a scalar: one register that every thread has.
    pub(super) fn one_register(&self) -> Layout {
        Layout {
            registers: Vec::new(),
            lanes: [None; 5],
            warps: vec![None; self.plan.warps.trailing_zeros() as usize],
        }
    }

    /// Where the elements at `coordinates` lie, and which of them are in the view and the mask.
    pub(super) fn address(
        &mut self,
        view: &View,
        coordinates: &[Evaluated],
        layout: &Layout,
        mask: Option<Dv>,
        dtype: DType,
    ) -> Address {
        let width = match mask {
            None => vector_width(view, coordinates, layout.count(), dtype),
            Some(_) => 1,
        };
        let first: Vec<Evaluated> = coordinates.iter().map(|c| every(c, width as usize)).collect();
        let inside = self.inside(view, &first);
        let mask = self.all(&[inside, mask]);
        let (offset, immediates) = self.offset(view, &first, layout.count() / u32::from(width));
        Address { width, offset, immediates, mask }
    }

    /// The offset of the groups that begin at `coordinates`: what they have in common or one each, and what is added.
    pub(super) fn offset(
        &mut self,
        view: &View,
        coordinates: &[Evaluated],
        groups: u32,
    ) -> (Dv, Vec<i64>) {
        let mut common = view.offset;
        let mut own: Option<Dv> = None;
        let mut immediates = vec![0i64; groups as usize];
        for (axis, coordinate) in view.axes.iter().zip(coordinates) {
            let step = |l: &mut Self, at: Dv| match axis.stride {
                Some(stride) => l.b.binary(BinaryOp::Mul, at, stride),
                None => at,
            };
            let Evaluated::Affine(affine) = coordinate else {
                let Evaluated::Registers(at) = coordinate else { continue };
                let at = step(self, *at);
                own = Some(self.plus(own, at));
                continue;
            };
            let is_zero = (affine.fact.low, affine.fact.high) == (0, 0);
            if !is_zero {
                let at = step(self, affine.base);
                common = Some(self.plus(common, at));
            }
            match (axis.stride, affine.one_part()) {
                (_, Some(0)) => {}
                (None, _) => {
                    for (sum, &part) in immediates.iter_mut().zip(&affine.parts) {
                        *sum += part;
                    }
                }
                (Some(stride), _) => {
                    let parts = self.b.ints(DType::I64, &affine.parts);
                    let at = self.b.binary(BinaryOp::Mul, parts, stride);
                    own = Some(self.plus(own, at));
                }
            }
        }
        let offset = match (common, own) {
            (Some(common), Some(own)) => self.b.binary(BinaryOp::Add, own, common),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => self.i64(0),
        };
        (offset, immediates)
    }

    pub(super) fn plus(&mut self, a: Option<Dv>, b: Dv) -> Dv {
        match a {
            Some(a) => self.b.binary(BinaryOp::Add, a, b),
            None => b,
        }
    }

    /// Which of the elements at `coordinates` lie in the view.
    pub(super) fn inside(&mut self, view: &View, coordinates: &[Evaluated]) -> Option<Dv> {
        let mut all = None;
        for (axis, coordinate) in view.axes.iter().zip(coordinates) {
            let within = match coordinate {
                Evaluated::Affine(affine) => self.affine_within(affine, axis.extent),
                Evaluated::Registers(at) => self.within(*at, Fact::UNKNOWN, axis.extent),
            };
            all = Some(self.and(all, within));
        }
        all
    }

    /// Whether `base + part` lies in the extent: `part < extent - base` as small numbers.
    fn affine_within(&mut self, affine: &Affine, extent: Dv) -> Dv {
        if let Some(part) = affine.one_part() {
            let part = self.i64(part);
            let at = match affine.one_part() {
                Some(0) => affine.base,
                _ => self.b.binary(BinaryOp::Add, affine.base, part),
            };
            return self.within(at, affine.all(), extent);
        }
        let left = self.b.binary(BinaryOp::Sub, extent, affine.base);
        let (low, high) = (self.i64(-1 << 30), self.i64(1 << 30));
        let left = self.b.binary(BinaryOp::Max, left, low);
        let left = self.b.binary(BinaryOp::Min, left, high);
        let left = self.b.cast(left, DType::I32);
        let parts = self.b.ints(DType::I32, &affine.parts);
        let below = self.b.compare(CompareOp::Lt, parts, left);
        if affine.all().is_positive() {
            return below;
        }
        let at = self.spelled_out(affine);
        let zero = self.i64(0);
        let positive = self.b.compare(CompareOp::Ge, at, zero);
        self.b.binary(BinaryOp::And, below, positive)
    }

    pub(super) fn store(&mut self, op: &Op) {
        let Some(view) = self.view(op.operands[0]) else { return };
        let Some(&value) = op.operands.last() else { return };
        let rank = view.ty.rank as usize;
        let masked = op.kind == OpKind::Store { masked: true };
        let dtype = self.dtype(value);
        let scalar = self.is_scalar(value);
        let shape = self.shape(value);
        let layout = match (scalar, self.plan.layouts.get(&value)) {
            (true, _) => self.one_register(),
            (false, Some(layout)) => layout.clone(),
            (false, None) => self.store_layout(&shape, dtype),
        };
        let coordinates = self.access(op, rank, &layout);
        let stored = self.tile(value, &layout);
        let mask = masked.then(|| self.tile(op.operands[1 + rank], &layout));
        let place = Place::new(op, rank, &layout);
        if !scalar && self.may_meet(op, rank) {
            return self.store_in_order(op, &view, &layout, &coordinates, mask, stored);
        }
        self.before_write(&view, place);
        let stored = if dtype == DType::Bool { self.b.cast(stored, DType::U8) } else { stored };
        self.store_plain(&view, moved(dtype), &coordinates, mask, stored, &layout, &shape);
    }

    /// The layout of a free tile that is stored.
    fn store_layout(&self, shape: &Shape, dtype: DType) -> Layout {
        let inner = (0..shape.rank()).rev().find(|&a| shape.side(a) > 1).unwrap_or(0);
        Layout::blocked(shape, inner, 16 / dtype.bytes(), self.plan.warps)
    }

    #[expect(clippy::too_many_arguments, reason = "a store has this many parts")]
    pub(super) fn store_plain(
        &mut self,
        view: &View,
        dtype: DType,
        coordinates: &[Evaluated],
        mask: Option<Dv>,
        value: Dv,
        layout: &Layout,
        shape: &Shape,
    ) {
        let real = self.real(layout, shape);
        let mask = self.all(&[mask, real]);
        let address = self.address(view, coordinates, layout, mask, dtype);
        let owner = self.first_owner(layout);
        let mask = self.all(&[address.mask, owner]);
        let value = self.b.spread(value, layout.count());
        let mut operands = vec![view.pointers[0], address.offset];
        operands.extend(mask);
        operands.push(value);
        let store = MemoryOp::Store {
            width: address.width,
            immediates: address.immediates,
            masked: mask.is_some(),
        };
        self.b.push(DeviceOp::Memory(store), &operands, &[]);
    }

    pub(super) fn atomic(&mut self, op: &Op) -> Result<(), Box<Diagnostic>> {
        let Some(view) = self.view(op.operands[0]) else { return Ok(()) };
        let rank = view.ty.rank as usize;
        let result = op.results[0];
        let scalar = self.is_scalar(result);
        let shape = self.shape(result);
        let layout = if scalar { self.one_register() } else { self.layout(result) };
        let count = layout.count();
        let coordinates = self.access(op, rank, &layout);
        let inside = self.inside(&view, &coordinates);
        let real = self.real(&layout, &shape);
        let owner = self.first_owner(&layout);
        let mask = match self.all(&[inside, real, owner]) {
            Some(mask) => mask,
            None => self.constant(metile_ir::Scalar::bool(true)),
        };
        let (offset, immediates) = self.offset(&view, &coordinates, count);
        let offset = match immediates.iter().all(|&i| i == 0) {
            true => offset,
            false => {
                let parts = self.b.ints(DType::I64, &immediates);
                self.b.binary(BinaryOp::Add, offset, parts)
            }
        };
        self.before_write(&view, None);
        let [offset, mask] = [offset, mask].map(|v| self.b.spread(v, count));
        let mut operands = vec![view.pointers[0], offset, mask];
        for &value in &op.operands[1 + rank..] {
            let value = self.whole_tile(value, &layout);
            operands.push(value);
        }
        let kind = match op.kind {
            OpKind::AtomicRmw(kind) => MemoryOp::Atomic(kind),
            OpKind::AtomicCas => MemoryOp::AtomicCas,
            _ => return Err(self.refuse(op, "is no atomic operation")),
        };
        let dtype = self.dtype(result);
        let made = self.make(DeviceOp::Memory(kind), &operands, dtype, count);
        let made = self.broadcast_from_owners(made, dtype, &shape, &layout);
        match scalar {
            true => self.set_scalar(result, made),
            false => self.set(result, Val::Tile(made, layout)),
        }
        Ok(())
    }
}

/// The first of each group of `width` registers.
fn every(coordinate: &Evaluated, width: usize) -> Evaluated {
    match coordinate {
        Evaluated::Affine(affine) => Evaluated::Affine(Affine {
            base: affine.base,
            parts: affine.parts.iter().copied().step_by(width).collect(),
            fact: affine.fact,
        }),
        // Only accesses of one element a group have such coordinates.
        Evaluated::Registers(v) => Evaluated::Registers(*v),
    }
}

/// How many neighbouring registers may be moved at once.
fn vector_width(view: &View, coordinates: &[Evaluated], count: u32, dtype: DType) -> u8 {
    let mut width = (16 / dtype.bytes()).min(16) as u32;
    while width > 1 && !fits(view, coordinates, count, width) {
        width /= 2;
    }
    width as u8
}

fn fits(view: &View, coordinates: &[Evaluated], count: u32, width: u32) -> bool {
    let last = view.axes.len() - 1;
    let wide = u64::from(width);
    if !view.aligned
        || !count.is_multiple_of(width)
        || !view.offset_fact.multiple.is_multiple_of(wide)
    {
        return false;
    }
    view.axes.iter().zip(coordinates).enumerate().all(|(n, (axis, coordinate))| {
        let Evaluated::Affine(affine) = coordinate else { return false };
        let step = i64::from(n == last);
        let groups = affine.parts.chunks(width as usize);
        let in_step = |group: &[i64]| {
            group.iter().enumerate().all(|(i, &part)| part == group[0] + step * i as i64)
        };
        let firsts = affine.parts.iter().step_by(width as usize);
        let multiple = firsts.map(|&p| divisor(p)).min().unwrap_or(1).min(affine.fact.multiple);
        let steps_fit = groups.into_iter().all(in_step);
        if n == last {
            axis.stride.is_none()
                && steps_fit
                && multiple.is_multiple_of(wide)
                && axis.extent_fact.multiple.is_multiple_of(wide)
        } else {
            steps_fit && axis.stride_fact.multiple.saturating_mul(multiple).is_multiple_of(wide)
        }
    })
}
