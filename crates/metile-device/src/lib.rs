//! Device IR: what the threads of a GPU do.
//!
//! A [`Program`] runs as one block of threads, in warps of [`WARP`], for each program of the grid. A value is a
//! vector of registers that each thread has for itself; an operation acts on every register. Statements run
//! in the order they stand in; loops and branches nest. Address spaces, barriers, vector accesses, exchanges
//! between lanes and matrix units are explicit, so that a back-end has only to print.

pub mod build;
pub mod ops;
pub mod print;
pub mod program;
pub mod sim;
pub mod verify;

pub use build::Builder;
pub use ops::*;
pub use program::*;
pub use verify::{Limits, Verified, verify};
