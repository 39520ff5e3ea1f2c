//! Every kernel of the library becomes machine code for NVIDIA GPUs: no GPU is needed, but NVRTC is. Without it
//! nothing is tested, which the output says; where `CI` is set that is a failure.

use metile::ir::tile::verify::verify;
use metile::lang::Definition;
use metile::runtime::cuda::{Arch, Nvrtc, compile};
use metile_compiler::gpu::{Target, class, lower};
use metile_compiler::{Options, optimize};
use metile_device::Limits;
use metile_kernels::registry;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Whether there is a compiler to test with.
fn compiler() -> bool {
    match Nvrtc::get() {
        Ok(_) => true,
        Err(why) if std::env::var_os("CI").is_some() => panic!("{why}"),
        Err(why) => {
            eprintln!("not run: {why}");
            false
        }
    }
}

/// Compiles an instance of each kernel for each value of its dtype.
fn check(target: &Target, arch: Arch, round: bool, all_dtypes: bool) {
    if !compiler() {
        return;
    }
    let mut jobs: Vec<(&'static str, Option<String>)> = Vec::new();
    for entry in registry::registry() {
        let parameters = entry.parameters();
        let dtypes = parameters.iter().find(|p| Some(p.name) == entry.dtype).map(|p| &p.values);
        match dtypes.filter(|_| all_dtypes) {
            Some(values) => jobs.extend(values.iter().map(|v| (entry.name, Some(v.clone())))),
            None => jobs.push((entry.name, None)),
        }
    }
    assert!(jobs.len() > 20);
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some((name, dtype)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let entry = registry::find(name).expect("a kernel of the registry");
            let definition = entry.definition(dtype.as_deref(), &[]).expect("an instance");
            if let Err(error) = compile_one(&definition, target, arch, round) {
                let label = definition.info().label();
                wrong.lock().expect("no panic").push(format!("{label} for {arch}: {error}"));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let wrong = wrong.into_inner().expect("no panic");
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), jobs.len(), wrong.join("\n"));
}

fn compile_one(
    definition: &Definition,
    target: &Target,
    arch: Arch,
    round: bool,
) -> Result<(), String> {
    let kernel = definition.trace().map_err(|e| e.to_string())?;
    let kernel = verify(kernel).map_err(|e| format!("{e:?}"))?;
    let kernel = optimize(kernel, &Options::default()).map_err(|e| e.to_string())?.kernel;
    let classes = match round {
        true => class::round(kernel.kernel()),
        false => class::general(kernel.kernel()),
    };
    let program = lower(&kernel, target, &classes).map_err(|e| e.to_string())?;
    let limits = Limits { shared_bytes: target.shared_bytes, threads: target.threads };
    let program = metile_device::verify(program, &limits).map_err(|e| format!("{e:?}"))?;
    let (_, compilation) = compile(&program, arch).map_err(|e| e.to_string())?;
    if compilation.log.contains("warning") {
        return Err(compilation.log);
    }
    assert!(!compilation.cubin.is_empty());
    Ok(())
}

#[test]
fn for_ampere() {
    check(&Target::AMPERE, Arch::SM_80, true, false);
}

#[test]
fn for_ampere_whatever_the_arguments() {
    check(&Target::AMPERE, Arch::SM_80, false, false);
}

#[test]
fn for_hopper_in_every_dtype() {
    check(&Target::HOPPER, Arch::SM_90A, true, true);
}

#[test]
fn for_hopper_whatever_the_arguments() {
    check(&Target::HOPPER, Arch::SM_90A, false, false);
}
