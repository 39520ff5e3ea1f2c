//! Another framework's model, as studies of models use it.

use crate::baseline::{
    self, Baseline, Dtype, Generate, LoadRequest, LogitsWanted, ModelWorker, StartOptions,
    StepWanted, Variant,
};
use crate::schema::{Arm, GateClass, Precision, Role, Toolchain};
use crate::study::{OpenError, Refusal};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

/// What a forward gave: the greedy token after it, and the logits that it was chosen by.
#[derive(Clone, Debug)]
pub struct Row {
    /// The token.
    pub token: u32,
    /// Logits, `[vocabulary]`; empty from an arm that doesn't show them.
    pub logits: Vec<f32>,
}

/// Keys, rotated, and values, of one layer: `[kv_heads, positions, head_dim]` each.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerState {
    /// Keys.
    pub keys: Vec<f32>,
    /// Values.
    pub values: Vec<f32>,
}

/// A timed generation.
#[derive(Clone, Debug)]
pub struct Generation {
    /// The tokens.
    pub ids: Vec<u32>,
    /// Seconds from the start until each was on the host.
    pub stamps_s: Vec<f64>,
    /// Valid entries of the cache afterwards.
    pub cache_entries: usize,
}

/// A model that the candidate is compared with.
pub trait Rival {
    /// What it is.
    fn arm(&self) -> Arm;

    /// Empties its cache.
    ///
    /// # Errors
    /// If it fails.
    fn reset(&mut self) -> Result<(), Refusal>;

    /// Reads a prompt as its timed path does.
    ///
    /// # Errors
    /// If it fails.
    fn prefill(&mut self, ids: &[u32]) -> Result<Row, Refusal>;

    /// Reads one token. Gives the new slot of every layer as well, `[kv_heads, 1, head_dim]`.
    ///
    /// # Errors
    /// If it fails, or doesn't show its state.
    fn step(&mut self, token: u32) -> Result<(Row, Vec<LayerState>), Refusal>;

    /// The cache of a layer at `positions`.
    ///
    /// # Errors
    /// If it fails, or doesn't show its state.
    fn key_values(&mut self, layer: usize, positions: Range<usize>) -> Result<LayerState, Refusal>;

    /// A whole greedy generation, as it is timed. Each step reads the token that was chosen before, or the next of `fed`; the ids are those
    /// chosen.
    ///
    /// # Errors
    /// If it fails.
    fn generate(
        &mut self,
        prompt: &[u32],
        outputs: usize,
        fed: Option<&[u32]>,
    ) -> Result<Generation, Refusal>;

    /// Its library's own pipelined generation, where it has one.
    ///
    /// # Errors
    /// If it fails.
    fn stream(&mut self, prompt: &[u32], outputs: usize) -> Result<Option<Generation>, Refusal>;
}

/// A baseline's model in its worker.
pub struct WorkerRival {
    baseline: Baseline,
    role: Role,
    model: ModelWorker,
    dtype: Option<Dtype>,
    variant: Variant,
}

/// How a worker's model is loaded.
#[derive(Clone, Copy, Debug)]
pub struct RivalSetup<'p> {
    /// The folder or file.
    pub checkpoint: &'p Path,
    /// What weights are converted to; none for what the file has.
    pub dtype: Option<Dtype>,
    /// Positions of the cache.
    pub capacity: usize,
    /// Threads of its library.
    pub threads: usize,
    /// How the library is used.
    pub variant: Variant,
}

/// The longest that one call of a worker may take: a prompt of thousands of tokens on a slow processor.
const CALL_LIMIT: Duration = Duration::from_secs(1800);

fn refused(error: baseline::BaselineError) -> Refusal {
    Refusal::Broken(error.to_string())
}

impl WorkerRival {
    /// Starts `baseline`'s worker for the device called `device` and loads a model.
    ///
    /// # Errors
    /// If it is not installed, has no worker for the device, or can't load the checkpoint.
    pub fn start(
        baseline: Baseline,
        device: baseline::Device,
        setup: &RivalSetup<'_>,
    ) -> Result<WorkerRival, OpenError> {
        let missing = |error: baseline::BaselineError| OpenError::Missing(error.to_string());
        let installed = baseline.locate(device).map_err(missing)?;
        let worker = installed.start(&StartOptions::threads(setup.threads)).map_err(missing)?;
        let request = LoadRequest {
            checkpoint: setup.checkpoint.to_path_buf(),
            dtype: setup.dtype,
            capacity: setup.capacity,
            variant: setup.variant,
        };
        let mut model = ModelWorker::load(worker, &request).map_err(missing)?;
        model.set_limit(CALL_LIMIT);
        let (dtype, variant) = (setup.dtype, setup.variant);
        Ok(WorkerRival { baseline, role: Role::Baseline, model, dtype, variant })
    }
}

fn split(kv: &baseline::KeyValues, layers: usize) -> Result<Vec<LayerState>, Refusal> {
    let floats = |tensor: &baseline::Tensor| {
        tensor.to_f32().map_err(|error| Refusal::Broken(error.to_string()))
    };
    let (keys, values) = (floats(&kv.keys)?, floats(&kv.values)?);
    let each = keys.len() / layers.max(1);
    let of = |all: &[f32], n: usize| all[n * each..(n + 1) * each].to_vec();
    Ok((0..layers).map(|n| LayerState { keys: of(&keys, n), values: of(&values, n) }).collect())
}

impl Rival for WorkerRival {
    fn arm(&self) -> Arm {
        let hello = self.model.worker().hello();
        let loaded = self.model.loaded();
        let text = |value: &serde_json::Value| match value {
            serde_json::Value::String(text) => crate::environment::shown_path(text),
            other => other.to_string(),
        };
        let mut settings: BTreeMap<String, String> = BTreeMap::new();
        for (name, value) in hello.settings.iter().chain(&loaded.settings) {
            settings.insert(name.clone(), text(value));
        }
        settings.insert("variant".to_owned(), format!("{:?}", self.variant).to_lowercase());
        settings.insert(
            "cache".to_owned(),
            "made anew within timing; before each run the worker reads another text, so that nothing of a \
             validated run is left in it"
                .to_owned(),
        );
        if let Some(bytes) = loaded.weight_bytes {
            settings.insert("weight_bytes".to_owned(), bytes.to_string());
        }
        let weights = self.dtype.map_or("as stored".to_owned(), |dtype| dtype.to_string());
        Arm {
            name: self.baseline.name().to_owned(),
            role: self.role,
            what: format!(
                "{}; a synchronous greedy loop with a token seen by the host at every step",
                self.baseline.summary()
            ),
            versions: hello.versions.clone(),
            toolchain: Toolchain {
                compiler: "as published in the package registry".to_owned(),
                path: "vendor_binary".to_owned(),
            },
            precision: Precision {
                input: loaded.dtype.clone(),
                weights,
                multiply: loaded.dtype.clone(),
                accumulate: "the library's own".to_owned(),
                relaxed: false,
                probed: "not probed in a model; TF32 is off".to_owned(),
            },
            threads: hello.settings.get("threads").and_then(serde_json::Value::as_u64),
            gate: match self.model.has_key_values() {
                true => GateClass::State,
                false => GateClass::Tokens,
            },
            settings,
        }
    }

    fn reset(&mut self) -> Result<(), Refusal> {
        self.model.reset().map_err(refused)
    }

    fn prefill(&mut self, ids: &[u32]) -> Result<Row, Refusal> {
        let wanted = match self.model.has_key_values() {
            true => LogitsWanted::Last,
            false => LogitsWanted::None,
        };
        let advance = self.model.prefill(ids, wanted).map_err(refused)?;
        row(advance.token, advance.logits)
    }

    fn step(&mut self, token: u32) -> Result<(Row, Vec<LayerState>), Refusal> {
        let wanted = StepWanted { logits: true, kv: true };
        let advance = self.model.step(token, wanted).map_err(refused)?;
        let layers = self.model.loaded().layers;
        let Some(kv) = &advance.kv else {
            return Err(Refusal::Broken(format!("{} showed no K/V", self.baseline)));
        };
        let slots = split(kv, layers)?;
        Ok((row(advance.token, advance.logits)?, slots))
    }

    fn key_values(&mut self, layer: usize, positions: Range<usize>) -> Result<LayerState, Refusal> {
        let kv = self.model.kv(layer..layer + 1, positions).map_err(refused)?;
        let mut layers = split(&kv, 1)?;
        layers.pop().ok_or_else(|| Refusal::Broken(format!("{} showed no K/V", self.baseline)))
    }

    fn generate(
        &mut self,
        prompt: &[u32],
        outputs: usize,
        fed: Option<&[u32]>,
    ) -> Result<Generation, Refusal> {
        let request = Generate { prompt, outputs, forced: fed };
        let made = self.model.generate(&request).map_err(refused)?;
        Ok(Generation { ids: made.ids, stamps_s: made.stamps_s, cache_entries: made.cache_length })
    }

    fn stream(&mut self, prompt: &[u32], outputs: usize) -> Result<Option<Generation>, Refusal> {
        if !self.model.worker().hello().operations.iter().any(|op| op == "stream_generate") {
            return Ok(None);
        }
        let made = self.model.stream_generate(prompt, outputs).map_err(refused)?;
        let (ids, stamps_s, cache_entries) = (made.ids, made.stamps_s, made.cache_length);
        Ok(Some(Generation { ids, stamps_s, cache_entries }))
    }
}

fn row(token: u32, logits: Option<baseline::Tensor>) -> Result<Row, Refusal> {
    let logits = match logits {
        Some(tensor) => tensor.to_f32().map_err(|error| Refusal::Broken(error.to_string()))?,
        None => Vec::new(),
    };
    Ok(Row { token, logits })
}
