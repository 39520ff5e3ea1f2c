//! The kernel around the operations, and how values are named and reached.

use super::literal::{c_type, literal};
use super::{EmitError, Source, prelude};
use crate::gpu::namer::{self, Namer};
use metile_device::{Block, Op, Program, Shared, Statement, Type, Value};
use metile_ir::dtype::DType;
use metile_ir::scalar::Scalar;
use metile_ir::span::Span;
use std::collections::HashMap;
use std::fmt::Display;

/// Registers up to which loops over them are unrolled.
const UNROLLED: u32 = 256;

/// Where a value's registers are.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Place {
    /// An expression that stands for every register.
    Single(String),
    /// An array.
    Array(String),
}

/// Prints one program.
pub(super) struct Printer<'p> {
    pub program: &'p Program,
    pub namer: Namer,
    places: HashMap<Value, Place>,
    /// Values of one constant register.
    constants: HashMap<Value, Scalar>,
    shared_offsets: Vec<u32>,
    text: String,
    depth: usize,
    /// Where the statement comes from that is being printed.
    pub span: Option<Span>,
}

impl<'p> Printer<'p> {
    pub fn new(program: &'p Program) -> Printer<'p> {
        let mut namer = Namer::new(namer::CUDA);
        for dtype in DType::ALL {
            namer.name(dtype.name());
        }
        for own in ["METILE", "Words", "words", "shared", "i", "g"] {
            namer.name(own);
        }
        Printer {
            program,
            namer,
            places: HashMap::new(),
            constants: HashMap::new(),
            shared_offsets: program.shared_offsets(),
            text: String::new(),
            depth: 0,
            span: None,
        }
    }

    pub fn print(mut self) -> Result<Source, EmitError> {
        let program = self.program;
        let entry = self.namer.name(&program.name);
        for part in prelude::parts(program) {
            self.text.push_str(&part);
            self.text.push('\n');
        }
        let kernel = self.text.len();
        self.line(format_args!("struct Words {{"));
        self.line(format_args!("    u64 w[{}];", program.words.len().max(1)));
        self.line("};\n");
        self.line(format_args!(
            "extern \"C\" __global__ void __launch_bounds__({}, {}) {entry}(const __grid_constant__ Words words) {{",
            program.threads(),
            program.blocks_per_processor.max(1)
        ));
        self.depth += 1;
        if !program.shared.is_empty() {
            let align =
                program.shared.iter().map(|(_, b)| b.align.max(1)).max().unwrap_or(1).max(16);
            self.line(format_args!("extern __shared__ __align__({align}) u8 shared[];"));
        }
        self.statements(&program.body.statements)?;
        self.depth -= 1;
        self.line("}");
        Ok(Source { entry, text: self.text, kernel })
    }

    /// The statements of a block; terminators are their owner's.
    pub fn statements(&mut self, statements: &[Statement]) -> Result<(), EmitError> {
        for statement in statements {
            self.span = statement.span;
            match &statement.op {
                Op::Position(op) => self.position(*op, statement)?,
                Op::Register(op) => self.register(op, statement)?,
                Op::Memory(op) => self.memory(op, statement)?,
                Op::Exchange(op) => self.exchange(*op, statement)?,
                Op::Sync(op) => self.sync(*op, statement)?,
                Op::Matrix(op) => self.matrix(op, statement)?,
                Op::Copy(op) => self.copy(op, statement)?,
                Op::Control(op) => self.control(*op, statement)?,
                Op::Report(op) => self.report(*op, statement)?,
            }
        }
        Ok(())
    }

    /// A block between braces that were or will be printed around it.
    pub fn nested(&mut self, block: &Block) -> Result<(), EmitError> {
        self.depth += 1;
        let done = match block.statements.split_last() {
            Some((_, before)) => self.statements(before),
            None => Ok(()),
        };
        self.depth -= 1;
        done
    }

    pub fn line(&mut self, text: impl Display) {
        for _ in 0..self.depth {
            self.text.push_str("    ");
        }
        self.text.push_str(&text.to_string());
        self.text.push('\n');
    }

    pub fn indented(&mut self, lines: impl FnOnce(&mut Self)) {
        self.depth += 1;
        lines(self);
        self.depth -= 1;
    }

    pub fn malformed(&self, what: impl Display) -> EmitError {
        EmitError::Malformed { kernel: self.program.name.clone(), what: what.to_string() }
    }
    pub fn unsupported(&self, operation: &'static str) -> EmitError {
        let kernel = self.program.name.clone();
        EmitError::Unsupported { kernel, operation, span: self.span }
    }

    pub fn operand(&self, statement: &Statement, n: usize) -> Result<Value, EmitError> {
        let found = statement.operands.get(n).copied();
        found.ok_or_else(|| self.malformed(format_args!("{:?} lacks operand {n}", statement.op)))
    }
    pub fn result(&self, statement: &Statement) -> Result<Value, EmitError> {
        let found = statement.results.first().copied();
        found.ok_or_else(|| self.malformed(format_args!("{:?} lacks its result", statement.op)))
    }
    pub fn block<'s>(&self, statement: &'s Statement, n: usize) -> Result<&'s Block, EmitError> {
        let found = statement.blocks.get(n);
        found.ok_or_else(|| self.malformed(format_args!("{:?} lacks block {n}", statement.op)))
    }

    /// What a register of `value` holds.
    pub fn dtype(&self, value: Value) -> Result<DType, EmitError> {
        let found = self.program.dtype(value);
        found.ok_or_else(|| self.malformed(format_args!("{value:?} has no registers")))
    }
    /// The elements that a pointer points to.
    pub fn pointee(&self, value: Value) -> Result<DType, EmitError> {
        match self.program.ty(value) {
            Type::Pointer { dtype, .. } => Ok(dtype),
            ty => Err(self.malformed(format_args!("{value:?} is {ty}, not a pointer"))),
        }
    }
    pub fn count(&self, value: Value) -> u32 {
        self.program.count(value)
    }

    pub fn place(&self, value: Value) -> Result<&Place, EmitError> {
        let found = self.places.get(&value);
        found.ok_or_else(|| self.malformed(format_args!("{value:?} is used before it is there")))
    }
    pub fn set_place(&mut self, value: Value, place: Place) {
        self.places.insert(value, place);
    }

    /// The expression of register `index` of `value`.
    pub fn at(&self, value: Value, index: impl Display) -> Result<String, EmitError> {
        Ok(match self.place(value)? {
            Place::Single(text) => text.clone(),
            Place::Array(name) => format!("{name}[{index}]"),
        })
    }
    /// The expression of a value of one register, a pointer.
    pub fn one(&self, value: Value) -> Result<String, EmitError> {
        self.at(value, 0)
    }
    /// An expression that points to `value`'s registers from `index` on.
    pub fn pointer_to(&mut self, value: Value, index: impl Display) -> Result<String, EmitError> {
        match self.place(value)?.clone() {
            Place::Array(name) => Ok(format!("{name} + {index}")),
            Place::Single(text) => {
                let (ty, count) = (self.c_type(value)?, self.count(value));
                if count == 1
                    && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
                    && !self.constants.contains_key(&value)
                {
                    return Ok(format!("&{text}"));
                }
                let name = self.namer.name("all");
                self.line(format_args!("{ty} {name}[{count}];"));
                self.line(format_args!("metile::fill<{ty}, {count}>({name}, {text});"));
                Ok(format!("{name} + {index}"))
            }
        }
    }

    /// The value, if it is a constant of one register.
    pub fn known(&self, value: Value) -> Option<Scalar> {
        self.constants.get(&value).copied()
    }
    /// `value` is `scalar` in every register.
    pub fn set_constant(&mut self, value: Value, scalar: Scalar) {
        self.constants.insert(value, scalar);
        self.set_place(value, Place::Single(literal(scalar)));
    }

    /// The type of a register of `value`, or of the pointer that it is.
    pub fn c_type(&self, value: Value) -> Result<String, EmitError> {
        match self.program.ty(value) {
            Type::Registers { dtype, .. } => Ok(c_type(dtype).to_owned()),
            Type::Pointer { dtype, writable: true } => Ok(format!("{}*", c_type(dtype))),
            Type::Pointer { dtype, writable: false } => Ok(format!("const {}*", c_type(dtype))),
            Type::Token => Err(self.malformed("a token is no variable")),
            Type::Fragment { .. } => Err(self.unsupported("matrices in a layout of their own")),
        }
    }

    /// A name for `value`, from its author's where there is one.
    pub fn name(&mut self, value: Value) -> String {
        let stem = self.program.values[value].name.as_deref().unwrap_or("v");
        let wanted = if stem == "v" {
            format!("v{}", value.index())
        } else {
            format!("{stem}_{}", value.index())
        };
        self.namer.name(&wanted)
    }

    /// Declares `value` without giving it a value.
    pub fn declare(&mut self, value: Value) -> Result<String, EmitError> {
        let (ty, name) = (self.c_type(value)?, self.name(value));
        match self.count(value) {
            1 => {
                self.line(format_args!("{ty} {name};"));
                self.set_place(value, Place::Single(name.clone()));
            }
            n => {
                self.line(format_args!("{ty} {name}[{n}];"));
                self.set_place(value, Place::Array(name.clone()));
            }
        }
        Ok(name)
    }

    /// A loop's head: `index` runs through `count` registers or groups of them.
    pub fn unrolled(&mut self, index: &str, count: u32) {
        if count <= UNROLLED {
            self.line("#pragma unroll");
        }
        self.line(format_args!("for (int {index} = 0; {index} < {count}; ++{index})"));
    }

    /// Declares `value` as what `register` gives for each of its registers.
    pub fn define(
        &mut self,
        value: Value,
        register: impl Fn(&Self, &str) -> Result<String, EmitError>,
    ) -> Result<(), EmitError> {
        let count = self.count(value);
        if count == 1 {
            let text = register(self, "0")?;
            let (ty, name) = (self.c_type(value)?, self.name(value));
            self.line(format_args!("{ty} {name} = {text};"));
            self.set_place(value, Place::Single(name));
            return Ok(());
        }
        let text = register(self, "i")?;
        let name = self.declare(value)?;
        self.unrolled("i", count);
        self.indented(|p| p.line(format_args!("{name}[i] = {text};")));
        Ok(())
    }

    /// Assigns `from` to the variable `to`.
    pub fn assign(&mut self, to: Value, from: Value) -> Result<(), EmitError> {
        let (target, source) = (self.place(to)?.clone(), self.place(from)?.clone());
        match target {
            _ if target == source => {}
            Place::Single(name) => {
                let text = self.one(from)?;
                self.line(format_args!("{name} = {text};"));
            }
            Place::Array(name) => {
                let count = self.count(to);
                let text = self.at(from, "i")?;
                self.unrolled("i", count);
                self.indented(|p| p.line(format_args!("{name}[i] = {text};")));
            }
        }
        Ok(())
    }

    /// The first byte of a shared buffer, as elements of `dtype`.
    pub fn shared(&self, buffer: Shared, dtype: DType) -> Result<String, EmitError> {
        let offset = self.shared_offsets.get(buffer.index());
        let offset = offset.ok_or_else(|| self.malformed("a shared buffer is missing"))?;
        Ok(format!("({}*)(shared + {offset})", c_type(dtype)))
    }
}
