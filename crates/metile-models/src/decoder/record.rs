//! The lists of kernels that read a chunk: what each layer does, as launches.

use super::Logits;
use super::buffers::{Buffers, Cache, Operand, Rounded, with_layers};
use super::error::Error;
use super::inspect::Attention;
use super::load::{Layer, Projections, Weights};
use super::packing::PackedWeights;
use crate::config::{ModelConfig, RopeStyle};
use metile::{CommandList, Device, Tensor, TensorError};
use metile_kernels as kernels;
use metile_weights::{Matrix, Vector};

/// Rows of a list are a multiple of this, or the whole chunk.
pub const ROW_STEP: usize = 16;

/// What a list is recorded over.
pub struct Chunk<'m> {
    pub device: &'m Device,
    pub config: &'m ModelConfig,
    pub weights: &'m Weights,
    /// Copies that a row's projections read instead, and the vocabulary's whatever the rows.
    pub packed: Option<&'m PackedWeights>,
    pub cache: &'m Cache,
    pub buffers: &'m Buffers,
    /// Rows of the list; 1 is a decode step.
    pub rows: usize,
    /// What computes attention instead of the library's kernels.
    pub attention: Option<Attention>,
    /// Where the logits of all rows go, `[rows, vocabulary]`.
    pub every_row: Option<Tensor<f32, 2>>,
}

/// Views of the buffers that a layer works on.
struct Views {
    stream: Tensor<f32, 2>,
    normed: Operand,
    attended: Operand,
    gated: Operand,
}

/// The list that finds the highest of the last row's logits.
///
/// # Errors
/// If a kernel is refused.
pub fn choice(device: &Device, buffers: &mut Buffers) -> Result<CommandList, Error> {
    let mut list = CommandList::new(device);
    list.record(kernels::argmax_parts(&buffers.logits, &mut buffers.highest))?;
    list.record(kernels::argmax_merge(&buffers.highest, &mut buffers.choice))?;
    Ok(list)
}

/// Rows of `heads` vectors, as `[rows, heads, head_dim]` over the same memory.
fn by_head(x: &Tensor<f32, 2>, heads: usize) -> Result<Tensor<f32, 3>, TensorError> {
    let [rows, width] = x.shape();
    Tensor::from_parts([rows, heads, width / heads.max(1)], x.raw().parts.clone())
}

impl<'m> Chunk<'m> {
    /// Records the list, up to what `logits` asks for.
    ///
    /// # Errors
    /// If a kernel is refused or there is no room.
    pub fn record(&self, logits: Logits) -> Result<CommandList, Error> {
        let mut list = CommandList::new(self.device);
        let b = self.buffers;
        let mut rows = Views {
            stream: b.stream.slice(0, 0..self.rows)?,
            normed: b.normed.rows(self.rows)?,
            attended: b.attended.rows(self.rows)?,
            gated: b.gated.rows(self.rows)?,
        };
        let ids = b.ids.slice(0, 0..self.rows)?;
        list.record(self.weights.embedding.embed(&ids, &mut rows.stream, &b.state))?;
        for (n, layer) in self.weights.layers.iter().enumerate() {
            let last = n + 1 == self.weights.layers.len();
            let reads = self.projections(n, layer);
            let inputs = [reads.query, reads.key, reads.value];
            self.normed(&mut list, &mut rows, &layer.attention_norm, &inputs)?;
            // Launches that have nothing to do with each other come one after the other: a list runs
            // them side by side.
            let queries = !(last && logits == Logits::None);
            self.project_heads(&mut list, (n, layer), &reads, &rows, queries)?;
            if !queries {
                return Ok(list);
            }
            self.attention(&mut list, n, &mut rows)?;
            if last && logits == Logits::Last && self.rows > 1 {
                rows = self.last_row(&mut list, &rows)?;
            }
            self.rest_of_layer(&mut list, layer, &reads, &mut rows)?;
        }
        self.output(&mut list, &mut rows)?;
        Ok(list)
    }

    /// What this list's projections of layer `n` read.
    fn projections(&self, n: usize, layer: &'m Layer) -> Projections<&'m Matrix> {
        match self.packed.and_then(|packed| packed.layers.get(n)).filter(|_| self.rows == 1) {
            Some(packed) => packed.as_ref(),
            None => layer.projections(),
        }
    }

    /// The stream, normed, and quantized or rounded if one of `readers` takes it so.
    fn normed(
        &self,
        list: &mut CommandList,
        rows: &mut Views,
        norm: &Vector,
        readers: &[&Matrix],
    ) -> Result<(), Error> {
        let eps = self.config.norm_eps;
        list.record(norm.rms_norm(&rows.stream, &mut rows.normed.dense, eps))?;
        quantize(list, &mut rows.normed, readers)
    }

    /// `out = x · wᵀ`, with the bias if there is one.
    fn linear(
        &self,
        list: &mut CommandList,
        x: &Operand,
        weight: &Matrix,
        bias: Option<&Tensor<f32, 1>>,
        out: &mut Tensor<f32, 2>,
    ) -> Result<(), Error> {
        Ok(list.record(match bias {
            Some(bias) => weight.project_bias(x.as_rows(), bias, out),
            None => weight.project(x.as_rows(), out),
        })?)
    }

    /// Keys and values of the chunk, in layer `n`'s cache, and queries if they are wanted; keys and queries normed, where the model does, and
    /// turned.
    fn project_heads(
        &self,
        list: &mut CommandList,
        (n, layer): (usize, &Layer),
        reads: &Projections<&Matrix>,
        rows: &Views,
        with_queries: bool,
    ) -> Result<(), Error> {
        let b = self.buffers;
        let mut keys = b.keys.slice(0, 0..self.rows)?;
        let mut values = b.values.slice(0, 0..self.rows)?;
        let mut queries = b.queries.slice(0, 0..self.rows)?;
        let x = &rows.normed;
        self.linear(list, x, reads.key, layer.key.bias.as_ref(), &mut keys)?;
        self.linear(list, x, reads.value, layer.value.bias.as_ref(), &mut values)?;
        if with_queries {
            self.linear(list, x, reads.query, layer.query.bias.as_ref(), &mut queries)?;
        }
        let heads = kernels::Heads {
            queries: &mut by_head(&queries, self.config.heads)?,
            keys: &by_head(&keys, self.config.kv_heads)?,
            values: &by_head(&values, self.config.kv_heads)?,
            norms: layer.query_norm.as_ref().zip(layer.key_norm.as_ref()).map(|(q, k)| [q, k]),
            frequencies: &self.weights.frequencies,
            style: match self.config.rope.style {
                RopeStyle::Split => kernels::RopeStyle::Split,
                RopeStyle::Interleaved => kernels::RopeStyle::Interleaved,
            },
        };
        let eps = self.config.norm_eps;
        with_layers!(self.cache, layers => {
            let (mut keys, mut values) = (layers.keys[n].share(), layers.values[n].share());
            let caches = (&mut keys, &mut values);
            let call =
                kernels::ready_heads(heads, caches.0, caches.1, &b.state, eps, with_queries);
            Ok(list.record(call)?)
        })
    }

    /// Queries of the chunk over layer `n`'s cache.
    fn attention(&self, list: &mut CommandList, n: usize, rows: &mut Views) -> Result<(), Error> {
        let b = self.buffers;
        let queries = by_head(&b.queries.slice(0, 0..self.rows)?, self.config.heads)?;
        let scale = 1.0 / (self.config.head_dim as f32).sqrt();
        let out = &mut rows.attended.dense;
        if let (Some(attention), Cache::F32(layers)) = (self.attention, self.cache) {
            let (keys, values) = (&layers.keys[n], &layers.values[n]);
            return Ok(list.record(attention(&queries, keys, values, out, &b.state, scale))?);
        }
        if self.rows == 1 {
            let mut parts = kernels::DecodeBuffers {
                peak: b.attention.peak.share(),
                total: b.attention.total.share(),
                acc: b.attention.acc.share(),
            };
            with_layers!(self.cache, layers => {
                let (keys, values) = (&layers.keys[n], &layers.values[n]);
                list.record(kernels::decode_attention_parts(
                    &queries, keys, values, &mut parts, &b.state, scale,
                ))?;
            });
            list.record(kernels::decode_attention_merge(&parts, out, &b.state))?;
        } else {
            with_layers!(self.cache, layers => {
                let (keys, values) = (&layers.keys[n], &layers.values[n]);
                let call = kernels::prefill_attention(&queries, keys, values, out, &b.state, scale);
                list.record(call)?;
            });
        }
        Ok(())
    }

    /// The last row of the stream and of what attention gave, where the rest of the last layer is
    /// wanted for it alone.
    fn last_row(&self, list: &mut CommandList, rows: &Views) -> Result<Views, Error> {
        let b = self.buffers;
        let mut one = Views {
            stream: b.last_stream.share(),
            normed: b.normed.rows(1)?,
            attended: b.last_attended.rows(1)?,
            gated: b.gated.rows(1)?,
        };
        for (from, to) in
            [(&rows.stream, &mut one.stream), (&rows.attended.dense, &mut one.attended.dense)]
        {
            list.record(kernels::embedding(&b.last, from, to))?;
        }
        Ok(one)
    }

    /// From attention's result to the layer's: both residual additions and the MLP.
    fn rest_of_layer(
        &self,
        list: &mut CommandList,
        layer: &Layer,
        reads: &Projections<&Matrix>,
        rows: &mut Views,
    ) -> Result<(), Error> {
        quantize(list, &mut rows.attended, &[reads.attention_output])?;
        add(list, &rows.attended, reads.attention_output, &mut rows.stream)?;
        self.normed(list, rows, &layer.mlp_norm, &[reads.gate, reads.up])?;
        self.gated(list, reads, rows)?;
        quantize(list, &mut rows.gated, &[reads.down])?;
        add(list, &rows.gated, reads.down, &mut rows.stream)
    }

    /// `silu(h · gateᵀ) · (h · upᵀ)`.
    fn gated(
        &self,
        list: &mut CommandList,
        reads: &Projections<&Matrix>,
        rows: &mut Views,
    ) -> Result<(), Error> {
        let x = rows.normed.as_rows();
        // One kernel does it all if both are stored alike.
        if let Some(call) = reads.gate.project_swiglu(reads.up, x, &mut rows.gated.dense) {
            return Ok(list.record(call)?);
        }
        let shape = rows.gated.dense.shape();
        let mut gate = Tensor::zeros(self.device, shape)?;
        let mut up = Tensor::zeros(self.device, shape)?;
        list.record(reads.gate.project(x, &mut gate))?;
        list.record(reads.up.project(x, &mut up))?;
        Ok(list.record(kernels::swiglu(&gate, &up, &mut rows.gated.dense))?)
    }

    /// The final norm and the logits.
    fn output(&self, list: &mut CommandList, rows: &mut Views) -> Result<(), Error> {
        let b = self.buffers;
        let original = self.weights.output.as_ref().unwrap_or(&self.weights.embedding);
        // One row is projected even where a whole chunk was read.
        let one_row = self.packed.filter(|_| self.every_row.is_none());
        let output = one_row.map_or(original, |packed| &packed.output);
        self.normed(list, rows, &self.weights.output_norm, &[output])?;
        let x = rows.normed.as_rows();
        let mut logits = b.logits.share();
        match &self.every_row {
            None => list.record(output.project(x, &mut logits))?,
            Some(every_row) => {
                let mut every_row = every_row.share();
                list.record(output.project(x, &mut every_row))?;
                list.record(kernels::embedding(&b.last, &every_row, &mut logits))?;
            }
        }
        Ok(())
    }
}

/// Quantizes or rounds the rows, if there is room for it and one of `readers` takes them so.
fn quantize(list: &mut CommandList, x: &mut Operand, readers: &[&Matrix]) -> Result<(), Error> {
    if let Some(quantized) = &mut x.quantized
        && readers.iter().any(|w| w.is_blocks())
    {
        list.record(kernels::quantize_q8(&x.dense, &mut quantized.bytes))?;
    }
    match &mut x.rounded {
        Some(Rounded::F16(rounded)) => list.record(kernels::convert(&x.dense, rounded))?,
        Some(Rounded::BF16(rounded)) => list.record(kernels::convert(&x.dense, rounded))?,
        None => {}
    }
    Ok(())
}

/// `out += x · wᵀ`.
fn add(
    list: &mut CommandList,
    x: &Operand,
    weights: &Matrix,
    out: &mut Tensor<f32, 2>,
) -> Result<(), Error> {
    Ok(list.record(weights.project_add(x.as_rows(), out))?)
}
