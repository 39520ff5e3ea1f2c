//! GPUs: from Tile IR to Device IR, what the threads of a block do, and from there to source.
//!
//! [`plan`] decides how tiles are spread over a block's threads, [`lower()`] writes the program that does it. What a launch
//! may assume of its arguments is a [`class`]; what the device can do is a [`target`].

mod ahead;
pub mod class;
pub mod cuda;
pub mod facts;
pub mod hopper;
pub mod layout;
mod lower;
pub mod metal;
pub mod namer;
pub mod pipeline;
pub mod plan;
pub mod steps;
pub mod target;

pub use class::{Class, Classes};
pub use layout::Layout;
pub use lower::lower;
pub use plan::{DotForm, Plan, Traversal};
pub use target::{Machine, Target};
