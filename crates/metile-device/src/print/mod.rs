//! The printer of the text form.
//!
//! ```text
//! program @scale warps 4
//!   word 0: pointer 0.0 : pointer f32
//!   shared @tile: 4096 bytes, align 16
//! {
//!   %0 = thread : i32
//!   %1 = constant 4 : i32
//!   %2 = mul %0, %1 : i32
//!   %3 = word 0 : pointer f32
//!   %4 = load %3[%2 + 0, 512] width 4 constant : f32 x 8
//!   store_shared @tile[%2 + 0, 512] width 4, %4
//! }
//! ```
//!
//! `load %p[%offset + a, b]` reads two groups, at `%offset + a` and `%offset + b`; a value of several registers
//! has one offset a group. Any program can be printed, a malformed one included, since messages show them: what is
//! in no arena prints as `?7`.

mod names;
mod operations;

pub use operations::name;

use crate::program::{Block, Program, Shared, Statement, Value, Word};
use crate::verify::MAX_NESTING;
use metile_ir::span::Span;
use names::{BufferNames, ValueNames, sanitized};
use std::fmt::{self, Write as _};

/// What to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether each statement is followed by the place it comes from, ` @file:line:column`, and the text begins with
    /// the names of the files.
    pub locations: bool,
}

/// The program as text; ends in a newline. The same program gives the same text.
pub fn print(program: &Program, options: Options) -> String {
    let mut printer = Printer {
        program,
        options,
        out: String::new(),
        values: ValueNames::default(),
        buffers: BufferNames::new(program),
        depth: 0,
    };
    printer.header();
    printer.block(&program.body);
    printer.out.push('\n');
    printer.out
}

impl fmt::Display for Program {
    /// The text form without locations.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&print(self, Options::default()))
    }
}

struct Printer<'p> {
    program: &'p Program,
    options: Options,
    out: String,
    values: ValueNames,
    buffers: BufferNames,
    depth: usize,
}

impl<'p> Printer<'p> {
    fn header(&mut self) {
        let program = self.program;
        if self.options.locations {
            for (n, file) in program.files.iter().enumerate() {
                self.put(format_args!("file {n} {:?}\n", file.name));
            }
        }
        self.put(format_args!("program @{} warps {}", sanitized(&program.name), program.warps));
        if program.persistent {
            self.out.push_str(" persistent");
        }
        if program.blocks_per_processor != 1 {
            self.put(format_args!(" blocks_per_processor {}", program.blocks_per_processor));
        }
        self.out.push('\n');
        for (n, word) in program.words.iter().enumerate() {
            self.put(format_args!("  word {n}: "));
            self.word(*word);
            self.put(format_args!(" : {}\n", word.ty()));
        }
        for (handle, buffer) in program.shared.iter() {
            self.out.push_str("  shared ");
            self.buffer(handle);
            self.put(format_args!(": {} bytes, align {}\n", buffer.bytes, buffer.align));
        }
        for (n, message) in program.messages.iter().enumerate() {
            self.put(format_args!("  message {n}: {:?}", message.text));
            self.location(message.span);
            self.out.push('\n');
        }
    }

    fn word(&mut self, word: Word) {
        match word {
            Word::GridExtent(axis) => self.put(format_args!("grid {axis}")),
            Word::Report => self.out.push_str("report"),
            Word::GridBarrier => self.out.push_str("grid_barrier"),
            Word::Pointer { parameter, array, .. } => {
                self.put(format_args!("pointer {parameter}.{array}"));
            }
            Word::ListTable { parameter, array } => {
                self.put(format_args!("table {parameter}.{array}"));
            }
            Word::ListLength { parameter } => self.put(format_args!("length {parameter}")),
            Word::Extent { parameter, axis } => {
                self.put(format_args!("extent {parameter}.{axis}"));
            }
            Word::Stride { parameter, axis } => {
                self.put(format_args!("stride {parameter}.{axis}"));
            }
            Word::Scalar { parameter, .. } => self.put(format_args!("scalar {parameter}")),
        }
    }

    /// `{`, the statements and `}`.
    fn block(&mut self, block: &Block) {
        self.out.push_str("{\n");
        self.depth += 1;
        if self.depth > MAX_NESTING + 1 {
            self.indent();
            self.out.push_str("// blocks nest too deep\n");
        } else {
            for statement in &block.statements {
                self.statement(statement);
            }
        }
        self.depth -= 1;
        self.indent();
        self.out.push('}');
    }

    fn statement(&mut self, statement: &Statement) {
        self.indent();
        self.list(&statement.results);
        if !statement.results.is_empty() {
            self.out.push_str(" = ");
        }
        operations::write(self, statement);
        self.out.push('\n');
    }

    /// ` : f32, i32`, nothing where there are no results.
    fn result_types(&mut self, statement: &Statement) {
        for (n, &value) in statement.results.iter().enumerate() {
            self.out.push_str(if n == 0 { " : " } else { ", " });
            self.ty(value);
        }
    }

    fn location(&mut self, span: Option<Span>) {
        if let Some(span) = span.filter(|_| self.options.locations) {
            self.put(format_args!(" @{}:{}:{}", span.file, span.line, span.column));
        }
    }

    fn indent(&mut self) {
        for _ in 0..self.depth {
            self.out.push_str("  ");
        }
    }

    fn value(&mut self, value: Value) {
        self.out.push('%');
        self.out.push_str(self.values.get(self.program, value));
    }

    fn list(&mut self, values: &[Value]) {
        for (n, &value) in values.iter().enumerate() {
            self.out.push_str(if n == 0 { "" } else { ", " });
            self.value(value);
        }
    }

    fn ty(&mut self, value: Value) {
        if self.program.values.contains(value) {
            let ty = self.program.ty(value);
            self.put(format_args!("{ty}"));
        } else {
            self.out.push('?');
        }
    }

    fn buffer(&mut self, buffer: Shared) {
        self.out.push('@');
        self.out.push_str(&self.buffers.get(buffer));
    }

    fn put(&mut self, text: fmt::Arguments<'_>) {
        // Writing to a string never fails.
        let _ = self.out.write_fmt(text);
    }
}
