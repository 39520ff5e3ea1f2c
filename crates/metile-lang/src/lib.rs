//! The tile-kernel language of metile: what the body of a `#[kernel]` function is made of.
//!
//! Users depend on the crate `metile`, which re-exports all of this as `metile::lang` and what a
//! kernel needs as `metile::prelude`. A crate of kernels depends on this crate alone, so that a
//! change of the interpreter, the compiler or a runtime does not rebuild it.

pub mod cells;
pub mod combine;
pub mod control;
pub mod debug;
pub mod element;
pub mod kernel;
pub mod math;
pub mod memory;
pub mod operators;
pub mod pairs;
pub mod rearrange;
pub mod tensor;
pub mod tile;
mod trace;

// What the kernel macro's output names.
pub use cells::{Cell, cell, cell_as, lift, lift_as};
pub use control::{and_then, branch, for_each, or_else, range, range_inclusive, while_loop};
pub use debug::{Printable, assert, print};
pub use kernel::{
    Definition, KernelCall, KernelInfo, KernelParam, Name, NameAny, SourceText, enter_helper,
    param, type_label,
};
pub use math::cast;
pub use pairs::{eq, ge, gt, le, lt, ne};
pub use tile::{IntoTile, Tile};

/// What a file of kernels imports.
pub mod prelude {
    pub use crate::combine::{dot, dot_add};
    pub use crate::control::{step_range, tiles};
    pub use crate::element::{
        Affine4, Affine8, Dtype, Element, Float, Int, Number, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K,
        Q6K, Q8_0, Weight,
    };
    pub use crate::math::{
        abs, ceil, clamp, cos, erf, exp, exp2, floor, fma, log, log2, reverse_bits, round, rsqrt,
        sigmoid, sin, sqrt, tanh,
    };
    pub use crate::memory::grid_barrier;
    pub use crate::pairs::{max, min, select};
    pub use crate::rearrange::{cat, interleave, join};
    pub use crate::tensor::{Counters, Tensor, TensorList};
    pub use crate::tile::{Tile, arange, full, num_programs, program_id, scalar, zeros};
    pub use half::{bf16, f16};
}
