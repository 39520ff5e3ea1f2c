//! Gates: all that decide passed, cover every arm, and are as strict as their class asks.

use super::{Findings, arm};
use crate::schema::{Case, Gate, GateClass, Report, Status, Tolerance};

/// rtol and atol of the full-state rule in FP32.
const STATE_TOLERANCE: f64 = 1e-3;

pub(super) fn verify(report: &Report, case: &Case, place: &str, findings: &mut Findings) {
    let complete = report.status == Status::Complete;
    for (n, gate) in case.gates.iter().enumerate() {
        let at = format!("{place}.gates[{n}] ({})", gate.name);
        if complete && gate.decides && !gate.passed {
            findings.wrong(
                "failed gate discards timings",
                &at,
                "this gate decides and did not pass, and the report is offered as complete",
            );
        }
        contradiction(gate, &at, findings);
        tolerance(report, gate, &at, findings);
    }
    if !complete {
        return;
    }
    for absent in case.absent.iter().filter(|absent| absent.reason.is_empty()) {
        findings.wrong("complete", place, format!("`{}` is absent without a reason", absent.arm));
    }
    if case.gate_class == GateClass::None {
        return;
    }
    let decided: Vec<&Gate> = case.gates.iter().filter(|g| g.decides && g.passed).collect();
    if !decided.iter().any(|g| g.class <= case.gate_class) {
        findings.wrong(
            "gate before timing",
            place,
            format!("no gate of class {:?}, which the case claims, decided", case.gate_class),
        );
    }
    for name in &case.arms {
        let Some(of) = arm(report, name) else { continue };
        let covered = decided.iter().any(|g| {
            (g.arm == *name || g.against == *name) && g.class <= of.gate.max(case.gate_class)
        });
        if of.gate != GateClass::None && !covered {
            findings.wrong(
                "gate before timing",
                place,
                format!("`{name}` was not validated in class {:?}, which it claims", of.gate),
            );
        }
    }
}

/// What a gate says of its errors and whether it passed agree.
fn contradiction(gate: &Gate, place: &str, findings: &mut Findings) {
    if gate.passed && gate.first_mismatch.is_some() {
        findings.wrong(
            "gate before timing",
            place,
            "passed, and names an element outside of the tolerance",
        );
    }
    let ratio = gate.observed.get("of_tolerance").and_then(|f| f.value);
    if let Some(ratio) = ratio.filter(|ratio| gate.passed && *ratio > 1.0) {
        findings.wrong(
            "gate before timing",
            place,
            format!("passed with a difference of {ratio} times what is allowed"),
        );
    }
    if gate.passed && gate.decides && gate.checked.values().all(|&n| n == 0) {
        findings.wrong("gate before timing", place, "passed, and compared nothing");
    }
}

/// The full-state rule is not loosened.
fn tolerance(report: &Report, gate: &Gate, place: &str, findings: &mut Findings) {
    let fp32 = !report.subject.checkpoints.is_empty()
        && report.subject.checkpoints.iter().all(|c| c.dtype == "float32");
    if let Tolerance::Combined { rtol, atol } = gate.tolerance {
        if !(rtol >= 0.0 && atol >= 0.0) {
            findings.wrong("tolerances", place, format!("rtol {rtol}, atol {atol}"));
        }
        let looser = rtol > STATE_TOLERANCE || atol > STATE_TOLERANCE;
        if gate.class == GateClass::State && gate.decides && fp32 && looser {
            findings.wrong(
                "tolerances",
                place,
                format!("rtol {rtol}, atol {atol}; the FP32 state is held to {STATE_TOLERANCE}"),
            );
        }
    }
}
