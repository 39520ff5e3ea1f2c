//! Coordinates of the elements that a thread owns.

use super::{Known, Lowering};
use crate::gpu::facts::{Fact, divisor};
use crate::gpu::layout::Layout;
use metile_device::{PositionOp, Value as Dv};
use metile_ir::dtype::DType;
use metile_ir::tile::{BinaryOp, CompareOp, Shape};

/// An `i64` for each register of a thread: one that the registers have in common, and what each adds.
#[derive(Clone, Debug)]
pub(super) struct Affine {
    /// What they have in common, one register.
    pub base: Dv,
    /// What each register adds.
    pub parts: Vec<i64>,
    /// What is known of `base`.
    pub fact: Fact,
}

impl Affine {
    /// Bounds and divisor of all registers.
    pub fn all(&self) -> Fact {
        let low = self.parts.iter().copied().min().unwrap_or(0);
        let high = self.parts.iter().copied().max().unwrap_or(0);
        let multiple = self.parts.iter().map(|&p| divisor(p)).min().unwrap_or(1);
        self.fact.plus(Fact { low, high, multiple })
    }

    /// The part, if it is the same in every register.
    pub fn one_part(&self) -> Option<i64> {
        let first = *self.parts.first()?;
        self.parts.iter().all(|&p| p == first).then_some(first)
    }
}

/// A free tile of integers in the registers of a thread.
#[derive(Clone, Debug)]
pub(super) enum Evaluated {
    /// `i64`s.
    Affine(Affine),
    /// Anything: one register for each of the layout's, or one for all.
    Registers(Dv),
}

impl Lowering<'_> {
    /// A thread's part of the coordinate along `axis`, an `i32`.
    pub(super) fn thread_part(&mut self, layout: &Layout, axis: usize) -> Dv {
        let key =
            Known::Coordinate(layout.renamed(|b| (b.axis as usize == axis).then_some(b)), axis);
        self.remember(key, |l| l.make_thread_part(layout, axis))
    }

    fn make_thread_part(&mut self, layout: &Layout, axis: usize) -> Dv {
        let thread = self.position(PositionOp::Thread);
        let bits: Vec<(u8, u8)> = layout
            .thread_bits()
            .filter(|(_, bit)| bit.axis as usize == axis)
            .map(|(n, bit)| (n, bit.bit))
            .collect();
        let mut sum = None;
        // Runs of neighbouring bits that stay neighbours are moved together.
        let mut at = 0;
        while at < bits.len() {
            let (from, to) = bits[at];
            let mut length = 1;
            while at + (length as usize) < bits.len()
                && bits[at + length as usize] == (from + length, to + length)
            {
                length += 1;
            }
            at += length as usize;
            let shift = self.int(DType::I32, i64::from(from));
            let mask = self.int(DType::I32, (1i64 << length) - 1);
            let up = self.int(DType::I32, i64::from(to));
            let mut part = thread;
            if from > 0 {
                part = self.b.binary(BinaryOp::Shr, part, shift);
            }
            part = self.b.binary(BinaryOp::And, part, mask);
            if to > 0 {
                part = self.b.binary(BinaryOp::Shl, part, up);
            }
            sum = Some(match sum {
                None => part,
                Some(sum) => self.b.binary(BinaryOp::Or, sum, part),
            });
        }
        match sum {
            Some(sum) => sum,
            None => self.int(DType::I32, 0),
        }
    }

    /// What each register adds to the coordinate along `axis`.
    pub(super) fn register_parts(layout: &Layout, axis: usize) -> Vec<i64> {
        (0..layout.count()).map(|r| layout.register_part(r, axis)).collect()
    }

    /// The coordinates along `axis` of a thread's elements.
    pub(super) fn coordinate(&mut self, layout: &Layout, axis: usize) -> Affine {
        let part = self.thread_part(layout, axis);
        let base = self.b.cast(part, DType::I64);
        let bits: Vec<u8> = layout
            .thread_bits()
            .filter(|(_, bit)| bit.axis as usize == axis)
            .map(|(_, bit)| bit.bit)
            .collect();
        let high = bits.iter().fold(0, |all, &bit| all | 1i64 << bit);
        let multiple = bits.iter().min().map_or(divisor(0), |&bit| 1u64 << bit.min(20));
        let fact = Fact { low: 0, high, multiple };
        Affine { base, parts: Self::register_parts(layout, axis), fact }
    }

    /// The same as `i32` registers.
    pub(super) fn small_coordinate(&mut self, layout: &Layout, axis: usize) -> Dv {
        let part = self.thread_part(layout, axis);
        let parts = Self::register_parts(layout, axis);
        if parts.iter().all(|&p| p == 0) {
            return part;
        }
        let parts = self.b.ints(DType::I32, &parts);
        self.b.binary(BinaryOp::Add, part, parts)
    }

    /// Registers of an [`Affine`].
    pub(super) fn spelled_out(&mut self, affine: &Affine) -> Dv {
        match affine.one_part() {
            Some(0) => affine.base,
            Some(part) => {
                let part = self.i64(part);
                self.b.binary(BinaryOp::Add, affine.base, part)
            }
            None => {
                let parts = self.b.ints(DType::I64, &affine.parts);
                self.b.binary(BinaryOp::Add, affine.base, parts)
            }
        }
    }

    /// Which registers hold elements of the tile, rather than what its sides are rounded up by; `None` if all do.
    pub(super) fn real(&mut self, layout: &Layout, shape: &Shape) -> Option<Dv> {
        let mut all = None;
        for axis in 0..shape.rank() {
            let side = shape.side(axis);
            if side.is_power_of_two() {
                continue;
            }
            let at = self.small_coordinate(layout, axis);
            let side = self.int(DType::I32, side as i64);
            let within = self.b.compare(CompareOp::Lt, at, side);
            all = Some(self.and(all, within));
        }
        all
    }

    /// Whether the thread is the first of those that hold the same elements; `None` if no two do.
    pub(super) fn first_owner(&mut self, layout: &Layout) -> Option<Dv> {
        let repeated = layout.repeated();
        if repeated == 0 {
            return None;
        }
        let thread = self.position(PositionOp::Thread);
        let mask = self.int(DType::I32, i64::from(repeated));
        let zero = self.int(DType::I32, 0);
        let bits = self.b.binary(BinaryOp::And, thread, mask);
        Some(self.b.compare(CompareOp::Eq, bits, zero))
    }

    /// Both conditions.
    pub(super) fn and(&mut self, a: Option<Dv>, b: Dv) -> Dv {
        match a {
            Some(a) => self.b.binary(BinaryOp::And, a, b),
            None => b,
        }
    }
    /// All conditions that there are.
    pub(super) fn all(&mut self, conditions: &[Option<Dv>]) -> Option<Dv> {
        conditions.iter().flatten().fold(None, |all, &next| Some(self.and(all, next)))
    }
}
