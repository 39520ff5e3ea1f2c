//! The project's own reports: every rule of measuring, recomputed or looked up.
//!
//! A rule has a name, which findings give. `docs/src/reports.md` has them all in words.

mod arms;
mod gates;
mod models;
mod phases;
mod subject;
mod summaries;

use super::Findings;
use crate::schema::write::nulls_have_reasons;
use crate::schema::{Arm, Report, Status};
use serde_json::Value;
use std::path::Path;

/// Studies that compare what the compiler makes of kernels.
const COMPILER_STUDIES: [&str; 8] = [
    "a-a",
    "rmsnorm-tiling",
    "register-rmsnorm",
    "tensor-memory",
    "schedule-fusion",
    "thread-layouts",
    "staged-gemm",
    "paired-regression",
];

/// Checks a report; `value` is what it was read from, `path` where.
pub(super) fn verify(report: &Report, value: &Value, path: &Path, findings: &mut Findings) {
    if let Err(error) = nulls_have_reasons(value, "report") {
        findings.wrong("null with a reason", "", error.to_string());
    }
    status(report, findings);
    arms::verify(report, findings);
    subject::verify(report, path, findings);
    for (p, phase) in report.phases.iter().enumerate() {
        for (c, case) in phase.cases.iter().enumerate() {
            let place = format!("phases[{p}] ({}).cases[{c}] ({})", phase.name, case.name);
            gates::verify(report, case, &place, findings);
        }
    }
    phases::verify(report, findings);
    if report.status == Status::Complete {
        summaries::verify(report, findings);
        models::verify(report, findings);
    }
}

/// A report is complete, or it says why not and has no timings.
fn status(report: &Report, findings: &mut Findings) {
    let timed = report.phases.iter().flat_map(|p| &p.cases).any(|case| {
        !case.trials.is_empty() || !case.medians.is_empty() || !case.summaries.is_empty()
    });
    let chosen = report.phases.iter().any(|p| p.selection.is_some() || !p.overall.is_empty());
    match (report.status, &report.failure) {
        (Status::Complete, Some(failure)) => findings.wrong(
            "failed gate discards timings",
            "failure",
            format!("a complete report has no failure, and this one says: {}", failure.message),
        ),
        (Status::Failed, None) => {
            findings.wrong("complete", "failure", "a failed report says why it failed");
        }
        (Status::Failed, Some(_)) if timed || chosen => findings.wrong(
            "failed gate discards timings",
            "phases",
            "a failed run keeps no timing, median, ratio or selection of any phase",
        ),
        (Status::Failed, Some(_)) if report.verdict.met.is_some() => {
            findings.wrong(
                "failed gate discards timings",
                "verdict",
                "a failed run has no verdict",
            );
        }
        (Status::Failed, Some(failure)) => {
            findings.notes.push(format!("a failure report, without timings: {}", failure.message));
        }
        (Status::Complete, None) if report.phases.iter().all(|p| p.cases.is_empty()) => {
            findings.wrong("complete", "phases", "a complete report has cases");
        }
        (Status::Complete, None) => {}
    }
}

/// The arm of a name.
fn arm<'r>(report: &'r Report, name: &str) -> Option<&'r Arm> {
    report.arms.iter().find(|arm| arm.name == name)
}

/// Whether a text is a SHA-256 in hexadecimal.
fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}
