//! What the CPU back-end computes with: loops over elements, reductions and matrix micro-kernels, each
//! built for every SIMD level and picked at run time.

pub mod chain;
pub mod elementwise;
pub mod lanes;
pub mod level;
pub mod matrix;
pub mod pages;
pub mod probe;
pub mod reduce;

pub use level::Level;
