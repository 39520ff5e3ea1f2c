//! Synthetic reports, complete and consistent, that tests break. No number in them was measured.
#![allow(dead_code)]

use metile_bench::schema::*;
use metile_bench::{estimate, order};
use std::collections::BTreeMap;

pub const HASH: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
pub const SEED: u64 = 7;

pub fn file(path: &str, digit: char) -> FileHash {
    FileHash { path: path.to_owned(), sha256: digit.to_string().repeat(64), bytes: 1000 }
}

pub fn arm(name: &str, role: Role, gate: GateClass) -> Arm {
    Arm {
        name: name.to_owned(),
        role,
        what: "synthetic".to_owned(),
        versions: [(name.to_owned(), "1.0".to_owned())].into(),
        toolchain: Toolchain {
            compiler: "rustc 1.95.0".to_owned(),
            path: "ahead_of_time".to_owned(),
        },
        precision: Precision {
            input: "float32".to_owned(),
            weights: "float32".to_owned(),
            multiply: "float32".to_owned(),
            accumulate: "float32".to_owned(),
            relaxed: false,
            probed: "f32".to_owned(),
        },
        threads: Some(2),
        gate,
        settings: BTreeMap::new(),
    }
}

fn conditions() -> Option<Conditions> {
    Some(Conditions {
        at: "2026-01-02T03:04:05Z".to_owned(),
        clock_mhz: Figure::new(3000.0),
        temperature_celsius: Figure::missing("the system does not say"),
        load: Figure::new(0.1),
    })
}

pub fn declaration(name: &str, gate_class: GateClass, metrics: &[&str]) -> Declaration {
    Declaration {
        name: name.to_owned(),
        title: "synthetic figures for tests, nothing measured".to_owned(),
        workload: "synthetic".to_owned(),
        comparison: Comparison::SameWeightsAndFormat,
        gate_class,
        gate: "synthetic".to_owned(),
        boundary: Boundary::default(),
        metrics: metrics
            .iter()
            .map(|name| Metric {
                name: (*name).to_owned(),
                unit: "s".to_owned(),
                clock: Clock::Wall,
                boundary: "synthetic".to_owned(),
            })
            .collect(),
        warmups: 2,
        pairs: 5,
        estimator: match name {
            "projection-width" => Estimator::RatioOfMedians,
            _ => Estimator::MedianOfPairedRatios,
        },
        acceptance: Acceptance::None,
        disclosures: vec!["SYNTHETIC: made for tests, nothing was measured".to_owned()],
    }
}

pub fn gate(class: GateClass, arm: &str, against: &str) -> Gate {
    Gate {
        name: "synthetic".to_owned(),
        class,
        arm: arm.to_owned(),
        against: against.to_owned(),
        decides: true,
        passed: true,
        tolerance: Tolerance::Combined { rtol: 1e-3, atol: 1e-3 },
        checked: [("elements".to_owned(), 1000)].into(),
        observed: [("of_tolerance".to_owned(), Figure::new(0.25))].into(),
        first_mismatch: None,
    }
}

pub fn report(
    declaration: Declaration,
    arms: Vec<Arm>,
    subject: Subject,
    phases: Vec<Phase>,
) -> Report {
    let verdict = estimate::verdict(&phases, &declaration.acceptance);
    Report {
        schema: SchemaName::MetileReport,
        version: VERSION,
        status: Status::Complete,
        failure: None,
        declaration,
        options: BTreeMap::new(),
        device: "cpu".to_owned(),
        seed: SEED,
        created: "2026-01-02T03:04:05Z".to_owned(),
        arms,
        subject,
        phases,
        verdict,
        limits: Limits {
            read_bytes_per_s: Figure::new(1e10),
            copy_bytes_per_s: Figure::new(1e10),
            flop_per_s: Figure::new(1e12),
            allowance: 0.2,
        },
        environment: Environment {
            hardware: "synthetic machine".to_owned(),
            processor: "synthetic".to_owned(),
            processors: 2,
            memory_bytes: Figure::new(1e9),
            last_cache_bytes: Figure::new(1e6),
            system: "synthetic".to_owned(),
            architecture: "x86_64".to_owned(),
            simd: "AVX2".to_owned(),
            threads: 2,
            versions: BTreeMap::new(),
            commit: "synthetic".to_owned(),
            clean: None,
            overrides: BTreeMap::new(),
        },
        fingerprints: Fingerprints {
            kernels: [("synthetic".to_owned(), HASH.to_owned())].into(),
            ..Fingerprints::default()
        },
    }
}

/// What each arm takes in each pair, by metric.
pub type Times<'t> = &'t dyn Fn(&str, u64) -> Vec<(&'static str, f64)>;

/// A case with its warm-ups and trials in the order that the seed draws, and what follows from them.
pub fn filled(
    mut case: Case,
    pairs: u64,
    arms: &[Arm],
    estimator: Estimator,
    times: Times<'_>,
) -> Case {
    let model = case.parameters.get("prompt").and_then(|p| p.as_str()).map(str::to_owned);
    let number = |name: &str| case.parameters.get(name).and_then(|v| v.as_u64()).unwrap_or(0);
    let (prompt, output) = (number("prompt_tokens"), number("output_tokens"));
    let inputs = |pair: u64| match &model {
        Some(name) => prompt_sequence(name, prompt).sha256,
        None => format!("{pair:064x}"),
    };
    let verified = || match model {
        Some(_) => BTreeMap::from([
            ("tokens".to_owned(), output),
            ("cache_entries".to_owned(), prompt + output - 1),
        ]),
        None => BTreeMap::from([("elements".to_owned(), 1000)]),
    };
    let written = |arm: &str| model.as_ref().map(|_| format!("{}: {arm}", case.name));
    let (mut runs, mut trials) = (Vec::new(), Vec::new());
    for (warmup, rounds) in [(true, case.warmups), (false, pairs)] {
        for pair in 0..rounds {
            for n in order::of_pair(SEED, &case.name, case.arms.len(), pair) {
                let arm = case.arms[n].clone();
                let output_sequence = written(&arm);
                if warmup {
                    runs.push(WarmUp {
                        round: pair,
                        arm,
                        inputs_sha256: inputs(1000 + pair),
                        verified: verified(),
                        output_sequence,
                    });
                } else {
                    let values = times(&arm, pair);
                    trials.push(Trial {
                        pair,
                        values: values.into_iter().map(|(k, v)| (k.to_owned(), v)).collect(),
                        arm,
                        repeats: 1,
                        inputs_sha256: inputs(pair),
                        poisoned: true,
                        verified: verified(),
                        output_sequence,
                    });
                }
            }
        }
    }
    case.warmup_runs = runs;
    case.trials = trials;
    case.medians = estimate::medians(&case).unwrap();
    case.summaries = estimate::summaries(&case, arms, estimator, SEED).unwrap();
    case
}

pub fn case(
    name: &str,
    series: &str,
    class: GateClass,
    arms: &[Arm],
    parameters: &[(&str, serde_json::Value)],
) -> Case {
    let names: Vec<String> = arms.iter().map(|a| a.name.clone()).collect();
    let against = names.last().cloned().unwrap_or_default();
    Case {
        name: name.to_owned(),
        series: series.to_owned(),
        parameters: parameters.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect(),
        work: Work::default(),
        gate_class: class,
        gates: names[..names.len() - 1].iter().map(|n| gate(class, n, &against)).collect(),
        arms: names,
        absent: Vec::new(),
        warmups: 2,
        warmup_runs: Vec::new(),
        trials: Vec::new(),
        medians: Vec::new(),
        summaries: Vec::new(),
    }
}

pub fn phase(name: &str, scope: Scope, pairs: u64, cases: Vec<Case>) -> Phase {
    Phase {
        name: name.to_owned(),
        scope,
        pairs,
        before: conditions(),
        after: conditions(),
        overall: estimate::overall(&cases),
        cases,
        selection: None,
    }
}

/// Noise of a few hundredths, the same on every machine.
pub fn noise(n: u64) -> f64 {
    0.97 + 0.06 * ((n.wrapping_mul(2_654_435_761) >> 7) % 1000) as f64 / 1000.0
}

pub fn prompt_sequence(name: &str, tokens: u64) -> Sequence {
    let start = name.len() as u64;
    Sequence::new(name, "prompt", (0..tokens).map(|n| ((n * 7 + start) % 1000) as u32).collect())
}

pub fn checkpoint() -> Checkpoint {
    let geometry = Geometry {
        family: "qwen3".to_owned(),
        layers: 2,
        hidden: 64,
        intermediate: 128,
        heads: 4,
        kv_heads: 2,
        head_dim: 16,
        vocabulary: 1000,
        tied: true,
    };
    let layers = 2 * (64 * (2 * 64 + 2 * 32) + 3 * 64 * 128);
    Checkpoint {
        name: "synthetic-model".to_owned(),
        synthetic: false,
        source: "synthetic".to_owned(),
        files: vec![file("model.safetensors", 'a')],
        tokenizer: file("tokenizer.json", 'b'),
        geometry,
        dtype: "float32".to_owned(),
        weight_bytes: 4 * (layers + 64_000 + 2 * 2 * 64),
        storage: Vec::new(),
    }
}

/// The long-document study: four chunks, then the least one on another document.
pub fn chunked_prefill() -> Report {
    let metrics = ["ttft", "decode", "total"];
    let mut declaration = declaration("qwen3-chunked-prefill", GateClass::State, &metrics);
    declaration.disclosures.extend(
        [
            "one document",
            "held-out means chunk selection only",
            "five samples of one session establish neither parity nor a win",
            "a whole-backend result, not an ablation",
            "warmed token-id-to-token-id, not cold start or serving latency",
        ]
        .map(str::to_owned),
    );
    let arms = vec![
        arm("mlx", Role::Baseline, GateClass::State),
        arm("metile", Role::Candidate, GateClass::State),
    ];
    let times = |scale: f64, salt: u64| {
        move |arm: &str, pair: u64| {
            let other = if arm == "mlx" { (0.5, 1.6) } else { (1.0, 1.0) };
            let first = scale * other.0 * noise(salt + 2 * pair + arm.len() as u64);
            let rest = scale * other.1 * noise(salt + 31 * pair + 5 + arm.len() as u64);
            vec![("ttft", first), ("decode", rest), ("total", first + rest)]
        }
    };
    let of = |name: &str, prompt: &str, tokens: u64, output: u64, chunk: u64, scale: f64| {
        let parameters = [
            ("prompt", prompt.into()),
            ("prompt_tokens", tokens.into()),
            ("output_tokens", output.into()),
            ("chunk", chunk.into()),
        ];
        let series = format!("synthetic-model, float32, {tokens}/{output}");
        let case = case(name, &series, GateClass::State, &arms, &parameters);
        filled(case, 5, &arms, Estimator::MedianOfPairedRatios, &times(scale, chunk))
    };
    let tuning: Vec<Case> = [(128, 1.3), (256, 1.1), (512, 1.0), (1024, 1.2)]
        .into_iter()
        .map(|(chunk, scale)| of(&format!("chunk {chunk}"), "tuning", 64, 8, chunk, scale))
        .collect();
    let mut first = phase("tuning", Scope::Tuning, 5, tuning);
    first.selection = estimate::select(&first.cases, "metile", "ttft", "chunk").unwrap();
    let held = of("held-out, chunk 512", "held-out", 96, 16, 512, 2.0);
    let second = phase("held-out", Scope::HeldOut, 5, vec![held]);
    let mut sequences = vec![prompt_sequence("tuning", 64), prompt_sequence("held-out", 96)];
    for case in first.cases.iter().chain(&second.cases) {
        let output = case.parameters["output_tokens"].as_u64().unwrap();
        for arm in &arms {
            let ids = (0..output as u32).map(|n| n % 5).collect();
            let name = format!("{}: {}", case.name, arm.name);
            sequences.push(Sequence::new(name, "validated output", ids));
        }
    }
    let document = |scope, path: &str, digit, sequence: &str| Document {
        scope,
        file: file(path, digit),
        sequence: sequence.to_owned(),
    };
    let subject = Subject {
        checkpoints: vec![checkpoint()],
        documents: vec![
            document(Scope::Tuning, "nowhere/tuning.txt", 'c', "tuning"),
            document(Scope::HeldOut, "nowhere/held-out.txt", 'd', "held-out"),
        ],
        sequences,
        unpaired: vec![Unpaired {
            label: "one streamed generation".to_owned(),
            value: Figure::new(1.25),
            unit: "s".to_owned(),
        }],
    };
    report(declaration, arms, subject, vec![first, second])
}

/// A chunked run whose decode weights are packed, labelled as such.
pub fn packed() -> Report {
    let mut report = chunked_prefill();
    report.declaration.comparison = Comparison::LosslessWeightStorage;
    report.declaration.disclosures.push("lossless_weight_storage: packed copies".to_owned());
    let of = |scope: &str, values: u64| WeightStorage {
        scope: scope.to_owned(),
        form: "u32_of_two_bf16".to_owned(),
        values,
        original_bytes: 4 * values,
        stored_bytes: 2 * values,
        finite: true,
        even_count: true,
        zero_low_bits: true,
        round_trip: true,
    };
    let layers = 2 * (64 * (2 * 64 + 2 * 32) + 3 * 64 * 128);
    report.subject.checkpoints[0].storage =
        vec![of("decode_projections", layers), of("vocabulary_head", 64_000)];
    report
}

/// A kernel study of some name: cases of several rows in two formats, a loss among them.
pub fn kernels(name: &str, pairs: u64, parameter: &str) -> Report {
    let mut declaration = declaration(name, GateClass::Outputs, &["time"]);
    declaration.pairs = pairs;
    let arms = vec![
        arm("baseline", Role::Baseline, GateClass::Outputs),
        arm("metile", Role::Candidate, GateClass::Outputs),
    ];
    let mut cases = Vec::new();
    for format in ["bf16", "int4"] {
        for n in [1u64, 2, 4, 8, 16, 32, 64, 128] {
            let parameters = [(parameter, n.into()), ("format", format.into())];
            let mut of = case(
                &format!("{format}, {n} {parameter}"),
                format,
                GateClass::Outputs,
                &arms,
                &parameters,
            );
            of.work.weight_bytes = Some(82_575_360 / if format == "int4" { 4 } else { 1 });
            let gain = if n > 32 { 0.95 } else { 1.0 + 0.3 / n as f64 };
            let times = move |arm: &str, pair: u64| {
                let slow = if arm == "baseline" { gain } else { 1.0 };
                vec![(
                    "time",
                    5e-3 * (1.0 + n as f64 / 40.0) * slow * noise(n + 13 * pair + arm.len() as u64),
                )]
            };
            cases.push(filled(of, pairs, &arms, declaration.estimator, &times));
        }
    }
    let phases = vec![phase("measurement", Scope::Measurement, pairs, cases)];
    report(declaration, arms, Subject::default(), phases)
}

/// A study of models with cases of several lengths or contexts.
pub fn generations(name: &str, metrics: &[&'static str], label: &str, of: &[&str]) -> Report {
    let declaration = declaration(name, GateClass::State, metrics);
    let arms = vec![
        arm("mlx", Role::Baseline, GateClass::State),
        arm("metile", Role::Candidate, GateClass::State),
    ];
    let mut sequences = vec![prompt_sequence("ids", 8)];
    let mut cases = Vec::new();
    for (n, value) in of.iter().enumerate() {
        let parameters = [
            ("prompt", "ids".into()),
            ("prompt_tokens", 8.into()),
            ("output_tokens", (8 + n).into()),
            (
                label,
                match value.parse::<u64>() {
                    Ok(number) => number.into(),
                    Err(_) => (*value).into(),
                },
            ),
        ];
        let series = format!("synthetic-model, {value}");
        let of = case(value, &series, GateClass::State, &arms, &parameters);
        let times = |arm: &str, pair: u64| {
            let slow = if arm == "mlx" { 1.2 - 0.15 * n as f64 } else { 1.0 };
            let first =
                4e-3 * (1 + n * n) as f64 * slow * noise(pair + n as u64 * 3 + arm.len() as u64);
            metrics
                .iter()
                .map(|m| {
                    (
                        *m,
                        match *m {
                            "decode" => 2.0 * first,
                            "total" => 3.0 * first,
                            _ => first,
                        },
                    )
                })
                .collect()
        };
        cases.push(filled(of, 5, &arms, declaration.estimator, &times));
        for arm in &arms {
            let ids = (0..8 + n as u32).collect();
            sequences.push(Sequence::new(
                format!("{value}: {}", arm.name),
                "validated output",
                ids,
            ));
        }
    }
    let subject = Subject { checkpoints: vec![checkpoint()], sequences, ..Subject::default() };
    report(declaration, arms, subject, vec![phase("generations", Scope::Measurement, 5, cases)])
}
