//! `metile bench suite`: every kernel of the library against references in f64.

use crate::options::DeviceName;
use anyhow::bail;
use clap::Args;
use metile_kernels::suite::{Case, Outcome, cases};
use serde_json::json;
use std::io::{self, Write};

/// Runs the kernel library's numerical regression suite: small and awkward shapes of every kernel, each
/// against a reference in f64. A line per family, and one for each case that fails.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Families to run, such as `gemm softmax`; all if none is given
    families: Vec<String>,
    /// Where the kernels run
    #[arg(long, value_enum, default_value_t)]
    device: DeviceName,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What the cases of a family came to.
#[derive(Default)]
struct Family {
    name: &'static str,
    cases: usize,
    /// The largest error as a part of its bound.
    of_bound: f64,
    seconds: f64,
    failed: Vec<String>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let all = cases();
    let mut known: Vec<&str> = all.iter().map(|c| c.family).collect();
    known.dedup();
    if let Some(unknown) = arguments.families.iter().find(|f| !known.contains(&f.as_str())) {
        bail!("no family `{unknown}`; there are {}", known.join(", "));
    }
    let wanted = |case: &&Case| {
        arguments.families.is_empty() || arguments.families.iter().any(|f| f == case.family)
    };
    let device = arguments.device.open()?;
    let mut families: Vec<Family> = Vec::new();
    for case in all.iter().filter(wanted) {
        if families.last().is_none_or(|f| f.name != case.family) {
            families.push(Family { name: case.family, ..Family::default() });
        }
        let Some(family) = families.last_mut() else { continue };
        family.cases += 1;
        match case.run(&device) {
            Ok(outcome) => add(family, case, &outcome),
            Err(error) => family.failed.push(format!("{}: {error}", case.name)),
        }
    }
    print(arguments.json, device.name(), &families)?;
    let failed: usize = families.iter().map(|f| f.failed.len()).sum();
    if failed > 0 {
        bail!("{failed} cases failed");
    }
    Ok(())
}

fn add(family: &mut Family, case: &Case, outcome: &Outcome) {
    family.of_bound = family.of_bound.max(outcome.of_bound());
    family.seconds += outcome.seconds;
    if !outcome.passed() {
        family.failed.push(format!(
            "{}: error {:.2e} is {:.2} of its bound, {} stray writes, {} warnings",
            case.name,
            outcome.max_error(),
            outcome.of_bound(),
            outcome.stray_writes,
            outcome.warnings.len()
        ));
    }
}

fn print(as_json: bool, device: &str, families: &[Family]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    if as_json {
        let each: Vec<_> = families
            .iter()
            .map(|f| {
                json!({"family": f.name, "cases": f.cases, "largest_error_of_bound": f.of_bound,
                    "launch_s": f.seconds, "failed": f.failed})
            })
            .collect();
        writeln!(out, "{}", json!({"device": device, "families": each}))?;
        return Ok(());
    }
    writeln!(out, "{:<14}{:>6}{:>18}{:>12}", "family", "cases", "error of bound", "launches")?;
    for f in families {
        writeln!(
            out,
            "{:<14}{:>6}{:>18.2}{:>9.1} ms",
            f.name,
            f.cases,
            f.of_bound,
            f.seconds * 1e3
        )?;
        for failure in &f.failed {
            writeln!(out, "  failed: {failure}")?;
        }
    }
    Ok(())
}
