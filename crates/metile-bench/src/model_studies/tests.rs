//! Studies of a tiny model beside a rival that is another copy of it, honest or not.

use super::candidate::{Candidate, CandidateSetup, NAME};
use super::chunked_prefill;
use super::generation::{GenerationStudy, Opponent, Parts, Stage};
use super::rival::{Generation, LayerState, Rival, Row};
use super::tokens_gate::{Agreed, AgreedPrompt};
use super::workload::Prompt;
use crate::schema::write::Destination;
use crate::schema::{
    Arm, Comparison, Figure, Gate, GateClass, Limits, Report, Role, Scope, Status,
};
use crate::study::driver::{self, Run};
use crate::study::{Refusal, Study, refusal_rules as rules};
use metile::Device;
use metile_models::checkpoint::Checkpoint;
use metile_models::decoder::{RopeFrequencies, WeightType};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// What is wrong with a rival.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fault {
    None,
    /// A value of the last layer's cache, at a position.
    Cache(usize),
    /// A value of a layer's new slot, from this many steps on.
    Slot(usize),
    /// A logit, from this many steps on.
    Logit(usize),
    /// A logit is not a number.
    NotANumber,
    /// The greedy token, from this many steps on.
    Token(usize),
    /// Timed runs after so many give another token.
    TimedToken(usize),
    /// Timed runs leave a cache that is too short.
    ShortCache,
    /// A token fewer than asked for.
    ShortOutput,
    /// State and logits are rounded to bf16, as of a model in 16 bits.
    Rounded,
}

fn round(values: &mut [f32]) {
    values.iter_mut().for_each(|v| *v = half::bf16::from_f32(*v).to_f32());
}

/// Another copy of the model.
pub(super) struct Twin {
    pub(super) model: Candidate,
    pub(super) fault: Fault,
    pub(super) class: GateClass,
    steps: usize,
    timed: usize,
}

impl Twin {
    fn row(&self) -> Result<Row, Refusal> {
        let mut row = self.model.row()?;
        match self.fault {
            Fault::Logit(from) if self.steps >= from => row.logits[3] += 0.05,
            Fault::NotANumber => row.logits[3] = f32::NAN,
            Fault::Rounded => round(&mut row.logits),
            Fault::Token(from) if self.steps >= from => row.token = (row.token + 1) % 256,
            _ => {}
        }
        Ok(row)
    }
}

impl Rival for Twin {
    fn arm(&self) -> Arm {
        let device = Device::cpu();
        let mut arm = self.model.arm(&device, Role::Baseline, self.class, BTreeMap::new());
        arm.name = "twin".to_owned();
        arm
    }
    fn reset(&mut self) -> Result<(), Refusal> {
        self.steps = 0;
        self.model.poison()
    }
    fn prefill(&mut self, ids: &[u32]) -> Result<Row, Refusal> {
        self.model.prefill(ids)?;
        self.row()
    }
    fn step(&mut self, token: u32) -> Result<(Row, Vec<LayerState>), Refusal> {
        self.model.step(token)?;
        self.steps += 1;
        let at = self.model.cached() - 1;
        let layers = 0..self.model.config().layers;
        let mut slots = layers
            .map(|layer| self.model.key_values(layer, at..at + 1))
            .collect::<Result<Vec<_>, _>>()?;
        if let Fault::Slot(from) = self.fault
            && self.steps >= from
        {
            slots[1].values[5] += 0.05;
        }
        if self.fault == Fault::Rounded {
            for slot in &mut slots {
                round(&mut slot.keys);
                round(&mut slot.values);
            }
        }
        Ok((self.row()?, slots))
    }
    fn key_values(&mut self, layer: usize, positions: Range<usize>) -> Result<LayerState, Refusal> {
        let mut state = self.model.key_values(layer, positions.clone())?;
        if let Fault::Cache(at) = self.fault
            && layer + 1 == self.model.config().layers
            && positions.contains(&at)
        {
            state.keys[(at - positions.start) * self.model.config().head_dim] += 0.05;
        }
        if self.fault == Fault::Rounded {
            round(&mut state.keys);
            round(&mut state.values);
        }
        Ok(state)
    }
    fn generate(
        &mut self,
        prompt: &[u32],
        outputs: usize,
        fed: Option<&[u32]>,
    ) -> Result<Generation, Refusal> {
        let mut made = self.model.generate(prompt, outputs, fed)?;
        self.timed += 1;
        match self.fault {
            Fault::TimedToken(after) if self.timed > after => made.ids[outputs - 1] ^= 1,
            Fault::ShortCache => made.cache_entries -= 1,
            Fault::ShortOutput => {
                made.ids.pop();
                made.stamps_s.pop();
            }
            _ => {}
        }
        Ok(made)
    }
    fn stream(&mut self, prompt: &[u32], outputs: usize) -> Result<Option<Generation>, Refusal> {
        Ok(Some(self.model.generate(prompt, outputs, None)?))
    }
}

fn checkpoint() -> Checkpoint {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../metile-models/tests/data");
    Checkpoint::open(&folder.join("tiny-qwen3")).unwrap()
}

pub(super) fn model(weights: WeightType, pack: bool) -> Candidate {
    let (checkpoint, device) = (checkpoint(), Device::cpu());
    let setup = CandidateSetup {
        checkpoint: &checkpoint,
        device: &device,
        weights,
        capacity: 64,
        pack,
        rope_frequencies: RopeFrequencies::F32,
    };
    Candidate::load(&setup).unwrap()
}

pub(super) fn twin(weights: WeightType, fault: Fault) -> Twin {
    Twin { model: model(weights, false), fault, class: GateClass::State, steps: 0, timed: 0 }
}

pub(super) fn prompt(name: &str, tokens: usize, factor: u32) -> Prompt {
    let ids: Vec<u32> = (0..tokens as u32 + 8).map(|n| n * factor % 251).collect();
    Prompt {
        name: name.to_owned(),
        ids: ids[..tokens].to_vec(),
        next: ids[tokens..tokens + 5].to_vec(),
    }
}

pub(super) fn described(candidate: &Candidate) -> crate::schema::Checkpoint {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../metile-models/tests/data/tiny-qwen3");
    let origin = super::workload::Origin::read(&folder).unwrap();
    origin.checkpoint(candidate.config(), "float32", candidate.weight_bytes(), Vec::new())
}

/// The long-document study, shrunk: chunks of 8 and 16, 20 tokens in and 3 out, then 24 and 6.
fn parts(candidate: Candidate, rival: Twin) -> Parts {
    let sizes = chunked_prefill::Sizes {
        tuning: (20, 3),
        tuning_pairs: 2,
        held_out: (24, 6),
        pairs: 2,
        interval: 4,
    };
    let prompts = [prompt("tuning", 20, 37), prompt("held-out", 24, 61)];
    Parts {
        declaration: chunked_prefill::declaration(&sizes),
        device: Device::cpu(),
        checkpoint: described(&candidate),
        candidate,
        settings: BTreeMap::new(),
        opponents: vec![Opponent::new(Box::new(rival))],
        reference: None,
        prompts: prompts.map(|p| (p.name.clone(), p)).into(),
        documents: Vec::new(),
        stages: chunked_prefill::stages(&sizes, &[8, 16]),
        series: "tiny".to_owned(),
        interval: 4,
        forced: true,
        agreed: None,
        streams: true,
    }
}

pub(super) fn report(study: &mut dyn Study) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let interrupted = AtomicBool::new(false);
    let unknown = || Figure::missing("a test");
    let limits = || Limits {
        read_bytes_per_s: unknown(),
        copy_bytes_per_s: unknown(),
        flop_per_s: unknown(),
        allowance: 0.2,
    };
    let run = Run {
        output: Destination::new(&folder.path().join("report.json")).unwrap(),
        seed: 1,
        device: "cpu".to_owned(),
        options: BTreeMap::new(),
        interrupted: &interrupted,
        progress: false,
        probe: &limits,
    };
    driver::run(study, run).unwrap().report
}

fn run(parts: Parts) -> Report {
    report(&mut GenerationStudy::new(parts))
}

fn with(fault: Fault) -> Report {
    run(parts(model(WeightType::F32, false), twin(WeightType::F32, fault)))
}

fn gate<'r>(report: &'r Report, phase: usize, case: usize, part: &str) -> &'r Gate {
    let gates = &report.phases[phase].cases[case].gates;
    gates.iter().find(|g| g.name.contains(part)).unwrap_or_else(|| panic!("{part}: {gates:#?}"))
}

#[test]
fn an_honest_pair_goes_through_both_phases() {
    let report = with(Fault::None);
    assert_eq!(report.status, Status::Complete, "{:?}", report.failure);
    assert_eq!(report.phases.len(), 2);
    assert_eq!(report.phases[0].scope, Scope::Tuning);
    assert_eq!(report.phases[1].scope, Scope::HeldOut);
    // Every chunk is validated before any tuning time, and the chosen one again on the other prompt.
    assert_eq!(report.phases[0].cases.len(), 2);
    assert_eq!(report.phases[1].cases.len(), 1);
    let chosen = report.phases[0].selection.as_ref().unwrap();
    assert_eq!((chosen.arm.as_str(), chosen.metric.as_str()), (NAME, "ttft"));
    for (n, boundaries) in [(0, 3), (1, 2)] {
        let gate = gate(&report, 0, n, "every chunk boundary");
        assert_eq!(gate.checked["boundaries"], boundaries);
        assert_eq!(gate.checked["layers"], 3);
        // Keys and values of two heads of 32, of all prefixes.
        let positions: u64 = if n == 0 { 8 + 16 + 20 } else { 16 + 20 };
        assert_eq!(gate.checked["elements"], 3 * 2 * 2 * 32 * positions);
    }
    let held_out = &report.phases[1].cases[0];
    let whole = gate(&report, 1, 0, "whole prompt in one call");
    assert_eq!(whole.checked["elements"], 3 * 2 * 2 * 32 * 24 + 256);
    let steps = gate(&report, 1, 0, "generated: all logits");
    assert_eq!(steps.checked["steps"], 5);
    assert_eq!(steps.checked["elements"], 5 * (256 + 3 * 2 * 2 * 32));
    // The whole prefix again at output 4 and at the last; the first is part of the prompt's check.
    assert_eq!(gate(&report, 1, 0, "generated: the whole").checked["checks"], 2);
    assert_eq!(gate(&report, 1, 0, "teacher-forced: all logits").checked["steps"], 5);
    let tokens = gate(&report, 1, 0, "generated: the greedy token");
    assert!(tokens.observed["distinct_ids"].value.unwrap() >= 1.0);
    for trial in &held_out.trials {
        assert_eq!(trial.verified["tokens"], 6);
        assert_eq!(trial.verified["cache_entries"], 29);
        let sum = trial.values["ttft"] + trial.values["decode"];
        assert!((sum - trial.values["total"]).abs() < 1e-9);
    }
    let counts = |n: usize| report.phases[n].cases.iter().map(|c| c.trials.len()).sum::<usize>();
    assert_eq!((counts(0), counts(1)), (8, 4));
    assert_eq!(held_out.warmups, 2);
    // Both arms' exact ids, in and out.
    let ids = |name: &str| &report.subject.sequences.iter().find(|s| s.name == name).unwrap().ids;
    assert_eq!(ids("held-out").len(), 24);
    for trial in &held_out.trials {
        assert_eq!(ids(trial.output_sequence.as_ref().unwrap()).len(), 6);
    }
    let streams: Vec<_> = report.subject.unpaired.iter().filter(|u| u.unit == "s").collect();
    assert_eq!(streams.len(), 2);
    assert!(streams[0].label.contains("unpaired"));
    assert!(!report.fingerprints.kernels.is_empty());
}

#[test]
fn whatever_differs_in_the_state_fails_the_gate_and_leaves_no_time() {
    for (fault, place) in [
        // Position 7 belongs to the first chunk, 22 to the end of the held-out prompt alone.
        (Fault::Cache(7), "chunk boundary"),
        (Fault::Cache(22), "chunk boundary"),
        (Fault::Slot(2), "layer 1, values, at output 3"),
        (Fault::Logit(0), "logits, after the whole prompt"),
        (Fault::Logit(2), "logits, at output 3"),
        (Fault::NotANumber, "logits"),
        (Fault::Token(0), "the greedy token"),
        (Fault::Token(1), "the greedy token"),
    ] {
        let report = with(fault);
        let failure = report.failure.as_ref().unwrap_or_else(|| panic!("{fault:?} passed"));
        assert_eq!(failure.rule, rules::GATE, "{fault:?}");
        let first = failure.first_mismatch.as_ref().unwrap();
        assert!(first.place.contains(place), "{fault:?}: {first:?}");
        assert!(report.phases.iter().flat_map(|p| &p.cases).all(|c| c.trials.is_empty()));
        // What fails in the second phase takes the first one's times with it.
        let discarded = if fault == Fault::Cache(22) { 8 } else { 0 };
        assert_eq!(failure.discarded_trials, discarded, "{fault:?}");
    }
}

#[test]
fn a_wrong_step_is_found_by_the_whole_prefix_as_well() {
    // Position 21 is written by the second output of the tuning phase.
    let report = with(Fault::Cache(21));
    let failure = report.failure.unwrap();
    assert!(failure.first_mismatch.unwrap().place.contains("at output 3"));
}

#[test]
fn timed_runs_repeat_their_validated_ids_and_counts() {
    for (fault, discarded) in [
        // Warm-ups count: three timed runs of a rival are two warm-ups and a trial.
        (Fault::TimedToken(0), 0),
        (Fault::TimedToken(3), 2),
        (Fault::ShortCache, 0),
        (Fault::ShortOutput, 0),
    ] {
        let report = with(fault);
        let failure = report.failure.as_ref().unwrap_or_else(|| panic!("{fault:?} passed"));
        assert_eq!(failure.rule, rules::OUTPUTS, "{fault:?}");
        assert_eq!(failure.arm.as_deref(), Some("twin"));
        assert!(failure.discarded_trials >= discarded, "{fault:?}: {failure:?}");
        assert!(report.phases.iter().flat_map(|p| &p.cases).all(|c| c.trials.is_empty()));
    }
}

#[test]
fn packed_weights_are_labelled_with_both_counts() {
    let candidate = model(WeightType::F32, true);
    assert!(candidate.is_packed());
    let parts = parts(candidate, twin(WeightType::F32, Fault::None));
    let report = run(parts);
    assert_eq!(report.status, Status::Complete, "{:?}", report.failure);
    let checkpoint = &report.subject.checkpoints[0];
    let g = &checkpoint.geometry;
    let layer =
        g.hidden * g.head_dim * (2 * g.heads + 2 * g.kv_heads) + 3 * g.hidden * g.intermediate;
    let scopes: Vec<_> =
        checkpoint.storage.iter().map(|s| (s.scope.as_str(), s.values, s.original_bytes)).collect();
    assert_eq!(
        scopes,
        [
            ("decode_projections", g.layers * layer, 4 * g.layers * layer),
            ("vocabulary_head", g.vocabulary * g.hidden, 4 * g.vocabulary * g.hidden)
        ]
    );
    assert!(checkpoint.storage.iter().all(|s| s.stored_bytes * 2 == s.original_bytes));
    let arm = report.arms.iter().find(|arm| arm.name == NAME).unwrap();
    assert!(arm.settings["decode_weights"].starts_with("lossless_weight_storage"));
}

#[test]
fn sixteen_bits_are_set_against_the_other_arms_own_errors() {
    let sixteen = |fault| {
        let candidate = model(WeightType::BF16, false);
        let mut parts = parts(candidate, twin(WeightType::BF16, fault));
        parts.reference = Some(Box::new(twin(WeightType::F32, Fault::None)));
        run(parts)
    };
    let report = sixteen(Fault::Rounded);
    assert_eq!(report.status, Status::Complete, "{:?}", report.failure);
    let errors = gate(&report, 1, 0, "errors of K, V and logits");
    assert!(errors.observed["largest_rms_ratio"].value.unwrap() < 0.5);
    assert!(errors.observed["rms_of_other_arm"].value.unwrap() > 1e-4);
    // Three layers' keys and values and the logits, at the prompt and at five steps.
    assert_eq!(errors.checked["comparisons"], 6 * 7);
    assert!(gate(&report, 1, 0, "top-2 gap").observed["decided_share"].value.is_some());
    assert!(!gate(&report, 1, 0, "2e-2").decides);
    // Fed its own ids, a library may choose otherwise where the reference leaves it open; that is counted.
    let share = |report: &Report| {
        let last = report.phases.len() - 1;
        gate(report, last, 0, "top-2 gap").observed["decided_share"].value.unwrap()
    };
    let chosen = |report: &Report| -> u64 {
        report.phases[1].cases[0]
            .trials
            .iter()
            .map(|trial| trial.verified["chosen_otherwise"])
            .sum()
    };
    assert_eq!(chosen(&report), 0);
    let other = sixteen(Fault::TimedToken(2));
    match other.failure {
        None => assert!(share(&other) < 1.0 && chosen(&other) > 0),
        Some(ref failure) => {
            assert_eq!((share(&other), failure.rule.as_str()), (1.0, rules::OUTPUTS))
        }
    }
    // A rival that is exact where the candidate is not makes the candidate's errors too large.
    let mut parts = parts(model(WeightType::BF16, false), twin(WeightType::F32, Fault::None));
    parts.reference = Some(Box::new(twin(WeightType::F32, Fault::None)));
    let report = run(parts);
    assert_eq!(report.failure.unwrap().rule, rules::GATE);
}

#[test]
fn arms_without_state_agree_on_agreed_prompts() {
    let agreed = |greedy_ids: Vec<u32>| Agreed {
        prompts: vec![AgreedPrompt { prompt_ids: vec![9, 8, 7], greedy_ids }],
    };
    let run = |fault, agreed| {
        let mut rival = twin(WeightType::F32, fault);
        rival.class = GateClass::Tokens;
        let mut parts = parts(model(WeightType::F32, false), rival);
        parts.agreed = agreed;
        run(parts)
    };
    let ids = model(WeightType::F32, false).generate(&[9, 8, 7], 4, None).unwrap().ids;
    let report = run(Fault::None, Some(agreed(ids.clone())));
    assert_eq!(report.status, Status::Complete, "{:?}", report.failure);
    assert_eq!(report.phases[1].cases[0].gate_class, GateClass::Tokens);
    let divergence = report.subject.unpaired.iter().find(|u| u.label.contains("differ")).unwrap();
    assert!(divergence.value.reason.as_ref().unwrap().contains("the same"));
    let mut wrong = ids.clone();
    wrong[3] ^= 1;
    assert_eq!(run(Fault::None, Some(agreed(wrong))).failure.unwrap().rule, rules::GATE);
    assert_eq!(run(Fault::TimedToken(0), Some(agreed(ids))).failure.unwrap().rule, rules::GATE);
    // Nothing to agree on is no gate.
    assert_eq!(run(Fault::None, None).failure.unwrap().rule, rules::GATE);
}

#[test]
fn the_full_definition_is_the_specifications() {
    let declaration = chunked_prefill::declaration(&chunked_prefill::Sizes::FULL);
    for part in ["5119 valid cache entries", "4096…5118", "2048 tokens in, 8 out"] {
        assert!(declaration.workload.contains(part), "{}", declaration.workload);
    }
    assert_eq!((declaration.warmups, declaration.pairs), (2, 5));
    for part in [
        "one document",
        "held-out means chunk selection only",
        "five samples of one session establish neither parity nor a win",
        "a whole-backend result, not an ablation",
        "warmed token-id-to-token-id, not cold start or serving latency",
    ] {
        assert!(declaration.disclosures.iter().any(|d| d == part), "{part}");
    }
    assert_eq!(declaration.comparison, Comparison::SameWeightsAndFormat);
    let stages = chunked_prefill::stages(&chunked_prefill::Sizes::FULL, &[128, 256, 512, 1024]);
    let [tuning, held_out]: [Stage; 2] = stages.try_into().unwrap();
    assert!(tuning.selects && !held_out.selects);
    assert_eq!(tuning.points.len(), 4);
    assert_eq!(held_out.points[0].chunk, None);
}

#[test]
fn four_chunks_always_run_and_larger_ones_on_cuda() {
    let chunks = chunked_prefill::chunks;
    assert_eq!(chunks(&[1024, 128, 256, 512], "cpu").unwrap(), [128, 256, 512, 1024]);
    assert!(chunks(&[128, 256, 512], "cpu").unwrap_err().to_string().contains("1024"));
    assert!(chunks(&[128, 256, 512, 1024, 2048], "cpu").is_err());
    assert_eq!(chunks(&[128, 256, 512, 1024, 2048], "cuda").unwrap().len(), 5);
    assert!(chunks(&[64, 128, 256, 512, 1024], "cuda").is_err());
}
