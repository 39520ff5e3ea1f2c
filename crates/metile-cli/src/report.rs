//! What is printed: results on stdout, everything about them on stderr.

use crate::model::Loaded;
use metile_models::generate::Generation;
use serde_json::{Value, json};
use std::fmt::Arguments;
use std::io::{self, Write};
use std::time::Duration;

/// A line on stderr. That nobody reads it is no reason to stop.
pub fn note(line: Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// A line on stderr that the next one replaces, unless it is the last.
pub fn progress(line: Arguments<'_>, last: bool) {
    let end = if last { "\n" } else { "" };
    let _ = write!(io::stderr(), "\r{line}\u{1b}[K{end}");
}

/// Whether the error is that nobody reads stdout any more, as of `metile … | head`.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let io = error.root_cause().downcast_ref::<io::Error>();
    io.is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}

/// Prints `value` as a line of JSON.
pub fn print_json(value: &Value) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, value).map_err(io::Error::from)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

/// The object that `generate --json` prints.
pub fn generation_json(
    prompt: &[u32],
    made: &Generation,
    weights_bytes: u64,
    device: &str,
) -> Value {
    let mut object = json!({
        "prompt_ids": prompt,
        "generated_ids": made.ids,
        "text": made.text,
        "finish_reason": made.finish.name(),
        "ttft_s": made.times.first_token.map(|t| t.as_secs_f64()),
        "prefill_tokens_per_s": made.times.prefill_rate(),
        "decode_tokens_per_s": made.times.decode_rate(),
        "weights_bytes": weights_bytes,
        "peak_memory_bytes": peak_memory(),
        "device": device,
    });
    if let (Some(logits), Value::Object(fields)) = (&made.logits, &mut object) {
        fields.insert("logits".to_owned(), json!(logits));
    }
    object
}

/// The lines of `--stats`, on stderr.
pub fn stats(made: &Generation, loaded: &Loaded) {
    let Loaded { model, estimate, time: load } = loaded;
    let (weights, device) = (model.weights_bytes(), model.device().name());
    let times = &made.times;
    let seconds = |t: Duration| format!("{:.3} s", t.as_secs_f64());
    let rate = |r: Option<f64>| r.map_or("-".to_owned(), |r| format!("{r:.1} tokens/s"));
    let first = times.first_token.map_or("-".to_owned(), seconds);
    note(format_args!("device         {device}"));
    note(format_args!(
        "memory         estimated {} (weights {}, K/V cache {}, activations {})",
        shown_bytes(estimate.total()),
        shown_bytes(estimate.weights),
        shown_bytes(estimate.kv_cache),
        shown_bytes(estimate.activations)
    ));
    if let Some(peak) = peak_memory() {
        note(format_args!("               at most {} were in use", shown_bytes(peak)));
    }
    note(format_args!("weights        {} loaded in {}", shown_bytes(weights), seconds(*load)));
    note(format_args!("activations    {}", model.options().activations.name()));
    note(format_args!("kernels        recorded in {}", seconds(times.record)));
    note(format_args!("first token    {first}"));
    note(format_args!(
        "prefill        {} tokens, {} (and {} reused)",
        times.prefill_tokens,
        rate(times.prefill_rate()),
        times.reused_tokens
    ));
    note(format_args!("decode         {} tokens, {}", made.ids.len(), rate(times.decode_rate())));
    note(format_args!("finish         {}", made.finish.name()));
}

/// Bytes as people read them.
pub fn shown_bytes(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.into_iter().find(|&(unit, _)| bytes >= unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} bytes"),
    }
}

/// The most memory that this process had at a time, in bytes; `None` where the system does not say.
pub fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}
