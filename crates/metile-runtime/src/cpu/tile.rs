//! Operations on whole tiles that passes do not do, element by element.

use super::machine::{Machine, coordinate};
use super::view::{read_bits, write_bits};
use metile_compiler::cpu::{Carrier, TileOp};
use metile_ir::arith;
use metile_ir::dtype::DType;
use metile_ir::scalar::Scalar;
use metile_ir::tile::{AtomicOp, BinaryOp, ScanOp, Shape};
use metile_simd::reduce::Running;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// A tile's memory.
#[derive(Clone, Copy)]
struct Cells {
    first: *mut u8,
    dtype: DType,
}

impl Cells {
    fn get(self, n: usize) -> u64 {
        let bytes = self.dtype.bytes();
        // SAFETY: callers stay within the slot's elements.
        unsafe { read_bits(self.first.wrapping_add(n * bytes), bytes) }
    }
    fn set(self, n: usize, bits: u64) {
        let bytes = self.dtype.bytes();
        // SAFETY: callers stay within the slot's elements.
        unsafe { write_bits(self.first.wrapping_add(n * bytes), bytes, bits) };
    }
}

pub(super) fn run(machine: &mut Machine<'_>, op: &TileOp) {
    let cells = |slot, dtype| Cells { first: machine.slot(slot), dtype };
    match *op {
        TileOp::Reduce { op, dtype, axis, from, shape, to } => {
            let level = machine.worker.level;
            let (from, to) = (cells(from, dtype), machine.slot(to));
            let arg =
                matches!(op, metile_ir::tile::ReduceOp::ArgMax | metile_ir::tile::ReduceOp::ArgMin);
            let to = Cells { first: to, dtype: if arg { DType::I64 } else { dtype } };
            for (n, lane) in lanes(shape, axis).enumerate() {
                let mut state = Running::new(op, dtype);
                for at in lane {
                    let bits = from.get(at);
                    // SAFETY: one element.
                    unsafe { state.take(level, std::ptr::from_ref(&bits).cast(), 1) };
                }
                to.set(n, state.result());
            }
        }
        TileOp::Scan { op, dtype, axis, from, shape, to } => {
            let (from, to) = (cells(from, dtype), cells(to, dtype));
            for lane in lanes(shape, axis) {
                scan(op, dtype, lane, from, to);
            }
        }
        TileOp::Gather { dtype, axis, from, shape, index, index_dtype, index_shape, to } => {
            let (from, to) = (cells(from, dtype), cells(to, dtype));
            gather((from, &shape), (cells(index, index_dtype), &index_shape), to, axis);
        }
        TileOp::Atomic { op, dtype, view, ref at, expected, value, to, elements } => {
            for n in 0..elements {
                let mut index = [0; 4];
                let inside = at.iter().enumerate().all(|(axis, c)| {
                    let (bits, dtype) = element(machine, *c, n);
                    index[axis] = coordinate(bits, dtype).unwrap_or(-1);
                    index[axis] >= 0
                });
                let place = machine.program.views[view as usize].place(dtype, &index[..at.len()]);
                let old = match place.filter(|_| inside) {
                    Some(place) => {
                        let operand = element(machine, value, n).0;
                        let expected = expected.map(|e| element(machine, e, n).0);
                        atomic(op, dtype, place, operand, expected)
                    }
                    None => 0,
                };
                match to {
                    Carrier::Reg(reg, _) => machine.set(reg, old),
                    Carrier::Slot(slot, dtype, _) => {
                        Cells { first: machine.slot(slot), dtype }.set(n, old);
                    }
                }
            }
        }
    }
}

fn element(machine: &Machine<'_>, carrier: Carrier, n: usize) -> (u64, DType) {
    match carrier {
        Carrier::Reg(reg, dtype) => (machine.reg(reg), dtype),
        Carrier::Slot(slot, dtype, _) => (Cells { first: machine.slot(slot), dtype }.get(n), dtype),
    }
}

/// The positions of the elements of each lane along `axis`, lane by lane.
fn lanes(shape: Shape, axis: usize) -> impl Iterator<Item = impl Iterator<Item = usize>> {
    let (side, step) = (shape.side(axis), shape.strides()[axis]);
    let outer = shape.elements() / (side * step);
    (0..outer).flat_map(move |o| {
        (0..step).map(move |inner| (0..side).map(move |i| (o * side + i) * step + inner))
    })
}

/// Inclusive prefixes; sums of `f32` are kept in `f64`, as the interpreter keeps them.
fn scan(op: ScanOp, dtype: DType, lane: impl Iterator<Item = usize>, from: Cells, to: Cells) {
    let mut total = -0.0f64;
    let mut so_far: Option<Scalar> = None;
    for n in lane {
        let element = Scalar::from_bits(dtype, from.get(n));
        let combine = match op {
            ScanOp::Sum => BinaryOp::Add,
            ScanOp::Max => BinaryOp::Max,
            ScanOp::Min => BinaryOp::Min,
        };
        let next = match (op, so_far, element.as_f32()) {
            (ScanOp::Sum, _, Some(x)) => {
                total += f64::from(x);
                Scalar::f32(total as f32)
            }
            (_, None, _) => element,
            (_, Some(before), _) => arith::binary(combine, before, element).unwrap_or(before),
        };
        so_far = Some(next);
        to.set(n, next.bits());
    }
}

fn gather(
    (from, shape): (Cells, &Shape),
    (index, index_shape): (Cells, &Shape),
    to: Cells,
    axis: usize,
) {
    let strides = shape.strides();
    let side = shape.side(axis) as i64;
    for n in 0..index_shape.elements() {
        let wanted = coordinate(index.get(n), index.dtype).unwrap_or(-1);
        if wanted < 0 || wanted >= side {
            to.set(n, 0);
            continue;
        }
        let mut rest = n;
        let mut source = wanted as usize * strides[axis];
        for a in (0..index_shape.rank()).rev() {
            let at = rest % index_shape.side(a);
            rest /= index_shape.side(a);
            if a != axis {
                source += at * strides[a];
            }
        }
        to.set(n, from.get(source));
    }
}

/// One read-modify-write; gives the old bits.
fn atomic(op: AtomicOp, dtype: DType, place: *mut u8, operand: u64, expected: Option<u64>) -> u64 {
    let new = |old: u64| -> Option<u64> {
        if let Some(expected) = expected {
            return (old == expected).then_some(operand);
        }
        let combine = match op {
            AtomicOp::Exchange => return Some(operand),
            AtomicOp::Add => BinaryOp::Add,
            AtomicOp::Max => BinaryOp::Max,
            AtomicOp::Min => BinaryOp::Min,
        };
        let (a, b) = (Scalar::from_bits(dtype, old), Scalar::from_bits(dtype, operand));
        arith::binary(combine, a, b).map(Scalar::bits)
    };
    let (acquire, relaxed) = (Ordering::AcqRel, Ordering::Relaxed);
    match dtype.bytes() {
        4 if place.cast::<u32>().is_aligned() => {
            // SAFETY: an aligned element of a tensor that the launch holds.
            let cell = unsafe { AtomicU32::from_ptr(place.cast()) };
            let update = |old: u32| new(u64::from(old)).map(|new| new as u32);
            let (Ok(old) | Err(old)) = cell.fetch_update(acquire, relaxed, update);
            u64::from(old)
        }
        8 if place.cast::<u64>().is_aligned() => {
            // SAFETY: as above.
            let cell = unsafe { AtomicU64::from_ptr(place.cast()) };
            let (Ok(old) | Err(old)) = cell.fetch_update(acquire, relaxed, new);
            old
        }
        bytes => {
            // What the machine has no instruction for is done one at a time.
            let _alone = UNALIGNED.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: an element of a tensor that the launch holds; everybody else waits.
            unsafe {
                let old = read_bits(place, bytes);
                if let Some(new) = new(old) {
                    write_bits(place, bytes, new);
                }
                old
            }
        }
    }
}

/// Held while an element that is not aligned is updated.
static UNALIGNED: Mutex<()> = Mutex::new(());
