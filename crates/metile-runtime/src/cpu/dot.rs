//! Matrix products: operands where they lie.

use super::machine::Machine;
use super::walk::within;
use metile_compiler::cpu::{Access, Dot, Place};
use metile_ir::dtype::{DType, Format};
use metile_ir::tile::Access as TensorAccess;
use metile_simd::matrix::{self, Bytes, Operand, Source};

pub(super) fn run(machine: &mut Machine<'_>, dot: &Dot) {
    let Dot { m, n, k, .. } = *dot;
    let slot = machine.slot(dot.slot);
    let level = machine.worker.level;
    if dot.integer {
        let (a, b) = (bytes(machine, &dot.a, m, k, 0), bytes(machine, &dot.b, n, k, 1));
        // SAFETY: operands lie in memory that the launch holds; the slot is no operand.
        unsafe { matrix::dot_i8(m, n, k, &a, &b, slot.cast(), n) };
        return;
    }
    let a = operand(machine, &dot.a, m, k, 0);
    let b = operand(machine, &dot.b, n, k, 1);
    // SAFETY: as above.
    unsafe {
        matrix::dot(level, m, n, k, &a, &b, slot.cast(), n, &mut machine.worker.panels);
    }
}

/// Where the elements of an operand lie: the first one, the strides, and how many rows and columns.
struct Layout {
    first: *const u8,
    row_stride: isize,
    k_stride: isize,
    valid_rows: usize,
    valid_k: usize,
}

/// The layout of a plain operand; `None` if it is no rectangle that begins at its first element.
fn layout(machine: &Machine<'_>, access: &Access, rows: usize, k: usize) -> Option<Layout> {
    match &access.place {
        Place::Slot { slot, offset, strides } => {
            let bytes = access.dtype.bytes() as i64;
            Some(Layout {
                first: machine.slot(*slot).wrapping_offset((offset * bytes) as isize),
                row_stride: strides[0] as isize,
                k_stride: strides[1] as isize,
                valid_rows: rows,
                valid_k: k,
            })
        }
        Place::Tensor { view, format: Format::Plain(dtype), index } => {
            let view = &machine.program.views[*view as usize];
            let extents = extents(machine, access, rows, k)?;
            let (mut at, mut row, mut column) = (0i64, 0i64, 0i64);
            for (axis, index) in index.iter().enumerate() {
                let base = index.base.value(&machine.program.regs);
                at = at.wrapping_add(base.wrapping_mul(view.strides[axis]));
                row = row.wrapping_add(index.steps[0].wrapping_mul(view.strides[axis]));
                column = column.wrapping_add(index.steps[1].wrapping_mul(view.strides[axis]));
            }
            let bytes = dtype.bytes() as i64;
            Some(Layout {
                first: view.parts[0].wrapping_offset(at.wrapping_mul(bytes) as isize),
                row_stride: row as isize,
                k_stride: column as isize,
                valid_rows: extents.0,
                valid_k: extents.1,
            })
        }
        Place::Tensor { .. } => None,
    }
}

/// How many rows and columns lie within the tensor, if those that do come first.
fn extents(
    machine: &Machine<'_>,
    access: &Access,
    rows: usize,
    k: usize,
) -> Option<(usize, usize)> {
    let Place::Tensor { view, index, .. } = &access.place else { return None };
    let view = &machine.program.views[*view as usize];
    let mut valid = [rows as i64, k as i64];
    for (axis, index) in index.iter().enumerate() {
        let base = index.base.value(&machine.program.regs);
        let along = match (index.steps[0], index.steps[1]) {
            (0, 0) | (_, 0) => 0,
            (0, _) => 1,
            _ => return None,
        };
        let (low, high) = within(base, index.steps[along], view.shape[axis], valid[along]);
        if low >= high {
            return Some((0, 0));
        }
        if low > 0 {
            return None;
        }
        valid[along] = high;
        // A coordinate that does not move is in or out for all elements.
    }
    Some((valid[0] as usize, valid[1] as usize))
}

fn operand(machine: &mut Machine<'_>, access: &Access, rows: usize, k: usize, n: usize) -> Operand {
    if let Some(l) = layout(machine, access, rows, k) {
        let source = Source::Plain {
            dtype: access.dtype,
            base: l.first,
            row_stride: l.row_stride,
            k_stride: l.k_stride,
        };
        let version = version(machine, access);
        return Operand { source, valid_rows: l.valid_rows, valid_k: l.valid_k, version };
    }
    packed(machine, access, rows, k).unwrap_or_else(|| copied(machine, access, rows, k, n))
}

/// The launch, for a tensor that nobody writes to while it is under way.
fn version(machine: &Machine<'_>, access: &Access) -> u64 {
    match access.place {
        Place::Tensor { view, .. }
            if machine.form.views[view as usize].access == TensorAccess::Read =>
        {
            machine.launch.number
        }
        _ => 0,
    }
}

/// A packed operand whose rows of blocks are the product's.
fn packed(machine: &Machine<'_>, access: &Access, rows: usize, k: usize) -> Option<Operand> {
    let Place::Tensor { view, format: Format::Packed(format), index } = &access.place else {
        return None;
    };
    let view = &machine.program.views[*view as usize];
    let (last, outer) = index.split_last()?;
    if last.steps[0] != 0 || last.steps[1] != 1 || outer.iter().any(|i| i.steps[1] != 0) {
        return None;
    }
    let (valid_rows, valid_k) = extents(machine, access, rows, k)?;
    let (mut at, mut row) = (0i64, 0i64);
    for (axis, index) in outer.iter().enumerate() {
        let base = index.base.value(&machine.program.regs);
        at = at.wrapping_add(base.wrapping_mul(view.strides[axis]));
        row = row.wrapping_add(index.steps[0].wrapping_mul(view.strides[axis]));
    }
    let first_k = last.base.value(&machine.program.regs).max(0) as usize;
    let mut parts = view.parts.map(<*mut u8>::cast_const);
    for (part, bytes) in parts.iter_mut().zip(format.array_bytes()) {
        *part = part.wrapping_offset(at.wrapping_mul(bytes as i64) as isize);
    }
    let source = Source::Packed { format: *format, parts, row_stride: row as isize, first_k };
    Some(Operand { source, valid_rows, valid_k, version: version(machine, access) })
}

/// Any other operand, element by element, as `f32`.
fn copied(machine: &mut Machine<'_>, access: &Access, rows: usize, k: usize, n: usize) -> Operand {
    let mut copy = std::mem::take(&mut machine.worker.copies[n]);
    copy.clear();
    for row in 0..rows {
        for column in 0..k {
            let bits = element(machine, access, row, column);
            let value = metile_ir::scalar::Scalar::from_bits(access.dtype, bits);
            copy.push(value.as_f32().unwrap_or(0.0));
        }
    }
    let source = Source::Plain {
        dtype: DType::F32,
        base: copy.as_ptr().cast(),
        row_stride: k as isize,
        k_stride: 1,
    };
    // The vector keeps its memory until the next product of this worker.
    machine.worker.copies[n] = copy;
    Operand { source, valid_rows: rows, valid_k: k, version: 0 }
}

/// The bits of one element of a tensor operand; 0 outside.
fn element(machine: &mut Machine<'_>, access: &Access, row: usize, column: usize) -> u64 {
    let Place::Tensor { view, format, index } = &access.place else { return 0 };
    let mut at = [0; 4];
    for (axis, index) in index.iter().enumerate() {
        let base = index.base.value(&machine.program.regs);
        at[axis] = base
            .wrapping_add(index.steps[0].wrapping_mul(row as i64))
            .wrapping_add(index.steps[1].wrapping_mul(column as i64));
    }
    let view = machine.program.views[*view as usize];
    view.read(*format, &at[..index.len()], &mut machine.worker.block).unwrap_or(0)
}

fn bytes(machine: &mut Machine<'_>, access: &Access, rows: usize, k: usize, n: usize) -> Bytes {
    if let Some(l) = layout(machine, access, rows, k) {
        return Bytes {
            base: l.first.cast(),
            row_stride: l.row_stride,
            k_stride: l.k_stride,
            valid_rows: l.valid_rows,
            valid_k: l.valid_k,
        };
    }
    let mut copy = std::mem::take(&mut machine.worker.bytes[n]);
    copy.clear();
    for row in 0..rows {
        for column in 0..k {
            copy.push(element(machine, access, row, column) as u8 as i8);
        }
    }
    let base = copy.as_ptr();
    machine.worker.bytes[n] = copy;
    Bytes { base, row_stride: k as isize, k_stride: 1, valid_rows: rows, valid_k: k }
}
