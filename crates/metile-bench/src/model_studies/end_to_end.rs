//! `qwen3-end-to-end`: short generations of fixed ids, four lengths.

use super::generation::{GenerationStudy, Parts, Point, Stage, boundary, metrics};
use super::setup;
use super::workload::{Prompt, synthetic_ids};
use crate::schema::{Acceptance, Comparison, Declaration, Estimator, GateClass, Scope};
use crate::study::{Entry, OpenError, OptionKind, OptionSpec, Setup, Study};

const OPTIONS: &[OptionSpec] = &[
    setup::MODEL,
    setup::DTYPE,
    setup::ATTENTION,
    setup::PROJECTION,
    setup::TILE,
    OptionSpec {
        name: "prompts",
        kind: OptionKind::Counts,
        default: Some("8 32"),
        help: "Prompt lengths",
    },
    OptionSpec {
        name: "outputs",
        kind: OptionKind::Counts,
        default: Some("8 16"),
        help: "Tokens generated, for each prompt length",
    },
    OptionSpec {
        name: "trials",
        kind: OptionKind::Count,
        default: Some("5"),
        help: "Pairs of a row",
    },
    OptionSpec {
        name: "chunk",
        kind: OptionKind::Count,
        default: Some("128"),
        help: "Rows of a chunk of the candidate's prompts",
    },
    setup::PACK,
    setup::ROPE,
    setup::BASELINES,
    setup::BASELINE_CHECKPOINT,
    setup::VARIANT,
    setup::AGREED,
];

/// The catalogue's entry.
pub const ENTRY: Entry = Entry { declaration: || declaration(5), options: OPTIONS, open: Ok(open) };

fn declaration(pairs: u64) -> Declaration {
    Declaration {
        name: "qwen3-end-to-end".to_owned(),
        title: "short generations, device-wide, beside an unmodified framework".to_owned(),
        workload: "fixed synthetic ids; every prompt length with every number of outputs; request batch 1; end of \
                   sequence ignored"
            .to_owned(),
        comparison: Comparison::SameWeightsAndFormat,
        gate_class: GateClass::State,
        gate: "the full state at every step: K/V of every layer, all logits, the greedy token; every run repeats its \
               validated ids, and ids and counts of both arms are kept"
            .to_owned(),
        boundary: boundary(),
        metrics: metrics(),
        warmups: 2,
        pairs,
        estimator: Estimator::MedianOfPairedRatios,
        acceptance: Acceptance::None,
        disclosures: vec![
            "fixed synthetic ids, not text".to_owned(),
            "a whole-backend result, not an ablation".to_owned(),
            "warmed token-id-to-token-id, not cold start or serving latency".to_owned(),
        ],
    }
}

fn open(setup: &Setup) -> Result<Box<dyn Study>, OpenError> {
    let lengths = |name| -> Result<Vec<usize>, OpenError> {
        let mut all: Vec<usize> = setup.chosen.counts(name)?.iter().map(|&n| n as usize).collect();
        all.sort_unstable();
        all.dedup();
        Ok(all)
    };
    let (inputs, outputs) = (lengths("prompts")?, lengths("outputs")?);
    let longest = |all: &[usize]| all.last().copied().unwrap_or(0);
    let opened = setup::open(setup, longest(&inputs) + longest(&outputs))?;
    let pairs = setup.chosen.count("trials")?;
    let chunk = setup.chosen.count("chunk")? as usize;
    let vocabulary = opened.candidate.config().vocabulary;
    let name = |tokens: usize| format!("{tokens} ids");
    let prompts = inputs.iter().map(|&tokens| {
        let ids = synthetic_ids(setup.seed, tokens, vocabulary);
        (name(tokens), Prompt { name: name(tokens), ids, next: Vec::new() })
    });
    let rows = inputs.iter().flat_map(|&tokens| outputs.iter().map(move |&out| (tokens, out)));
    let points = rows
        .map(|(tokens, outputs)| Point { prompt: name(tokens), outputs, chunk: Some(chunk) })
        .collect();
    let mut declaration = declaration(pairs);
    declaration.disclosures.extend(opened.disclosures);
    if opened.candidate.is_packed() || opened.other_file {
        declaration.comparison = Comparison::LosslessWeightStorage;
    }
    let classes = opened.opponents.iter().map(|o| o.arm.gate);
    declaration.gate_class = classes.min().unwrap_or(GateClass::None);
    Ok(Box::new(GenerationStudy::new(Parts {
        declaration,
        device: setup.device.clone(),
        candidate: opened.candidate,
        settings: opened.settings,
        opponents: opened.opponents,
        reference: opened.reference,
        prompts: prompts.collect(),
        documents: Vec::new(),
        checkpoint: opened.checkpoint,
        stages: vec![Stage {
            name: "generations",
            scope: Scope::Measurement,
            pairs,
            selects: false,
            points,
        }],
        series: opened.series,
        interval: 1,
        forced: false,
        agreed: opened.agreed,
        streams: false,
    })))
}
