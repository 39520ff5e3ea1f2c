//! Two requests of a tiny model.

use super::*;
use crate::model_studies::tests::{Fault, described, model, prompt, report, twin};
use crate::schema::Status;
use metile_models::decoder::WeightType;

fn study(fault: Fault) -> Interleaving {
    let candidate = model(WeightType::F32, true);
    let second = candidate.fork().unwrap();
    let prompts = [prompt("first request", 20, 37), prompt("arriving request", 18, 61)];
    let [one, two] = prompts;
    Interleaving {
        declaration: declaration(5, 20, 6),
        checkpoint: described(&candidate),
        requests: [Request::new(candidate, one, 6), Request::new(second, two, 6)],
        opponent: Some(Opponent::new(Box::new(twin(WeightType::F32, fault)))),
        documents: Vec::new(),
        settings: BTreeMap::new(),
        device: metile::Device::cpu(),
        chunk: 8,
        interval: 4,
        arrival: 2,
        rounds: 2,
        series: "tiny".to_owned(),
        alone: Vec::new(),
        last: None,
    }
}

#[test]
fn every_policy_gives_both_requests_what_they_have_alone() {
    let report = report(&mut study(Fault::None));
    assert_eq!(report.status, Status::Complete, "{:?}", report.failure);
    let case = &report.phases[0].cases[0];
    assert_eq!(case.arms, ["fifo", "eager", "chunked"]);
    assert_eq!(case.trials.len(), 6);
    for policy in Policy::ALL {
        let bits = case.gates.iter().filter(|g| g.arm == policy.name());
        // Tokens and bits of two requests.
        assert_eq!(bits.count(), 4);
    }
    for trial in &case.trials {
        assert_eq!(trial.verified["tokens"], 12);
        assert_eq!(trial.verified["cache_entries"], 25 + 23);
        assert!(trial.values["inter_token_max"] >= trial.values["inter_token_p50"]);
        assert!(trial.values["makespan"] > trial.values["arriving_ttft"]);
    }
    // fifo is the baseline of both others.
    assert!(case.summaries.iter().all(|s| s.baseline == "fifo"));
    assert!(case.summaries.iter().any(|s| s.candidate == "chunked"));
}

#[test]
fn a_request_that_differs_from_the_framework_alone_is_timed_under_no_policy() {
    for fault in [Fault::Cache(3), Fault::Logit(2), Fault::Token(1)] {
        let report = report(&mut study(fault));
        assert_eq!(report.failure.unwrap().rule, rules::GATE, "{fault:?}");
        assert!(report.phases[0].cases[0].trials.is_empty());
        assert!(report.phases[0].cases[0].gates.iter().all(|g| g.arm == NAME));
    }
}

#[test]
fn a_policy_that_changes_a_request_is_found() {
    let mut study = study(Fault::None);
    let plan = study.next_phase(&[]).unwrap().unwrap();
    let case = &plan.cases[0];
    study.open(case).unwrap();
    assert!(study.gate(case).unwrap().iter().all(|gate| gate.passed));
    // What a request comes to alone is another state, or other ids, than under the policy.
    study.alone[1].state.replace_range(0..1, "x");
    let gates = study.gate_policy(Policy::Chunked).unwrap();
    assert_eq!(gates.iter().filter(|gate| !gate.passed).count(), 1);
    study.alone[0].ids[5] ^= 1;
    let gates = study.gate_policy(Policy::Eager).unwrap();
    assert_eq!(gates.iter().filter(|gate| !gate.passed).count(), 2);
    let turn = Turn { arm: "eager", pair: 0, warmup: false, seed: 0, launches: 1 };
    study.before(case, &turn).unwrap();
    study.run(case, &turn).unwrap();
    assert!(study.after(case, &turn).is_err());
}
