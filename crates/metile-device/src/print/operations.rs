//! Operands and attributes, by family.

use super::Printer;
use crate::ops::*;
use crate::program::{Shared, Statement, Value};
use metile_ir::tile::OpKind;
use metile_ir::tile::infer::op_name;

/// The operation's name in the text form and in messages.
pub fn name(op: &Op) -> &'static str {
    match op {
        Op::Position(op) => match op {
            PositionOp::Block => "block",
            PositionOp::Blocks => "blocks",
            PositionOp::Thread => "thread",
            PositionOp::Lane => "lane",
            PositionOp::Warp => "warp",
            PositionOp::Word(_) => "word",
        },
        Op::Register(op) => match op {
            RegisterOp::Constant(_) => "constant",
            RegisterOp::Unary(op) => op_name(&OpKind::Unary(*op)),
            RegisterOp::Binary(op) => op_name(&OpKind::Binary(*op)),
            RegisterOp::Compare(op) => op_name(&OpKind::Compare(*op)),
            RegisterOp::Select => "select",
            RegisterOp::Fma => "fma",
            RegisterOp::Cast => "cast",
            RegisterOp::Bitcast => "bitcast",
            RegisterOp::Pick(_) => "pick",
            RegisterOp::Join => "join",
            RegisterOp::Pack => "pack",
            RegisterOp::Uniform => "uniform",
        },
        Op::Memory(op) => match op {
            MemoryOp::Load { .. } => "load",
            MemoryOp::Store { .. } => "store",
            MemoryOp::LoadShared { .. } => "load_shared",
            MemoryOp::StoreShared { .. } => "store_shared",
            MemoryOp::Atomic(AtomicOp::Add) => "atomic_add",
            MemoryOp::Atomic(AtomicOp::Max) => "atomic_max",
            MemoryOp::Atomic(AtomicOp::Min) => "atomic_min",
            MemoryOp::Atomic(AtomicOp::Exchange) => "atomic_exchange",
            MemoryOp::AtomicCas => "atomic_cas",
            MemoryOp::Entry => "entry",
        },
        Op::Exchange(ExchangeOp::Xor(_)) => "exchange_xor",
        Op::Exchange(ExchangeOp::Index) => "exchange",
        Op::Sync(op) => match op {
            SyncOp::Barrier => "barrier",
            SyncOp::WarpBarrier => "warp_barrier",
            SyncOp::AsyncFence => "async_fence",
            SyncOp::GridBarrier => "grid_barrier",
            SyncOp::CounterAdd => "counter_add",
            SyncOp::CounterWait => "counter_wait",
        },
        Op::Matrix(op) => match op {
            MatrixOp::Mma(_) => "mma",
            MatrixOp::LoadMatrix { .. } => "load_matrix",
            MatrixOp::Wgmma(_) => "wgmma",
            MatrixOp::WgmmaWait => "wgmma_wait",
            MatrixOp::FillFragment => "fill_fragment",
            MatrixOp::LoadFragment { .. } => "load_fragment",
            MatrixOp::StoreFragment { .. } => "store_fragment",
            MatrixOp::MultiplyFragments { .. } => "multiply_fragments",
        },
        Op::Copy(op) => match op {
            CopyOp::Async { .. } => "copy_async",
            CopyOp::Commit => "copy_commit",
            CopyOp::Wait { .. } => "copy_wait",
        },
        Op::Control(op) => match op {
            ControlOp::For { .. } => "for",
            ControlOp::While => "while",
            ControlOp::If => "if",
            ControlOp::Yield => "yield",
            ControlOp::Condition => "condition",
        },
        Op::Report(ReportOp::Assert { .. }) => "assert",
    }
}

/// Everything from the operation's name to the end of the line or of the last block.
pub(super) fn write(p: &mut Printer<'_>, s: &Statement) {
    p.out.push_str(name(&s.op));
    match &s.op {
        Op::Position(op) => position(p, *op),
        Op::Register(op) => register(p, op, s),
        Op::Memory(op) => memory(p, op, s),
        Op::Exchange(op) => exchange(p, *op, s),
        Op::Sync(_) => operands(p, &s.operands),
        Op::Matrix(op) => matrix(p, op, s),
        Op::Copy(op) => copy(p, op, s),
        Op::Control(op) => return control(p, *op, s),
        Op::Report(ReportOp::Assert { message }) => {
            p.put(format_args!(" {message}"));
            more(p, &s.operands);
        }
    }
    p.result_types(s);
    p.location(s.span);
}

/// ` %a, %b`.
fn operands(p: &mut Printer<'_>, values: &[Value]) {
    if !values.is_empty() {
        p.out.push(' ');
        p.list(values);
    }
}

/// `, %a, %b`.
fn more(p: &mut Printer<'_>, values: &[Value]) {
    for &value in values {
        p.out.push_str(", ");
        p.value(value);
    }
}

/// `[%offset + 0, 4]`; the operands may be fewer than they should.
fn place(p: &mut Printer<'_>, offset: Option<&Value>, immediates: &[i64]) {
    p.out.push('[');
    if let Some(&offset) = offset {
        p.value(offset);
    }
    for (n, immediate) in immediates.iter().enumerate() {
        p.put(format_args!("{}{immediate}", if n == 0 { " + " } else { ", " }));
    }
    p.out.push(']');
}

fn position(p: &mut Printer<'_>, op: PositionOp) {
    if let PositionOp::Word(n) = op {
        p.put(format_args!(" {n}"));
    }
}

fn register(p: &mut Printer<'_>, op: &RegisterOp, s: &Statement) {
    match op {
        RegisterOp::Constant(scalars) => {
            for (n, scalar) in scalars.iter().enumerate() {
                p.put(format_args!("{}{scalar}", if n == 0 { " " } else { ", " }));
            }
        }
        RegisterOp::Pick(from) => {
            operands(p, &s.operands);
            p.put(format_args!(" {from:?}"));
        }
        _ => operands(p, &s.operands),
    }
}

fn memory(p: &mut Printer<'_>, op: &MemoryOp, s: &Statement) {
    let pointed = |p: &mut Printer<'_>, immediates: &[i64]| {
        operands(p, s.operands.get(..1).unwrap_or_default());
        place(p, s.operands.get(1), immediates);
    };
    match op {
        MemoryOp::Load { width, immediates, masked, constant } => {
            pointed(p, immediates);
            p.put(format_args!(" width {width}"));
            p.out.push_str(if *masked { " masked" } else { "" });
            p.out.push_str(if *constant { " constant" } else { "" });
            more(p, s.operands.get(2..).unwrap_or_default());
        }
        MemoryOp::Store { width, immediates, masked } => {
            pointed(p, immediates);
            p.put(format_args!(" width {width}"));
            p.out.push_str(if *masked { " masked" } else { "" });
            more(p, s.operands.get(2..).unwrap_or_default());
        }
        MemoryOp::LoadShared { buffer, width, immediates } => {
            shared_place(p, *buffer, s.operands.first(), immediates);
            p.put(format_args!(" width {width}"));
            more(p, s.operands.get(1..).unwrap_or_default());
        }
        MemoryOp::StoreShared { buffer, width, immediates, masked } => {
            shared_place(p, *buffer, s.operands.first(), immediates);
            p.put(format_args!(" width {width}"));
            p.out.push_str(if *masked { " masked" } else { "" });
            more(p, s.operands.get(1..).unwrap_or_default());
        }
        MemoryOp::Atomic(_) | MemoryOp::AtomicCas | MemoryOp::Entry => operands(p, &s.operands),
    }
}

/// ` @buffer[%offset + 0, 4]`.
fn shared_place(p: &mut Printer<'_>, buffer: Shared, offset: Option<&Value>, immediates: &[i64]) {
    p.out.push(' ');
    p.buffer(buffer);
    place(p, offset, immediates);
}

fn exchange(p: &mut Printer<'_>, op: ExchangeOp, s: &Statement) {
    operands(p, &s.operands);
    if let ExchangeOp::Xor(mask) = op {
        p.put(format_args!(" {mask}"));
    }
}

/// The name of an atom: rows of `a`, columns of `b`, depth and dtype.
pub(crate) fn atom_name(atom: MmaAtom) -> &'static str {
    match atom {
        MmaAtom::F16M16N8K16 => "m16n8k16.f16",
        MmaAtom::Bf16M16N8K16 => "m16n8k16.bf16",
        MmaAtom::Tf32M16N8K8 => "m16n8k8.tf32",
        MmaAtom::I8M16N8K32 => "m16n8k32.i8",
    }
}

fn matrix(p: &mut Printer<'_>, op: &MatrixOp, s: &Statement) {
    let turned = |t: &bool| if *t { " transposed" } else { "" };
    match op {
        MatrixOp::Mma(atom) => {
            p.put(format_args!(" {}", atom_name(*atom)));
            operands(p, &s.operands);
        }
        MatrixOp::LoadMatrix { buffer, matrices, transposed } => {
            shared_place(p, *buffer, s.operands.first(), &[]);
            p.put(format_args!(" matrices {matrices}{}", turned(transposed)));
            more(p, s.operands.get(1..).unwrap_or_default());
        }
        MatrixOp::Wgmma(w) => {
            let side = |o: &WgmmaOperand| if o.sum_inside { "rows" } else { "columns" };
            shared_place(p, w.a.buffer, s.operands.first(), &[]);
            p.put(format_args!(" {} of {}", side(&w.a), w.a.outer));
            shared_place(p, w.b.buffer, s.operands.get(1), &[]);
            p.put(format_args!(" {} of {}", side(&w.b), w.b.outer));
            more(p, s.operands.get(2..).unwrap_or_default());
            p.put(format_args!(
                " {} {}x{}x{}",
                w.dtype,
                64 * u32::from(w.row_blocks),
                w.columns,
                w.sum
            ));
            if w.in_flight {
                p.put(format_args!(" in flight"));
            }
        }
        MatrixOp::FillFragment | MatrixOp::WgmmaWait => operands(p, &s.operands),
        MatrixOp::LoadFragment { buffer, stride, transposed, immediates } => {
            shared_place(p, *buffer, s.operands.first(), immediates);
            p.put(format_args!(" stride {stride}{}", turned(transposed)));
            more(p, s.operands.get(1..).unwrap_or_default());
        }
        MatrixOp::StoreFragment { buffer, stride, immediates } => {
            shared_place(p, *buffer, s.operands.get(1), immediates);
            p.put(format_args!(" stride {stride}"));
            more(p, s.operands.get(..1).unwrap_or_default());
            more(p, s.operands.get(2..).unwrap_or_default());
        }
        MatrixOp::MultiplyFragments { m, n, k } => {
            operands(p, &s.operands);
            p.put(format_args!(" m {m} n {n} k {k}"));
        }
    }
}

fn copy(p: &mut Printer<'_>, op: &CopyOp, s: &Statement) {
    match op {
        CopyOp::Async { buffer, bytes, immediates, shared_immediates } => {
            shared_place(p, *buffer, s.operands.get(2), shared_immediates);
            p.out.push_str(" from");
            operands(p, s.operands.get(..1).unwrap_or_default());
            place(p, s.operands.get(1), immediates);
            p.put(format_args!(" bytes {bytes}"));
            more(p, s.operands.get(3..).unwrap_or_default());
        }
        CopyOp::Commit => operands(p, &s.operands),
        CopyOp::Wait { pending } => {
            p.put(format_args!(" pending {pending}"));
            more(p, &s.operands);
        }
    }
}

fn control(p: &mut Printer<'_>, op: ControlOp, s: &Statement) {
    match op {
        ControlOp::For { unroll } => {
            let (bounds, init) = s.operands.split_at(s.operands.len().min(3));
            let arguments = s.blocks.first().map_or(&[][..], |b| &b.arguments);
            let (index, carried) = arguments.split_at(arguments.len().min(1));
            operands(p, index);
            for (word, &bound) in ["=", "to", "step"].iter().zip(bounds) {
                p.put(format_args!(" {word} "));
                p.value(bound);
            }
            p.out.push_str(if unroll { " unroll" } else { "" });
            entering(p, carried, init);
        }
        ControlOp::While => {
            let arguments = s.blocks.first().map_or(&[][..], |b| &b.arguments);
            entering(p, arguments, &s.operands);
        }
        ControlOp::If | ControlOp::Yield | ControlOp::Condition => operands(p, &s.operands),
    }
    p.result_types(s);
    p.location(s.span);
    for (n, block) in s.blocks.iter().enumerate() {
        p.out.push_str(match (n, op) {
            (0, _) => " ",
            (_, ControlOp::While) => " do ",
            (_, ControlOp::If) => " else ",
            _ => " and ",
        });
        if n > 0 && !block.arguments.is_empty() {
            p.out.push('(');
            p.list(&block.arguments);
            p.out.push_str(") ");
        }
        p.block(block);
    }
}

/// ` (%argument = %init, …)`, nothing where nothing is carried.
fn entering(p: &mut Printer<'_>, arguments: &[Value], init: &[Value]) {
    if arguments.is_empty() && init.is_empty() {
        return;
    }
    p.out.push_str(" (");
    for n in 0..arguments.len().max(init.len()) {
        p.out.push_str(if n == 0 { "" } else { ", " });
        p.list(arguments.get(n..=n).unwrap_or_default());
        p.out.push_str(" = ");
        p.list(init.get(n..=n).unwrap_or_default());
    }
    p.out.push(')');
}
