//! `metile checkpoint`: make checkpoints that other programs read as well.

use crate::model::locate;
use crate::report::{self, shown_bytes};
use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use metile_models::checkpoint::Checkpoint;
use metile_models::checkpoint::convert::{self, ConvertDtype};
use metile_models::checkpoint::synth::{self, AffineLayout, Geometry};
use metile_models::tokenizer::Tokenizer;
use std::path::PathBuf;

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// A known model's sizes with seeded random weights, for measuring.
    Synth(Synth),
    /// Any checkpoint as safetensors.
    Convert(Convert),
}

/// Options of `metile checkpoint synth`.
#[derive(Debug, Args)]
pub struct Synth {
    /// The model whose sizes it has
    #[arg(long, value_parser = geometry)]
    geometry: Geometry,
    /// Layers, instead of all that the model has
    #[arg(long, value_name = "N", value_parser = crate::options::at_least_one)]
    layers: Option<usize>,
    /// Weights in MLX's affine layout instead of bfloat16: affine4-g64 or affine8-g64
    #[arg(long, value_parser = layout)]
    quantize: Option<AffineLayout>,
    /// One seed, one checkpoint
    #[arg(long, value_name = "N")]
    seed: u64,
    /// The checkpoint whose tokenizer it gets
    #[arg(long, value_name = "PATH|smollm2", default_value = "smollm2")]
    tokenizer: String,
    /// The folder to make; it must not exist
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Options of `metile checkpoint convert`.
#[derive(Debug, Args)]
pub struct Convert {
    /// A .gguf file, a folder with safetensors and config.json, a Hugging Face id from the local cache,
    /// or `smollm2`
    source: String,
    /// The type of the tensors written
    #[arg(long, value_enum)]
    dtype: Dtype,
    /// The folder to make; it must not exist
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// A type by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Dtype {
    /// IEEE binary32.
    Float32,
    /// bfloat16, to nearest.
    Bfloat16,
}

fn geometry(name: &str) -> Result<Geometry, String> {
    let known = || Geometry::ALL.map(Geometry::name).join(", ");
    Geometry::from_name(name).ok_or_else(|| format!("known are {}", known()))
}

fn layout(name: &str) -> Result<AffineLayout, String> {
    let known = || AffineLayout::NAMED.map(|(name, _)| name).join(", ");
    AffineLayout::from_name(name).ok_or_else(|| format!("known are {}", known()))
}

/// Runs the command.
pub fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Synth(arguments) => synthesize(arguments),
        Command::Convert(arguments) => convert(arguments),
    }
}

fn progress(done: usize, total: usize) {
    report::progress(format_args!("{done} of {total} tensors"), done == total);
}

fn synthesize(arguments: &Synth) -> anyhow::Result<()> {
    let path = locate(&arguments.tokenizer, false)?;
    let source = Checkpoint::open(&path).context("the tokenizer's checkpoint")?;
    let tokenizer = Tokenizer::from_checkpoint(&source)?;
    let config = match arguments.layers {
        Some(layers) => arguments.geometry.with_layers(layers)?,
        None => arguments.geometry.config(),
    };
    let request = synth::Request {
        geometry: arguments.geometry.name(),
        config: &config,
        quantize: arguments.quantize,
        seed: arguments.seed,
        tokenizer: (&tokenizer, source.config()),
    };
    let written = synth::synthesize(&request, &arguments.out, &mut progress)?;
    report::note(format_args!(
        "{}: {} of weights, SHA-256 {}; tokenizer's SHA-256 {}",
        arguments.out.display(),
        shown_bytes(written.bytes),
        written.weights_sha256,
        written.tokenizer_sha256
    ));
    Ok(())
}

fn convert(arguments: &Convert) -> anyhow::Result<()> {
    let source = Checkpoint::open(&locate(&arguments.source, false)?)?;
    let dtype = match arguments.dtype {
        Dtype::Float32 => ConvertDtype::Float32,
        Dtype::Bfloat16 => ConvertDtype::BFloat16,
    };
    let made = convert::convert(&source, dtype, &arguments.out, &mut progress)?;
    report::note(format_args!(
        "{}: {} values, {} of them rounded, the others equal bit for bit; SHA-256 {}",
        arguments.out.display(),
        made.values,
        made.rounded,
        made.weights_sha256
    ));
    Ok(())
}
