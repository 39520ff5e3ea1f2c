//! The passes in order, until nothing changes.

use crate::dump::Dump;
use crate::passes::Pass;
use metile_ir::Diagnostic;
use metile_ir::tile::verify::verify;
use metile_ir::tile::{Kernel, Verified};
use std::fmt;
use std::time::{Duration, Instant};

/// How a kernel is optimized.
#[derive(Clone, Debug)]
pub struct Options {
    /// The passes of a round, in order.
    pub passes: Vec<Pass>,
    /// How many rounds at most; one in which nothing changes is the last.
    pub max_rounds: usize,
    /// What is shown between stages.
    pub dump: Dump,
}

impl Default for Options {
    /// Every pass, and nothing shown, whatever the environment says: see
    /// [`Dump::from_env`].
    fn default() -> Options {
        Options { passes: Pass::ALL.to_vec(), max_rounds: 8, dump: Dump::none() }
    }
}

/// An optimized kernel, and how it came about.
#[derive(Clone, Debug)]
pub struct Optimized {
    /// The kernel.
    pub kernel: Verified,
    /// Every pass that was run, in order.
    pub stages: Vec<Stage>,
}

/// One run of a pass.
#[derive(Clone, Debug)]
pub struct Stage {
    /// The pass's name.
    pub name: &'static str,
    /// Which round it was part of, from 1.
    pub round: usize,
    /// How long the pass took, without the verification after it.
    pub time: Duration,
    /// Operations in the program before.
    pub ops_before: usize,
    /// Operations in the program after.
    pub ops_after: usize,
    /// Whether it changed anything.
    pub changed: bool,
}

/// A pass gave a kernel that the verifier refuses: a mistake in the compiler.
#[derive(Clone, Debug)]
pub struct OptimizeError {
    /// The pass's name.
    pub pass: &'static str,
    /// The kernel's name.
    pub kernel: String,
    /// What the verifier found.
    pub errors: Vec<Diagnostic>,
}

impl fmt::Display for OptimizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = self.errors.first().map(ToString::to_string).unwrap_or_default();
        write!(
            f,
            "internal error: the pass `{}` broke kernel `{}`: {found}",
            self.pass, self.kernel
        )
    }
}

impl std::error::Error for OptimizeError {}

/// Simplifies `kernel`. Every bit that the interpreter computes stays as it was; see
/// [`passes`](crate::passes) for what exactly is kept.
///
/// # Errors
/// If a pass made a mistake that the verifier sees.
pub fn optimize(kernel: Verified, options: &Options) -> Result<Optimized, OptimizeError> {
    options.dump.show("input", "", kernel.kernel());
    let mut kernel = kernel;
    let mut stages = Vec::new();
    for round in 1..=options.max_rounds {
        let mut any = false;
        for &pass in &options.passes {
            let (next, stage) = run(kernel, pass, round)?;
            kernel = next;
            any |= stage.changed;
            let note =
                format!(" (round {round}{})", if stage.changed { "" } else { ", no change" });
            options.dump.show(stage.name, &note, kernel.kernel());
            stages.push(stage);
        }
        if !any {
            break;
        }
    }
    options.dump.show("optimized", "", kernel.kernel());
    Ok(Optimized { kernel, stages })
}

fn run(kernel: Verified, pass: Pass, round: usize) -> Result<(Verified, Stage), OptimizeError> {
    let name = pass.name();
    let title = kernel.kernel().name.clone();
    let ops_before = count(kernel.kernel());
    let start = Instant::now();
    let (kernel, changed) = pass.run(kernel.into_kernel());
    let time = start.elapsed();
    let ops_after = count(&kernel);
    let kernel =
        verify(kernel).map_err(|errors| OptimizeError { pass: name, kernel: title, errors })?;
    Ok((kernel, Stage { name, round, time, ops_before, ops_after, changed }))
}

fn count(kernel: &Kernel) -> usize {
    kernel.walk(kernel.body).len()
}
