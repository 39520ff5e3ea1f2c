//! Random programs, before against after: the same bits in every buffer, the same lines printed, the
//! same assertion failed.
//!
//! `METILE_RANDOM_PROGRAMS` sets how many programs; `METILE_RANDOM_SEED` where they start.

use metile_compiler::{Options, Pass, optimize};
use metile_ir::interp::{Failure, Interpreter};
use metile_ir::random::{Choices, Inputs, Limits, arguments, program};
use metile_ir::tile::Verified;
use metile_ir::tile::verify::verify;
use proptest::prelude::*;

/// What of a launch is kept.
#[derive(Debug, PartialEq)]
enum Ran {
    Ended {
        bytes: Vec<Vec<u8>>,
        printed: Vec<String>,
    },
    /// An assertion failed, with all that was written until then.
    Failed {
        message: String,
        bytes: Vec<Vec<u8>>,
    },
}

fn run(kernel: &Verified, inputs: &Inputs) -> Result<Ran, String> {
    let mut interpreter = Interpreter::default();
    interpreter.options.check_races = false;
    interpreter.options.warn_division = false;
    interpreter.options.step_limit = Some(10_000_000);
    let mut inputs = inputs.clone();
    let (grid, arguments) = (inputs.grid, inputs.arguments.clone());
    match interpreter.run(kernel, grid, &arguments, &mut inputs.buffers()) {
        Ok(outcome) => Ok(Ran::Ended { bytes: inputs.bytes, printed: outcome.printed }),
        Err(Failure::Assertion(failure)) => {
            Ok(Ran::Failed { message: failure.message, bytes: inputs.bytes })
        }
        Err(other) => Err(other.to_string()),
    }
}

/// Checks each pass alone and all together on one program.
fn check(choices: &mut Choices<'_>, limits: &Limits) -> Result<(), String> {
    let kernel = verify(program(choices, limits)).map_err(|e| format!("generator: {}", e[0]))?;
    let inputs = arguments(kernel.kernel(), choices);
    let before = run(&kernel, &inputs)?;
    // One pass alone, another one for each program, and the whole pipeline.
    let alone = Pass::ALL[choices.below(Pass::ALL.len())];
    let single = Options { passes: vec![alone], ..Options::default() };
    for options in [single, Options::default()] {
        let after = optimize(kernel.clone(), &options).map_err(|e| e.to_string())?;
        let ran = run(&after.kernel, &inputs)?;
        if ran != before {
            return Err(format!(
                "{:?} changed what the kernel does\n{}\nbecame\n{}\n{before:?}\n{ran:?}",
                options.passes,
                kernel.kernel(),
                after.kernel.kernel()
            ));
        }
    }
    Ok(())
}

fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")),
        Err(_) => default,
    }
}

#[test]
fn random_programs_keep_every_bit() {
    let first = number("METILE_RANDOM_SEED", 0);
    for seed in first..first + number("METILE_RANDOM_PROGRAMS", 2_000) {
        let mut choices = Choices::from_seed(seed, 3000);
        if let Err(error) = check(&mut choices, &Limits::default()) {
            panic!("seed {seed}: {error}");
        }
    }
}

/// What is optimized already stays as it is: the pipeline ends because nothing changes.
#[test]
fn optimizing_twice_changes_nothing() {
    for seed in 0..300 {
        let mut choices = Choices::from_seed(seed, 3000);
        let kernel = verify(program(&mut choices, &Limits::default())).expect("verifies");
        let once = optimize(kernel, &Options::default()).expect("optimizes");
        let last = once.stages.last().expect("ran").round;
        assert!(last < Options::default().max_rounds, "seed {seed} went on for {last} rounds");
        let twice = optimize(once.kernel, &Options::default()).expect("optimizes");
        assert!(twice.stages.iter().all(|s| !s.changed), "seed {seed}: {:?}", twice.stages);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]
    /// As above, from bytes that shrink to the least program that shows the mistake.
    #[test]
    fn any_bytes_keep_every_bit(bytes in proptest::collection::vec(any::<u8>(), 0..1500)) {
        let checked = check(&mut Choices::new(&bytes), &Limits::default());
        prop_assert!(checked.is_ok(), "{}", checked.unwrap_err());
    }
}
