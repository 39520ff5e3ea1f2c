//! Medians, ratios, intervals, selections and verdicts, computed again from the trials.

use super::Findings;
use crate::check::{Recomputed, agrees};
use crate::estimate;
use crate::schema::{Case, Figure, Median, Phase, Report, Role, Scope, Summary};

pub(super) fn verify(report: &Report, findings: &mut Findings) {
    let mut phases = report.phases.clone();
    for (p, phase) in report.phases.iter().enumerate() {
        let place = format!("phases[{p}] ({})", phase.name);
        for (c, case) in phase.cases.iter().enumerate() {
            let at = format!("{place}.cases[{c}] ({})", case.name);
            verify_case(report, case, &at, findings);
            // What follows from summaries follows from the right ones.
            if let Ok(right) =
                estimate::summaries(case, &report.arms, report.declaration.estimator, report.seed)
            {
                phases[p].cases[c].summaries = right;
            }
        }
        selection(report, phase, &place, findings);
        overall(phase, &phases[p].cases, &place, findings);
    }
    let right = estimate::verdict(&phases, &report.declaration.acceptance);
    if report.verdict.met != right.met || report.verdict.against.len() != right.against.len() {
        findings.wrong(
            "verdict",
            "verdict",
            format!(
                "stored as {:?}, and is {:?} {:?}",
                report.verdict.met, right.met, right.against
            ),
        );
    }
}

fn verify_case(report: &Report, case: &Case, place: &str, findings: &mut Findings) {
    match estimate::medians(case) {
        Ok(right) => medians(case, &right, place, findings),
        Err(error) => findings.wrong("paired ratios", place, error.to_string()),
    }
    for summary in &case.summaries {
        if summary.estimator != report.declaration.estimator {
            findings.wrong(
                "the study's estimator",
                format!("{place}.summaries"),
                format!(
                    "{:?}, and {:?} was declared",
                    summary.estimator, report.declaration.estimator
                ),
            );
        }
    }
    match estimate::summaries(case, &report.arms, report.declaration.estimator, report.seed) {
        Ok(right) => summaries(case, &right, place, findings),
        Err(error) => findings.wrong("paired ratios", place, error.to_string()),
    }
}

fn medians(case: &Case, right: &[Median], place: &str, findings: &mut Findings) {
    if case.medians.len() != right.len() {
        let (has, should) = (case.medians.len(), right.len());
        findings.wrong(
            "complete",
            place,
            format!("{has} medians, and {should} follow from the trials"),
        );
    }
    for right in right {
        let at = format!("{place}.medians ({}, {})", right.arm, right.metric);
        let stored = case.medians.iter().find(|m| m.arm == right.arm && m.metric == right.metric);
        let Some(stored) = stored else {
            findings.wrong("complete", at, "is missing");
            continue;
        };
        if stored.samples != right.samples {
            let (has, should) = (stored.samples, right.samples);
            findings.wrong("trial count", &at, format!("of {has} samples, and there are {should}"));
        }
        if figure(&stored.value, &right.value, "the median", &at, findings) {
            count(findings, case, &right.metric, &right.value);
        }
        if let Some(right) = &right.weight_bytes_per_s {
            match &stored.weight_bytes_per_s {
                Some(stored) => {
                    figure(stored, right, "weight bytes a second", &at, findings);
                }
                None => findings.wrong("complete", at, "weight bytes a second are missing"),
            }
        }
    }
}

fn summaries(case: &Case, right: &[Summary], place: &str, findings: &mut Findings) {
    let same = |a: &Summary, b: &Summary| {
        a.baseline == b.baseline && a.candidate == b.candidate && a.metric == b.metric
    };
    for stored in case.summaries.iter().filter(|s| !right.iter().any(|r| same(r, s))) {
        findings.wrong(
            "paired ratios",
            place,
            format!(
                "a ratio of {} over {} in {}, which is of no pair of a baseline with a candidate",
                stored.baseline, stored.candidate, stored.metric
            ),
        );
    }
    for right in right {
        let at = format!(
            "{place}.summaries ({} over {}, {})",
            right.baseline, right.candidate, right.metric
        );
        let Some(stored) = case.summaries.iter().find(|s| same(s, right)) else {
            findings.wrong("complete", at, "is missing");
            continue;
        };
        if stored.pairs != right.pairs {
            let (has, should) = (stored.pairs, right.pairs);
            findings.wrong("trial count", &at, format!("of {has} pairs, and there are {should}"));
        }
        if figure(&stored.ratio, &right.ratio, "the ratio", &at, findings) {
            count(findings, case, &right.metric, &right.ratio);
        }
        figure(&stored.win_rate, &right.win_rate, "the win rate", &at, findings);
        match (&stored.interval, &right.interval) {
            (Some(_), None) => findings.wrong(
                "intervals need samples",
                &at,
                format!("{} pairs earn no interval", right.pairs),
            ),
            (None, Some(_)) => findings.wrong("complete", &at, "the interval is missing"),
            (Some(stored), Some(right)) => {
                let equal = stored.method == right.method
                    && agrees(stored.low, right.low)
                    && agrees(stored.high, right.high)
                    && agrees(stored.coverage, right.coverage);
                if !equal {
                    findings.wrong(
                        "medians from raw samples",
                        &at,
                        format!(
                            "the interval is {} to {} ({:?})",
                            right.low, right.high, right.method
                        ),
                    );
                }
            }
            (None, None) => {}
        }
    }
}

fn count(findings: &mut Findings, case: &Case, metric: &str, figure: &Figure) {
    if let Some(value) = figure.value {
        findings.recomputed.push(Recomputed {
            of: case.name.clone(),
            name: metric.to_owned(),
            value,
        });
    }
}

/// A stored figure beside the right one: equal to within rounding, or both without a value.
fn figure(
    stored: &Figure,
    right: &Figure,
    what: &str,
    place: &str,
    findings: &mut Findings,
) -> bool {
    let equal = match (stored.value, right.value) {
        (Some(a), Some(b)) => agrees(a, b),
        (a, b) => a.is_none() && b.is_none(),
    };
    if !equal {
        findings.wrong(
            "medians from raw samples",
            place,
            format!("{what} is stored as {:?}, and is {:?}", stored.value, right.value),
        );
    }
    equal
}

fn selection(report: &Report, phase: &Phase, place: &str, findings: &mut Findings) {
    let at = format!("{place}.selection");
    let Some(stored) = &phase.selection else {
        if phase.scope == Scope::Tuning {
            findings.wrong("selection", at, "a tuning phase chooses, and this one did not");
        }
        return;
    };
    if phase.scope != Scope::Tuning {
        findings.wrong("selection", &at, "only a tuning phase chooses");
    }
    let candidate = report.arms.iter().any(|a| a.name == stored.arm && a.role == Role::Candidate);
    if !candidate {
        findings.wrong(
            "selection",
            &at,
            format!("by the medians of `{}`, which is no candidate", stored.arm),
        );
    }
    match estimate::select(&phase.cases, &stored.arm, &stored.metric, &stored.parameter) {
        Ok(Some(right)) if right != *stored => findings.wrong(
            "selection",
            at,
            format!(
                "`{}` was chosen; the least median {} (the smaller {} on a tie) is that of `{}`",
                stored.case, stored.metric, stored.parameter, right.case
            ),
        ),
        Ok(Some(_)) => {}
        Ok(None) => findings.wrong("selection", at, "there was nothing to choose from"),
        Err(error) => findings.wrong("selection", at, error.to_string()),
    }
}

fn overall(phase: &Phase, cases: &[Case], place: &str, findings: &mut Findings) {
    let right = estimate::overall(cases);
    let at = format!("{place}.overall");
    if phase.overall.len() != right.len() {
        let (has, should) = (phase.overall.len(), right.len());
        findings.wrong(
            "nothing pooled",
            at,
            format!("{has} means over cases, and {should} follow"),
        );
        return;
    }
    for (stored, right) in phase.overall.iter().zip(&right) {
        let named = stored.series == right.series
            && stored.baseline == right.baseline
            && stored.candidate == right.candidate
            && stored.metric == right.metric
            && stored.cases == right.cases;
        if !named {
            findings.wrong("nothing pooled", &at, format!("a mean over {:?}", stored.cases));
            continue;
        }
        figure(&stored.geometric_mean, &right.geometric_mean, "the geometric mean", &at, findings);
    }
}
