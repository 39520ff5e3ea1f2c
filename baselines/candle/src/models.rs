//! candle's models behind one interface.

use candle_core::quantized::gguf_file;
use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::{
    llama, quantized_llama, quantized_qwen2, quantized_qwen3, qwen2, qwen3,
};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

pub type Error = Box<dyn std::error::Error>;

enum Network {
    Llama { model: llama::Llama, cache: Box<llama::Cache>, config: llama::Config, dtype: DType },
    Qwen2(qwen2::ModelForCausalLM),
    Qwen3(qwen3::ModelForCausalLM),
    PackedLlama(quantized_llama::ModelWeights),
    PackedQwen2(quantized_qwen2::ModelWeights),
    PackedQwen3(quantized_qwen3::ModelWeights),
}

/// A loaded model.
pub struct Model {
    network: Network,
    pub layers: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub vocabulary: usize,
    pub dtype: String,
    pub weight_bytes: u64,
}

impl Model {
    /// A folder with safetensors, or a GGUF file.
    pub fn load(path: &Path, dtype: Option<&str>) -> Result<Model, Error> {
        if path.is_dir() { load_folder(path, dtype) } else { load_gguf(path, dtype) }
    }

    /// Empties the cache.
    pub fn fresh(&mut self) -> Result<(), Error> {
        match &mut self.network {
            Network::Llama { cache, config, dtype, .. } => {
                **cache = llama::Cache::new(true, *dtype, config, &Device::Cpu)?;
            }
            Network::Qwen2(model) => model.clear_kv_cache(),
            Network::Qwen3(model) => model.clear_kv_cache(),
            Network::PackedLlama(model) => model.clear_kv_cache(),
            Network::PackedQwen2(model) => model.clear_kv_cache(),
            Network::PackedQwen3(model) => model.clear_kv_cache(),
        }
        Ok(())
    }

    /// Appends ids after `position` cached ones; the greedy token of the last row.
    pub fn forward(&mut self, ids: &[u32], position: usize) -> Result<u32, Error> {
        let x = Tensor::new(ids, &Device::Cpu)?.unsqueeze(0)?;
        let logits = match &mut self.network {
            Network::Llama { model, cache, .. } => model.forward(&x, position, cache)?,
            Network::Qwen2(model) => model.forward(&x, position)?,
            Network::Qwen3(model) => model.forward(&x, position)?,
            Network::PackedLlama(model) => model.forward(&x, position)?,
            Network::PackedQwen2(model) => model.forward(&x, position)?,
            Network::PackedQwen3(model) => model.forward(&x, position)?,
        };
        Ok(logits.flatten_all()?.argmax(0)?.to_scalar::<u32>()?)
    }
}

fn load_folder(path: &Path, dtype: Option<&str>) -> Result<Model, Error> {
    let config: Value = serde_json::from_slice(&fs::read(path.join("config.json"))?)?;
    let family = config["model_type"].as_str().unwrap_or_default().to_owned();
    let config = in_candles_keys(config)?;
    // Older configurations call it `torch_dtype`.
    let stored = ["dtype", "torch_dtype"].into_iter().find_map(|key| config[key].as_str());
    let dtype = match dtype.or(stored) {
        Some("f32" | "float32") => DType::F32,
        Some("f16" | "float16") => DType::F16,
        Some("bf16" | "bfloat16") => DType::BF16,
        other => return Err(format!("weights in {other:?}").into()),
    };
    let number = |key: &str| config[key].as_u64().map(|n| n as usize).ok_or(format!("no {key}"));
    let heads = number("num_attention_heads")?;
    let head_dim = match config["head_dim"].as_u64() {
        Some(size) => size as usize,
        None => number("hidden_size")? / heads.max(1),
    };
    let files = weight_files(path)?;
    let weight_bytes =
        files.iter().map(|file| Ok(fs::metadata(file)?.len())).sum::<Result<u64, Error>>()?;
    let mut tensors = HashMap::new();
    for file in &files {
        tensors.extend(candle_core::safetensors::load(file, &Device::Cpu)?);
    }
    let weights = VarBuilder::from_tensors(tensors, dtype, &Device::Cpu);
    let network = match family.as_str() {
        "llama" => {
            if head_dim * heads != number("hidden_size")? {
                return Err("candle's Llama has heads of hidden_size / heads elements".into());
            }
            let config: llama::LlamaConfig = serde_json::from_value(config.clone())?;
            let config = config.into_config(false);
            let model = llama::Llama::load(weights, &config)?;
            let cache = Box::new(llama::Cache::new(true, dtype, &config, &Device::Cpu)?);
            Network::Llama { model, cache, config, dtype }
        }
        "qwen2" => {
            let config: qwen2::Config = serde_json::from_value(config.clone())?;
            Network::Qwen2(qwen2::ModelForCausalLM::new(&config, weights)?)
        }
        "qwen3" => {
            let config: qwen3::Config = serde_json::from_value(config.clone())?;
            Network::Qwen3(qwen3::ModelForCausalLM::new(&config, weights)?)
        }
        other => return Err(format!("no model of type {other:?} here").into()),
    };
    Ok(Model {
        network,
        layers: number("num_hidden_layers")?,
        kv_heads: number("num_key_value_heads")?,
        head_dim,
        vocabulary: number("vocab_size")?,
        dtype: format!("{dtype:?}").to_lowercase(),
        weight_bytes,
    })
}

/// Configurations of the newer generation in the keys that candle reads.
fn in_candles_keys(mut config: Value) -> Result<Value, Error> {
    let rope = config["rope_parameters"].clone();
    if let Some(theta) = rope.get("rope_theta") {
        config["rope_theta"] = theta.clone();
        if rope["rope_type"] != "default" {
            config["rope_scaling"] = rope;
        }
    }
    if config["use_sliding_window"] == false && config["sliding_window"].is_null() {
        // As long as the context, so that it hides nothing.
        config["sliding_window"] = config["max_position_embeddings"].clone();
    }
    if config["use_sliding_window"] == true {
        return Err("a model with a sliding window".into());
    }
    if config["use_sliding_window"].is_null() {
        config["use_sliding_window"] = json!(false);
    }
    Ok(config)
}

fn weight_files(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let single = path.join("model.safetensors");
    if single.is_file() {
        return Ok(vec![single]);
    }
    let index = path.join("model.safetensors.index.json");
    let index: Value = serde_json::from_slice(&fs::read(index)?)?;
    let map = index["weight_map"].as_object().ok_or("an index without weight_map")?;
    let mut files: Vec<&str> = map.values().filter_map(Value::as_str).collect();
    files.sort_unstable();
    files.dedup();
    Ok(files.into_iter().map(|file| path.join(file)).collect())
}

fn load_gguf(path: &Path, dtype: Option<&str>) -> Result<Model, Error> {
    if dtype.is_some() {
        return Err("candle computes with the GGUF file's own representation".into());
    }
    let mut file = File::open(path)?;
    let content = gguf_file::Content::read(&mut file)?;
    let value = |key: &str| content.metadata.get(key);
    let family =
        value("general.architecture").ok_or("no general.architecture")?.to_string()?.clone();
    let number = |key: &str| -> Result<usize, Error> {
        let key = format!("{family}.{key}");
        Ok(value(&key).ok_or_else(|| format!("no {key}"))?.to_u32()? as usize)
    };
    let (layers, heads) = (number("block_count")?, number("attention.head_count")?);
    let kv_heads = number("attention.head_count_kv").unwrap_or(heads);
    let head_dim = number("attention.key_length")
        .or_else(|_| Ok::<_, Error>(number("embedding_length")? / heads.max(1)))?;
    let embedding = content.tensor_infos.get("token_embd.weight").ok_or("no token_embd.weight")?;
    let vocabulary = embedding.shape.dims().first().copied().ok_or("an embedding without rows")?;
    let device = &Device::Cpu;
    let network = match family.as_str() {
        "llama" => Network::PackedLlama(quantized_llama::ModelWeights::from_gguf(
            content, &mut file, device,
        )?),
        "qwen2" => Network::PackedQwen2(quantized_qwen2::ModelWeights::from_gguf(
            content, &mut file, device,
        )?),
        "qwen3" => Network::PackedQwen3(quantized_qwen3::ModelWeights::from_gguf(
            content, &mut file, device,
        )?),
        other => return Err(format!("no model of architecture {other:?} here").into()),
    };
    let weight_bytes = fs::metadata(path)?.len();
    let dtype = "the file's blocks".to_owned();
    Ok(Model { network, layers, kv_heads, head_dim, vocabulary, dtype, weight_bytes })
}
