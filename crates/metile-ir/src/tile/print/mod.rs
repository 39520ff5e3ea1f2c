//! The printer of the text form. The grammar is described in [`parse`](super::parse).
//!
//! Any kernel can be printed, a malformed one included, since messages about malformed kernels show
//! them: a value that isn't in the arena prints as `%?7`, and a region that stands in two places or
//! nests too deep prints as a comment. Only well-formed kernels read back.

mod operations;

pub(super) use self::operations::{atomic_name, reduce_name, scan_name};

use super::infer::op_name;
use super::verify::MAX_NESTING;
use super::{Access, Kernel, Op, OpId, OpKind, Precision, RegionId, Type, Value};
use crate::span::Span;
use std::collections::HashMap;
use std::fmt::{self, Write as _};

/// What to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether each operation is followed by the place it was written at, ` @file:line:column`, and
    /// the text begins with the names of the files.
    pub locations: bool,
}

/// The kernel as text; ends in a newline.
///
/// Values keep the names their authors gave them, made unique by `.1`, `.2`, …, with characters other
/// than ASCII letters, digits and `_` replaced by `_`; the others are numbered in order of printing.
pub fn print(kernel: &Kernel, options: Options) -> String {
    let mut printer = Printer {
        kernel,
        options,
        out: String::new(),
        names: Names::default(),
        depth: 0,
        seen: vec![false; kernel.regions.len()],
    };
    printer.kernel();
    printer.out
}

impl fmt::Display for Kernel {
    /// The text form without locations.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&print(self, Options::default()))
    }
}

/// The names given to values so far.
#[derive(Default)]
struct Names {
    of: HashMap<Value, String>,
    /// How many values were given a hinted name already.
    hinted: HashMap<String, u64>,
    numbered: u64,
}

impl Names {
    fn get(&mut self, kernel: &Kernel, value: Value) -> &str {
        let Names { of, hinted, numbered } = self;
        of.entry(value).or_insert_with(|| {
            if !kernel.values.contains(value) {
                return format!("?{}", value.index());
            }
            let Some(hint) = &kernel.values[value].name else {
                *numbered += 1;
                return (*numbered - 1).to_string();
            };
            let name = sanitized(hint);
            let count = hinted.entry(name.clone()).or_insert(0);
            *count += 1;
            // A sanitized name has no dot, so a suffixed name is never another value's hint.
            if *count == 1 { name } else { format!("{name}.{}", *count - 1) }
        })
    }
}

/// `hint` as a name of the text form.
fn sanitized(hint: &str) -> String {
    let mut name: String =
        hint.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
    if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        name.insert(0, '_');
    }
    name
}

struct Printer<'k> {
    kernel: &'k Kernel,
    options: Options,
    out: String,
    names: Names,
    depth: usize,
    seen: Vec<bool>,
}

impl<'k> Printer<'k> {
    fn kernel(&mut self) {
        let kernel = self.kernel;
        if self.options.locations {
            for (n, file) in kernel.files.iter().enumerate() {
                self.put(format_args!("file {n} "));
                self.string(&file.name);
                self.out.push('\n');
            }
        }
        self.out.push_str("kernel @");
        if is_identifier(&kernel.name) {
            self.out.push_str(&kernel.name);
        } else {
            self.string(&kernel.name);
        }
        self.out.push('(');
        for (n, &value) in kernel.parameters.iter().enumerate() {
            self.comma(n);
            self.typed(value);
        }
        self.out.push(')');
        if kernel.persistent {
            self.out.push_str(" persistent");
        }
        match kernel.precision {
            Precision::Strict => {}
            Precision::Relaxed => self.out.push_str(" precision(relaxed)"),
        }
        self.out.push(' ');
        self.region(kernel.body);
        self.out.push('\n');
    }

    /// `{`, the operations and `}`; arguments are printed by the operation that owns the region.
    fn region(&mut self, id: RegionId) {
        self.out.push_str("{\n");
        self.depth += 1;
        match self.seen.get_mut(id.index()) {
            None => self.note("no such region"),
            // A region that holds itself would be printed for ever.
            Some(true) => self.note("this region is printed above"),
            Some(_) if self.depth > MAX_NESTING => self.note("regions nest too deep"),
            Some(seen) => {
                *seen = true;
                let kernel = self.kernel;
                for &op in &kernel.regions[id].ops {
                    self.op(op);
                }
            }
        }
        self.depth -= 1;
        self.indent();
        self.out.push('}');
    }

    fn op(&mut self, id: OpId) {
        let kernel = self.kernel;
        if !kernel.ops.contains(id) {
            return self.note("no such operation");
        }
        let op = &kernel.ops[id];
        self.indent();
        for (n, &value) in op.results.iter().enumerate() {
            self.comma(n);
            self.value(value);
        }
        if !op.results.is_empty() {
            self.out.push_str(" = ");
        }
        self.out.push_str(op_name(&op.kind));
        match op.kind {
            OpKind::For => self.for_loop(op),
            OpKind::While => self.while_loop(op),
            OpKind::If => self.branch(op),
            _ => {
                operations::write(self, op);
                for (n, &value) in op.results.iter().enumerate() {
                    self.out.push_str(if n == 0 { " : " } else { ", " });
                    self.ty(value);
                }
                self.location(op.span);
            }
        }
        self.out.push('\n');
    }

    fn for_loop(&mut self, op: &'k Op) {
        let (bounds, init) = op.operands.split_at(op.operands.len().min(3));
        let arguments = self.arguments(op, 0);
        let (index, carried) = arguments.split_at(arguments.len().min(1));
        self.out.push(' ');
        self.values(index);
        for (word, &bound) in ["=", "to", "step"].iter().zip(bounds) {
            self.put(format_args!(" {word} "));
            self.value(bound);
        }
        self.carried(carried, init);
        self.result_types(op);
        self.location(op.span);
        self.nested(op, 0);
    }

    fn while_loop(&mut self, op: &'k Op) {
        self.carried(self.arguments(op, 0), &op.operands);
        self.result_types(op);
        self.location(op.span);
        self.nested(op, 0);
        self.out.push_str(" do");
        let arguments = self.arguments(op, 1);
        if !arguments.is_empty() {
            self.out.push_str(" (");
            for (n, &value) in arguments.iter().enumerate() {
                self.comma(n);
                self.typed(value);
            }
            self.out.push(')');
        }
        self.nested(op, 1);
    }

    fn branch(&mut self, op: &'k Op) {
        self.out.push(' ');
        self.values(&op.operands);
        self.result_types(op);
        self.location(op.span);
        self.nested(op, 0);
        self.out.push_str(" else");
        self.nested(op, 1);
    }

    fn arguments(&self, op: &Op, region: usize) -> &'k [Value] {
        let found = op.regions.get(region).filter(|r| self.kernel.regions.contains(**r));
        found.map_or(&[], |&r| &self.kernel.regions[r].arguments)
    }

    fn nested(&mut self, op: &Op, region: usize) {
        self.out.push(' ');
        match op.regions.get(region) {
            Some(&id) => self.region(id),
            None => self.out.push_str("{}"),
        }
    }

    /// ` (%argument = %init, …)`, nothing where nothing is carried.
    fn carried(&mut self, arguments: &[Value], init: &[Value]) {
        if arguments.is_empty() && init.is_empty() {
            return;
        }
        self.out.push_str(" (");
        for n in 0..arguments.len().max(init.len()) {
            self.comma(n);
            self.values(arguments.get(n..=n).unwrap_or_default());
            self.out.push_str(" = ");
            self.values(init.get(n..=n).unwrap_or_default());
        }
        self.out.push(')');
    }

    /// ` -> (f32, i64)`, nothing where there are no results.
    fn result_types(&mut self, op: &Op) {
        if op.results.is_empty() {
            return;
        }
        self.out.push_str(" -> (");
        for (n, &value) in op.results.iter().enumerate() {
            self.comma(n);
            self.ty(value);
        }
        self.out.push(')');
    }

    fn location(&mut self, span: Option<Span>) {
        if let Some(span) = span.filter(|_| self.options.locations) {
            self.put(format_args!(" @{}:{}:{}", span.file, span.line, span.column));
        }
    }

    fn note(&mut self, text: &str) {
        self.indent();
        self.put(format_args!("// {text}\n"));
    }

    fn indent(&mut self) {
        for _ in 0..self.depth {
            self.out.push_str("  ");
        }
    }

    /// `, ` before every element of a list but the first.
    fn comma(&mut self, n: usize) {
        if n > 0 {
            self.out.push_str(", ");
        }
    }

    fn value(&mut self, value: Value) {
        self.out.push('%');
        self.out.push_str(self.names.get(self.kernel, value));
    }

    fn values(&mut self, values: &[Value]) {
        for (n, &value) in values.iter().enumerate() {
            self.comma(n);
            self.value(value);
        }
    }

    fn typed(&mut self, value: Value) {
        self.value(value);
        self.out.push_str(": ");
        self.ty(value);
    }

    fn ty(&mut self, value: Value) {
        if !self.kernel.values.contains(value) {
            return self.out.push('?');
        }
        match self.kernel.ty(value) {
            // Lists are read-only in every kernel that verifies; the others are told apart too.
            Type::TensorList(t) => {
                self.out.push_str(match t.access {
                    Access::Read => "",
                    Access::ReadWrite => "mut ",
                    Access::Counter => "counters ",
                });
                self.put(format_args!("list<{}, {}>", t.format, t.rank));
            }
            ty => self.put(format_args!("{ty}")),
        }
    }

    fn put(&mut self, text: fmt::Arguments<'_>) {
        // Writing to a string never fails.
        let _ = self.out.write_fmt(text);
    }

    /// A string literal.
    fn string(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                c if c.is_control() => self.put(format_args!("\\u{{{:x}}}", u32::from(c))),
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }
}

/// Whether `name` may stand bare after `@`.
fn is_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
