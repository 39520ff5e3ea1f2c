//! Random well-typed programs, and arguments to run them with.
//!
//! [`program`] reads a stream of bytes and makes a kernel of it: any bytes give a kernel that
//! [verifies](crate::tile::verify), and when the bytes run out they go on as zeros, which stand for
//! the least in every choice. A fuzzer or `proptest` that shortens the bytes shortens the program.
//!
//! **Determinism.** The same bytes and [`Limits`] give the same program, and a program gives the same
//! bits in every buffer on every run, in whatever order its programs (of the grid) go:
//! * a tensor that is written belongs, row by row of axis 0, to the program of that number; others
//!   read a row only after a barrier, from which on, until the next, nobody writes the tensor;
//! * the lanes of one store or atomic name elements that differ;
//! * atomics of several programs meet only in tensors of integers that all of them raise by one
//!   commutative operation, and that nobody reads;
//! * every loop ends, and every counter that is waited for is raised by all before they wait.
//!
//! An assertion may fail, rarely; which one then fails first depends on the order of programs, and
//! so does the order of printed lines.
//!
//! Without [`Limits::inexact`] and [`Limits::payloads`] two devices that keep the language's rules
//! agree on every bit but those of NaNs; with them, on the interpreter only.

mod build;
mod chains;
mod choices;
mod combine;
mod control;
mod elementwise;
mod inputs;
mod memory;
mod rearrange;
mod scalars;
mod sync;
#[cfg(test)]
mod tests;

pub use choices::{Choices, SplitMix};
pub use inputs::{Inputs, arguments};

use crate::tile::Kernel;

/// Counters that a kernel's counter tensor needs: each is used once.
pub const COUNTERS: u64 = 16;

/// How large a program may be, and what is in it.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Operations, about.
    pub ops: usize,
    /// How deep loops and branches nest.
    pub depth: usize,
    /// Elements of one tile.
    pub elements: usize,
    /// Whether persistent kernels, with barriers and counters, are made too.
    pub persistent: bool,
    /// Whether programs assert and print.
    pub people: bool,
    /// Whether operations are used whose last bits are each device's own: `exp` and its kind, sums of
    /// floats, and matrix products of floats.
    pub inexact: bool,
    /// Whether the bits of floats are looked at as integers, so that NaN payloads show; printing
    /// floats is looking, too.
    pub payloads: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            ops: 60,
            depth: 3,
            elements: 256,
            persistent: true,
            people: true,
            inexact: true,
            payloads: true,
        }
    }
}

/// A well-typed program; see [the module](self).
pub fn program(choices: &mut Choices<'_>, limits: &Limits) -> Kernel {
    build::Generator::new(choices, limits).program()
}
