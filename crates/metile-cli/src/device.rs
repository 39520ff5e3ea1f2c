//! `metile device`.

use crate::options::DeviceName;
use clap::{Subcommand, ValueEnum};
use std::io::{self, Write};

/// What to do with devices.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// The devices that this program has, by the name `--device` takes
    List,
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
    }
    Ok(out.flush()?)
}
