//! Wording of warnings and failures.

use crate::diagnostic::Diagnostic;
use crate::tile::OpId;
use std::collections::HashSet;

/// The warnings of a launch: each kind once per operation.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    pub found: Vec<Diagnostic>,
    seen: HashSet<(OpId, &'static str)>,
}

impl Warnings {
    /// Whether this kind is still unreported for the operation.
    pub fn is_new(&self, op: OpId, kind: &'static str, limit: usize) -> bool {
        self.found.len() < limit && !self.seen.contains(&(op, kind))
    }

    pub fn add(&mut self, op: OpId, kind: &'static str, warning: Diagnostic) {
        if self.seen.insert((op, kind)) {
            self.found.push(warning);
        }
    }
}

/// `program (2, 0, 0)`.
pub(super) fn program(id: [u64; 3]) -> String {
    format!("program ({}, {}, {})", id[0], id[1], id[2])
}
