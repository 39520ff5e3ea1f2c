//! `metile kernel`.

use crate::disassembly;
use crate::kernel_diff::Diff;
use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use metile::CompileError;
use metile::lang::Definition;
use metile::runtime::cuda;
use metile_compiler::cpu::{self, Instr};
use metile_compiler::gpu::{self, Target};
use metile_compiler::{Optimized, Options, optimize};
use metile_device::Limits;
use metile_ir::tile::verify;
use metile_kernels::registry;
use std::fmt::Write as _;
use std::io::{self, Write};

/// What to do with kernels.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Every kernel of the library, with its family and what it computes
    List,
    /// What becomes of a kernel
    Show(Show),
    /// The first operation whose tile on a device differs from the interpreter's, on random arguments
    Diff(Diff),
}

/// A kernel of the library.
#[derive(Debug, Args)]
pub struct Named {
    /// Its name, as in `metile kernel list`
    name: String,
    /// The dtype or format of what it reads
    #[arg(long)]
    dtype: Option<String>,
    /// A generic parameter, as in BLOCK=1024; may be given several times
    #[arg(long = "set", value_name = "NAME=VALUE")]
    settings: Vec<String>,
}

impl Named {
    /// What it is.
    pub fn definition(&self) -> anyhow::Result<Definition> {
        let entry = registry::find(&self.name).with_context(|| {
            format!("there is no kernel `{}`; `metile kernel list` has them all", self.name)
        })?;
        let mut settings = Vec::new();
        for setting in &self.settings {
            match setting.split_once('=') {
                Some((name, value)) => settings.push((name.trim(), value.trim())),
                None => bail!("--set takes NAME=VALUE, as in BLOCK=1024, not `{setting}`"),
            }
        }
        Ok(entry.definition(self.dtype.as_deref(), &settings)?)
    }

    /// The kernel, and what becomes of it by the passes.
    pub fn compile(&self) -> anyhow::Result<(Definition, Optimized)> {
        let definition = self.definition()?;
        let optimized = optimized(&definition)?;
        Ok((definition, optimized))
    }
}

/// A kernel, and the form to show it in.
#[derive(Debug, Args)]
pub struct Show {
    #[command(flatten)]
    named: Named,
    /// The form to show
    #[arg(long = "as", value_enum, default_value_t = Form::TileIr)]
    form: Form,
    /// For a GPU: which one
    #[arg(long, value_enum, default_value_t = Gpu::Hopper)]
    target: Gpu,
    /// For a GPU: assume nothing of the arguments, instead of contiguous tensors with round extents
    #[arg(long)]
    general: bool,
}

/// A form of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// Tile IR after the passes.
    TileIr,
    /// What the CPU's tile machine runs.
    Cpu,
    /// Device IR for a GPU.
    DeviceIr,
    /// CUDA C++ for an NVIDIA GPU.
    Cuda,
    /// Metal source for an Apple GPU, whatever --target says.
    Msl,
    /// The code that NVRTC makes of it.
    Ptx,
    /// The machine code, through the CUDA toolkit's `cuobjdump` or `nvdisasm`.
    Sass,
    /// The passes over the program, and how the CPU runs what they leave, with the reasons.
    Schedule,
}

/// A class of GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Gpu {
    /// A100 and its kin: sm_80.
    Ampere,
    /// H100 and H200: sm_90a.
    Hopper,
    /// From the M1 on.
    Apple,
}

/// Runs the command.
pub fn run(command: &Command) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match command {
        Command::List => {
            for entry in registry::registry() {
                writeln!(out, "{:<28}{:<14}{}", entry.name, entry.family, entry.summary)?;
                for parameter in entry.parameters() {
                    writeln!(out, "    {} = {}", parameter.name, parameter.values.join(", "))?;
                }
            }
        }
        Command::Show(show) => writeln!(out, "{}", text(show)?.trim_end())?,
        Command::Diff(diff) => {
            let kernel = optimized(&diff.named.definition()?)?.kernel;
            writeln!(out, "{}", diff.run(kernel.kernel())?.trim_end())?;
        }
    }
    Ok(out.flush()?)
}

fn text(show: &Show) -> anyhow::Result<String> {
    let (definition, optimized) = show.named.compile()?;
    Ok(match show.form {
        Form::TileIr => optimized.kernel.kernel().to_string(),
        Form::Cpu => cpu::lower(&optimized.kernel).to_string(),
        Form::DeviceIr => program(show, show.target, &optimized)?.program().to_string(),
        Form::Cuda => gpu::cuda::emit(&program(show, show.target, &optimized)?)?.text,
        Form::Msl => gpu::metal::emit(&program(show, Gpu::Apple, &optimized)?)?.source,
        Form::Ptx => compiled(show, &optimized)?.ptx,
        Form::Sass => disassembly::sass(&compiled(show, &optimized)?.cubin)?,
        Form::Schedule => schedule(&definition, &optimized)?,
    })
}

/// What a GPU runs.
fn program(
    show: &Show,
    target: Gpu,
    optimized: &Optimized,
) -> anyhow::Result<metile_device::Verified> {
    let target = match target {
        Gpu::Ampere => Target::AMPERE,
        Gpu::Hopper => Target::HOPPER,
        Gpu::Apple => Target::APPLE,
    };
    let kernel = &optimized.kernel;
    let classes = match show.general {
        true => gpu::class::general(kernel.kernel()),
        false => gpu::class::round(kernel.kernel()),
    };
    let program = gpu::lower(kernel, &target, &classes).map_err(|diagnostic| CompileError {
        diagnostics: vec![*diagnostic],
        files: kernel.kernel().files.clone(),
    })?;
    let limits = Limits { shared_bytes: target.shared_bytes, threads: target.threads };
    metile_device::verify(program, &limits).map_err(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        anyhow::Error::msg(errors.join("\n"))
    })
}

/// What NVRTC makes of it.
fn compiled(show: &Show, optimized: &Optimized) -> anyhow::Result<cuda::Compilation> {
    let arch = match show.target {
        Gpu::Ampere => cuda::Arch::SM_80,
        Gpu::Hopper => cuda::Arch::SM_90A,
        Gpu::Apple => {
            bail!("no code of NVIDIA's for an Apple GPU; --target takes ampere or hopper")
        }
    };
    Ok(cuda::compile(&program(show, show.target, optimized)?, arch)?.1)
}

/// What was done to the kernel, and how the CPU shares out the rest.
fn schedule(definition: &Definition, optimized: &Optimized) -> anyhow::Result<String> {
    let form = cpu::lower(&optimized.kernel);
    let count = |which: fn(&Instr) -> bool| form.code.iter().filter(|i| which(i)).count();
    let passes = count(|instr| matches!(instr, Instr::Pass(_)));
    let dots = count(|instr| matches!(instr, Instr::Dot(_)));
    let threads = metile::runtime::cpu::threads().map_err(anyhow::Error::msg)?;
    let mut text = format!("kernel {}\npasses:\n", definition.info().label());
    for stage in &optimized.stages {
        let (round, name) = (stage.round, stage.name);
        let (before, after) = (stage.ops_before, stage.ops_after);
        writeln!(text, "  {round}. {name:<13}{before:>5} → {after:<5} operations")?;
    }
    write!(
        text,
        "cpu:\n  \
         {threads} threads, each taking the next programs as it is done: programs may take unlike times\n  \
         {} vectors: the widest of this machine that there are primitives for\n  \
         {passes} passes over tiles and {dots} matrix products in a program's code; passes go {} elements \
         at a time,\n  so that the operands of a pass stay in the first-level cache\n  \
         {} bytes of scratch a thread, for tiles that a later pass needs",
        metile::runtime::cpu::simd(),
        cpu::CHUNK,
        form.scratch_bytes,
    )?;
    Ok(text)
}

/// The program after the passes.
fn optimized(definition: &Definition) -> anyhow::Result<Optimized> {
    let kernel = definition.trace()?;
    let files = kernel.files.clone();
    let verified =
        verify::verify(kernel).map_err(|diagnostics| CompileError { diagnostics, files })?;
    Ok(optimize(verified, &Options::default())?)
}
