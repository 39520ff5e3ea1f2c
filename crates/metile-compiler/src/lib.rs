//! The compiler of metile. What it takes is a [`Verified`](metile_ir::tile::Verified) kernel.
//!
//! [`pipeline::optimize`] simplifies Tile IR by the [`passes`]; every pass keeps each bit that the
//! interpreter computes, and its result is verified again. [`dump`] shows the program between stages.

pub mod cpu;
pub mod dump;
pub mod gpu;
pub mod observe;
pub mod passes;
pub mod pipeline;

pub use dump::Dump;
pub use passes::Pass;
pub use pipeline::{OptimizeError, Optimized, Options, Stage, optimize};
