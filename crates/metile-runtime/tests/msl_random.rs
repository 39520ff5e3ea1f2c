//! Random programs as Metal source on the CPU, against the interpreter: the same bits. `METILE_RANDOM_COMPILED` sets how
//! many, `METILE_RANDOM_SEED` where they start. Without clang nothing is tested, which the output says; where `CI` is set
//! that is a failure.

use metile_ir::interp::{Argument, Buffer};
use metile_ir::tile::Verified;
use metile_runtime::Device;
use metile_runtime::differential::{Reported, Verdict, compare, exact};
use metile_runtime::msl_on_cpu;

fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")),
        Err(_) => default,
    }
}

#[test]
fn random_programs_give_the_interpreters_bits() {
    if let Err(why) = msl_on_cpu::compiler() {
        assert!(std::env::var_os("CI").is_none(), "{why}");
        eprintln!("not run: {why}");
        return;
    }
    let first = number("METILE_RANDOM_SEED", 0);
    let mut same = 0;
    for seed in first..first + number("METILE_RANDOM_COMPILED", 25) {
        let device = Device::msl_on_cpu(seed);
        let run = |kernel: &Verified, grid, arguments: &[Argument], buffers: &mut [Buffer<'_>]| {
            device.run_program(kernel, grid, arguments, buffers)
        };
        match compare(seed, &exact(), Reported::Any, run) {
            Ok(Verdict::Same) => same += 1,
            Ok(Verdict::Refused(_)) => {}
            Err(why) => panic!("seed {seed}: {why}"),
        }
    }
    assert!(same > 0);
}
