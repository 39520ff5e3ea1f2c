//! The rule for 16-bit runs. Two correct 16-bit implementations differ by more than any fixed small tolerance, so
//! each is set against an FP32 reference, on the reference's own tokens: the candidate's errors may not be much
//! larger than the rival's.

use super::candidate::{Candidate, NAME};
use super::rival::{LayerState, Rival, Row};
use super::state_gate::Checks;
use crate::gate::Differences;
use crate::schema::{Figure, Gate, GateClass, Mismatch, Tolerance};
use crate::study::Refusal;
use std::collections::BTreeMap;

/// How much larger the candidate's root mean square error may be than the rival's.
pub const RMS_FACTOR: f64 = 1.25;
/// How much larger its largest error may be.
pub const MAX_FACTOR: f64 = 2.0;
/// A greedy token is decided where the reference's two highest logits are further apart than this times the
/// larger arm's greatest logit error there.
pub const GAP_FACTOR: f64 = 4.0;
/// The specification's own tolerance of 16-bit comparisons, which is printed and doesn't decide.
pub const PRINTED_TOLERANCE: f64 = 2e-2;

/// Errors of two arms against a reference.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Errors {
    ours_rms: f64,
    ours_max: f64,
    theirs_rms: f64,
    theirs_max: f64,
}

/// Root mean square and largest difference. What is not finite is infinitely far.
fn error(reference: &[f32], values: &[f32]) -> (f64, f64) {
    if reference.len() != values.len() || reference.is_empty() {
        return (f64::INFINITY, f64::INFINITY);
    }
    let (mut squares, mut max) = (0.0f64, 0.0f64);
    for (&r, &v) in reference.iter().zip(values) {
        let d = (f64::from(v) - f64::from(r)).abs();
        let d = if d.is_finite() { d } else { f64::INFINITY };
        squares += d * d;
        max = max.max(d);
    }
    ((squares / reference.len() as f64).sqrt(), max)
}

impl Errors {
    fn of(reference: &[f32], ours: &[f32], theirs: &[f32]) -> Errors {
        let (ours_rms, ours_max) = error(reference, ours);
        let (theirs_rms, theirs_max) = error(reference, theirs);
        Errors { ours_rms, ours_max, theirs_rms, theirs_max }
    }

    /// Ours over theirs; 1 where both are exact.
    fn ratios(&self) -> (f64, f64) {
        let ratio = |ours: f64, theirs: f64| if ours == theirs { 1.0 } else { ours / theirs };
        (ratio(self.ours_rms, self.theirs_rms), ratio(self.ours_max, self.theirs_max))
    }

    fn passed(&self) -> bool {
        let (rms, max) = self.ratios();
        rms <= RMS_FACTOR && max <= MAX_FACTOR
    }
}

/// All errors of a run.
struct Run {
    compared: u64,
    elements: u64,
    worst: Errors,
    worst_ratios: (f64, f64),
    first: Option<Mismatch>,
    outside: u64,
    printed: Differences,
    decided: u64,
    steps: u64,
    wrong: Option<(u64, u32, u32)>,
}

impl Run {
    fn new() -> Run {
        Run {
            compared: 0,
            elements: 0,
            worst: Errors::default(),
            worst_ratios: (0.0, 0.0),
            first: None,
            outside: 0,
            printed: Differences::within(PRINTED_TOLERANCE, PRINTED_TOLERANCE),
            decided: 0,
            steps: 0,
            wrong: None,
        }
    }

    fn compare(&mut self, place: &str, reference: &[f32], ours: &[f32], theirs: &[f32]) {
        let errors = Errors::of(reference, ours, theirs);
        self.compared += 1;
        self.elements += reference.len() as u64;
        let (rms, max) = errors.ratios();
        self.worst_ratios = (self.worst_ratios.0.max(rms), self.worst_ratios.1.max(max));
        self.worst.ours_rms = self.worst.ours_rms.max(errors.ours_rms);
        self.worst.ours_max = self.worst.ours_max.max(errors.ours_max);
        self.worst.theirs_rms = self.worst.theirs_rms.max(errors.theirs_rms);
        self.worst.theirs_max = self.worst.theirs_max.max(errors.theirs_max);
        if !errors.passed() {
            self.outside += 1;
            self.first.get_or_insert_with(|| Mismatch {
                place: format!("{place}: root mean square errors (theirs, then ours)"),
                index: Vec::new(),
                expected: Figure::new(errors.theirs_rms),
                actual: Figure::new(errors.ours_rms),
            });
        }
        let theirs: Vec<f64> = theirs.iter().map(|&v| v.into()).collect();
        self.printed.add_all(place, 0, &theirs, ours);
    }

    fn layer(&mut self, place: &str, layer: usize, states: [&LayerState; 3]) {
        let [reference, ours, theirs] = states;
        let name = |what| format!("layer {layer}, {what}, {place}");
        self.compare(&name("keys"), &reference.keys, &ours.keys, &theirs.keys);
        self.compare(&name("values"), &reference.values, &ours.values, &theirs.values);
    }

    fn row(&mut self, place: &str, reference: &Row, ours: &Row, theirs: &Row) {
        let errors = Errors::of(&reference.logits, &ours.logits, &theirs.logits);
        self.compare(&format!("logits, {place}"), &reference.logits, &ours.logits, &theirs.logits);
        self.steps += 1;
        let larger = errors.ours_max.max(errors.theirs_max);
        if gap(&reference.logits) > GAP_FACTOR * larger {
            self.decided += 1;
            if ours.token != reference.token && self.wrong.is_none() {
                self.wrong = Some((self.steps - 1, reference.token, ours.token));
            }
        }
    }

    fn gates(&self, against: &str) -> Vec<Gate> {
        let figures = |list: &[(&str, f64)]| -> BTreeMap<String, Figure> {
            list.iter().map(|&(name, value)| (name.to_owned(), Figure::new(value))).collect()
        };
        let counts = |list: &[(&str, u64)]| -> BTreeMap<String, u64> {
            list.iter().map(|&(name, count)| (name.to_owned(), count)).collect()
        };
        let errors = Gate {
            name: "teacher-forced on the FP32 reference's tokens: errors of K, V and logits against it, \
                   per layer and step"
                .to_owned(),
            class: GateClass::State,
            arm: NAME.to_owned(),
            against: against.to_owned(),
            decides: true,
            passed: self.compared > 0 && self.outside == 0,
            tolerance: Tolerance::OfAnotherArm {
                arm: against.to_owned(),
                rms_factor: RMS_FACTOR,
                max_factor: MAX_FACTOR,
            },
            checked: counts(&[("elements", self.elements), ("comparisons", self.compared)]),
            observed: figures(&[
                ("largest_rms_ratio", self.worst_ratios.0),
                ("largest_max_ratio", self.worst_ratios.1),
                ("rms", self.worst.ours_rms),
                ("max_abs", self.worst.ours_max),
                ("rms_of_other_arm", self.worst.theirs_rms),
                ("max_abs_of_other_arm", self.worst.theirs_max),
                ("outside", self.outside as f64),
            ]),
            first_mismatch: self.first.clone(),
        };
        let share = self.decided as f64 / self.steps.max(1) as f64;
        let tokens = Gate {
            name: "the FP32 reference's greedy token wherever its top-2 gap decides".to_owned(),
            class: GateClass::State,
            arm: NAME.to_owned(),
            against: "the FP32 reference".to_owned(),
            decides: true,
            passed: self.steps > 0 && self.wrong.is_none(),
            tolerance: Tolerance::SameTokens,
            checked: counts(&[("steps", self.steps), ("tokens", self.decided)]),
            observed: figures(&[("decided_share", share)]),
            first_mismatch: self.wrong.map(|(step, expected, actual)| Mismatch {
                place: "greedy token at step".to_owned(),
                index: vec![step],
                expected: Figure::new(expected.into()),
                actual: Figure::new(actual.into()),
            }),
        };
        let name = "the specification's full-state rule at 2e-2, printed and not decided by";
        let mut printed = self.printed.gate(name, GateClass::State, NAME, against);
        printed.decides = false;
        vec![errors, tokens, printed]
    }
}

/// How far the highest value is above the next.
fn gap(logits: &[f32]) -> f64 {
    let (mut first, mut second) = (f32::NEG_INFINITY, f32::NEG_INFINITY);
    for &v in logits {
        if v > first {
            (first, second) = (v, first);
        } else if v > second {
            second = v;
        }
    }
    f64::from(first) - f64::from(second)
}

/// The candidate and `rival`, called `against`, both in 16 bits, against `reference` in FP32.
///
/// # Errors
/// If one of them can't be run.
pub fn against_reference(
    candidate: &mut Candidate,
    rival: &mut dyn Rival,
    reference: &mut dyn Rival,
    against: &str,
    checks: &Checks<'_>,
) -> Result<Vec<Gate>, Refusal> {
    let layers = candidate.config().layers;
    let tokens = checks.prompt.ids.len();
    let mut run = Run::new();
    reference.reset()?;
    rival.reset()?;
    candidate.poison()?;
    let mut exact = reference.prefill(&checks.prompt.ids)?;
    let theirs = rival.prefill(&checks.prompt.ids)?;
    candidate.prefill(&checks.prompt.ids)?;
    for layer in 0..layers {
        let expected = reference.key_values(layer, 0..tokens)?;
        let theirs = rival.key_values(layer, 0..tokens)?;
        let ours = candidate.key_values(layer, 0..tokens)?;
        run.layer("after the prompt", layer, [&expected, &ours, &theirs]);
    }
    run.row("after the prompt", &exact, &candidate.row()?, &theirs);
    for output in 2..=checks.outputs {
        let fed = exact.token;
        candidate.step(fed)?;
        let (theirs, their_slots) = rival.step(fed)?;
        let (next, slots) = reference.step(fed)?;
        let place = format!("at output {output}");
        let position = candidate.cached() - 1;
        for (layer, (expected, theirs)) in slots.iter().zip(&their_slots).enumerate() {
            let ours = candidate.key_values(layer, position..position + 1)?;
            run.layer(&place, layer, [expected, &ours, theirs]);
        }
        run.row(&place, &next, &candidate.row()?, &theirs);
        exact = next;
    }
    Ok(run.gates(against))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(logits: &[f32]) -> Row {
        let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap();
        Row { token: best as u32, logits: logits.to_vec() }
    }

    fn gates(reference: &[f32], ours: &[f32], theirs: &[f32]) -> [bool; 3] {
        let mut run = Run::new();
        run.row("x", &row(reference), &row(ours), &row(theirs));
        let gates = run.gates("theirs");
        assert!(gates[0].decides && gates[1].decides && !gates[2].decides);
        [gates[0].passed, gates[1].passed, gates[2].passed]
    }

    #[test]
    fn errors_may_be_a_quarter_larger_in_the_mean_and_twice_at_most() {
        let reference = [1.0, 2.0, 3.0, 4.0];
        let theirs = [1.01, 2.01, 3.01, 4.01];
        assert_eq!(gates(&reference, &[1.012, 2.012, 3.012, 4.012], &theirs), [true; 3]);
        // The mean square is fine, one element is not.
        assert!(!gates(&reference, &[1.0, 2.0, 3.0, 4.021], &theirs)[0]);
        assert!(!gates(&reference, &[1.013, 2.013, 3.013, 4.013], &theirs)[0]);
        // Exact values pass whatever theirs are, and a NaN never does.
        assert!(gates(&reference, &reference, &theirs)[0]);
        assert!(gates(&reference, &reference, &reference)[0]);
        assert!(!gates(&reference, &[f32::NAN, 2.0, 3.0, 4.0], &theirs)[0]);
    }

    #[test]
    fn a_token_counts_where_the_gap_is_wide_and_the_share_is_printed() {
        // A gap of 1 and errors of 0.6: open, whoever wins.
        assert_eq!(gates(&[1.0, 2.0], &[1.6, 1.4], &[1.6, 1.4]), [true, true, true]);
        // A gap of 10 decides errors of 1.
        let mut run = Run::new();
        let reference = row(&[0.0, 10.0]);
        let wrong = Row { token: 0, logits: vec![0.5, 9.5] };
        run.row("x", &reference, &wrong, &row(&[1.0, 9.0]));
        let gates = run.gates("theirs");
        assert!(!gates[1].passed);
        assert_eq!(gates[1].observed["decided_share"].value, Some(1.0));
        assert_eq!(gates[1].first_mismatch.as_ref().unwrap().index, [0]);
    }

    #[test]
    fn the_fixed_tolerance_is_printed_and_decides_nothing() {
        let gates = gates(&[1.0, 2.0], &[1.2, 2.2], &[1.0, 1.8]);
        assert!(!gates[2]);
    }
}
