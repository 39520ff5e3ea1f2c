//! Every kernel on every device, against references in f64 and against the interpreter.

use metile::Device;
use metile_kernels::suite::{self, Case, Outcome};

/// The devices besides the interpreter, which goes first.
fn devices() -> Vec<Device> {
    vec![Device::interpreter(), Device::cpu()]
}

fn failure(case: &Case, device: &Device, outcome: &Outcome) -> Option<String> {
    if outcome.passed() {
        return None;
    }
    let worst = outcome
        .values
        .iter()
        .zip(&outcome.expected)
        .enumerate()
        .map(|(i, (got, want))| {
            let error = (got - want.value).abs();
            (i, *got, *want, if *got == want.value { 0.0 } else { error / want.within })
        })
        .max_by(|a, b| a.3.total_cmp(&b.3));
    Some(format!(
        "{case:?} on {}: {} values for {}, worst {worst:?}, {} stray writes, warnings {:?}",
        device.name(),
        outcome.values.len(),
        outcome.expected.len(),
        outcome.stray_writes,
        outcome.warnings
    ))
}

/// Runs the cases of `families` on every device.
fn check(families: &[&str]) {
    let cases: Vec<Case> =
        suite::cases().into_iter().filter(|case| families.contains(&case.family)).collect();
    for family in families {
        assert!(cases.iter().any(|case| case.family == *family), "no case of {family}");
    }
    let mut failures = Vec::new();
    for case in &cases {
        let mut reference: Option<Outcome> = None;
        for device in devices() {
            let outcome = match case.run(&device) {
                Ok(outcome) => outcome,
                Err(error) => {
                    failures.push(format!("{case:?} on {}: {error}", device.name()));
                    continue;
                }
            };
            failures.extend(failure(case, &device, &outcome));
            if let Some(reference) = reference.as_ref().filter(|_| case.exact)
                && reference.bits() != outcome.bits()
            {
                failures.push(format!("{case:?}: {} is not the interpreter's", device.name()));
            }
            reference.get_or_insert(outcome);
        }
    }
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), cases.len(), failures.join("\n"));
}

#[test]
fn norms() {
    check(&["rms_norm", "add_rms_norm", "layer_norm", "head_norm"]);
}

#[test]
fn projections() {
    check(&["projection"]);
}

#[test]
fn steps_of_a_decoder() {
    check(&["embedding", "quantize_q8", "rope", "kv_write", "ready_heads", "argmax"]);
}

#[test]
fn decode_attention() {
    check(&["decode_attention"]);
}

#[test]
fn prefill_attention() {
    check(&["prefill_attention"]);
}

#[test]
fn elementwise() {
    check(&["elementwise"]);
}

#[test]
fn rows() {
    check(&["softmax", "reductions"]);
}

#[test]
fn matrices() {
    check(&["gemm", "batched_gemm", "transpose"]);
}

#[test]
fn fourier_transforms() {
    check(&["fft"]);
}
