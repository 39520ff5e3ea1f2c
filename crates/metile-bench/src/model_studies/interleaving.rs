//! `qwen3-interleaving`: a request arrives while another generates. Three policies share the device out.

mod policy;
#[cfg(test)]
mod tests;

use super::candidate::{Candidate, NAME};
use super::generation::{Opponent, least_prefill_flop};
use super::setup::{self, Opened};
use super::state_gate::{Checks, FP32_TOLERANCE, full_state};
use super::workload::{Prompt, Text, check_different};
use crate::fingerprint;
use crate::gate::{Differences, same_tokens};
use crate::schema::{
    Acceptance, Arm, Boundary, Clock, Comparison, Declaration, Document, Estimator, Fingerprints,
    Gate, GateClass, Metric, Phase, Role, Scope, Sequence, Subject, Work,
};
use crate::study::{
    CasePlan, Entry, OpenError, OptionKind, OptionSpec, PhasePlan, Ready, Refusal, Repeats, Setup,
    Study, Timed, Turn, Verified, refusal_rules as rules,
};
use policy::{Outcome, Policy, Request};
use std::collections::BTreeMap;
use std::path::PathBuf;

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
    count("prompt-tokens", "4096", "Prompt of each request"),
    count("output-tokens", "1024", "Outputs of each request"),
    count("arrival-output", "64", "The output of the first request after which the second arrives"),
    count("chunk", "512", "Rows of a chunk of a prompt"),
    count("trials", "5", "Rounds of the three policies"),
    count("cache-check-interval", "64", "Outputs between comparisons of the whole K/V prefix"),
    path(
        "document",
        "reports/documents/cpu-decoder-and-measuring.txt",
        "Text of the first request",
    ),
    path(
        "arriving-document",
        "reports/documents/language-and-compiler.txt",
        "Text of the request that arrives",
    ),
    setup::PACK,
    setup::ROPE,
    setup::BASELINES,
    setup::BASELINE_CHECKPOINT,
    setup::VARIANT,
    setup::AGREED,
];

/// The catalogue's entry.
pub const ENTRY: Entry =
    Entry { declaration: || declaration(5, 4096, 1024), options: OPTIONS, open: Ok(open) };

fn declaration(rounds: u64, prompt: usize, outputs: usize) -> Declaration {
    let metric = |name: &str, boundary: &str| Metric {
        name: name.to_owned(),
        unit: "s".to_owned(),
        clock: Clock::Wall,
        boundary: boundary.to_owned(),
    };
    let between = |which: &str| {
        format!("{which} of the times from one id of the first request on the host to its next")
    };
    let texts = |all: &[&str]| all.iter().map(|&text| text.to_owned()).collect();
    Declaration {
        name: "qwen3-interleaving".to_owned(),
        title: "a request that arrives while another generates: eager, chunked, fifo".to_owned(),
        workload: format!(
            "two independent requests over the same weights, {prompt} tokens in and {outputs} out each. eager: the \
             arriving prompt is read at once, then both take steps in turn; chunked: a chunk of it and a step of the \
             first in turn; fifo: the first is finished before"
        ),
        comparison: Comparison::SameWeightsAndFormat,
        gate_class: GateClass::State,
        gate: "each request alone against the framework, full state at every step; under every policy both have the ids, \
               the whole K/V and the last logits that they have alone, bit for bit"
            .to_owned(),
        boundary: Boundary {
            starts: "before the logical reset of both caches".to_owned(),
            ends: "when the last id of both is on the host".to_owned(),
            includes: texts(&["both prompts", "all steps", "argmax on the device", "synchronization"]),
            excludes: texts(&["loading", "recording", "allocation", "tokenization", "comparisons"]),
        },
        metrics: vec![
            metric("makespan", "from before the reset of both caches to the last id of both"),
            metric("arriving_ttft", "from the arrival of the second request to its first id"),
            metric("inter_token_p50", &between("the median")),
            metric("inter_token_p95", &between("the 95th of a hundred (nearest rank)")),
            metric("inter_token_p99", &between("the 99th of a hundred (nearest rank)")),
            metric("inter_token_max", &between("the greatest")),
        ],
        warmups: 1,
        pairs: rounds,
        estimator: Estimator::MedianOfPairedRatios,
        acceptance: Acceptance::None,
        disclosures: vec![
            "fifo is the baseline of ratios; no other framework is timed".to_owned(),
            "two requests, one arrival, not a serving load".to_owned(),
        ],
    }
}

/// What both requests must come to, whatever the policy.
struct Alone {
    ids: Vec<u32>,
    state: String,
}

struct Interleaving {
    declaration: Declaration,
    requests: [Request; 2],
    opponent: Option<Opponent>,
    documents: Vec<Document>,
    checkpoint: crate::schema::Checkpoint,
    settings: BTreeMap<String, String>,
    device: metile::Device,
    chunk: usize,
    interval: usize,
    arrival: usize,
    rounds: u64,
    series: String,
    alone: Vec<Alone>,
    last: Option<Outcome>,
}

fn open(setup: &Setup) -> Result<Box<dyn Study>, OpenError> {
    let size = |name: &str| setup.chosen.count(name).map(|n| n as usize);
    let (prompt, outputs) = (size("prompt-tokens")?, size("output-tokens")?);
    let arrival = size("arrival-output")?;
    if arrival >= outputs {
        return Err(OpenError::Missing(format!(
            "--arrival-output {arrival}: the first request has {outputs} outputs, and the second arrives before its \
             last"
        )));
    }
    let (_, checkpoint) = setup::checkpoint(setup)?;
    let tokenizer = setup::tokenizer(&checkpoint)?;
    let text =
        |name: &str| Text::read(&setup.chosen.path(name)?.unwrap_or_else(PathBuf::new), &tokenizer);
    let texts = [text("document")?, text("arriving-document")?];
    check_different(&texts[0], &texts[1])?;
    let names = ["first request", "arriving request"];
    let prompts = [texts[0].prompt(names[0], prompt, 0)?, texts[1].prompt(names[1], prompt, 0)?];
    let documents = vec![
        texts[0].document(Scope::Measurement, names[0]),
        texts[1].document(Scope::Measurement, names[1]),
    ];
    let mut opened = setup::open(setup, prompt + outputs)?;
    let states = opened.opponents.iter().filter(|o| o.arm.gate == GateClass::State).count();
    if opened.opponents.len() != 1 || states != 1 || opened.reference.is_some() {
        return Err(OpenError::Missing(
            "--baselines: one that shows its state, in FP32, is what requests are validated against".to_owned(),
        ));
    }
    let opponent = opened.opponents.pop();
    let rounds = setup.chosen.count("trials")?;
    let mut declaration = declaration(rounds, prompt, outputs);
    declaration.disclosures.extend(std::mem::take(&mut opened.disclosures));
    let Opened { candidate, settings, checkpoint, series, .. } = opened;
    let second = candidate.fork()?;
    let [one, two] = prompts;
    Ok(Box::new(Interleaving {
        declaration,
        requests: [Request::new(candidate, one, outputs), Request::new(second, two, outputs)],
        opponent,
        documents,
        checkpoint,
        settings,
        device: setup.device.clone(),
        chunk: size("chunk")?,
        interval: size("cache-check-interval")?,
        arrival,
        rounds,
        series,
        alone: Vec::new(),
        last: None,
    }))
}

/// Keys, values and logits of a request as they are, as one hash of their bits.
fn state(candidate: &Candidate) -> Result<String, Refusal> {
    let mut runs: Vec<Vec<u8>> = Vec::new();
    let bytes = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    for layer in 0..candidate.config().layers {
        let state = candidate.key_values(layer, 0..candidate.cached())?;
        runs.push(fingerprint::of_bytes(&bytes(&state.keys)).into_bytes());
        runs.push(fingerprint::of_bytes(&bytes(&state.values)).into_bytes());
    }
    runs.push(bytes(&candidate.row()?.logits));
    Ok(fingerprint::of_all(runs.iter().map(Vec::as_slice)))
}

impl Interleaving {
    fn poison(&mut self) -> Result<(), Refusal> {
        self.requests.iter_mut().try_for_each(|request| request.candidate.poison())
    }

    /// Each request alone, against the framework.
    fn gate_alone(&mut self) -> Result<Vec<Gate>, Refusal> {
        let Some(opponent) = &mut self.opponent else { return Ok(Vec::new()) };
        let mut gates = Vec::new();
        self.alone.clear();
        for request in &mut self.requests {
            let checks = Checks {
                prompt: &request.prompt,
                outputs: request.outputs,
                chunk: self.chunk,
                interval: self.interval,
                tolerance: FP32_TOLERANCE,
            };
            let rival = opponent.rival.as_mut();
            let name = &opponent.arm.name;
            let validated = full_state(&mut request.candidate, rival, name, &checks)?;
            for mut gate in validated.gates {
                gate.name = format!("{} alone: {}", request.prompt.name, gate.name);
                gates.push(gate);
            }
            let Some(ids) = validated.ids else { return Ok(gates) };
            request.candidate.poison()?;
            let again = request.candidate.generate(&request.prompt.ids, request.outputs, None)?;
            let name = format!("{} alone, as timed: greedy tokens", request.prompt.name);
            gates.push(same_tokens(&name, NAME, &opponent.arm.name, &ids, &again.ids));
            self.alone.push(Alone { ids, state: state(&request.candidate)? });
        }
        Ok(gates)
    }

    /// Both requests under `policy`, against what they are alone.
    fn gate_policy(&mut self, policy: Policy) -> Result<Vec<Gate>, Refusal> {
        self.poison()?;
        let outcome = policy.run(&mut self.requests, self.arrival)?;
        let mut gates = Vec::new();
        for (n, alone) in self.alone.iter().enumerate() {
            let request = &self.requests[n];
            let against = format!("{} alone", request.prompt.name);
            let name = format!("{}: greedy tokens", request.prompt.name);
            let mut tokens =
                same_tokens(&name, policy.name(), &against, &alone.ids, &outcome.ids[n]);
            tokens.class = GateClass::State;
            gates.push(tokens);
            // One element: whether the hash of all bits is the same.
            let mut bits = Differences::bitwise();
            let same = f64::from(u8::from(state(&request.candidate)? == alone.state));
            let place =
                || ("hash of K/V of every layer and the last logits".to_owned(), Vec::new());
            bits.add(1.0, same, place);
            let name = format!("{}: K/V of every layer and the last logits", request.prompt.name);
            gates.push(bits.gate(&name, GateClass::State, policy.name(), &against));
        }
        Ok(gates)
    }
}

impl Study for Interleaving {
    fn declaration(&self) -> Declaration {
        self.declaration.clone()
    }

    fn arms(&mut self) -> Result<Vec<Arm>, Refusal> {
        let mut settings = self.settings.clone();
        if let Some(opponent) = &self.opponent {
            let versions: Vec<String> =
                opponent.arm.versions.iter().map(|(name, v)| format!("{name} {v}")).collect();
            settings.insert(
                "validated_against".to_owned(),
                format!("{} ({})", opponent.arm.name, versions.join(", ")),
            );
        }
        Ok(Policy::ALL
            .map(|policy| {
                let candidate = &self.requests[0].candidate;
                let role = policy.role();
                let mut arm = candidate.arm(&self.device, role, GateClass::State, settings.clone());
                arm.name = policy.name().to_owned();
                arm.what = format!("{}: {}", policy.name(), policy.what());
                arm
            })
            .into())
    }

    fn next_phase(&mut self, done: &[Phase]) -> Result<Option<PhasePlan>, Refusal> {
        if !done.is_empty() {
            return Ok(None);
        }
        let (tokens, outputs) = (self.requests[0].prompt.ids.len(), self.requests[0].outputs);
        let parameters = BTreeMap::from([
            ("prompt_tokens".to_owned(), tokens.into()),
            ("output_tokens".to_owned(), outputs.into()),
            ("chunk".to_owned(), self.chunk.into()),
            ("arrival_output".to_owned(), self.arrival.into()),
        ]);
        let flop = least_prefill_flop(self.requests[0].candidate.config(), tokens);
        Ok(Some(PhasePlan {
            name: "interleaving".to_owned(),
            scope: Scope::Measurement,
            pairs: self.rounds,
            warmups: self.declaration.warmups,
            cases: vec![CasePlan {
                name: format!("two requests, {tokens} in, {outputs} out each"),
                series: format!("{}, {tokens}/{outputs}", self.series),
                parameters,
                work: Work { flop: Some(2 * flop), ..Work::default() },
                gate_class: GateClass::State,
                arms: Policy::ALL.map(|policy| policy.name().to_owned()).into(),
                absent: Vec::new(),
                repeats: Repeats::Once,
            }],
            selection: None,
        }))
    }

    fn open(&mut self, _case: &CasePlan) -> Result<(), Refusal> {
        let chunk = self.chunk;
        self.requests
            .iter_mut()
            .try_for_each(|request| request.candidate.prepare(chunk, request.prompt.ids.len()))
    }

    fn gate(&mut self, _case: &CasePlan) -> Result<Vec<Gate>, Refusal> {
        let mut gates = self.gate_alone()?;
        if self.alone.len() == self.requests.len() && gates.iter().all(|gate| gate.passed) {
            for policy in Policy::ALL {
                gates.extend(self.gate_policy(policy)?);
            }
        }
        Ok(gates)
    }

    fn before(&mut self, _case: &CasePlan, _turn: &Turn<'_>) -> Result<Ready, Refusal> {
        self.last = None;
        self.poison()?;
        let ids: Vec<u32> =
            self.requests.iter().flat_map(|r| r.prompt.ids.iter().copied()).collect();
        Ok(Ready { inputs_sha256: fingerprint::of_ids(&ids), poisoned: true })
    }

    fn run(&mut self, _case: &CasePlan, turn: &Turn<'_>) -> Result<Timed, Refusal> {
        let Some(policy) = Policy::from_name(turn.arm) else {
            return Err(Refusal::Broken(format!("no policy {}", turn.arm)));
        };
        let outcome = policy.run(&mut self.requests, self.arrival)?;
        let values = outcome.metrics()?;
        self.last = Some(outcome);
        Ok(Timed { values })
    }

    fn after(&mut self, _case: &CasePlan, turn: &Turn<'_>) -> Result<Verified, Refusal> {
        let refuse = |message: String| Err(Refusal::rule(rules::OUTPUTS, turn.arm, message));
        let Some(outcome) = self.last.take() else { return refuse("nothing ran".to_owned()) };
        let (mut tokens, mut entries) = (0, 0);
        for (n, (request, alone)) in self.requests.iter().zip(&self.alone).enumerate() {
            if outcome.ids[n] != alone.ids {
                return refuse(format!("{} has other ids than alone", request.prompt.name));
            }
            let cached = request.candidate.cached();
            if cached != request.prompt.ids.len() + request.outputs - 1 {
                return refuse(format!("{} has {cached} cache entries", request.prompt.name));
            }
            if state(&request.candidate)? != alone.state {
                return refuse(format!("{} has another cache than alone", request.prompt.name));
            }
            tokens += alone.ids.len() as u64;
            entries += cached as u64;
        }
        Ok(Verified {
            counts: BTreeMap::from([
                ("tokens".to_owned(), tokens),
                ("cache_entries".to_owned(), entries),
            ]),
            output_sequence: None,
        })
    }

    fn close(&mut self, _case: &CasePlan) -> Result<(), Refusal> {
        Ok(())
    }

    fn subject(&mut self) -> Result<Subject, Refusal> {
        let mut checkpoint = self.checkpoint.clone();
        checkpoint.storage = self.requests[0].candidate.storage();
        let prompts = self.requests.iter().map(|request| request.prompt.sequence());
        let outputs = self.requests.iter().zip(&self.alone).map(|(request, alone)| {
            let name = format!("{}: output", request.prompt.name);
            Sequence::new(name, "validated output", alone.ids.clone())
        });
        Ok(Subject {
            checkpoints: vec![checkpoint],
            documents: self.documents.clone(),
            sequences: prompts.chain(outputs).collect(),
            unpaired: Vec::new(),
        })
    }

    fn fingerprints(&mut self) -> Result<Fingerprints, Refusal> {
        Ok(self.requests[0].candidate.fingerprints())
    }
}

impl Request {
    fn new(candidate: Candidate, prompt: Prompt, outputs: usize) -> Request {
        Request { candidate, prompt, outputs }
    }
}

impl Policy {
    fn role(self) -> Role {
        match self {
            Policy::Fifo => Role::Baseline,
            Policy::Eager | Policy::Chunked => Role::Candidate,
        }
    }
}
