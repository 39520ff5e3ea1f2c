//! What tiles are cut for. A kernel is the same on every device; the sides of its tiles are not.

use metile::lang::element::Element;
use metile::prelude::*;

/// A kind of machine with its own sides of tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// CPUs, whose programs run one after the other on few threads; and the interpreter.
    Host,
    /// GPUs, whose programs are blocks of threads with tiles in registers; and what stands in for them.
    Gpu,
}

impl Machine {
    /// The machine that `tensor` lies on.
    pub fn of<T: Element, const R: usize>(tensor: &Tensor<T, R>) -> Machine {
        let device = tensor.raw().parts.first().map(|part| part.storage.device());
        match device {
            Some("cpu" | "interpreter") | None => Machine::Host,
            Some(_) => Machine::Gpu,
        }
    }
}
