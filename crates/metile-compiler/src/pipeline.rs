//! The order of the passes, their times, and the check after each.

use crate::dump::{Dump, UnknownStage};
use crate::passes::{canonicalize, cse, dce, fold, licm};
use metile_ir::Diagnostic;
use metile_ir::tile::{Kernel, Verified, verify};
use std::time::{Duration, Instant};

/// A pass: its name and what it does; whether it changed anything.
type Pass = (&'static str, fn(&mut Kernel) -> bool);

/// The passes of one round, in order.
pub const PASSES: [Pass; 5] = [
    ("canonicalize", canonicalize::run),
    ("fold", fold::run),
    ("cse", cse::run),
    ("licm", licm::run),
    ("dce", dce::run),
];

/// Names of the stages that can be dumped: the traced program, and each pass.
pub const STAGES: [&str; 6] = ["traced", "canonicalize", "fold", "cse", "licm", "dce"];

/// Rounds after which the pipeline stops even if passes still find something.
const MAX_ROUNDS: usize = 8;

/// An optimized kernel and how it came about.
#[derive(Clone, Debug)]
pub struct Optimized {
    /// The kernel.
    pub kernel: Verified,
    /// What each pass did, all rounds together.
    pub stages: Vec<Stage>,
}

/// What a pass did.
#[derive(Clone, Debug)]
pub struct Stage {
    /// The pass.
    pub name: &'static str,
    /// Time it took.
    pub time: Duration,
    /// Operations before it ran first.
    pub ops_before: usize,
    /// Operations after it ran last.
    pub ops_after: usize,
}

/// Why a kernel could not be optimized.
#[derive(Debug, thiserror::Error)]
pub enum OptimizeError {
    /// `METILE_DUMP` names a stage that does not exist.
    #[error(transparent)]
    Dump(#[from] UnknownStage),
    /// A pass broke the program: a fault of metile.
    #[error("the pass `{pass}` broke the program: {first}")]
    Broken {
        /// The pass.
        pass: &'static str,
        /// The first rule broken.
        first: Box<Diagnostic>,
    },
}

/// Runs the passes until none finds anything, dumping what `METILE_DUMP` asks for.
///
/// # Errors
/// If `METILE_DUMP` is wrong, or a pass is.
pub fn optimize(kernel: Verified) -> Result<Optimized, OptimizeError> {
    optimize_with(kernel, &Dump::from_env(&STAGES)?)
}

/// Runs the passes until none finds anything.
///
/// # Errors
/// If a pass breaks the program.
pub fn optimize_with(kernel: Verified, dump: &Dump) -> Result<Optimized, OptimizeError> {
    dump.show("traced", kernel.kernel());
    let count = |kernel: &Kernel| kernel.walk(kernel.body).len();
    let mut kernel = kernel;
    let mut stages: Vec<Stage> = Vec::new();
    for _ in 0..MAX_ROUNDS {
        let mut changed = false;
        for (name, pass) in PASSES {
            let before = count(kernel.kernel());
            let start = Instant::now();
            let mut inner = kernel.into_kernel();
            changed |= pass(&mut inner);
            let time = start.elapsed();
            kernel = verify::verify(inner).map_err(|errors| OptimizeError::Broken {
                pass: name,
                first: Box::new(
                    errors.into_iter().next().unwrap_or_else(|| Diagnostic::error("no error given")),
                ),
            })?;
            dump.show(name, kernel.kernel());
            let after = count(kernel.kernel());
            match stages.iter_mut().find(|s| s.name == name) {
                Some(stage) => {
                    stage.time += time;
                    stage.ops_after = after;
                }
                None => stages.push(Stage { name, time, ops_before: before, ops_after: after }),
            }
        }
        if !changed {
            break;
        }
    }
    Ok(Optimized { kernel, stages })
}
