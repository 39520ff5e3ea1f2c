//! metile's model, as studies of models use it.

use super::rival::{Generation, LayerState, Row};
use crate::environment::RUSTC;
use crate::fingerprint;
use crate::schema::{Arm, Fingerprints, GateClass, Precision, Role, Toolchain, WeightStorage};
use crate::study::{OpenError, Refusal};
use metile::Device;
use metile::runtime::cpu;
use metile_models::checkpoint::Checkpoint;
use metile_models::config::ModelConfig;
use metile_models::decoder::{
    self, Activations, Attention, Logits, Model, Options, Packing, RopeFrequencies, WeightType,
};
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Instant;

/// The candidate's name in reports.
pub const NAME: &str = "metile";

/// How the candidate is loaded.
#[derive(Clone, Copy, Debug)]
pub struct CandidateSetup<'s> {
    /// The checkpoint.
    pub checkpoint: &'s Checkpoint,
    /// Where it computes.
    pub device: &'s Device,
    /// How weights are kept.
    pub weights: WeightType,
    /// Tokens that the cache has room for.
    pub capacity: usize,
    /// Whether decode weights are packed where that is lossless.
    pub pack: bool,
    /// How exact rotary frequencies are.
    pub rope_frequencies: RopeFrequencies,
}

/// metile's model.
pub struct Candidate {
    model: Model,
    packing: Option<Packing>,
    weights: WeightType,
}

fn broken(error: decoder::Error) -> Refusal {
    Refusal::Broken(error.to_string())
}

impl Candidate {
    /// Loads the model, and packs its decode weights if that is asked for.
    ///
    /// # Errors
    /// If that is not possible.
    pub fn load(setup: &CandidateSetup<'_>) -> Result<Candidate, OpenError> {
        let options = Options {
            context: setup.capacity,
            chunk: 1,
            activations: Activations::Auto,
            rope_frequencies: setup.rope_frequencies,
            weights: setup.weights,
        };
        let missing = |error: decoder::Error| OpenError::Missing(error.to_string());
        let mut model = Model::load(setup.checkpoint, setup.device, &options).map_err(missing)?;
        let packing = match setup.pack {
            true => Some(model.pack_decode_weights().map_err(missing)?),
            false => None,
        };
        Ok(Candidate { model, packing, weights: setup.weights })
    }

    /// A second request over the same weights.
    ///
    /// # Errors
    /// If there is no room.
    pub fn fork(&self) -> Result<Candidate, Refusal> {
        let model = self.model.fork_request().map_err(broken)?;
        Ok(Candidate { model, packing: self.packing.clone(), weights: self.weights })
    }

    /// The model's sizes.
    pub fn config(&self) -> &ModelConfig {
        self.model.config()
    }

    /// The decoder itself.
    pub fn model(&mut self) -> &mut Model {
        &mut self.model
    }

    /// Bytes of its weights as loaded, packed copies not counted.
    pub fn weight_bytes(&self) -> u64 {
        self.model.storage_bytes().weights
    }

    /// Whether its prompts' activations and its cache have 16 bits.
    pub fn is_sixteen_bit(&self) -> bool {
        self.model.options().activations == Activations::SixteenBit
    }

    /// Whether its decode weights are read from packed copies.
    pub fn is_packed(&self) -> bool {
        matches!(self.packing, Some(Packing::Packed { .. }))
    }

    /// What the packed copies are, for a report.
    pub fn storage(&self) -> Vec<WeightStorage> {
        let Some(Packing::Packed { original, packed }) = self.packing else { return Vec::new() };
        let config = self.model.config();
        let head = 4 * (config.vocabulary * config.width) as u64;
        let of = |scope: &str, original: u64, stored: u64| WeightStorage {
            scope: scope.to_owned(),
            form: "u32_of_two_bf16".to_owned(),
            values: original / 4,
            original_bytes: original,
            stored_bytes: stored,
            finite: true,
            even_count: true,
            zero_low_bits: true,
            round_trip: true,
        };
        vec![
            of("decode_projections", original - head, packed - head / 2),
            of("vocabulary_head", head, head / 2),
        ]
    }

    /// Changes the chunk, and records what a prompt of `tokens` takes.
    ///
    /// # Errors
    /// If a kernel is refused.
    pub fn prepare(&mut self, chunk: usize, tokens: usize) -> Result<(), Refusal> {
        self.model.set_chunk(chunk).map_err(broken)?;
        self.model.ready_for(tokens, false).map_err(broken)
    }

    /// Puts another attention in place of the library's; `None` takes that again.
    ///
    /// # Errors
    /// If the kernel is refused.
    pub fn set_attention(&mut self, attention: Option<Attention>) -> Result<(), Refusal> {
        self.model.set_attention(attention).map_err(broken)
    }

    /// Fills cache and logits with NaN.
    ///
    /// # Errors
    /// If the device fails.
    pub fn poison(&mut self) -> Result<(), Refusal> {
        self.model.poison().map_err(broken)
    }

    /// Reads one chunk to the end of the last layer.
    ///
    /// # Errors
    /// If a kernel fails.
    pub fn chunk(&mut self, ids: &[u32]) -> Result<(), Refusal> {
        self.model.extend(ids, Logits::Last).map_err(broken)
    }

    /// Forgets what was read, and reads a whole prompt as it is timed.
    ///
    /// # Errors
    /// If a kernel fails.
    pub fn prefill(&mut self, ids: &[u32]) -> Result<(), Refusal> {
        self.model.reset();
        self.model.prefill(ids).map_err(broken)
    }

    /// Reads one token.
    ///
    /// # Errors
    /// If a kernel fails.
    pub fn step(&mut self, token: u32) -> Result<(), Refusal> {
        self.model.extend(&[token], Logits::Last).map_err(broken)
    }

    /// The greedy token, and the logits.
    ///
    /// # Errors
    /// If a logit is NaN.
    pub fn row(&self) -> Result<Row, Refusal> {
        let token = self.model.choice().map_err(broken)?;
        Ok(Row { token, logits: self.model.logits().map_err(broken)? })
    }

    /// The greedy token.
    ///
    /// # Errors
    /// If a logit is NaN.
    pub fn token(&self) -> Result<u32, Refusal> {
        self.model.choice().map_err(broken)
    }

    /// The cache of a layer at `positions`.
    ///
    /// # Errors
    /// If they are not all read.
    pub fn key_values(&self, layer: usize, positions: Range<usize>) -> Result<LayerState, Refusal> {
        let state = self.model.key_values(layer, positions).map_err(broken)?;
        Ok(LayerState { keys: state.keys, values: state.values })
    }

    /// Tokens in the cache.
    pub fn cached(&self) -> usize {
        self.model.cached().len()
    }

    /// A whole greedy generation, timed from before the cache's reset to the last id on the host. Each step reads the token that was
    /// chosen before, or the next of `fed`.
    ///
    /// # Errors
    /// If a kernel fails.
    pub fn generate(
        &mut self,
        prompt: &[u32],
        outputs: usize,
        fed: Option<&[u32]>,
    ) -> Result<Generation, Refusal> {
        let mut ids = Vec::with_capacity(outputs);
        let mut stamps_s = Vec::with_capacity(outputs);
        let start = Instant::now();
        self.prefill(prompt)?;
        let mut token = self.token()?;
        ids.push(token);
        stamps_s.push(start.elapsed().as_secs_f64());
        while ids.len() < outputs {
            let fed = fed.and_then(|fed| fed.get(ids.len() - 1));
            self.step(fed.copied().unwrap_or(token))?;
            token = self.token()?;
            ids.push(token);
            stamps_s.push(start.elapsed().as_secs_f64());
        }
        Ok(Generation { ids, stamps_s, cache_entries: self.cached() })
    }

    /// The arm, in `role`, gated in `class`; `settings` are the study's own.
    pub fn arm(
        &self,
        device: &Device,
        role: Role,
        class: GateClass,
        settings: BTreeMap<String, String>,
    ) -> Arm {
        let bytes = self.model.storage_bytes();
        let mut all = BTreeMap::from([
            ("device".to_owned(), device.name().to_owned()),
            ("simd".to_owned(), cpu::simd().to_owned()),
            ("weight_bytes".to_owned(), bytes.weights.to_string()),
            ("packed_copy_bytes".to_owned(), bytes.packed_copies.to_string()),
            ("cache_bytes".to_owned(), bytes.cache.to_string()),
            ("decode_weights".to_owned(), self.packing_in_words()),
        ]);
        all.extend(settings);
        let weights = match self.weights {
            WeightType::AsStored => "as stored",
            WeightType::F32 => "float32",
            WeightType::BF16 => "bfloat16",
            WeightType::F16 => "float16",
        };
        // What meets weights in prompts; single steps read rows in f32.
        let input = if self.is_sixteen_bit() { weights } else { "float32" };
        all.insert("cache_and_prompt_activations".to_owned(), input.to_owned());
        Arm {
            name: NAME.to_owned(),
            role,
            what: "the decoder of this project: prompts in chunks, recorded lists replayed, argmax on the device, \
                   a token seen by the host at every step"
                .to_owned(),
            versions: BTreeMap::from([(
                "metile".to_owned(),
                env!("CARGO_PKG_VERSION").to_owned(),
            )]),
            toolchain: Toolchain { compiler: RUSTC.to_owned(), path: "ahead_of_time".to_owned() },
            precision: Precision {
                input: input.to_owned(),
                weights: weights.to_owned(),
                multiply: input.to_owned(),
                accumulate: "float32".to_owned(),
                relaxed: false,
                probed: crate::kernel_studies::precision_probe::of_device(device),
            },
            threads: cpu::threads().ok().map(|n| n as u64),
            gate: class,
            settings: all,
        }
    }

    fn packing_in_words(&self) -> String {
        match &self.packing {
            None => "not packed: not asked for".to_owned(),
            Some(Packing::Packed { original, packed }) => format!(
                "lossless_weight_storage: {original} bytes of f32 in {packed} bytes, read by one-row projections \
                 and the vocabulary head; the originals stay"
            ),
            Some(Packing::Unpacked { reason }) => format!("not packed: {reason}"),
        }
    }

    /// The kernels recorded so far.
    pub fn fingerprints(&self) -> Fingerprints {
        let mut fingerprints = Fingerprints::default();
        for (name, (program, emitted)) in self.model.programs() {
            let hash = |text: &str| fingerprint::of_bytes(text.as_bytes());
            fingerprints.emitted.insert(name.clone(), hash(&emitted));
            fingerprints.kernels.insert(name, hash(&program));
        }
        fingerprints
    }
}
