//! Tile IR of metile: what a kernel computes, how it is written down, checked, and run by the
//! interpreter that defines every operation.

pub mod arena;
pub mod arith;
pub mod diagnostic;
pub mod dtype;
pub mod interp;
pub mod packed;
pub mod random;
pub mod scalar;
pub mod span;
pub mod tile;

pub use diagnostic::{Diagnostic, Severity};
pub use dtype::{DType, Format, PackedFormat};
pub use scalar::Scalar;
pub use span::{Snippet, SourceFile, Span};
