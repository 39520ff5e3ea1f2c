//! The full-state rule: K/V of every layer, all logits and every greedy token of the candidate against a rival's.

use super::candidate::{Candidate, NAME};
use super::rival::{LayerState, Rival};
use super::workload::Prompt;
use crate::gate::{Differences, same_tokens};
use crate::schema::{Figure, Gate, GateClass, Sequence};
use crate::study::Refusal;
use std::ops::Range;

/// Relative and absolute tolerance of comparisons in FP32.
pub const FP32_TOLERANCE: f64 = 1e-3;

/// What a gate goes through.
#[derive(Clone, Copy, Debug)]
pub struct Checks<'p> {
    /// The prompt.
    pub prompt: &'p Prompt,
    /// Tokens to generate.
    pub outputs: usize,
    /// Rows of a chunk.
    pub chunk: usize,
    /// The whole prefix is compared again at the first output, each multiple of this, and the last.
    pub interval: usize,
    /// Relative and absolute tolerance.
    pub tolerance: f64,
}

/// What a gate found.
#[derive(Clone, Debug)]
pub struct Validated {
    /// Its checks. Those after one that failed are not made.
    pub gates: Vec<Gate>,
    /// The greedy ids, if every check passed.
    pub ids: Option<Vec<u32>>,
}

/// Extents of a layer's state.
#[derive(Clone, Copy)]
struct Extents {
    layers: usize,
    kv_heads: usize,
    head_dim: usize,
}

impl Extents {
    fn of(candidate: &Candidate) -> Extents {
        let config = candidate.config();
        Extents { layers: config.layers, kv_heads: config.kv_heads, head_dim: config.head_dim }
    }
}

/// Differences of K/V, of whatever many layers and places.
struct StateDifferences {
    all: Differences,
    extents: Extents,
}

impl StateDifferences {
    fn new(extents: Extents, tolerance: f64) -> StateDifferences {
        StateDifferences { all: Differences::within(tolerance, tolerance), extents }
    }

    /// Compares a layer at `positions`: `expected` has `of` positions, of which these are the part from
    /// `positions.start - first` on; `actual` has just these.
    fn layer(
        &mut self,
        layer: usize,
        positions: &Range<usize>,
        expected: (&LayerState, usize),
        actual: &LayerState,
        when: &str,
    ) {
        let (expected, of) = expected;
        let Extents { kv_heads, head_dim, .. } = self.extents;
        let count = positions.len();
        for (name, expected, actual) in
            [("keys", &expected.keys, &actual.keys), ("values", &expected.values, &actual.values)]
        {
            let sizes = [kv_heads * of * head_dim, kv_heads * count * head_dim];
            if [expected.len(), actual.len()] != sizes {
                self.all.add_all(&format!("layer {layer}, {name}, {when}"), 0, &[0.0], &[]);
                continue;
            }
            for head in 0..kv_heads {
                let row = |values: &[f32], of: usize, n: usize| values[head * of * head_dim + n];
                for n in 0..count * head_dim {
                    let (e, a) = (row(expected, of, n), row(actual, count, n));
                    self.all.add(e.into(), a.into(), || {
                        let position = positions.start + n / head_dim;
                        let index = [head, position, n % head_dim].map(|i| i as u64);
                        (format!("layer {layer}, {name}, {when}"), index.to_vec())
                    });
                }
            }
        }
    }

    /// Compares the prefix of `tokens` in all layers as both have it now.
    fn prefix(
        &mut self,
        candidate: &Candidate,
        rival: &mut dyn Rival,
        tokens: usize,
        when: &str,
    ) -> Result<(), Refusal> {
        for layer in 0..self.extents.layers {
            let expected = rival.key_values(layer, 0..tokens)?;
            let actual = candidate.key_values(layer, 0..tokens)?;
            self.layer(layer, &(0..tokens), (&expected, tokens), &actual, when);
        }
        Ok(())
    }

    fn gate(&self, name: &str, against: &str, counts: &[(&str, usize)]) -> Gate {
        let mut gate = self.all.gate(name, GateClass::State, NAME, against);
        gate.checked.insert("layers".to_owned(), self.extents.layers as u64);
        for (what, count) in counts {
            gate.checked.insert((*what).to_owned(), *count as u64);
        }
        gate
    }
}

/// Compares logits. A rival that shows none fails.
fn logits(differences: &mut Differences, expected: &[f32], actual: &[f32], when: &str) {
    let expected: Vec<f64> = expected.iter().map(|&v| v.into()).collect();
    differences.add_all(&format!("logits, {when}"), 0, &expected, actual);
}

/// The candidate against `rival`, called `against`: at every chunk boundary, after the whole prompt in one call,
/// and at every generated step.
///
/// # Errors
/// If either can't be run.
pub fn full_state(
    candidate: &mut Candidate,
    rival: &mut dyn Rival,
    against: &str,
    checks: &Checks<'_>,
) -> Result<Validated, Refusal> {
    let extents = Extents::of(candidate);
    let tokens = checks.prompt.ids.len();
    rival.reset()?;
    let first = rival.prefill(&checks.prompt.ids)?;
    let mut gates = vec![boundaries(candidate, rival, against, checks)?];
    if !gates[0].passed {
        return Ok(Validated { gates, ids: None });
    }
    candidate.poison()?;
    candidate.prefill(&checks.prompt.ids)?;
    let row = candidate.row()?;
    let when = "after the whole prompt in one call";
    let mut whole = StateDifferences::new(extents, checks.tolerance);
    whole.prefix(candidate, rival, tokens, when)?;
    logits(&mut whole.all, &first.logits, &row.logits, when);
    gates.push(whole.gate(
        "K/V prefix of every layer and logits after the whole prompt in one call, as timed",
        against,
        &[("positions", tokens)],
    ));
    if !whole.all.passed() {
        return Ok(Validated { gates, ids: None });
    }
    let mut steps = Steps::new(extents, checks.tolerance, row.token, first.token);
    while steps.ours.len() < checks.outputs && steps.agree() {
        steps.step(candidate, rival, checks, None)?;
    }
    gates.extend(steps.gates("generated", against, checks.outputs));
    let passed = gates.iter().all(|gate| gate.passed);
    if passed && candidate.cached() != tokens + checks.outputs - 1 {
        return Err(Refusal::Broken(format!(
            "{} valid cache entries after {tokens} ids and {} outputs",
            candidate.cached(),
            checks.outputs
        )));
    }
    Ok(Validated { gates, ids: passed.then_some(steps.ours) })
}

/// The prefix of every layer at every chunk boundary, each chunk read as if the prompt ended with it.
fn boundaries(
    candidate: &mut Candidate,
    rival: &mut dyn Rival,
    against: &str,
    checks: &Checks<'_>,
) -> Result<Gate, Refusal> {
    let extents = Extents::of(candidate);
    let tokens = checks.prompt.ids.len();
    let reference = (0..extents.layers)
        .map(|layer| rival.key_values(layer, 0..tokens))
        .collect::<Result<Vec<_>, _>>()?;
    let mut differences = StateDifferences::new(extents, checks.tolerance);
    candidate.poison()?;
    let (mut read, mut count) = (0, 0);
    for chunk in checks.prompt.ids.chunks(checks.chunk) {
        candidate.chunk(chunk)?;
        read += chunk.len();
        count += 1;
        for (layer, expected) in reference.iter().enumerate() {
            let actual = candidate.key_values(layer, 0..read)?;
            let when = format!("at the chunk boundary after {read} tokens");
            differences.layer(layer, &(0..read), (expected, tokens), &actual, &when);
        }
        if !differences.all.passed() {
            break;
        }
    }
    let name = "K/V prefix of every layer at every chunk boundary";
    Ok(differences.gate(name, against, &[("boundaries", count), ("positions", read)]))
}

/// Feeds the text's own next tokens to both, and compares every step. For weights on which free-running
/// text says little.
///
/// # Errors
/// If either can't be run.
pub fn teacher_forced(
    candidate: &mut Candidate,
    rival: &mut dyn Rival,
    against: &str,
    checks: &Checks<'_>,
) -> Result<Vec<Gate>, Refusal> {
    let extents = Extents::of(candidate);
    rival.reset()?;
    let first = rival.prefill(&checks.prompt.ids)?;
    candidate.poison()?;
    candidate.prefill(&checks.prompt.ids)?;
    let row = candidate.row()?;
    let mut steps = Steps::new(extents, checks.tolerance, row.token, first.token);
    logits(&mut steps.slots.all, &first.logits, &row.logits, "after the prompt");
    for &id in &checks.prompt.next {
        steps.step(candidate, rival, checks, Some(id))?;
        if !steps.slots.all.passed() {
            break;
        }
    }
    Ok(steps.gates("teacher-forced", against, checks.prompt.next.len() + 1))
}

/// Steps of generation, and what was compared in them.
struct Steps {
    slots: StateDifferences,
    prefixes: StateDifferences,
    prefix_checks: usize,
    ours: Vec<u32>,
    theirs: Vec<u32>,
}

impl Steps {
    fn new(extents: Extents, tolerance: f64, ours: u32, theirs: u32) -> Steps {
        Steps {
            slots: StateDifferences::new(extents, tolerance),
            prefixes: StateDifferences::new(extents, tolerance),
            // The prefix at the first output was compared when the prompt was read.
            prefix_checks: 0,
            ours: vec![ours],
            theirs: vec![theirs],
        }
    }

    /// Whether the last tokens are the same, and what was compared is.
    fn agree(&self) -> bool {
        let fine = |d: &StateDifferences| d.all.elements() == 0 || d.all.passed();
        self.ours.last() == self.theirs.last() && fine(&self.slots) && fine(&self.prefixes)
    }

    /// Feeds `forced`, or the last token, to both.
    fn step(
        &mut self,
        candidate: &mut Candidate,
        rival: &mut dyn Rival,
        checks: &Checks<'_>,
        forced: Option<u32>,
    ) -> Result<(), Refusal> {
        let fed = forced.or(self.ours.last().copied()).unwrap_or_default();
        candidate.step(fed)?;
        let row = candidate.row()?;
        let (theirs, slots) = rival.step(fed)?;
        let output = self.ours.len() + 1;
        let tokens = candidate.cached();
        let when = format!("at output {output}");
        logits(&mut self.slots.all, &theirs.logits, &row.logits, &when);
        if slots.len() != self.slots.extents.layers {
            return Err(Refusal::Broken(format!("{} layers showed a new slot", slots.len())));
        }
        for (layer, expected) in slots.iter().enumerate() {
            let positions = tokens - 1..tokens;
            let actual = candidate.key_values(layer, positions.clone())?;
            self.slots.layer(layer, &positions, (expected, 1), &actual, &when);
        }
        self.ours.push(row.token);
        self.theirs.push(theirs.token);
        let whole = output.is_multiple_of(checks.interval.max(1)) || output == checks.outputs;
        if whole && forced.is_none() {
            self.prefixes.prefix(candidate, rival, tokens, &when)?;
            self.prefix_checks += 1;
        }
        Ok(())
    }

    fn gates(&self, how: &str, against: &str, outputs: usize) -> Vec<Gate> {
        let steps = self.ours.len() - 1;
        let mut gates = Vec::new();
        if self.slots.all.elements() > 0 {
            let name = format!("{how}: all logits and the new K/V slot of every layer, every step");
            gates.push(self.slots.gate(&name, against, &[("steps", steps)]));
        }
        if self.prefix_checks > 0 {
            let name = format!("{how}: the whole K/V prefix of every layer, again");
            gates.push(self.prefixes.gate(&name, against, &[("checks", self.prefix_checks)]));
        }
        let name = format!("{how}: the greedy token, every step");
        let mut tokens = same_tokens(&name, NAME, against, &self.theirs, &self.ours);
        tokens.class = GateClass::State;
        // A run that broke off has fewer.
        tokens.passed &= self.ours.len() == outputs;
        let distinct = Sequence::new("", "", self.ours.clone()).distinct;
        tokens.observed.insert("distinct_ids".to_owned(), Figure::new(distinct as f64));
        gates.push(tokens);
        gates
    }
}
