//! Models in a worker.

use super::command::Variant;
use super::error::BaselineError;
use super::exchange::TensorLine;
use super::process::{Answer, Worker};
use super::tensor::{Dtype, Tensor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

/// What to load, and how.
#[derive(Clone, Debug)]
pub struct LoadRequest {
    /// A folder with safetensors, or a GGUF file, as the baseline reads it.
    pub checkpoint: PathBuf,
    /// What weights and arithmetic are converted to; none for what the file has.
    pub dtype: Option<Dtype>,
    /// Positions of the K/V cache, where one is allocated ahead (static caches, llama.cpp).
    pub capacity: usize,
    /// How the library is used.
    pub variant: Variant,
}

/// A model in a worker.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loaded {
    /// Layers.
    pub layers: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Elements of a head.
    pub head_dim: usize,
    /// Rows of logits.
    pub vocabulary: usize,
    /// The arithmetic's type as the library names it.
    pub dtype: String,
    /// Bytes of all weights as they lie in memory, where the library says.
    pub weight_bytes: Option<u64>,
    /// What else decides its arithmetic and speed, such as the attention that it chose.
    pub settings: Map<String, Value>,
}

/// Which logits a prefill is to return.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogitsWanted {
    /// None: the last row alone is projected, for the greedy token.
    #[default]
    None,
    /// The last row, `[vocabulary]`.
    Last,
    /// One row per id, `[ids, vocabulary]`.
    All,
}

/// What a step is to return beside the token.
#[derive(Clone, Copy, Debug, Default)]
pub struct StepWanted {
    /// Logits, `[vocabulary]`.
    pub logits: bool,
    /// The new slot of every layer's K/V.
    pub kv: bool,
}

/// Keys (rotated, as cached) and values.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyValues {
    /// `[layers, kv_heads, positions, head_dim]`.
    pub keys: Tensor,
    /// `[layers, kv_heads, positions, head_dim]`.
    pub values: Tensor,
}

/// What a prefill or a step gave.
#[derive(Clone, Debug)]
pub struct Advance {
    /// Valid entries of the cache now.
    pub position: usize,
    /// The greedy token after the last id.
    pub token: u32,
    /// What was wanted of the logits.
    pub logits: Option<Tensor>,
    /// The new slot, if it was wanted.
    pub kv: Option<KeyValues>,
    /// Seconds by the worker's clock, from the ids to the token on the host; fetching logits and K/V for the
    /// driver is not in it.
    pub seconds: f64,
}

/// A complete greedy generation, end-of-sequence tokens ignored.
#[derive(Clone, Copy, Debug)]
pub struct Generate<'a> {
    /// The prompt.
    pub prompt: &'a [u32],
    /// How many tokens, at least one.
    pub outputs: usize,
    /// Teacher-forced: what is fed in place of the model's own tokens, `outputs - 1` of them.
    pub forced: Option<&'a [u32]>,
}

/// A timed generation.
#[derive(Clone, Debug)]
pub struct Generation {
    /// The model's greedy tokens.
    pub ids: Vec<u32>,
    /// Seconds from before the cache's reset or construction until each token was on the host, by the
    /// worker's clock: the first is the time to first token, the last the total.
    pub stamps_s: Vec<f64>,
    /// Valid entries of the cache afterwards.
    pub cache_length: usize,
    /// Seconds by the driver's clock, the messages included.
    pub round_trip_s: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyValueLines {
    keys: TensorLine,
    values: TensorLine,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AdvanceLine {
    position: usize,
    token: u32,
    #[serde(default)]
    logits: Option<TensorLine>,
    #[serde(default)]
    kv: Option<KeyValueLines>,
    seconds: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GenerationLine {
    ids: Vec<u32>,
    stamps_s: Vec<f64>,
    cache_length: usize,
}

/// A worker with a model loaded.
pub struct ModelWorker {
    worker: Worker,
    loaded: Loaded,
    position: usize,
    limit: Option<Duration>,
}

impl ModelWorker {
    /// Loads a checkpoint. Everything that may be done once is done here: conversion, allocation, compilation.
    ///
    /// # Errors
    /// If the worker can't.
    pub fn load(mut worker: Worker, request: &LoadRequest) -> Result<ModelWorker, BaselineError> {
        let arguments = json!({
            "checkpoint": request.checkpoint, "dtype": request.dtype, "capacity": request.capacity,
            "variant": request.variant,
        });
        let loaded: Loaded = worker.call("load", arguments, None)?.value;
        let counts = [loaded.layers, loaded.kv_heads, loaded.head_dim, loaded.vocabulary];
        if counts.contains(&0) || counts.iter().any(|&n| n > 1 << 24) {
            return Err(worker.inconsistent("load", format!("an absurd geometry: {loaded:?}")));
        }
        Ok(ModelWorker { worker, loaded, position: 0, limit: None })
    }

    /// How long each operation may take from now on, in place of the worker's usual limit.
    pub fn set_limit(&mut self, limit: Duration) {
        self.limit = Some(limit);
    }

    /// What was loaded.
    pub fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    /// The process.
    pub fn worker(&self) -> &Worker {
        &self.worker
    }

    /// Valid entries of the cache.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Whether the worker can show K/V, without which only tokens and logits can be compared.
    pub fn has_key_values(&self) -> bool {
        self.worker.hello().operations.iter().any(|op| op == "kv")
    }

    /// Empties the cache.
    ///
    /// # Errors
    /// If the worker fails.
    pub fn reset(&mut self) -> Result<(), BaselineError> {
        self.worker.call::<Map<String, Value>>("reset", json!({}), self.limit)?;
        self.position = 0;
        Ok(())
    }

    /// Appends `ids` to the cache in one call of the model.
    ///
    /// # Errors
    /// If `ids` is empty, beyond the capacity or the vocabulary, or the worker fails.
    pub fn prefill(&mut self, ids: &[u32], logits: LogitsWanted) -> Result<Advance, BaselineError> {
        let arguments = json!({ "ids": ids, "logits": logits });
        let line = self.worker.call("prefill", arguments, self.limit)?.value;
        let shape = match logits {
            LogitsWanted::None => None,
            LogitsWanted::Last => Some(vec![self.loaded.vocabulary]),
            LogitsWanted::All => Some(vec![ids.len(), self.loaded.vocabulary]),
        };
        self.advanced("prefill", line, ids.len(), shape, false)
    }

    /// Appends `ids` piece by piece: after each position of `stops` (ascending, the last one `ids.len()`), counted
    /// from the present position, `visit` sees the worker, for instance to read its K/V.
    ///
    /// # Errors
    /// If the stops are not ascending or do not end with the ids, the worker fails, or `visit` does.
    pub fn prefill_with_stops<E: From<BaselineError>>(
        &mut self,
        ids: &[u32],
        stops: &[usize],
        logits: LogitsWanted,
        mut visit: impl FnMut(&mut ModelWorker, usize, Advance) -> Result<(), E>,
    ) -> Result<(), E> {
        let ascending = stops.is_sorted_by(|a, b| a < b) && stops.first() != Some(&0);
        if !ascending || stops.last() != Some(&ids.len()) {
            return Err(E::from(BaselineError::Inconsistent {
                baseline: self.worker.name().to_owned(),
                op: "prefill".to_owned(),
                what: format!("nothing: the stops {stops:?} do not divide {} ids", ids.len()),
            }));
        }
        let mut from = 0;
        for &stop in stops {
            let advance = self.prefill(&ids[from..stop], logits)?;
            visit(self, stop, advance)?;
            from = stop;
        }
        Ok(())
    }

    /// Appends one token.
    ///
    /// # Errors
    /// As [`prefill`](Self::prefill).
    pub fn step(&mut self, token: u32, wanted: StepWanted) -> Result<Advance, BaselineError> {
        let arguments = json!({ "token": token, "logits": wanted.logits, "kv": wanted.kv });
        let line = self.worker.call("step", arguments, self.limit)?.value;
        let shape = wanted.logits.then(|| vec![self.loaded.vocabulary]);
        self.advanced("step", line, 1, shape, wanted.kv)
    }

    fn advanced(
        &mut self,
        op: &str,
        line: AdvanceLine,
        ids: usize,
        logits: Option<Vec<usize>>,
        kv: bool,
    ) -> Result<Advance, BaselineError> {
        let AdvanceLine { position, token, logits: logits_line, kv: kv_lines, seconds } = line;
        if position != self.position + ids {
            let what = format!("position {position} after {ids} ids from {}", self.position);
            return Err(self.worker.inconsistent(op, what));
        }
        self.position = position;
        if token as usize >= self.loaded.vocabulary {
            return Err(self.worker.inconsistent(op, format!("the token {token}")));
        }
        if !(seconds.is_finite() && seconds >= 0.0) {
            return Err(self.worker.inconsistent(op, format!("a time of {seconds} s")));
        }
        if (logits.is_some(), kv) != (logits_line.is_some(), kv_lines.is_some()) {
            return Err(self.worker.inconsistent(op, "other tensors than were wanted".to_owned()));
        }
        let logits = match (logits_line, logits) {
            (Some(line), Some(shape)) => Some(self.tensor(op, &line, &shape)?),
            _ => None,
        };
        let kv = match kv_lines {
            Some(lines) => Some(self.key_values(op, &lines, self.loaded.layers, 1)?),
            None => None,
        };
        Ok(Advance { position, token, logits, kv, seconds })
    }

    fn tensor(
        &mut self,
        op: &str,
        line: &TensorLine,
        shape: &[usize],
    ) -> Result<Tensor, BaselineError> {
        let tensor = self.worker.take(op, line)?;
        let dtype = tensor.dtype();
        if !matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::Bf16) {
            return Err(self.worker.inconsistent(op, format!("values of type {dtype}")));
        }
        tensor.expect(dtype, shape).map_err(|source| self.worker.tensor_error(op, source))
    }

    fn key_values(
        &mut self,
        op: &str,
        lines: &KeyValueLines,
        layers: usize,
        positions: usize,
    ) -> Result<KeyValues, BaselineError> {
        let shape = [layers, self.loaded.kv_heads, positions, self.loaded.head_dim];
        let keys = self.tensor(op, &lines.keys, &shape)?;
        let values = self.tensor(op, &lines.values, &shape)?;
        Ok(KeyValues { keys, values })
    }

    /// Cached K/V of some layers and positions. Ask for few layers at a time where the prefix is long.
    ///
    /// # Errors
    /// If a range is empty or beyond what there is, or the worker has no such operation.
    pub fn kv(
        &mut self,
        layers: Range<usize>,
        positions: Range<usize>,
    ) -> Result<KeyValues, BaselineError> {
        let arguments = json!({
            "layers": [layers.start, layers.end], "positions": [positions.start, positions.end],
        });
        let lines: KeyValueLines = self.worker.call("kv", arguments, self.limit)?.value;
        self.key_values("kv", &lines, layers.len(), positions.len())
    }

    /// A whole greedy generation as it is timed: a fresh or reset cache, the prompt, then one forward a token,
    /// each token seen by the host before the next forward.
    ///
    /// # Errors
    /// If the lengths don't fit, or the worker fails or answers with other counts.
    pub fn generate(&mut self, request: &Generate<'_>) -> Result<Generation, BaselineError> {
        let arguments = json!({
            "prompt": request.prompt, "outputs": request.outputs, "forced": request.forced,
        });
        let answer = self.worker.call("generate", arguments, self.limit)?;
        self.generated("generate", answer, request)
    }

    /// The library's own pipelined generation, where it has one (MLX's `stream_generate`): printed beside,
    /// never paired.
    ///
    /// # Errors
    /// As [`generate`](Self::generate).
    pub fn stream_generate(
        &mut self,
        prompt: &[u32],
        outputs: usize,
    ) -> Result<Generation, BaselineError> {
        let arguments = json!({ "prompt": prompt, "outputs": outputs });
        let answer = self.worker.call("stream_generate", arguments, self.limit)?;
        self.generated("stream_generate", answer, &Generate { prompt, outputs, forced: None })
    }

    fn generated(
        &mut self,
        op: &str,
        answer: Answer<GenerationLine>,
        request: &Generate<'_>,
    ) -> Result<Generation, BaselineError> {
        let Answer { value: GenerationLine { ids, stamps_s, cache_length }, round_trip_s } = answer;
        self.position = cache_length;
        let what = if ids.len() != request.outputs || stamps_s.len() != request.outputs {
            let (ids, stamps) = (ids.len(), stamps_s.len());
            Some(format!("{ids} ids and {stamps} times for {} outputs", request.outputs))
        } else if cache_length != request.prompt.len() + request.outputs - 1 {
            let (prompt, outputs) = (request.prompt.len(), request.outputs);
            Some(format!("{cache_length} cache entries after {prompt} ids and {outputs} outputs"))
        } else if let Some(id) = ids.iter().find(|&&id| id as usize >= self.loaded.vocabulary) {
            Some(format!("the token {id}"))
        } else if !(stamps_s.is_sorted_by(|a, b| a <= b) && stamps_s.iter().all(|s| *s >= 0.0)) {
            Some("times that do not ascend".to_owned())
        } else if stamps_s.last().is_some_and(|last| *last > round_trip_s) {
            Some(format!("{:?} s, more than the {round_trip_s} s that it took", stamps_s.last()))
        } else {
            None
        };
        match what {
            Some(what) => Err(self.worker.inconsistent(op, what)),
            None => Ok(Generation { ids, stamps_s, cache_length, round_trip_s }),
        }
    }
}
