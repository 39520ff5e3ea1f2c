//! Shared memory: what a block takes, how it is aligned, and offsets that are known.

use super::structure::shared_buffers;
use super::{Limits, error, walk};
use crate::ops::*;
use crate::program::{Program, Shared, Statement, Type, Value};
use metile_ir::diagnostic::Diagnostic;
use std::collections::HashMap;

pub(super) fn check(program: &Program, limits: &Limits) -> Vec<Diagnostic> {
    let mut errors = buffers(program, limits);
    if !errors.is_empty() {
        return errors;
    }
    let mut constants: HashMap<Value, &[metile_ir::Scalar]> = HashMap::new();
    walk(&program.body, &mut |s| {
        if let (Op::Register(RegisterOp::Constant(scalars)), Some(&result)) =
            (&s.op, s.results.first())
        {
            constants.insert(result, scalars);
        }
        if let Op::Matrix(MatrixOp::Wgmma(_)) = s.op {
            errors.extend(shared_buffers(&s.op).filter_map(|buffer| swizzled(program, s, buffer)));
            return;
        }
        for buffer in shared_buffers(&s.op) {
            let access = Access::new(program, s);
            errors.extend(alignment(program, s, buffer, &access));
            let known = access.offset.and_then(|v| constants.get(&v));
            errors.extend(known.and_then(|offsets| bounds(program, s, buffer, &access, offsets)));
        }
    });
    errors
}

fn buffers(program: &Program, limits: &Limits) -> Vec<Diagnostic> {
    let mut errors = Vec::new();
    let mut total = 0u64;
    for (_, buffer) in program.shared.iter() {
        if !buffer.align.is_power_of_two() || buffer.align > 1024 {
            errors.push(Diagnostic::error(format!(
                "shared buffer `{}` is aligned to {} bytes; a power of two up to 1024 is possible",
                buffer.name, buffer.align
            )));
            continue;
        }
        total = total.next_multiple_of(u64::from(buffer.align)) + u64::from(buffer.bytes);
    }
    if errors.is_empty() && total > u64::from(limits.shared_bytes) {
        let largest = program.shared.iter().max_by_key(|(_, b)| b.bytes).map(|(_, b)| b);
        let largest = largest.map_or(String::new(), |b| {
            format!("; the largest buffer is `{}` with {}", b.name, b.bytes)
        });
        errors.push(
            Diagnostic::error(format!(
                "a block needs {total} bytes of shared memory, and the device has {}{largest}",
                limits.shared_bytes
            ))
            .hint("a smaller tile, or fewer stages of buffering, needs less"),
        );
    }
    errors
}

/// The groups that a statement accesses in shared memory.
struct Access {
    /// Bytes of an element.
    element: usize,
    /// Bytes of a group.
    group: usize,
    offset: Option<Value>,
    immediates: Vec<i64>,
}

impl Access {
    fn new(program: &Program, s: &Statement) -> Access {
        let bytes = |value: Option<&Value>| match value.map(|&v| program.ty(v)) {
            Some(
                Type::Registers { dtype, .. }
                | Type::Pointer { dtype, .. }
                | Type::Fragment { dtype, .. },
            ) => dtype.bytes(),
            _ => 1,
        };
        let (element, width, offset, immediates) = match &s.op {
            Op::Memory(MemoryOp::LoadShared { width, immediates, .. }) => {
                (bytes(s.results.first()), *width, s.operands.first(), immediates.clone())
            }
            Op::Memory(MemoryOp::StoreShared { width, immediates, .. }) => {
                (bytes(s.operands.last()), *width, s.operands.first(), immediates.clone())
            }
            Op::Copy(CopyOp::Async { bytes: group, shared_immediates, .. }) => {
                let element = bytes(s.operands.first());
                let width = (usize::from(*group) / element.max(1)) as u8;
                (element, width, s.operands.get(2), shared_immediates.clone())
            }
            Op::Matrix(MatrixOp::LoadMatrix { .. }) => (2, 8, s.operands.first(), vec![0]),
            Op::Matrix(MatrixOp::LoadFragment { immediates, .. }) => {
                (bytes(s.results.first()), 1, s.operands.first(), immediates.clone())
            }
            Op::Matrix(MatrixOp::StoreFragment { immediates, .. }) => {
                (bytes(s.operands.first()), 1, s.operands.get(1), immediates.clone())
            }
            _ => (1, 1, None, Vec::new()),
        };
        Access { element, group: element * usize::from(width), offset: offset.copied(), immediates }
    }
}

/// The operands of a warpgroup's product begin at multiples of 1,024 bytes.
fn swizzled(program: &Program, s: &Statement, buffer: Shared) -> Option<Diagnostic> {
    let buffer = &program.shared[buffer];
    (buffer.align < 1024).then(|| {
        let message =
            format!("reads `{}`, which is aligned to {}, not to 1024", buffer.name, buffer.align);
        error(s, message)
    })
}

/// An access is aligned to its size, which needs a buffer that is.
fn alignment(program: &Program, s: &Statement, buffer: Shared, a: &Access) -> Option<Diagnostic> {
    let buffer = &program.shared[buffer];
    (a.group > buffer.align as usize).then(|| {
        error(
            s,
            format!(
                "accesses {} bytes at once in `{}`, which is aligned to {}",
                a.group, buffer.name, buffer.align
            ),
        )
    })
}

/// The first group that begins outside of the buffer or is misaligned, where offsets are constants.
fn bounds(
    program: &Program,
    s: &Statement,
    buffer: Shared,
    a: &Access,
    offsets: &[metile_ir::Scalar],
) -> Option<Diagnostic> {
    let buffer = &program.shared[buffer];
    let fragment = matches!(s.op, Op::Matrix(_));
    a.immediates.iter().enumerate().find_map(|(n, &immediate)| {
        let offset = offsets.get(n).or(offsets.first())?.as_int()?;
        let first = (offset + i128::from(immediate)) * a.element as i128;
        let end = first + a.group as i128;
        if first < 0 || end > i128::from(buffer.bytes) {
            return Some(error(
                s,
                format!(
                    "accesses bytes {first} to {end} of `{}`, which has {}",
                    buffer.name, buffer.bytes
                ),
            ));
        }
        let misaligned = !fragment && first % a.group.max(1) as i128 != 0;
        misaligned.then(|| {
            error(
                s,
                format!(
                    "accesses {} bytes at byte {first} of `{}`, which is not aligned to them",
                    a.group, buffer.name
                ),
            )
        })
    })
}
