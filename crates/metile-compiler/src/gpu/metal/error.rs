//! What Metal can't do.

use super::{MAX_BUFFERS, MAX_SHARED_BYTES};
use std::fmt;

/// Where in a kernel's source: `file:line:column`, or nothing if it is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place(pub Option<(String, u32, u32)>);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some((file, line, column)) => write!(f, " ({file}:{line}:{column})"),
            None => Ok(()),
        }
    }
}

/// Why a program can't be Metal source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmitError {
    /// More buffers than a kernel may be given.
    #[error(
        "kernel `{kernel}` needs {needed} buffers on Metal, one of them for sizes and scalars; there can be \
         {MAX_BUFFERS}: pass fewer tensors, or same-shape ones as a `TensorList`"
    )]
    Buffers {
        /// The kernel.
        kernel: String,
        /// What it needs.
        needed: usize,
    },
    /// More shared memory than a threadgroup may have.
    #[error(
        "kernel `{kernel}` needs {needed} bytes of threadgroup memory, {largest} of them for `{buffer}`; Metal has \
         {MAX_SHARED_BYTES}: take smaller tiles"
    )]
    SharedMemory {
        /// The kernel.
        kernel: String,
        /// What it needs.
        needed: u32,
        /// The largest buffer.
        buffer: String,
        /// Its size.
        largest: u32,
    },
    /// Something that Metal does not have.
    #[error("kernel `{kernel}`{place}: no {what} on Metal: {reason}")]
    Unsupported {
        /// The kernel.
        kernel: String,
        /// Where.
        place: Place,
        /// What was asked for.
        what: String,
        /// Why there is none, and what there is.
        reason: &'static str,
    },
}
