//! Random programs, lowered for every GPU and simulated, against the interpreter: the same bits wherever operations are
//! exact, and nothing found.
//!
//! `METILE_RANDOM_SIMULATED` sets how many programs; `METILE_RANDOM_SEED` where they start.

use metile_compiler::gpu::Target;
use metile_device::sim::Options;
use metile_runtime::differential::{Reported, Verdict, compare, exact};
use metile_runtime::simulator::{Simulator, run_program};

fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")),
        Err(_) => default,
    }
}

fn check(target: Target) {
    let first = number("METILE_RANDOM_SEED", 0);
    let (mut failures, mut refused, mut same) = (Vec::new(), Vec::new(), 0);
    for seed in first..first + number("METILE_RANDOM_SIMULATED", 60) {
        let options = Options { seed, step_limit: 20_000_000, ..Options::default() };
        let simulator = Simulator { target, options };
        let verdict = compare(seed, &exact(), Reported::Any, |kernel, grid, arguments, buffers| {
            run_program(&simulator, kernel, grid, arguments, buffers)
        });
        match verdict {
            Ok(Verdict::Same) => same += 1,
            Ok(Verdict::Refused(why)) => refused.push(why),
            Err(report) => failures.push((seed, report)),
        }
    }
    // The shortest says most.
    failures.sort_by_key(|(_, report)| report.len());
    if let Some((seed, report)) = failures.first() {
        let others: Vec<(u64, &str)> =
            failures.iter().map(|(s, r)| (*s, r.lines().next().unwrap_or_default())).collect();
        panic!("{} programs differ: {others:#?}\nseed {seed}: {report}", failures.len());
    }
    assert!(same > 0);
    let known = |why: &String| why.contains("print") || why.contains("different strides");
    assert!(refused.iter().all(known), "{refused:?}");
}

#[test]
fn random_programs_on_a_simulated_ampere() {
    check(Target::AMPERE);
}

#[test]
fn random_programs_on_a_simulated_hopper() {
    check(Target::HOPPER);
}

#[test]
fn random_programs_on_a_simulated_apple_gpu() {
    check(Target::APPLE);
}
