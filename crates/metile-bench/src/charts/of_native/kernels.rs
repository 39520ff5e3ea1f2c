//! Kernels and layers: case by case, and over rows or widths.

use super::{facts, number, of_role, ratio, ratios, summary};
use crate::charts::figure::{Bar, BarGroup, Body, Chart, Panel, Reference, Unit};
use crate::charts::sweeps::{self, Point};
use crate::estimate;
use crate::schema::{Case, Report, Role};
use std::collections::HashSet;

/// Pairs of arms in a metric, as panels are made of them.
fn comparisons(report: &Report) -> Vec<(String, String, String)> {
    let mut all = Vec::new();
    for metric in &report.declaration.metrics {
        for baseline in of_role(report, Role::Baseline) {
            for candidate in of_role(report, Role::Candidate) {
                all.push((baseline.name.clone(), candidate.name.clone(), metric.name.clone()));
            }
        }
    }
    all
}

/// A title with a capital first letter.
fn capitalized(title: &str) -> String {
    let mut letters = title.chars();
    letters.next().map_or(String::new(), |c| c.to_uppercase().chain(letters).collect())
}

fn cases(report: &Report) -> impl Iterator<Item = &Case> {
    report.phases.iter().flat_map(|p| &p.cases)
}

/// Every case's ratio as a bar with its pairs as dots; a panel for every two arms.
pub(super) fn results(name: &'static str, reports: &[&Report]) -> Chart {
    let mut rows = Vec::new();
    let mut with_interval = false;
    for report in reports {
        for (baseline, candidate, metric) in comparisons(report) {
            let groups: Vec<BarGroup> = cases(report)
                .filter(|case| {
                    let part = |arm: &String| {
                        case.arms.contains(arm) || case.absent.iter().any(|a| a.arm == *arm)
                    };
                    part(&baseline) && part(&candidate)
                })
                .map(|case| {
                    let value = ratio(report, case, &baseline, &candidate, &metric);
                    let interval = summary(report, case, &baseline, &candidate, &metric)
                        .and_then(|s| s.interval)
                        .map(|i| (i.low, i.high));
                    with_interval |= interval.is_some();
                    let bar = Bar {
                        series: 0,
                        value,
                        observations: ratios(case, &baseline, &candidate, &metric),
                        interval,
                        note: String::new(),
                    };
                    BarGroup { label: case.name.clone(), bars: vec![bar] }
                })
                .collect();
            if groups.is_empty() {
                continue;
            }
            let session = match reports.len() {
                1 => String::new(),
                _ => format!(" · {}", report.created),
            };
            rows.push(vec![Panel {
                heading: format!("{candidate} beside {baseline}: {metric}{session}"),
                remarks: report
                    .declaration
                    .metrics
                    .iter()
                    .filter(|m| m.name == metric)
                    .map(|m| {
                        format!(
                            "{}: {}",
                            if m.clock == crate::schema::Clock::Wall {
                                "wall time"
                            } else {
                                "device time"
                            },
                            m.boundary
                        )
                    })
                    .collect(),
                quantity: "baseline / candidate".to_owned(),
                unit: Unit::Ratio,
                references: vec![Reference::equal()],
                body: Body::Bars(groups),
            }]);
        }
    }
    let mut key = vec!["Bar and upright mark: the estimate. Dots: the ratio of every pair. Above 1.00× favours the candidate".to_owned()];
    if with_interval {
        key.push("Whisker under a bar: interval of the estimate, at least 95 %, from order statistics of the paired ratios (sign test) or resampled pairs, as the report names it".to_owned());
    }
    let title = reports.first().map_or(String::new(), |r| capitalized(&r.declaration.title));
    Chart {
        name,
        title,
        facts: facts(reports),
        series: vec!["candidate against baseline".to_owned()],
        rows,
        key,
    }
}

fn points(report: &Report, parameters: &[&str], only: Option<(&str, &str)>) -> Vec<Point> {
    let several = comparisons(report).len() > 1;
    let mut points = Vec::new();
    for (baseline, candidate, metric) in comparisons(report) {
        if only.is_some_and(|(b, m)| b != baseline || m != metric) {
            continue;
        }
        for case in cases(report) {
            let Some(x) = parameters.iter().find_map(|name| number(case, name)) else { continue };
            let figure = summary(report, case, &baseline, &candidate, &metric);
            let wins = figure.as_ref().and_then(|s| s.win_rate.value);
            let rate = |arm: &str| {
                let times: Vec<f64> = super::seconds(case, arm, &metric);
                match (case.work.weight_bytes, estimate::median(&times)) {
                    (Some(bytes), Some(time)) => Ok(bytes as f64 / time),
                    (None, _) => Err("the case names no weight bytes".to_owned()),
                    (_, None) => Err("not measured".to_owned()),
                }
            };
            points.push(Point {
                series: match several {
                    true => format!("{} · beside {baseline}: {metric}", case.series),
                    false => case.series.clone(),
                },
                x: x as f64,
                ratio: ratio(report, case, &baseline, &candidate, &metric),
                pairs: ratios(case, &baseline, &candidate, &metric),
                wins: wins.ok_or_else(|| "no pairs".to_owned()),
                bandwidth: [rate(&baseline), rate(&candidate)],
                note: String::new(),
            });
        }
    }
    // What is timed on one side alone has no ratio anywhere.
    let compared: HashSet<String> =
        points.iter().filter(|p| p.ratio.is_ok()).map(|p| p.series.clone()).collect();
    points.retain(|p| compared.contains(&p.series));
    points
}

/// Ratios over rows or widths.
pub(super) fn sweep(report: &Report, name: &'static str, parameters: &[&str]) -> Option<Chart> {
    let points = points(report, parameters, None);
    if points.is_empty() {
        return None;
    }
    let x = if name == "matched-matrix" { "rows" } else { "width N" };
    Some(sweeps::ratios(
        name,
        &capitalized(&report.declaration.title),
        x,
        &points,
        facts(&[report]),
    ))
}

/// Weight bytes over each arm's median time, beside the first baseline.
pub(super) fn bandwidth(report: &Report) -> Option<Chart> {
    let (baseline, candidate, metric) = comparisons(report).into_iter().next()?;
    let (x, parameters): (_, &[&str]) = match report.declaration.name.as_str() {
        "projection-width" => ("width N", &["n", "output_features", "width"]),
        _ => ("rows", &["rows"]),
    };
    let points = points(report, parameters, Some((&baseline, &metric)));
    if points.is_empty() {
        return None;
    }
    Some(sweeps::bandwidth(x, &points, [baseline, candidate], facts(&[report])))
}
