//! Memory, synchronization through memory, and copies.

use super::{Checked, On};
use crate::ops::*;
use crate::program::Type;
use metile_ir::Diagnostic;
use metile_ir::dtype::DType;

/// Offsets in the device's memory.
const OFFSETS: &[DType] = &[DType::I64, DType::I32];

pub(super) fn check(on: On<'_>, op: &MemoryOp) -> Checked {
    match op {
        MemoryOp::Load { width, immediates, masked, constant: _ } => {
            on.takes(if *masked { 4 } else { 2 }, 1)?;
            let dtype = pointer(on, false)?;
            let (groups, count) = groups(on, dtype, *width, immediates)?;
            aligned_alike(on, 1, *width, immediates)?;
            on.spread(1, OFFSETS, groups)?;
            if *masked {
                on.spread(2, &[DType::Bool], groups)?;
                on.spread(3, &[dtype], count)?;
            }
            on.gives(0, Type::registers(dtype, count))
        }
        MemoryOp::Store { width, immediates, masked } => {
            on.takes(if *masked { 4 } else { 3 }, 0)?;
            let dtype = pointer(on, true)?;
            let (groups, count) = groups(on, dtype, *width, immediates)?;
            aligned_alike(on, 1, *width, immediates)?;
            on.spread(1, OFFSETS, groups)?;
            if *masked {
                on.spread(2, &[DType::Bool], groups)?;
            }
            on.exactly(if *masked { 3 } else { 2 }, Type::registers(dtype, count))
        }
        MemoryOp::LoadShared { width, immediates, .. } => {
            on.takes(1, 1)?;
            let Type::Registers { dtype, .. } = on.result(0) else {
                return on.fail(format!("gives registers, not {}", on.result(0)));
            };
            let (groups, count) = groups(on, dtype, *width, immediates)?;
            aligned_alike(on, 0, *width, immediates)?;
            on.spread(0, &[DType::I32], groups)?;
            on.gives(0, Type::registers(dtype, count))
        }
        MemoryOp::StoreShared { width, immediates, masked, .. } => {
            let value = if *masked { 2 } else { 1 };
            on.takes(value + 1, 0)?;
            let (dtype, _) = on.registers(value)?;
            let (groups, count) = groups(on, dtype, *width, immediates)?;
            aligned_alike(on, 0, *width, immediates)?;
            on.spread(0, &[DType::I32], groups)?;
            if *masked {
                on.spread(1, &[DType::Bool], groups)?;
            }
            on.exactly(value, Type::registers(dtype, count))
        }
        MemoryOp::Atomic(op) => {
            on.takes(4, 1)?;
            let dtype = pointer(on, true)?;
            if !defined(*op, dtype) {
                return on.fail(format!("is not defined on {dtype}"));
            }
            atomic(on, dtype, 4)
        }
        MemoryOp::AtomicCas => {
            on.takes(5, 1)?;
            let dtype = pointer(on, true)?;
            if !matches!(dtype.bytes(), 4 | 8) {
                return on.fail(format!("is defined on dtypes of 32 and 64 bits, not on {dtype}"));
            }
            atomic(on, dtype, 5)
        }
        MemoryOp::Entry => {
            on.takes(2, 1)?;
            on.exactly(0, Type::Pointer { dtype: DType::U64, writable: false })?;
            on.exactly(1, Type::one(DType::I64))?;
            match on.result(0) {
                Type::Pointer { writable: false, .. } => Ok(()),
                ty => on.fail(format!("gives a pointer that is only read through, not {ty}")),
            }
        }
    }
}

/// The dtype that operand 0 points to.
fn pointer(on: On<'_>, written: bool) -> Result<DType, Box<Diagnostic>> {
    match on.operand(0) {
        Type::Pointer { writable: false, .. } if written => {
            on.fail("writes through a pointer that is only read through")
        }
        Type::Pointer { dtype, .. } => Ok(dtype),
        ty => on.fail(format!("takes a pointer as operand 0, not {ty}")),
    }
}

/// The groups of an access, and their elements.
fn groups(
    on: On<'_>,
    dtype: DType,
    width: u8,
    immediates: &[i64],
) -> Result<(u32, u32), Box<Diagnostic>> {
    if !matches!(width, 1 | 2 | 4 | 8 | 16) || usize::from(width) * dtype.bytes() > 16 {
        return on.fail(format!(
            "accesses {width} elements of {dtype} at once; a group has 1, 2, 4, 8 or 16 elements in at most 16 bytes"
        ));
    }
    let most = crate::verify::MAX_REGISTERS / u32::from(width);
    if immediates.is_empty() || immediates.len() > most as usize {
        return on.fail(format!("has 1 to {most} groups, not {}", immediates.len()));
    }
    let groups = immediates.len() as u32;
    Ok((groups, groups * u32::from(width)))
}

/// Groups that share an offset are aligned or misaligned together.
fn aligned_alike(on: On<'_>, offset: usize, width: u8, immediates: &[i64]) -> Checked {
    let one = matches!(on.operand(offset), Type::Registers { count: 1, .. });
    let place = |n: i64| n.rem_euclid(i64::from(width));
    match immediates.split_first() {
        Some((&first, rest)) if one => match rest.iter().find(|&&n| place(n) != place(first)) {
            Some(other) => on.fail(format!(
                "has groups of {width} elements at {first} and {other} from one offset; one of them is not aligned to its size"
            )),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

fn defined(op: AtomicOp, dtype: DType) -> bool {
    let wide = matches!(dtype.bytes(), 4 | 8);
    match op {
        AtomicOp::Add | AtomicOp::Max | AtomicOp::Min if dtype == DType::F32 => op == AtomicOp::Add,
        AtomicOp::Add | AtomicOp::Max | AtomicOp::Min => wide && dtype.is_int(),
        AtomicOp::Exchange => wide,
    }
}

/// `pointer, offset, mask, value…`.
fn atomic(on: On<'_>, dtype: DType, operands: usize) -> Checked {
    let mut count = 1;
    for n in 1..operands {
        count = count.max(on.registers(n)?.1);
    }
    on.spread(1, OFFSETS, count)?;
    on.spread(2, &[DType::Bool], count)?;
    for n in 3..operands {
        on.spread(n, &[dtype], count)?;
    }
    on.gives(0, Type::registers(dtype, count))
}

pub(super) fn sync(on: On<'_>, op: SyncOp) -> Checked {
    let counter = Type::Pointer { dtype: DType::U32, writable: true };
    match op {
        SyncOp::Barrier | SyncOp::AsyncFence | SyncOp::WarpBarrier => return on.takes(0, 0),
        SyncOp::GridBarrier => {
            on.takes(1, 0)?;
            on.exactly(0, counter)?;
        }
        SyncOp::CounterAdd | SyncOp::CounterWait => {
            on.takes(4, 0)?;
            on.exactly(0, counter)?;
            on.exactly(1, Type::one(DType::I64))?;
            on.exactly(2, Type::one(DType::Bool))?;
            on.exactly(3, Type::one(DType::U32))?;
        }
    }
    if !on.program.persistent {
        return on.fail("stands only in persistent programs, whose blocks all run at once");
    }
    Ok(())
}

pub(super) fn copy(on: On<'_>, op: &CopyOp) -> Checked {
    match op {
        CopyOp::Commit => {
            on.takes(0, 1)?;
            on.gives(0, Type::Token)
        }
        CopyOp::Wait { .. } => on.takes(0, 0),
        CopyOp::Async { bytes, immediates, shared_immediates, .. } => {
            on.takes(4, 0)?;
            let dtype = pointer(on, false)?;
            if !matches!(bytes, 4 | 8 | 16) || usize::from(*bytes) % dtype.bytes() != 0 {
                return on.fail(format!(
                    "copies 4, 8 or 16 bytes of whole elements, not {bytes} of {dtype}"
                ));
            }
            let width = (usize::from(*bytes) / dtype.bytes()) as u8;
            let (groups, _) = groups(on, dtype, width, immediates)?;
            if shared_immediates.len() != immediates.len() {
                return on.fail(format!(
                    "has {} groups in the device's memory and {} in shared memory",
                    immediates.len(),
                    shared_immediates.len()
                ));
            }
            aligned_alike(on, 1, width, immediates)?;
            aligned_alike(on, 2, width, shared_immediates)?;
            on.spread(1, OFFSETS, groups)?;
            on.spread(2, &[DType::I32], groups)?;
            on.spread(3, &[DType::Bool], groups)
        }
    }
}
