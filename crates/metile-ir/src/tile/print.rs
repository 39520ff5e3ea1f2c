//! Kernels as text. [`parse`](super::parse) documents the form, and reads it back.

use super::infer::op_name;
use super::{AtomicOp, Kernel, Op, OpId, OpKind, Precision, ReduceOp, RegionId, ScanOp, Value};
use std::collections::HashMap;
use std::fmt::{self, Write};

/// What is printed besides the program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Where each operation was written.
    pub locations: bool,
}

/// The kernel as text, ending in a newline.
pub fn print(kernel: &Kernel, options: Options) -> String {
    let mut printer = Printer {
        kernel,
        options,
        names: HashMap::new(),
        taken: HashMap::new(),
        unnamed: 0,
        out: String::new(),
    };
    // Writing to a String can't fail.
    let _ = printer.kernel();
    printer.out
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&print(self, Options::default()))
    }
}

struct Printer<'k> {
    kernel: &'k Kernel,
    options: Options,
    names: HashMap<Value, String>,
    /// How many values of each name there are so far.
    taken: HashMap<String, usize>,
    unnamed: usize,
    out: String,
}

/// A hint as a name: ASCII letters, digits and `_`, not starting with a digit.
fn sanitized(hint: &str) -> Option<String> {
    let name: String =
        hint.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    match name.chars().next() {
        None => None,
        Some(c) if c.is_ascii_digit() => Some(format!("_{name}")),
        Some(_) => Some(name),
    }
}

impl Printer<'_> {
    fn name(&mut self, value: Value) -> String {
        if let Some(name) = self.names.get(&value) {
            return name.clone();
        }
        let hint = self.kernel.values[value].name.as_deref().and_then(sanitized);
        let name = match hint {
            None => {
                self.unnamed += 1;
                format!("%{}", self.unnamed - 1)
            }
            Some(hint) => {
                let count = self.taken.entry(hint.clone()).or_default();
                *count += 1;
                if *count == 1 { format!("%{hint}") } else { format!("%{hint}.{}", *count - 1) }
            }
        };
        self.names.insert(value, name.clone());
        name
    }

    fn list(&mut self, values: &[Value]) -> String {
        let names: Vec<String> = values.iter().map(|&v| self.name(v)).collect();
        names.join(", ")
    }

    fn kernel(&mut self) -> fmt::Result {
        if self.options.locations {
            for (n, file) in self.kernel.files.iter().enumerate() {
                writeln!(self.out, "file {n} {}", quoted(&file.name))?;
            }
        }
        let parameters: Vec<String> = self
            .kernel
            .parameters
            .iter()
            .map(|&v| format!("{}: {}", self.name(v), self.kernel.ty(v)))
            .collect();
        write!(self.out, "kernel @{}({})", self.kernel.name, parameters.join(", "))?;
        if self.kernel.persistent {
            self.out.push_str(" persistent");
        }
        if self.kernel.precision == Precision::Relaxed {
            self.out.push_str(" relaxed");
        }
        self.out.push_str(" {\n");
        self.region(self.kernel.body, 1)?;
        self.out.push_str("}\n");
        Ok(())
    }

    fn region(&mut self, region: RegionId, depth: usize) -> fmt::Result {
        let kernel = self.kernel;
        for &op in &kernel.regions[region].ops {
            self.op(op, depth)?;
        }
        Ok(())
    }

    fn op(&mut self, id: OpId, depth: usize) -> fmt::Result {
        let kernel = self.kernel;
        let op = &kernel.ops[id];
        let indent = "  ".repeat(depth);
        self.out.push_str(&indent);
        match op.kind {
            OpKind::For | OpKind::While | OpKind::If => self.control(op, depth)?,
            _ => {
                if !op.results.is_empty() {
                    let results = self.list(&op.results);
                    write!(self.out, "{results} = ")?;
                }
                let text = self.plain(op);
                self.out.push_str(&text);
                if let Some(&result) = op.results.first() {
                    write!(self.out, " : {}", kernel.ty(result))?;
                }
            }
        }
        if self.options.locations
            && let Some(span) = op.span
        {
            write!(self.out, " @{}:{}:{}", span.file, span.line, span.column)?;
        }
        self.out.push('\n');
        Ok(())
    }

    /// An operation without regions, its results and types left out.
    fn plain(&mut self, op: &Op) -> String {
        let name = op_name(&op.kind);
        let v: Vec<String> = op.operands.iter().map(|&v| self.name(v)).collect();
        let all = v.join(", ");
        match &op.kind {
            OpKind::ProgramId(axis) | OpKind::NumPrograms(axis) => format!("{name} {axis}"),
            OpKind::Constant(scalar) => format!("{name} {scalar}"),
            OpKind::Transpose(axes) => format!("{name} {all} {axes:?}"),
            OpKind::Slice { axis, start, step } => {
                format!("{name} {all} axis {axis} start {start} step {step}")
            }
            OpKind::Cat { axis } | OpKind::Gather { axis } => format!("{name} {all} axis {axis}"),
            OpKind::Reduce { op, axis } => format!("{name} {} {all} axis {axis}", reduce_name(*op)),
            OpKind::Scan { op, axis } => format!("{name} {} {all} axis {axis}", scan_name(*op)),
            OpKind::Dot { transpose_a, transpose_b } => {
                let a = if *transpose_a { " transpose_a" } else { "" };
                let b = if *transpose_b { " transpose_b" } else { "" };
                format!("{name} {all}{a}{b}")
            }
            OpKind::Dim { axis } | OpKind::Narrow { axis } | OpKind::Pick { axis } => {
                format!("{name} {all} axis {axis}")
            }
            OpKind::Load { .. }
            | OpKind::Store { .. }
            | OpKind::LoadTile
            | OpKind::StoreTile
            | OpKind::AtomicCas => access(name, &v, self.rank(op), masked(&op.kind)),
            OpKind::AtomicRmw(atomic) => {
                let name = format!("{name} {}", atomic_name(*atomic));
                access(&name, &v, self.rank(op), false)
            }
            OpKind::Assert { message } => format!("{name} {all} {}", quoted(message)),
            OpKind::Print { format } if v.is_empty() => format!("{name} {}", quoted(format)),
            OpKind::Print { format } => format!("{name} {} {all}", quoted(format)),
            _ if v.is_empty() => name.to_owned(),
            _ => format!("{name} {all}"),
        }
    }

    fn rank(&self, op: &Op) -> usize {
        let tensor = op.operands.first().and_then(|&v| self.kernel.ty(v).tensor());
        tensor.map_or(0, |t| t.rank as usize)
    }

    fn control(&mut self, op: &Op, depth: usize) -> fmt::Result {
        let kernel = self.kernel;
        let types: Vec<String> = op.results.iter().map(|&v| kernel.ty(v).to_string()).collect();
        let arrow =
            if types.is_empty() { String::new() } else { format!(" -> ({})", types.join(", ")) };
        // Operands are named before results, so that names follow the order of the text.
        let operands: Vec<String> = op.operands.iter().map(|&v| self.name(v)).collect();
        if !op.results.is_empty() {
            let results = self.list(&op.results);
            write!(self.out, "{results} = ")?;
        }
        let close = "  ".repeat(depth);
        match op.kind {
            OpKind::For => {
                let arguments = &kernel.regions[op.regions[0]].arguments;
                let index = arguments.first().map(|&v| self.name(v)).unwrap_or_default();
                let carried = self.carried(arguments.get(1..).unwrap_or_default(), &operands[3..]);
                let [low, high, step] = [&operands[0], &operands[1], &operands[2]];
                writeln!(self.out, "for {index} = {low} to {high} step {step}{carried}{arrow} {{")?;
                self.region(op.regions[0], depth + 1)?;
            }
            OpKind::While => {
                let carried = self.carried(&kernel.regions[op.regions[0]].arguments, &operands);
                writeln!(self.out, "while{carried}{arrow} {{")?;
                self.region(op.regions[0], depth + 1)?;
                let arguments = kernel.regions[op.regions[1]].arguments.clone();
                let arguments = self.list(&arguments);
                writeln!(self.out, "{close}}} do ({arguments}) {{")?;
                self.region(op.regions[1], depth + 1)?;
            }
            _ => {
                writeln!(self.out, "if {}{arrow} {{", operands[0])?;
                self.region(op.regions[0], depth + 1)?;
                writeln!(self.out, "{close}}} else {{")?;
                self.region(op.regions[1], depth + 1)?;
            }
        }
        write!(self.out, "{close}}}")
    }

    fn carried(&mut self, arguments: &[Value], inits: &[String]) -> String {
        let pairs: Vec<String> = arguments
            .iter()
            .zip(inits)
            .map(|(&argument, init)| format!("{} = {init}", self.name(argument)))
            .collect();
        if pairs.is_empty() { String::new() } else { format!(" ({})", pairs.join(", ")) }
    }
}

fn masked(kind: &OpKind) -> bool {
    matches!(kind, OpKind::Load { masked: true } | OpKind::Store { masked: true })
}

/// `load %x[%i, %j] mask %m, %fill`.
fn access(name: &str, operands: &[String], rank: usize, masked: bool) -> String {
    let (places, rest) = operands.split_at((1 + rank).min(operands.len()));
    let (tensor, coordinates) = places.split_first().map_or(("", places), |(t, c)| (t, c));
    let mask = if masked { " mask " } else { ", " };
    format!("{name} {tensor}[{}]{mask}{}", coordinates.join(", "), rest.join(", "))
}

/// A string literal with escapes.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{{{:x}}}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

pub(super) fn reduce_name(op: ReduceOp) -> &'static str {
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

pub(super) fn scan_name(op: ScanOp) -> &'static str {
    match op {
        ScanOp::Sum => "sum",
        ScanOp::Max => "max",
        ScanOp::Min => "min",
    }
}

pub(super) fn atomic_name(op: AtomicOp) -> &'static str {
    match op {
        AtomicOp::Add => "add",
        AtomicOp::Max => "max",
        AtomicOp::Min => "min",
        AtomicOp::Exchange => "exchange",
    }
}
