//! `qwen3-chunked-prefill`: a long document, read in chunks and continued. One document chooses the chunk, another
//! compares.

use super::generation::{GenerationStudy, Parts, Point, Stage, boundary, metrics};
use super::setup::{self, Opened};
use super::workload::{Text, check_different};
use crate::schema::{Acceptance, Comparison, Declaration, Estimator, GateClass, Scope};
use crate::study::{Entry, OpenError, OptionKind, OptionSpec, Setup, Study};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Chunks that always run.
const CHUNKS: [u64; 4] = [128, 256, 512, 1024];

const fn count(name: &'static str, default: &'static str, help: &'static str) -> OptionSpec {
    OptionSpec { name, kind: OptionKind::Count, default: Some(default), help }
}

const fn path(name: &'static str, default: &'static str, help: &'static str) -> OptionSpec {
    OptionSpec { name, kind: OptionKind::Path, default: Some(default), help }
}

const OPTIONS: &[OptionSpec] = &[
    setup::MODEL,
    setup::DTYPE,
    setup::ATTENTION,
    setup::PROJECTION,
    setup::TILE,
    OptionSpec {
        name: "chunk-sizes",
        kind: OptionKind::Counts,
        default: Some("128 256 512 1024"),
        help: "Chunks to choose from: these four, and on cuda larger ones beside them",
    },
    count("tuning-prompt-tokens", "2048", "Prompt of the phase that chooses the chunk"),
    count("tuning-output-tokens", "8", "Outputs of that phase"),
    count("tuning-trials", "5", "Pairs of each chunk in that phase"),
    count("prompt-tokens", "4096", "Prompt of the held-out phase"),
    count("output-tokens", "1024", "Outputs of the held-out phase"),
    count("trials", "5", "Pairs of the held-out phase"),
    count("cache-check-interval", "64", "Outputs between comparisons of the whole K/V prefix"),
    setup::PACK,
    setup::ROPE,
    path(
        "tuning-document",
        "reports/documents/language-and-compiler.txt",
        "Text of the tuning prompt",
    ),
    path(
        "document",
        "reports/documents/cpu-decoder-and-measuring.txt",
        "Text of the held-out prompt",
    ),
    setup::BASELINES,
    setup::BASELINE_CHECKPOINT,
    setup::VARIANT,
    setup::AGREED,
];

/// The catalogue's entry.
pub const ENTRY: Entry =
    Entry { declaration: || declaration(&Sizes::FULL), options: OPTIONS, open: Ok(open) };

/// Numbers of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub tuning: (usize, usize),
    pub tuning_pairs: u64,
    pub held_out: (usize, usize),
    pub pairs: u64,
    pub interval: usize,
}

impl Sizes {
    pub(super) const FULL: Sizes = Sizes {
        tuning: (2048, 8),
        tuning_pairs: 5,
        held_out: (4096, 1024),
        pairs: 5,
        interval: 64,
    };

    fn read(setup: &Setup) -> Result<Sizes, OpenError> {
        let count = |name: &str| setup.chosen.count(name);
        let size = |name: &str| count(name).map(|n| n as usize);
        Ok(Sizes {
            tuning: (size("tuning-prompt-tokens")?, size("tuning-output-tokens")?),
            tuning_pairs: count("tuning-trials")?,
            held_out: (size("prompt-tokens")?, size("output-tokens")?),
            pairs: count("trials")?,
            interval: size("cache-check-interval")?,
        })
    }

    /// Cache entries of the longer workload.
    fn capacity(&self) -> usize {
        let entries = |(prompt, outputs): (usize, usize)| prompt + outputs;
        entries(self.tuning).max(entries(self.held_out))
    }
}

pub(super) fn declaration(sizes: &Sizes) -> Declaration {
    let Sizes { tuning, held_out, pairs, interval, .. } = *sizes;
    let entries = held_out.0 + held_out.1 - 1;
    Declaration {
        name: "qwen3-chunked-prefill".to_owned(),
        title: "a long document read in chunks and continued, beside an unmodified framework"
            .to_owned(),
        workload: format!(
            "request batch 1; tuning: {} tokens in, {} out, every chunk; held-out: another document, {} in, {} out, the \
             chunk of the least median time to first token, the smaller one of equals. No chat template, no special \
             tokens, end of sequence ignored. {entries} valid cache entries after a held-out run, the later ones \
             written at {}…{}, checked after every trial",
            tuning.0,
            tuning.1,
            held_out.0,
            held_out.1,
            held_out.0,
            entries - 1
        ),
        comparison: Comparison::SameWeightsAndFormat,
        gate_class: GateClass::State,
        gate: format!(
            "rtol = atol = 1e-3 in FP32: K/V of every layer at every chunk boundary; then the whole prompt in one call; \
             every generated step: all logits, the greedy token, the new K/V slots; the whole prefix at the first, \
             every {interval}th and the last output. On synthetic weights a second time, on the document's own next \
             tokens. 16-bit types by their errors against FP32. All chunks before any tuning time, the chosen one \
             again on the held-out document; every run repeats its validated ids"
        ),
        boundary: boundary(),
        metrics: metrics(),
        warmups: 2,
        pairs,
        estimator: Estimator::MedianOfPairedRatios,
        acceptance: Acceptance::None,
        disclosures: vec![
            "one document".to_owned(),
            "held-out means chunk selection only".to_owned(),
            format!(
                "{} samples of one session establish neither parity nor a win",
                in_words(pairs)
            ),
            "a whole-backend result, not an ablation".to_owned(),
            "warmed token-id-to-token-id, not cold start or serving latency".to_owned(),
        ],
    }
}

/// Small numbers in words.
fn in_words(n: u64) -> String {
    const WORDS: [&str; 10] =
        ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];
    WORDS.get(n as usize).map_or_else(|| n.to_string(), |word| (*word).to_owned())
}

/// The chunks to choose from.
pub(super) fn chunks(asked: &[u64], device: &str) -> Result<Vec<usize>, OpenError> {
    if let Some(lacking) = CHUNKS.iter().find(|size| !asked.contains(size)) {
        return Err(OpenError::Missing(format!(
            "--chunk-sizes lacks {lacking}: 128, 256, 512 and 1024 always run"
        )));
    }
    if let Some(more) = asked.iter().find(|size| !CHUNKS.contains(size))
        && (device != "cuda" || *more < 1024)
    {
        return Err(OpenError::Missing(format!(
            "--chunk-sizes {more}: beside 128, 256, 512 and 1024 there are larger ones, on cuda"
        )));
    }
    let mut sizes: Vec<usize> = asked.iter().map(|&size| size as usize).collect();
    sizes.sort_unstable();
    sizes.dedup();
    Ok(sizes)
}

fn open(setup: &Setup) -> Result<Box<dyn Study>, OpenError> {
    let sizes = Sizes::read(setup)?;
    let chunks = chunks(&setup.chosen.counts("chunk-sizes")?, setup.device.name())?;
    let (_, checkpoint) = setup::checkpoint(setup)?;
    let tokenizer = setup::tokenizer(&checkpoint)?;
    let text = |name: &str| {
        let path = setup.chosen.path(name)?.unwrap_or_else(PathBuf::new);
        Text::read(&path, &tokenizer)
    };
    let (tuning, held_out) = (text("tuning-document")?, text("document")?);
    check_different(&tuning, &held_out)?;
    let opened = setup::open(setup, sizes.capacity())?;
    // What follows the prompt is needed where the second gate is.
    let after = |outputs: usize| if opened.synthetic { outputs - 1 } else { 0 };
    let prompts = [
        tuning.prompt("tuning", sizes.tuning.0, after(sizes.tuning.1))?,
        held_out.prompt("held-out", sizes.held_out.0, after(sizes.held_out.1))?,
    ];
    let documents = vec![
        tuning.document(Scope::Tuning, "tuning"),
        held_out.document(Scope::HeldOut, "held-out"),
    ];
    let parts = parts(setup, opened, &sizes, &chunks);
    let prompts: BTreeMap<_, _> = prompts.into_iter().map(|p| (p.name.clone(), p)).collect();
    Ok(Box::new(GenerationStudy::new(Parts { prompts, documents, ..parts })))
}

fn parts(setup: &Setup, opened: Opened, sizes: &Sizes, chunks: &[usize]) -> Parts {
    let mut declaration = declaration(sizes);
    declaration.disclosures.extend(opened.disclosures);
    if opened.candidate.is_packed() || opened.other_file {
        declaration.comparison = Comparison::LosslessWeightStorage;
    }
    let classes = opened.opponents.iter().map(|o| o.arm.gate);
    declaration.gate_class = classes.min().unwrap_or(GateClass::None);
    Parts {
        declaration,
        device: setup.device.clone(),
        forced: opened.synthetic,
        candidate: opened.candidate,
        settings: opened.settings,
        opponents: opened.opponents,
        reference: opened.reference,
        prompts: BTreeMap::new(),
        documents: Vec::new(),
        checkpoint: opened.checkpoint,
        stages: stages(sizes, chunks),
        series: opened.series,
        interval: sizes.interval,
        agreed: opened.agreed,
        streams: true,
    }
}

/// Tuning over `chunks`, then the held-out phase with the one that was chosen.
pub(super) fn stages(sizes: &Sizes, chunks: &[usize]) -> Vec<Stage> {
    let point = |prompt: &str, outputs, chunk| Point { prompt: prompt.to_owned(), outputs, chunk };
    let tuning = chunks.iter().map(|&chunk| point("tuning", sizes.tuning.1, Some(chunk))).collect();
    vec![
        Stage {
            name: "tuning",
            scope: Scope::Tuning,
            pairs: sizes.tuning_pairs,
            selects: true,
            points: tuning,
        },
        Stage {
            name: "held-out",
            scope: Scope::HeldOut,
            pairs: sizes.pairs,
            selects: false,
            points: vec![point("held-out", sizes.held_out.1, None)],
        },
    ]
}
