//! The decoder's memory besides its weights: activations of one chunk, and the K/V cache.

use super::Arithmetic;
use super::error::Error;
use super::inspect::allocated;
use crate::config::ModelConfig;
use metile::lang::element::{Element, Float, HostElement, Q8_0};
use metile::prelude::{bf16, f16};
use metile::{Device, Tensor, TensorError};
use metile_kernels::{ArgmaxBuffers, DecodeBuffers};
use metile_weights::{Rows, SixteenBit};

/// Elements of a Q8_0 block, and its bytes.
const Q8_BLOCK: usize = 32;
const Q8_BYTES: usize = 34;

/// Fewer rows than this are projected from f32: no matrix unit would be busy with them.
const ROUNDED_ROWS: usize = 17;

/// What a projection reads: rows in f32, and as Q8_0 blocks where activations are quantized, or rounded where they have 16 bits.
#[derive(Debug)]
pub struct Operand {
    /// `[rows, width]`.
    pub dense: Tensor<f32, 2>,
    /// The same, quantized.
    pub quantized: Option<Quantized>,
    /// The same, in 16 bits.
    pub rounded: Option<Rounded>,
}

/// Rows in 16 bits, `[rows, width]`.
#[derive(Debug)]
pub enum Rounded {
    /// IEEE binary16.
    F16(Tensor<f16, 2>),
    /// bfloat16.
    BF16(Tensor<bf16, 2>),
}

/// Rows of Q8_0 blocks: one memory, as it is written and as it is read.
#[derive(Debug)]
pub struct Quantized {
    /// `[rows, width / 32 · 34]`.
    pub bytes: Tensor<u8, 2>,
    /// `[rows, width]`.
    pub blocks: Tensor<Q8_0, 2>,
}

impl Quantized {
    fn new(bytes: Tensor<u8, 2>) -> Result<Quantized, TensorError> {
        Ok(Quantized { blocks: bytes.as_blocks()?, bytes })
    }
}

impl Operand {
    fn new(
        device: &Device,
        rows: usize,
        width: usize,
        arithmetic: Arithmetic,
    ) -> Result<Operand, TensorError> {
        let shape = [rows, width];
        let (mut quantized, mut rounded) = (None, None);
        match arithmetic {
            // A width that is no whole number of blocks has weights that are no blocks either.
            Arithmetic::Q8 if width.is_multiple_of(Q8_BLOCK) => {
                let bytes = Tensor::zeros(device, [rows, width / Q8_BLOCK * Q8_BYTES])?;
                quantized = Some(Quantized::new(bytes)?);
            }
            Arithmetic::F16 if rows >= ROUNDED_ROWS => {
                rounded = Some(Rounded::F16(Tensor::zeros(device, shape)?));
            }
            Arithmetic::BF16 if rows >= ROUNDED_ROWS => {
                rounded = Some(Rounded::BF16(Tensor::zeros(device, shape)?));
            }
            _ => {}
        }
        Ok(Operand { dense: Tensor::zeros(device, shape)?, quantized, rounded })
    }

    /// The first `rows` rows, in the same memory.
    pub fn rows(&self, rows: usize) -> Result<Operand, TensorError> {
        let quantized = match &self.quantized {
            Some(quantized) => Some(Quantized::new(quantized.bytes.slice(0, 0..rows)?)?),
            None => None,
        };
        let rounded = match self.rounded.as_ref().filter(|_| rows >= ROUNDED_ROWS) {
            Some(Rounded::F16(x)) => Some(Rounded::F16(x.slice(0, 0..rows)?)),
            Some(Rounded::BF16(x)) => Some(Rounded::BF16(x.slice(0, 0..rows)?)),
            None => None,
        };
        Ok(Operand { dense: self.dense.slice(0, 0..rows)?, quantized, rounded })
    }

    /// The rows for a projection.
    pub fn as_rows(&self) -> Rows<'_> {
        let rounded = self.rounded.as_ref().map(|rounded| match rounded {
            Rounded::F16(x) => SixteenBit::F16(x),
            Rounded::BF16(x) => SixteenBit::BF16(x),
        });
        Rows { dense: &self.dense, blocks: self.quantized.as_ref().map(|q| &q.blocks), rounded }
    }

    /// Bytes on the device.
    fn bytes(&self) -> u64 {
        let rounded = self.rounded.as_ref().map_or(0, |rounded| match rounded {
            Rounded::F16(x) => allocated(x),
            Rounded::BF16(x) => allocated(x),
        });
        let quantized = self.quantized.as_ref().map_or(0, |q| allocated(&q.bytes));
        allocated(&self.dense) + quantized + rounded
    }
}

/// Activations of up to `chunk` rows.
#[derive(Debug)]
pub struct Buffers {
    /// Tokens in the cache before the chunk; rows of the chunk that are tokens.
    pub state: Tensor<i64, 1>,
    /// The chunk's token ids.
    pub ids: Tensor<i64, 1>,
    /// The chunk's last row that is a token.
    pub last: Tensor<i64, 1>,
    /// The residual stream `[chunk, width]`.
    pub stream: Tensor<f32, 2>,
    /// The normed stream `[chunk, width]`.
    pub normed: Operand,
    /// Queries `[chunk, heads · head_dim]`.
    pub queries: Tensor<f32, 2>,
    /// Keys `[chunk, kv_heads · head_dim]`.
    pub keys: Tensor<f32, 2>,
    /// Values `[chunk, kv_heads · head_dim]`.
    pub values: Tensor<f32, 2>,
    /// What attention gives, `[chunk, heads · head_dim]`.
    pub attended: Operand,
    /// The gated rows of the MLP, `[chunk, mlp_width]`.
    pub gated: Operand,
    /// The stream's last row, `[1, width]`.
    pub last_stream: Tensor<f32, 2>,
    /// Attention's last row, `[1, heads · head_dim]`.
    pub last_attended: Operand,
    /// Logits of the last row, `[1, vocabulary]`.
    pub logits: Tensor<f32, 2>,
    /// The highest logits of each part of the vocabulary.
    pub highest: ArgmaxBuffers,
    /// The id of the highest logit.
    pub choice: Tensor<i64, 1>,
    /// What one token's attention leaves for each part of the keys.
    pub attention: DecodeBuffers,
}

impl Buffers {
    /// Buffers for `chunk` rows over a cache of `capacity` tokens of `config`'s model, all zero.
    ///
    /// # Errors
    /// If the device has no room.
    pub fn new(
        device: &Device,
        config: &ModelConfig,
        chunk: usize,
        capacity: usize,
        arithmetic: Arithmetic,
    ) -> Result<Buffers, Error> {
        let heads = config.heads * config.head_dim;
        let kv = config.kv_heads * config.head_dim;
        let width = config.width;
        Ok(Buffers {
            state: Tensor::zeros(device, [2])?,
            ids: Tensor::zeros(device, [chunk])?,
            last: Tensor::zeros(device, [1])?,
            stream: Tensor::zeros(device, [chunk, width])?,
            normed: Operand::new(device, chunk, width, arithmetic)?,
            queries: Tensor::zeros(device, [chunk, heads])?,
            keys: Tensor::zeros(device, [chunk, kv])?,
            values: Tensor::zeros(device, [chunk, kv])?,
            attended: Operand::new(device, chunk, heads, arithmetic)?,
            gated: Operand::new(device, chunk, config.mlp_width, arithmetic)?,
            last_stream: Tensor::zeros(device, [1, width])?,
            last_attended: Operand::new(device, 1, heads, arithmetic)?,
            logits: Tensor::zeros(device, [1, config.vocabulary])?,
            highest: ArgmaxBuffers::new(device, 1, config.vocabulary)?,
            choice: Tensor::zeros(device, [1])?,
            attention: DecodeBuffers::new(device, config.heads, capacity, config.head_dim)?,
        })
    }
}

impl Buffers {
    /// Bytes on the device.
    pub fn bytes(&self) -> u64 {
        let integers = [&self.state, &self.ids, &self.last, &self.choice].map(allocated);
        let rows = [&self.stream, &self.queries, &self.keys, &self.values];
        let rest = [&self.last_stream, &self.logits, &self.highest.best];
        let rows = rows.into_iter().chain(rest).map(allocated).sum::<u64>();
        let parts = [&self.attention.peak, &self.attention.total].map(allocated);
        let operands =
            [&self.normed, &self.attended, &self.gated, &self.last_attended].map(Operand::bytes);
        let sums = [integers.iter().sum(), rows, parts.iter().sum(), operands.iter().sum::<u64>()];
        sums.iter().sum::<u64>() + allocated(&self.highest.at) + allocated(&self.attention.acc)
    }
}

/// Keys and values of every token so far, in one type.
#[derive(Debug)]
pub enum Cache {
    /// In f32.
    F32(Layers<f32>),
    /// In f16.
    F16(Layers<f16>),
    /// In bf16.
    BF16(Layers<bf16>),
}

/// `[kv_heads, capacity, head_dim]` for each layer.
#[derive(Debug)]
pub struct Layers<C: Element> {
    /// Keys, rotated.
    pub keys: Vec<Tensor<C, 3>>,
    /// Values.
    pub values: Vec<Tensor<C, 3>>,
}

/// An expression over a cache's layers, whatever their type.
macro_rules! with_layers {
    ($cache:expr, $layers:ident => $value:expr) => {
        match $cache {
            $crate::decoder::buffers::Cache::F32($layers) => $value,
            $crate::decoder::buffers::Cache::F16($layers) => $value,
            $crate::decoder::buffers::Cache::BF16($layers) => $value,
        }
    };
}
pub(super) use with_layers;

impl Cache {
    /// A cache of `capacity` tokens.
    ///
    /// # Errors
    /// If the device has no room.
    pub fn new(
        device: &Device,
        config: &ModelConfig,
        capacity: usize,
        arithmetic: Arithmetic,
    ) -> Result<Cache, Error> {
        let shape = [config.kv_heads, capacity, config.head_dim];
        Ok(match arithmetic {
            Arithmetic::F32 | Arithmetic::Q8 => Cache::F32(Layers::new(device, shape, config)?),
            Arithmetic::F16 => Cache::F16(Layers::new(device, shape, config)?),
            Arithmetic::BF16 => Cache::BF16(Layers::new(device, shape, config)?),
        })
    }

    /// Sets every slot from `from` on to NaN, in all layers.
    ///
    /// # Errors
    /// If the device fails.
    pub fn poison(&mut self, from: usize) -> Result<(), TensorError> {
        with_layers!(self, layers => layers.poison(from))
    }

    /// Bytes on the device.
    pub fn bytes(&self) -> u64 {
        with_layers!(self, layers => layers.keys.iter().chain(&layers.values).map(allocated).sum())
    }
}

impl<C: Float + HostElement> Layers<C> {
    fn new(device: &Device, shape: [usize; 3], config: &ModelConfig) -> Result<Self, TensorError> {
        let layers = || (0..config.layers).map(|_| Tensor::zeros(device, shape)).collect();
        let keys: Result<_, TensorError> = layers();
        let values: Result<_, TensorError> = layers();
        Ok(Layers { keys: keys?, values: values? })
    }

    fn poison(&mut self, from: usize) -> Result<(), TensorError> {
        let nan = C::to_bytes(&[C::nearest(f32::NAN)]);
        for tensor in self.keys.iter().chain(&self.values) {
            let [heads, capacity, head_dim] = tensor.shape();
            let slots = capacity.saturating_sub(from) * head_dim;
            let bytes = nan.repeat(slots);
            for head in 0..heads {
                write_bytes(tensor, (head * capacity + from) * head_dim * nan.len(), &bytes)?;
            }
        }
        Ok(())
    }
}

/// Copies `bytes` to `offset` of a dense tensor's memory.
pub fn write_bytes<T: metile::lang::element::Element, const R: usize>(
    tensor: &Tensor<T, R>,
    offset: usize,
    bytes: &[u8],
) -> Result<(), TensorError> {
    match tensor.raw().parts.first() {
        Some(part) => part.storage.write(part.byte_offset as usize + offset, bytes),
        None => Ok(()),
    }
}

/// Copies `values` to the beginning of `tensor`.
pub fn write_integers(tensor: &Tensor<i64, 1>, values: &[i64]) -> Result<(), TensorError> {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    write_bytes(tensor, 0, &bytes)
}
