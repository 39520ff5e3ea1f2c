//! `matrix-attention`: attention in other arithmetic, validated and not timed.

mod forms;
#[cfg(test)]
mod tests;

use super::candidate::{Candidate, NAME};
use super::generation::Opponent;
use super::setup;
use super::state_gate::{Checks, FP32_TOLERANCE, full_state};
use super::workload::{Prompt, Text};
use crate::schema::{
    Acceptance, Arm, Boundary, Comparison, Declaration, Document, Estimator, Fingerprints, Gate,
    GateClass, Phase, Role, Scope, Sequence, Subject, Work,
};
use crate::study::{
    CasePlan, Entry, OpenError, OptionKind, OptionSpec, PhasePlan, Ready, Refusal, Repeats, Setup,
    Study, Timed, Turn, Verified,
};
use forms::AttentionForm;
use std::collections::BTreeMap;
use std::path::PathBuf;

const fn count(name: &'static str, default: &'static str, help: &'static str) -> OptionSpec {
    OptionSpec { name, kind: OptionKind::Count, default: Some(default), help }
}

const OPTIONS: &[OptionSpec] = &[
    setup::MODEL,
    setup::DTYPE,
    setup::PROJECTION,
    setup::TILE,
    OptionSpec {
        name: "forms",
        kind: OptionKind::Texts,
        default: Some("prescaled-query base-two prescaled-base-two bf16-weights"),
        help: "Forms of attention; a report of one form keeps its failure to itself",
    },
    count("prompt-tokens", "4096", "Prompt"),
    count("output-tokens", "64", "Outputs"),
    count("chunk", "512", "Rows of a chunk"),
    count("cache-check-interval", "64", "Outputs between comparisons of the whole K/V prefix"),
    OptionSpec {
        name: "document",
        kind: OptionKind::Path,
        default: Some("reports/documents/cpu-decoder-and-measuring.txt"),
        help: "Text of the prompt",
    },
    setup::PACK,
    setup::ROPE,
    setup::ATTENTION,
    setup::BASELINES,
    setup::BASELINE_CHECKPOINT,
    setup::VARIANT,
    setup::AGREED,
];

/// The catalogue's entry.
pub const ENTRY: Entry = Entry { declaration, options: OPTIONS, open: Ok(open) };

fn declaration() -> Declaration {
    Declaration {
        name: "matrix-attention".to_owned(),
        title: "attention in other arithmetic: numerical validation alone, no timings".to_owned(),
        workload: "a document's prefix read in chunks and continued, once for each form of attention".to_owned(),
        comparison: Comparison::SameWeightsAndFormat,
        gate_class: GateClass::State,
        gate: "the full-state rule at rtol = atol = 1e-3: K/V of every layer at every chunk boundary and after the \
               whole prompt in one call, all logits, new K/V slots and the greedy token of every step"
            .to_owned(),
        boundary: Boundary {
            starts: "nothing is timed".to_owned(),
            ends: "nothing is timed".to_owned(),
            includes: Vec::new(),
            excludes: Vec::new(),
        },
        metrics: Vec::new(),
        warmups: 0,
        pairs: 0,
        estimator: Estimator::MedianOfPairedRatios,
        acceptance: Acceptance::None,
        disclosures: vec!["numerical validation alone: says nothing about speed".to_owned()],
    }
}

struct MatrixAttention {
    declaration: Declaration,
    device: metile::Device,
    candidate: Candidate,
    settings: BTreeMap<String, String>,
    opponent: Opponent,
    prompt: Prompt,
    documents: Vec<Document>,
    checkpoint: crate::schema::Checkpoint,
    forms: Vec<AttentionForm>,
    outputs: usize,
    chunk: usize,
    interval: usize,
    series: String,
    sequences: Vec<Sequence>,
}

fn open(setup: &Setup) -> Result<Box<dyn Study>, OpenError> {
    let size = |name: &str| setup.chosen.count(name).map(|n| n as usize);
    let (tokens, outputs) = (size("prompt-tokens")?, size("output-tokens")?);
    let mut forms = Vec::new();
    for name in setup.chosen.texts("forms")? {
        let known = || AttentionForm::ALL.map(AttentionForm::name).join(", ");
        let form = AttentionForm::from_name(name)
            .ok_or_else(|| OpenError::Missing(format!("--forms {name}: known are {}", known())))?;
        forms.push(form);
    }
    let (_, checkpoint) = setup::checkpoint(setup)?;
    let path = setup.chosen.path("document")?.unwrap_or_else(PathBuf::new);
    let text = Text::read(&path, &setup::tokenizer(&checkpoint)?)?;
    let prompt = text.prompt("prompt", tokens, 0)?;
    let mut opened = setup::open(setup, tokens + outputs)?;
    let states = opened.opponents.iter().filter(|o| o.arm.gate == GateClass::State).count();
    let (Some(opponent), 1, None) = (opened.opponents.pop(), states, &opened.reference) else {
        return Err(OpenError::Missing(
            "--baselines: one that shows its state, in FP32, is what forms are validated against"
                .to_owned(),
        ));
    };
    let mut declaration = declaration();
    declaration.disclosures.extend(opened.disclosures);
    Ok(Box::new(MatrixAttention {
        declaration,
        device: setup.device.clone(),
        documents: vec![text.document(Scope::Measurement, "prompt")],
        candidate: opened.candidate,
        settings: opened.settings,
        opponent,
        sequences: vec![prompt.sequence()],
        prompt,
        checkpoint: opened.checkpoint,
        forms,
        outputs,
        chunk: size("chunk")?,
        interval: size("cache-check-interval")?,
        series: opened.series,
    }))
}

fn untimed<T>() -> Result<T, Refusal> {
    Err(Refusal::Broken("matrix-attention times nothing".to_owned()))
}

impl Study for MatrixAttention {
    fn declaration(&self) -> Declaration {
        self.declaration.clone()
    }

    fn arms(&mut self) -> Result<Vec<Arm>, Refusal> {
        let (role, class) = (Role::Candidate, GateClass::State);
        let ours = self.candidate.arm(&self.device, role, class, self.settings.clone());
        Ok(vec![self.opponent.arm.clone(), ours])
    }

    fn next_phase(&mut self, done: &[Phase]) -> Result<Option<PhasePlan>, Refusal> {
        if !done.is_empty() {
            return Ok(None);
        }
        let case = |form: &AttentionForm| CasePlan {
            name: form.name().to_owned(),
            series: self.series.clone(),
            parameters: BTreeMap::from([
                ("form".to_owned(), form.name().into()),
                ("prompt_tokens".to_owned(), self.prompt.ids.len().into()),
                ("output_tokens".to_owned(), self.outputs.into()),
                ("chunk".to_owned(), self.chunk.into()),
            ]),
            work: Work::default(),
            gate_class: GateClass::State,
            arms: vec![self.opponent.arm.name.clone(), NAME.to_owned()],
            absent: Vec::new(),
            repeats: Repeats::Once,
        };
        Ok(Some(PhasePlan {
            name: "validation".to_owned(),
            scope: Scope::Measurement,
            pairs: 0,
            warmups: 0,
            cases: self.forms.iter().map(case).collect(),
            selection: None,
        }))
    }

    fn open(&mut self, case: &CasePlan) -> Result<(), Refusal> {
        let form = AttentionForm::from_name(&case.name);
        self.candidate.set_attention(form.map(AttentionForm::kernel))?;
        self.candidate.prepare(self.chunk, self.prompt.ids.len())
    }

    fn gate(&mut self, case: &CasePlan) -> Result<Vec<Gate>, Refusal> {
        let checks = Checks {
            prompt: &self.prompt,
            outputs: self.outputs,
            chunk: self.chunk,
            interval: self.interval,
            tolerance: FP32_TOLERANCE,
        };
        let Opponent { rival, arm } = &mut self.opponent;
        let validated = full_state(&mut self.candidate, rival.as_mut(), &arm.name, &checks)?;
        if let Some(ids) = validated.ids {
            let name = format!("{}: output", case.name);
            self.sequences.push(Sequence::new(name, "validated output", ids));
        }
        Ok(validated.gates)
    }

    fn before(&mut self, _case: &CasePlan, _turn: &Turn<'_>) -> Result<Ready, Refusal> {
        untimed()
    }

    fn run(&mut self, _case: &CasePlan, _turn: &Turn<'_>) -> Result<Timed, Refusal> {
        untimed()
    }

    fn after(&mut self, _case: &CasePlan, _turn: &Turn<'_>) -> Result<Verified, Refusal> {
        untimed()
    }

    fn close(&mut self, _case: &CasePlan) -> Result<(), Refusal> {
        Ok(())
    }

    fn subject(&mut self) -> Result<Subject, Refusal> {
        let mut checkpoint = self.checkpoint.clone();
        checkpoint.storage = self.candidate.storage();
        Ok(Subject {
            checkpoints: vec![checkpoint],
            documents: self.documents.clone(),
            sequences: self.sequences.clone(),
            unpaired: Vec::new(),
        })
    }

    fn fingerprints(&mut self) -> Result<Fingerprints, Refusal> {
        Ok(self.candidate.fingerprints())
    }
}
