//! The interpreter: the definition of every operation. Slow and obvious; every back-end is tested
//! against it.
//!
//! Programs run one after the other in the order of the grid. A program that waits (at a grid
//! barrier, or for a counter) is put aside and resumed, so that persistent kernels run as well.
//! Sums and dots are computed in `f64` and rounded once; back-ends, which accumulate in `f32`, are
//! held to a bound around that.

mod argument;
mod combine;
mod control;
mod elementwise;
mod machine;
mod memory;
mod order;
mod print;
mod races;
mod report;
mod shape;
mod sync;
mod value;

pub use argument::{Argument, Buffer, BufferInfo, Part, TensorArgument};
pub use print::{MAX_PRINTED, assertion_failure, printed_line, show};
pub use sync::MAX_WAITING;

use crate::diagnostic::Diagnostic;
use crate::tile::Verified;

/// The most programs a launch has.
pub const MAX_PROGRAMS: u64 = (1 << 31) - 1;

/// What the interpreter looks out for.
#[derive(Clone, Debug)]
pub struct Options {
    /// Warn about loads and stores outside of a tensor's shape. They are defined, and masking by
    /// shape is how ragged edges are meant to work, so this is off at first.
    pub warn_out_of_shape: bool,
    /// Warn about integer divisions by zero, and `MIN / -1`.
    pub warn_division: bool,
    /// Warn about accesses of different programs that nothing orders.
    pub check_races: bool,
    /// After how many warnings the rest are dropped.
    pub max_warnings: usize,
    /// How many operations a launch may run; no bound if `None`.
    pub step_limit: Option<u64>,
    /// Runs programs in an order drawn from this seed instead of the grid's.
    pub order_seed: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            warn_out_of_shape: false,
            warn_division: true,
            check_races: true,
            max_warnings: 100,
            step_limit: None,
            order_seed: None,
        }
    }
}

/// Runs verified kernels.
#[derive(Clone, Debug, Default)]
pub struct Interpreter {
    /// What it looks out for.
    pub options: Options,
}

/// What a launch left besides its results.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Things that are defined, but likely not meant; each place is reported once.
    pub warnings: Vec<Diagnostic>,
    /// What the programs printed, in order; after 65,536 lines a last one, `…`, stands for the rest.
    pub printed: Vec<String>,
    /// Operations run.
    pub steps: u64,
}

/// Why a launch ended early. What it wrote until then stays written.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// An argument does not fit the kernel.
    #[error("argument `{name}`: {message}")]
    Argument {
        /// The parameter's name.
        name: String,
        /// What does not fit.
        message: String,
    },
    /// The number of arguments is not the kernel's.
    #[error("the kernel takes {wanted} arguments, not {given}")]
    ArgumentCount {
        /// Parameters of the kernel.
        wanted: usize,
        /// Arguments given.
        given: usize,
    },
    /// The grid has too many programs.
    #[error("a grid of {0:?} has more than 2^31 - 1 programs")]
    Grid([u64; 3]),
    /// An assertion of the kernel does not hold.
    #[error("{0}")]
    Assertion(Box<Diagnostic>),
    /// Programs wait for each other, or for programs that have ended.
    #[error("{0}")]
    Deadlock(Box<Diagnostic>),
    /// [`Options::step_limit`] is reached.
    #[error("the launch ran {0} operations without ending")]
    StepLimit(u64),
    /// More than [`MAX_WAITING`] programs wait at once.
    #[error("more than {MAX_WAITING} programs wait for each other; launch a smaller grid")]
    TooManyWaiting,
}

impl Failure {
    /// The finding with its place, if the failure has one.
    pub fn diagnostic(&self) -> Option<&Diagnostic> {
        match self {
            Failure::Assertion(d) | Failure::Deadlock(d) => Some(d),
            _ => None,
        }
    }
}

/// Whether `arguments` fit `kernel`, and every element of every tensor lies within its buffer: what
/// makes it sound to reach them without further checks.
///
/// # Errors
/// [`Failure::Argument`] or [`Failure::ArgumentCount`].
pub fn check_arguments(
    kernel: &Verified,
    arguments: &[Argument],
    buffers: &[Buffer<'_>],
) -> Result<(), Failure> {
    let buffers: Vec<BufferInfo> = buffers.iter().map(BufferInfo::from).collect();
    check_arguments_in(kernel, arguments, &buffers)
}

/// As [`check_arguments`], for buffers that the host does not reach.
///
/// # Errors
/// As there.
pub fn check_arguments_in(
    kernel: &Verified,
    arguments: &[Argument],
    buffers: &[BufferInfo],
) -> Result<(), Failure> {
    argument::bind(kernel.kernel(), arguments, buffers).map(|_| ())
}

/// The number of programs of a grid.
///
/// # Errors
/// [`Failure::Grid`] if there are more than [`MAX_PROGRAMS`].
pub fn programs(grid: [u64; 3]) -> Result<u64, Failure> {
    if grid.contains(&0) {
        return Ok(0);
    }
    match grid.iter().try_fold(1u64, |n, &extent| n.checked_mul(extent)) {
        Some(n) if n <= MAX_PROGRAMS => Ok(n),
        _ => Err(Failure::Grid(grid)),
    }
}

impl Interpreter {
    /// Runs `kernel` on a grid of programs. `arguments` are in the order of the kernel's parameters
    /// and name `buffers` by index.
    ///
    /// A grid with an extent of 0 runs nothing. All arguments are checked first: every element of
    /// every tensor lies within its buffer, so that no access can leave it.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn run(
        &self,
        kernel: &Verified,
        grid: [u64; 3],
        arguments: &[Argument],
        buffers: &mut [Buffer<'_>],
    ) -> Result<Outcome, Failure> {
        let kernel = kernel.kernel();
        let known: Vec<BufferInfo> = buffers.iter().map(BufferInfo::from).collect();
        let values = argument::bind(kernel, arguments, &known)?;
        match programs(grid)? {
            0 => Ok(Outcome::default()),
            n => machine::Launch::new(kernel, &self.options, grid, buffers).run(n, &values),
        }
    }
}
