//! Arithmetic and moves within a thread.

use super::functions::{float, integer};
use super::literal::literal;
use super::printer::{INDEX, Printer};
use super::{EmitError, types};
use metile_device::{BinaryOp, CompareOp, RegisterOp, Statement, UnaryOp, Value};
use metile_ir::{DType, Scalar};

pub(super) fn print(
    printer: &mut Printer<'_>,
    op: &RegisterOp,
    statement: &Statement,
) -> Result<(), EmitError> {
    let Some(&result) = statement.results.first() else { return Ok(()) };
    let operands = &statement.operands[..];
    match (op, operands) {
        (RegisterOp::Constant(scalars), _) => constant(printer, scalars, result),
        (RegisterOp::Unary(op), &[a]) => printer.each(result, |printer, i| {
            let (dtype, a) = (printer.dtype(a), printer.at(a, i));
            unary(printer, *op, dtype, &a)
        }),
        (RegisterOp::Binary(op), &[a, b]) => printer.each(result, |printer, i| {
            let (dtype, a, b) = (printer.dtype(a), printer.at(a, i), printer.at(b, i));
            binary(printer, *op, dtype, &a, &b)
        }),
        (RegisterOp::Compare(op), &[a, b]) => printer.each(result, |printer, i| {
            format!("{} {} {}", printer.at(a, i), comparison(*op), printer.at(b, i))
        }),
        (RegisterOp::Select, &[c, a, b]) => printer.each(result, |printer, i| {
            format!("{} ? {} : {}", printer.at(c, i), printer.at(a, i), printer.at(b, i))
        }),
        (RegisterOp::Fma, &[a, b, c]) => printer.each(result, |printer, i| {
            format!("fma({}, {}, {})", printer.at(a, i), printer.at(b, i), printer.at(c, i))
        }),
        (RegisterOp::Cast, &[a]) => printer.each(result, |printer, i| {
            let (from, to) = (printer.dtype(a), printer.dtype(result));
            let a = printer.at(a, i);
            cast(printer, from, to, &a)
        }),
        (RegisterOp::Bitcast, &[a]) => printer.each(result, |printer, i| {
            format!("as_type<{}>({})", types::register(printer.dtype(result)), printer.at(a, i))
        }),
        (RegisterOp::Uniform, &[a]) => printer.each(result, |printer, i| printer.at(a, i)),
        (RegisterOp::Pick(from), &[a]) => pick(printer, from, a, result),
        (RegisterOp::Join, parts) => join(printer, parts, result),
        (RegisterOp::Pack, &[a]) => pack(printer, a, result),
        _ => {}
    }
    Ok(())
}

fn constant(printer: &mut Printer<'_>, scalars: &[Scalar], result: Value) {
    match scalars {
        // A constant that stands for all registers is written where it is used.
        [one] => printer.alias(result, literal(*one)),
        all => {
            let (ty, count) = types::value(printer.program.ty(result));
            let name = printer.fresh(result);
            let values: Vec<String> = all.iter().map(|&scalar| literal(scalar)).collect();
            let values = values.join(", ");
            printer.line(format_args!("const {ty} {name}[{count}] = {{{values}}};"));
        }
    }
}

/// Runs of neighbours are moved together.
fn pick(printer: &mut Printer<'_>, from: &[u32], a: Value, result: Value) {
    if let &[one] = from {
        return printer.each(result, |printer, _| printer.at(a, one));
    }
    printer.declare(result);
    let name = printer.name(result);
    let mut at = 0;
    while at < from.len() {
        let (step, length) = run(&from[at..]);
        let (first, to) = (from[at], at);
        let register = match step {
            0 => printer.at(a, first),
            _ => printer.at(a, format_args!("{first} + {INDEX}")),
        };
        match length {
            1 => printer.line(format_args!("{name}[{to}] = {};", printer.at(a, first))),
            _ => printer.over(length as u32, format_args!("{name}[{to} + {INDEX}] = {register};")),
        }
        at += length;
    }
}

/// The longest run at the start whose numbers are all the same, or go up by one.
fn run(from: &[u32]) -> (u32, usize) {
    let length = |step: u32| {
        let expected = |n: usize| from[0].checked_add(step * n as u32);
        from.iter().enumerate().take_while(|&(n, &f)| expected(n) == Some(f)).count()
    };
    let (same, up) = (length(0), length(1));
    if same > up { (0, same) } else { (1, up) }
}

fn join(printer: &mut Printer<'_>, parts: &[Value], result: Value) {
    printer.declare(result);
    let name = printer.name(result);
    let mut to = 0;
    for &part in parts {
        let count = printer.program.count(part);
        match count {
            1 => printer.line(format_args!("{name}[{to}] = {};", printer.at(part, 0))),
            _ => {
                let register = printer.at(part, INDEX);
                printer.over(count, format_args!("{name}[{to} + {INDEX}] = {register};"));
            }
        }
        to += count;
    }
}

/// Pairs of 16-bit elements in a register, the first in the lower half.
fn pack(printer: &mut Printer<'_>, a: Value, result: Value) {
    if printer.dtype(a) == DType::U32 {
        let ty = types::register(printer.dtype(result));
        printer.declare(result);
        let (name, pair) = (printer.name(result), printer.at(a, INDEX));
        let count = printer.program.count(a);
        printer.over(
            count,
            format_args!(
                "{{ {name}[2 * {INDEX}] = as_type<{ty}>(ushort({pair})); \
                 {name}[2 * {INDEX} + 1] = as_type<{ty}>(ushort({pair} >> 16)); }}"
            ),
        );
    } else {
        printer.each(result, |printer, i| {
            let half = |n: u32| printer.at(a, format_args!("2 * {i} + {n}"));
            let (low, high) = (half(0), half(1));
            format!("uint(as_type<ushort>({low})) | (uint(as_type<ushort>({high})) << 16)")
        });
    }
}

fn comparison(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Eq => "==",
        CompareOp::Ne => "!=",
        CompareOp::Lt => "<",
        CompareOp::Le => "<=",
        CompareOp::Gt => ">",
        CompareOp::Ge => ">=",
    }
}

/// `op a` as an expression.
fn unary(printer: &mut Printer<'_>, op: UnaryOp, dtype: DType, a: &str) -> String {
    match dtype {
        DType::Bool => format!("!{a}"),
        DType::F32 => float::unary(&mut printer.functions, op, a),
        _ => integer::unary(&mut printer.functions, op, dtype, a),
    }
}

/// `a op b` as an expression.
fn binary(printer: &mut Printer<'_>, op: BinaryOp, dtype: DType, a: &str, b: &str) -> String {
    match dtype {
        DType::Bool => match op {
            BinaryOp::And => format!("{a} && {b}"),
            BinaryOp::Or => format!("{a} || {b}"),
            _ => format!("{a} != {b}"),
        },
        DType::F32 => float::binary(&mut printer.functions, op, a, b),
        _ => integer::binary(&mut printer.functions, op, dtype, a, b),
    }
}

/// `a` converted by value. Integers reach 16-bit floats through `float`, as in the language's definition.
fn cast(printer: &mut Printer<'_>, from: DType, to: DType, a: &str) -> String {
    let ty = types::register(to);
    let wide = match from {
        DType::F16 | DType::BF16 => format!("float({a})"),
        _ => a.to_owned(),
    };
    match (from.is_float(), to) {
        (_, DType::Bool) => match from {
            DType::Bool => wide,
            DType::F16 | DType::BF16 | DType::F32 => format!("{wide} != 0.0f"),
            _ => format!("{wide} != 0"),
        },
        (_, DType::F32) if from.is_float() && from != DType::F32 => wide,
        (false, DType::F16 | DType::BF16) => format!("{ty}(float({a}))"),
        (true, to) if to.is_int() => float::to_integer(&mut printer.functions, to, &wide),
        _ => format!("{ty}({wide})"),
    }
}
