//! Device IR as Metal Shading Language.
//!
//! [`emit`] prints: what the program says, in its order. What Metal does not have is an error, never a
//! weaker substitute. The text asks for Metal's safe math, and names the precise functions, so that it means
//! the same whatever options it is compiled with.

mod control;
mod error;
mod exchange;
mod functions;
mod literal;
mod matrix;
mod memory;
mod position;
mod printer;
mod register;
mod report;
mod signature;
mod sync;
mod types;

pub use error::{EmitError, Place};
pub use types::register as type_name;

use metile_device::{Op, Statement, Verified};
use printer::Printer;

/// Buffers that a kernel may be given.
pub const MAX_BUFFERS: usize = 31;
/// Bytes of threadgroup memory that a threadgroup may have.
pub const MAX_SHARED_BYTES: u32 = 32 << 10;

/// A kernel as Metal source, and what a launch of it needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Msl {
    /// The source of a library with one kernel.
    pub source: String,
    /// The kernel's name in it.
    pub entry: String,
    /// Threads of a threadgroup.
    pub threads: u32,
    /// Bytes of threadgroup memory: a multiple of 16; 0 if the kernel has none and takes none.
    pub shared_bytes: u32,
    /// Which words of a launch's arguments follow each other in buffer 0, 8 bytes each, after the number of blocks.
    pub arguments: Vec<u32>,
    /// Which words are the buffers 1, 2, …
    pub buffers: Vec<u32>,
    /// The version of the language that the source needs: major, minor.
    pub language: (u8, u8),
}

/// `program` as Metal source.
///
/// # Errors
/// What Metal has no way to do, with the place in the kernel's source; or a limit of Metal's that the program
/// is beyond.
pub fn emit(program: &Verified) -> Result<Msl, EmitError> {
    let program = program.program();
    let mut printer = Printer::new(program);
    let signature = signature::plan(&mut printer)?;
    statements(&mut printer, &program.body.statements)?;
    Ok(signature.finish(printer))
}

/// The statements of a block up to the one that ends it, which its owner prints.
fn statements(printer: &mut Printer<'_>, statements: &[Statement]) -> Result<(), EmitError> {
    for statement in statements {
        match &statement.op {
            Op::Position(op) => position::print(printer, *op, statement)?,
            Op::Register(op) => register::print(printer, op, statement)?,
            Op::Memory(op) => memory::print(printer, op, statement)?,
            Op::Exchange(op) => exchange::print(printer, *op, statement)?,
            Op::Sync(op) => sync::print(printer, *op, statement)?,
            Op::Matrix(op) => matrix::print(printer, op, statement)?,
            Op::Copy(_) => {
                return Err(printer.unsupported(
                    statement,
                    "an asynchronous copy to shared memory",
                    "Metal has none; plan the kernel for the `apple` machine class",
                ));
            }
            Op::Control(op) => control::print(printer, *op, statement)?,
            Op::Report(op) => report::print(printer, *op, statement),
        }
    }
    Ok(())
}
