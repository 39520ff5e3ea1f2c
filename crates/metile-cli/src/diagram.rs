//! `metile diagram`.

use crate::kernel;
use crate::reports::write_new;
use anyhow::bail;
use clap::{Args, ValueEnum};
use metile_bench::diagram::{self, Machine};
use metile_compiler::cpu;
use std::path::PathBuf;

/// A picture of what the compiler makes of a kernel, from its own structures.
#[derive(Debug, Args)]
pub struct Arguments {
    /// What is drawn
    #[arg(value_enum)]
    what: What,
    #[command(flatten)]
    chosen: kernel::Named,
    /// Where to write it: a name that ends in .svg, and is not there yet
    #[arg(long, value_name = "X.svg")]
    out: PathBuf,
}

/// A picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// Every stage from Tile IR to the CPU's form.
    Pipeline,
    /// Where a product's operands and sums lie.
    Memory,
    /// How programs and elements are shared out.
    Threads,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.out.extension().is_none_or(|e| e != "svg") {
        bail!("--out names a file that ends in .svg, not {}", arguments.out.display());
    }
    let (_, optimized) = arguments.chosen.compile()?;
    let form = cpu::lower(&optimized.kernel);
    let machine = Machine {
        threads: metile::runtime::cpu::threads().map_err(anyhow::Error::msg)?,
        simd: metile::runtime::cpu::simd().to_owned(),
    };
    let svg = match arguments.what {
        What::Pipeline => diagram::pipeline(&optimized, &form),
        What::Memory => diagram::memory(&form, &machine)?,
        What::Threads => diagram::threads(&form, &machine),
    };
    write_new(&arguments.out, svg.as_bytes())
}
