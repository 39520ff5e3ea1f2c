//! `metile device`.

use crate::options::DeviceName;
use clap::{Subcommand, ValueEnum};
use metile::Device;
use metile::runtime::cpu;
use std::io::{self, Write};

/// What to do with devices.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// The devices that this program has, by the name `--device` takes
    List,
    /// Measure a device: how fast it reads, copies and multiplies; the processor on one thread and on all
    Probe {
        /// The device
        #[arg(long, value_enum, default_value_t)]
        device: DeviceName,
    },
}

/// What a device is.
fn describe(device: &Device) -> String {
    match device.gpu() {
        Some(gpu) => format!(
            "{}, {} multiprocessors, {} MiB, {} KiB of shared memory a block, code for {}",
            gpu.model,
            gpu.processors,
            gpu.memory_bytes >> 20,
            gpu.shared_bytes >> 10,
            gpu.arch
        ),
        None => device.name().to_owned(),
    }
}

/// Runs the command.
pub fn run(command: &Command) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match command {
        Command::List => {
            for name in DeviceName::value_variants() {
                let Some(value) = name.to_possible_value() else { continue };
                let default = if *name == DeviceName::default() { " (default)" } else { "" };
                let state = match name.open() {
                    Ok(device) => describe(&device),
                    Err(why) => format!("not here: {why}"),
                };
                writeln!(out, "{}\t{state}{default}", value.get_name())?;
            }
        }
        Command::Probe { device: DeviceName::Cpu } => {
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
        Command::Probe { device } => {
            let device = device.open()?;
            let (bytes, programs) = match device.gpu() {
                Some(gpu) => (2 << 30, 4 * gpu.processors as usize),
                None => (1 << 20, 1),
            };
            let r = metile_kernels::probe::probe(&device, bytes, programs)?;
            let [read, copy, multiply] = [r.read, r.copy, r.multiply].map(|x| x / 1e9);
            writeln!(out, "{}\nread GB/s\tcopy GB/s\tf32 GFLOP/s", describe(&device))?;
            writeln!(out, "{read:.1}\t{copy:.1}\t{multiply:.0}")?;
        }
    }
    Ok(out.flush()?)
}
