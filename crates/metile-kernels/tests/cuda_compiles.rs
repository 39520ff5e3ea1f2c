//! Every kernel of the library becomes machine code for NVIDIA GPUs: no GPU is needed, but NVRTC is. Without it
//! nothing is tested, which the output says; where `CI` is set that is a failure.

use metile::ir::tile::verify::verify;
use metile::lang::Definition;
use metile::runtime::cuda::{Arch, Nvrtc, compile};
use metile_compiler::gpu::{Target, class, lower};
use metile_compiler::{Options, optimize};
use metile_device::{Limits, Verified};
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

/// What a kernel of the library becomes, for the smallest of its instances.
struct Job {
    label: String,
    program: Verified,
}

/// The program of an instance.
fn program(definition: &Definition, target: &Target, round: bool) -> Result<Verified, String> {
    let kernel = definition.trace().map_err(|e| e.to_string())?;
    let kernel = verify(kernel).map_err(|e| format!("{e:?}"))?;
    let kernel = optimize(kernel, &Options::default()).map_err(|e| e.to_string())?.kernel;
    let classes = match round {
        true => class::round(kernel.kernel()),
        false => class::general(kernel.kernel()),
    };
    let program = lower(&kernel, target, &classes).map_err(|e| e.to_string())?;
    let limits = Limits { shared_bytes: target.shared_bytes, threads: target.threads };
    metile_device::verify(program, &limits).map_err(|e| format!("{e:?}"))
}

/// Of the instances with this dtype the one whose threads hold the fewest registers: tiles of others are cut for CPUs, and what
/// spills takes NVRTC minutes.
fn smallest(entry: &registry::Entry, dtype: Option<&str>, target: &Target, round: bool) -> Job {
    let mut definitions = vec![entry.definition(dtype, &[]).expect("an instance")];
    for parameter in entry.parameters().iter().filter(|p| Some(p.name) != entry.dtype) {
        for value in &parameter.values {
            definitions.extend(entry.definition(dtype, &[(parameter.name, value.as_str())]));
        }
    }
    let mut best: Option<(u32, Job)> = None;
    let mut refused = String::new();
    for definition in definitions {
        let label = definition.info().label();
        match program(&definition, target, round) {
            Ok(program) => {
                let values = &program.program().values;
                let widest = values.iter().map(|(v, _)| program.program().count(v)).max();
                let widest = widest.unwrap_or(0);
                if best.as_ref().is_none_or(|(least, _)| widest < *least) {
                    best = Some((widest, Job { label, program }));
                }
            }
            Err(why) => refused = format!("{label}: {why}"),
        }
    }
    best.unwrap_or_else(|| panic!("no instance can be lowered: {refused}")).1
}

/// Compiles an instance of each kernel, or one for each value of its dtype.
fn check(target: &Target, arch: Arch, round: bool, all_dtypes: bool) {
    if !compiler() {
        return;
    }
    let mut jobs: Vec<Job> = Vec::new();
    for entry in registry::registry() {
        let parameters = entry.parameters();
        let dtypes = parameters.iter().find(|p| Some(p.name) == entry.dtype).map(|p| &p.values);
        match dtypes.filter(|_| all_dtypes) {
            Some(values) => {
                jobs.extend(values.iter().map(|v| smallest(&entry, Some(v), target, round)));
            }
            None => jobs.push(smallest(&entry, None, target, round)),
        }
    }
    assert!(jobs.len() > 20);
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let why = match compile(&job.program, arch) {
                Ok((_, c)) if c.log.contains("warning") => c.log,
                Ok((_, c)) if c.cubin.is_empty() => "no code".to_owned(),
                Ok(_) => continue,
                Err(error) => error.to_string(),
            };
            wrong.lock().expect("no panic").push(format!("{} for {arch}: {why}", job.label));
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
