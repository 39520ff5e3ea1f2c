//! `metile bench model`.

use crate::interrupt::Interrupt;
use crate::model::Opened;
use crate::options::{ModelOptions, at_least_one};
use crate::{provenance, report};
use anyhow::bail;
use clap::Args;
use metile::runtime::cpu;
use metile_models::decoder::{Logits, Model};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Rates of reading prompts and of decoding, at given lengths on top of given depths. The tokens are
/// arbitrary: what they are does not matter to the time. A line per case, with the median of the runs.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    model: ModelOptions,
    /// Prompt lengths to read
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [128, 512], value_parser = at_least_one)]
    prefill: Vec<usize>,
    /// Tokens to decode, one by one
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = at_least_one)]
    decode: usize,
    /// Tokens that are in the cache before
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [0, 512])]
    depth: Vec<usize>,
    /// Runs of each case, after one that is not counted
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = at_least_one)]
    runs: usize,
    /// Also print where the time of a decode step and of a prefill chunk goes, kernel by kernel
    #[arg(long, conflicts_with = "json")]
    kernels: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// One thing to measure.
#[derive(Clone, Copy)]
enum Case {
    Prefill(usize),
    Decode(usize),
}

impl Case {
    fn name(self) -> &'static str {
        match self {
            Case::Prefill(_) => "prefill",
            Case::Decode(_) => "decode",
        }
    }
    fn tokens(self) -> usize {
        match self {
            Case::Prefill(n) | Case::Decode(n) => n,
        }
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let opened = Opened::open(&arguments.model)?;
    let longest = arguments.prefill.iter().copied().max().unwrap_or(0).max(arguments.decode);
    let deepest = arguments.depth.iter().copied().max().unwrap_or(0);
    let needed = deepest.saturating_add(longest);
    let context = opened.room(needed);
    if needed > context {
        bail!(
            "{longest} tokens at depth {deepest} need {needed} positions, but the context has {context}"
        );
    }
    let interrupt = Interrupt::install()?;
    let mut model = opened.load(context)?.model;
    let rows = interrupt.during(|cancelled| measure(arguments, &mut model, cancelled))?;
    if arguments.kernels {
        print_kernels(&mut model, 1)?;
        let chunk = model.options().chunk.min(longest);
        print_kernels(&mut model, chunk)?;
    }
    if arguments.json {
        let options = model.options();
        return report::print_json(&json!({
            "device": model.device().name(),
            "threads": cpu::threads().map_err(anyhow::Error::msg)?,
            "activations": options.activations.name(),
            "chunk": options.chunk,
            "commit": provenance::commit(),
            "machine": provenance::machine(),
            "cases": rows,
        }));
    }
    Ok(())
}

fn measure(
    arguments: &Arguments,
    model: &mut Model,
    cancelled: &AtomicBool,
) -> anyhow::Result<Vec<Value>> {
    let mut rows = Vec::new();
    let prefills = arguments.prefill.iter().map(|&n| Case::Prefill(n));
    let cases: Vec<Case> = prefills.chain([Case::Decode(arguments.decode)]).collect();
    for &depth in &arguments.depth {
        for &case in &cases {
            let mut seconds = Vec::new();
            for run in 0..=arguments.runs {
                if cancelled.load(Ordering::Relaxed) {
                    bail!("cancelled");
                }
                let time = time(model, depth, case)?;
                // The first compiles, records and warms up.
                if run > 0 {
                    seconds.push(time);
                }
            }
            seconds.sort_by(f64::total_cmp);
            let rate = case.tokens() as f64 / seconds[seconds.len() / 2];
            if !arguments.json {
                let (name, tokens) = (case.name(), case.tokens());
                let mut out = io::stdout().lock();
                writeln!(
                    out,
                    "{name:<8}{tokens:>7} tokens at depth {depth:>6}: {rate:>9.1} tokens/s"
                )?;
            }
            rows.push(json!({
                "case": case.name(), "tokens": case.tokens(), "depth": depth,
                "tokens_per_s": rate, "seconds": seconds,
            }));
        }
    }
    Ok(rows)
}

/// Where the time goes of reading `rows` tokens at once: the sums of ten times, the largest first. What a
/// kernel takes includes the wait of the threads for each other.
fn print_kernels(model: &mut Model, rows: usize) -> anyhow::Result<()> {
    const TIMES: u32 = 10;
    let ids: Vec<u32> = (0..rows).map(|n| (n * 7919 % model.config().vocabulary) as u32).collect();
    let mut sums: Vec<(String, u32, Duration)> = Vec::new();
    for _ in 0..TIMES {
        model.keep(0);
        for (kernel, time) in model.extend_timed(&ids, Logits::Last)? {
            match sums.iter_mut().find(|sum| sum.0 == kernel) {
                Some(sum) => *sum = (kernel, sum.1 + 1, sum.2 + time),
                None => sums.push((kernel, 1, time)),
            }
        }
    }
    sums.sort_by_key(|sum| std::cmp::Reverse(sum.2));
    let all: Duration = sums.iter().map(|sum| sum.2).sum();
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "{rows} at once: {:.2} ms, of which",
        all.as_secs_f64() * 1e3 / f64::from(TIMES)
    )?;
    for (kernel, count, time) in sums {
        let share = 100.0 * time.as_secs_f64() / all.as_secs_f64();
        let each = time.as_secs_f64() * 1e6 / f64::from(count);
        writeln!(out, "{share:>6.1} %{:>6} × {each:>8.1} µs  {kernel}", count / TIMES)?;
    }
    Ok(())
}

/// Seconds that `case` takes on top of `depth` tokens.
fn time(model: &mut Model, depth: usize, case: Case) -> anyhow::Result<f64> {
    let vocabulary = model.config().vocabulary;
    let chunk = model.options().chunk;
    let ids = |range: std::ops::Range<usize>| -> Vec<u32> {
        range.map(|n| (n.wrapping_mul(7919) % vocabulary) as u32).collect()
    };
    if model.cached().len() < depth {
        model.keep(0);
        for part in ids(0..depth).chunks(chunk) {
            model.extend(part, Logits::None)?;
        }
    }
    model.keep(depth);
    let tokens = ids(depth..depth + case.tokens());
    let start = Instant::now();
    match case {
        Case::Prefill(count) => {
            let last = count.div_ceil(chunk) - 1;
            for (n, part) in tokens.chunks(chunk).enumerate() {
                model.extend(part, if n == last { Logits::Last } else { Logits::None })?;
            }
        }
        Case::Decode(_) => {
            for id in tokens {
                model.extend(&[id], Logits::Last)?;
                model.choice()?;
            }
        }
    }
    Ok(start.elapsed().as_secs_f64())
}
