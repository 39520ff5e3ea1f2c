//! The decoder: a transformer's layers as replayed lists of kernels of the library, and nothing else.
//!
//! Per layer, with the stream `x` of `[rows, width]`:
//!
//! ```text
//! h = rms_norm(x)                q, k, v = h·Wᵀ (+ bias)       q, k normed per head (Qwen3), rotated
//! k, v → cache                   a = attention(q, cache)       x += a·Woᵀ
//! h = rms_norm(x)                m = silu(h·Wgᵀ) · (h·Wuᵀ)     x += m·Wdᵀ
//! ```
//!
//! A list is recorded for a number of rows and replayed for every chunk of that size: the position is
//! read by the kernels from a device buffer, so nothing is compiled or recorded while text grows.

mod buffers;
mod error;
mod inspect;
mod load;
mod packing;
mod record;

pub use error::Error;
pub use inspect::{Attention, KeyValues, StorageBytes};
pub use load::WeightType;
pub use packing::Packing;

use crate::checkpoint::Checkpoint;
use crate::config::ModelConfig;
use buffers::{Buffers, Cache, write_integers};
use load::Weights;
use metile::{CommandList, Device, Tensor};
use metile_ir::{DType, Format};
use metile_kernels::machine::Machine;
use packing::PackedWeights;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The widest head that the attention kernels take.
const MOST_HEAD_DIM: usize = 256;

/// What projections read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activations {
    /// Rows in f32.
    #[default]
    F32,
    /// Rows quantized to Q8_0 blocks, where the weights are GGUF blocks.
    Q8,
    /// Rows of a prompt's chunks in the weights' own 16-bit type, which all projections share, and keys and values in it too: what a GPU's
    /// matrix units multiply. Sums, norms and the stream stay in f32, and so do the rows of single steps.
    SixteenBit,
    /// [`SixteenBit`](Self::SixteenBit) on a GPU, where the weights allow it, else [`F32`](Self::F32). A model's
    /// [`options`](Model::options) say which.
    Auto,
}

impl Activations {
    /// In a word, as the command line has it.
    pub fn name(self) -> &'static str {
        match self {
            Activations::F32 => "f32",
            Activations::Q8 => "q8",
            Activations::SixteenBit => "16-bit",
            Activations::Auto => "auto",
        }
    }

    /// What [`Auto`](Self::Auto) stands for over these weights.
    fn settled(self, weights: &Weights) -> Activations {
        let gpu = Machine::of(&weights.frequencies) == Machine::Gpu;
        let sixteen = matches!(weights.projected(), Some(Format::Plain(DType::F16 | DType::BF16)));
        match self {
            Activations::Auto if gpu && sixteen => Activations::SixteenBit,
            Activations::Auto => Activations::F32,
            chosen => chosen,
        }
    }
}

/// What projections read, with its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arithmetic {
    F32,
    Q8,
    F16,
    BF16,
}

impl Arithmetic {
    /// What `activations`, settled, are over these weights.
    fn of(activations: Activations, weights: &Weights) -> Result<Arithmetic, Error> {
        match activations {
            Activations::F32 | Activations::Auto => Ok(Arithmetic::F32),
            Activations::Q8 if weights.takes_blocks() => Ok(Arithmetic::Q8),
            Activations::Q8 => Err(Error::Option(
                "activations can be q8 where weights are GGUF blocks, and this model has none"
                    .to_owned(),
            )),
            Activations::SixteenBit => match weights.projected() {
                Some(Format::Plain(DType::F16)) => Ok(Arithmetic::F16),
                Some(Format::Plain(DType::BF16)) => Ok(Arithmetic::BF16),
                found => Err(Error::Option(format!(
                    "activations can have 16 bits where all projections' weights are f16 or all are bf16, and this \
                     model's are {}",
                    found.map_or("of several formats".to_owned(), |format| format.to_string())
                ))),
            },
        }
    }
}

/// How exact the angles of the rotary position embedding are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RopeFrequencies {
    /// Frequencies in f32, as the models were trained with.
    #[default]
    F32,
    /// Frequencies as `exp2(-i / pairs · log2(theta))`, every step in f32, on the model's device: as MLX computes them. They are off by a few
    /// units in the last place, which far into a text turns by 10⁻³. For comparing with MLX; not for models that scale their frequencies.
    Exp2,
    /// Frequencies rounded to bf16, as Transformers has them once a whole model was cast to bf16
    /// (`model.to(torch.bfloat16)`). For comparing with numbers made so; text suffers at length.
    BF16,
}

/// How a model is set up.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Tokens that the K/V cache has room for; at most the model's context.
    pub context: usize,
    /// Rows of a prefill chunk; at least 1.
    pub chunk: usize,
    /// What projections read.
    pub activations: Activations,
    /// How exact the angles of the rotary position embedding are.
    pub rope_frequencies: RopeFrequencies,
    /// How weights are kept in memory.
    pub weights: WeightType,
}

impl Options {
    /// The options as `config`'s model takes them: the chunk is at most the context.
    fn checked(self, config: &ModelConfig) -> Result<Options, Error> {
        if self.chunk == 0 {
            return Err(Error::Option("a chunk of 0 rows: it needs at least 1".to_owned()));
        }
        if self.context == 0 || self.context > config.context {
            return Err(Error::Option(format!(
                "a context of {} tokens: this model's is 1 to {}",
                self.context, config.context
            )));
        }
        Ok(Options { chunk: self.chunk.min(self.context), ..self })
    }
}

/// Which rows of a chunk get logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Logits {
    /// None: the last layer stops after its K/V write.
    None,
    /// The last.
    Last,
    /// All.
    All,
}

/// A model on a device, with the text it has read so far in its cache.
#[derive(Debug)]
pub struct Model {
    config: ModelConfig,
    device: Device,
    options: Options,
    arithmetic: Arithmetic,
    weights: Arc<Weights>,
    packed: Option<Arc<PackedWeights>>,
    attention: Option<Attention>,
    cache: Cache,
    buffers: Buffers,
    lists: HashMap<(Logits, usize), CommandList>,
    every_row: Option<Tensor<f32, 2>>,
    choose: CommandList,
    cached: Vec<u32>,
}

impl Model {
    /// Reads `checkpoint`'s weights onto `device` and records the decode step.
    ///
    /// # Errors
    /// If the options can't be followed, a tensor is missing, odd or left over, or there is no room.
    pub fn load(
        checkpoint: &Checkpoint,
        device: &Device,
        options: &Options,
    ) -> Result<Model, Error> {
        let config = checkpoint.config().clone();
        let options = options.checked(&config)?;
        if config.head_dim > MOST_HEAD_DIM {
            return Err(Error::Option(format!(
                "heads of {} elements: attention takes up to {MOST_HEAD_DIM}",
                config.head_dim
            )));
        }
        let weights = Weights::load(checkpoint, device, options.rope_frequencies, options.weights)?;
        let options = Options { activations: options.activations.settled(&weights), ..options };
        let arithmetic = Arithmetic::of(options.activations, &weights)?;
        let mut buffers =
            Buffers::new(device, &config, options.chunk, options.context, arithmetic)?;
        let choose = record::choice(device, &mut buffers)?;
        let mut model = Model {
            cache: Cache::new(device, &config, options.context, arithmetic)?,
            lists: HashMap::new(),
            every_row: None,
            cached: Vec::new(),
            device: device.clone(),
            config,
            options,
            arithmetic,
            weights: Arc::new(weights),
            packed: None,
            attention: None,
            buffers,
            choose,
        };
        model.ready(1, Logits::Last)?;
        Ok(model)
    }

    /// What the model is.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// How it is set up; the chunk is at most the context, and activations are never [`Auto`](Activations::Auto).
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The device it is on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Bytes of its weights, as stored in the checkpoint.
    pub fn weights_bytes(&self) -> u64 {
        self.weights.bytes
    }

    /// Gives decode steps and the vocabulary's projection a packed copy of the f32 weights to read, if
    /// each of them can be packed without loss; else all stay as they are. The chunks of a prompt read
    /// the originals, which stay.
    ///
    /// # Errors
    /// If there is no room, or a kernel is refused.
    pub fn pack_decode_weights(&mut self) -> Result<Packing, Error> {
        let packed = match PackedWeights::new(&self.device, &self.weights)? {
            Ok(packed) => packed,
            Err(reason) => return Ok(Packing::Unpacked { reason }),
        };
        let (original, bytes) = (packed.original_bytes, packed.bytes);
        self.packed = Some(Arc::new(packed));
        self.lists.clear();
        self.ready(1, Logits::Last)?;
        Ok(Packing::Packed { original, packed: bytes })
    }

    /// The tokens in the cache.
    pub fn cached(&self) -> &[u32] {
        &self.cached
    }

    /// Forgets all but the first `tokens` tokens of the cache.
    pub fn keep(&mut self, tokens: usize) {
        self.cached.truncate(tokens);
    }

    /// Sets every slot of the cache that holds no token to NaN. A kernel that read one would show.
    ///
    /// # Errors
    /// If the device fails.
    pub fn poison_free_slots(&mut self) -> Result<(), Error> {
        Ok(self.cache.poison(self.cached.len())?)
    }

    /// Records what a chunk of `rows` tokens needs, if it is not recorded yet.
    ///
    /// # Errors
    /// If a kernel is refused, or there is no room for the logits.
    pub fn ready(&mut self, rows: usize, logits: Logits) -> Result<(), Error> {
        let key = self.list_for(rows, logits);
        if self.lists.contains_key(&key) {
            return Ok(());
        }
        let every_row = match key.0 {
            Logits::All => Some(self.logits_of_rows(key.1)?),
            Logits::None | Logits::Last => None,
        };
        let list = record::Chunk {
            device: &self.device,
            config: &self.config,
            weights: &self.weights,
            packed: self.packed.as_deref(),
            attention: self.attention,
            cache: &self.cache,
            buffers: &self.buffers,
            rows: key.1,
            every_row,
        }
        .record(key.0)?;
        self.lists.insert(key, list);
        Ok(())
    }

    /// Records what a prompt of `tokens` needs, so that reading it only launches.
    ///
    /// # Errors
    /// If a kernel is refused.
    pub fn ready_for(&mut self, tokens: usize, every_row: bool) -> Result<(), Error> {
        let (whole, rest) = (tokens / self.options.chunk, tokens % self.options.chunk);
        let end = if every_row { Logits::All } else { Logits::Last };
        let before = if every_row { Logits::All } else { Logits::None };
        let ends_whole = rest == 0;
        if whole > usize::from(ends_whole) {
            self.ready(self.options.chunk, before)?;
        }
        match (ends_whole, whole) {
            (true, 0) => Ok(()),
            (true, _) => self.ready(self.options.chunk, end),
            (false, _) => self.ready(rest, end),
        }
    }

    /// The list that serves a chunk of `rows` tokens. Row counts are rounded up, so that prompts of
    /// many lengths share few lists; a single row has lists of its own, with the decode kernels.
    fn list_for(&self, rows: usize, logits: Logits) -> (Logits, usize) {
        match (rows, logits) {
            (0 | 1, Logits::All) => (Logits::Last, 1),
            (0 | 1, _) => (logits, 1),
            _ => (logits, rows.next_multiple_of(record::ROW_STEP).min(self.options.chunk)),
        }
    }

    /// A buffer for the logits of `rows` rows.
    fn logits_of_rows(&mut self, rows: usize) -> Result<Tensor<f32, 2>, Error> {
        if self.every_row.as_ref().is_none_or(|t| t.shape()[0] < rows) {
            // Lists that write to the smaller buffer keep it alive and would fill it unread.
            self.lists.retain(|(logits, _), _| *logits != Logits::All);
            self.every_row = Some(Tensor::zeros(&self.device, [rows, self.config.vocabulary])?);
        }
        match &self.every_row {
            Some(tensor) => Ok(tensor.slice(0, 0..rows)?),
            None => Ok(Tensor::zeros(&self.device, [rows, self.config.vocabulary])?),
        }
    }

    /// Reads one chunk of 1 to `chunk` tokens into the cache.
    ///
    /// # Errors
    /// If it has another size, an id is not in the vocabulary, or the context has no room for it.
    pub fn extend(&mut self, ids: &[u32], logits: Logits) -> Result<(), Error> {
        if let Some(list) = self.prepared(ids, logits)? {
            list.replay()?;
        }
        self.cached.extend_from_slice(ids);
        Ok(())
    }

    /// As [`extend`](Self::extend), with each kernel that ran and how long it took.
    ///
    /// # Errors
    /// As there.
    pub fn extend_timed(
        &mut self,
        ids: &[u32],
        logits: Logits,
    ) -> Result<Vec<(String, Duration)>, Error> {
        let mut times = Vec::new();
        if let Some(list) = self.prepared(ids, logits)? {
            let timed = list.replay_timed()?;
            times = timed.into_iter().map(|(kernel, time)| (kernel.to_owned(), time)).collect();
        }
        self.cached.extend_from_slice(ids);
        Ok(times)
    }

    /// The list that reads `ids`, with its inputs set.
    fn prepared(&mut self, ids: &[u32], logits: Logits) -> Result<Option<&CommandList>, Error> {
        if ids.is_empty() {
            return Err(Error::NoPrompt);
        }
        if ids.len() > self.options.chunk {
            return Err(Error::Option(format!(
                "a chunk of {} tokens: this model takes up to {}",
                ids.len(),
                self.options.chunk
            )));
        }
        check_ids(ids, self.config.vocabulary)?;
        let before = self.cached.len();
        if before + ids.len() > self.options.context {
            return Err(Error::Context {
                prompt: before,
                asked: ids.len(),
                context: self.options.context,
            });
        }
        self.ready(ids.len(), logits)?;
        let wide: Vec<i64> = ids.iter().map(|&id| i64::from(id)).collect();
        write_integers(&self.buffers.ids, &wide)?;
        write_integers(&self.buffers.state, &[before as i64, ids.len() as i64])?;
        write_integers(&self.buffers.last, &[ids.len() as i64 - 1])?;
        Ok(self.lists.get(&self.list_for(ids.len(), logits)))
    }

    /// The logits of the last row read, one number per token of the vocabulary. Those of
    /// [`Logits::None`] are stale.
    ///
    /// # Errors
    /// If the device fails.
    pub fn logits(&self) -> Result<Vec<f32>, Error> {
        Ok(self.buffers.logits.to_vec()?)
    }

    /// The logits of each of the last chunk's `rows` rows, read with [`Logits::All`].
    ///
    /// # Errors
    /// If the device fails.
    pub fn logits_of_chunk(&self, rows: usize) -> Result<Vec<Vec<f32>>, Error> {
        match &self.every_row {
            Some(tensor) if rows > 1 => {
                let values = tensor.slice(0, 0..rows)?.to_vec()?;
                Ok(values.chunks(self.config.vocabulary).map(<[f32]>::to_vec).collect())
            }
            _ => Ok(vec![self.logits()?]),
        }
    }

    /// The id with the highest logit of the last row read, the lowest of equals; found on the device.
    ///
    /// # Errors
    /// If a logit is NaN or the device fails.
    pub fn choice(&self) -> Result<u32, Error> {
        self.choose.replay()?;
        let id = self.buffers.choice.to_vec()?.first().copied().unwrap_or(0);
        let id = usize::try_from(id).unwrap_or(usize::MAX);
        // The first NaN wins an argmax, so looking at the winner is enough.
        let winner = self.buffers.logits.slice(1, id..id.saturating_add(1))?.to_vec()?;
        if winner.iter().any(|v| v.is_nan()) {
            return Err(Error::NotANumber { position: self.cached.len() });
        }
        Ok(id as u32)
    }
}

/// Whether all `ids` are in a vocabulary of `vocabulary` tokens.
///
/// # Errors
/// The first that is not, with its place.
pub fn check_ids(ids: &[u32], vocabulary: usize) -> Result<(), Error> {
    match ids.iter().position(|&id| id as usize >= vocabulary) {
        Some(place) => Err(Error::Id { id: ids[place], place, vocabulary }),
        None => Ok(()),
    }
}
