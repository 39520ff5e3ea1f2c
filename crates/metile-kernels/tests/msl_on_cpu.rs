//! Every kernel of the library as Metal source, run on the CPU by clang under a header of our own, against references in f64 and
//! the interpreter. The order of threads, the layout of matrices and what shared memory holds at first differ from run to run;
//! results may not.

use metile::Device;
use metile::runtime::msl_on_cpu;
use metile_kernels::suite::{self, Case, Outcome};

/// Seeds that each case runs under.
const SEEDS: [u64; 2] = [1, 2];

/// Whether there is a compiler. Where tests must not be skipped (`CI` is set), it is an error if there is none.
fn ready() -> bool {
    match msl_on_cpu::compiler() {
        Ok(_) => true,
        Err(error) if std::env::var_os("CI").is_some() => panic!("{error}"),
        Err(error) => {
            eprintln!("skipped: {error}");
            false
        }
    }
}

/// Whether tests run that take clang minutes: with `METILE_SLOW_TESTS`, which CI does not set.
fn slow(what: &str) -> bool {
    let wanted = std::env::var_os("METILE_SLOW_TESTS").is_some();
    if !wanted {
        eprintln!("skipped: {what} takes minutes; METILE_SLOW_TESTS=1 runs it");
    }
    wanted
}

fn bits(outcome: &Outcome) -> Vec<u64> {
    outcome.values.iter().map(|v| v.to_bits()).collect()
}

fn run(case: &Case) -> Result<(), String> {
    let mut first: Option<Outcome> = None;
    for seed in SEEDS {
        let outcome = case.run(&Device::msl_on_cpu(seed)).map_err(|e| e.to_string())?;
        if !outcome.passed() {
            return Err(format!(
                "{} of the bound, {} stray writes, {:?}",
                outcome.of_bound(),
                outcome.stray_writes,
                outcome.warnings
            ));
        }
        match &first {
            Some(first) if bits(first) != bits(&outcome) => {
                return Err(format!("seed {seed} gives other bits"));
            }
            _ => first = Some(outcome),
        }
    }
    if case.exact {
        let oracle = case.run(&Device::interpreter()).map_err(|e| e.to_string())?;
        if first.is_some_and(|first| bits(&first) != bits(&oracle)) {
            return Err("not the interpreter's bits".to_owned());
        }
    }
    Ok(())
}

/// Runs the cases of `families`.
fn check(families: &[&str]) {
    if !ready() {
        return;
    }
    let cases: Vec<Case> =
        suite::cases().into_iter().filter(|case| families.contains(&case.family)).collect();
    for family in families {
        assert!(cases.iter().any(|case| case.family == *family), "no case of {family}");
    }
    let failures: Vec<String> = cases
        .iter()
        .filter_map(|case| run(case).err().map(|error| format!("{case:?}: {error}")))
        .collect();
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), cases.len(), failures.join("\n"));
}

#[test]
fn norms() {
    check(&["rms_norm", "add_rms_norm", "layer_norm", "head_norm"]);
}

#[test]
fn projections() {
    if !slow("projections") {
        return;
    }
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
    if !slow("prefill attention") {
        return;
    }
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
