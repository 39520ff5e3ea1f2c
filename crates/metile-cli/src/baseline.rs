//! `metile baseline`: the libraries that metile is measured beside.

use crate::report;
use clap::{Subcommand, ValueEnum};
use metile_bench::baseline::{Baseline, BaselineError, Device, Found, install};
use std::io::{self, Write};

/// What to do with baselines.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// The baselines, the devices each has, and where it is installed
    List,
    /// Install a baseline's pinned packages into the user's cache folder; nothing if they are there
    Install {
        /// Its name, as `metile baseline list` prints it
        name: String,
        /// What it is to compute on
        #[arg(long, value_enum, default_value_t = DeviceName::Cpu)]
        device: DeviceName,
    },
}

/// A kind of device.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[allow(missing_docs, reason = "the names say it")]
pub enum DeviceName {
    Cpu,
    Cuda,
    Metal,
}

impl From<DeviceName> for Device {
    fn from(name: DeviceName) -> Device {
        match name {
            DeviceName::Cpu => Device::Cpu,
            DeviceName::Cuda => Device::Cuda,
            DeviceName::Metal => Device::Metal,
        }
    }
}

/// Runs the command.
pub fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::List => list(),
        Command::Install { name, device } => {
            let (baseline, device) = (Baseline::parse(name)?, Device::from(*device));
            let done = install(baseline, device, |step| report::note(format_args!("{step}")))?;
            let mut out = io::stdout().lock();
            let what = if done.already { "was installed already" } else { "installed" };
            writeln!(out, "{baseline} for {device} {what}:")?;
            done.packages.iter().try_for_each(|package| writeln!(out, "  {package}"))?;
            Ok(out.flush()?)
        }
    }
}

fn list() -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    for baseline in Baseline::ALL {
        writeln!(out, "{baseline}\t{}", baseline.summary())?;
        for &device in baseline.devices() {
            let state = match baseline.locate(device) {
                Ok(installed) => match installed.found {
                    Found::Python { variable: Some(variable), .. } => {
                        format!("{variable} names it")
                    }
                    Found::Python { python, .. } => python.display().to_string(),
                    Found::Program(program) => program.display().to_string(),
                },
                Err(BaselineError::NotInstalled { command, .. }) => {
                    format!("not installed: `{command}`")
                }
                Err(error) => return Err(error.into()),
            };
            writeln!(out, "  {device}\t{state}")?;
        }
    }
    Ok(out.flush()?)
}
