//! Random programs become CUDA source that NVRTC compiles. `METILE_RANDOM_COMPILED` sets how many, `METILE_RANDOM_SEED`
//! where they start. Without NVRTC nothing is tested, which the output says; where `CI` is set that is a failure.

use metile_compiler::gpu::{Target, class, lower};
use metile_compiler::{Options, optimize};
use metile_ir::random::{Choices, Limits, program};
use metile_ir::tile::verify::verify;
use metile_runtime::cuda::{Arch, Nvrtc, compile};

fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")),
        Err(_) => default,
    }
}

#[test]
fn random_programs_compile() {
    if let Err(why) = Nvrtc::get() {
        assert!(std::env::var_os("CI").is_none(), "{why}");
        eprintln!("not run: {why}");
        return;
    }
    let first = number("METILE_RANDOM_SEED", 0);
    let mut compiled = 0;
    for seed in first..first + number("METILE_RANDOM_COMPILED", 25) {
        let mut choices = Choices::from_seed(seed, 600);
        let kernel = verify(program(&mut choices, &Limits::default())).unwrap();
        let kernel = optimize(kernel, &Options::default()).unwrap().kernel;
        let classes = match seed % 2 {
            0 => class::general(kernel.kernel()),
            _ => class::round(kernel.kernel()),
        };
        let target = Target::AMPERE;
        let Ok(program) = lower(&kernel, &target, &classes) else { continue };
        let limits =
            metile_device::Limits { shared_bytes: target.shared_bytes, threads: target.threads };
        let program = metile_device::verify(program, &limits)
            .unwrap_or_else(|e| panic!("seed {seed}: {e:?}\n{}", kernel.kernel()));
        if let Err(error) = compile(&program, Arch::SM_80) {
            panic!("seed {seed}: {error}\n{}", kernel.kernel());
        }
        compiled += 1;
    }
    assert!(compiled > 0);
}
