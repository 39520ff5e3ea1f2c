//! Loads, stores, atomics and views.

use super::machine::{Launch, Program};
use super::races::{AccessKind, Place};
use super::report;
use super::value::{Tile, View};
use crate::arith;
use crate::diagnostic::Diagnostic;
use crate::dtype::{Format, PackedFormat};
use crate::packed;
use crate::scalar::Scalar;
use crate::tile::{AtomicOp, BinaryOp, MAX_RANK, OpId, Shape, TileType};
use std::rc::Rc;

/// One element's index on each axis; `None` where a coordinate does not fit an `i64`, which is
/// outside of any tensor.
type Index = Option<[i64; MAX_RANK]>;

/// What an access has in common over its lanes.
pub(super) struct Access<'a> {
    pub op: OpId,
    pub view: &'a View,
    pub what: &'static str,
}

/// The index of lane `n` given by coordinate tiles.
fn pointwise(coordinates: &[Rc<Tile>], n: usize) -> Index {
    let mut index = [0; MAX_RANK];
    for (axis, tile) in coordinates.iter().enumerate() {
        index[axis] = i64::try_from(tile.get(n).as_int()?).ok()?;
    }
    Some(index)
}

/// The index of lane `n` of a rectangle of `shape` at `origin`.
fn rectangle(origin: &[Rc<Tile>], shape: &Shape, n: usize) -> Index {
    let at = Tile::coordinates(shape, n);
    let mut index = [0; MAX_RANK];
    for (axis, tile) in origin.iter().enumerate() {
        let start = i64::try_from(tile.get(0).as_int()?).ok()?;
        index[axis] = start.checked_add(at[axis] as i64)?;
    }
    Some(index)
}

impl Launch<'_, '_> {
    /// Whether the index lies in the view; if not, that may be worth a warning.
    fn within(
        &mut self,
        program: &Program,
        access: &Access<'_>,
        index: Index,
        lane: usize,
    ) -> bool {
        let view = access.view;
        let fits = index.is_some_and(|index| {
            view.shape.iter().zip(index).all(|(&extent, i)| i >= 0 && (i as u64) < extent)
        });
        let limit = self.options.max_warnings;
        if !fits
            && self.options.warn_out_of_shape
            && self.warnings.is_new(access.op, "shape", limit)
        {
            let name = self.kernel.parameter_name(view.parameter);
            let at = match index {
                Some(index) => format!("{:?}", &index[..view.shape.len()]),
                None => "beyond 2^63".to_owned(),
            };
            let message = format!(
                "{} {} `{name}` at {at}, outside of its shape {:?} (lane {lane})",
                report::program(program.id),
                access.what,
                view.shape
            );
            let warning = Diagnostic::warning(message)
                .at(self.kernel.ops[access.op].span)
                .in_kernel(&self.kernel.name)
                .label("a load outside gives the fill value, a store does nothing");
            self.warnings.add(access.op, "shape", warning);
        }
        fits
    }

    fn byte(view: &View, index: [i64; MAX_RANK]) -> usize {
        let width = view.loaded().bytes() as i64;
        let step: i64 = view.strides.iter().zip(index).map(|(&stride, i)| stride * i).sum();
        (view.parts[0].byte_offset + step * width) as usize
    }

    fn read(
        &mut self,
        program: &Program,
        access: &Access<'_>,
        index: [i64; MAX_RANK],
        lane: usize,
    ) -> u64 {
        let view = access.view;
        if let Format::Packed(format) = view.ty.format {
            return self.read_packed(view, format, index);
        }
        let (at, width) = (Self::byte(view, index), view.loaded().bytes());
        self.note(program, access, at, AccessKind::Read, (index, lane));
        self.element(view, at, width)
    }

    /// The element's bits. A truth value is any byte in memory, and 0 or 1 in a tile.
    fn element(&self, view: &View, at: usize, width: usize) -> u64 {
        let bytes = self.buffers[view.parts[0].buffer].bytes();
        let mut word = [0; 8];
        word[..width].copy_from_slice(&bytes[at..at + width]);
        Scalar::from_bits(view.loaded(), u64::from_le_bytes(word)).bits()
    }

    fn read_packed(&mut self, view: &View, format: PackedFormat, index: [i64; MAX_RANK]) -> u64 {
        let block = format.block_elements();
        let last = view.shape.len() - 1;
        let column = index[last] as usize;
        let outer: i64 = (0..last).map(|axis| view.strides[axis] * index[axis]).sum();
        let unit = outer + (column / block) as i64;
        let sizes = format.block_bytes();
        let places: Vec<(usize, usize)> = view
            .parts
            .iter()
            .zip(&sizes)
            .map(|(part, &size)| (part.buffer, (part.byte_offset + unit * size as i64) as usize))
            .collect();
        if let Some(values) = self.block.get(format, &places) {
            return u64::from(values[column % block].to_bits());
        }
        let arrays: Vec<&[u8]> = places
            .iter()
            .zip(&sizes)
            .map(|(&(buffer, at), &size)| &self.buffers[buffer].bytes()[at..at + size])
            .collect();
        let mut values = vec![0.0; block];
        // The sizes are the format's own, so decoding can't fail.
        let decoded = packed::decode_block(format, &arrays, &mut values);
        debug_assert!(decoded.is_ok(), "{decoded:?}");
        let bits = u64::from(values[column % block].to_bits());
        self.block.set(format, places, values);
        bits
    }

    fn write(
        &mut self,
        program: &Program,
        access: &Access<'_>,
        index: [i64; MAX_RANK],
        lane: usize,
        bits: u64,
    ) {
        let (at, width) = (Self::byte(access.view, index), access.view.loaded().bytes());
        self.note(program, access, at, AccessKind::Write, (index, lane));
        self.put(access.view, at, width, bits);
    }

    fn put(&mut self, view: &View, at: usize, width: usize, bits: u64) {
        if let Some(bytes) = self.buffers[view.parts[0].buffer].bytes_mut() {
            bytes[at..at + width].copy_from_slice(&bits.to_le_bytes()[..width]);
        }
        self.block.forget();
    }

    fn note(
        &mut self,
        program: &Program,
        access: &Access<'_>,
        byte: usize,
        kind: AccessKind,
        which: ([i64; MAX_RANK], usize),
    ) {
        // Tensors that are only read are not written by anyone during a launch.
        if !self.options.check_races || access.view.ty.access != crate::tile::Access::ReadWrite {
            return;
        }
        let place = Place { buffer: access.view.parts[0].buffer, byte };
        if let Some(earlier) = self.races.access(place, program, access.op, kind) {
            self.warn_race(program, access, earlier, which);
        }
    }

    fn warn_race(
        &mut self,
        program: &Program,
        access: &Access<'_>,
        earlier: (OpId, u64),
        (index, lane): ([i64; MAX_RANK], usize),
    ) {
        if !self.warnings.is_new(access.op, "race", self.options.max_warnings) {
            return;
        }
        let name = self.kernel.parameter_name(access.view.parameter);
        let message = format!(
            "{} {} `{name}` at {:?} (lane {lane}), which {} also touches, and nothing orders the two",
            report::program(program.id),
            access.what,
            &index[..access.view.shape.len()],
            report::program(self.program_id(earlier.1)),
        );
        let mut warning = Diagnostic::warning(message)
            .at(self.kernel.ops[access.op].span)
            .in_kernel(&self.kernel.name)
            .hint("let programs write elements of their own, or order them with a grid barrier, a counter or atomics");
        let other = self.kernel.ops[earlier.0].span;
        if let Some(span) = other {
            warning.related.push((span, "the other access is here".to_owned()));
        }
        self.warnings.add(access.op, "race", warning);
    }

    fn load_lane(
        &mut self,
        program: &Program,
        access: &Access<'_>,
        index: Index,
        lane: usize,
        fill: &Tile,
    ) -> u64 {
        match index {
            _ if !self.within(program, access, index, lane) => fill.bits[0],
            Some(index) => self.read(program, access, index, lane),
            None => fill.bits[0],
        }
    }

    fn store_lane(
        &mut self,
        program: &Program,
        access: &Access<'_>,
        index: Index,
        lane: usize,
        value: &Tile,
    ) {
        if self.within(program, access, index, lane)
            && let Some(index) = index
        {
            self.write(program, access, index, lane, value.bits[lane]);
        }
    }

    pub(super) fn load(
        &mut self,
        program: &Program,
        access: &Access<'_>,
        coordinates: &[Rc<Tile>],
        mask: Option<&Tile>,
        fill: &Tile,
    ) -> Tile {
        let shape = coordinates.first().map_or(Shape::SCALAR, |c| c.ty.shape);
        let ty = TileType::new(access.view.loaded(), shape);
        let bits = (0..shape.elements())
            .map(|n| {
                if mask.is_some_and(|m| m.bits[n] == 0) {
                    return fill.bits[0];
                }
                self.load_lane(program, access, pointwise(coordinates, n), n, fill)
            })
            .collect();
        Tile { ty, bits }
    }

    pub(super) fn load_tile(
        &mut self,
        program: &Program,
        access: &Access<'_>,
        origin: &[Rc<Tile>],
        fill: &Tile,
        ty: TileType,
    ) -> Tile {
        let bits = (0..ty.shape.elements())
            .map(|n| self.load_lane(program, access, rectangle(origin, &ty.shape, n), n, fill))
            .collect();
        Tile { ty, bits }
    }

    pub(super) fn store(
        &mut self,
        program: &Program,
        access: &Access<'_>,
        coordinates: &[Rc<Tile>],
        mask: Option<&Tile>,
        value: &Tile,
    ) {
        for n in 0..value.bits.len() {
            if mask.is_some_and(|m| m.bits[n] == 0) {
                continue;
            }
            self.store_lane(program, access, pointwise(coordinates, n), n, value);
        }
    }

    pub(super) fn store_tile(
        &mut self,
        program: &Program,
        access: &Access<'_>,
        origin: &[Rc<Tile>],
        value: &Tile,
    ) {
        for n in 0..value.bits.len() {
            self.store_lane(program, access, rectangle(origin, &value.ty.shape, n), n, value);
        }
    }

    /// Each lane in turn: the old value goes out, `new(lane, old)` goes in, if it gives one.
    pub(super) fn atomic(
        &mut self,
        program: &Program,
        access: &Access<'_>,
        coordinates: &[Rc<Tile>],
        new: impl Fn(usize, Scalar) -> Option<Scalar>,
    ) -> Tile {
        let view = access.view;
        let shape = coordinates.first().map_or(Shape::SCALAR, |c| c.ty.shape);
        let ty = TileType::new(view.loaded(), shape);
        let mut bits = vec![0; shape.elements()];
        for (n, old) in bits.iter_mut().enumerate() {
            let index = pointwise(coordinates, n);
            if !self.within(program, access, index, n) {
                continue;
            }
            let Some(index) = index else { continue };
            let (at, width) = (Self::byte(view, index), view.loaded().bytes());
            self.note(program, access, at, AccessKind::Atomic, (index, n));
            *old = self.element(view, at, width);
            if let Some(value) = new(n, Scalar::from_bits(ty.dtype, *old)) {
                self.put(view, at, width, value.bits());
            }
        }
        Tile { ty, bits }
    }
}

/// What an atomic operation makes of the old value and the operand.
pub(super) fn atomic_value(op: AtomicOp, old: Scalar, operand: Scalar) -> Option<Scalar> {
    let op = match op {
        AtomicOp::Exchange => return Some(operand),
        AtomicOp::Add => BinaryOp::Add,
        AtomicOp::Max => BinaryOp::Max,
        AtomicOp::Min => BinaryOp::Min,
    };
    arith::binary(op, old, operand)
}

/// The view of `length` elements of `axis` from `start`, both clamped.
pub(super) fn narrow(view: &View, axis: usize, start: i64, length: i64) -> View {
    let extent = view.shape[axis] as i64;
    let start = start.clamp(0, extent);
    let mut out = view.clone();
    out.shape[axis] = length.clamp(0, extent - start) as u64;
    if out.shape[axis] > 0 {
        shift(&mut out, axis, start);
    }
    out
}

/// The view at `index` of `axis`, which goes away.
pub(super) fn pick(view: &View, axis: usize, index: i64) -> View {
    let rank = view.shape.len() - 1;
    if index < 0 || index as u64 >= view.shape[axis] {
        return view.empty(rank);
    }
    let mut out = view.clone();
    shift(&mut out, axis, index);
    out.shape.remove(axis);
    out.strides.remove(axis);
    out.ty.rank = rank as u8;
    out
}

/// Moves element 0 to index `by` of `axis`, which the view has.
fn shift(view: &mut View, axis: usize, by: i64) {
    let steps = match view.ty.format {
        Format::Plain(d) => vec![d.bytes()],
        Format::Packed(p) => p.block_bytes(),
    };
    for (part, bytes) in view.parts.iter_mut().zip(steps) {
        // Elements of a view lie within its buffer; only a view without any could leave it here.
        let step = view.strides[axis].saturating_mul(bytes as i64);
        part.byte_offset = part.byte_offset.saturating_add(by.saturating_mul(step));
    }
}
