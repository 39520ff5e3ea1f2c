//! `metile device`.

use crate::options::DeviceName;
use clap::{Subcommand, ValueEnum};
use metile::runtime::cpu;
use std::io::{self, Write};

/// What to do with devices.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// The devices that this program has, by the name `--device` takes
    List,
    /// Measure this machine: how fast it reads, copies and multiplies, on one thread and on all
    Probe,
}

/// Runs the command.
pub fn run(command: &Command) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match command {
        Command::List => {
            for name in DeviceName::value_variants() {
                let Some(value) = name.to_possible_value() else { continue };
                let default = if *name == DeviceName::default() { " (default)" } else { "" };
                writeln!(out, "{}\t{}{default}", value.get_name(), name.open().name())?;
            }
        }
        Command::Probe => {
            let rates = cpu::probe().map_err(anyhow::Error::msg)?;
            writeln!(
                out,
                "cpu, {} vectors\nthreads\tread GB/s\tcopy GB/s\tf32 GFLOP/s",
                cpu::simd()
            )?;
            for r in rates {
                let [read, copy, multiply] = [r.read, r.copy, r.multiply].map(|x| x / 1e9);
                writeln!(out, "{}\t{read:.1}\t{copy:.1}\t{multiply:.0}", r.threads)?;
            }
        }
    }
    Ok(out.flush()?)
}
