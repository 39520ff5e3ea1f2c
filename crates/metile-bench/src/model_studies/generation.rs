//! The study of whole generations: phases of cases, each a prompt, a number of outputs and a chunk; gates, timed
//! runs, and what of them is verified.

use super::candidate::{Candidate, NAME};
use super::rival::{Generation, Rival};
use super::sixteen_bit;
use super::state_gate::{self, Checks, FP32_TOLERANCE};
use super::tokens_gate::Agreed;
use super::workload::Prompt;
use crate::fingerprint;
use crate::schema::{
    Arm, Boundary, Clock, Declaration, Document, Figure, Fingerprints, Gate, GateClass, Metric,
    Phase, Role, Scope, Sequence, Subject, Unpaired, Work,
};
use crate::study::{
    CasePlan, PhasePlan, Ready, Refusal, Repeats, SelectionPlan, Study, Timed, Turn, Verified,
    refusal_rules as rules,
};
use metile::Device;
use metile_models::config::ModelConfig;
use std::collections::BTreeMap;

/// One point of a phase.
#[derive(Clone, Debug)]
pub struct Point {
    /// Name of the prompt.
    pub prompt: String,
    /// Tokens to generate.
    pub outputs: usize,
    /// Rows of a chunk; `None`: what the phase before has chosen.
    pub chunk: Option<usize>,
}

/// A phase of the study.
#[derive(Clone, Debug)]
pub struct Stage {
    /// Its name.
    pub name: &'static str,
    /// What it may be taken as evidence for.
    pub scope: Scope,
    /// Pairs of each case.
    pub pairs: u64,
    /// Whether the least median time to first token chooses a chunk.
    pub selects: bool,
    /// Its cases.
    pub points: Vec<Point>,
}

/// A rival with its name and class.
pub struct Opponent {
    /// The model.
    pub rival: Box<dyn Rival>,
    /// Its arm.
    pub arm: Arm,
}

impl Opponent {
    /// The opponent that `rival` is.
    pub fn new(rival: Box<dyn Rival>) -> Opponent {
        let arm = rival.arm();
        Opponent { rival, arm }
    }
}

/// What a study of generations is made of.
pub struct Parts {
    /// The declaration.
    pub declaration: Declaration,
    /// Where the candidate computes.
    pub device: Device,
    /// The candidate.
    pub candidate: Candidate,
    /// What else is set of it, for the report.
    pub settings: BTreeMap<String, String>,
    /// The baselines. The first of class *state* is what the candidate is validated against.
    pub opponents: Vec<Opponent>,
    /// The FP32 reference of 16-bit runs.
    pub reference: Option<Box<dyn Rival>>,
    /// Prompts by name.
    pub prompts: BTreeMap<String, Prompt>,
    /// The texts that they are from.
    pub documents: Vec<Document>,
    /// The checkpoint. Bytes and storage are filled in at the end.
    pub checkpoint: crate::schema::Checkpoint,
    /// The phases.
    pub stages: Vec<Stage>,
    /// Chart series.
    pub series: String,
    /// Outputs between comparisons of the whole prefix.
    pub interval: usize,
    /// Whether a second gate feeds the text's own tokens.
    pub forced: bool,
    /// Prompts for arms of class *tokens*.
    pub agreed: Option<Agreed>,
    /// Whether the libraries' own pipelined generations are run once, beside.
    pub streams: bool,
}

/// Whole generations, measured.
pub struct GenerationStudy {
    parts: Parts,
    /// Each arm's validated ids in each case.
    validated: BTreeMap<(String, String), Vec<u32>>,
    /// How many outputs of each 16-bit case the FP32 reference leaves open: see [`sixteen_bit`].
    undecided: BTreeMap<String, usize>,
    sequences: BTreeMap<String, Sequence>,
    unpaired: Vec<Unpaired>,
    last: Option<Generation>,
}

/// The metrics of a generation, time to first token first.
pub fn metrics() -> Vec<Metric> {
    let metric = |name: &str, boundary: &str| Metric {
        name: name.to_owned(),
        unit: "s".to_owned(),
        clock: Clock::Wall,
        boundary: boundary.to_owned(),
    };
    vec![
        metric("ttft", "from before the cache's reset or construction to the first id on the host"),
        metric(
            "decode",
            "from the first id on the host to the last: one forward less than outputs",
        ),
        metric("total", "from before the cache's reset or construction to the last id on the host"),
    ]
}

/// The timing boundary of a generation.
pub fn boundary() -> Boundary {
    let all = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    Boundary {
        starts: "before cache reset or construction".to_owned(),
        ends: "when the final token id is on the host".to_owned(),
        includes: all(&[
            "input and control updates",
            "prefill",
            "all decode layers and cache writes",
            "vocabulary projections",
            "argmax on the device",
            "submission",
            "synchronization",
            "the logical reset of the candidate's cache; construction and growth of the baseline's",
        ]),
        excludes: all(&[
            "loading",
            "dtype conversion",
            "rotary tables",
            "transposition and packing",
            "compilation",
            "persistent allocation",
            "tokenization",
            "text decoding",
            "comparisons",
        ]),
    }
}

/// Multiplications and additions that no arm can do without before the first token: every layer but the last for
/// all rows, of the last K/V alone but for one row, and one row of the vocabulary.
pub fn least_prefill_flop(config: &ModelConfig, tokens: usize) -> u64 {
    let [heads, kv] = [config.heads, config.kv_heads].map(|n| (n * config.head_dim) as u64);
    let (width, mlp) = (config.width as u64, config.mlp_width as u64);
    let (tokens, layers) = (tokens as u64, config.layers as u64);
    let layer = width * (2 * heads + 2 * kv + 3 * mlp);
    // Scores and weighted values over the causal prefix.
    let attention = heads * tokens * (tokens + 1);
    let last = tokens * width * 2 * kv + width * (2 * heads + 3 * mlp);
    let head = width * config.vocabulary as u64;
    2 * ((layers - 1) * (tokens * layer + attention) + last + head)
}

impl GenerationStudy {
    /// The study of `parts`.
    pub fn new(parts: Parts) -> GenerationStudy {
        let sequences = parts.prompts.values().map(|p| (p.name.clone(), p.sequence())).collect();
        GenerationStudy {
            parts,
            validated: BTreeMap::new(),
            undecided: BTreeMap::new(),
            sequences,
            unpaired: Vec::new(),
            last: None,
        }
    }

    fn point(&self, case: &CasePlan) -> Result<(Prompt, usize, usize), Refusal> {
        let number = |name: &str| {
            let value = case.parameters.get(name).and_then(serde_json::Value::as_u64);
            value.map(|n| n as usize).ok_or_else(|| {
                Refusal::Broken(format!("case {} has no whole number `{name}`", case.name))
            })
        };
        let name = case.parameters.get("prompt").and_then(serde_json::Value::as_str);
        let prompt = name.and_then(|name| self.parts.prompts.get(name));
        let prompt =
            prompt.ok_or_else(|| Refusal::Broken(format!("case {} has no prompt", case.name)))?;
        Ok((prompt.clone(), number("output_tokens")?, number("chunk")?))
    }

    /// The strongest class that the candidate is gated in.
    fn class(&self) -> GateClass {
        let classes = self.parts.opponents.iter().map(|o| o.arm.gate);
        classes.min().unwrap_or(GateClass::None)
    }

    fn plan(&self, stage: &Stage, chosen: Option<usize>) -> Result<PhasePlan, Refusal> {
        let mut cases = Vec::new();
        for point in &stage.points {
            let Some(chunk) = point.chunk.or(chosen) else {
                return Err(Refusal::Broken(format!("{}: no chunk was chosen", stage.name)));
            };
            let Some(prompt) = self.parts.prompts.get(&point.prompt) else {
                return Err(Refusal::Broken(format!("there is no prompt {}", point.prompt)));
            };
            let tokens = prompt.ids.len();
            let parameters = BTreeMap::from([
                ("prompt".to_owned(), point.prompt.clone().into()),
                ("prompt_tokens".to_owned(), tokens.into()),
                ("output_tokens".to_owned(), point.outputs.into()),
                ("chunk".to_owned(), chunk.into()),
            ]);
            let opponents = self.parts.opponents.iter().map(|o| o.arm.name.clone());
            cases.push(CasePlan {
                name: format!("{}, {tokens} in, {} out, chunk {chunk}", stage.name, point.outputs),
                series: format!("{}, {tokens}/{}", self.parts.series, point.outputs),
                parameters,
                work: Work {
                    flop: Some(least_prefill_flop(self.parts.candidate.config(), tokens)),
                    ..Work::default()
                },
                gate_class: self.class(),
                arms: opponents.chain([NAME.to_owned()]).collect(),
                absent: Vec::new(),
                repeats: Repeats::Once,
            });
        }
        let selection = stage.selects.then(|| SelectionPlan {
            arm: NAME.to_owned(),
            metric: "ttft".to_owned(),
            parameter: "chunk".to_owned(),
        });
        Ok(PhasePlan {
            name: stage.name.to_owned(),
            scope: stage.scope,
            pairs: stage.pairs,
            warmups: self.parts.declaration.warmups,
            cases,
            selection,
        })
    }

    fn validate(&mut self, case: &CasePlan, arm: &str, ids: Vec<u32>) {
        let name = self.sequence_name(case, arm);
        let what = "validated output".to_owned();
        self.sequences.insert(name.clone(), Sequence::new(name, what, ids.clone()));
        self.validated.insert((case.name.clone(), arm.to_owned()), ids);
    }

    fn sequence_name(&self, case: &CasePlan, arm: &str) -> String {
        format!("{}: {arm}", case.name)
    }

    /// Validates the candidate against the first opponent that shows its state, or on agreed prompts.
    fn gate_state(&mut self, case: &CasePlan, n: usize) -> Result<Vec<Gate>, Refusal> {
        let (prompt, outputs, chunk) = self.point(case)?;
        let checks = Checks {
            prompt: &prompt,
            outputs,
            chunk,
            interval: self.parts.interval,
            tolerance: FP32_TOLERANCE,
        };
        let Parts { candidate, opponents, reference, forced, .. } = &mut self.parts;
        let opponent = &mut opponents[n];
        let against = opponent.arm.name.clone();
        let rival = opponent.rival.as_mut();
        if let Some(reference) = reference {
            let reference = reference.as_mut();
            let gates =
                sixteen_bit::against_reference(candidate, rival, reference, &against, &checks)?;
            let share = gates.iter().find_map(|gate| gate.observed.get("decided_share")?.value);
            let decided = share.map_or(0.0, |share| share * outputs as f64).round() as usize;
            self.undecided.insert(case.name.clone(), outputs.saturating_sub(decided));
            if gates.iter().all(|gate| gate.passed || !gate.decides) {
                self.own_ids(case, n, &prompt, outputs)?;
            }
            return Ok(gates);
        }
        let validated = state_gate::full_state(candidate, rival, &against, &checks)?;
        let mut gates = validated.gates;
        let Some(ids) = validated.ids else { return Ok(gates) };
        if *forced {
            gates.extend(state_gate::teacher_forced(candidate, rival, &against, &checks)?);
        }
        self.validate(case, &against, ids.clone());
        self.validate(case, NAME, ids);
        Ok(gates)
    }

    /// Takes each arm's own greedy ids as what it has to repeat, where arms need not agree; and prints the first
    /// divergence.
    fn own_ids(
        &mut self,
        case: &CasePlan,
        n: usize,
        prompt: &Prompt,
        outputs: usize,
    ) -> Result<(), Refusal> {
        let arm = self.parts.opponents[n].arm.name.clone();
        let theirs = self.parts.opponents[n].rival.generate(&prompt.ids, outputs, None)?.ids;
        let known = self.validated.get(&(case.name.clone(), NAME.to_owned())).cloned();
        let ours = match known {
            Some(ids) => ids,
            None => {
                self.parts.candidate.poison()?;
                self.parts.candidate.generate(&prompt.ids, outputs, None)?.ids
            }
        };
        let diverged = ours.iter().zip(&theirs).position(|(a, b)| a != b);
        self.unpaired.push(Unpaired {
            label: format!("{}: first output at which {NAME} and {arm} differ", case.name),
            value: match diverged {
                Some(at) => Figure::new(at as f64 + 1.0),
                None => Figure::missing("all outputs are the same"),
            },
            unit: "output, from 1".to_owned(),
        });
        self.validate(case, &arm, theirs);
        self.validate(case, NAME, ours);
        Ok(())
    }

    fn opponent(&self, arm: &str) -> Option<usize> {
        self.parts.opponents.iter().position(|opponent| opponent.arm.name == arm)
    }

    /// The libraries' own pipelined generations, once each.
    fn stream_once(&mut self, case: &CasePlan) -> Result<(), Refusal> {
        let (prompt, outputs, _) = self.point(case)?;
        for opponent in &mut self.parts.opponents {
            let Some(made) = opponent.rival.stream(&prompt.ids, outputs)? else { continue };
            let (first, last) = (made.stamps_s.first(), made.stamps_s.last());
            for (what, value) in [("ttft", first), ("total", last)] {
                self.unpaired.push(Unpaired {
                    label: format!(
                        "{}: one unpaired run of {}'s own pipelined generation, {what}",
                        case.name, opponent.arm.name
                    ),
                    value: match value {
                        Some(&seconds) => Figure::new(seconds),
                        None => Figure::missing("no token came"),
                    },
                    unit: "s".to_owned(),
                });
            }
        }
        Ok(())
    }
}

impl Study for GenerationStudy {
    fn declaration(&self) -> Declaration {
        self.parts.declaration.clone()
    }

    fn arms(&mut self) -> Result<Vec<Arm>, Refusal> {
        let class = self.class();
        let Parts { candidate, device, settings, opponents, .. } = &self.parts;
        let ours = candidate.arm(device, Role::Candidate, class, settings.clone());
        Ok(opponents.iter().map(|opponent| opponent.arm.clone()).chain([ours]).collect())
    }

    fn next_phase(&mut self, done: &[Phase]) -> Result<Option<PhasePlan>, Refusal> {
        let Some(stage) = self.parts.stages.get(done.len()).cloned() else { return Ok(None) };
        let chosen = done.last().and_then(|phase| {
            let name = &phase.selection.as_ref()?.case;
            let case = phase.cases.iter().find(|case| case.name == *name)?;
            Some(case.parameters.get("chunk")?.as_u64()? as usize)
        });
        self.plan(&stage, chosen).map(Some)
    }

    fn open(&mut self, case: &CasePlan) -> Result<(), Refusal> {
        let (prompt, _, chunk) = self.point(case)?;
        self.parts.candidate.prepare(chunk, prompt.ids.len())
    }

    fn gate(&mut self, case: &CasePlan) -> Result<Vec<Gate>, Refusal> {
        let (prompt, outputs, _) = self.point(case)?;
        let mut gates = Vec::new();
        // Those that show their state first: what the candidate has to repeat is theirs.
        let mut order: Vec<usize> = (0..self.parts.opponents.len()).collect();
        order.sort_by_key(|&n| self.parts.opponents[n].arm.gate);
        for n in order {
            if self.parts.opponents[n].arm.gate == GateClass::State {
                gates.extend(self.gate_state(case, n)?);
            } else {
                let Parts { candidate, opponents, agreed, .. } = &mut self.parts;
                let Some(agreed) = agreed else {
                    let arm = &opponents[n].arm.name;
                    let message = "shows no state, and there are no agreed prompts";
                    return Err(Refusal::rule(rules::GATE, arm, message));
                };
                let name = opponents[n].arm.name.clone();
                gates.extend(agreed.gates(candidate, opponents[n].rival.as_mut(), &name)?);
                if gates.iter().all(|gate| gate.passed || !gate.decides) {
                    self.own_ids(case, n, &prompt, outputs)?;
                }
            }
            if gates.iter().any(|gate| gate.decides && !gate.passed) {
                break;
            }
        }
        Ok(gates)
    }

    fn before(&mut self, case: &CasePlan, turn: &Turn<'_>) -> Result<Ready, Refusal> {
        let (prompt, ..) = self.point(case)?;
        self.last = None;
        match self.opponent(turn.arm) {
            None => self.parts.candidate.poison()?,
            Some(n) => {
                // A library's memory can't be overwritten from outside: it reads another text instead, of
                // which a run that did nothing would give the result.
                let rival = self.parts.opponents[n].rival.as_mut();
                rival.reset()?;
                let reversed: Vec<u32> = prompt.ids.iter().rev().copied().take(2).collect();
                rival.prefill(&reversed)?;
            }
        }
        Ok(Ready { inputs_sha256: fingerprint::of_ids(&prompt.ids), poisoned: true })
    }

    fn run(&mut self, case: &CasePlan, turn: &Turn<'_>) -> Result<Timed, Refusal> {
        let (prompt, outputs, _) = self.point(case)?;
        // Libraries' 16-bit products need not give the same bits twice, and near ties then go either way.
        let key = (case.name.clone(), turn.arm.to_owned());
        let own = self.validated.get(&key).filter(|_| self.parts.reference.is_some());
        let fed = own.map(|ids| ids[..outputs.saturating_sub(1).min(ids.len())].to_vec());
        let fed = fed.as_deref();
        let made = match self.opponent(turn.arm) {
            None => self.parts.candidate.generate(&prompt.ids, outputs, fed)?,
            Some(n) => self.parts.opponents[n].rival.generate(&prompt.ids, outputs, fed)?,
        };
        let (Some(&first), Some(&last)) = (made.stamps_s.first(), made.stamps_s.last()) else {
            return Err(Refusal::rule(rules::OUTPUTS, turn.arm, "no token came"));
        };
        let mut values = BTreeMap::from([("ttft".to_owned(), first), ("total".to_owned(), last)]);
        if outputs > 1 {
            values.insert("decode".to_owned(), last - first);
        }
        self.last = Some(made);
        Ok(Timed { values })
    }

    fn after(&mut self, case: &CasePlan, turn: &Turn<'_>) -> Result<Verified, Refusal> {
        let (prompt, outputs, _) = self.point(case)?;
        let refuse = |message: String| Err(Refusal::rule(rules::OUTPUTS, turn.arm, message));
        let Some(made) = self.last.take() else { return refuse("nothing ran".to_owned()) };
        let key = (case.name.clone(), turn.arm.to_owned());
        let Some(ids) = self.validated.get(&key) else {
            return Err(Refusal::rule(rules::GATE, turn.arm, "no ids were validated"));
        };
        let differing = made.ids.iter().zip(ids).filter(|(a, b)| a != b).count();
        // The candidate gives the same bits every time.
        let opponent = self.opponent(turn.arm).is_some();
        let undecided = self.undecided.get(&case.name).filter(|_| opponent);
        let allowed = undecided.copied().unwrap_or(0);
        if made.ids.len() != ids.len() || differing > allowed {
            let at = made.ids.iter().zip(ids).position(|(a, b)| a != b);
            let at = at.unwrap_or(made.ids.len().min(ids.len()));
            return refuse(format!(
                "{} ids, which differ from the {} validated at output {}",
                made.ids.len(),
                ids.len(),
                at + 1
            ));
        }
        let entries = prompt.ids.len() + outputs - 1;
        if made.cache_entries != entries || made.stamps_s.len() != outputs {
            return refuse(format!(
                "{} valid cache entries and {} times; {entries} and {outputs} belong to {} ids and {outputs} \
                 outputs",
                made.cache_entries,
                made.stamps_s.len(),
                prompt.ids.len()
            ));
        }
        if self.opponent(turn.arm).is_none() {
            self.check_written(entries, turn.arm)?;
        }
        let name = self.sequence_name(case, turn.arm);
        Ok(Verified {
            counts: BTreeMap::from([
                ("tokens".to_owned(), outputs as u64),
                ("cache_entries".to_owned(), entries as u64),
                ("chosen_otherwise".to_owned(), differing as u64),
            ]),
            output_sequence: Some(name),
        })
    }

    fn close(&mut self, case: &CasePlan) -> Result<(), Refusal> {
        let held_out = case.parameters.get("prompt").and_then(|p| p.as_str()) == Some("held-out");
        if self.parts.streams && held_out && self.unpaired.iter().all(|u| u.unit != "s") {
            self.stream_once(case)?;
        }
        Ok(())
    }

    fn subject(&mut self) -> Result<Subject, Refusal> {
        let mut checkpoint = self.parts.checkpoint.clone();
        checkpoint.storage = self.parts.candidate.storage();
        Ok(Subject {
            checkpoints: vec![checkpoint],
            documents: self.parts.documents.clone(),
            sequences: self.sequences.values().cloned().collect(),
            unpaired: self.unpaired.clone(),
        })
    }

    fn fingerprints(&mut self) -> Result<Fingerprints, Refusal> {
        Ok(self.parts.candidate.fingerprints())
    }
}

impl GenerationStudy {
    /// Every entry of the cache was written in the run that just ended: it was NaN before.
    fn check_written(&self, entries: usize, arm: &str) -> Result<(), Refusal> {
        for layer in 0..self.parts.candidate.config().layers {
            let state = self.parts.candidate.key_values(layer, 0..entries)?;
            if state.keys.iter().chain(&state.values).any(|v| !v.is_finite()) {
                let message = format!("layer {layer} has a cache entry that was not written");
                return Err(Refusal::rule(rules::OUTPUTS, arm, message));
            }
        }
        Ok(())
    }
}
