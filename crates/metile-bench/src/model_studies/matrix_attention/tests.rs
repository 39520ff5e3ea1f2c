//! Forms of attention in a tiny model.

use super::*;
use crate::model_studies::tests::{Fault, described, model, prompt, report, twin};
use crate::schema::Status;
use crate::study::refusal_rules as rules;
use metile_models::decoder::WeightType;

fn study(forms: &[AttentionForm], fault: Fault) -> MatrixAttention {
    let candidate = model(WeightType::F32, false);
    let prompt = prompt("prompt", 40, 61);
    MatrixAttention {
        declaration: declaration(),
        device: metile::Device::cpu(),
        checkpoint: described(&candidate),
        candidate,
        settings: BTreeMap::new(),
        opponent: Opponent::new(Box::new(twin(WeightType::F32, fault))),
        documents: Vec::new(),
        sequences: vec![prompt.sequence()],
        prompt,
        forms: forms.to_vec(),
        outputs: 5,
        chunk: 16,
        interval: 4,
        series: "tiny".to_owned(),
    }
}

#[test]
fn exact_forms_pass_the_full_state_rule_and_nothing_is_timed() {
    let forms = &AttentionForm::ALL[..3];
    let report = report(&mut study(forms, Fault::None));
    assert_eq!(report.status, Status::Complete, "{:?}", report.failure);
    let cases = &report.phases[0].cases;
    assert_eq!(cases.len(), 3);
    for case in cases {
        assert!(case.trials.is_empty() && case.gates.len() >= 4);
        // It is another kernel that ran: the last bits differ.
        let whole = case.gates.iter().find(|g| g.name.contains("one call")).unwrap();
        assert!(whole.observed["max_abs"].value.unwrap() > 0.0, "{}", case.name);
    }
    let kernels = report.fingerprints.kernels.keys();
    assert!(kernels.into_iter().any(|name| name.starts_with("attention_form_tiles")));
}

#[test]
fn a_form_that_fails_leaves_a_report_with_its_first_difference() {
    let report = report(&mut study(&[AttentionForm::Bf16Weights], Fault::None));
    let failure = report.failure.expect("8 bits of a weight are too few for a thousandth");
    assert_eq!(failure.rule, rules::GATE);
    assert!(failure.first_mismatch.is_some());
    assert!(!report.phases[0].cases[0].gates.is_empty());
    let other =
        crate::model_studies::tests::report(&mut study(&[AttentionForm::BaseTwo], Fault::Logit(1)));
    assert_eq!(other.status, Status::Failed);
}

#[test]
fn forms_have_names() {
    for form in AttentionForm::ALL {
        assert_eq!(AttentionForm::from_name(form.name()), Some(form));
    }
}
