//! What a study looks at and does beside generating: the state of the cache, poison, other sizes of
//! chunk, a second request, bytes.

use super::buffers::{Buffers, Cache, with_layers, write_bytes};
use super::error::Error;
use super::{Logits, Model, Options, record};
use metile::lang::element::HostElement;
use metile::{CommandList, KernelCall, Tensor};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

/// Keys and values of one layer over a range of positions, each `[kv_heads, positions, head_dim]` in
/// row-major order; keys rotated.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyValues {
    /// Which layer, from 0.
    pub layer: usize,
    /// The positions.
    pub positions: Range<usize>,
    /// Keys.
    pub keys: Vec<f32>,
    /// Values.
    pub values: Vec<f32>,
}

/// Causal attention of rows over a cache, as a call: queries `[rows, heads, head_dim]`; keys and values `[kv_heads,
/// capacity, head_dim]`; where the result goes, `[rows, heads · head_dim]`; the state `[2]`, which holds the
/// position of the first row and how many rows count; and what scores are multiplied by.
pub type Attention = for<'c> fn(
    &'c Tensor<f32, 3>,
    &'c Tensor<f32, 3>,
    &'c Tensor<f32, 3>,
    &'c mut Tensor<f32, 2>,
    &'c Tensor<i64, 1>,
    f32,
) -> KernelCall<'c>;

/// Bytes of a model's parts on its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageBytes {
    /// The weights, in the representation they were loaded in.
    pub weights: u64,
    /// The weights that have a packed copy, in the representation they were loaded in.
    pub packed_originals: u64,
    /// The packed copies. The originals stay, so this is memory in addition.
    pub packed_copies: u64,
    /// Keys and values of all layers, for the whole context.
    pub cache: u64,
    /// Activations of a chunk.
    pub scratch: u64,
}

impl Model {
    /// Keys and values of `layer` at `positions`, copied to the host.
    ///
    /// # Errors
    /// If there is no such layer, a position holds no token yet, or the device fails.
    pub fn key_values(&self, layer: usize, positions: Range<usize>) -> Result<KeyValues, Error> {
        let tokens = self.cached.len();
        if layer >= self.config.layers {
            let layers = self.config.layers;
            return Err(Error::Option(format!("layer {layer} of a model of {layers}")));
        }
        if positions.start > positions.end || positions.end > tokens {
            return Err(Error::Option(format!(
                "positions {positions:?} of a cache that holds {tokens} tokens"
            )));
        }
        fn read<C: HostElement + Into<f32>>(
            tensor: &Tensor<C, 3>,
            positions: &Range<usize>,
        ) -> Result<Vec<f32>, Error> {
            let values = tensor.slice(1, positions.clone())?.to_vec()?;
            Ok(values.into_iter().map(Into::into).collect())
        }
        let (keys, values) = with_layers!(&self.cache, layers => {
            (read(&layers.keys[layer], &positions)?, read(&layers.values[layer], &positions)?)
        });
        Ok(KeyValues { layer, keys, values, positions })
    }

    /// Forgets every token, and fills the cache, the logits and the chosen id with what no computation
    /// gives: NaN, and an id below 0. A step that did not happen then shows.
    ///
    /// # Errors
    /// If the device fails.
    pub fn poison(&mut self) -> Result<(), Error> {
        self.reset();
        self.cache.poison(0)?;
        let nan = |elements: usize| f32::NAN.to_le_bytes().repeat(elements);
        for logits in [Some(&self.buffers.logits), self.every_row.as_ref()].into_iter().flatten() {
            write_bytes(logits, 0, &nan(logits.shape().iter().product()))?;
        }
        Ok(write_bytes(&self.buffers.choice, 0, &(-1i64).to_le_bytes())?)
    }

    /// Forgets every token. No memory is touched: the valid length decides what is read.
    pub fn reset(&mut self) {
        self.cached.clear();
    }

    /// Sets the chunk to `rows` rows, at most the context. Weights, packed copies and cache stay; activations
    /// and recorded lists are made anew, and the tokens in the cache are kept.
    ///
    /// # Errors
    /// If the chunk would have no rows, there is no room, or a kernel is refused.
    pub fn set_chunk(&mut self, rows: usize) -> Result<(), Error> {
        let options = Options { chunk: rows, ..self.options }.checked(&self.config)?;
        let (buffers, choose) = self.scratch(options)?;
        self.options = options;
        self.lists = HashMap::new();
        self.every_row = None;
        (self.buffers, self.choose) = (buffers, choose);
        self.ready(1, Logits::Last)
    }

    /// Activations for `options`, and the list that picks an id from them.
    fn scratch(&self, options: Options) -> Result<(Buffers, CommandList), Error> {
        let mut buffers = Buffers::new(
            &self.device,
            &self.config,
            options.chunk,
            options.context,
            self.arithmetic,
        )?;
        let choose = record::choice(&self.device, &mut buffers)?;
        Ok((buffers, choose))
    }

    /// Computes attention with another kernel than the library's, in prompts and in single steps; `None` takes
    /// the library's again. For validating kernels. The tokens in the cache are kept.
    ///
    /// # Errors
    /// If the kernel is refused, or the cache is not in f32.
    pub fn set_attention(&mut self, attention: Option<Attention>) -> Result<(), Error> {
        if attention.is_some() && !matches!(self.cache, Cache::F32(_)) {
            let problem = "attention in another form, which reads a cache in f32";
            return Err(Error::Option(problem.to_owned()));
        }
        self.attention = attention;
        self.lists.clear();
        self.ready(1, Logits::Last)
    }

    /// A second request beside this one: weights and packed copies are shared, cache, activations and
    /// recorded lists are its own, and it has read nothing.
    ///
    /// # Errors
    /// If there is no room, or a kernel is refused.
    pub fn fork_request(&self) -> Result<Model, Error> {
        let (buffers, choose) = self.scratch(self.options)?;
        let mut fork = Model {
            config: self.config.clone(),
            device: self.device.clone(),
            options: self.options,
            arithmetic: self.arithmetic,
            weights: Arc::clone(&self.weights),
            packed: self.packed.clone(),
            attention: self.attention,
            cache: Cache::new(&self.device, &self.config, self.options.context, self.arithmetic)?,
            lists: HashMap::new(),
            every_row: None,
            cached: Vec::new(),
            buffers,
            choose,
        };
        fork.ready(1, Logits::Last)?;
        Ok(fork)
    }

    /// Reads a whole prompt in chunks, as it is timed: only the last chunk goes through the rest of the last
    /// layer and gets logits. Everything it launches has to be recorded before
    /// ([`ready_for`](Self::ready_for)), or it is recorded here.
    ///
    /// # Errors
    /// As of [`extend`](Self::extend).
    pub fn prefill(&mut self, ids: &[u32]) -> Result<(), Error> {
        let mut chunks = ids.chunks(self.options.chunk).peekable();
        if chunks.peek().is_none() {
            return Err(Error::NoPrompt);
        }
        while let Some(chunk) = chunks.next() {
            let logits = if chunks.peek().is_some() { Logits::None } else { Logits::Last };
            self.extend(chunk, logits)?;
        }
        Ok(())
    }

    /// Bytes on the device.
    pub fn storage_bytes(&self) -> StorageBytes {
        StorageBytes {
            weights: self.weights.loaded_bytes,
            packed_originals: self.packed.as_ref().map_or(0, |packed| packed.original_bytes),
            packed_copies: self.packed.as_ref().map_or(0, |packed| packed.bytes),
            cache: self.cache.bytes(),
            scratch: self.buffers.bytes(),
        }
    }

    /// By kernel and generic arguments, for every kernel recorded so far: its program as Tile IR, and what the
    /// device makes of it, both as text.
    pub fn programs(&self) -> BTreeMap<String, (String, String)> {
        let lists = self.lists.values().chain([&self.choose]);
        let each = lists.flat_map(|list| list.labels().map(str::to_owned).zip(list.programs()));
        each.collect()
    }

    /// Whether another model has the same weights in memory, as of [`fork_request`](Self::fork_request).
    pub fn shares_weights_with(&self, other: &Model) -> bool {
        Arc::ptr_eq(&self.weights, &other.weights)
    }
}

/// Bytes of the memory behind a tensor that has it for itself.
pub(super) fn allocated<T: metile::lang::element::Element, const R: usize>(
    tensor: &Tensor<T, R>,
) -> u64 {
    tensor.raw().parts.iter().map(|part| part.storage.len() as u64).sum()
}
