//! `metile bench peers`: kernels and models beside other libraries, on this machine, in one run.

mod gpu;
mod kernels;
mod models;
mod process;

use crate::{provenance, report};
use anyhow::{Context, bail};
use clap::Args;
use metile::Device;
use metile::runtime::cpu;
use process::Peers;
use serde_json::{Map, Value, json};
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

/// Times kernels of the library, and a model if one is given, beside other libraries in turn, on an
/// otherwise idle machine. A ratio is the peer's time over metile's, the median over the rounds: above
/// 1.00 metile is faster. METILE_THREADS is the number of threads on both sides.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The Python that has the peers: numpy, onnxruntime and onnx; mkl, torch, llama_cpp, transformers
    /// (with gguf) if they are there
    #[arg(long, env = "METILE_PYTHON", default_value = "python3")]
    python: String,
    /// What metile runs on: the CPU, or a CUDA device beside PyTorch on the same one
    #[arg(long, value_enum, default_value = "cpu")]
    device: On,
    /// The script that times them, if not python/peers.py or python/peers_cuda.py
    #[arg(long)]
    script: Option<PathBuf>,
    /// Rounds: in each, every arm is timed, in an order that turns round from one to the next
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Cases to run, such as `gemm,prefill,decode`; all if none is given
    #[arg(long, value_delimiter = ',')]
    cases: Vec<String>,
    /// Also prefill and decode with this GGUF file, or `smollm2`
    #[arg(long, value_name = "PATH|smollm2")]
    model: Option<String>,
    /// Where the report goes; a file that exists is not touched
    #[arg(long)]
    report: Option<PathBuf>,
}

/// Devices that there are peers on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum On {
    /// All processors.
    Cpu,
    /// The first CUDA device.
    Cuda,
}

/// How long nothing is done between two arms: threads of the one before may still look for work (those of
/// OpenMP for a fifth of a second).
const PAUSE: Duration = Duration::from_millis(300);

/// One way to do a case: gives the seconds of each repeat, or why it can't.
type Arm<'a> = Box<dyn FnMut(&mut Peers, usize) -> anyhow::Result<Result<Vec<f64>, String>> + 'a>;

/// A case with what each arm took, the first arm being metile.
struct Measured {
    case: &'static str,
    size: [usize; 2],
    repeats: usize,
    /// Each arm's median of every round, or why there is none.
    arms: Vec<(String, Result<Vec<f64>, String>)>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if let Some(path) = &arguments.report
        && path.exists()
    {
        bail!("{} exists, and reports are never overwritten", path.display());
    }
    let (script, about) = match arguments.device {
        On::Cpu => ("python/peers.py", host()?),
        On::Cuda => ("python/peers_cuda.py", Map::new()),
    };
    let script = arguments.script.clone().unwrap_or_else(|| PathBuf::from(script));
    let threads = cpu::threads().map_err(anyhow::Error::msg)?;
    let mut peers = Peers::start(&arguments.python, &script, threads)?;
    let wanted =
        |case: &str| arguments.cases.is_empty() || arguments.cases.iter().any(|c| c == case);
    let mut cases = Vec::new();
    let mut out = io::stdout().lock();
    let mut each = |measured: &Measured| {
        writeln!(out, "{}", measured.line())?;
        cases.push(measured.json());
        Ok(())
    };
    match arguments.device {
        On::Cpu => kernels::measure(arguments.rounds, &mut peers, wanted, &mut each)?,
        On::Cuda => {
            let device = Device::cuda()?;
            gpu::measure(&device, arguments.rounds, &mut peers, wanted, &mut each)?;
        }
    }
    if let Some(model) = &arguments.model {
        if arguments.device == On::Cuda {
            bail!("models beside peers are measured on the CPU; leave out --model");
        }
        models::measure(model, arguments.rounds, &mut peers, wanted, &mut each)?;
    }
    if cases.is_empty() {
        bail!("no such case: {}", arguments.cases.join(", "));
    }
    if let Some(path) = &arguments.report {
        let mut report = json!({
            "what": "metile beside other libraries, in turn, in one run",
            "estimator": "per round the ratio of the peer's median to metile's; the median of the rounds",
            "version": env!("CARGO_PKG_VERSION"),
            "commit": provenance::commit(),
            "machine": provenance::machine(),
            "model": arguments.model.as_ref().map(|name| name.rsplit('/').next()),
            "peers": peers.versions,
            "cases": cases,
        });
        if let Some(report) = report.as_object_mut() {
            report.extend(about);
        }
        std::fs::write(path, serde_json::to_string_pretty(&report)?)
            .with_context(|| format!("writing {}", path.display()))?;
        report::note(format_args!("wrote {}", path.display()));
    }
    Ok(())
}

/// The processors' rates, shown and for the report.
fn host() -> anyhow::Result<Map<String, Value>> {
    let threads = cpu::threads().map_err(anyhow::Error::msg)?;
    let rates = cpu::probe().map_err(anyhow::Error::msg)?[1];
    writeln!(
        io::stdout(),
        "{threads} threads, {} vectors; read {:.1} GB/s, copy {:.1} GB/s, multiply {:.0} GFLOP/s",
        cpu::simd(),
        rates.read / 1e9,
        rates.copy / 1e9,
        rates.multiply / 1e9
    )?;
    let about = json!({
        "threads": threads,
        "simd": cpu::simd(),
        "read_bytes_per_s": rates.read,
        "copy_bytes_per_s": rates.copy,
        "multiply_flop_per_s": rates.multiply,
    });
    Ok(about.as_object().cloned().unwrap_or_default())
}

/// Times every arm in turn, `rounds` times.
fn in_turn(
    case: &'static str,
    size: [usize; 2],
    rounds: usize,
    repeats: usize,
    arms: Vec<(String, Arm<'_>)>,
    peers: &mut Peers,
) -> anyhow::Result<Measured> {
    let (names, mut arms): (Vec<String>, Vec<Arm<'_>>) = arms.into_iter().unzip();
    let mut samples: Vec<Result<Vec<f64>, String>> = vec![Ok(Vec::new()); arms.len()];
    // Once unmeasured: peers compile, load and warm up.
    for (arm, samples) in arms.iter_mut().zip(&mut samples) {
        if let Err(why) = arm(peers, 1)? {
            *samples = Err(why);
        }
    }
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..arms.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for n in order {
            let Ok(known) = &mut samples[n] else { continue };
            std::thread::sleep(PAUSE);
            match arms[n](peers, repeats)? {
                Ok(seconds) => known.push(median(seconds)),
                Err(why) => samples[n] = Err(why),
            }
        }
    }
    Ok(Measured { case, size, repeats, arms: names.into_iter().zip(samples).collect() })
}

impl Measured {
    /// An arm's median over the rounds.
    fn seconds(&self, arm: usize) -> f64 {
        self.arms[arm].1.as_ref().map_or(f64::NAN, |samples| median(samples.clone()))
    }

    /// The median over the rounds of an arm's time over that of arm `ours`.
    fn ratio(&self, arm: usize, ours: usize) -> Option<f64> {
        let (Ok(theirs), Ok(ours)) = (&self.arms[arm].1, &self.arms[ours].1) else { return None };
        let ratios: Vec<f64> = theirs.iter().zip(ours).map(|(t, o)| t / o).collect();
        (!ratios.is_empty()).then(|| median(ratios))
    }

    /// The arms that are metile's own, which come first.
    fn own(&self) -> usize {
        self.arms.iter().filter(|(name, _)| name.starts_with("metile")).count()
    }

    fn line(&self) -> String {
        let [rows, cols] = self.size;
        let size = if cols == 0 { format!("{rows}") } else { format!("{rows}×{cols}") };
        let mut text = format!("{:<13}{size:>12}", self.case);
        for ours in 0..self.own() {
            let seconds = self.seconds(ours);
            text += &match cols {
                0 => format!("  {}: {:.1} tokens/s", self.arms[ours].0, rows as f64 / seconds),
                _ => format!("{:>11.1} µs", seconds * 1e6),
            };
            if let Some(bytes) = kernels::bytes(self) {
                text += &format!("  {:.1} GB/s", bytes as f64 / seconds / 1e9);
            }
            for arm in self.own()..self.arms.len() {
                let name = &self.arms[arm].0;
                match (&self.arms[arm].1, self.ratio(arm, ours)) {
                    (_, Some(ratio)) => text += &format!("  {ratio:.2} × {name}"),
                    (Err(why), _) if ours == 0 => text += &format!("  {name}: {why}"),
                    _ => {}
                }
            }
        }
        text
    }

    fn json(&self) -> Value {
        let (mut ratios, mut missing, mut samples) = (Map::new(), Map::new(), Map::new());
        for (arm, (name, times)) in self.arms.iter().enumerate() {
            match times {
                Ok(times) => samples.insert(name.clone(), json!(times)),
                Err(why) => missing.insert(name.clone(), json!(why)),
            };
            for ours in 0..self.own() {
                if arm >= self.own() {
                    let key = format!("{name} / {}", self.arms[ours].0);
                    ratios.insert(key, json!(self.ratio(arm, ours)));
                }
            }
        }
        json!({
            "case": self.case, "rows": self.size[0], "cols": self.size[1], "repeats": self.repeats,
            "ratios": ratios, "missing": missing, "samples_s": samples,
        })
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
