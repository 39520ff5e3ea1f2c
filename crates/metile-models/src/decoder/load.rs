//! A model's weights, from the checkpoint to the device.

use super::RopeFrequencies;
use super::error::Error;
use crate::checkpoint::{Checkpoint, LayerRole, Role, TensorInfo};
use crate::config::{ModelConfig, RopeScaling};
use crate::rope;
use metile::prelude::{bf16, f16};
use metile::{Device, Tensor};
use metile_ir::{DType, Format};
use metile_kernels as kernels;
use metile_weights::{Matrix, Vector};

/// How weights are kept in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeightType {
    /// As the checkpoint has them.
    #[default]
    AsStored,
    /// In f32, which every format's values fit.
    F32,
    /// In bf16, to nearest, ties to even.
    BF16,
    /// In f16, to nearest, ties to even.
    F16,
}

impl WeightType {
    /// The dtype, where it is not the checkpoint's.
    fn dtype(self) -> Option<DType> {
        match self {
            WeightType::AsStored => None,
            WeightType::F32 => Some(DType::F32),
            WeightType::BF16 => Some(DType::BF16),
            WeightType::F16 => Some(DType::F16),
        }
    }
}

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
    pub query_norm: Option<Tensor<f32, 1>>,
    /// RMSNorm of each key head, `[head_dim]`.
    pub key_norm: Option<Tensor<f32, 1>>,
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

/// The projections of one layer: matrices, or where they are.
#[derive(Clone, Copy, Debug)]
pub struct Projections<M> {
    pub query: M,
    pub key: M,
    pub value: M,
    pub attention_output: M,
    pub gate: M,
    pub up: M,
    pub down: M,
}

impl Projections<Matrix> {
    /// Where they are.
    pub fn as_ref(&self) -> Projections<&Matrix> {
        let Projections { query, key, value, attention_output, gate, up, down } = self;
        Projections { query, key, value, attention_output, gate, up, down }
    }
}

impl<M> Projections<M> {
    /// What `f` makes of each, with its name, up to the first error.
    pub fn try_map<T, E>(
        self,
        mut f: impl FnMut(&'static str, M) -> Result<T, E>,
    ) -> Result<Projections<T>, E> {
        Ok(Projections {
            query: f("query", self.query)?,
            key: f("key", self.key)?,
            value: f("value", self.value)?,
            attention_output: f("attention output", self.attention_output)?,
            gate: f("gate", self.gate)?,
            up: f("up", self.up)?,
            down: f("down", self.down)?,
        })
    }
}

impl Layer {
    /// The projections.
    pub fn projections(&self) -> Projections<&Matrix> {
        Projections {
            query: &self.query.weight,
            key: &self.key.weight,
            value: &self.value.weight,
            attention_output: &self.attention_output,
            gate: &self.gate,
            up: &self.up,
            down: &self.down,
        }
    }

    fn matrices(&self) -> [&Matrix; 7] {
        let Projections { query, key, value, attention_output, gate, up, down } =
            self.projections();
        [query, key, value, attention_output, gate, up, down]
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
    /// Bytes of the tensors read, as the checkpoint has them.
    pub bytes: u64,
    /// Bytes of the tensors on the device.
    pub loaded_bytes: u64,
}

/// A tensor of the checkpoint, read.
struct Read {
    info: TensorInfo,
    format: Format,
    arrays: Vec<Vec<u8>>,
}

struct Loader<'a> {
    checkpoint: &'a Checkpoint,
    device: &'a Device,
    kept: WeightType,
    bytes: u64,
    loaded_bytes: u64,
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
        kept: WeightType,
    ) -> Result<Weights, Error> {
        let config = checkpoint.config();
        let mut loader = Loader { checkpoint, device, kept, bytes: 0, loaded_bytes: 0 };
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
        let frequencies = match precision {
            RopeFrequencies::F32 => rope::frequencies(config, factors.as_deref()),
            RopeFrequencies::BF16 => rope::frequencies(config, factors.as_deref())
                .into_iter()
                .map(|f| bf16::from_f32(f).to_f32())
                .collect(),
            RopeFrequencies::Exp2 => exp2_frequencies(device, config, factors.is_some())?,
        };
        let frequencies = Tensor::from_slice(device, [frequencies.len()], &frequencies)?;
        let Loader { bytes, loaded_bytes, .. } = loader;
        Ok(Weights { embedding, layers, output_norm, output, frequencies, bytes, loaded_bytes })
    }

    /// The format of every layer's projections, if they have one.
    pub fn projected(&self) -> Option<Format> {
        let mut formats = self.layers.iter().flat_map(Layer::matrices).map(Matrix::format);
        let first = formats.next()?;
        formats.all(|format| format == first).then_some(first)
    }
}

/// See [`RopeFrequencies::Exp2`].
fn exp2_frequencies(
    device: &Device,
    config: &ModelConfig,
    factors: bool,
) -> Result<Vec<f32>, Error> {
    if factors || config.rope.scaling != RopeScaling::None {
        let problem = "rotary frequencies as exp2: this model scales its frequencies";
        return Err(Error::Option(problem.to_owned()));
    }
    let exponents = rope::exponents(config);
    let exponents = Tensor::from_slice(device, [1, exponents.len()], &exponents)?;
    let mut frequencies = Tensor::zeros(device, exponents.shape())?;
    kernels::powers_of_two(&exponents, &mut frequencies).prepare(device)?.launch()?;
    Ok(frequencies.to_vec()?)
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

    /// The arrays of `info` and what they hold, in the type that weights are kept in.
    fn read(&mut self, role: Role, hint: &str, shape: &[usize]) -> Result<Read, Error> {
        let info = self.info(role, hint)?;
        if info.shape != shape {
            let problem =
                format!("has shape {:?}, and the configuration needs {shape:?}", info.shape);
            return Err(self.refuse(info, problem));
        }
        let (info, bytes) = (info.clone(), info.bytes);
        let (format, arrays) = match self.kept.dtype() {
            Some(dtype) if info.format != Format::Plain(dtype) && role != Role::RopeFactors => {
                (Format::Plain(dtype), vec![self.converted(&info, dtype)?])
            }
            _ => (info.format, self.checkpoint.read(&info)?),
        };
        self.bytes += bytes;
        self.loaded_bytes += arrays.iter().map(|array| array.len() as u64).sum::<u64>();
        Ok(Read { info, format, arrays })
    }

    /// The values of `info` as `dtype`.
    fn converted(&self, info: &TensorInfo, dtype: DType) -> Result<Vec<u8>, Error> {
        let values = self.checkpoint.values(info)?;
        let columns = values.columns();
        let rows = info.shape.iter().product::<usize>() / columns.max(1);
        let mut row = vec![0.0f32; columns];
        let mut bytes = Vec::new();
        for n in 0..rows {
            values.row(n, &mut row);
            match dtype {
                DType::BF16 => {
                    bytes.extend(row.iter().flat_map(|&v| bf16::from_f32(v).to_le_bytes()));
                }
                DType::F16 => {
                    bytes.extend(row.iter().flat_map(|&v| f16::from_f32(v).to_le_bytes()));
                }
                _ => bytes.extend(row.iter().flat_map(|v| v.to_le_bytes())),
            }
        }
        Ok(bytes)
    }

    fn matrix(&mut self, role: Role, shape: [usize; 2], hint: &str) -> Result<Matrix, Error> {
        let Read { info, format, arrays } = self.read(role, hint, &shape)?;
        let arrays: Vec<&[u8]> = arrays.iter().map(Vec::as_slice).collect();
        Matrix::new(self.device, format, shape, &arrays)?
            .ok_or_else(|| self.refuse(&info, format!("is {format}, which weights can't be")))
    }

    fn vector(&mut self, role: Role, length: usize) -> Result<Vector, Error> {
        let Read { info, format, arrays } = self.read(role, "", &[length])?;
        let bytes = arrays.first().map_or(&[][..], Vec::as_slice);
        Vector::new(self.device, format, length, bytes)?
            .ok_or_else(|| self.refuse(&info, format!("is {format}, not f32, f16 or bf16")))
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
        // As f32: a few numbers, and one kernel for all types.
        let mut head_norm = |part| -> Result<Option<Tensor<f32, 1>>, Error> {
            if !config.qk_norm {
                return Ok(None);
            }
            let values = self.vector(role(part), config.head_dim)?.to_f32()?;
            Ok(Some(Tensor::from_slice(self.device, [config.head_dim], &values)?))
        };
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
