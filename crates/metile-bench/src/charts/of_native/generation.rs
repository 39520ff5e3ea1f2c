//! Generations: the long document, short ones, one forward, two requests.

use super::{column, facts, names, number, of_role, ratio, ratios, seconds, series_of};
use crate::charts::figure::{Body, Chart, DotColumn, DotGroup, Panel, Reference, Scale, Unit};
use crate::schema::{Case, Phase, Report, Role};

const DOTS: &str = "Dots: every observation. Rule: the median (of ratios: the estimate), whose figure is under the axis. No interval, no outline";

fn in_words(metric: &str) -> &str {
    match metric {
        "ttft" => "time to the first token",
        "decode" => "tokens after the first",
        "total" => "whole generation",
        other => other,
    }
}

fn dots(heading: String, quantity: &str, unit: Unit, groups: Vec<DotGroup>, scale: Scale) -> Panel {
    Panel {
        heading,
        remarks: Vec::new(),
        quantity: quantity.to_owned(),
        unit,
        references: if unit == Unit::Ratio { vec![Reference::equal()] } else { Vec::new() },
        body: Body::Dots { groups, scale },
    }
}

/// Columns of all arms of a case in one metric.
fn arms(
    report: &Report,
    case: &Case,
    metric: &str,
    note: &dyn Fn(&str) -> String,
) -> Vec<DotColumn> {
    let series = series_of(report);
    case.arms
        .iter()
        .map(|arm| {
            let n = series.iter().find(|s| s.0 == *arm).map_or(5, |s| s.1);
            column(n, seconds(case, arm, metric), "not measured", &note(arm))
        })
        .collect()
}

/// Ratio columns of a case in one metric: one for each baseline, in its series.
fn ratio_columns(report: &Report, case: &Case, metric: &str) -> Vec<DotColumn> {
    let series = series_of(report);
    let mut columns = Vec::new();
    for candidate in of_role(report, Role::Candidate) {
        for baseline in of_role(report, Role::Baseline) {
            let n = series.iter().find(|s| s.0 == baseline.name).map_or(1, |s| s.1);
            let estimate = ratio(report, case, &baseline.name, &candidate.name, metric);
            let why = estimate.clone().err().unwrap_or_default();
            let pairs = ratios(case, &baseline.name, &candidate.name, metric);
            let slower = matches!(estimate, Ok(r) if r < 1.0);
            let mut of = column(n, pairs, &why, if slower { "slower" } else { "" });
            of.center = estimate.ok();
            columns.push(of);
        }
    }
    columns
}

fn metrics(report: &Report) -> Vec<&str> {
    report.declaration.metrics.iter().map(|m| m.name.as_str()).collect()
}

fn has(phase: &Phase, metric: &str) -> bool {
    phase.cases.iter().flat_map(|c| &c.trials).any(|t| t.values.contains_key(metric))
}

/// The chunks' times, then the held-out comparison, in panels of their own.
pub(super) fn chunked_prefill(report: &Report) -> Option<Chart> {
    let [tuning, held_out] = report.phases.as_slice() else { return None };
    let chosen = tuning.selection.as_ref().map(|s| s.case.as_str());
    let candidate = tuning.selection.as_ref().map(|s| s.arm.as_str());
    let groups = tuning.cases.iter().map(|case| DotGroup {
        label: format!("chunk {}", number(case, "chunk").unwrap_or(0)),
        columns: arms(report, case, "ttft", &|arm| {
            let selected = Some(case.name.as_str()) == chosen && Some(arm) == candidate;
            if selected { "selected".to_owned() } else { String::new() }
        }),
    });
    let lengths = |phase: &Phase| {
        let case = phase.cases.first();
        let of = |name| case.and_then(|c| number(c, name)).unwrap_or(0);
        format!(
            "{} tokens in, {} out, {} pairs",
            of("prompt_tokens"),
            of("output_tokens"),
            phase.pairs
        )
    };
    let mut first = dots(
        format!("Tuning: {}", lengths(tuning)),
        "time to the first token",
        Unit::Seconds,
        groups.collect(),
        Scale::FromZero,
    );
    first.remarks.push("Chooses the chunk; no evidence for the one that was chosen".to_owned());
    let case = held_out.cases.first()?;
    let after_first = number(case, "output_tokens")?.saturating_sub(1) as f64;
    let chunk = number(case, "chunk").unwrap_or(0);
    let held = |metric: &str| {
        let mut columns = arms(report, case, metric, &|_| String::new());
        let (unit, quantity) = if metric == "decode" {
            for column in &mut columns {
                if let Ok(all) = &mut column.observations {
                    for value in all.iter_mut() {
                        *value = after_first / *value;
                    }
                    column.center = crate::estimate::median(all);
                }
            }
            (Unit::TokensPerSecond, "rate after the first token")
        } else {
            (Unit::Seconds, in_words(metric))
        };
        let heading = match metric {
            "ttft" => "Held-out: first token",
            "decode" => "Held-out: decode",
            _ => "Held-out: whole generation",
        };
        let group = DotGroup { label: format!("chunk {chunk}"), columns };
        dots(heading.to_owned(), quantity, unit, vec![group], Scale::FromZero)
    };
    let shown: Vec<&str> =
        ["ttft", "decode", "total"].into_iter().filter(|m| has(held_out, m)).collect();
    let second: Vec<Panel> = shown.iter().map(|metric| held(metric)).collect();
    let groups = shown.iter().map(|metric| DotGroup {
        label: in_words(metric).to_owned(),
        columns: ratio_columns(report, case, metric),
    });
    let third = dots(
        format!("Held-out: paired speedups · {}", lengths(held_out)),
        "baseline / candidate",
        Unit::Ratio,
        groups.collect(),
        Scale::Around,
    );
    Some(Chart {
        name: "chunked-prefill",
        title: format!("A long document read in chunks and continued: {}", model(report)),
        facts: facts(&[report]),
        series: names(&series_of(report)),
        rows: vec![vec![first], second, vec![third]],
        key: vec![
            DOTS.to_owned(),
            "Speedups have the mark of the baseline; above 1.00× favours the candidate".to_owned(),
        ],
    })
}

fn model(report: &Report) -> String {
    let names = report.subject.checkpoints.iter().map(|c| {
        let synthetic = if c.synthetic { ", synthetic weights" } else { "" };
        format!("{} ({}{synthetic})", c.name, c.dtype)
    });
    names.collect::<Vec<_>>().join(", ")
}

fn label(case: &Case) -> String {
    if let Some(context) = number(case, "context") {
        return format!("after {context}");
    }
    match (number(case, "prompt_tokens"), number(case, "output_tokens")) {
        (Some(prompt), Some(output)) => format!("{prompt} in\n{output} out"),
        _ => case.name.clone(),
    }
}

fn ratio_panel(report: &Report, metric: &str) -> Panel {
    let cases = report.phases.iter().flat_map(|p| &p.cases);
    let groups = cases
        .map(|case| DotGroup { label: label(case), columns: ratio_columns(report, case, metric) });
    let heading = format!("Paired speedup: {}", in_words(metric));
    dots(heading, "baseline / candidate", Unit::Ratio, groups.collect(), Scale::Around)
}

fn time_panel(report: &Report, metric: &str, scale: Scale) -> Panel {
    let cases = report.phases.iter().flat_map(|p| &p.cases);
    let groups = cases.map(|case| DotGroup {
        label: label(case),
        columns: arms(report, case, metric, &|_| String::new()),
    });
    let heading = match metric {
        "time" => "Time".to_owned(),
        other => format!("Time: {}", in_words(other)),
    };
    dots(heading, in_words(metric), Unit::Seconds, groups.collect(), scale)
}

fn chart(report: &Report, name: &'static str, title: &str, rows: Vec<Vec<Panel>>) -> Chart {
    Chart {
        name,
        title: format!("{title}: {}", model(report)),
        facts: facts(&[report]),
        series: names(&series_of(report)),
        rows,
        key: vec![
            DOTS.to_owned(),
            "Speedups have the mark of the baseline; above 1.00× favours the candidate".to_owned(),
        ],
    }
}

/// Short generations, row by row: speedups in every metric, and the times.
pub(super) fn end_to_end(report: &Report) -> Chart {
    let metrics = metrics(report);
    let rows = vec![
        metrics.iter().map(|metric| ratio_panel(report, metric)).collect(),
        metrics.iter().map(|metric| time_panel(report, metric, Scale::FromZero)).collect(),
    ];
    chart(report, "end-to-end", "Short generations", rows)
}

/// One forward after a number of tokens: times on a logarithmic axis, and speedups.
pub(super) fn megakernel(report: &Report) -> Chart {
    let mut rows = Vec::new();
    for metric in metrics(report) {
        rows.push(vec![time_panel(report, metric, Scale::Log)]);
        rows.push(vec![ratio_panel(report, metric)]);
    }
    chart(report, "megakernel", "One forward at a fixed cache slot", rows)
}

/// Two requests under several policies: every metric in a panel of its own.
pub(super) fn interleaving(report: &Report) -> Chart {
    let cases = || report.phases.iter().flat_map(|p| &p.cases);
    let mut rows: Vec<Vec<Panel>> = Vec::new();
    for metric in metrics(report) {
        let groups = cases().map(|case| DotGroup {
            label: super::text(case, "policy").unwrap_or_else(|| case.name.clone()),
            columns: arms(report, case, metric, &|_| String::new()),
        });
        let words = metric.replace('_', " ");
        let panel = dots(words.clone(), &words, Unit::Seconds, groups.collect(), Scale::FromZero);
        match rows.last_mut() {
            Some(row) if row.len() < 2 => row.push(panel),
            _ => rows.push(vec![panel]),
        }
    }
    chart(report, "interleaving", "Two requests, by policy", rows)
}
