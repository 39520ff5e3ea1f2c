//! One phase: all gates, then each case's warm-ups and trials.

use super::Driver;
use crate::environment;
use crate::estimate;
use crate::order;
use crate::random::Random;
use crate::schema::{Case, GateClass, Phase, Trial, WarmUp};
use crate::study::refusal::{Refusal, rules};
use crate::study::{CasePlan, PhasePlan, Ready, Study, Timed, Turn, Verified};

impl Driver<'_> {
    /// Runs a phase. Whatever ends it early, what was seen is in `self.phases`.
    pub(super) fn phase(&mut self, study: &mut dyn Study, plan: &PhasePlan) -> Result<(), Refusal> {
        self.place = super::Place { phase: plan.name.clone(), ..Default::default() };
        self.phases.push(Phase {
            name: plan.name.clone(),
            scope: plan.scope,
            pairs: plan.pairs,
            before: None,
            after: None,
            cases: plan.cases.iter().map(|case| begun(case, plan.warmups)).collect(),
            selection: None,
            overall: Vec::new(),
        });
        self.progress.begin(format!("{}: gates", plan.name), plan.cases.len() as u64);
        // A study of one case keeps it open: what was validated is what is timed.
        let keep = plan.cases.len() == 1 && plan.pairs > 0;
        for (n, case) in plan.cases.iter().enumerate() {
            self.check_interrupted()?;
            self.place.case.clone_from(&case.name);
            study.open(case)?;
            self.gate(study, case, n)?;
            if !keep {
                study.close(case)?;
            }
            self.progress.step();
        }
        if plan.pairs > 0 {
            self.current().before = Some(environment::conditions());
            for (n, case) in plan.cases.iter().enumerate() {
                self.place.case.clone_from(&case.name);
                if !keep {
                    study.open(case)?;
                }
                self.trials(study, plan, case, n)?;
                study.close(case)?;
                self.summarize(n)?;
            }
            self.current().after = Some(environment::conditions());
            self.select(plan)?;
        }
        self.progress.end();
        Ok(())
    }

    fn current(&mut self) -> &mut Phase {
        let last = self.phases.len() - 1;
        &mut self.phases[last]
    }

    fn gate(&mut self, study: &mut dyn Study, case: &CasePlan, n: usize) -> Result<(), Refusal> {
        let gates = study.gate(case)?;
        let failed = gates.iter().find(|gate| gate.decides && !gate.passed).cloned();
        let covered = |arm: &String| gates.iter().any(|g| g.arm == *arm || g.against == *arm);
        let ungated = case.arms.iter().find(|arm| !covered(arm)).cloned();
        self.current().cases[n].gates = gates;
        if let Some(gate) = failed {
            self.place.arm = Some(gate.arm.clone());
            return Err(Refusal::Rule {
                rule: rules::GATE,
                arm: Some(gate.arm),
                message: format!("{} against {} did not pass", gate.name, gate.against),
                mismatch: gate.first_mismatch.map(Box::new),
            });
        }
        match ungated {
            Some(arm) if case.gate_class != GateClass::None => {
                Err(Refusal::rule(rules::GATE, &arm, "was not validated"))
            }
            _ => Ok(()),
        }
    }

    /// What draws the inputs of a pair.
    pub(super) fn turn_seed(&self, purpose: &str, case: &str, pair: u64) -> u64 {
        Random::named(self.run.seed, &[purpose, &self.place.phase, case, &pair.to_string()]).next()
    }

    fn trials(
        &mut self,
        study: &mut dyn Study,
        plan: &PhasePlan,
        case: &CasePlan,
        n: usize,
    ) -> Result<(), Refusal> {
        let metric = self.declaration.metrics.first().map_or(String::new(), |m| m.name.clone());
        let launches = self.launches(study, case, &metric)?;
        self.progress.begin(format!("{}: {}", plan.name, case.name), plan.warmups + plan.pairs);
        for (warmup, rounds) in [(true, plan.warmups), (false, plan.pairs)] {
            for pair in 0..rounds {
                let seed =
                    self.turn_seed(if warmup { "warmup" } else { "trial" }, &case.name, pair);
                let mut inputs: Option<String> = None;
                for arm in order::of_pair(self.run.seed, &case.name, case.arms.len(), pair) {
                    self.check_interrupted()?;
                    let arm = case.arms[arm].as_str();
                    self.place.arm = Some(arm.to_owned());
                    let turn = Turn { arm, pair, warmup, seed, launches };
                    let (ready, timed, verified) = self.turn(study, case, &turn)?;
                    let same = inputs.get_or_insert_with(|| ready.inputs_sha256.clone());
                    if *same != ready.inputs_sha256 {
                        let message = format!("pair {pair}: the arms had different inputs");
                        return Err(Refusal::rule(rules::INPUTS, arm, message));
                    }
                    if warmup {
                        self.current().cases[n].warmup_runs.push(WarmUp {
                            round: pair,
                            arm: arm.to_owned(),
                            inputs_sha256: ready.inputs_sha256,
                            verified: verified.counts,
                            output_sequence: verified.output_sequence,
                        });
                    } else {
                        let trial = self.trial(case, &turn, ready, timed, verified, &metric)?;
                        self.current().cases[n].trials.push(trial);
                    }
                }
                self.place.arm = None;
                study.after_pair(case, pair)?;
                self.progress.step();
            }
        }
        Ok(())
    }

    /// One run of one arm, with what comes before and after it.
    pub(super) fn turn(
        &mut self,
        study: &mut dyn Study,
        case: &CasePlan,
        turn: &Turn<'_>,
    ) -> Result<(Ready, Timed, Verified), Refusal> {
        let ready = study.before(case, turn)?;
        if !ready.poisoned {
            return Err(Refusal::rule(rules::POISON, turn.arm, "outputs were left as they were"));
        }
        let timed = study.run(case, turn)?;
        let verified = study.after(case, turn)?;
        if case.gate_class != GateClass::None && verified.counts.values().sum::<u64>() == 0 {
            return Err(Refusal::rule(rules::OUTPUTS, turn.arm, "nothing was verified"));
        }
        Ok((ready, timed, verified))
    }

    fn trial(
        &mut self,
        case: &CasePlan,
        turn: &Turn<'_>,
        ready: Ready,
        timed: Timed,
        verified: Verified,
        first: &str,
    ) -> Result<Trial, Refusal> {
        let refuse = |message| Err(Refusal::rule(rules::TIME, turn.arm, message));
        if !timed.values.contains_key(first) {
            return refuse(format!("a trial without `{first}`"));
        }
        for (name, &value) in &timed.values {
            if !self.declaration.metrics.iter().any(|m| m.name == *name) {
                return refuse(format!("`{name}` is no metric of the study"));
            }
            if !(value > 0.0 && value.is_finite()) {
                return refuse(format!("`{name}` is {value}"));
            }
        }
        self.speed.check(turn.arm, &case.work, timed.values[first], self.run.probe)?;
        Ok(Trial {
            pair: turn.pair,
            arm: turn.arm.to_owned(),
            values: timed.values,
            repeats: turn.launches,
            inputs_sha256: ready.inputs_sha256,
            poisoned: ready.poisoned,
            verified: verified.counts,
            output_sequence: verified.output_sequence,
        })
    }

    fn summarize(&mut self, n: usize) -> Result<(), Refusal> {
        let (estimator, seed) = (self.declaration.estimator, self.run.seed);
        let last = self.phases.len() - 1;
        let case = &mut self.phases[last].cases[n];
        let refuse = |error: estimate::EstimateError| Refusal::Rule {
            rule: rules::TIME,
            arm: None,
            message: error.to_string(),
            mismatch: None,
        };
        case.medians = estimate::medians(case).map_err(refuse)?;
        case.summaries = estimate::summaries(case, &self.arms, estimator, seed).map_err(refuse)?;
        Ok(())
    }

    fn select(&mut self, plan: &PhasePlan) -> Result<(), Refusal> {
        let phase = self.current();
        phase.overall = estimate::overall(&phase.cases);
        let Some(SelectionNames { arm, metric, parameter }) = names(plan) else { return Ok(()) };
        phase.selection = estimate::select(&phase.cases, arm, metric, parameter)
            .map_err(|error| Refusal::Broken(error.to_string()))?;
        Ok(())
    }
}

struct SelectionNames<'p> {
    arm: &'p str,
    metric: &'p str,
    parameter: &'p str,
}

fn names(plan: &PhasePlan) -> Option<SelectionNames<'_>> {
    let s = plan.selection.as_ref()?;
    Some(SelectionNames { arm: &s.arm, metric: &s.metric, parameter: &s.parameter })
}

fn begun(case: &CasePlan, warmups: u64) -> Case {
    Case {
        name: case.name.clone(),
        series: case.series.clone(),
        parameters: case.parameters.clone(),
        work: case.work.clone(),
        gate_class: case.gate_class,
        arms: case.arms.clone(),
        absent: case.absent.clone(),
        gates: Vec::new(),
        warmups,
        warmup_runs: Vec::new(),
        trials: Vec::new(),
        medians: Vec::new(),
        summaries: Vec::new(),
    }
}
