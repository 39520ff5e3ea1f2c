//! What follows from trials: medians, ratios, intervals, selections and verdicts. The writer of a report and
//! who checks it compute them here.

use crate::random::Random;
use crate::schema::{
    Acceptance, Arm, Case, Estimator, Figure, Interval, IntervalMethod, Median, Overall, Phase,
    Role, Selection, SelectionRule, Summary, Verdict,
};
use std::collections::BTreeMap;

/// Samples that nothing can be computed of.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EstimateError {
    /// A time that is not above 0.
    #[error("case `{case}`, arm `{arm}`, pair {pair}: {metric} is {value}, and a time is above 0")]
    NotPositive {
        /// The case.
        case: String,
        /// The arm.
        arm: String,
        /// The pair.
        pair: u64,
        /// The metric.
        metric: String,
        /// The value.
        value: f64,
    },
    /// An arm has two samples of a metric in one pair.
    #[error("case `{case}`, arm `{arm}`: pair {pair} has two trials")]
    Twice {
        /// The case.
        case: String,
        /// The arm.
        arm: String,
        /// The pair.
        pair: u64,
    },
    /// A pair of which one arm has no sample.
    #[error("case `{case}`: pair {pair} has no {metric} of arm `{arm}`")]
    Unpaired {
        /// The case.
        case: String,
        /// The arm without one.
        arm: String,
        /// The pair.
        pair: u64,
        /// The metric.
        metric: String,
    },
    /// Nothing to choose from.
    #[error("case `{case}` can't be chosen from: {why}")]
    Selection {
        /// The case.
        case: String,
        /// What it lacks.
        why: String,
    },
}

/// The median; of two middle values their mean. `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some(sorted[middle - 1].midpoint(sorted[middle])),
    }
}

/// The ratio of two arms over `(baseline, candidate)` times. `None` of no pairs.
///
/// Medians of ratios are taken of their logarithms, so that swapping the arms gives the inverse.
pub fn ratio(pairs: &[(f64, f64)], estimator: Estimator) -> Option<f64> {
    match estimator {
        Estimator::MedianOfPairedRatios => median(&logs(pairs)).map(f64::exp),
        Estimator::RatioOfMedians => {
            let (baseline, candidate): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
            Some(median(&baseline)? / median(&candidate)?)
        }
    }
}

/// The geometric mean. `None` of nothing.
pub fn geometric_mean(ratios: &[f64]) -> Option<f64> {
    let sum: f64 = ratios.iter().map(|r| r.ln()).sum();
    (!ratios.is_empty()).then(|| (sum / ratios.len() as f64).exp())
}

fn logs(pairs: &[(f64, f64)]) -> Vec<f64> {
    pairs.iter().map(|(baseline, candidate)| (baseline / candidate).ln()).collect()
}

/// How often an interval is to hold what it is of.
const COVERAGE: f64 = 0.95;
/// Pairs from which a resampled interval is given.
const BOOTSTRAP_PAIRS: usize = 15;
/// Resamples.
const RESAMPLES: usize = 2000;

/// The interval of [`ratio`], where there are enough pairs: at least 9 for a median of paired ratios (of fewer
/// it would be the range of the samples, or wider), at least 15 for a ratio of medians.
pub fn interval(pairs: &[(f64, f64)], estimator: Estimator, random: Random) -> Option<Interval> {
    match estimator {
        Estimator::MedianOfPairedRatios => sign_test(logs(pairs)),
        Estimator::RatioOfMedians => bootstrap(pairs, random),
    }
}

/// Order statistics k and n + 1 − k, for the greatest k with P(Binomial(n, ½) < k) ≤ (1 − coverage) / 2.
fn sign_test(mut logs: Vec<f64>) -> Option<Interval> {
    logs.sort_by(f64::total_cmp);
    let n = logs.len();
    let (mut below, mut k) = (0.0, 0);
    let mut term = 0.5f64.powi(i32::try_from(n).ok()?);
    while below + term <= (1.0 - COVERAGE) / 2.0 {
        below += term;
        term *= (n - k) as f64 / (k + 1) as f64;
        k += 1;
    }
    (k >= 2).then(|| Interval {
        method: IntervalMethod::SignTest,
        coverage: 1.0 - 2.0 * below,
        low: logs[k - 1].exp(),
        high: logs[n - k].exp(),
    })
}

fn bootstrap(pairs: &[(f64, f64)], mut random: Random) -> Option<Interval> {
    if pairs.len() < BOOTSTRAP_PAIRS {
        return None;
    }
    let mut logs = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let drawn: Vec<(f64, f64)> =
            (0..pairs.len()).map(|_| pairs[random.below(pairs.len() as u64) as usize]).collect();
        logs.push(ratio(&drawn, Estimator::RatioOfMedians)?.ln());
    }
    logs.sort_by(f64::total_cmp);
    let tail = ((1.0 - COVERAGE) / 2.0 * RESAMPLES as f64) as usize;
    Some(Interval {
        method: IntervalMethod::PairedBootstrap,
        coverage: COVERAGE,
        low: logs[tail].exp(),
        high: logs[RESAMPLES - 1 - tail].exp(),
    })
}

/// The samples of an arm in a metric, by pair.
///
/// # Errors
/// If a pair has two, or one is not above 0.
pub fn samples(case: &Case, arm: &str, metric: &str) -> Result<BTreeMap<u64, f64>, EstimateError> {
    let mut found = BTreeMap::new();
    for trial in case.trials.iter().filter(|t| t.arm == arm) {
        let Some(&value) = trial.values.get(metric) else { continue };
        let (case, arm, pair) = (case.name.clone(), arm.to_owned(), trial.pair);
        if !(value > 0.0 && value.is_finite()) {
            return Err(EstimateError::NotPositive {
                case,
                arm,
                pair,
                metric: metric.to_owned(),
                value,
            });
        }
        if found.insert(pair, value).is_some() {
            return Err(EstimateError::Twice { case, arm, pair });
        }
    }
    Ok(found)
}

/// The `(baseline, candidate)` times of each pair. Only trials of the same pair are ever set against each other.
///
/// # Errors
/// As [`samples`], and if a pair lacks one of the two.
pub fn pairs(
    case: &Case,
    baseline: &str,
    candidate: &str,
    metric: &str,
) -> Result<Vec<(f64, f64)>, EstimateError> {
    let (left, right) = (samples(case, baseline, metric)?, samples(case, candidate, metric)?);
    let lacks = |arm: &str, pair: u64| EstimateError::Unpaired {
        case: case.name.clone(),
        arm: arm.to_owned(),
        pair,
        metric: metric.to_owned(),
    };
    if let Some(pair) = right.keys().find(|pair| !left.contains_key(pair)) {
        return Err(lacks(baseline, *pair));
    }
    let both = left.iter().map(|(pair, &time)| {
        right.get(pair).map(|&other| (time, other)).ok_or_else(|| lacks(candidate, *pair))
    });
    both.collect()
}

/// Metrics that a case's trials have.
fn metrics(case: &Case) -> Vec<&str> {
    let mut names: Vec<&str> =
        case.trials.iter().flat_map(|t| t.values.keys().map(String::as_str)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The medians of a case's arms.
///
/// # Errors
/// As [`samples`].
pub fn medians(case: &Case) -> Result<Vec<Median>, EstimateError> {
    let mut all = Vec::new();
    for metric in metrics(case) {
        for arm in &case.arms {
            let values: Vec<f64> = samples(case, arm, metric)?.into_values().collect();
            // A metric that the arm does not have.
            let Some(middle) = median(&values) else { continue };
            let rate = case.work.weight_bytes.map(|bytes| Figure::new(bytes as f64 / middle));
            all.push(Median {
                arm: arm.clone(),
                metric: metric.to_owned(),
                samples: values.len() as u64,
                value: Figure::new(middle),
                weight_bytes_per_s: rate,
            });
        }
    }
    Ok(all)
}

/// The ratios of a case: of every baseline over every candidate, in every metric that both have.
///
/// # Errors
/// As [`pairs`].
pub fn summaries(
    case: &Case,
    arms: &[Arm],
    estimator: Estimator,
    seed: u64,
) -> Result<Vec<Summary>, EstimateError> {
    let of_role = |role: Role| {
        let has = move |name: &&String| arms.iter().any(|a| a.name == **name && a.role == role);
        case.arms.iter().filter(has).collect::<Vec<_>>()
    };
    let mut all = Vec::new();
    for metric in metrics(case) {
        for baseline in of_role(Role::Baseline) {
            for candidate in of_role(Role::Candidate) {
                let has = |arm| samples(case, arm, metric).map(|s| !s.is_empty());
                if !has(baseline)? || !has(candidate)? {
                    continue;
                }
                let pairs = pairs(case, baseline, candidate, metric)?;
                all.push(summary(case, [baseline, candidate], metric, &pairs, estimator, seed));
            }
        }
    }
    Ok(all)
}

fn summary(
    case: &Case,
    [baseline, candidate]: [&String; 2],
    metric: &str,
    pairs: &[(f64, f64)],
    estimator: Estimator,
    seed: u64,
) -> Summary {
    // The same draw whichever way the arms are named.
    let mut both = [baseline.as_str(), candidate.as_str()];
    both.sort_unstable();
    let random = Random::named(seed, &["interval", &case.name, both[0], both[1], metric]);
    let wins = pairs.iter().filter(|(b, c)| c < b).count();
    let none = || Figure::missing("no pairs");
    Summary {
        baseline: baseline.clone(),
        candidate: candidate.clone(),
        metric: metric.to_owned(),
        pairs: pairs.len() as u64,
        estimator,
        ratio: ratio(pairs, estimator).map_or_else(none, Figure::new),
        interval: interval(pairs, estimator, random),
        win_rate: match pairs.len() {
            0 => none(),
            n => Figure::new(wins as f64 / n as f64),
        },
    }
}

/// What a tuning phase chooses: the case with the least median of `arm`, and of equal ones that with the
/// least value of `parameter`.
///
/// # Errors
/// If a case lacks samples or the parameter.
pub fn select(
    cases: &[Case],
    arm: &str,
    metric: &str,
    parameter: &str,
) -> Result<Option<Selection>, EstimateError> {
    let mut ranked = Vec::new();
    for case in cases {
        let lacks = |why: String| EstimateError::Selection { case: case.name.clone(), why };
        let values: Vec<f64> = samples(case, arm, metric)?.into_values().collect();
        let middle = median(&values).ok_or_else(|| lacks(format!("no {metric} of arm `{arm}`")))?;
        let at = case.parameters.get(parameter).and_then(serde_json::Value::as_u64);
        let at = at.ok_or_else(|| lacks(format!("no whole number as parameter `{parameter}`")))?;
        ranked.push((middle, at, &case.name));
    }
    let best = ranked.into_iter().min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    Ok(best.map(|(_, _, case)| Selection {
        rule: SelectionRule::LeastMedianThenLeastParameter,
        arm: arm.to_owned(),
        metric: metric.to_owned(),
        parameter: parameter.to_owned(),
        case: case.clone(),
    }))
}

/// The geometric means of each series with more than one case, for every pair of arms and metric that all its
/// cases have.
pub fn overall(cases: &[Case]) -> Vec<Overall> {
    let mut groups: BTreeMap<[&str; 4], Vec<(&Case, &Figure)>> = BTreeMap::new();
    for case in cases {
        for s in &case.summaries {
            let key = [case.series.as_str(), &s.baseline, &s.candidate, &s.metric];
            groups.entry(key).or_default().push((case, &s.ratio));
        }
    }
    let many = groups.into_iter().filter(|([series, ..], members)| {
        members.len() > 1 && members.len() == cases.iter().filter(|c| c.series == *series).count()
    });
    many.map(|([series, baseline, candidate, metric], members)| {
        let ratios: Option<Vec<f64>> = members.iter().map(|(_, ratio)| ratio.value).collect();
        let mean = ratios.and_then(|r| geometric_mean(&r));
        Overall {
            series: series.to_owned(),
            baseline: baseline.to_owned(),
            candidate: candidate.to_owned(),
            metric: metric.to_owned(),
            cases: members.iter().map(|(case, _)| case.name.clone()).collect(),
            geometric_mean: mean
                .map_or_else(|| Figure::missing("a case has no ratio"), Figure::new),
        }
    })
    .collect()
}

/// Whether the summaries meet what is asked of them.
pub fn verdict(phases: &[Phase], acceptance: &Acceptance) -> Verdict {
    let cases = phases.iter().flat_map(|p| &p.cases);
    let each = cases.flat_map(|case| case.summaries.iter().map(move |s| (case, s)));
    let mut against = Vec::new();
    let mut refuse = |case: &Case, s: &Summary, why: String| {
        against.push(format!("{}, {} over {}: {why}", case.name, s.baseline, s.candidate));
    };
    let asked = match acceptance {
        Acceptance::None => return Verdict { met: None, against },
        Acceptance::IntervalHolds { metric, .. }
        | Acceptance::Guard { metric, .. }
        | Acceptance::Promotion { metric, .. } => metric,
    };
    for (case, s) in each.filter(|(_, s)| s.metric == *asked) {
        let Some(ratio) = s.ratio.value else {
            refuse(case, s, "no ratio".to_owned());
            continue;
        };
        match acceptance {
            Acceptance::None => {}
            Acceptance::IntervalHolds { value, .. } => match &s.interval {
                None => refuse(case, s, "too few pairs for an interval".to_owned()),
                Some(i) if i.low <= *value && *value <= i.high => {}
                Some(i) => refuse(case, s, format!("{:.4} to {:.4}", i.low, i.high)),
            },
            Acceptance::Guard { part, .. } => {
                if ratio < 1.0 / (1.0 + part) {
                    refuse(case, s, format!("ratio {ratio:.4}"));
                }
            }
            Acceptance::Promotion { ratio: goal, series, part, .. } => {
                let asked = if series.contains(&case.series) { *goal } else { 1.0 / (1.0 + part) };
                if ratio < asked {
                    refuse(case, s, format!("ratio {ratio:.4}, asked {asked:.4}"));
                }
            }
        }
    }
    Verdict { met: Some(against.is_empty()), against }
}

#[cfg(test)]
mod tests;
