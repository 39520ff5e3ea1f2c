//! Baselines: other libraries, unmodified, as worker processes.
//!
//! ```text
//!  Baseline::Mlx ──locate──▶ Installed ──start──▶ Worker ──▶ ModelWorker   load, reset, prefill, step, kv, generate
//!                              │                         └─▶ KernelWorker  prepare, fill, run, output
//!                              └─ none: an error that names the install command
//! ```
//!
//! A worker lives as long as its study. Control is one JSON object a line over stdin and stdout; tensors travel
//! as raw little-endian files in shared memory, which a line names with dtype, shape and SHA-256 ([`tensor`]).
//! Every call has a time limit; a worker that dies, hangs or talks nonsense is a typed error with the last
//! lines of its stderr, and is not used again.

mod command;
mod error;
mod exchange;
mod install;
mod kernel;
mod locate;
mod model;
mod process;
mod protocol;
mod sources;
pub mod tensor;

pub use command::{MLX_BLAS, StartOptions, Variant};
pub use error::{BaselineError, Ended};
pub use install::{InstallReport, install};
pub use kernel::{KernelRequest, KernelWorker, Output, OutputShape, Prepared};
pub use locate::{Baseline, Device, Found, Installed, cache_folder};
pub use model::{
    Advance, Generate, Generation, KeyValues, LoadRequest, Loaded, LogitsWanted, ModelWorker,
    StepWanted,
};
pub use process::{Answer, Limits, Worker};
pub use protocol::Hello;
pub use tensor::{Dtype, Tensor, TensorError};
