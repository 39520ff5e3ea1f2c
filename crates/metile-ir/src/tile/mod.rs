//! Tile IR: what a kernel computes, in SSA form with structured control flow.
//!
//! A [`Kernel`] owns its values, operations and regions in arenas. A region is a list of operations
//! that ends in a terminator; loops and branches are operations with regions. A value is used only
//! where it is visible: after its definition, in the same region or one nested in it.
//! [`ops::OpKind`] says what each operation means, [`infer`] which operands it takes, and
//! [`verify`] turns a kernel into a [`Verified`] one, which everything downstream asks for.

pub mod build;
pub mod infer;
pub mod ops;
pub mod parse;
pub mod print;
pub mod same;
pub mod types;
pub mod verify;

pub use build::Builder;
pub use ops::{AtomicOp, BinaryOp, CompareOp, OpKind, ReduceOp, ScanOp, UnaryOp};
pub use types::{Access, MAX_RANK, MAX_TILE_ELEMENTS, Shape, TensorType, TileType, Type};
pub use verify::Verified;

use crate::arena::{Arena, Handle};
use crate::span::{SourceFile, Span};

/// A value: a kernel parameter, a region argument or a result.
pub type Value = Handle<ValueData>;
/// An operation.
pub type OpId = Handle<Op>;
/// A region.
pub type RegionId = Handle<Region>;

/// What is known of a value.
#[derive(Clone, Debug)]
pub struct ValueData {
    /// Its type.
    pub ty: Type,
    /// Where it comes from.
    pub definition: Definition,
    /// The name its author gave it, for the text form and for messages.
    pub name: Option<String>,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Definition {
    /// Parameter `n` of the kernel.
    Parameter(u32),
    /// Argument `n` of a region.
    Argument(RegionId, u32),
    /// Result `n` of an operation.
    Result(OpId, u32),
}

/// An operation with its operands, results and nested regions.
#[derive(Clone, Debug)]
pub struct Op {
    /// What it does.
    pub kind: OpKind,
    /// Values it takes, in the order [`OpKind`] gives.
    pub operands: Vec<Value>,
    /// Values it gives.
    pub results: Vec<Value>,
    /// Nested regions.
    pub regions: Vec<RegionId>,
    /// Where it was written.
    pub span: Option<Span>,
}

/// A list of operations, run in order.
#[derive(Clone, Debug, Default)]
pub struct Region {
    /// Values that enter the region.
    pub arguments: Vec<Value>,
    /// The operations; the last is the terminator.
    pub ops: Vec<OpId>,
}

/// How `f32` arithmetic may be carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// IEEE `f32`; fused multiply-add only where the kernel says so or in `dot`; no
    /// reduced-precision matrix unit.
    #[default]
    Strict,
    /// Reduced-precision matrix units such as TF32 are allowed.
    Relaxed,
}

/// A kernel's program.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The name; a Rust identifier.
    pub name: String,
    /// Parameters in order.
    pub parameters: Vec<Value>,
    /// All values.
    pub values: Arena<ValueData>,
    /// All operations, those no longer in a region included.
    pub ops: Arena<Op>,
    /// All regions.
    pub regions: Arena<Region>,
    /// The outermost region, ending in [`OpKind::Return`].
    pub body: RegionId,
    /// Whether all programs of a launch run at once, so that they may wait for each other.
    pub persistent: bool,
    /// How `f32` arithmetic may be carried out.
    pub precision: Precision,
    /// The files that spans point into.
    pub files: Vec<SourceFile>,
}

impl Kernel {
    /// A kernel without parameters or operations.
    pub fn new(name: impl Into<String>) -> Kernel {
        let mut regions = Arena::default();
        let body = regions.push(Region::default());
        Kernel {
            name: name.into(),
            parameters: Vec::new(),
            values: Arena::default(),
            ops: Arena::default(),
            regions,
            body,
            persistent: false,
            precision: Precision::Strict,
            files: Vec::new(),
        }
    }

    /// The name of parameter `n`, as its author gave it.
    pub fn parameter_name(&self, n: usize) -> String {
        let name = self.parameters.get(n).and_then(|&v| self.values[v].name.clone());
        name.unwrap_or_else(|| format!("parameter {n}"))
    }

    /// The type of `value`.
    pub fn ty(&self, value: Value) -> Type {
        self.values[value].ty
    }

    /// The operations of `region` and of every region nested in it, outer before inner.
    pub fn walk(&self, region: RegionId) -> Vec<OpId> {
        let mut found = Vec::new();
        let mut stack: Vec<(RegionId, usize)> = vec![(region, 0)];
        while let Some((region, next)) = stack.pop() {
            if let Some(&op) = self.regions[region].ops.get(next) {
                stack.push((region, next + 1));
                found.push(op);
                stack.extend(self.ops[op].regions.iter().rev().map(|&r| (r, 0)));
            }
        }
        found
    }

    /// The operation that made `value`, if one did.
    pub fn defining_op(&self, value: Value) -> Option<OpId> {
        match self.values[value].definition {
            Definition::Result(op, _) => Some(op),
            _ => None,
        }
    }

    /// The scalar that every element of `value` is, if it is a constant.
    pub fn constant(&self, value: Value) -> Option<crate::scalar::Scalar> {
        match self.ops[self.defining_op(value)?].kind {
            OpKind::Constant(scalar) => Some(scalar),
            _ => None,
        }
    }
}
