//! The published reports' own figures, recomputed.

use super::digests::PUBLISHED;
use super::models::{FIGURES, Mode, ModelRun, SPEEDUPS, Suite};
use super::{Matrix, ModelShapes, Primitive, Published, ShapeSensitivity};
use crate::check::{Findings, Recomputed, agrees};
use crate::estimate::median;
use crate::json::content_digest;
use serde_json::Value;

/// Checks a published report; `value` is what it was read from.
pub(crate) fn verify(report: &Published, value: &Value, findings: &mut Findings) {
    match report {
        Published::Models(suite) => models(suite, findings),
        Published::Matrix(matrix) => self::matrix(matrix, findings),
        Published::Shapes(shapes) => self::shapes(shapes, findings),
        Published::Sensitivity(sensitivity) => self::sensitivity(sensitivity, findings),
        Published::Primitive(primitive) => self::primitive(primitive, findings),
    }
    let digest = content_digest(value);
    match PUBLISHED.iter().find(|(_, published)| *published == digest) {
        Some((name, _)) => {
            findings.notes.push(format!("published evidence, unchanged: {name}"));
        }
        None => findings.wrong(
            "content digest",
            "",
            format!(
                "this is none of the eight published reports: its content has SHA-256 {digest}"
            ),
        ),
    }
}

fn models(suite: &Suite, findings: &mut Findings) {
    if suite.models.is_empty() {
        findings.wrong("complete", "models", "there are none");
    }
    for (index, run) in suite.models.iter().enumerate() {
        let place = format!("models[{index}] ({})", run.short_name());
        let twice = suite.models[..index]
            .iter()
            .any(|other| other.model == run.model && other.workload == run.workload);
        if twice {
            findings.wrong("nothing pooled", &place, "the same model and workload twice");
        }
        model(run, &place, findings);
    }
}

fn model(run: &ModelRun, place: &str, findings: &mut Findings) {
    let trials = run.workload.trials;
    for (arm, samples) in [("MLX", &run.samples.mlx), ("MLX + meTile", &run.samples.metile)] {
        let at = format!("{place}.samples.{arm}");
        if samples.len() as u64 != trials {
            findings.wrong(
                "trial count",
                &at,
                format!("{} samples of {trials} trials: every one is kept", samples.len()),
            );
        }
        for (n, sample) in samples.iter().enumerate() {
            let mut all = true;
            for name in FIGURES {
                let value = sample.get(name).unwrap_or(f64::NAN);
                all &= findings.positive(format!("{at}[{n}].{name}"), value);
            }
            if all && sample.time_to_first_token_seconds >= sample.elapsed_seconds {
                findings.wrong(
                    "timing boundary",
                    format!("{at}[{n}]"),
                    "the first token came after the last",
                );
            }
            let prefill = run.workload.prompt_tokens as f64 / sample.prefill_tokens_per_second;
            if all && prefill > sample.elapsed_seconds {
                findings.wrong(
                    "timing boundary",
                    format!("{at}[{n}].prefill_tokens_per_second"),
                    "reading the prompt took longer than the whole call",
                );
            }
        }
    }
    let shared = run.samples.mlx == run.samples.metile;
    match run.comparison_mode {
        Mode::SharedNativeFallback if !shared => findings.wrong(
            "shared series",
            place,
            "a shared native fallback is one series, and these are two",
        ),
        Mode::Alternating if shared => findings.wrong(
            "shared series",
            place,
            "two series that alternated are the same to the last bit",
        ),
        _ => {}
    }
    stored_medians(run, place, findings);
    confirmation(run, place, findings);
    verification(run, place, findings);
}

fn stored_medians(run: &ModelRun, place: &str, findings: &mut Findings) {
    let arms = [("mlx", &run.samples.mlx), ("metile", &run.samples.metile)];
    let of = |samples: &[super::Sample], name: &str| -> Vec<f64> {
        samples.iter().filter_map(|s| s.get(name)).collect()
    };
    let mut right: Vec<(String, Option<f64>)> = Vec::new();
    for (arm, samples) in arms {
        for name in FIGURES {
            right.push((format!("{arm}_{name}"), median(&of(samples, name))));
        }
    }
    for (speedup, name, more_is_better) in SPEEDUPS {
        let ratios: Vec<f64> = of(&run.samples.mlx, name)
            .into_iter()
            .zip(of(&run.samples.metile, name))
            .map(|(base, ours)| if more_is_better { ours / base } else { base / ours })
            .collect();
        right.push((speedup.to_owned(), median(&ratios)));
    }
    for (name, right) in &right {
        let at = format!("{place}.medians.{name}");
        let Some(right) = *right else { continue };
        match run.medians.get(name) {
            None => findings.wrong("complete", at, "is missing"),
            Some(&stored) => {
                if findings.same("medians from raw samples", at, name, stored, right) {
                    findings.recomputed.push(Recomputed {
                        of: run.short_name().to_owned(),
                        name: name.clone(),
                        value: right,
                    });
                }
            }
        }
    }
    for name in run.medians.keys() {
        if !right.iter().any(|(known, _)| known == name) {
            findings.wrong(
                "complete",
                format!("{place}.medians.{name}"),
                "no sample has this figure",
            );
        }
    }
}

fn confirmation(run: &ModelRun, place: &str, findings: &mut Findings) {
    let at = format!("{place}.plan_confirmation");
    let Some(confirmation) = &run.plan_confirmation else {
        if run.comparison_mode == Mode::Alternating {
            findings.wrong("complete", at, "a plan that was timed was confirmed first");
        }
        return;
    };
    if confirmation.pairs.len() as u64 != run.workload.confirmation_trials {
        findings.wrong(
            "trial count",
            format!("{at}.pairs"),
            format!("{} of {}", confirmation.pairs.len(), run.workload.confirmation_trials),
        );
    }
    for (name, &stored) in &confirmation.medians {
        let ratios: Vec<f64> =
            confirmation.pairs.iter().filter_map(|pair| pair.get(name).copied()).collect();
        match median(&ratios) {
            Some(right) if ratios.len() == confirmation.pairs.len() => {
                findings.same(
                    "medians from raw samples",
                    format!("{at}.medians.{name}"),
                    name,
                    stored,
                    right,
                );
            }
            _ => findings.wrong(
                "complete",
                format!("{at}.pairs"),
                format!("`{name}` is not in every pair"),
            ),
        }
    }
    let decode = confirmation.medians.get("decode_speedup").copied().unwrap_or(0.0);
    if confirmation.accepted && decode < confirmation.decode_speedup_floor {
        findings.wrong(
            "acceptance",
            at,
            format!(
                "accepted with a decode speedup of {decode}, under the floor {}",
                confirmation.decode_speedup_floor
            ),
        );
    }
}

fn verification(run: &ModelRun, place: &str, findings: &mut Findings) {
    let v = &run.verification;
    let at = format!("{place}.verification");
    if v.actual_next_token != v.next_token {
        findings.wrong(
            "gate before timing",
            &at,
            format!(
                "the next token is {} and should be {}: no timing may be kept",
                v.actual_next_token, v.next_token
            ),
        );
    }
    let class = &run.precision_comparison;
    if !class.same_weight_representation
        && (v.kl_divergence > 0.001 || v.mean_logit_error > 0.05 || v.max_logit_error > 0.5)
    {
        findings.wrong(
            "gate before timing",
            &at,
            "beyond the bounds of compression (KL 0.001, mean 0.05, max 0.5)",
        );
    }
    if class.same_weight_representation != (class.class == "same_precision") {
        findings.wrong(
            "what is compared",
            format!("{place}.precision_comparison"),
            format!("`{}` contradicts same_weight_representation", class.class),
        );
    }
}

fn matrix(matrix: &Matrix, findings: &mut Findings) {
    for (n, point) in matrix.measurements.iter().enumerate() {
        let place = format!("measurements[{n}] ({:?}, {} rows)", point.format, point.rows);
        let twice = matrix.measurements[..n]
            .iter()
            .any(|other| other.format == point.format && other.rows == point.rows);
        if twice {
            findings.wrong("nothing pooled", &place, "the same format and rows twice");
        }
        let ok = findings.positive(&place, point.metile_seconds)
            & findings.positive(&place, point.mlx_seconds)
            & findings.positive(&place, point.speedup);
        if ok {
            let rows = point.rows as f64;
            findings.same(
                "rates from times",
                &place,
                "metile_tokens_per_second",
                point.metile_tokens_per_second,
                rows / point.metile_seconds,
            );
            findings.same(
                "rates from times",
                &place,
                "mlx_tokens_per_second",
                point.mlx_tokens_per_second,
                rows / point.mlx_seconds,
            );
        }
        win_rate(point.win_rate, point.speedup, matrix.rounds, &place, findings);
    }
    same_representation(&matrix.precision_comparison, findings);
}

/// A win rate is whole wins over rounds, and a median ratio above 1 has at least half of them.
fn win_rate(rate: f64, speedup: f64, rounds: u64, place: &str, findings: &mut Findings) {
    let wins = rate * rounds as f64;
    if !(0.0..=1.0).contains(&rate) || !agrees(wins + 1.0, wins.round() + 1.0) {
        findings.wrong(
            "win rate",
            place,
            format!("{rate} of {rounds} rounds is no whole number of wins"),
        );
    } else if (speedup > 1.0 && 2.0 * wins < rounds as f64)
        || (speedup < 1.0 && 2.0 * wins > rounds as f64)
    {
        findings.wrong(
            "win rate",
            place,
            format!(
                "a median ratio of {speedup} and {wins:.0} wins of {rounds} contradict each other"
            ),
        );
    }
}

fn same_representation(comparison: &super::PrecisionComparison, findings: &mut Findings) {
    if !comparison.same_weight_representation {
        findings.wrong(
            "what is compared",
            "precision_comparison",
            "a matched comparison with other weights",
        );
    }
}

fn shapes(shapes: &ModelShapes, findings: &mut Findings) {
    for (n, model) in shapes.models.iter().enumerate() {
        let place = format!("models[{n}] ({})", model.model);
        for (name, &value) in &model.block_speedup {
            findings.positive(format!("{place}.block_speedup.{name}"), value);
        }
        findings.positive(format!("{place}.prefill_down_speedup"), model.prefill_down_speedup);
        findings.positive(format!("{place}.prefill_up_speedup"), model.prefill_up_speedup);
        if model.below_cliff != (model.hidden < shapes.cliff) {
            findings.wrong(
                "model geometry",
                place,
                format!("width {} and cliff {} contradict below_cliff", model.hidden, shapes.cliff),
            );
        }
    }
    same_representation(&shapes.precision_comparison, findings);
}

fn sensitivity(sensitivity: &ShapeSensitivity, findings: &mut Findings) {
    let shape = &sensitivity.shape;
    for (n, point) in sensitivity.batch_sweep.iter().enumerate() {
        let place = format!("batch_sweep[{n}] ({:?}, {} rows)", point.format, point.rows);
        // Three projections; checked, as extents come from the file.
        let bytes = shape
            .hidden
            .checked_mul(shape.intermediate)
            .and_then(|x| x.checked_mul(3 * point.format.bits()))
            .map(|bits| bits / 8);
        if bytes != Some(point.weight_bytes) {
            findings.wrong(
                "byte counts",
                &place,
                format!("weight_bytes is {}, and the geometry gives {bytes:?}", point.weight_bytes),
            );
        }
        let bytes = point.weight_bytes as f64;
        for (arm, seconds, stored) in [
            ("metile_bandwidth", point.metile_seconds, point.metile_bandwidth),
            ("mlx_bandwidth", point.mlx_seconds, point.mlx_bandwidth),
        ] {
            if findings.positive(&place, seconds) {
                findings.same("rates from times", &place, arm, stored, bytes / seconds / 1e9);
            }
        }
    }
    for (n, point) in sensitivity.width_sweep.iter().enumerate() {
        let place = format!("width_sweep[{n}] (N = {})", point.output_features);
        if findings.positive(&place, point.metile_seconds)
            && findings.positive(&place, point.mlx_seconds)
        {
            findings.same(
                "ratio of medians",
                &place,
                "speedup",
                point.speedup,
                point.mlx_seconds / point.metile_seconds,
            );
        }
    }
    same_representation(&sensitivity.precision_comparison, findings);
}

fn primitive(primitive: &Primitive, findings: &mut Findings) {
    let t = &primitive.timings;
    if findings.positive("timings.metile_seconds", t.metile_seconds)
        && findings.positive("timings.mlx_seconds", t.mlx_seconds)
    {
        findings.same(
            "ratio of medians",
            "timings",
            "speedup",
            t.speedup,
            t.mlx_seconds / t.metile_seconds,
        );
    }
    same_representation(&primitive.precision_comparison, findings);
}
