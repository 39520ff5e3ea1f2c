//! Every rule of measuring, broken once in a report that is otherwise whole: each is refused, with its reason.

mod synthetic;

use metile_bench::charts::{ChartError, ChartKind, Drawable, Theme, svg};
use metile_bench::check::{Checked, Unreadable, check_bytes};
use metile_bench::schema::write::{Destination, FileError};
use metile_bench::schema::*;
use std::path::Path;
use synthetic::{arm, chunked_prefill, generations, kernels, packed};

fn checked(report: &Report) -> Checked {
    let bytes = serde_json::to_vec(report).unwrap();
    check_bytes(Path::new("synthetic.json"), &bytes).unwrap()
}

#[track_caller]
fn good(report: &Report) {
    let checked = checked(report);
    assert!(checked.is_good(), "{:#?}", checked.findings.wrong);
    assert!(!checked.findings.recomputed.is_empty());
}

/// What is done to a whole report.
type Break = fn(&mut Report);

#[track_caller]
fn refused(whole: Report, rule: &str, breaking: Break) {
    let mut report = whole;
    breaking(&mut report);
    let broken = checked(&report);
    let rules: Vec<String> = broken.findings.wrong.iter().map(ToString::to_string).collect();
    assert!(broken.findings.wrong.iter().any(|f| f.rule == rule), "{rule}: {rules:#?}");
    // Nor is it drawn.
    assert!(matches!(Drawable::new(&[broken]), Err(ChartError::Refused { .. })), "{rule}");
}

#[test]
fn the_reports_are_whole_before_they_are_broken() {
    good(&chunked_prefill());
    good(&packed());
    good(&kernels("matched-matrix", 25, "rows"));
    good(&kernels("projection-width", 15, "n"));
    good(&kernels("register-rmsnorm", 5, "rows"));
    good(&generations("qwen3-end-to-end", &["ttft", "decode", "total"], "row", &["8", "32"]));
}

/// A study that validates a model and times nothing.
fn validation() -> Report {
    let mut report = chunked_prefill();
    report.declaration.name = "matrix-attention".to_owned();
    report.declaration.metrics.clear();
    (report.declaration.pairs, report.declaration.warmups) = (0, 0);
    report.phases.truncate(1);
    let phase = &mut report.phases[0];
    (phase.scope, phase.pairs) = (Scope::Measurement, 0);
    (phase.before, phase.after, phase.selection) = (None, None, None);
    phase.overall.clear();
    for case in &mut phase.cases {
        case.warmups = 0;
        case.trials.clear();
        case.warmup_runs.clear();
        case.medians.clear();
        case.summaries.clear();
    }
    report
}

#[test]
fn a_study_that_times_nothing_has_gates_and_no_runs() {
    let whole = checked(&validation());
    assert!(whole.is_good(), "{:#?}", whole.findings.wrong);
    let rules: [(&str, Break); 4] = [
        ("trial count", |r| {
            r.phases[0].cases[0].trials = chunked_prefill().phases[0].cases[0].trials.clone();
        }),
        ("trial count", |r| r.phases[0].pairs = 5),
        // Without metrics but with pairs it is a study that lost its trials.
        ("trial count", |r| r.declaration.pairs = 5),
        ("gate before timing", |r| r.phases[0].cases[0].gates.clear()),
    ];
    for (rule, breaking) in rules {
        let mut report = validation();
        breaking(&mut report);
        let broken = checked(&report);
        let found = broken.findings.wrong.iter().any(|f| f.rule == rule);
        assert!(found, "{rule}: {:#?}", broken.findings.wrong);
    }
}

#[test]
fn each_rule_of_trials_broken_once() {
    let rules: [(&str, Break); 16] = [
        ("missing trial", |r| drop(r.phases[1].cases[0].trials.pop())),
        ("missing trial", |r| {
            r.phases[1].cases[0].trials[0].values.remove("ttft");
        }),
        ("trial count", |r| {
            let again = r.phases[1].cases[0].trials[0].clone();
            r.phases[1].cases[0].trials.push(again);
        }),
        ("trial count", |r| r.phases[0].cases[0].summaries[0].pairs = 6),
        ("trial count", |r| r.phases[0].cases[0].medians[0].samples = 4),
        ("paired ratios", |r| r.phases[1].cases[0].trials[0].pair = 9),
        ("alternating order", |r| r.phases[1].cases[0].trials.swap(0, 1)),
        ("alternating order", |r| r.seed += 2),
        ("positive times", |r| {
            r.phases[1].cases[0].trials[0].values.insert("ttft".to_owned(), 0.0);
        }),
        ("same inputs", |r| {
            r.phases[1].cases[0].trials[0].inputs_sha256 = "0".repeat(64);
        }),
        ("outputs poisoned before every trial", |r| {
            r.phases[1].cases[0].trials[3].poisoned = false
        }),
        ("outputs verified after every trial", |r| {
            r.phases[1].cases[0].trials[3].verified.clear();
        }),
        ("warm-ups", |r| drop(r.phases[1].cases[0].warmup_runs.pop())),
        ("warm-ups", |r| r.phases[1].cases[0].warmup_runs[0].verified.clear()),
        ("warm-ups", |r| r.phases[1].cases[0].warmup_runs[0].output_sequence = None),
        ("conditions before and after", |r| r.phases[1].after = None),
    ];
    for (rule, breaking) in rules {
        refused(chunked_prefill(), rule, breaking);
    }
    refused(kernels("matched-matrix", 9, "rows"), "fresh inputs", |r| {
        for trial in &mut r.phases[0].cases[0].trials {
            trial.inputs_sha256 = "0".repeat(64);
        }
    });
    refused(kernels("matched-matrix", 9, "rows"), "no faster than the probed peak", |r| {
        r.phases[0].cases[0].work.flop = Some(1 << 50);
    });
    refused(kernels("matched-matrix", 9, "rows"), "no faster than the probed read rate", |r| {
        r.phases[0].cases[0].work.distinct_read_bytes = Some(1 << 40);
    });
    refused(kernels("a-a", 5, "rows"), "trial count", |_| {});
}

#[test]
fn each_rule_of_gates_broken_once() {
    let rules: [(&str, Break); 9] = [
        ("failed gate discards timings", |r| r.phases[1].cases[0].gates[0].passed = false),
        ("failed gate discards timings", |r| {
            r.status = Status::Failed;
            r.failure = Some(Failure {
                rule: "gate".to_owned(),
                message: "logits differ".to_owned(),
                phase: "held-out".to_owned(),
                case: "held-out, chunk 512".to_owned(),
                arm: Some("metile".to_owned()),
                discarded_trials: 0,
                first_mismatch: None,
            });
        }),
        ("complete", |r| r.status = Status::Failed),
        ("gate before timing", |r| r.phases[0].cases[2].gates.clear()),
        ("gate before timing", |r| r.phases[0].cases[2].gates[0].class = GateClass::Tokens),
        ("gate before timing", |r| {
            r.phases[0].cases[2].gates[0]
                .observed
                .insert("of_tolerance".to_owned(), Figure::new(1.5));
        }),
        ("gate before timing", |r| {
            r.phases[0].cases[2].gates[0].checked.insert("elements".to_owned(), 0);
        }),
        ("tolerances", |r| {
            r.phases[1].cases[0].gates[0].tolerance =
                Tolerance::Combined { rtol: 2e-2, atol: 1e-3 };
        }),
        ("gate before timing", |r| {
            r.arms.push(arm("llama.cpp", Role::Baseline, GateClass::Tokens));
            r.phases[1].cases[0].arms.push("llama.cpp".to_owned());
        }),
    ];
    for (rule, breaking) in rules {
        refused(chunked_prefill(), rule, breaking);
    }
}

#[test]
fn each_rule_of_summaries_broken_once() {
    let rules: [(&str, Break); 10] = [
        ("medians from raw samples", |r| {
            r.phases[1].cases[0].medians[0].value = Figure::new(1.0);
        }),
        ("medians from raw samples", |r| {
            r.phases[1].cases[0].summaries[0].ratio = Figure::new(1.5);
        }),
        ("medians from raw samples", |r| {
            r.phases[1].cases[0].summaries[0].win_rate = Figure::new(1.0 / 3.0);
        }),
        ("intervals need samples", |r| {
            r.phases[1].cases[0].summaries[0].interval = Some(Interval {
                method: IntervalMethod::SignTest,
                coverage: 0.95,
                low: 0.9,
                high: 1.1,
            });
        }),
        ("the study's estimator", |r| {
            r.phases[1].cases[0].summaries[0].estimator = Estimator::RatioOfMedians;
        }),
        ("the study's estimator", |r| r.declaration.estimator = Estimator::RatioOfMedians),
        ("paired ratios", |r| {
            // A ratio of an arm over itself, of two different pairs.
            r.phases[1].cases[0].summaries[0].candidate = "mlx".to_owned();
        }),
        ("complete", |r| drop(r.phases[1].cases[0].summaries.pop())),
        ("verdict", |r| r.verdict.met = Some(true)),
        ("nothing pooled", |r| r.phases[0].overall.clear()),
    ];
    for (rule, breaking) in rules {
        refused(chunked_prefill(), rule, breaking);
    }
    refused(kernels("matched-matrix", 9, "rows"), "nothing pooled", |r| {
        r.phases[0].cases[8].series = "bf16".to_owned();
    });
    refused(kernels("projection-width", 15, "n"), "the study's estimator", |r| {
        r.declaration.estimator = Estimator::MedianOfPairedRatios;
    });
}

#[test]
fn each_rule_of_the_long_document_broken_once() {
    let rules: [(&str, Break); 17] = [
        ("selection", |r| {
            r.phases[0].selection.as_mut().unwrap().case = "chunk 128".to_owned();
        }),
        ("selection", |r| r.phases[0].selection = None),
        ("selection", |r| r.phases[0].selection.as_mut().unwrap().arm = "mlx".to_owned()),
        ("missing trial", |r| drop(r.phases[0].cases.remove(3))),
        ("tuning and held-out", |r| {
            r.phases[1].cases[0].parameters.insert("chunk".to_owned(), 128.into());
        }),
        ("tuning and held-out", |r| r.phases[0].scope = Scope::HeldOut),
        ("tuning and held-out", |r| drop(r.phases.pop())),
        ("tuning and held-out", |r| {
            // The tuning samples again, as the held-out ones.
            r.phases[1].cases[0].trials = r.phases[0].cases[2].trials.clone();
        }),
        ("two documents", |r| {
            r.subject.documents[1].file.path = r.subject.documents[0].file.path.clone();
        }),
        ("two documents", |r| {
            r.subject.documents[1].file.sha256 = r.subject.documents[0].file.sha256.clone();
        }),
        ("two documents", |r| {
            r.subject.documents[1].sequence = r.subject.documents[0].sequence.clone();
        }),
        ("disclosures", |r| drop(r.declaration.disclosures.remove(1))),
        ("cache length", |r| {
            r.phases[1].cases[0].trials[2].verified.insert("cache_entries".to_owned(), 110);
        }),
        ("sequence count", |r| {
            r.phases[1].cases[0].trials[2].verified.insert("tokens".to_owned(), 15);
        }),
        ("validated ids", |r| {
            let other = Some("chunk 128: mlx".to_owned());
            r.phases[1].cases[0].trials[2].output_sequence = other;
        }),
        ("prompt ids", |r| {
            r.subject.sequences[1] = Sequence::new("held-out", "prompt", vec![1; 96]);
        }),
        ("timing boundary", |r| {
            r.phases[1].cases[0].trials[2].values.insert("decode".to_owned(), 0.1);
        }),
    ];
    for (rule, breaking) in rules {
        refused(chunked_prefill(), rule, breaking);
    }
}

#[test]
fn each_rule_of_what_was_compared_broken_once() {
    let rules: [(&str, Break); 10] = [
        ("packed runs are labelled", |r| {
            r.declaration.comparison = Comparison::SameWeightsAndFormat;
        }),
        ("packed runs are labelled", |r| drop(r.declaration.disclosures.pop())),
        ("lossless storage", |r| {
            r.subject.checkpoints[0].storage[0].round_trip = false;
        }),
        ("byte counts", |r| r.subject.checkpoints[0].storage[0].stored_bytes += 2),
        ("byte counts", |r| {
            let of = &mut r.subject.checkpoints[0].storage[1];
            (of.values, of.original_bytes, of.stored_bytes) = (2, 8, 4);
        }),
        ("byte counts", |r| r.subject.checkpoints[0].weight_bytes /= 2),
        ("hashes", |r| r.subject.sequences[0].sha256 = "0".repeat(64)),
        ("hashes", |r| r.subject.checkpoints[0].files[0].sha256 = "abc".to_owned()),
        ("same precision on both sides", |r| r.arms[0].precision.relaxed = true),
        ("same precision on both sides", |r| r.arms[0].precision.probed = "tf32".to_owned()),
    ];
    for (rule, breaking) in rules {
        refused(packed(), rule, breaking);
    }
    refused(kernels("register-rmsnorm", 5, "rows"), "one toolchain", |r| {
        r.arms[1].toolchain.path = "run_time".to_owned();
    });
    refused(kernels("register-rmsnorm", 5, "rows"), "fingerprints", |r| {
        r.fingerprints.kernels.clear();
    });
    refused(chunked_prefill(), "disclosures", |r| r.subject.checkpoints[0].synthetic = true);
    refused(chunked_prefill(), "model geometry", |r| {
        r.subject.checkpoints[0].geometry.hidden = u64::MAX;
    });
}

#[test]
fn a_document_beside_the_report_is_compared_with_its_hash() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("nowhere")).unwrap();
    std::fs::write(folder.path().join("nowhere/tuning.txt"), "another text").unwrap();
    let bytes = serde_json::to_vec(&chunked_prefill()).unwrap();
    let checked = check_bytes(&folder.path().join("r.json"), &bytes).unwrap();
    assert_eq!(checked.findings.wrong.len(), 1);
    assert_eq!(checked.findings.wrong[0].rule, "hashes");
}

#[test]
fn nan_null_and_other_versions() {
    let text = serde_json::to_string(&chunked_prefill()).unwrap();
    let replaced = |from: &str, to: &str| {
        let copy = text.replacen(from, to, 1);
        assert_ne!(copy, text);
        check_bytes(Path::new("x.json"), copy.as_bytes())
    };
    let nan = replaced("\"allowance\":0.2", "\"allowance\":NaN");
    assert!(matches!(nan, Err(Unreadable::Json { .. })));
    let null = replaced("\"load\":{\"value\":0.1}", "\"load\":{\"value\":null}").unwrap();
    assert_eq!(null.findings.wrong[0].rule, "null with a reason");
    let version = replaced("\"version\":1", "\"version\":99");
    assert!(matches!(version, Err(Unreadable::Schema { .. })));
    let field = replaced("\"seed\":7,", "").unwrap();
    assert_eq!(field.findings.wrong[0].rule, "complete");
}

#[test]
fn a_report_is_never_written_over_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.json");
    Destination::new(&path).unwrap().write(&chunked_prefill()).unwrap();
    assert!(matches!(Destination::new(&path), Err(FileError::Exists(_))));
}

#[test]
fn a_failed_run_is_good_without_timings_and_is_not_drawn() {
    let mut report = chunked_prefill();
    report.status = Status::Failed;
    report.failure = Some(Failure {
        rule: "gate".to_owned(),
        message: "logits differ".to_owned(),
        phase: "tuning".to_owned(),
        case: "chunk 128".to_owned(),
        arm: Some("metile".to_owned()),
        discarded_trials: 40,
        first_mismatch: None,
    });
    for phase in &mut report.phases {
        phase.selection = None;
        phase.overall.clear();
        for case in &mut phase.cases {
            case.trials.clear();
            case.warmup_runs.clear();
            case.medians.clear();
            case.summaries.clear();
        }
    }
    let checked = checked(&report);
    assert!(checked.is_good(), "{:?}", checked.findings.wrong);
    assert!(matches!(Drawable::new(&[checked]), Err(ChartError::Refused { .. })));
}

#[test]
fn every_chart_of_the_project_s_own_reports_is_drawn() {
    let one = ["8", "32"];
    let contexts = ["0", "16", "64", "1024", "4096"];
    let policies = ["eager", "chunked", "fifo"];
    let all = ["ttft", "decode", "total"];
    let reports = [
        (ChartKind::ChunkedPrefill, chunked_prefill()),
        (ChartKind::EndToEnd, generations("qwen3-end-to-end", &all, "row", &one)),
        (ChartKind::Megakernel, generations("qwen3-megakernel", &["time"], "context", &contexts)),
        (
            ChartKind::Interleaving,
            generations(
                "qwen3-interleaving",
                &[
                    "inter_token_p50",
                    "inter_token_p95",
                    "inter_token_p99",
                    "inter_token_max",
                    "arriving_ttft",
                    "makespan",
                ],
                "policy",
                &policies,
            ),
        ),
        (ChartKind::MatchedMatrix, kernels("matched-matrix", 25, "rows")),
        (ChartKind::ShapeSensitivity, kernels("projection-width", 15, "n")),
        (ChartKind::WeightBandwidth, kernels("matched-matrix", 9, "rows")),
        (ChartKind::CompilerResults, kernels("register-rmsnorm", 9, "rows")),
        (ChartKind::ModelThroughput, generations("model-suite", &all, "row", &one)),
        (ChartKind::TrialDistributions, generations("model-suite", &all, "row", &one)),
    ];
    let out = std::env::var_os("METILE_CHARTS");
    for (kind, report) in reports {
        let one = [checked(&report)];
        assert!(one[0].is_good(), "{:?}", one[0].findings.wrong);
        let chart = Drawable::new(&one).unwrap().chart(kind, false).unwrap();
        let drawing = svg(&chart, Theme::Light).unwrap();
        assert!(drawing.contains("SYNTHETIC"), "disclosures are on the chart");
        assert!(drawing.contains("synthetic machine") && drawing.contains("2026-01-02"));
        if let Some(folder) = &out {
            let file = Path::new(folder).join(format!("{}.svg", chart.name));
            std::fs::write(file, drawing).unwrap();
        }
    }
}
