//! The published reports as tables.

use super::{Page, Table};
use crate::charts::{ratio, significant};
use crate::published::{Mode, Published};

pub(super) fn page(report: &Published) -> Page {
    let unknown = || "not recorded in this report".to_owned();
    let device = report.hardware().map_or_else(unknown, |h| format!("{}, {}", h.chip, h.memory));
    let software =
        report.software().map_or_else(unknown, |s| format!("MLX {}, MLX-LM {}", s.mlx, s.mlx_lm));
    let recorded = report.recorded();
    let date = if recorded.is_empty() { unknown() } else { recorded.to_owned() };
    let mut page = Page {
        title: format!("Published by the predecessor: {}", report.title()),
        facts: vec![
            ("device".to_owned(), device),
            ("recorded".to_owned(), date),
            ("baseline".to_owned(), software),
        ],
        tables: tables(report),
        notes: vec!["Read here, not run again".to_owned()],
    };
    if !matches!(report, Published::Models(_)) {
        page.notes.push("Summary only: the report has no raw samples".to_owned());
    }
    page
}

fn milliseconds(seconds: f64) -> String {
    format!("{} ms", significant(seconds * 1e3, 4))
}

fn tables(report: &Published) -> Vec<Table> {
    match report {
        Published::Models(suite) => {
            let columns = [
                "model",
                "compared",
                "n",
                "prompt/output",
                "decode",
                "prefill",
                "ttft",
                "end to end",
            ];
            let mut table = Table::new(
                "Median of the paired per-trial ratios; above 1 favours the candidate",
                &columns,
            );
            for run in &suite.models {
                let of = |name: &str| run.medians.get(name).map_or("-".to_owned(), |v| ratio(*v));
                let shared = run.comparison_mode == Mode::SharedNativeFallback;
                let figures =
                    ["decode_speedup", "prefill_speedup", "ttft_speedup", "end_to_end_speedup"];
                let mut row = vec![
                    run.short_name().to_owned(),
                    match (shared, run.precision_comparison.same_weight_representation) {
                        (true, _) => "one native series",
                        (false, true) => "same weights",
                        (false, false) => "compression",
                    }
                    .to_owned(),
                    run.workload.trials.to_string(),
                    format!("{}/{}", run.workload.prompt_tokens, run.workload.generation_tokens),
                ];
                row.extend(figures.map(|name| if shared { "-".to_owned() } else { of(name) }));
                table.rows.push(row);
            }
            vec![table]
        }
        Published::Matrix(matrix) => {
            let heading = format!("Median paired ratio of {} rounds", matrix.rounds);
            let mut table =
                Table::new(heading, &["format", "rows", "baseline", "candidate", "speedup", "won"]);
            table.rows = matrix
                .measurements
                .iter()
                .map(|m| {
                    vec![
                        m.format.name().to_owned(),
                        m.rows.to_string(),
                        milliseconds(m.mlx_seconds),
                        milliseconds(m.metile_seconds),
                        ratio(m.speedup),
                        format!("{:.0} %", m.win_rate * 100.0),
                    ]
                })
                .collect();
            vec![table]
        }
        Published::Shapes(shapes) => {
            let heading = format!(
                "Median paired ratio of {} rounds: the block by rows, projections of {} rows",
                shapes.rounds, shapes.prompt_rows
            );
            let mut table = Table::new(heading, &["model", "1", "8", "16", "down", "up"]);
            table.rows = shapes
                .models
                .iter()
                .map(|m| {
                    let of = |rows: &str| {
                        m.block_speedup.get(rows).map_or("-".to_owned(), |v| ratio(*v))
                    };
                    vec![
                        m.model.clone(),
                        of("1"),
                        of("8"),
                        of("16"),
                        ratio(m.prefill_down_speedup),
                        ratio(m.prefill_up_speedup),
                    ]
                })
                .collect();
            vec![table]
        }
        Published::Sensitivity(sensitivity) => {
            let mut widths =
                Table::new("Ratio of medians by width", &["N", "baseline", "candidate", "speedup"]);
            widths.rows = sensitivity
                .width_sweep
                .iter()
                .map(|w| {
                    vec![
                        w.output_features.to_string(),
                        milliseconds(w.mlx_seconds),
                        milliseconds(w.metile_seconds),
                        ratio(w.speedup),
                    ]
                })
                .collect();
            let mut bandwidth = Table::new(
                "Weight bytes over median time, GB/s: a normalization of time, not traffic",
                &["format", "rows", "baseline", "candidate"],
            );
            bandwidth.rows = sensitivity
                .batch_sweep
                .iter()
                .map(|p| {
                    vec![
                        p.format.name().to_owned(),
                        p.rows.to_string(),
                        significant(p.mlx_bandwidth, 4),
                        significant(p.metile_bandwidth, 4),
                    ]
                })
                .collect();
            vec![widths, bandwidth]
        }
        Published::Primitive(p) => {
            let mut table =
                Table::new("Stored times", &["layer", "baseline", "candidate", "speedup"]);
            table.rows.push(vec![
                format!("{}, {} × {}", p.model, p.shape.input_features, p.shape.output_features),
                milliseconds(p.timings.mlx_seconds),
                milliseconds(p.timings.metile_seconds),
                ratio(p.timings.speedup),
            ]);
            vec![table]
        }
    }
}
