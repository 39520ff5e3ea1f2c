//! Text with names for values.

use super::error::{EmitError, Place};
use super::functions::Functions;
use super::types;
use crate::gpu::namer::{MSL, Namer};
use metile_device::{Program, Statement, Type, Value};
use metile_ir::DType;
use std::collections::HashMap;
use std::fmt::Display;

/// The body of a kernel while it is printed.
#[derive(Debug)]
pub(super) struct Printer<'p> {
    pub program: &'p Program,
    pub namer: Namer,
    /// Functions that the body calls.
    pub functions: Functions,
    /// The version of the language needed so far.
    pub language: (u8, u8),
    /// Names of words and shared buffers, set by the signature.
    pub words: HashMap<u32, String>,
    pub shared: Vec<String>,
    names: HashMap<Value, String>,
    text: String,
    depth: usize,
}

/// A variable that counts registers in loops over them.
pub(super) const INDEX: &str = "i";

impl<'p> Printer<'p> {
    pub fn new(program: &'p Program) -> Printer<'p> {
        let mut namer = Namer::new(MSL);
        for taken in [INDEX, "arguments", "shared", "position", "groups", "lane", "warp", "block"] {
            namer.name(taken);
        }
        Printer {
            program,
            namer,
            functions: Functions::default(),
            language: (3, 0),
            words: HashMap::new(),
            shared: Vec::new(),
            names: HashMap::new(),
            text: String::new(),
            depth: 1,
        }
    }

    /// The text, and the functions it calls.
    pub fn finish(self) -> (String, Functions, (u8, u8)) {
        (self.text, self.functions, self.language)
    }

    pub fn line(&mut self, text: impl Display) {
        for _ in 0..self.depth {
            self.text.push_str("    ");
        }
        self.text.push_str(&text.to_string());
        self.text.push('\n');
    }
    /// A line that opens a block.
    pub fn open(&mut self, text: impl Display) {
        self.line(format_args!("{text} {{"));
        self.depth += 1;
    }
    pub fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1).max(1);
        self.line("}");
    }
    /// Closes a block and opens the next: `} else {`.
    pub fn next(&mut self, text: impl Display) {
        self.depth = self.depth.saturating_sub(1).max(1);
        self.open(format_args!("}} {text}"));
    }

    /// The register `index` of a value; its one register if it has no more.
    pub fn at(&self, value: Value, index: impl Display) -> String {
        let name = self.name(value);
        if types::value(self.program.ty(value)).1 == 1 { name } else { format!("{name}[{index}]") }
    }
    /// A value's name, or the constant it is.
    pub fn name(&self, value: Value) -> String {
        self.names.get(&value).cloned().unwrap_or_else(|| format!("undefined_{}", value.index()))
    }
    /// From now on `value` is `expression`.
    pub fn alias(&mut self, value: Value, expression: String) {
        self.names.insert(value, expression);
    }

    /// A name for a value that is going to be declared.
    pub fn fresh(&mut self, value: Value) -> String {
        let wanted = self.program.values[value].name.clone();
        let name = self.namer.name(&wanted.unwrap_or_else(|| format!("v{}", value.index())));
        self.names.insert(value, name.clone());
        self.note(self.program.ty(value));
        name
    }
    /// Declares a variable that is assigned later.
    pub fn declare(&mut self, value: Value) {
        let name = self.fresh(value);
        match types::value(self.program.ty(value)) {
            (ty, 1) => self.line(format_args!("{ty} {name};")),
            (ty, count) => self.line(format_args!("{ty} {name}[{count}];")),
        }
    }
    /// The language's version that a type needs.
    fn note(&mut self, ty: Type) {
        let dtype = match ty {
            Type::Registers { dtype, .. }
            | Type::Pointer { dtype, .. }
            | Type::Fragment { dtype, .. } => dtype,
            Type::Token => return,
        };
        if dtype == DType::BF16 {
            self.language = self.language.max((3, 1));
        }
    }

    /// Defines a value register by register: `expression` of the index of a register.
    pub fn each(&mut self, value: Value, expression: impl Fn(&mut Self, &str) -> String) {
        let (ty, count) = types::value(self.program.ty(value));
        if count == 1 {
            let expression = expression(self, "0");
            let name = self.fresh(value);
            return self.line(format_args!("const {ty} {name} = {expression};"));
        }
        let expression = expression(self, INDEX);
        self.declare(value);
        let name = self.name(value);
        self.over(count, format_args!("{name}[{INDEX}] = {expression};"));
    }
    /// A statement for each register.
    pub fn over(&mut self, count: u32, statement: impl Display) {
        self.line("#pragma unroll");
        self.line(format_args!("for (uint {INDEX} = 0; {INDEX} < {count}; ++{INDEX}) {statement}"));
    }
    /// Copies a value to a variable of as many registers.
    pub fn assign(&mut self, to: &str, ty: Type, from: Value) {
        match types::value(ty).1 {
            1 => {
                let from = self.at(from, 0);
                self.line(format_args!("{to} = {from};"));
            }
            count => {
                let from = self.at(from, INDEX);
                self.over(count, format_args!("{to}[{INDEX}] = {from};"));
            }
        }
    }

    /// The dtype of what should be registers.
    pub fn dtype(&self, value: Value) -> DType {
        self.program.dtype(value).unwrap_or(DType::U32)
    }

    pub fn unsupported(
        &self,
        statement: &Statement,
        what: impl Into<String>,
        reason: &'static str,
    ) -> EmitError {
        let place = statement.span.and_then(|span| {
            let file = self.program.files.get(span.file as usize)?;
            Some((file.name.clone(), span.line, span.column))
        });
        EmitError::Unsupported {
            kernel: self.program.name.clone(),
            place: Place(place),
            what: what.into(),
            reason,
        }
    }
}
