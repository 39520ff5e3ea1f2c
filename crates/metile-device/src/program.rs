//! Programs, their values and their arguments.

use crate::ops::Op;
use metile_ir::arena::{Arena, Handle};
use metile_ir::dtype::DType;
use metile_ir::scalar::Scalar;
use metile_ir::span::{SourceFile, Span};
use std::fmt;

/// Threads of a warp (a SIMD group on Metal).
pub const WARP: u32 = 32;
/// The most warps of a block.
pub const MAX_WARPS: u32 = 32;

/// A value: a vector of registers, a pointer, or a token.
pub type Value = Handle<ValueData>;
/// A buffer in the memory that the threads of a block share.
pub type Shared = Handle<SharedBuffer>;

/// What each thread of a block does.
#[derive(Clone, Debug)]
pub struct Program {
    /// The kernel's name; a Rust identifier, so back-ends pass it through their namer.
    pub name: String,
    /// Warps of a block, 1 to [`MAX_WARPS`].
    pub warps: u32,
    /// What a launch passes, in order: see [`Word`].
    pub words: Vec<Word>,
    /// Buffers in shared memory.
    pub shared: Arena<SharedBuffer>,
    /// All values.
    pub values: Arena<ValueData>,
    /// The statements.
    pub body: Block,
    /// What failed assertions say.
    pub messages: Vec<Message>,
    /// Whether all blocks of a launch run at once, so that they may wait for each other.
    pub persistent: bool,
    /// Blocks that should fit one multiprocessor at once; bounds the registers of a thread.
    pub blocks_per_processor: u32,
    /// The files that spans point into.
    pub files: Vec<SourceFile>,
}

/// What is known of a value.
#[derive(Clone, Debug)]
pub struct ValueData {
    /// Its type.
    pub ty: Type,
    /// The name its author gave what it is a part of.
    pub name: Option<String>,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// `count` registers of each thread, at least 1.
    Registers {
        /// What a register holds.
        dtype: DType,
        /// How many.
        count: u32,
    },
    /// An address in the device's memory, the same in every thread of the block.
    Pointer {
        /// The elements that offsets count.
        dtype: DType,
        /// Whether this launch writes what lies there.
        writable: bool,
    },
    /// A copy that was begun.
    Token,
    /// A matrix that a warp holds, in a layout that the vendor keeps to itself.
    Fragment {
        /// What its elements are.
        dtype: DType,
        /// Rows.
        rows: u8,
        /// Columns.
        columns: u8,
        /// How many such matrices.
        count: u32,
    },
}

impl Type {
    /// One register of `dtype`.
    pub const fn one(dtype: DType) -> Type {
        Type::Registers { dtype, count: 1 }
    }
    /// `count` registers of `dtype`.
    pub const fn registers(dtype: DType, count: u32) -> Type {
        Type::Registers { dtype, count }
    }
}

impl fmt::Display for Type {
    /// `f32`, `f32 x 8`, `pointer f16`, `mut pointer f16`, `token`, `fragment f32 8x8 x 4`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Type::Registers { dtype, count: 1 } => dtype.fmt(f),
            Type::Registers { dtype, count } => write!(f, "{dtype} x {count}"),
            Type::Pointer { dtype, writable: false } => write!(f, "pointer {dtype}"),
            Type::Pointer { dtype, writable: true } => write!(f, "mut pointer {dtype}"),
            Type::Token => f.write_str("token"),
            Type::Fragment { dtype, rows, columns, count } => {
                write!(f, "fragment {dtype} {rows}x{columns} x {count}")
            }
        }
    }
}

/// A statement: an operation with its operands, results and nested blocks.
#[derive(Clone, Debug)]
pub struct Statement {
    /// What it does.
    pub op: Op,
    /// Values it takes, in the order that [`Op`] gives.
    pub operands: Vec<Value>,
    /// Values it gives.
    pub results: Vec<Value>,
    /// Nested blocks.
    pub blocks: Vec<Block>,
    /// Where in the kernel's source it comes from.
    pub span: Option<Span>,
}

/// Statements in order, with the values that enter.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// Values that enter the block.
    pub arguments: Vec<Value>,
    /// The statements; those of a nested block end in [`ControlOp::Yield`](crate::ops::ControlOp::Yield) or
    /// [`ControlOp::Condition`](crate::ops::ControlOp::Condition).
    pub statements: Vec<Statement>,
}

/// A buffer in shared memory. Buffers never overlap; one buffer may hold different things one after the
/// other, with a barrier between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedBuffer {
    /// What it is for.
    pub name: String,
    /// Size.
    pub bytes: u32,
    /// Alignment of its first byte, a power of two.
    pub align: u32,
}

/// One 64-bit word of a launch's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Word {
    /// `i64`: the grid's extent on an axis, as the kernel sees it.
    GridExtent(u8),
    /// `mut pointer u64`: where failed assertions are reported; see [`ReportOp`](crate::ops::ReportOp).
    Report,
    /// `mut pointer u32`: two zeros that grid barriers count in.
    GridBarrier,
    /// `pointer`: array `array` of tensor parameter `parameter`.
    Pointer {
        /// The kernel's parameter.
        parameter: u16,
        /// 0, or for affine formats 0 to 2: integers, scales, biases.
        array: u8,
        /// The elements that offsets count: the tensor's, or bytes for packed formats.
        dtype: DType,
        /// Whether the launch writes it.
        writable: bool,
    },
    /// `pointer u64`: a table of addresses, one for each tensor of a list (for each array in turn).
    ListTable {
        /// The kernel's parameter.
        parameter: u16,
        /// The array, as above.
        array: u8,
    },
    /// `i64`: how many tensors a list has.
    ListLength {
        /// The kernel's parameter.
        parameter: u16,
    },
    /// `i64`: the extent of an axis, in elements.
    Extent {
        /// The kernel's parameter.
        parameter: u16,
        /// The axis.
        axis: u8,
    },
    /// `i64`: the distance of neighbours along an axis: in elements; in blocks for packed formats.
    Stride {
        /// The kernel's parameter.
        parameter: u16,
        /// The axis.
        axis: u8,
    },
    /// A scalar, its bits in the low ones of the word.
    Scalar {
        /// The kernel's parameter.
        parameter: u16,
        /// Its type.
        dtype: DType,
    },
}

impl Word {
    /// What a word is to the program.
    pub fn ty(self) -> Type {
        match self {
            Word::GridExtent(_)
            | Word::ListLength { .. }
            | Word::Extent { .. }
            | Word::Stride { .. } => Type::one(DType::I64),
            Word::Report => Type::Pointer { dtype: DType::U64, writable: true },
            Word::GridBarrier => Type::Pointer { dtype: DType::U32, writable: true },
            Word::Pointer { dtype, writable, .. } => Type::Pointer { dtype, writable },
            Word::ListTable { .. } => Type::Pointer { dtype: DType::U64, writable: false },
            Word::Scalar { dtype, .. } => Type::one(dtype),
        }
    }
}

/// What an assertion says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The text.
    pub text: String,
    /// Where it was written.
    pub span: Option<Span>,
}

impl Program {
    /// An empty program.
    pub fn new(name: impl Into<String>, warps: u32) -> Program {
        Program {
            name: name.into(),
            warps,
            words: Vec::new(),
            shared: Arena::default(),
            values: Arena::default(),
            body: Block::default(),
            messages: Vec::new(),
            persistent: false,
            blocks_per_processor: 1,
            files: Vec::new(),
        }
    }

    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        self.warps * WARP
    }

    /// The type of `value`.
    pub fn ty(&self, value: Value) -> Type {
        self.values[value].ty
    }

    /// What a register of `value` holds; `None` for pointers, tokens and fragments.
    pub fn dtype(&self, value: Value) -> Option<DType> {
        match self.ty(value) {
            Type::Registers { dtype, .. } => Some(dtype),
            _ => None,
        }
    }

    /// Registers of `value`; 1 for what has none.
    pub fn count(&self, value: Value) -> u32 {
        match self.ty(value) {
            Type::Registers { count, .. } => count,
            _ => 1,
        }
    }

    /// Bytes of shared memory that a block takes, buffer after buffer.
    pub fn shared_bytes(&self) -> u32 {
        self.shared.iter().fold(0, |end: u32, (_, buffer)| {
            end.next_multiple_of(buffer.align.max(1)).saturating_add(buffer.bytes)
        })
    }

    /// Where each shared buffer begins.
    pub fn shared_offsets(&self) -> Vec<u32> {
        let mut end = 0u32;
        self.shared
            .iter()
            .map(|(_, buffer)| {
                let first = end.next_multiple_of(buffer.align.max(1));
                end = first.saturating_add(buffer.bytes);
                first
            })
            .collect()
    }
}

/// Registers of constants: all alike, or one after the other.
pub type Constants = Vec<Scalar>;
