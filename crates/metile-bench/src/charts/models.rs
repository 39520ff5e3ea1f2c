//! Whole models: speedups in throughput and latency, and the trials' distributions.

use super::figure::{
    Bar, BarGroup, Body, Chart, DotColumn, DotGroup, Facts, Panel, Reference, Scale, Unit,
};

/// One model's run in one workload, whatever schema it came from.
#[derive(Clone, Debug)]
pub(super) struct ModelRow {
    /// What sets a panel apart. Rows of different keys are never in one panel.
    pub key: Key,
    /// The model.
    pub model: String,
    /// One series stands for both arms.
    pub shared: bool,
    /// Weights of 4 bits.
    pub four_bits: bool,
    /// Speedups: value and the paired ratios behind it.
    pub decode: Speedup,
    /// The same of reading the prompt.
    pub prefill: Speedup,
    /// The same of the time to the first token.
    pub ttft: Speedup,
    /// The same of the whole call.
    pub total: Speedup,
    /// Seconds to the first token: baseline, candidate.
    pub ttft_seconds: [Vec<f64>; 2],
}

/// A speedup, or why there is none.
#[derive(Clone, Debug)]
pub(super) struct Speedup {
    pub value: Result<f64, String>,
    pub pairs: Vec<f64>,
}

/// What is compared, and at which lengths.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// Other weights on the two sides.
    pub mixed: bool,
    /// What is compared, in words.
    pub compared: String,
    /// Type or format of the weights.
    pub precision: String,
    /// Prompt tokens.
    pub prompt: u64,
    /// Output tokens.
    pub output: u64,
    /// Device and date, where several reports are drawn together.
    pub session: String,
}

impl Key {
    fn heading(&self) -> String {
        let session =
            if self.session.is_empty() { String::new() } else { format!(" · {}", self.session) };
        format!(
            "{}: {} · prompt {}, output {} tokens{session}",
            self.precision, self.compared, self.prompt, self.output
        )
    }
}

/// Which of two charts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Throughput,
    Latency,
}

/// Speedups as bars. Compression stays out unless `include_mixed`, or there is nothing else.
pub(super) fn speedups(
    rows: &[ModelRow],
    kind: Kind,
    include_mixed: bool,
    mut facts: Facts,
) -> Chart {
    let only_mixed = rows.iter().all(|row| row.key.mixed);
    let shown: Vec<&ModelRow> =
        rows.iter().filter(|row| include_mixed || only_mixed || !row.key.mixed).collect();
    let left_out = rows.len() - shown.len();
    if left_out > 0 {
        facts.disclosures.push(format!(
            "{left_out} comparisons of compressed weights are not on this chart; --include-mixed adds them as panels of their own"
        ));
    }
    let mut keys: Vec<&Key> = shown.iter().map(|row| &row.key).collect();
    keys.sort_unstable();
    keys.dedup();
    let (name, title, series): (_, _, [&str; 2]) = match kind {
        Kind::Throughput => (
            "model-throughput",
            "Throughput beside the baseline, model by model",
            ["decode, tokens/s after the first token", "prefill, prompt tokens/s"],
        ),
        Kind::Latency => (
            "model-latency",
            "Latency beside the baseline, model by model",
            ["time to the first token", "whole generation"],
        ),
    };
    let panels = keys.into_iter().map(|key| {
        let groups = shown.iter().filter(|row| row.key == *key).map(|row| {
            let two = match kind {
                Kind::Throughput => [&row.decode, &row.prefill],
                Kind::Latency => [&row.ttft, &row.total],
            };
            let bars = two.into_iter().zip([0, 2]).map(|(speedup, series)| Bar {
                series,
                value: if row.shared {
                    Err("one native series for both arms: nothing was compared".to_owned())
                } else {
                    speedup.value.clone()
                },
                observations: if row.shared { Vec::new() } else { speedup.pairs.clone() },
                interval: None,
                note: String::new(),
            });
            BarGroup { label: row.model.clone(), bars: bars.collect() }
        });
        vec![Panel {
            heading: key.heading(),
            remarks: Vec::new(),
            quantity: "speedup".to_owned(),
            unit: Unit::Ratio,
            references: vec![Reference::equal()],
            body: Body::Bars(groups.collect()),
        }]
    });
    Chart {
        name,
        title: title.to_owned(),
        rows: panels.collect(),
        facts,
        series: vec![series[0].to_owned(), String::new(), series[1].to_owned()],
        key: vec![
            "Bar and upright mark: the estimate. Dots: the ratio of every pair. Above 1.00× favours the candidate".to_owned(),
        ],
    }
}

/// Times to the first token, every trial a dot. Outlines are drawn for models of 4 bits alone.
pub(super) fn distributions(rows: &[ModelRow], arms: [String; 2], facts: Facts) -> Chart {
    let four: Vec<&ModelRow> = rows.iter().filter(|row| row.four_bits && !row.key.mixed).collect();
    let shown = if four.is_empty() { rows.iter().collect() } else { four };
    let mut keys: Vec<&Key> = shown.iter().map(|row| &row.key).collect();
    keys.sort_unstable();
    keys.dedup();
    let mut key = vec![
        "Dots: every observation. Rule: the median, whose figure is under the axis".to_owned(),
    ];
    let mut rows = Vec::new();
    for of in keys {
        let groups: Vec<DotGroup> = shown
            .iter()
            .filter(|row| row.key == *of)
            .map(|row| {
                let column = |series: usize, seconds: &[f64], note: &str| DotColumn {
                    series,
                    observations: if seconds.is_empty() {
                        Err("not measured".to_owned())
                    } else {
                        Ok(seconds.to_vec())
                    },
                    center: crate::estimate::median(seconds),
                    outline: row.four_bits,
                    note: note.to_owned(),
                };
                let [baseline, candidate] = &row.ttft_seconds;
                let columns = if row.shared {
                    vec![column(1, baseline, "shared series")]
                } else {
                    vec![column(1, baseline, ""), column(0, candidate, "")]
                };
                DotGroup { label: row.model.clone(), columns }
            })
            .collect();
        if groups.iter().flat_map(|g| &g.columns).any(|c| c.outline) {
            let words = "Outline: density within the observed range, a visual summary and no interval; small or constant sets have none";
            if !key.iter().any(|k| k == words) {
                key.push(words.to_owned());
            }
        }
        // An axis for each model: models are not compared with each other.
        for part in groups.chunks(4) {
            let panels = part.iter().map(|group| Panel {
                heading: group.label.clone(),
                remarks: vec![of.heading()],
                quantity: "time to the first token".to_owned(),
                unit: Unit::Seconds,
                references: Vec::new(),
                body: Body::Dots {
                    groups: vec![DotGroup { label: String::new(), columns: group.columns.clone() }],
                    scale: Scale::Around,
                },
            });
            rows.push(panels.collect());
        }
    }
    let [baseline, candidate] = arms;
    Chart {
        name: "trial-distributions",
        title: "Time to the first token, every trial".to_owned(),
        facts,
        series: vec![candidate, baseline],
        rows,
        key,
    }
}
