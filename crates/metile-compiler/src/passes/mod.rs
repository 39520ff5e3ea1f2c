//! The passes over Tile IR.
//!
//! What a pass must keep, on the interpreter: every bit of every buffer the kernel writes (NaN
//! payloads included), the text printed, which assertion fails, and whether the kernel ends.
//! What it need not keep: warnings, which are advice (a removed load warns of nothing), and the
//! number of steps.

pub mod canonicalize;
pub mod cse;
pub mod dce;
mod edit;
mod facts;
pub mod fold;
pub mod licm;

use metile_ir::tile::Kernel;

/// A pass by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pass {
    /// Constants computed ([`fold`]).
    Fold,
    /// One way of writing each thing ([`canonicalize`]).
    Canonicalize,
    /// What was computed before is not computed again ([`cse`]).
    Cse,
    /// What does not change in a loop leaves it ([`licm`]).
    Licm,
    /// What nobody uses goes away ([`dce`]).
    Dce,
}

impl Pass {
    /// Every pass, in the order in which the pipeline runs them.
    pub const ALL: [Pass; 5] = [Pass::Fold, Pass::Canonicalize, Pass::Cse, Pass::Licm, Pass::Dce];

    /// The name, as in `METILE_DUMP`.
    pub const fn name(self) -> &'static str {
        match self {
            Pass::Fold => "fold",
            Pass::Canonicalize => "canonicalize",
            Pass::Cse => "cse",
            Pass::Licm => "licm",
            Pass::Dce => "dce",
        }
    }

    /// Runs the pass on a kernel that was [`Verified`](metile_ir::tile::Verified); gives the new
    /// kernel, and whether anything changed.
    pub fn run(self, kernel: Kernel) -> (Kernel, bool) {
        match self {
            Pass::Fold => fold::run(kernel),
            Pass::Canonicalize => canonicalize::run(kernel),
            Pass::Cse => cse::run(kernel),
            Pass::Licm => licm::run(kernel),
            Pass::Dce => dce::run(kernel),
        }
    }
}
