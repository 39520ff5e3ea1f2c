//! The CPU form: what the tile machine executes.
//!
//! [`lower`] turns Tile IR into a short list of instructions. Scalars live in registers, views in a
//! table, and element-wise work in [`Pass`]es: loops over a tile, a chunk at a time, whose operands
//! lie straight in memory. A tile gets memory of its own only if a later pass needs it.

mod affine;
// The comment of each variant says what its fields are.
#[allow(missing_docs)]
mod form;
mod layout;
mod lower;
mod print;

pub use affine::{Index, Linear};
pub use form::{
    Access, Carrier, CounterOp, Dot, Form, Instr, Parameter, Pass, Place, Reduction,
    ReductionTarget, Reg, ScalarOp, SlotId, Source, Step, Temp, TileOp, ViewId, ViewOp,
};
pub use lower::lower;

/// Elements that a pass handles at a time: few enough that a chunk of every operand stays in the
/// first-level cache.
pub const CHUNK: usize = 1024;
