//! `metile doctor`: whether a device computes what the language means.

use crate::options::DeviceName;
use anyhow::bail;
use clap::Args;
use metile::Device;
use metile::runtime::differential::{Reported, Verdict, compare, exact};
use metile_ir::interp::{Argument, Buffer};
use metile_ir::tile::Verified;
use metile_kernels::suite::{Case, cases};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Checks a device: every kernel of the library on small and awkward shapes against references in f64 and, where it computes
/// exactly, against the interpreter's bits; and random programs against the interpreter's bits.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The device to check
    #[arg(long, value_enum, default_value_t)]
    device: DeviceName,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// How many random programs
    #[arg(long, value_name = "N", default_value_t = 200)]
    random: u64,
    /// Where random programs start
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Families of kernels to check, such as `gemm softmax`; all if none is given
    families: Vec<String>,
}

/// What a check came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Passed,
    Failed,
    Skipped,
}

#[derive(Debug, Serialize)]
struct Check {
    family: String,
    name: String,
    status: Status,
    /// Why it failed or was skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

#[derive(Debug, Serialize)]
struct Report {
    device: String,
    model: String,
    version: &'static str,
    passed: usize,
    failed: usize,
    skipped: usize,
    cases: Vec<Check>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let device = arguments.device.open()?;
    let model = device.hardware();
    let all = cases();
    let known: Vec<&str> = all.iter().map(|c| c.family).collect();
    if let Some(unknown) = arguments.families.iter().find(|f| !known.contains(&f.as_str())) {
        bail!("no family `{unknown}`");
    }
    let wanted = |family: &str| {
        arguments.families.is_empty() || arguments.families.iter().any(|f| f == family)
    };
    let mut jobs: Vec<Job<'_>> =
        all.iter().filter(|case| wanted(case.family)).map(Job::Library).collect();
    let seeds = arguments.seed..arguments.seed.saturating_add(arguments.random);
    jobs.extend(seeds.map(Job::Random));
    let checks = check_all(&jobs, &device, arguments.json);
    let count = |status| checks.iter().filter(|check| check.status == status).count();
    let [passed, failed, skipped] = [Status::Passed, Status::Failed, Status::Skipped].map(count);
    let report = Report {
        device: device.name().to_owned(),
        model,
        version: env!("CARGO_PKG_VERSION"),
        passed,
        failed,
        skipped,
        cases: checks,
    };
    let mut out = io::stdout().lock();
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        writeln!(
            out,
            "{} on {}: {passed} passed, {failed} failed, {skipped} skipped",
            report.device, report.model
        )?;
    }
    out.flush()?;
    if failed > 0 {
        bail!("{failed} checks failed");
    }
    Ok(())
}

/// One check.
enum Job<'c> {
    Library(&'c Case),
    /// The seed of a random program.
    Random(u64),
}

/// Does all checks. On a GPU several at once: most of their time goes into compiling.
fn check_all(jobs: &[Job<'_>], device: &Device, json: bool) -> Vec<Check> {
    let threads = match device.gpu() {
        Some(_) => std::thread::available_parallelism().map_or(1, usize::from),
        None => 1,
    };
    let (next, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        let interpreter = Device::interpreter();
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(n) else { break };
            let (family, name) = match job {
                Job::Library(case) => (case.family, case.name.clone()),
                Job::Random(seed) => ("random programs", seed.to_string()),
            };
            let (status, why) = guarded(|| match job {
                Job::Library(case) => library(case, device, &interpreter),
                Job::Random(seed) => random(*seed, device),
            });
            // What went wrong is told as it happens; JSON comes as a whole.
            if let (false, Status::Failed, Some(why)) = (json, status, &why) {
                crate::report::note(format_args!("failed: {family} {name}: {why}"));
            }
            let check = Check { family: family.to_owned(), name, status, why };
            done.lock().unwrap_or_else(PoisonError::into_inner).insert(n, check);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
}

/// A check that panics has failed; the others go on.
fn guarded(check: impl FnOnce() -> (Status, Option<String>)) -> (Status, Option<String>) {
    catch_unwind(AssertUnwindSafe(check)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        (Status::Failed, Some(format!("panicked: {}", text.unwrap_or("?"))))
    })
}

fn library(case: &Case, device: &Device, interpreter: &Device) -> (Status, Option<String>) {
    let failed = |why: String| (Status::Failed, Some(why));
    let outcome = match case.run(device) {
        Ok(outcome) => outcome,
        Err(error) => return failed(error.to_string()),
    };
    if !outcome.passed() {
        return failed(format!(
            "error {:.2e} is {:.2} of its bound, {} stray writes, warnings {:?}",
            outcome.max_error(),
            outcome.of_bound(),
            outcome.stray_writes,
            outcome.warnings
        ));
    }
    if case.exact {
        match case.run(interpreter) {
            Ok(reference) if reference.bits() == outcome.bits() => {}
            Ok(_) => return failed("its bits are not the interpreter's".to_owned()),
            Err(error) => return failed(format!("the interpreter: {error}")),
        }
    }
    (Status::Passed, None)
}

fn random(seed: u64, device: &Device) -> (Status, Option<String>) {
    let run =
        |kernel: &Verified, grid: [u64; 3], arguments: &[Argument], buffers: &mut [Buffer<'_>]| {
            device.run_program(kernel, grid, arguments, buffers)
        };
    match compare(seed, &exact(), Reported::Any, run) {
        Ok(Verdict::Same) => (Status::Passed, None),
        Ok(Verdict::Refused(why)) => (Status::Skipped, Some(why)),
        Err(why) => (Status::Failed, Some(why)),
    }
}
