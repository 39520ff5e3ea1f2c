//! Phases, cases and trials: all there, in the order that the seed drew, paired, verified, and not too fast.

use super::{Findings, is_sha256};
use crate::order;
use crate::schema::{Case, Figure, GateClass, Phase, Report, Role, Status, Trial};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn verify(report: &Report, findings: &mut Findings) {
    for (p, phase) in report.phases.iter().enumerate() {
        let place = format!("phases[{p}] ({})", phase.name);
        if report.phases[..p].iter().any(|other| other.name == phase.name) {
            findings.wrong("complete", &place, "two phases of one name");
        }
        let timed = !is_untimed(report);
        let conditions = phase.before.is_some() && phase.after.is_some();
        if report.status == Status::Complete && timed && !conditions {
            findings.wrong("conditions before and after", &place, "the machine's state is missing");
        }
        for (c, case) in phase.cases.iter().enumerate() {
            let at = format!("{place}.cases[{c}] ({})", case.name);
            if phase.cases[..c].iter().any(|other| other.name == case.name) {
                findings.wrong("complete", &at, "two cases of one name");
            }
            if case.warmups != report.declaration.warmups {
                let (has, said) = (case.warmups, report.declaration.warmups);
                findings.wrong(
                    "warm-ups",
                    &at,
                    format!("{has} warm-ups, and {said} were declared"),
                );
            }
            if report.status == Status::Complete {
                verify_case(report, phase, case, &at, findings);
            }
        }
    }
    if report.status == Status::Complete {
        pooled(report, findings);
    }
}

/// A study that validates and times nothing: it declares neither metrics nor pairs.
fn is_untimed(report: &Report) -> bool {
    report.declaration.metrics.is_empty() && report.declaration.pairs == 0
}

fn verify_case(report: &Report, phase: &Phase, case: &Case, place: &str, findings: &mut Findings) {
    for name in &case.arms {
        if !report.arms.iter().any(|arm| arm.name == *name) {
            findings.wrong("complete", place, format!("`{name}` is no arm of this report"));
        }
    }
    if is_untimed(report) {
        if phase.pairs > 0 || !case.trials.is_empty() || !case.warmup_runs.is_empty() {
            findings.wrong(
                "trial count",
                place,
                "nothing is timed in this study, and there are runs",
            );
        }
        return;
    }
    if phase.pairs == 0 || case.trials.is_empty() {
        findings.wrong("trial count", place, "there are no trials");
        return;
    }
    // What a file claims bounds nothing: counts are of what is there.
    let mut found: BTreeMap<(&str, u64), u64> = BTreeMap::new();
    for (n, trial) in case.trials.iter().enumerate() {
        *found.entry((trial.arm.as_str(), trial.pair)).or_default() += 1;
        verify_trial(report, case, trial, &format!("{place}.trials[{n}]"), findings);
    }
    for name in &case.arms {
        let pairs = found.keys().filter(|(arm, _)| arm == name).count() as u64;
        let inside =
            found.keys().filter(|(arm, pair)| arm == name && *pair < phase.pairs).count() as u64;
        if pairs != phase.pairs || inside != phase.pairs {
            findings.wrong(
                "missing trial",
                place,
                format!("`{name}` has trials in {inside} of {} pairs", phase.pairs),
            );
        }
    }
    for ((arm, pair), count) in found {
        if count > 1 {
            findings.wrong(
                "trial count",
                place,
                format!("`{arm}` has {count} trials in pair {pair}"),
            );
        }
        if !case.arms.iter().any(|known| known == arm) {
            findings.wrong("complete", place, format!("a trial of `{arm}`, which takes no part"));
        }
    }
    order(report, case, place, findings);
    inputs(report, case, place, findings);
    warmups(case, place, findings);
    for arm in &case.arms {
        speed(report, case, arm, place, findings);
    }
}

fn verify_trial(report: &Report, case: &Case, trial: &Trial, place: &str, findings: &mut Findings) {
    let metrics = &report.declaration.metrics;
    if let Some(first) = metrics.first().filter(|m| !trial.values.contains_key(&m.name)) {
        findings.wrong("missing trial", place, format!("a trial without `{}`", first.name));
    }
    for (name, value) in &trial.values {
        if !metrics.iter().any(|m| m.name == *name) {
            findings.wrong("complete", place, format!("`{name}` is no metric of the study"));
        }
        findings.positive(format!("{place}.values.{name}"), *value);
    }
    if trial.repeats == 0 {
        findings.wrong("trial count", place, "a sample of no launches");
    }
    if !trial.poisoned {
        findings.wrong("outputs poisoned before every trial", place, "they were left as they were");
    }
    if case.gate_class != GateClass::None && trial.verified.values().all(|&n| n == 0) {
        findings.wrong("outputs verified after every trial", place, "nothing was verified");
    }
    if !is_sha256(&trial.inputs_sha256) {
        findings.wrong("hashes", place, format!("inputs_sha256 `{}`", trial.inputs_sha256));
    }
}

/// Trials stand in the order in which they ran: pair by pair, as the seed drew it, the other way in odd pairs.
fn order(report: &Report, case: &Case, place: &str, findings: &mut Findings) {
    let arms = case.arms.len();
    if arms == 0 || !case.trials.len().is_multiple_of(arms) {
        return;
    }
    for (pair, trials) in case.trials.chunks(arms).enumerate() {
        let right = order::of_pair(report.seed, &case.name, arms, pair as u64);
        let as_drawn = trials
            .iter()
            .zip(right)
            .all(|(trial, arm)| trial.pair == pair as u64 && trial.arm == case.arms[arm]);
        if !as_drawn {
            findings.wrong(
                "alternating order",
                place,
                format!("pair {pair} did not run in the order that seed {} draws", report.seed),
            );
            return;
        }
    }
}

/// All arms of a pair have the same inputs; kernel studies draw new ones for every pair.
fn inputs(report: &Report, case: &Case, place: &str, findings: &mut Findings) {
    let mut by_pair: BTreeMap<u64, BTreeSet<&str>> = BTreeMap::new();
    for trial in &case.trials {
        by_pair.entry(trial.pair).or_default().insert(&trial.inputs_sha256);
    }
    if let Some((pair, _)) = by_pair.iter().find(|(_, inputs)| inputs.len() > 1) {
        findings.wrong(
            "same inputs",
            place,
            format!("the arms of pair {pair} had different inputs"),
        );
    }
    let kernel = report.subject.checkpoints.is_empty();
    let different: BTreeSet<&str> = case.trials.iter().map(|t| t.inputs_sha256.as_str()).collect();
    if kernel && different.len() < by_pair.len() {
        findings.wrong("fresh inputs", place, "two pairs of a kernel study had the same inputs");
    }
}

/// Every warm-up is there and verified, as trials are.
fn warmups(case: &Case, place: &str, findings: &mut Findings) {
    for name in &case.arms {
        let runs: Vec<_> = case.warmup_runs.iter().filter(|run| run.arm == *name).collect();
        let rounds: BTreeSet<u64> = runs.iter().map(|run| run.round).collect();
        if runs.len() as u64 != case.warmups || rounds.len() != runs.len() {
            findings.wrong(
                "warm-ups",
                place,
                format!("`{name}` has {} of {} warm-ups", runs.len(), case.warmups),
            );
        }
        let unverified = |run: &&&crate::schema::WarmUp| run.verified.values().all(|&n| n == 0);
        if case.gate_class != GateClass::None && runs.iter().any(|run| unverified(&run)) {
            findings.wrong("warm-ups", place, format!("a warm-up of `{name}` was not verified"));
        }
        let trials = case.trials.iter().filter(|trial| trial.arm == *name);
        let written: BTreeSet<_> = trials.map(|trial| &trial.output_sequence).collect();
        if runs.iter().any(|run| !written.contains(&run.output_sequence)) {
            findings.wrong(
                "warm-ups",
                place,
                format!("a warm-up of `{name}` did not write the sequence that its trials wrote"),
            );
        }
    }
}

/// Nothing is faster than the device was probed to be.
fn speed(report: &Report, case: &Case, arm: &str, place: &str, findings: &mut Findings) {
    let Some(metric) = report.declaration.metrics.first() else { return };
    let times =
        case.trials.iter().filter(|t| t.arm == arm).filter_map(|t| t.values.get(&metric.name));
    let Some(fastest) = times.copied().filter(|t| *t > 0.0).min_by(f64::total_cmp) else { return };
    let limits = &report.limits;
    let above = |rate: f64, limit: &Figure| {
        limit.value.filter(|limit| rate > limit * (1.0 + limits.allowance))
    };
    if let Some(flop) = case.work.flop
        && let Some(peak) = above(flop as f64 / fastest, &limits.flop_per_s)
    {
        findings.wrong(
            "no faster than the probed peak",
            place,
            format!(
                "`{arm}`: {flop} operations in {fastest:.3e} s, and the peak is {peak:.3e} a second"
            ),
        );
    }
    let cache = report.environment.last_cache_bytes.value;
    if let (Some(bytes), Some(cache)) = (case.work.distinct_read_bytes, cache)
        && bytes as f64 > cache
        && let Some(rate) = above((bytes as f64 - cache) / fastest, &limits.read_bytes_per_s)
    {
        findings.wrong(
            "no faster than the probed read rate",
            place,
            format!("`{arm}`: {bytes} distinct bytes in {fastest:.3e} s, and memory gives {rate:.3e} a second"),
        );
    }
}

/// Parameters that are the same for all cases of a series.
const NOT_POOLED: [&str; 7] =
    ["model", "dtype", "precision", "format", "prompt_tokens", "output_tokens", "op"];

fn pooled(report: &Report, findings: &mut Findings) {
    let cases: Vec<&Case> = report.phases.iter().flat_map(|p| &p.cases).collect();
    for (n, case) in cases.iter().enumerate() {
        for other in cases[..n].iter().filter(|other| other.series == case.series) {
            let apart = NOT_POOLED
                .iter()
                .find(|name| case.parameters.get(**name) != other.parameters.get(**name));
            if let Some(name) = apart {
                findings.wrong(
                    "nothing pooled",
                    format!("series `{}`", case.series),
                    format!("`{}` and `{}` differ in {name}", other.name, case.name),
                );
                return;
            }
        }
    }
    let candidates = report.arms.iter().filter(|a| a.role == Role::Candidate).count();
    if candidates == 0 {
        findings.wrong("complete", "arms", "no arm is a candidate");
    }
}
