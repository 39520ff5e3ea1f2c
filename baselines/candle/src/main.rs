//! candle as a baseline's worker: the protocol of `docs/src/baselines.md`, without K/V, logits and kernels.

#![forbid(unsafe_code)]

mod models;

use models::{Error, Model};
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::time::Instant;

#[derive(Deserialize)]
struct Request {
    id: u64,
    op: String,
    arguments: Value,
}

#[derive(Deserialize)]
struct Load {
    checkpoint: String,
    dtype: Option<String>,
    capacity: usize,
    variant: String,
}

#[derive(Deserialize)]
struct Generate {
    prompt: Vec<u32>,
    outputs: usize,
    forced: Option<Vec<u32>>,
}

/// A model with its cache.
struct State {
    model: Model,
    capacity: usize,
    position: usize,
}

fn main() -> io::Result<()> {
    let threads = std::env::var("METILE_WORKER_THREADS").unwrap_or_default();
    let hello = json!({
        "protocol": 1,
        "worker": "candle",
        "operations": ["generate", "load", "prefill", "reset", "step"],
        "versions": { "candle": CANDLE, "worker": env!("CARGO_PKG_VERSION") },
        "settings": {
            "device": "cpu", "threads": threads.parse::<usize>().ok(),
            "avx2": candle_core::utils::with_avx(), "mkl": candle_core::utils::has_mkl(),
            "accelerate": candle_core::utils::has_accelerate(), "neon": candle_core::utils::with_neon(),
        },
    });
    let mut out = io::stdout().lock();
    writeln!(out, "{hello}")?;
    out.flush()?;
    let mut state = None;
    for line in io::stdin().lock().lines() {
        let request: Request = serde_json::from_str(&line?).map_err(io::Error::other)?;
        let answer = match serve(&mut state, &request) {
            Ok(value) => json!({ "id": request.id, "ok": value }),
            Err(error) => {
                let unsupported = error.downcast_ref::<Unsupported>().is_some();
                let kind = if unsupported { "unsupported" } else { "refused" };
                json!({ "id": request.id, "error": { "kind": kind, "message": error.to_string() } })
            }
        };
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    if let Some(folder) = std::env::var_os("METILE_EXCHANGE") {
        // Nothing travels through it; it goes all the same if the driver was killed.
        let _ = std::fs::remove_dir_all(folder);
    }
    Ok(())
}

/// The version that `Cargo.toml` pins.
const CANDLE: &str = "0.11.1";

#[derive(Debug)]
struct Unsupported(&'static str);

impl std::fmt::Display for Unsupported {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Unsupported {}

fn serve(state: &mut Option<State>, request: &Request) -> Result<Value, Error> {
    let arguments = request.arguments.clone();
    if request.op == "load" {
        *state = None;
        let load: Load = serde_json::from_value(arguments)?;
        if load.variant != "eager" {
            return Err(Unsupported("candle has no compiler").into());
        }
        let model = Model::load(Path::new(&load.checkpoint), load.dtype.as_deref())?;
        let answer = json!({
            "layers": model.layers, "kv_heads": model.kv_heads, "head_dim": model.head_dim,
            "vocabulary": model.vocabulary, "dtype": model.dtype, "weight_bytes": model.weight_bytes,
            "settings": {},
        });
        *state = Some(State { model, capacity: load.capacity, position: 0 });
        return Ok(answer);
    }
    let state = state.as_mut().ok_or("no model is loaded")?;
    match request.op.as_str() {
        "reset" => {
            state.reset()?;
            Ok(json!({}))
        }
        "prefill" => {
            if arguments["logits"] != "none" {
                return Err(Unsupported("candle's worker shows tokens alone").into());
            }
            state.advance(&serde_json::from_value::<Vec<u32>>(arguments["ids"].clone())?)
        }
        "step" => {
            if arguments["logits"] != false || arguments["kv"] != false {
                return Err(Unsupported("candle's worker shows tokens alone").into());
            }
            state.advance(&[serde_json::from_value(arguments["token"].clone())?])
        }
        "generate" => state.generate(&serde_json::from_value(arguments)?),
        _ => Err(Unsupported("no such operation").into()),
    }
}

impl State {
    fn reset(&mut self) -> Result<(), Error> {
        self.position = 0;
        self.model.fresh()
    }

    fn check(&self, ids: &[u32], position: usize) -> Result<(), Error> {
        if ids.is_empty() {
            return Err("no ids".into());
        }
        if ids.len() > self.capacity.saturating_sub(position) {
            let (count, capacity) = (ids.len(), self.capacity);
            return Err(
                format!("{count} ids after {position} exceed the capacity of {capacity}").into()
            );
        }
        let vocabulary = self.model.vocabulary;
        match ids.iter().find(|&&id| id as usize >= vocabulary) {
            Some(id) => Err(format!("the id {id} is beyond the vocabulary of {vocabulary}").into()),
            None => Ok(()),
        }
    }

    fn forward(&mut self, ids: &[u32]) -> Result<u32, Error> {
        let token = self.model.forward(ids, self.position)?;
        self.position += ids.len();
        Ok(token)
    }

    fn advance(&mut self, ids: &[u32]) -> Result<Value, Error> {
        self.check(ids, self.position)?;
        let start = Instant::now();
        let token = self.forward(ids)?;
        let seconds = start.elapsed().as_secs_f64();
        Ok(json!({ "position": self.position, "token": token, "seconds": seconds }))
    }

    fn generate(&mut self, request: &Generate) -> Result<Value, Error> {
        let Generate { prompt, outputs, forced } = request;
        let (outputs, further) = (*outputs, outputs.checked_sub(1).ok_or("no outputs")?);
        if let Some(forced) = forced {
            if forced.len() != further {
                return Err(format!("{} forced ids for {outputs} outputs", forced.len()).into());
            }
            if further > 0 {
                self.check(forced, 0)?;
            }
        }
        self.check(prompt, 0)?;
        if prompt.len().saturating_add(further) > self.capacity {
            let (prompt, capacity) = (prompt.len(), self.capacity);
            return Err(format!(
                "{prompt} ids and {outputs} outputs exceed the capacity of {capacity}"
            )
            .into());
        }
        let (mut ids, mut stamps) = (Vec::with_capacity(outputs), Vec::with_capacity(outputs));
        let start = Instant::now();
        self.reset()?;
        ids.push(self.forward(prompt)?);
        stamps.push(start.elapsed().as_secs_f64());
        for n in 0..further {
            let fed = forced.as_ref().map_or(ids[n], |forced| forced[n]);
            ids.push(self.forward(&[fed])?);
            stamps.push(start.elapsed().as_secs_f64());
        }
        Ok(json!({ "ids": ids, "stamps_s": stamps, "cache_length": self.position }))
    }
}
