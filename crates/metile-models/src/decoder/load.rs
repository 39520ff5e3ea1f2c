//! A model's weights, from the checkpoint to the device.

use super::RopeFrequencies;
use super::error::Error;
use crate::checkpoint::{Checkpoint, LayerRole, Role, TensorInfo};
use crate::config::ModelConfig;
use crate::rope;
use metile::prelude::bf16;
use metile::{Device, Tensor};
use metile_weights::{Matrix, Vector};

/// A projection: weights `[out, in]` and perhaps a bias `[out]`.
#[derive(Debug)]
pub struct Linear {
    /// The weights.
    pub weight: Matrix,
    /// The bias, widened to f32, which is exact: a dtype less for each projection kernel to be
    /// compiled for.
    pub bias: Option<Tensor<f32, 1>>,
}

/// The weights of one layer.
#[derive(Debug)]
pub struct Layer {
    /// RMSNorm before attention, `[width]`.
    pub attention_norm: Vector,
    /// Queries, `[heads · head_dim, width]`.
    pub query: Linear,
    /// Keys, `[kv_heads · head_dim, width]`.
    pub key: Linear,
    /// Values, `[kv_heads · head_dim, width]`.
    pub value: Linear,
    /// RMSNorm of each query head, `[head_dim]`.
    pub query_norm: Option<Vector>,
    /// RMSNorm of each key head, `[head_dim]`.
    pub key_norm: Option<Vector>,
    /// From the heads back to the stream, `[width, heads · head_dim]`.
    pub attention_output: Matrix,
    /// RMSNorm before the MLP, `[width]`.
    pub mlp_norm: Vector,
    /// `[mlp_width, width]`.
    pub gate: Matrix,
    /// `[mlp_width, width]`.
    pub up: Matrix,
    /// `[width, mlp_width]`.
    pub down: Matrix,
}

impl Layer {
    fn matrices(&self) -> [&Matrix; 7] {
        let [query, key, value] = self.reads();
        [query, key, value, &self.attention_output, &self.gate, &self.up, &self.down]
    }

    /// The matrices that read the normed stream before attention.
    pub fn reads(&self) -> [&Matrix; 3] {
        [&self.query.weight, &self.key.weight, &self.value.weight]
    }
}

/// All weights of a model.
#[derive(Debug)]
pub struct Weights {
    /// `[vocabulary, width]`.
    pub embedding: Matrix,
    /// In order.
    pub layers: Vec<Layer>,
    /// `[width]`.
    pub output_norm: Vector,
    /// `[vocabulary, width]`; `None` where the embedding serves.
    pub output: Option<Matrix>,
    /// Angle per position of each pair of a head's elements, `[head_dim / 2]`.
    pub frequencies: Tensor<f32, 1>,
    /// Bytes of the tensors read.
    pub bytes: u64,
}

struct Loader<'a> {
    checkpoint: &'a Checkpoint,
    device: &'a Device,
    bytes: u64,
}

impl Weights {
    /// Reads every tensor that `checkpoint`'s model needs.
    ///
    /// # Errors
    /// If one is missing, has another shape than the configuration says or a format that weights
    /// can't have, or if the checkpoint has a tensor that nobody asked for.
    pub fn load(
        checkpoint: &Checkpoint,
        device: &Device,
        precision: RopeFrequencies,
    ) -> Result<Weights, Error> {
        let config = checkpoint.config();
        let mut loader = Loader { checkpoint, device, bytes: 0 };
        let vocabulary = [config.vocabulary, config.width];
        let embedding = loader.matrix(Role::Embedding, vocabulary, "")?;
        let layers = (0..config.layers)
            .map(|n| loader.layer(n, config))
            .collect::<Result<Vec<Layer>, Error>>()?;
        let output_norm = loader.vector(Role::OutputNorm, config.width)?;
        let output = match config.tied {
            true => None,
            false => {
                let hint =
                    ", and the configuration says that the output is not tied to the embedding";
                Some(loader.matrix(Role::Output, vocabulary, hint)?)
            }
        };
        let factors = match checkpoint.tensor(Role::RopeFactors) {
            Some(_) => Some(loader.vector(Role::RopeFactors, config.head_dim / 2)?.to_f32()?),
            None => None,
        };
        checkpoint.check_all_used()?;
        let mut frequencies = rope::frequencies(config, factors.as_deref());
        if precision == RopeFrequencies::BF16 {
            frequencies.iter_mut().for_each(|f| *f = bf16::from_f32(*f).to_f32());
        }
        let frequencies = Tensor::from_slice(device, [frequencies.len()], &frequencies)?;
        let bytes = loader.bytes;
        Ok(Weights { embedding, layers, output_norm, output, frequencies, bytes })
    }
}

impl Weights {
    /// Whether some of the weights meet quantized activations.
    pub fn takes_blocks(&self) -> bool {
        let output = self.output.as_ref().unwrap_or(&self.embedding);
        output.is_blocks() || self.layers.iter().flat_map(Layer::matrices).any(Matrix::is_blocks)
    }
}

impl Loader<'_> {
    fn fail(&self, tensor: String, problem: String) -> Error {
        let path = self.checkpoint.path().to_path_buf();
        Error::Checkpoint(crate::Error::Tensor { path, tensor, problem })
    }

    fn refuse(&self, info: &TensorInfo, problem: String) -> Error {
        self.fail(info.name.clone(), problem)
    }

    fn info(&self, role: Role, hint: &str) -> Result<&TensorInfo, Error> {
        self.checkpoint
            .tensor(role)
            .ok_or_else(|| self.fail(format!("{role:?}"), format!("it is missing{hint}")))
    }

    fn read(&self, info: &TensorInfo, shape: &[usize]) -> Result<Vec<Vec<u8>>, Error> {
        if info.shape != shape {
            let problem =
                format!("has shape {:?}, and the configuration needs {shape:?}", info.shape);
            return Err(self.refuse(info, problem));
        }
        Ok(self.checkpoint.read(info)?)
    }

    fn matrix(&mut self, role: Role, shape: [usize; 2], hint: &str) -> Result<Matrix, Error> {
        let info = self.info(role, hint)?;
        let arrays = self.read(info, &shape)?;
        let arrays: Vec<&[u8]> = arrays.iter().map(Vec::as_slice).collect();
        let matrix = Matrix::new(self.device, info.format, shape, &arrays)?.ok_or_else(|| {
            self.refuse(info, format!("is {}, which weights can't be", info.format))
        })?;
        self.bytes += info.bytes;
        Ok(matrix)
    }

    fn vector(&mut self, role: Role, length: usize) -> Result<Vector, Error> {
        let info = self.info(role, "")?;
        let arrays = self.read(info, &[length])?;
        let bytes = arrays.first().map_or(&[][..], Vec::as_slice);
        let vector = Vector::new(self.device, info.format, length, bytes)?.ok_or_else(|| {
            self.refuse(info, format!("is {}, not f32, f16 or bf16", info.format))
        })?;
        self.bytes += info.bytes;
        Ok(vector)
    }

    fn linear(
        &mut self,
        weight: Role,
        bias: Option<Role>,
        shape: [usize; 2],
    ) -> Result<Linear, Error> {
        let weight = self.matrix(weight, shape, "")?;
        let bias = match bias {
            Some(role) => {
                let values = self.vector(role, shape[0])?.to_f32()?;
                Some(Tensor::from_slice(self.device, [shape[0]], &values)?)
            }
            None => None,
        };
        Ok(Linear { weight, bias })
    }

    fn layer(&mut self, n: usize, config: &ModelConfig) -> Result<Layer, Error> {
        let role = |part| Role::Layer(n, part);
        let bias = |part| config.attention_bias.then_some(role(part));
        let width = config.width;
        let heads = config.heads * config.head_dim;
        let kv = config.kv_heads * config.head_dim;
        let mlp = config.mlp_width;
        let attention_norm = self.vector(role(LayerRole::AttentionNorm), width)?;
        let query =
            self.linear(role(LayerRole::Query), bias(LayerRole::QueryBias), [heads, width])?;
        let key = self.linear(role(LayerRole::Key), bias(LayerRole::KeyBias), [kv, width])?;
        let value = self.linear(role(LayerRole::Value), bias(LayerRole::ValueBias), [kv, width])?;
        let mut head_norm =
            |part| config.qk_norm.then(|| self.vector(role(part), config.head_dim)).transpose();
        let query_norm = head_norm(LayerRole::QueryNorm)?;
        let key_norm = head_norm(LayerRole::KeyNorm)?;
        Ok(Layer {
            attention_norm,
            query,
            key,
            value,
            query_norm,
            key_norm,
            attention_output: self.matrix(role(LayerRole::AttentionOutput), [width, heads], "")?,
            mlp_norm: self.vector(role(LayerRole::MlpNorm), width)?,
            gate: self.matrix(role(LayerRole::Gate), [mlp, width], "")?,
            up: self.matrix(role(LayerRole::Up), [mlp, width], "")?,
            down: self.matrix(role(LayerRole::Down), [width, mlp], "")?,
        })
    }
}
