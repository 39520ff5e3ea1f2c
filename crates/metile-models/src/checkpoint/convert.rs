//! Any checkpoint as a folder of safetensors.

use std::path::Path;

use metile::prelude::bf16;
use metile_ir::DType;
use serde_json::{Value, json};

use super::roles::{LayerRole, Naming, Role, shape};
use super::write::{NewFolder, PROVENANCE, Planned, WEIGHTS, write_safetensors};
use super::{Checkpoint, TensorInfo};
use crate::Error;
use crate::chat_template::ChatTemplate;
use crate::config::{ModelConfig, RopeStyle};
use crate::json::read_bytes;
use crate::tokenizer::Tokenizer;

/// The type of the tensors written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConvertDtype {
    /// IEEE binary32, which every format's values fit.
    Float32,
    /// bfloat16; values that don't fit are rounded to nearest, ties to even, and counted.
    BFloat16,
}

impl ConvertDtype {
    /// Its name, as PyTorch's.
    pub const fn name(self) -> &'static str {
        match self {
            ConvertDtype::Float32 => "float32",
            ConvertDtype::BFloat16 => "bfloat16",
        }
    }

    fn dtype(self) -> DType {
        match self {
            ConvertDtype::Float32 => DType::F32,
            ConvertDtype::BFloat16 => DType::BF16,
        }
    }
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converted {
    /// Values in all.
    pub values: u64,
    /// Values that the type could not hold and that were rounded; the others are equal bit for bit.
    pub rounded: u64,
    /// SHA-256 of the weights' file.
    pub weights_sha256: String,
    /// SHA-256 of `tokenizer.json`, where the source has a tokenizer.
    pub tokenizer_sha256: Option<String>,
}

/// Writes `source`'s tensors as `dtype` to `out`, a folder that does not exist yet, with configuration,
/// tokenizer and chat template. Memory is bounded by one tensor in the source's format. `progress` is
/// told tensors written and tensors in all.
///
/// # Errors
/// If there is something at `out`, the source cannot be read, has what the format can't express, or a
/// file can't be written.
pub fn convert(
    source: &Checkpoint,
    dtype: ConvertDtype,
    out: &Path,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Converted, Error> {
    let config = source.config();
    if let Some(factors) = source.tensor(Role::RopeFactors) {
        return Err(Error::Tensor {
            path: source.path().to_path_buf(),
            tensor: factors.name.clone(),
            problem: "factors of RoPE's frequencies have no place in config.json; a safetensors \
                      checkpoint of this model has its scaling there"
                .to_owned(),
        });
    }
    let folder = NewFolder::create(out)?;
    let tokenizer_sha256 = copy_texts(source, dtype, &folder)?;
    let tensors: Vec<(Role, &TensorInfo)> = roles(config)
        .filter_map(|role| shape(config, role).and_then(|_| Some((role, source.tensor(role)?))))
        .collect();
    let planned: Vec<Planned> = tensors
        .iter()
        .map(|(role, info)| Planned {
            name: Naming::HuggingFace.name(*role),
            dtype: dtype.dtype(),
            shape: info.shape.clone(),
        })
        .collect();
    let (mut values, mut rounded) = (0, 0);
    let weights_sha256 =
        write_safetensors(&folder.file(WEIGHTS), &[("format", "pt")], &planned, |n, sink| {
            progress(n, tensors.len());
            let (role, info) = tensors[n];
            let read = source.values(info)?;
            let columns = read.columns();
            let rows = info.shape.iter().product::<usize>() / columns.max(1);
            let mut row = vec![0.0; columns];
            let mut bytes = Vec::with_capacity(columns * 4);
            // A vector is one row; the heads' elements of a bias lie within it.
            for place in 0..rows {
                read.row(source_row(config, role, place), &mut row);
                bytes.clear();
                values += row.len() as u64;
                for &value in &row {
                    match dtype {
                        ConvertDtype::Float32 => bytes.extend(value.to_le_bytes()),
                        ConvertDtype::BFloat16 => {
                            let narrow = bf16::from_f32(value);
                            rounded += u64::from(narrow.to_f32().to_bits() != value.to_bits());
                            bytes.extend(narrow.to_le_bytes());
                        }
                    }
                }
                sink(&bytes)?;
            }
            Ok(())
        })?;
    progress(tensors.len(), tensors.len());
    let name = source.path().file_name().map(|name| name.to_string_lossy().into_owned());
    folder.json(
        PROVENANCE,
        &json!({
            "weights": "converted",
            "source": name,
            "source_provenance": provenance(source.path()),
            "dtype": dtype.name(),
            "values": values,
            "rounded_values": rounded,
            "weights_sha256": weights_sha256,
            "tokenizer_sha256": tokenizer_sha256,
        }),
    )?;
    folder.finish()?;
    Ok(Converted { values, rounded, weights_sha256, tokenizer_sha256 })
}

/// Bytes of what a folder says of its weights, at most.
const MOST_PROVENANCE: u64 = 1 << 20;

/// What the source says of its own weights: that they are synthetic stays known.
fn provenance(source: &Path) -> serde_json::Value {
    read_bytes(&source.join(PROVENANCE), MOST_PROVENANCE)
        .ok()
        .and_then(|text| serde_json::from_slice(&text).ok())
        .unwrap_or_default()
}

fn roles(config: &ModelConfig) -> impl Iterator<Item = Role> {
    let layers = (0..config.layers)
        .flat_map(|n| LayerRole::ALL.into_iter().map(move |role| Role::Layer(n, role)));
    [Role::Embedding].into_iter().chain(layers).chain([Role::OutputNorm, Role::Output])
}

/// The row of the source that becomes row `place`. GGUF's Llama files have the rows of a head's two halves
/// taken in turns, so that neighbours are a pair; safetensors have one half behind the other.
fn source_row(config: &ModelConfig, role: Role, place: usize) -> usize {
    let turned = matches!(role, Role::Layer(_, LayerRole::Query | LayerRole::Key));
    if !turned || config.rope.style == RopeStyle::Split {
        return place;
    }
    let half = config.head_dim / 2;
    let (head, within) = (place / config.head_dim, place % config.head_dim);
    head * config.head_dim + within % half * 2 + within / half
}

/// Configuration, tokenizer and chat template. Gives the hash of `tokenizer.json`, if there is one.
fn copy_texts(
    source: &Checkpoint,
    dtype: ConvertDtype,
    folder: &NewFolder,
) -> Result<Option<String>, Error> {
    let config = source.config();
    let super::Source::HuggingFace(from) = source.source() else {
        folder.json("config.json", &config.to_hugging_face(dtype.name(), None))?;
        let tokenizer = Tokenizer::from_checkpoint(source)?;
        let template = ChatTemplate::from_checkpoint(source).ok();
        let template = template.as_ref().map(ChatTemplate::source);
        folder.json("tokenizer_config.json", &tokenizer.config_json(config, template))?;
        return Ok(Some(folder.json("tokenizer.json", &tokenizer.to_json()?)?));
    };
    folder.json("config.json", &retyped(from, dtype)?)?;
    let mut tokenizer = None;
    for name in [
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "chat_template.jinja",
    ] {
        let path = from.join(name);
        if path.exists() {
            let hash = folder.bytes(name, &read_bytes(&path, TEXT_LIMIT)?)?;
            tokenizer = tokenizer.or((name == "tokenizer.json").then_some(hash));
        }
    }
    Ok(tokenizer)
}

/// The most bytes of a file that is copied.
const TEXT_LIMIT: u64 = 256 << 20;

/// The source's `config.json` with the new type, and without what says how its weights were packed.
fn retyped(from: &Path, dtype: ConvertDtype) -> Result<Value, Error> {
    let path = from.join("config.json");
    let json = |problem: String| Error::Json { path: path.clone(), problem };
    let bytes = read_bytes(&path, TEXT_LIMIT)?;
    let mut value: Value = serde_json::from_slice(&bytes).map_err(|e| json(e.to_string()))?;
    let Some(object) = value.as_object_mut() else {
        return Err(json("the file does not hold an object".to_owned()));
    };
    for key in ["quantization", "quantization_config"] {
        object.remove(key);
    }
    let key = if object.contains_key("dtype") { "dtype" } else { "torch_dtype" };
    object.insert(key.to_owned(), json!(dtype.name()));
    Ok(value)
}
