//! Layers and projections over rows or widths.

use super::figure::{Bar, BarGroup, Body, Chart, Facts, Line, LinePoint, Panel, Reference, Unit};

/// One point of a sweep, whatever schema it came from.
#[derive(Clone, Debug)]
pub(super) struct Point {
    /// Its series: points of different ones are never in one panel.
    pub series: String,
    /// Rows or width.
    pub x: f64,
    /// The estimate.
    pub ratio: Result<f64, String>,
    /// Paired ratios behind it, where they are saved.
    pub pairs: Vec<f64>,
    /// Part of the pairs that the candidate won.
    pub wins: Result<f64, String>,
    /// Weight bytes over median seconds: baseline, candidate.
    pub bandwidth: [Result<f64, String>; 2],
    /// A limitation of this point.
    pub note: String,
}

fn series(points: &[Point]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for point in points {
        if !names.contains(&point.series) {
            names.push(point.series.clone());
        }
    }
    names
}

fn of<'p>(points: &'p [Point], series: &str) -> Vec<&'p Point> {
    let mut chosen: Vec<&Point> = points.iter().filter(|p| p.series == series).collect();
    chosen.sort_by(|a, b| a.x.total_cmp(&b.x));
    chosen
}

fn notes(points: &[&Point]) -> Vec<String> {
    let mut notes: Vec<String> =
        points.iter().map(|p| p.note.clone()).filter(|n| !n.is_empty()).collect();
    notes.dedup();
    notes
}

fn line(
    points: &[&Point],
    series: usize,
    value: impl Fn(&Point) -> Result<f64, String>,
    dots: bool,
) -> Line {
    let points = points.iter().map(|p| LinePoint {
        x: p.x,
        value: value(p),
        observations: if dots { p.pairs.clone() } else { Vec::new() },
    });
    Line { series, points: points.collect() }
}

/// Ratios over `x`, a panel for each series, with the win rates below.
pub(super) fn ratios(
    name: &'static str,
    title: &str,
    x: &str,
    points: &[Point],
    facts: Facts,
) -> Chart {
    let mut rows = Vec::new();
    for series in series(points) {
        let chosen = of(points, &series);
        let ticks: Vec<f64> = chosen.iter().map(|p| p.x).collect();
        let panel = |heading: String, quantity: &str, unit, references, lines| Panel {
            heading,
            remarks: Vec::new(),
            quantity: quantity.to_owned(),
            unit,
            references,
            body: Body::Lines { x: x.to_owned(), ticks: ticks.clone(), lines },
        };
        let mut row = vec![panel(
            series.clone(),
            "speedup",
            Unit::Ratio,
            vec![Reference::equal()],
            vec![line(&chosen, 0, |p| p.ratio.clone(), true)],
        )];
        row[0].remarks = notes(&chosen);
        if chosen.iter().any(|p| p.wins.is_ok()) {
            row.push(panel(
                format!("{series}: rounds won"),
                "win rate",
                Unit::Share,
                vec![Reference { at: 0.5, label: "half".to_owned() }],
                vec![line(&chosen, 0, |p| p.wins.clone(), false)],
            ));
        }
        rows.push(row);
    }
    let mut key = vec![
        "Dashed: as fast as the baseline (or half of the rounds won). Hollow marks and bold figures: slower than the baseline".to_owned(),
    ];
    if points.iter().any(|p| !p.pairs.is_empty()) {
        key.push("Pale dots: the ratio of every pair".to_owned());
    }
    Chart {
        name,
        title: title.to_owned(),
        facts,
        series: vec!["candidate against baseline".to_owned()],
        rows,
        key,
    }
}

/// Weight bytes over median time, both arms, a panel for each series.
pub(super) fn bandwidth(x: &str, points: &[Point], arms: [String; 2], mut facts: Facts) -> Chart {
    let panels: Vec<Panel> = series(points)
        .into_iter()
        .map(|series| {
            let chosen = of(points, &series);
            Panel {
                heading: series,
                remarks: notes(&chosen),
                quantity: "weight bandwidth".to_owned(),
                unit: Unit::BytesPerSecond,
                references: Vec::new(),
                body: Body::Lines {
                    x: x.to_owned(),
                    ticks: chosen.iter().map(|p| p.x).collect(),
                    lines: vec![
                        line(&chosen, 1, |p| p.bandwidth[0].clone(), false),
                        line(&chosen, 0, |p| p.bandwidth[1].clone(), false),
                    ],
                },
            }
        })
        .collect();
    facts.estimator = "weight bytes over each arm's median time; no ratio".to_owned();
    facts.disclosures.push(
        "Effective weight bandwidth normalizes a time; it is neither measured memory traffic nor a limit of the hardware".to_owned(),
    );
    let [baseline, candidate] = arms;
    let mut rows: Vec<Vec<Panel>> = Vec::new();
    for panel in panels {
        match rows.last_mut() {
            Some(row) if row.len() < 3 => row.push(panel),
            _ => rows.push(vec![panel]),
        }
    }
    Chart {
        name: "weight-bandwidth",
        title: "Effective weight bandwidth".to_owned(),
        facts,
        series: vec![candidate, baseline],
        rows,
        key: Vec::new(),
    }
}

/// A name, the speedup or why there is none, and the paired ratios behind it.
pub(super) type Named = (String, Result<f64, String>, Vec<f64>);

/// A model's layers: speedups at several numbers of rows, and of the prompt's projections.
#[derive(Clone, Debug)]
pub(super) struct Layers {
    /// The model with its extents.
    pub model: String,
    /// Speedups of the block by rows.
    pub block: Vec<Named>,
    /// Speedups of the prompt's projections by name.
    pub prefill: Vec<Named>,
}

/// Layers of several models, two panels: the block at a few rows, and the prompt's projections.
pub(super) fn shapes(models: &[Layers], prompt_rows: u64, facts: Facts) -> Chart {
    let mut names = vec![String::new(); 6];
    let mut panel = |heading: String, numbers: [usize; 3], pick: &dyn Fn(&Layers) -> Vec<Named>| {
        let groups = models.iter().map(|model| BarGroup {
            label: model.model.clone(),
            bars: pick(model)
                .into_iter()
                .zip(numbers)
                .map(|((name, value, observations), series)| {
                    if !names[series].split(" / ").any(|known| known == name) {
                        if !names[series].is_empty() {
                            names[series].push_str(" / ");
                        }
                        names[series].push_str(&name);
                    }
                    Bar { series, value, observations, interval: None, note: String::new() }
                })
                .collect(),
        });
        Panel {
            heading,
            remarks: Vec::new(),
            quantity: "speedup".to_owned(),
            unit: Unit::Ratio,
            references: vec![Reference::equal()],
            body: Body::Bars(groups.collect()),
        }
    };
    let first = panel("MLP block at 1, 8 and 16 rows".to_owned(), [0, 2, 3], &|m| m.block.clone());
    let second = panel(format!("Projections of a prompt of {prompt_rows} rows"), [4, 5, 1], &|m| {
        m.prefill.clone()
    });
    Chart {
        name: "model-shapes",
        title: "Layers of several models".to_owned(),
        facts,
        series: names,
        rows: vec![vec![first], vec![second]],
        key: vec!["Above 1.00× favours the candidate".to_owned()],
    }
}
