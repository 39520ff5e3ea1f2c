//! Small checkpoints made on the spot, right or wrong in one place.
#![allow(dead_code)]

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

/// A GGUF file in the making.
#[derive(Clone)]
pub struct Gguf {
    pub version: u32,
    pairs: Vec<(String, u32, Vec<u8>)>,
    tensors: Vec<(String, Vec<u64>, u32, Vec<u8>)>,
    alignment: u64,
}

pub const F32: u32 = 0;

fn string(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes
}

impl Gguf {
    pub fn new() -> Gguf {
        Gguf { version: 3, pairs: Vec::new(), tensors: Vec::new(), alignment: 32 }
    }

    /// A value of any type, as its bytes; one of the same key is replaced.
    pub fn raw(mut self, key: &str, kind: u32, bytes: Vec<u8>) -> Gguf {
        self.pairs.retain(|(other, ..)| other != key);
        self.pairs.push((key.to_owned(), kind, bytes));
        self
    }

    pub fn without(mut self, key: &str) -> Gguf {
        self.pairs.retain(|(other, ..)| other != key);
        self.tensors.retain(|(name, ..)| name != key);
        self
    }

    pub fn text(self, key: &str, text: &str) -> Gguf {
        self.raw(key, 8, string(text))
    }

    pub fn u32(self, key: &str, n: u32) -> Gguf {
        self.raw(key, 4, n.to_le_bytes().to_vec())
    }

    pub fn f32(self, key: &str, x: f32) -> Gguf {
        self.raw(key, 6, x.to_le_bytes().to_vec())
    }

    pub fn truth(self, key: &str, value: bool) -> Gguf {
        self.raw(key, 7, vec![value.into()])
    }

    pub fn array(self, key: &str, kind: u32, count: usize, elements: Vec<u8>) -> Gguf {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend((count as u64).to_le_bytes());
        bytes.extend(elements);
        self.raw(key, 9, bytes)
    }

    pub fn texts(self, key: &str, texts: &[impl AsRef<str>]) -> Gguf {
        let elements = texts.iter().flat_map(|text| string(text.as_ref())).collect();
        self.array(key, 8, texts.len(), elements)
    }

    pub fn i32s(self, key: &str, values: &[i32]) -> Gguf {
        let elements = values.iter().flat_map(|n| n.to_le_bytes()).collect();
        self.array(key, 5, values.len(), elements)
    }

    pub fn f32s(self, key: &str, values: &[f32]) -> Gguf {
        let elements = values.iter().flat_map(|n| n.to_le_bytes()).collect();
        self.array(key, 6, values.len(), elements)
    }

    pub fn align(mut self, alignment: u32) -> Gguf {
        self.alignment = alignment.into();
        self.u32("general.alignment", alignment)
    }

    /// A tensor with dimensions in the file's order, behind the others.
    pub fn tensor(mut self, name: &str, dimensions: &[u64], kind: u32, data: Vec<u8>) -> Gguf {
        self.tensors.push((name.to_owned(), dimensions.to_vec(), kind, data));
        self
    }

    /// The same, of zeros.
    pub fn zeros(self, name: &str, dimensions: &[u64]) -> Gguf {
        let bytes = dimensions.iter().product::<u64>() * 4;
        self.without(name).tensor(name, dimensions, F32, vec![0; bytes as usize])
    }

    pub fn build(&self) -> Vec<u8> {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(self.version.to_le_bytes());
        bytes.extend((self.tensors.len() as u64).to_le_bytes());
        bytes.extend((self.pairs.len() as u64).to_le_bytes());
        for (key, kind, value) in &self.pairs {
            bytes.extend(string(key));
            bytes.extend(kind.to_le_bytes());
            bytes.extend(value);
        }
        let mut offset = 0u64;
        for (name, dimensions, kind, data) in &self.tensors {
            bytes.extend(string(name));
            bytes.extend((dimensions.len() as u32).to_le_bytes());
            bytes.extend(dimensions.iter().flat_map(|n| n.to_le_bytes()));
            bytes.extend(kind.to_le_bytes());
            bytes.extend(offset.to_le_bytes());
            offset = (offset + data.len() as u64).next_multiple_of(self.alignment);
        }
        let start = bytes.len().next_multiple_of(self.alignment as usize);
        bytes.resize(start, 0);
        for (.., data) in &self.tensors {
            bytes
                .resize(start + (bytes.len() - start).next_multiple_of(self.alignment as usize), 0);
            bytes.extend(data);
        }
        bytes
    }

    pub fn write(&self, folder: &Path) -> PathBuf {
        let path = folder.join("model.gguf");
        std::fs::write(&path, self.build()).unwrap();
        path
    }
}

/// Sizes of the toy models.
pub const WIDTH: u64 = 64;
pub const HEADS: u64 = 4;
pub const KV_HEADS: u64 = 2;
pub const MLP: u64 = 96;
pub const VOCABULARY: u64 = 272;

/// A GGUF model of one layer of zeros, with a byte-level vocabulary.
pub fn gguf_model(family: &str, head_dim: u64) -> Gguf {
    let key = |name: &str| format!("{family}.{name}");
    let mut gguf = Gguf::new()
        .text("general.architecture", family)
        .u32(&key("block_count"), 1)
        .u32(&key("context_length"), 128)
        .u32(&key("embedding_length"), WIDTH as u32)
        .u32(&key("feed_forward_length"), MLP as u32)
        .u32(&key("attention.head_count"), HEADS as u32)
        .u32(&key("attention.head_count_kv"), KV_HEADS as u32)
        .u32(&key("attention.key_length"), head_dim as u32)
        .f32(&key("attention.layer_norm_rms_epsilon"), 1e-6)
        .text("tokenizer.ggml.model", "gpt2")
        .text("tokenizer.ggml.pre", "qwen2")
        .texts("tokenizer.ggml.tokens", &vocabulary())
        .i32s("tokenizer.ggml.token_type", &token_types())
        .texts("tokenizer.ggml.merges", &["a b", "ab c"])
        .u32("tokenizer.ggml.eos_token_id", 258)
        .zeros("token_embd.weight", &[WIDTH, VOCABULARY])
        .zeros("output_norm.weight", &[WIDTH]);
    for (name, dimensions) in [
        ("attn_norm.weight", vec![WIDTH]),
        ("attn_q.weight", vec![WIDTH, HEADS * head_dim]),
        ("attn_k.weight", vec![WIDTH, KV_HEADS * head_dim]),
        ("attn_v.weight", vec![WIDTH, KV_HEADS * head_dim]),
        ("attn_output.weight", vec![HEADS * head_dim, WIDTH]),
        ("ffn_norm.weight", vec![WIDTH]),
        ("ffn_gate.weight", vec![WIDTH, MLP]),
        ("ffn_up.weight", vec![WIDTH, MLP]),
        ("ffn_down.weight", vec![MLP, WIDTH]),
    ] {
        gguf = gguf.zeros(&format!("blk.0.{name}"), &dimensions);
    }
    let extra: &[(&str, u64)] = match family {
        "qwen2" => &[("q.bias", HEADS), ("k.bias", KV_HEADS), ("v.bias", KV_HEADS)],
        "qwen3" => &[("q_norm.weight", 1), ("k_norm.weight", 1)],
        _ => &[],
    };
    for (name, heads) in extra {
        gguf = gguf.zeros(&format!("blk.0.attn_{name}"), &[heads * head_dim]);
    }
    gguf
}

/// The control tokens of the toy vocabulary, from id 256 on.
pub const CONTROL: [&str; 9] = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|begin_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
    "<think>",
    "</think>",
];

/// GPT-2's character for each byte.
pub fn byte_characters() -> Vec<String> {
    let mut next = 256u32;
    let mut character = |byte: u32| {
        if matches!(byte, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF) {
            return byte;
        }
        next += 1;
        next - 1
    };
    (0..256).map(|byte| char::from_u32(character(byte)).unwrap().to_string()).collect()
}

/// Every byte, the control tokens, and some merged tokens.
pub fn vocabulary() -> Vec<String> {
    let mut tokens = byte_characters();
    tokens.extend(CONTROL.map(str::to_owned));
    tokens.extend(["ab", "abc"].map(str::to_owned));
    tokens
}

fn token_types() -> Vec<i32> {
    (0..vocabulary().len())
        .map(|id| if (256..256 + CONTROL.len()).contains(&id) { 3 } else { 1 })
        .collect()
}

/// A byte-level `tokenizer.json` with Qwen2's word split.
pub fn tokenizer_json() -> Value {
    let control = 256..256 + CONTROL.len();
    let vocab: Map<String, Value> = (0..)
        .zip(vocabulary())
        .filter(|(id, _)| !control.contains(id))
        .map(|(id, token)| (token, json!(id)))
        .collect();
    let added: Vec<Value> = CONTROL
        .iter()
        .zip(256..)
        .map(|(text, id)| {
            // As in Qwen3's file, thoughts are marked by tokens that are not called special.
            let special = !text.contains("think");
            json!({"id": id, "content": text, "single_word": false, "lstrip": false, "rstrip": false,
                   "normalized": false, "special": special})
        })
        .collect();
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "behavior": "Isolated", "invert": false, "pattern": {"Regex":
             "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
            {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false}]},
        "post_processor": null,
        "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": "",
                  "end_of_word_suffix": "", "fuse_unk": false, "byte_fallback": false,
                  "ignore_merges": false, "vocab": vocab, "merges": ["a b", "ab c"]}
    })
}

/// A `config.json` of one layer.
pub fn config(family: &str) -> Value {
    json!({
        "model_type": family, "hidden_size": WIDTH, "intermediate_size": MLP, "num_hidden_layers": 1,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "vocab_size": VOCABULARY,
        "max_position_embeddings": 128, "rms_norm_eps": 1e-6, "hidden_act": "silu", "rope_theta": 10000.0
    })
}

/// The tensors of a model of one layer, `[name, shape]`; the output projection is not among them.
pub fn tensors(family: &str, head_dim: u64) -> Vec<(String, Vec<u64>)> {
    let mut tensors = vec![
        ("model.embed_tokens.weight".to_owned(), vec![VOCABULARY, WIDTH]),
        ("model.norm.weight".to_owned(), vec![WIDTH]),
    ];
    let mut layer = vec![
        ("input_layernorm.weight", vec![WIDTH]),
        ("self_attn.q_proj.weight", vec![HEADS * head_dim, WIDTH]),
        ("self_attn.k_proj.weight", vec![KV_HEADS * head_dim, WIDTH]),
        ("self_attn.v_proj.weight", vec![KV_HEADS * head_dim, WIDTH]),
        ("self_attn.o_proj.weight", vec![WIDTH, HEADS * head_dim]),
        ("post_attention_layernorm.weight", vec![WIDTH]),
        ("mlp.gate_proj.weight", vec![MLP, WIDTH]),
        ("mlp.up_proj.weight", vec![MLP, WIDTH]),
        ("mlp.down_proj.weight", vec![WIDTH, MLP]),
    ];
    match family {
        "qwen2" => layer.extend([
            ("self_attn.q_proj.bias", vec![HEADS * head_dim]),
            ("self_attn.k_proj.bias", vec![KV_HEADS * head_dim]),
            ("self_attn.v_proj.bias", vec![KV_HEADS * head_dim]),
        ]),
        "qwen3" => layer.extend([
            ("self_attn.q_norm.weight", vec![head_dim]),
            ("self_attn.k_norm.weight", vec![head_dim]),
        ]),
        _ => {}
    }
    tensors
        .extend(layer.into_iter().map(|(name, shape)| (format!("model.layers.0.{name}"), shape)));
    tensors
}

/// The output projection.
pub fn head() -> (String, Vec<u64>) {
    ("lm_head.weight".to_owned(), vec![VOCABULARY, WIDTH])
}

/// A safetensors file of `header` and `data` zeros.
pub fn safetensors_file(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

/// A safetensors file of f32 zeros.
pub fn safetensors(tensors: &[(String, Vec<u64>)]) -> Vec<u8> {
    let mut header = Map::new();
    let mut at = 0;
    for (name, shape) in tensors {
        let end = at + shape.iter().product::<u64>() * 4;
        header.insert(
            name.clone(),
            json!({"dtype": "F32", "shape": shape, "data_offsets": [at, end]}),
        );
        at = end;
    }
    safetensors_file(&Value::Object(header).to_string(), at as usize)
}

pub fn write_json(folder: &Path, name: &str, value: &Value) {
    std::fs::write(folder.join(name), value.to_string()).unwrap();
}

/// A folder with `config.json` and the tensors.
pub fn folder(config: &Value, tensors: &[(String, Vec<u64>)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_json(folder.path(), "config.json", config);
    std::fs::write(folder.path().join("model.safetensors"), safetensors(tensors)).unwrap();
    folder
}

/// `value` with the members of `changes`.
pub fn with(mut value: Value, changes: Value) -> Value {
    let (Value::Object(to), Value::Object(from)) = (&mut value, changes) else {
        panic!("no objects")
    };
    to.extend(from);
    value
}
