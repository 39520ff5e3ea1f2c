//! Reading and writing memory.

use super::functions::memory::{Space, load, store};
use super::printer::Printer;
use super::{EmitError, types};
use metile_device::{AtomicOp, MemoryOp, Statement, Type, Value};
use metile_ir::DType;
use std::fmt::Display;

pub(super) fn print(
    printer: &mut Printer<'_>,
    op: &MemoryOp,
    statement: &Statement,
) -> Result<(), EmitError> {
    let operands = &statement.operands[..];
    let result = statement.results.first().copied();
    match (op, operands, result) {
        (MemoryOp::Load { width, immediates, .. }, &[pointer, offset, ref rest @ ..], Some(to)) => {
            let place = Place::device(printer, pointer, offset);
            let masked = match *rest {
                [mask, fill] => Some((mask, fill)),
                _ => None,
            };
            loads(printer, &place, Groups { width: *width, immediates }, masked, to);
        }
        (MemoryOp::LoadShared { buffer, width, immediates }, &[offset], Some(to)) => {
            let dtype = printer.dtype(to);
            let place = Place::shared(printer, buffer.index(), dtype, offset);
            loads(printer, &place, Groups { width: *width, immediates }, None, to);
        }
        (MemoryOp::Store { width, immediates, .. }, &[pointer, offset, ref rest @ ..], _) => {
            let place = Place::device(printer, pointer, offset);
            stores(printer, &place, Groups { width: *width, immediates }, rest);
        }
        (MemoryOp::StoreShared { buffer, width, immediates, .. }, &[offset, ref rest @ ..], _) => {
            let dtype = rest.last().map_or(DType::U32, |&value| printer.dtype(value));
            let place = Place::shared(printer, buffer.index(), dtype, offset);
            stores(printer, &place, Groups { width: *width, immediates }, rest);
        }
        (MemoryOp::Atomic(op), &[pointer, offset, mask, value], Some(old)) => {
            atomic(printer, statement, *op, [pointer, offset, mask, value], old)?;
        }
        (MemoryOp::AtomicCas, &[pointer, offset, mask, expected, value], Some(old)) => {
            exchange(printer, statement, [pointer, offset, mask, expected, value], old)?;
        }
        (MemoryOp::Entry, &[table, index], Some(pointer)) => entry(printer, table, index, pointer),
        _ => {}
    }
    Ok(())
}

/// Groups of elements.
#[derive(Clone, Copy)]
struct Groups<'a> {
    width: u8,
    immediates: &'a [i64],
}

/// A pointer with offsets from it.
struct Place {
    space: Space,
    pointer: String,
    offset: Value,
    dtype: DType,
}

impl Place {
    fn device(printer: &Printer<'_>, pointer: Value, offset: Value) -> Place {
        let dtype = match printer.program.ty(pointer) {
            Type::Pointer { dtype, .. } => dtype,
            _ => DType::U8,
        };
        Place { space: Space::Device, pointer: printer.name(pointer), offset, dtype }
    }
    fn shared(printer: &Printer<'_>, buffer: usize, dtype: DType, offset: Value) -> Place {
        let name = printer.shared.get(buffer).cloned().unwrap_or_default();
        let pointer = format!("(threadgroup {}*){name}", types::memory(dtype));
        Place { space: Space::Threadgroup, pointer: format!("({pointer})"), offset, dtype }
    }
    /// The address of a group.
    fn group(&self, printer: &Printer<'_>, group: impl Display, immediate: i64) -> String {
        let (pointer, offset) = (&self.pointer, printer.at(self.offset, group));
        match immediate {
            0 => format!("{pointer} + {offset}"),
            1.. => format!("{pointer} + {offset} + {immediate}"),
            _ => format!("{pointer} + {offset} - {}", immediate.unsigned_abs()),
        }
    }
}

/// Register `register` of a variable of `count`.
fn element(name: &str, count: u32, register: usize) -> String {
    if count == 1 { name.to_owned() } else { format!("{name}[{register}]") }
}

fn loads(
    printer: &mut Printer<'_>,
    place: &Place,
    groups: Groups<'_>,
    masked: Option<(Value, Value)>,
    to: Value,
) {
    let width = usize::from(groups.width);
    let count = printer.program.count(to);
    let truth = if place.dtype == DType::Bool { " != 0" } else { "" };
    printer.declare(to);
    let name = printer.name(to);
    for (g, &immediate) in groups.immediates.iter().enumerate() {
        let address = place.group(printer, g, immediate);
        let mask = masked.map(|(mask, _)| printer.at(mask, g));
        if width == 1 {
            let to = element(&name, count, g);
            let value = format!("*({address}){truth}");
            match (mask, masked) {
                (Some(mask), Some((_, fill))) => {
                    let fill = printer.at(fill, g);
                    printer.line(format_args!("if ({mask}) {to} = {value}; else {to} = {fill};"));
                }
                _ => printer.line(format_args!("{to} = {value};")),
            }
            continue;
        }
        let load = load(&mut printer.functions, place.space, place.dtype, groups.width);
        let first = g * width;
        let call = format!("{load}({address}, {name} + {first});");
        match (mask, masked) {
            (Some(mask), Some((_, fill))) => {
                let fill = printer.at(fill, format_args!("{first} + k"));
                printer.line(format_args!("if ({mask}) {call}"));
                printer.line(format_args!(
                    "else for (uint k = 0; k < {width}; ++k) {name}[{first} + k] = {fill};"
                ));
            }
            _ => printer.line(call),
        }
    }
}

/// `rest`: a mask, if there is one, and the value.
fn stores(printer: &mut Printer<'_>, place: &Place, groups: Groups<'_>, rest: &[Value]) {
    let (mask, value) = match *rest {
        [value] => (None, value),
        [mask, value] => (Some(mask), value),
        _ => return,
    };
    let width = usize::from(groups.width);
    let byte = |value: String| match place.dtype {
        DType::Bool => format!("uchar({value})"),
        _ => value,
    };
    // One register that stands for a whole group is spread out first.
    let spread = width > 1 && printer.program.count(value) == 1;
    let spread = spread.then(|| {
        let name = printer.namer.name("spread");
        let (ty, one) = (types::register(place.dtype), printer.at(value, 0));
        printer.line(format_args!("{ty} {name}[{width}];"));
        printer.line(format_args!("for (uint k = 0; k < {width}; ++k) {name}[k] = {one};"));
        name
    });
    for (g, &immediate) in groups.immediates.iter().enumerate() {
        let address = place.group(printer, g, immediate);
        let when = mask.map_or_else(String::new, |mask| format!("if ({}) ", printer.at(mask, g)));
        if width == 1 {
            let value = byte(printer.at(value, g));
            printer.line(format_args!("{when}*({address}) = {value};"));
            continue;
        }
        let store = store(&mut printer.functions, place.space, place.dtype, groups.width);
        let from = match &spread {
            Some(name) => name.clone(),
            None => format!("{} + {}", printer.name(value), g * width),
        };
        printer.line(format_args!("{when}{store}({address}, {from});"));
    }
}

/// The atomic type for a dtype: 32 bits wide, since Metal has no others that give the old value.
fn atomic_type(
    printer: &Printer<'_>,
    statement: &Statement,
    dtype: DType,
    what: &str,
) -> Result<&'static str, EmitError> {
    match dtype {
        DType::I32 => Ok("int"),
        DType::U32 => Ok("uint"),
        DType::F32 => Ok("float"),
        _ => Err(printer.unsupported(
            statement,
            format!("atomic {what} of {dtype}"),
            "its atomic operations that give the old value are on 32 bits; use i32, u32 or f32",
        )),
    }
}

fn atomic(
    printer: &mut Printer<'_>,
    statement: &Statement,
    op: AtomicOp,
    [pointer, offset, mask, value]: [Value; 4],
    old: Value,
) -> Result<(), EmitError> {
    let (name, what) = match op {
        AtomicOp::Add => ("atomic_fetch_add_explicit", "addition"),
        AtomicOp::Max => ("atomic_fetch_max_explicit", "maximum"),
        AtomicOp::Min => ("atomic_fetch_min_explicit", "minimum"),
        AtomicOp::Exchange => ("atomic_exchange_explicit", "exchange"),
    };
    let place = Place::device(printer, pointer, offset);
    let ty = atomic_type(printer, statement, place.dtype, what)?;
    let zero = format!("{}(0)", types::register(place.dtype));
    let count = printer.program.count(old);
    printer.declare(old);
    let old = printer.name(old);
    for g in 0..count as usize {
        let address = format!("(device atomic_{ty}*)({})", place.group(printer, g, 0));
        let (mask, value) = (printer.at(mask, g), printer.at(value, g));
        let old = element(&old, count, g);
        printer.line(format_args!(
            "if ({mask}) {old} = {name}({address}, {value}, memory_order_relaxed); else {old} = {zero};"
        ));
    }
    Ok(())
}

/// Compares bits, so floats go as what their bits are; only the form that may fail without reason exists.
fn exchange(
    printer: &mut Printer<'_>,
    statement: &Statement,
    [pointer, offset, mask, expected, value]: [Value; 5],
    old: Value,
) -> Result<(), EmitError> {
    let place = Place::device(printer, pointer, offset);
    atomic_type(printer, statement, place.dtype, "compare and exchange")?;
    printer.functions.need("cas(uint)", || {
        "inline uint cas(device uint* at, uint expected, uint value) {\n    \
         uint old = expected;\n    \
         while (!atomic_compare_exchange_weak_explicit(\n        \
         (device atomic_uint*)at, &old, value, memory_order_relaxed, memory_order_relaxed)) {\n        \
         if (old != expected) return old;\n    }\n    \
         return expected;\n}"
            .to_owned()
    });
    let ty = types::register(place.dtype);
    let count = printer.program.count(old);
    printer.declare(old);
    let old = printer.name(old);
    for g in 0..count as usize {
        let address = format!("(device uint*)({})", place.group(printer, g, 0));
        let [mask, expected, value] = [mask, expected, value].map(|v| printer.at(v, g));
        let old = element(&old, count, g);
        printer.line(format_args!(
            "if ({mask}) {old} = as_type<{ty}>(metile::cas({address}, as_type<uint>({expected}), \
             as_type<uint>({value}))); else {old} = {ty}(0);"
        ));
    }
    Ok(())
}

/// A table holds addresses; to Metal it is an array of structures of one pointer.
fn entry(printer: &mut Printer<'_>, table: Value, index: Value, pointer: Value) {
    let Type::Pointer { dtype, writable } = printer.program.ty(pointer) else { return };
    let ty = types::pointer(dtype, writable);
    let memory = types::memory(dtype);
    let name = if writable { format!("{memory}_at") } else { format!("{memory}_in") };
    printer.functions.need(format!("entry {name}"), || {
        format!(
            "struct {name} {{ {ty} first; }};\n\
             inline {ty} {name}_entry(device const ulong* table, long n) {{\n    \
             return ((device const {name}*)table)[n].first;\n}}"
        )
    });
    let (table, index) = (printer.name(table), printer.at(index, 0));
    let to = printer.fresh(pointer);
    printer.line(format_args!("{ty} const {to} = metile::{name}_entry({table}, {index});"));
}
