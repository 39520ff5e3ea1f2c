//! The project's own reports as charts. All figures are computed from the trials, not read from summaries.

mod generation;
mod kernels;

use super::ChartKind;
use super::figure::{Chart, DotColumn, Facts};
use super::models::{self, Key, Kind, ModelRow, Speedup};
use crate::estimate;
use crate::schema::{Arm, Case, Comparison, Estimator, GateClass, Report, Role, Status, Summary};

/// Charts that a report has something for, the chief one first. A failed one has none.
pub(super) fn kinds(report: &Report) -> Vec<ChartKind> {
    if report.status != Status::Complete {
        return Vec::new();
    }
    let weights =
        report.phases.iter().flat_map(|p| &p.cases).any(|c| c.work.weight_bytes.is_some());
    let mut kinds = match report.declaration.name.as_str() {
        "qwen3-chunked-prefill" => vec![ChartKind::ChunkedPrefill],
        "qwen3-end-to-end" => vec![ChartKind::EndToEnd],
        "qwen3-megakernel" => vec![ChartKind::Megakernel],
        "qwen3-interleaving" => vec![ChartKind::Interleaving],
        "model-suite" | "compression" => {
            vec![ChartKind::ModelThroughput, ChartKind::ModelLatency, ChartKind::TrialDistributions]
        }
        "matched-matrix" => vec![ChartKind::MatchedMatrix, ChartKind::CompilerResults],
        "projection-width" => vec![ChartKind::ShapeSensitivity, ChartKind::CompilerResults],
        "model-shapes" => vec![ChartKind::ModelShapes],
        _ => vec![ChartKind::CompilerResults],
    };
    if weights {
        kinds.push(ChartKind::WeightBandwidth);
    }
    kinds
}

/// The chart of `kind` of these reports; `None` if they have nothing for it.
pub(super) fn chart(kind: ChartKind, reports: &[&Report], include_mixed: bool) -> Option<Chart> {
    let first = *reports.first()?;
    Some(match kind {
        ChartKind::ModelThroughput | ChartKind::ModelLatency | ChartKind::TrialDistributions => {
            model_chart(kind, reports, include_mixed)?
        }
        ChartKind::ChunkedPrefill => generation::chunked_prefill(first)?,
        ChartKind::EndToEnd => generation::end_to_end(first),
        ChartKind::Megakernel => generation::megakernel(first),
        ChartKind::Interleaving => generation::interleaving(first),
        ChartKind::MatchedMatrix => kernels::sweep(first, "matched-matrix", &["rows"])?,
        ChartKind::ShapeSensitivity => {
            kernels::sweep(first, "shape-sensitivity", &["n", "output_features", "width"])?
        }
        ChartKind::WeightBandwidth => kernels::bandwidth(first)?,
        ChartKind::ModelShapes => kernels::results("model-shapes", reports),
        ChartKind::CompilerResults => kernels::results("compiler-results", reports),
        ChartKind::Layer => return None,
    })
}

fn estimator(report: &Report) -> String {
    match report.declaration.estimator {
        Estimator::MedianOfPairedRatios => "median of the paired ratios, on logarithms",
        Estimator::RatioOfMedians => "ratio of the arms' medians over the same pairs",
    }
    .to_owned()
}

fn class(gate: GateClass) -> &'static str {
    match gate {
        GateClass::State => "state (K/V, logits, tokens)",
        GateClass::Outputs => "outputs (every element)",
        GateClass::Tokens => "tokens",
        GateClass::None => "none",
    }
}

fn comparison(report: &Report) -> &'static str {
    match report.declaration.comparison {
        Comparison::SameWeightsAndFormat => "the same weights in the same format",
        Comparison::LosslessWeightStorage => {
            "lossless_weight_storage: the same values, stored in another form"
        }
        Comparison::Compression => "COMPRESSION: other values that take less room",
    }
}

fn of_role(report: &Report, role: Role) -> Vec<&Arm> {
    report.arms.iter().filter(|arm| arm.role == role).collect()
}

fn described(arm: &Arm) -> String {
    let versions: Vec<String> =
        arm.versions.iter().map(|(name, v)| format!("{name} {v}")).collect();
    let threads = arm.threads.map_or(String::new(), |n| format!(", {n} threads"));
    if versions.is_empty() {
        format!("{}{threads}", arm.name)
    } else {
        format!("{} ({}{threads})", arm.name, versions.join(", "))
    }
}

fn facts(reports: &[&Report]) -> Facts {
    let listed = |mut all: Vec<String>| {
        let mut seen = Vec::new();
        all.retain(|one| {
            let new = !seen.contains(one);
            if new {
                seen.push(one.clone());
            }
            new
        });
        all.join("; ")
    };
    let each = |text: &dyn Fn(&Report) -> Vec<String>| {
        listed(reports.iter().flat_map(|report| text(report)).collect())
    };
    let gates = |report: &Report| {
        let arms = report.arms.iter().filter(|arm| arm.role == Role::Baseline);
        arms.map(|arm| format!("{} {}", arm.name, class(arm.gate))).collect::<Vec<_>>()
    };
    let mut disclosures: Vec<String> = Vec::new();
    for report in reports {
        for said in &report.declaration.disclosures {
            if !disclosures.contains(said) {
                disclosures.push(said.clone());
            }
        }
        if let Some(met) = report.verdict.met {
            disclosures.push(match met {
                true => "What the study is held to was met".to_owned(),
                false => format!(
                    "What the study is held to was NOT met: {}",
                    report.verdict.against.join("; ")
                ),
            });
        }
        for unpaired in &report.subject.unpaired {
            if let Some(value) = unpaired.value.value {
                let shown = super::significant(value, 4);
                disclosures.push(format!(
                    "Beside the pairs, unpaired: {}: {shown} {}",
                    unpaired.label, unpaired.unit
                ));
            }
        }
    }
    Facts {
        device: each(&|r| {
            vec![format!(
                "{}: {}, {} threads, {}",
                r.device, r.environment.hardware, r.environment.threads, r.environment.simd
            )]
        }),
        date: each(&|r| vec![r.created.chars().take(10).collect()]),
        baseline: each(&|r| of_role(r, Role::Baseline).into_iter().map(described).collect()),
        n: each(&|r| {
            let phases = r.phases.iter().map(|p| match r.phases.len() {
                1 => format!("{} pairs a case", p.pairs),
                _ => format!("{}: {} pairs a case", p.name, p.pairs),
            });
            phases.collect()
        }),
        estimator: each(&|r| vec![estimator(r)]),
        gate: each(&gates),
        comparison: each(&|r| vec![comparison(r).to_owned()]),
        disclosures,
    }
}

/// Seconds of an arm, pair by pair.
fn seconds(case: &Case, arm: &str, metric: &str) -> Vec<f64> {
    estimate::samples(case, arm, metric).map(|s| s.into_values().collect()).unwrap_or_default()
}

/// Ratios of baseline over candidate, pair by pair.
fn ratios(case: &Case, baseline: &str, candidate: &str, metric: &str) -> Vec<f64> {
    estimate::pairs(case, baseline, candidate, metric)
        .map(|pairs| pairs.into_iter().map(|(b, c)| b / c).collect())
        .unwrap_or_default()
}

/// The summary of two arms in a metric, computed from the trials.
fn summary(
    report: &Report,
    case: &Case,
    baseline: &str,
    candidate: &str,
    metric: &str,
) -> Option<Summary> {
    let all =
        estimate::summaries(case, &report.arms, report.declaration.estimator, report.seed).ok()?;
    all.into_iter()
        .find(|s| s.baseline == baseline && s.candidate == candidate && s.metric == metric)
}

/// The ratio, or why there is none.
fn ratio(
    report: &Report,
    case: &Case,
    baseline: &str,
    candidate: &str,
    metric: &str,
) -> Result<f64, String> {
    if let Some(absent) = case.absent.iter().find(|a| a.arm == baseline || a.arm == candidate) {
        return Err(format!("{}: {}", absent.arm, absent.reason));
    }
    let figure = summary(report, case, baseline, candidate, metric).map(|s| s.ratio);
    match figure {
        Some(figure) => figure.value.ok_or_else(|| figure.reason.unwrap_or_default()),
        None => Err(format!("no `{metric}` of both")),
    }
}

/// Numbers of series by arm: candidates have 0, then 2, …; the first baseline 1.
fn series_of(report: &Report) -> Vec<(String, usize)> {
    let candidates = of_role(report, Role::Candidate).into_iter().zip([0, 4, 5]);
    let baselines = of_role(report, Role::Baseline).into_iter().zip([1, 2, 3]);
    candidates.chain(baselines).map(|(arm, n)| (arm.name.clone(), n)).collect()
}

/// The names for a legend.
fn names(series: &[(String, usize)]) -> Vec<String> {
    let count = series.iter().map(|s| s.1 + 1).max().unwrap_or(0);
    let mut names = vec![String::new(); count];
    for (name, n) in series {
        names[*n].clone_from(name);
    }
    names
}

/// A column of an arm's observations.
fn column(series: usize, observations: Vec<f64>, why: &str, note: &str) -> DotColumn {
    DotColumn {
        series,
        center: estimate::median(&observations),
        observations: if observations.is_empty() { Err(why.to_owned()) } else { Ok(observations) },
        outline: false,
        note: note.to_owned(),
    }
}

fn text(case: &Case, name: &str) -> Option<String> {
    case.parameters.get(name).and_then(|v| v.as_str()).map(str::to_owned)
}

fn number(case: &Case, name: &str) -> Option<u64> {
    case.parameters.get(name).and_then(serde_json::Value::as_u64)
}

fn model_chart(kind: ChartKind, reports: &[&Report], include_mixed: bool) -> Option<Chart> {
    let mut rows = Vec::new();
    let mut arms = [Vec::new(), Vec::new()];
    for report in reports {
        for case in report.phases.iter().flat_map(|p| &p.cases) {
            for baseline in of_role(report, Role::Baseline) {
                for candidate in of_role(report, Role::Candidate) {
                    arms[0].push(baseline.name.clone());
                    arms[1].push(candidate.name.clone());
                    rows.push(row(report, case, baseline, candidate, reports.len() > 1));
                }
            }
        }
    }
    if rows.is_empty() {
        return None;
    }
    let mut facts = facts(reports);
    Some(match kind {
        ChartKind::ModelThroughput => {
            models::speedups(&rows, Kind::Throughput, include_mixed, facts)
        }
        ChartKind::ModelLatency => models::speedups(&rows, Kind::Latency, include_mixed, facts),
        _ => {
            facts.estimator = "median of each arm's trials".to_owned();
            let arms = arms.map(|mut names| {
                names.sort_unstable();
                names.dedup();
                names.join(", ")
            });
            models::distributions(&rows, arms, facts)
        }
    })
}

fn row(report: &Report, case: &Case, baseline: &Arm, candidate: &Arm, several: bool) -> ModelRow {
    let checkpoint = report.subject.checkpoints.first();
    let model =
        text(case, "model").or_else(|| checkpoint.map(|c| c.name.clone())).unwrap_or_default();
    let dtype =
        text(case, "dtype").or_else(|| checkpoint.map(|c| c.dtype.clone())).unwrap_or_default();
    let speedup = |metric: &str| Speedup {
        value: ratio(report, case, &baseline.name, &candidate.name, metric),
        pairs: ratios(case, &baseline.name, &candidate.name, metric),
    };
    let many = of_role(report, Role::Baseline).len() > 1;
    ModelRow {
        key: Key {
            mixed: report.declaration.comparison == Comparison::Compression,
            compared: comparison(report).to_owned(),
            precision: dtype.clone(),
            prompt: number(case, "prompt_tokens").unwrap_or(0),
            output: number(case, "output_tokens").unwrap_or(0),
            session: if several {
                format!(
                    "{}, {}",
                    report.device,
                    report.created.chars().take(10).collect::<String>()
                )
            } else {
                String::new()
            },
        },
        model: if many { format!("{model}\nbeside {}", baseline.name) } else { model.clone() },
        shared: false,
        four_bits: ["4bit", "4-bit", "affine4", "q4_", "int4"]
            .iter()
            .any(|mark| dtype.contains(mark) || model.contains(mark)),
        decode: speedup("decode"),
        prefill: speedup("prefill"),
        ttft: speedup("ttft"),
        total: speedup("total"),
        ttft_seconds: [
            seconds(case, &baseline.name, "ttft"),
            seconds(case, &candidate.name, "ttft"),
        ],
    }
}
