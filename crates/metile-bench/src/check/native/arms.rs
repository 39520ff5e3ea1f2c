//! Arms: who is compared, made how, computing in what.

use super::{COMPILER_STUDIES, Findings, is_sha256};
use crate::schema::{Comparison, Estimator, Report, Role, Status};

pub(super) fn verify(report: &Report, findings: &mut Findings) {
    let declaration = &report.declaration;
    for (n, arm) in report.arms.iter().enumerate() {
        if report.arms[..n].iter().any(|other| other.name == arm.name) {
            findings.wrong("complete", format!("arms[{n}]"), format!("`{}` twice", arm.name));
        }
    }
    let has = |role| report.arms.iter().any(|arm| arm.role == role);
    if report.status == Status::Complete && !(has(Role::Baseline) && has(Role::Candidate)) {
        findings.wrong("complete", "arms", "a comparison has a baseline and a candidate");
    }
    toolchains(report, findings);
    precision(report, findings);
    // The one study whose row names another estimator.
    let right = match declaration.name.as_str() {
        "projection-width" => Estimator::RatioOfMedians,
        _ => Estimator::MedianOfPairedRatios,
    };
    if declaration.estimator != right {
        findings.wrong(
            "the study's estimator",
            "declaration.estimator",
            format!(
                "{:?}, and `{}` is summarized by {right:?}",
                declaration.estimator, declaration.name
            ),
        );
    }
    if declaration.disclosures.is_empty() {
        findings.wrong("disclosures", "declaration.disclosures", "there are none");
    }
    let synthetic = report.subject.checkpoints.iter().any(|c| c.synthetic);
    if synthetic && !declaration.disclosures.iter().any(|d| d.contains("synthetic weights")) {
        findings.wrong(
            "disclosures",
            "declaration.disclosures",
            "a result on synthetic weights says that it holds on synthetic weights",
        );
    }
    if declaration.name == "a-a" && report.phases.iter().any(|p| p.pairs < 20) {
        findings.wrong("trial count", "phases", "an A/A has at least 20 pairs");
    }
    fingerprints(report, findings);
}

/// A compiler comparison is of code made by the same tools in the same way. What vendors make stands beside it.
fn toolchains(report: &Report, findings: &mut Findings) {
    if !COMPILER_STUDIES.contains(&report.declaration.name.as_str()) {
        return;
    }
    let ours = report.arms.iter().filter(|arm| {
        arm.toolchain.path != "vendor_binary" && !arm.toolchain.compiler.starts_with("the vendor's")
    });
    let mut ours = ours.enumerate();
    let Some((_, first)) = ours.next() else { return };
    for (_, arm) in ours {
        if arm.toolchain != first.toolchain {
            let tools = |t: &crate::schema::Toolchain| format!("{} ({})", t.compiler, t.path);
            findings.wrong(
                "one toolchain",
                "arms",
                format!(
                    "`{}` is of {} and `{}` of {}: no comparison of compilers",
                    first.name,
                    tools(&first.toolchain),
                    arm.name,
                    tools(&arm.toolchain)
                ),
            );
        }
    }
}

/// Both sides may reduce precision, or neither; and what the probe found is the same on both.
fn precision(report: &Report, findings: &mut Findings) {
    if report.declaration.comparison == Comparison::Compression {
        return;
    }
    let relaxed = |on: bool| report.arms.iter().find(|arm| arm.precision.relaxed == on);
    if let (Some(strict), Some(relaxed)) = (relaxed(false), relaxed(true)) {
        findings.wrong(
            "same precision on both sides",
            "arms",
            format!("`{}` may reduce precision and `{}` may not", relaxed.name, strict.name),
        );
    }
    // The first word is what ran; the rest says how it was found out.
    let probed: Vec<(&str, &str)> = report
        .arms
        .iter()
        .filter_map(|arm| {
            let word = arm.precision.probed.split([' ', ',', ':']).next()?;
            ["f32", "tf32", "f16", "reduced", "neither"]
                .contains(&word)
                .then_some((arm.name.as_str(), word))
        })
        .collect();
    if let [(name, first), rest @ ..] = probed.as_slice() {
        for (other, word) in rest.iter().filter(|(_, word)| word != first) {
            findings.wrong(
                "same precision on both sides",
                "arms",
                format!("the probe found {first} in `{name}` and {word} in `{other}`"),
            );
        }
    }
}

fn fingerprints(report: &Report, findings: &mut Findings) {
    let f = &report.fingerprints;
    for (what, all) in [("kernels", &f.kernels), ("emitted", &f.emitted)] {
        for (name, hash) in all.iter().filter(|(_, hash)| !is_sha256(hash)) {
            let place = format!("fingerprints.{what}.{name}");
            findings.wrong("hashes", place, format!("`{hash}` is no SHA-256"));
        }
    }
    for file in f.sources.iter().chain(&f.program).filter(|file| !is_sha256(&file.sha256)) {
        findings.wrong(
            "hashes",
            "fingerprints",
            format!("`{}` of {} is no SHA-256", file.sha256, file.path),
        );
    }
    // Versions compared as whole programs are known by their files; of all others the kernels are.
    let programs = report.declaration.name == "paired-regression" && !f.sources.is_empty();
    if report.status == Status::Complete && f.kernels.is_empty() && !programs {
        findings.wrong(
            "fingerprints",
            "fingerprints.kernels",
            "neither kernels nor programs say what exactly ran",
        );
    }
}
