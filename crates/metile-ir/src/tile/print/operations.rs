//! Operands and attributes of operations without regions.

use super::Printer;
use crate::tile::{AtomicOp, Op, OpKind, ReduceOp, ScanOp};

/// Everything between the operation's name and its result type.
pub(super) fn write(p: &mut Printer<'_>, op: &Op) {
    let operands = &op.operands[..];
    match &op.kind {
        OpKind::ProgramId(axis) | OpKind::NumPrograms(axis) => p.put(format_args!(" {axis}")),
        OpKind::Constant(scalar) => p.put(format_args!(" {scalar}")),
        OpKind::Arange
        | OpKind::GridBarrier
        | OpKind::Unary(_)
        | OpKind::Binary(_)
        | OpKind::Compare(_)
        | OpKind::Select
        | OpKind::Fma
        | OpKind::Cast
        | OpKind::Bitcast
        | OpKind::Broadcast
        | OpKind::Reshape
        | OpKind::ListItem
        | OpKind::CounterAdd
        | OpKind::CounterWait
        | OpKind::Yield
        | OpKind::Condition
        | OpKind::Return => spaced(p, op),
        OpKind::Transpose(permutation) => {
            spaced(p, op);
            p.put(format_args!(" {permutation:?}"));
        }
        OpKind::Slice { axis, start, step } => {
            spaced(p, op);
            p.put(format_args!(" axis {axis} start {start} step {step}"));
        }
        OpKind::Cat { axis } => {
            p.put(format_args!(" axis {axis}"));
            spaced(p, op);
        }
        OpKind::Gather { axis } | OpKind::Narrow { axis } | OpKind::Pick { axis } => {
            spaced(p, op);
            p.put(format_args!(" axis {axis}"));
        }
        OpKind::Reduce { op: how, axis } => {
            p.put(format_args!(" {}", reduce_name(*how)));
            spaced(p, op);
            p.put(format_args!(" axis {axis}"));
        }
        OpKind::Scan { op: how, axis } => {
            p.put(format_args!(" {}", scan_name(*how)));
            spaced(p, op);
            p.put(format_args!(" axis {axis}"));
        }
        OpKind::Dot { transpose_a, transpose_b } => {
            spaced(p, op);
            p.out.push_str(if *transpose_a { " transpose_a" } else { "" });
            p.out.push_str(if *transpose_b { " transpose_b" } else { "" });
        }
        OpKind::Dim { axis } => {
            spaced(p, op);
            p.put(format_args!(", {axis}"));
        }
        OpKind::Load { masked } | OpKind::Store { masked } => access(p, op, *masked, 1),
        OpKind::LoadTile | OpKind::StoreTile => access(p, op, false, 1),
        OpKind::AtomicRmw(how) => {
            p.put(format_args!(" {}", atomic_name(*how)));
            access(p, op, false, 1);
        }
        OpKind::AtomicCas => access(p, op, false, 2),
        OpKind::Assert { message } => {
            spaced(p, op);
            p.out.push_str(", ");
            p.string(message);
        }
        OpKind::Print { format } => {
            p.out.push(' ');
            p.string(format);
            p.out.push_str(if operands.is_empty() { "" } else { ", " });
            p.values(operands);
        }
        // Printed with their regions.
        OpKind::For | OpKind::While | OpKind::If => {}
    }
}

/// The operands after a space.
fn spaced(p: &mut Printer<'_>, op: &Op) {
    if !op.operands.is_empty() {
        p.out.push(' ');
        p.values(&op.operands);
    }
}

/// ` %t[%i, %j] mask %m, %value`: the coordinates are what the other operands leave over.
fn access(p: &mut Printer<'_>, op: &Op, masked: bool, values: usize) {
    let (tensor, rest) = op.operands.split_at(op.operands.len().min(1));
    let coordinates = rest.len().saturating_sub(values + usize::from(masked));
    let (coordinates, rest) = rest.split_at(coordinates);
    let (mask, values) = rest.split_at(rest.len().min(usize::from(masked)));
    p.out.push(' ');
    p.values(tensor);
    p.out.push('[');
    p.values(coordinates);
    p.out.push(']');
    if masked {
        p.out.push_str(" mask ");
        p.values(mask);
    }
    p.out.push_str(", ");
    p.values(values);
}

/// The word for a reduction.
pub(in crate::tile) fn reduce_name(op: ReduceOp) -> &'static str {
    match op {
        ReduceOp::Sum => "sum",
        ReduceOp::Max => "max",
        ReduceOp::Min => "min",
        ReduceOp::ArgMax => "argmax",
        ReduceOp::ArgMin => "argmin",
        ReduceOp::Any => "any",
        ReduceOp::All => "all",
    }
}

/// The word for a scan.
pub(in crate::tile) fn scan_name(op: ScanOp) -> &'static str {
    match op {
        ScanOp::Sum => "sum",
        ScanOp::Max => "max",
        ScanOp::Min => "min",
    }
}

/// The word for an atomic operation.
pub(in crate::tile) fn atomic_name(op: AtomicOp) -> &'static str {
    match op {
        AtomicOp::Add => "add",
        AtomicOp::Max => "max",
        AtomicOp::Min => "min",
        AtomicOp::Exchange => "exchange",
    }
}
