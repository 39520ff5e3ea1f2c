//! The project's own reports as tables.

use super::{Page, Table};
use crate::charts::{ratio, significant};
use crate::schema::{Report, Role};

pub(super) fn page(report: &Report) -> Page {
    let d = &report.declaration;
    let arms = |role: Role| {
        let of = report.arms.iter().filter(|arm| arm.role == role);
        of.map(|arm| format!("{} (gate {:?})", arm.name, arm.gate)).collect::<Vec<_>>().join(", ")
    };
    let fact = |name: &str, value: String| (name.to_owned(), value);
    let mut page = Page {
        title: format!("{}: {}", d.name, d.title),
        facts: vec![
            fact("status", format!("{:?}", report.status).to_lowercase()),
            fact("device", format!("{}, {}", report.device, report.environment.hardware)),
            fact("recorded", report.created.clone()),
            fact("baseline", arms(Role::Baseline)),
            fact("candidate", arms(Role::Candidate)),
            fact("compared", format!("{:?}", d.comparison)),
            fact("estimator", format!("{:?}", d.estimator)),
            fact("workload", d.workload.clone()),
            fact("boundary", format!("{} … {}", d.boundary.starts, d.boundary.ends)),
        ],
        tables: Vec::new(),
        notes: d.disclosures.clone(),
    };
    if let Some(failure) = &report.failure {
        page.facts.push(fact("failure", format!("{}: {}", failure.rule, failure.message)));
        page.facts
            .push(fact("discarded", format!("timings of {} trials", failure.discarded_trials)));
    }
    if let Some(met) = report.verdict.met {
        let against = report.verdict.against.join("; ");
        page.facts.push(fact(
            "held to",
            if met { "met".to_owned() } else { format!("NOT met: {against}") },
        ));
    }
    for phase in &report.phases {
        page.tables.push(medians(phase));
        page.tables.push(ratios(phase));
    }
    page.tables.retain(|table| !table.rows.is_empty());
    for unpaired in &report.subject.unpaired {
        let value = unpaired.value.value.map_or("none".to_owned(), |v| significant(v, 4));
        page.notes.push(format!("unpaired: {}: {value} {}", unpaired.label, unpaired.unit));
    }
    page
}

fn medians(phase: &crate::schema::Phase) -> Table {
    let heading = format!("{} ({:?}): medians", phase.name, phase.scope);
    let mut table = Table::new(heading, &["case", "arm", "metric", "n", "median"]);
    for case in &phase.cases {
        for m in &case.medians {
            let value = match (m.value.value, &m.value.reason) {
                (Some(value), _) => format!("{} ms", significant(value * 1e3, 4)),
                (None, reason) => format!("none: {}", reason.as_deref().unwrap_or("")),
            };
            table.rows.push(vec![
                case.name.clone(),
                m.arm.clone(),
                m.metric.clone(),
                m.samples.to_string(),
                value,
            ]);
        }
    }
    table
}

fn ratios(phase: &crate::schema::Phase) -> Table {
    let chosen =
        phase.selection.as_ref().map(|s| format!("; chosen: {}", s.case)).unwrap_or_default();
    let heading = format!(
        "{} ({:?}): ratios; above 1 favours the candidate{chosen}",
        phase.name, phase.scope
    );
    let mut table = Table::new(
        heading,
        &["case", "baseline / candidate", "metric", "pairs", "ratio", "interval", "won"],
    );
    for case in &phase.cases {
        for s in &case.summaries {
            let won = s.win_rate.value.map_or("-".to_owned(), |w| format!("{:.0} %", w * 100.0));
            let interval = s
                .interval
                .as_ref()
                .map_or("-".to_owned(), |i| format!("{} to {}", ratio(i.low), ratio(i.high)));
            let value = match (s.ratio.value, &s.ratio.reason) {
                (Some(value), _) if value < 1.0 => format!("{} slower", ratio(value)),
                (Some(value), _) => ratio(value),
                (None, reason) => format!("none: {}", reason.as_deref().unwrap_or("")),
            };
            table.rows.push(vec![
                case.name.clone(),
                format!("{} / {}", s.baseline, s.candidate),
                s.metric.clone(),
                s.pairs.to_string(),
                value,
                interval,
                won,
            ]);
        }
    }
    table
}
