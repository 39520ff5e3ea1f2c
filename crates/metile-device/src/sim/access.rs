//! Loads, stores and atomics.

use super::block::{Common, Warp};
use super::findings::Who;
use super::machine::Machine;
use super::memory::{read_element, write_element};
use super::poison::{Origin, Poison};
use super::registers::{LANES, lane, lanes, offset, truth};
use super::shadow::Access;
use super::shared::{Doing, Place};
use crate::ops::*;
use crate::program::{Shared, Statement, Type, Value};
use metile_ir::arith;
use metile_ir::dtype::DType;
use metile_ir::scalar::Scalar;

/// Who runs what: a statement, its number, the lanes that do.
#[derive(Clone, Copy)]
struct At<'p> {
    s: &'p Statement,
    step: u32,
    mask: u32,
}

pub(super) fn run(
    m: &mut Machine<'_, '_, '_>,
    common: &mut Common,
    warp: &mut Warp,
    op: &MemoryOp,
    step: u32,
    mask: u32,
) {
    let at = At { s: m.code.steps[step as usize].statement, step, mask };
    match op {
        MemoryOp::Load { width, immediates, masked, .. } => {
            load(m, common, warp, at, usize::from(*width), immediates, *masked);
        }
        MemoryOp::Store { width, immediates, masked } => {
            store(m, common, warp, at, usize::from(*width), immediates, *masked);
        }
        MemoryOp::LoadShared { buffer, width, immediates } => {
            load_shared(m, common, warp, at, (*buffer, usize::from(*width)), immediates);
        }
        MemoryOp::StoreShared { buffer, width, immediates, masked } => {
            let form = (*buffer, usize::from(*width));
            store_shared(m, common, warp, at, form, immediates, *masked);
        }
        MemoryOp::Atomic(op) => atomic(m, common, warp, at, Some(*op)),
        MemoryOp::AtomicCas => atomic(m, common, warp, at, None),
        MemoryOp::Entry => entry(m, common, warp, at),
    }
}

/// Dtype and whether offsets are `i64`.
fn pointed(m: &Machine<'_, '_, '_>, s: &Statement) -> (DType, bool) {
    let wide = m.program.dtype(s.operands[1]) == Some(DType::I64);
    match m.program.ty(s.operands[0]) {
        Type::Pointer { dtype, .. } => (dtype, wide),
        _ => (DType::U8, wide),
    }
}

/// The element at which group `g` of a lane begins.
fn element(warp: &Warp, value: Value, wide: bool, g: usize, at: usize, immediate: i64) -> i128 {
    i128::from(offset(warp.registers.get(value), wide, g, at)) + i128::from(immediate)
}

fn load(
    m: &mut Machine<'_, '_, '_>,
    common: &mut Common,
    warp: &mut Warp,
    At { s, step, mask }: At<'_>,
    width: usize,
    immediates: &[i64],
    masked: bool,
) {
    let (dtype, wide) = pointed(m, s);
    let pointer = m.pointer(warp, s.operands[0]);
    let mut room = warp.registers.room(m.program.ty(s.results[0]));
    for at in lanes(mask, warp.first_lane) {
        for (g, &immediate) in immediates.iter().enumerate() {
            let registers = g * width..(g + 1) * width;
            if masked && !truth(warp.registers.get(s.operands[2]), g, at) {
                for n in registers {
                    room[n * LANES + at] = lane(warp.registers.get(s.operands[3]), n, at);
                }
                continue;
            }
            let place = (pointer, dtype, element(warp, s.operands[1], wide, g, at, immediate));
            let bytes = m.device_read(common, warp, at, step, place, width * dtype.bytes());
            for (n, bytes) in registers.zip(bytes.unwrap_or_default().chunks(dtype.bytes())) {
                room[n * LANES + at] = Scalar::from_bits(dtype, read_element(bytes)).bits();
            }
        }
    }
    warp.registers.set(s.results[0], room);
}

fn store(
    m: &mut Machine<'_, '_, '_>,
    common: &mut Common,
    warp: &mut Warp,
    At { s, step, mask }: At<'_>,
    width: usize,
    immediates: &[i64],
    masked: bool,
) {
    let (dtype, wide) = pointed(m, s);
    let pointer = m.pointer(warp, s.operands[0]);
    let value = s.operands[if masked { 3 } else { 2 }];
    for at in lanes(mask, warp.first_lane) {
        for (g, &immediate) in immediates.iter().enumerate() {
            if masked && !truth(warp.registers.get(s.operands[2]), g, at) {
                continue;
            }
            let place = (pointer, dtype, element(warp, s.operands[1], wide, g, at, immediate));
            let size = width * dtype.bytes();
            let found = m.device_access(common, warp, at, step, place, size, Access::Write);
            let Some((storage, first)) = found else { continue };
            let Some(bytes) = m.memory.bytes_mut(storage) else { continue };
            for (n, bytes) in bytes[first..first + size].chunks_mut(dtype.bytes()).enumerate() {
                write_element(bytes, lane(warp.registers.get(value), g * width + n, at));
            }
        }
    }
}

/// The place of a group in shared memory.
fn shared_place(
    warp: &Warp,
    (buffer, offset): (Shared, Value),
    g: usize,
    at: usize,
    immediate: i64,
    (element_bytes, bytes): (usize, usize),
) -> Place {
    let element = self::offset(warp.registers.get(offset), false, g, at).saturating_add(immediate);
    Place { buffer, first: element.saturating_mul(element_bytes as i64), bytes }
}

fn load_shared(
    m: &mut Machine<'_, '_, '_>,
    common: &mut Common,
    warp: &mut Warp,
    At { s, step, mask }: At<'_>,
    (buffer, width): (Shared, usize),
    immediates: &[i64],
) {
    let dtype = m.program.dtype(s.results[0]).unwrap_or(DType::U8);
    let size = (dtype.bytes(), width * dtype.bytes());
    let mut room = warp.registers.room(m.program.ty(s.results[0]));
    let mut poison: Option<Poison> = None;
    for at in lanes(mask, warp.first_lane) {
        for (g, &immediate) in immediates.iter().enumerate() {
            let place = shared_place(warp, (buffer, s.operands[0]), g, at, immediate, size);
            for n in 0..width {
                let first = place.first.saturating_add((n * dtype.bytes()) as i64);
                let element = Place { first, bytes: dtype.bytes(), ..place };
                let Some(byte) = common.shared.unwritten(element) else { continue };
                let thread = u32::from(m.stamp(common, warp, at, step).thread);
                let who = Who { block: common.number, thread };
                let origin = Origin { step, buffer, byte, who };
                let nothing = poison.get_or_insert_with(|| Poison::new(room.len() / LANES, origin));
                nothing.add(g * width + n, at);
            }
            let bytes = m.shared_access(common, warp, at, step, place, Doing::Take);
            let bytes = bytes.unwrap_or_default().chunks(dtype.bytes());
            for (n, bytes) in (g * width..(g + 1) * width).zip(bytes) {
                room[n * LANES + at] = Scalar::from_bits(dtype, read_element(bytes)).bits();
            }
        }
    }
    warp.registers.set(s.results[0], room);
    warp.registers.set_poison(s.results[0], poison);
}

fn store_shared(
    m: &mut Machine<'_, '_, '_>,
    common: &mut Common,
    warp: &mut Warp,
    At { s, step, mask }: At<'_>,
    (buffer, width): (Shared, usize),
    immediates: &[i64],
    masked: bool,
) {
    let value = s.operands[if masked { 2 } else { 1 }];
    let dtype = m.program.dtype(value).unwrap_or(DType::U8);
    let size = (dtype.bytes(), width * dtype.bytes());
    for at in lanes(mask, warp.first_lane) {
        for (g, &immediate) in immediates.iter().enumerate() {
            if masked && !truth(warp.registers.get(s.operands[1]), g, at) {
                continue;
            }
            let place = shared_place(warp, (buffer, s.operands[0]), g, at, immediate, size);
            let bytes = m.shared_access(common, warp, at, step, place, Doing::Write);
            let bytes = bytes.unwrap_or_default().chunks_mut(dtype.bytes());
            for (n, bytes) in bytes.enumerate() {
                write_element(bytes, lane(warp.registers.get(value), g * width + n, at));
            }
            let poison = warp.registers.poison(value);
            let nothing = |n: &usize| poison.is_some_and(|p| p.holds(g * width + n, at));
            for n in (0..width).filter(nothing) {
                let first = place.first.saturating_add((n * dtype.bytes()) as i64);
                common.shared.forget(Place { first, bytes: dtype.bytes(), ..place });
            }
        }
    }
}

/// Read-modify-write; compare-and-swap without an operation.
fn atomic(
    m: &mut Machine<'_, '_, '_>,
    common: &mut Common,
    warp: &mut Warp,
    At { s, step, mask }: At<'_>,
    op: Option<AtomicOp>,
) {
    let (dtype, wide) = pointed(m, s);
    let pointer = m.pointer(warp, s.operands[0]);
    let count = m.program.count(s.results[0]) as usize;
    let mut room = warp.registers.room(m.program.ty(s.results[0]));
    for at in lanes(mask, warp.first_lane) {
        for n in 0..count {
            if !truth(warp.registers.get(s.operands[2]), n, at) {
                continue;
            }
            let place = (pointer, dtype, element(warp, s.operands[1], wide, n, at, 0));
            let size = dtype.bytes();
            let found = m.device_access(common, warp, at, step, place, size, Access::Atomic);
            let Some((storage, first)) = found else { continue };
            let Some(bytes) = m.memory.bytes_mut(storage) else { continue };
            let bytes = &mut bytes[first..first + size];
            let old = Scalar::from_bits(dtype, read_element(bytes));
            let of =
                |k: usize| Scalar::from_bits(dtype, lane(warp.registers.get(s.operands[k]), n, at));
            let new = match op {
                Some(op) => combine(op, old, of(3)),
                None if old.bits() == of(3).bits() => of(4),
                None => old,
            };
            write_element(bytes, new.bits());
            room[n * LANES + at] = old.bits();
        }
    }
    warp.registers.set(s.results[0], room);
}

fn combine(op: AtomicOp, old: Scalar, value: Scalar) -> Scalar {
    let op = match op {
        AtomicOp::Add => BinaryOp::Add,
        AtomicOp::Max => BinaryOp::Max,
        AtomicOp::Min => BinaryOp::Min,
        AtomicOp::Exchange => return value,
    };
    arith::binary(op, old, value).unwrap_or(old)
}

fn entry(
    m: &mut Machine<'_, '_, '_>,
    common: &mut Common,
    warp: &mut Warp,
    At { s, step, mask }: At<'_>,
) {
    let pointer = m.pointer(warp, s.operands[0]);
    // The same in all lanes that are here.
    let first = mask.trailing_zeros() as usize % LANES;
    let index = i128::from(lane(warp.registers.get(s.operands[1]), 0, first) as i64);
    let place = (pointer, DType::U64, index);
    let address = m.device_read(common, warp, first, step, place, 8).map_or(0, read_element);
    let mut room = warp.registers.room(m.program.ty(s.results[0]));
    room.fill(address);
    warp.registers.set(s.results[0], room);
}
