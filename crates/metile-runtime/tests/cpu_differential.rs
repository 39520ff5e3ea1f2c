//! Random programs on the CPU against the interpreter: the same bits wherever operations are exact.
//!
//! `METILE_RANDOM_PROGRAMS` sets how many programs; `METILE_RANDOM_SEED` where they start.

use metile_runtime::cpu::{RunError, run_program};
use metile_runtime::differential::{NotRun, Reported, Verdict, compare, exact};

fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")),
        Err(_) => default,
    }
}

fn check(seed: u64) -> Result<(), String> {
    let verdict = compare(seed, &exact(), Reported::First, |kernel, grid, arguments, buffers| {
        run_program(kernel, grid, arguments, buffers).map_err(|e| match e {
            RunError::Failure(failure) => NotRun::Failure(failure),
            RunError::Threads(why) => NotRun::Broken(why),
        })
    })?;
    match verdict {
        Verdict::Same => Ok(()),
        Verdict::Refused(why) => Err(why),
    }
}

#[test]
fn random_programs_agree_bit_for_bit() {
    let first = number("METILE_RANDOM_SEED", 0);
    let seeds = first..first + number("METILE_RANDOM_PROGRAMS", 1_000);
    let mut failures: Vec<(u64, String)> =
        seeds.filter_map(|seed| Some((seed, check(seed).err()?))).collect();
    // The shortest says most.
    failures.sort_by_key(|(_, report)| report.len());
    if let Some((seed, report)) = failures.first() {
        let others: Vec<&str> =
            failures.iter().map(|(_, r)| r.lines().next().unwrap_or_default()).collect();
        panic!("{} programs differ: {others:#?}\nseed {seed}: {report}", failures.len());
    }
}
