//! Weights whose format is known only at run time, and the kernels of the library that read them.
//!
//! A kernel is compiled for each format of weights it reads, which makes thousands of instances. They
//! are in this crate, which changes rarely, so that nothing else waits for them.

mod matrix;
mod vector;

pub use matrix::{Matrix, Rows, SixteenBit};
pub use vector::Vector;
