//! `metile bench peers`: kernels beside other libraries, on this machine, in one run.

use crate::{provenance, report};
use anyhow::{Context, bail};
use clap::Args;
use metile::prelude::*;
use metile::runtime::cpu;
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Times kernels of the library and other libraries in turn, on an otherwise idle machine. A ratio is the
/// peer's time over metile's, the median over the rounds: above 1.00 metile is faster.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The Python that has the peers: numpy, onnxruntime and onnx; mkl and torch if they are there
    #[arg(long, env = "METILE_PYTHON", default_value = "python3")]
    python: String,
    /// The script that times them
    #[arg(long, default_value = "python/peers.py")]
    script: PathBuf,
    /// Rounds: in each, every arm is timed, in an order that turns round from one to the next
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Where the report goes; a file that exists is not touched
    #[arg(long)]
    report: Option<PathBuf>,
}

/// A kernel of the suite, at one size.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    rows: usize,
    cols: usize,
    peers: &'static [&'static str],
}

const ROWS: &[&str] = &["onnxruntime", "torch"];
const MATRICES: &[&str] = &["numpy", "mkl", "onnxruntime"];
const fn case(
    name: &'static str,
    rows: usize,
    cols: usize,
    peers: &'static [&'static str],
) -> Case {
    Case { name, rows, cols, peers }
}
const CASES: [Case; 15] = [
    case("gemm", 256, 256, MATRICES),
    case("gemm", 1024, 1024, MATRICES),
    case("gemm", 2048, 2048, MATRICES),
    case("softmax", 256, 1024, ROWS),
    case("softmax", 4096, 4096, ROWS),
    case("rms_norm", 256, 1024, ROWS),
    case("rms_norm", 4096, 4096, ROWS),
    case("layer_norm", 256, 1024, ROWS),
    case("layer_norm", 4096, 4096, ROWS),
    case("log_sum_exp", 256, 1024, &[]),
    case("log_sum_exp", 4096, 4096, &[]),
    case("project_f32", 151_936, 1024, &[]),
    case("project_bf16", 151_936, 1024, &[]),
    case("project_f32", 49_152, 576, &[]),
    case("project_bf16", 49_152, 576, &[]),
];

/// out = log Σⱼ e^(a·b + c), row by row: a kernel that the library does not have.
#[kernel]
fn log_sum_exp<const BLOCK: usize>(
    a: &Tensor<f32, 2>,
    b: &Tensor<f32, 2>,
    out: &mut Tensor<f32, 1>,
    c: f32,
) {
    let row = program_id(0);
    let lane = arange(BLOCK);
    let v = a.load((row, lane)) * b.load((row, lane)) + c;
    let v = select(lane < a.dim(1), v, f32::NEG_INFINITY);
    let peak = v.max();
    out.store(row, log(exp(v - peak).sum()) + peak);
}

/// One way to do a case: gives the seconds of each repeat.
type Arm<'a> = Box<dyn FnMut(usize) -> anyhow::Result<Vec<f64>> + 'a>;

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if let Some(path) = &arguments.report
        && path.exists()
    {
        bail!("{} exists, and reports are never overwritten", path.display());
    }
    let threads = cpu::threads().map_err(anyhow::Error::msg)?;
    let rates = cpu::probe().map_err(anyhow::Error::msg)?[1];
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "{threads} threads, {} vectors; read {:.1} GB/s, copy {:.1} GB/s, multiply {:.0} GFLOP/s",
        cpu::simd(),
        rates.read / 1e9,
        rates.copy / 1e9,
        rates.multiply / 1e9
    )?;
    let mut peers = Peers::start(arguments, threads)?;
    let mut reported = Vec::new();
    for case in CASES {
        let measured = measure(case, arguments.rounds, &mut peers)?;
        writeln!(out, "{}", line(case, &measured, rates.read))?;
        reported.push(measured);
    }
    if let Some(path) = &arguments.report {
        let report = json!({
            "what": "kernels of the library beside other libraries, in turn, in one run",
            "estimator": "per round the ratio of the peer's median to metile's; the median of the rounds",
            "threads": threads,
            "simd": cpu::simd(),
            "version": env!("CARGO_PKG_VERSION"),
            "commit": provenance::commit(),
            "machine": provenance::machine(),
            "peers": peers.versions,
            "read_bytes_per_s": rates.read,
            "copy_bytes_per_s": rates.copy,
            "multiply_flop_per_s": rates.multiply,
            "cases": reported,
        });
        std::fs::write(path, serde_json::to_string_pretty(&report)?)
            .with_context(|| format!("writing {}", path.display()))?;
        report::note(format_args!("wrote {}", path.display()));
    }
    Ok(())
}

fn line(case: Case, measured: &Value, read: f64) -> String {
    let seconds = measured["metile_s"].as_f64().unwrap_or(f64::NAN);
    let mut text =
        format!("{:<13}{:>7}×{:<7}{:>10.1} µs", case.name, case.rows, case.cols, seconds * 1e6);
    let bytes = match case.name {
        "project_f32" => Some(4 * case.rows * case.cols),
        "project_bf16" => Some(2 * case.rows * case.cols),
        "log_sum_exp" => Some(8 * case.rows * case.cols),
        _ => None,
    };
    if let Some(bytes) = bytes {
        let rate = bytes as f64 / seconds;
        text += &format!("  {:.1} GB/s, {:.2} of the read rate", rate / 1e9, rate / read);
    }
    if let Some(ratios) = measured["ratios"].as_object() {
        for (peer, ratio) in ratios {
            match ratio.as_f64() {
                Some(ratio) => text += &format!("  {ratio:.2} × {peer}"),
                None => {
                    text += &format!(
                        "  {peer}: {}",
                        measured["missing"][peer].as_str().unwrap_or("no result")
                    )
                }
            }
        }
    }
    text
}

/// Times every arm of a case in turn.
fn measure(case: Case, rounds: usize, peers: &mut Peers) -> anyhow::Result<Value> {
    let mut ours = metile_arm(case)?;
    // About a tenth of a second a sample, and at least three runs.
    let once = median(ours(3)?);
    let repeats = ((0.1 / once) as usize).clamp(3, 200);
    let mut samples: Vec<Vec<f64>> = vec![Vec::new(); 1 + case.peers.len()];
    let mut missing = serde_json::Map::new();
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..samples.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for arm in order {
            // Threads of the arm before may still look for work.
            std::thread::sleep(Duration::from_millis(30));
            let Some(peer) = arm.checked_sub(1).map(|n| case.peers[n]) else {
                samples[0].push(median(ours(repeats)?));
                continue;
            };
            if missing.contains_key(peer) {
                continue;
            }
            match peers.time(peer, case, repeats)? {
                Ok(seconds) => samples[arm].push(median(seconds)),
                Err(why) => {
                    missing.insert(peer.to_owned(), Value::String(why));
                }
            }
        }
    }
    let mut ratios = serde_json::Map::new();
    for (n, peer) in case.peers.iter().enumerate() {
        let pairs = samples[n + 1].iter().zip(&samples[0]).map(|(peer, ours)| peer / ours);
        let pairs: Vec<f64> = pairs.collect();
        let ratio = if pairs.is_empty() { Value::Null } else { json!(median(pairs)) };
        ratios.insert((*peer).to_owned(), ratio);
    }
    let raw: serde_json::Map<String, Value> =
        case.peers.iter().zip(&samples[1..]).map(|(p, s)| ((*p).to_owned(), json!(s))).collect();
    Ok(json!({
        "case": case.name, "rows": case.rows, "cols": case.cols, "repeats": repeats,
        "metile_s": median(samples[0].clone()), "ratios": ratios, "missing": missing,
        "samples_s": {"metile": samples[0], "peers": raw},
    }))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn noise(n: usize) -> Vec<f32> {
    let mut state = n as u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

/// The kernel of a case, prepared over tensors that live as long as it does.
fn metile_arm(case: Case) -> anyhow::Result<Arm<'static>> {
    let device = Device::cpu();
    let (rows, cols) = (case.rows, case.cols);
    let matrix = || Tensor::from_slice(&device, [rows, cols], &noise(rows * cols));
    let vector = || Tensor::from_slice(&device, [cols], &noise(cols));
    let mut list = CommandList::new(&device);
    match case.name {
        "gemm" => {
            let mut out = Tensor::<f32, 2>::zeros(&device, [rows, cols])?;
            list.record(metile_kernels::gemm(&matrix()?, &matrix()?, &mut out))?;
        }
        "softmax" => {
            let mut out = Tensor::<f32, 2>::zeros(&device, [rows, cols])?;
            list.record(metile_kernels::softmax(&matrix()?, &mut out))?;
        }
        "rms_norm" => {
            let mut out = Tensor::<f32, 2>::zeros(&device, [rows, cols])?;
            list.record(metile_kernels::rms_norm(&matrix()?, &vector()?, &mut out, 1e-5))?;
        }
        "layer_norm" => {
            let mut out = Tensor::<f32, 2>::zeros(&device, [rows, cols])?;
            let (x, w) = (matrix()?, vector()?);
            list.record(metile_kernels::layer_norm(&x, &w, &w, &mut out, 1e-5))?;
        }
        "log_sum_exp" => {
            let mut out = Tensor::<f32, 1>::zeros(&device, [rows])?;
            let (a, b) = (matrix()?, matrix()?);
            list.record(match cols {
                0..=1024 => log_sum_exp::<1024>(&a, &b, &mut out, 0.5).grid(rows),
                _ => log_sum_exp::<4096>(&a, &b, &mut out, 0.5).grid(rows),
            })?;
        }
        name => {
            let x = Tensor::from_slice(&device, [1, cols], &noise(cols))?;
            let mut out = Tensor::<f32, 2>::zeros(&device, [1, rows])?;
            if name == "project_f32" {
                list.record(metile_kernels::project(&x, &matrix()?, &mut out))?;
            } else {
                let halves: Vec<bf16> =
                    noise(rows * cols).into_iter().map(bf16::from_f32).collect();
                let w = Tensor::from_slice(&device, [rows, cols], &halves)?;
                list.record(metile_kernels::project(&x, &w, &mut out))?;
            }
        }
    }
    Ok(Box::new(move |repeats| {
        let timed = (0..repeats).map(|_| {
            let start = Instant::now();
            list.replay()?;
            Ok(start.elapsed().as_secs_f64())
        });
        timed.collect()
    }))
}

/// The process that times the peers.
struct Peers {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    versions: Value,
}

impl Peers {
    fn start(arguments: &Arguments, threads: usize) -> anyhow::Result<Peers> {
        let mut child = Command::new(&arguments.python)
            .arg(&arguments.script)
            .env("METILE_THREADS", threads.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| {
                format!("starting {} {}", arguments.python, arguments.script.display())
            })?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("the peers' process has no pipes");
        };
        let mut peers =
            Peers { child, input, output: BufReader::new(output), versions: Value::Null };
        peers.versions = peers.answer()?["versions"].take();
        Ok(peers)
    }

    fn answer(&mut self) -> anyhow::Result<Value> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            bail!("the peers' process ended; its message is above");
        }
        Ok(serde_json::from_str(&line)?)
    }

    /// Seconds of each repeat, or why the peer can't do it.
    fn time(
        &mut self,
        peer: &str,
        case: Case,
        repeats: usize,
    ) -> anyhow::Result<Result<Vec<f64>, String>> {
        let request = json!({
            "peer": peer, "case": case.name, "rows": case.rows, "cols": case.cols, "repeats": repeats,
        });
        writeln!(self.input, "{request}").context("the peers' process ended")?;
        self.input.flush()?;
        let answer = self.answer()?;
        if let Some(why) = answer["error"].as_str() {
            return Ok(Err(why.to_owned()));
        }
        let seconds = answer["seconds"].as_array().context("an answer without seconds")?;
        Ok(Ok(seconds.iter().filter_map(Value::as_f64).collect()))
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        // It may have ended by itself; nothing is lost either way.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
