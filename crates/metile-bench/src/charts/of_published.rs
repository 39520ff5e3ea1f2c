//! The published reports as charts.

use super::ChartKind;
use super::figure::{Bar, BarGroup, Body, Chart, Facts, Panel, Unit};
use super::models::{self, Key, Kind, ModelRow, Speedup};
use super::sweeps::{self, Layers, Point};
use crate::published::{
    Bits, Hardware, Matrix, Mode, ModelRun, ModelShapes, Primitive, Published, SPEEDUPS, Sample,
    ShapeSensitivity, Software,
};

const PUBLISHED: &str =
    "Published by metile's predecessor of its own system; read here, not run again";
const SUMMARY: &str =
    "Summary values only: the report has no raw samples, so there is no distribution to show";

/// Charts that a report has something for, the chief one first.
pub(super) fn kinds(report: &Published) -> &'static [ChartKind] {
    match report {
        Published::Models(_) => {
            &[ChartKind::ModelThroughput, ChartKind::ModelLatency, ChartKind::TrialDistributions]
        }
        Published::Matrix(_) => &[ChartKind::MatchedMatrix],
        Published::Shapes(_) => &[ChartKind::ModelShapes],
        Published::Sensitivity(_) => &[ChartKind::ShapeSensitivity, ChartKind::WeightBandwidth],
        Published::Primitive(_) => &[ChartKind::Layer],
    }
}

fn device(hardware: Option<&Hardware>) -> String {
    hardware.map_or("not recorded in this report".to_owned(), |h| {
        format!("{}, {} ({})", h.chip, h.memory, h.model_name)
    })
}

fn baseline(software: Option<&Software>) -> String {
    software.map_or("MLX (version not recorded in this report)".to_owned(), |s| {
        format!("MLX {}, MLX-LM {}, Python {}", s.mlx, s.mlx_lm, s.python)
    })
}

fn day(recorded: &str) -> String {
    match recorded.get(..10) {
        Some(day) => day.to_owned(),
        None => "not recorded in this report".to_owned(),
    }
}

fn listed(mut values: Vec<String>) -> String {
    values.sort_unstable();
    values.dedup();
    values.join("; ")
}

fn facts(reports: &[&Published], n: &str, estimator: &str, gate: &str, compared: &str) -> Facts {
    Facts {
        device: listed(reports.iter().map(|r| device(r.hardware())).collect()),
        date: listed(reports.iter().map(|r| day(r.recorded())).collect()),
        baseline: listed(reports.iter().map(|r| baseline(r.software())).collect()),
        n: n.to_owned(),
        estimator: estimator.to_owned(),
        gate: gate.to_owned(),
        comparison: compared.to_owned(),
        disclosures: vec![PUBLISHED.to_owned()],
    }
}

/// The chart of `kind` of these reports; `None` if they have nothing for it.
pub(super) fn chart(kind: ChartKind, reports: &[&Published], include_mixed: bool) -> Option<Chart> {
    let fitting: Vec<&Published> =
        reports.iter().copied().filter(|r| kinds(r).contains(&kind)).collect();
    match kind {
        ChartKind::ModelThroughput | ChartKind::ModelLatency | ChartKind::TrialDistributions => {
            model_chart(kind, &fitting, include_mixed)
        }
        ChartKind::Layer => primitives(&fitting),
        _ => fitting.iter().find_map(|report| match report {
            Published::Matrix(x) => Some(matrix(x, report)),
            Published::Shapes(x) => Some(shapes(x, report)),
            Published::Sensitivity(x) if kind == ChartKind::ShapeSensitivity => {
                Some(widths(x, report))
            }
            Published::Sensitivity(x) => Some(bandwidth(x, report)),
            _ => None,
        }),
    }
}

fn model_chart(kind: ChartKind, reports: &[&Published], include_mixed: bool) -> Option<Chart> {
    let runs: Vec<&ModelRun> = reports
        .iter()
        .flat_map(|r| match r {
            Published::Models(suite) => suite.models.iter().collect(),
            _ => Vec::new(),
        })
        .collect();
    if runs.is_empty() {
        return None;
    }
    let rows: Vec<ModelRow> = runs.iter().map(|run| row(run)).collect();
    let mut counts: Vec<u64> = runs.iter().map(|run| run.workload.trials).collect();
    counts.sort_unstable();
    counts.dedup();
    let counts: Vec<String> = counts.iter().map(u64::to_string).collect();
    let mut facts = facts(
        reports,
        &format!("{} trials an arm, by model", counts.join(" or ")),
        "median of the paired per-trial ratios",
        "next token, KL divergence and logit errors of the first output; tokens of the timed runs are not recorded",
        "as each panel says",
    );
    facts.disclosures.extend([
        "Output tokens are the configured limit; how many came is not recorded, nor that both arms wrote the same".to_owned(),
        "The trials of a model are one session: they say nothing of other prompts, seeds, devices or sessions".to_owned(),
    ]);
    Some(match kind {
        ChartKind::ModelThroughput => {
            models::speedups(&rows, Kind::Throughput, include_mixed, facts)
        }
        ChartKind::ModelLatency => models::speedups(&rows, Kind::Latency, include_mixed, facts),
        _ => {
            facts.estimator = "median of each arm's trials".to_owned();
            let arms = ["MLX".to_owned(), "MLX + predecessor's kernels".to_owned()];
            models::distributions(&rows, arms, facts)
        }
    })
}

fn row(run: &ModelRun) -> ModelRow {
    let of = |samples: &[Sample], name: &str| -> Vec<f64> {
        samples.iter().filter_map(|s| s.get(name)).collect()
    };
    let speedup = |which: usize| {
        let (_, name, more_is_better) = SPEEDUPS[which];
        let pairs: Vec<f64> = of(&run.samples.mlx, name)
            .into_iter()
            .zip(of(&run.samples.metile, name))
            .map(|(base, ours)| if more_is_better { ours / base } else { base / ours })
            .collect();
        let value = crate::estimate::median(&pairs).ok_or_else(|| "no trials".to_owned());
        Speedup { value, pairs }
    };
    let mixed = !run.precision_comparison.same_weight_representation;
    let ttft = "time_to_first_token_seconds";
    ModelRow {
        key: Key {
            mixed,
            compared: if mixed {
                "COMPRESSION, affine INT8 weights in decode against the model's own".to_owned()
            } else {
                "the same weights in the same format".to_owned()
            },
            precision: if run.is_4_bit() { "4-bit models" } else { "BF16 models" }.to_owned(),
            prompt: run.workload.prompt_tokens,
            output: run.workload.generation_tokens,
            session: String::new(),
        },
        model: run.short_name().to_owned(),
        shared: run.comparison_mode == Mode::SharedNativeFallback,
        four_bits: run.is_4_bit(),
        decode: speedup(0),
        prefill: speedup(1),
        ttft: speedup(2),
        total: speedup(3),
        ttft_seconds: [of(&run.samples.mlx, ttft), of(&run.samples.metile, ttft)],
    }
}

fn matched(report: &Published, n: &str, estimator: &str) -> Facts {
    let mut facts = facts(
        &[report],
        n,
        estimator,
        "not recorded in this report",
        "the same weights in the same format",
    );
    facts.disclosures.push(SUMMARY.to_owned());
    facts
}

fn matrix(matrix: &Matrix, report: &Published) -> Chart {
    let missing = || Err("not of this study".to_owned());
    let points: Vec<Point> = Bits::ALL
        .iter()
        .flat_map(|format| matrix.measurements.iter().filter(move |m| m.format == *format))
        .map(|m| Point {
            series: m.format.name().to_owned(),
            x: m.rows as f64,
            ratio: Ok(m.speedup),
            pairs: Vec::new(),
            wins: Ok(m.win_rate),
            bandwidth: [missing(), missing()],
            note: m.note.clone(),
        })
        .collect();
    let (hidden, inner) = (matrix.shape.hidden, matrix.shape.intermediate);
    sweeps::ratios(
        "matched-matrix",
        &format!("Residual SwiGLU MLP, {hidden} → {inner} → {hidden}, by rows"),
        "rows",
        &points,
        matched(
            report,
            &format!("{} paired rounds a point", matrix.rounds),
            "median of the paired per-round ratios",
        ),
    )
}

fn shapes(shapes: &ModelShapes, report: &Published) -> Chart {
    let layers: Vec<Layers> = shapes
        .models
        .iter()
        .map(|m| {
            let mut block: Vec<(u64, f64)> = m
                .block_speedup
                .iter()
                .filter_map(|(rows, value)| Some((rows.parse().ok()?, *value)))
                .collect();
            block.sort_by_key(|b| b.0);
            let plural =
                |rows: u64| if rows == 1 { "1 row".to_owned() } else { format!("{rows} rows") };
            Layers {
                model: format!("{}\n{} × {}", m.model, m.hidden, m.intermediate),
                block: block
                    .into_iter()
                    .map(|(rows, v)| (plural(rows), Ok(v), Vec::new()))
                    .collect(),
                prefill: vec![
                    ("down projection".to_owned(), Ok(m.prefill_down_speedup), Vec::new()),
                    ("up projection".to_owned(), Ok(m.prefill_up_speedup), Vec::new()),
                ],
            }
        })
        .collect();
    let mut facts = matched(
        report,
        &format!("{} paired rounds a bar", shapes.rounds),
        "median of the paired per-round ratios",
    );
    facts.disclosures.push(format!(
        "Layers alone, not whole models. Projections narrower than {} are slow in the baseline",
        shapes.cliff
    ));
    sweeps::shapes(&layers, shapes.prompt_rows, facts)
}

fn widths(sensitivity: &ShapeSensitivity, report: &Published) -> Chart {
    let missing = || Err("not of this study".to_owned());
    let points: Vec<Point> = sensitivity
        .width_sweep
        .iter()
        .map(|w| Point {
            series: format!(
                "INT4, group 64: [{}, {}] × [N, {}]ᵀ",
                sensitivity.prefill_rows, sensitivity.reduction, sensitivity.reduction
            )
            .replace('ᵀ', " transposed"),
            x: w.output_features as f64,
            ratio: Ok(w.speedup),
            pairs: Vec::new(),
            wins: missing(),
            bandwidth: [missing(), missing()],
            note: String::new(),
        })
        .collect();
    sweeps::ratios(
        "shape-sensitivity",
        "Projection by width",
        "width N",
        &points,
        matched(
            report,
            &format!("{} paired rounds a point", sensitivity.rounds),
            "ratio of the backends' medians",
        ),
    )
}

fn bandwidth(sensitivity: &ShapeSensitivity, report: &Published) -> Chart {
    let points: Vec<Point> = Bits::ALL
        .iter()
        .flat_map(|format| sensitivity.batch_sweep.iter().filter(move |p| p.format == *format))
        .map(|p| {
            let rate = |seconds: f64| Ok(p.weight_bytes as f64 / seconds);
            Point {
                series: p.format.name().to_owned(),
                x: p.rows as f64,
                ratio: Err("not of this study".to_owned()),
                pairs: Vec::new(),
                wins: Err("not of this study".to_owned()),
                bandwidth: [rate(p.mlx_seconds), rate(p.metile_seconds)],
                note: String::new(),
            }
        })
        .collect();
    let n = format!("{} paired rounds a point", sensitivity.rounds);
    let arms = ["MLX".to_owned(), "predecessor".to_owned()];
    let mut facts = matched(report, &n, "");
    facts.disclosures.push("Bytes of group scales are not counted".to_owned());
    sweeps::bandwidth("rows", &points, arms, facts)
}

fn primitives(reports: &[&Published]) -> Option<Chart> {
    let all: Vec<&Primitive> = reports
        .iter()
        .filter_map(|r| match r {
            Published::Primitive(p) => Some(p),
            _ => None,
        })
        .collect();
    let rows: Vec<Vec<Panel>> = all
        .iter()
        .map(|p| {
            let bar = |series, seconds| Bar {
                series,
                value: Ok(seconds),
                observations: Vec::new(),
                interval: None,
                note: String::new(),
            };
            let model = p.model.rsplit('/').next().unwrap_or(&p.model);
            let (rows, columns) = (p.shape.input_features, p.shape.output_features);
            let ratio = super::axis::ratio(p.timings.speedup);
            vec![Panel {
                heading: format!(
                    "{model}: SwiGLU of one layer, {rows} → {columns}, {} row",
                    p.shape.rows
                ),
                remarks: vec![
                    format!("{} on both sides · speedup {ratio}", p.precision_comparison.class),
                    match (p.fidelity.bitwise_exact, p.fidelity.max_absolute_error) {
                        (Some(true), _) => "outputs are the same bits".to_owned(),
                        (_, Some(error)) => format!("largest absolute error {error}"),
                        _ => "errors are not recorded".to_owned(),
                    },
                ],
                quantity: "time".to_owned(),
                unit: Unit::Seconds,
                references: Vec::new(),
                body: Body::Bars(vec![BarGroup {
                    label: String::new(),
                    bars: vec![bar(1, p.timings.mlx_seconds), bar(0, p.timings.metile_seconds)],
                }]),
            }]
        })
        .collect();
    if rows.is_empty() {
        return None;
    }
    let mut facts = facts(
        reports,
        "not recorded in these reports",
        "ratio of the two stored times",
        "outputs, as each panel says",
        "the same weights in the same format",
    );
    facts.disclosures.push(SUMMARY.to_owned());
    facts.disclosures.push("One operation alone, not a model".to_owned());
    Some(Chart {
        name: "layer",
        title: "One layer alone".to_owned(),
        facts,
        series: vec!["predecessor".to_owned(), "MLX".to_owned()],
        rows,
        key: Vec::new(),
    })
}
