//! Loops and branches.

use super::printer::Printer;
use super::{EmitError, statements, types};
use metile_device::{Block, ControlOp, Statement, Value};

pub(super) fn print(
    printer: &mut Printer<'_>,
    op: ControlOp,
    statement: &Statement,
) -> Result<(), EmitError> {
    match (op, &statement.blocks[..]) {
        (ControlOp::For { unroll }, [body]) => count(printer, unroll, statement, body),
        (ControlOp::While, [before, body]) => repeat(printer, statement, before, body),
        (ControlOp::If, [then, otherwise]) => branch(printer, statement, then, otherwise),
        // The owner of a block prints how it ends.
        _ => Ok(()),
    }
}

/// Values that a block ends with, after the operands that `skip` counts.
fn ends(block: &Block, skip: usize) -> &[Value] {
    let operands = block.statements.last().map_or(&[][..], |last| &last.operands);
    operands.get(skip..).unwrap_or_default()
}

/// Assigns all of `from` to all of `to` at once: through other variables where one of `from` is a variable
/// that is assigned before it is read.
fn move_all(printer: &mut Printer<'_>, to: &[Value], from: &[Value]) {
    let names: Vec<String> = to.iter().map(|&value| printer.name(value)).collect();
    let read = |printer: &Printer<'_>, value: Value| printer.name(value);
    let mut sources: Vec<(usize, String)> = Vec::new();
    for (n, &value) in from.iter().enumerate() {
        let source = read(printer, value);
        if names.get(n) == Some(&source) {
            continue;
        }
        if names[..n.min(names.len())].contains(&source) {
            let name = printer.namer.name("next");
            let (ty, count) = types::value(printer.program.ty(value));
            match count {
                1 => printer.line(format_args!("{ty} {name};")),
                _ => printer.line(format_args!("{ty} {name}[{count}];")),
            }
            printer.assign(&name, printer.program.ty(value), value);
            sources.push((n, name));
        } else {
            sources.push((n, source));
        }
    }
    for (n, source) in sources {
        let Some(name) = names.get(n) else { continue };
        let ty = printer.program.ty(to[n]);
        let from_count = types::value(printer.program.ty(from[n])).1;
        match types::value(ty).1 {
            1 => printer.line(format_args!("{name} = {source};")),
            count => {
                let index = if from_count == 1 { "" } else { "[i]" };
                printer.over(count, format_args!("{name}[i] = {source}{index};"));
            }
        }
    }
}

/// The carried values are variables that hold the initial values, then what each round ends with.
fn carry(printer: &mut Printer<'_>, results: &[Value], initial: &[Value]) {
    for (&result, &from) in results.iter().zip(initial) {
        printer.declare(result);
        let name = printer.name(result);
        printer.assign(&name, printer.program.ty(result), from);
    }
}

fn alias_all(printer: &mut Printer<'_>, values: &[Value], of: &[Value]) {
    for (&value, &other) in values.iter().zip(of) {
        let name = printer.name(other);
        printer.alias(value, name);
    }
}

fn count(
    printer: &mut Printer<'_>,
    unroll: bool,
    statement: &Statement,
    body: &Block,
) -> Result<(), EmitError> {
    let (&[low, high, step, ref initial @ ..], [index, carried @ ..]) =
        (&statement.operands[..], &body.arguments[..])
    else {
        return Ok(());
    };
    carry(printer, &statement.results, initial);
    alias_all(printer, carried, &statement.results);
    let dtype = printer.dtype(*index);
    let (ty, wide) = (types::register(dtype), types::wrapping(dtype));
    printer.functions.need(format!("advance({ty})"), || {
        format!(
            "// The next index of a loop; its end where the sum would be there or beyond, or overflow.\n\
             inline {ty} advance({ty} index, {ty} step, {ty} end) {{\n    \
             const {wide} by = step < 1 ? {wide}(1) : {wide}(step);\n    \
             return {wide}(end) - {wide}(index) > by ? {ty}({wide}(index) + by) : end;\n}}"
        )
    });
    let [low, high, step] = [low, high, step].map(|value| printer.at(value, 0));
    let index = printer.fresh(*index);
    if unroll {
        printer.line("#pragma unroll");
    }
    printer.open(format_args!(
        "for ({ty} {index} = {low}; {index} < {high}; {index} = metile::advance({index}, {step}, {high}))"
    ));
    statements(printer, &body.statements)?;
    move_all(printer, &statement.results, ends(body, 0));
    printer.close();
    Ok(())
}

/// The results are also what the second block gets: both are what the first ends with.
fn repeat(
    printer: &mut Printer<'_>,
    statement: &Statement,
    before: &Block,
    body: &Block,
) -> Result<(), EmitError> {
    carry(printer, &before.arguments, &statement.operands);
    for &result in &statement.results {
        printer.declare(result);
    }
    printer.open("while (true)");
    statements(printer, &before.statements)?;
    move_all(printer, &statement.results, ends(before, 1));
    let condition = before.statements.last().and_then(|last| last.operands.first());
    let condition = condition.map_or_else(|| "false".to_owned(), |&c| printer.at(c, 0));
    printer.line(format_args!("if (!{condition}) break;"));
    alias_all(printer, &body.arguments, &statement.results);
    statements(printer, &body.statements)?;
    move_all(printer, &before.arguments, ends(body, 0));
    printer.close();
    Ok(())
}

fn branch(
    printer: &mut Printer<'_>,
    statement: &Statement,
    then: &Block,
    otherwise: &Block,
) -> Result<(), EmitError> {
    for &result in &statement.results {
        printer.declare(result);
    }
    let condition = statement.operands.first();
    let condition = condition.map_or_else(|| "false".to_owned(), |&c| printer.at(c, 0));
    printer.open(format_args!("if ({condition})"));
    statements(printer, &then.statements)?;
    move_all(printer, &statement.results, ends(then, 0));
    if !statement.results.is_empty() || otherwise.statements.len() > 1 {
        printer.next("else");
        statements(printer, &otherwise.statements)?;
        move_all(printer, &statement.results, ends(otherwise, 0));
    }
    printer.close();
    Ok(())
}
