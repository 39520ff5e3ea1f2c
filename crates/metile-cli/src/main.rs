//! `metile`: run language models, look at kernels and devices.

mod baseline;
mod bench_model;
mod bench_peers;
mod bench_suite;
mod chat;
mod checkpoint;
mod device;
mod diagram;
mod disassembly;
mod doctor;
mod generate;
mod interrupt;
mod kernel;
mod kernel_diff;
mod kernel_worker;
mod model;
mod options;
mod provenance;
mod report;
mod reports;
mod smollm2;
mod study;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::process::ExitCode;

/// Tile kernels written in Rust, and language models that run on them.
#[derive(Debug, Parser)]
#[command(name = "metile", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Continue a prompt.
    Generate(generate::Arguments),
    /// Talk with a model, line by line.
    Chat(chat::Arguments),
    /// Measure.
    #[command(subcommand)]
    Bench(Bench),
    /// Make checkpoints.
    #[command(subcommand)]
    Checkpoint(checkpoint::Command),
    /// The libraries that metile is measured beside.
    #[command(subcommand)]
    Baseline(baseline::Command),
    /// Look at the kernel library.
    #[command(subcommand)]
    Kernel(kernel::Command),
    /// Check that a device computes what the language means.
    Doctor(doctor::Arguments),
    /// Kernels for a study in another process, which starts this command itself.
    #[command(hide = true)]
    KernelWorker,
    /// Check, show and draw reports.
    #[command(subcommand)]
    Report(reports::Command),
    /// Draw what the compiler makes of a kernel.
    Diagram(diagram::Arguments),
    /// Look at the devices.
    #[command(subcommand)]
    Device(device::Command),
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// Prefill and decode rates of a model.
    Model(bench_model::Arguments),
    /// Kernels beside other libraries.
    Peers(bench_peers::Arguments),
    /// The kernel library's results against references.
    Suite(bench_suite::Arguments),
}

fn main() -> ExitCode {
    // Studies and their options are data of the catalogue, so their commands are made of it.
    let matches = Cli::command().subcommand(study::command()).get_matches();
    if let Some(("study", chosen)) = matches.subcommand() {
        return ended(study::run(chosen));
    }
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    ended(match cli.command {
        Command::Generate(arguments) => generate::run(&arguments),
        Command::Chat(arguments) => chat::run(&arguments),
        Command::Bench(Bench::Model(arguments)) => bench_model::run(&arguments),
        Command::Bench(Bench::Peers(arguments)) => bench_peers::run(&arguments),
        Command::Bench(Bench::Suite(arguments)) => bench_suite::run(&arguments),
        Command::Checkpoint(command) => checkpoint::run(&command),
        Command::Baseline(command) => baseline::run(&command),
        Command::Kernel(command) => kernel::run(&command),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::KernelWorker => kernel_worker::run(),
        Command::Diagram(arguments) => diagram::run(&arguments),
        Command::Report(command) => match reports::run(&command) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Command::Device(command) => device::run(&command),
    })
}

fn ended(done: anyhow::Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if report::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            report::note(format_args!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
