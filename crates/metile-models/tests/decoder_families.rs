//! Models made for one question each: tied and untied outputs (case C23), heads of another width than
//! width / heads (case C25).

mod tiny;
mod toy;

use metile::Device;
use metile_models::checkpoint::Checkpoint;
use metile_models::decoder::{Logits, Model, Options};
use serde_json::{Map, Value, json};
use std::path::Path;
use tiny::{Tiny, largest_difference};

/// A safetensors file: its header and its data.
struct File {
    header: Map<String, Value>,
    data: Vec<u8>,
}

impl File {
    fn read(path: &Path) -> File {
        let bytes = std::fs::read(path).unwrap();
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let header = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
        File { header, data: bytes[8 + length..].to_vec() }
    }

    fn write(&self, path: &Path) {
        let header = serde_json::to_vec(&self.header).unwrap();
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(&header);
        bytes.extend(&self.data);
        std::fs::write(path, bytes).unwrap();
    }

    /// Leaves out the bytes that no tensor has.
    fn compact(&mut self) {
        let mut data = Vec::new();
        for entry in self.header.values_mut().filter(|entry| entry.get("data_offsets").is_some()) {
            let at = |n: usize| entry["data_offsets"][n].as_u64().unwrap() as usize;
            let start = data.len();
            data.extend_from_slice(&self.data[at(0)..at(1)]);
            entry["data_offsets"] = json!([start, data.len()]);
        }
        self.data = data;
    }

    /// A tensor like `other`, its bytes changed by `change`.
    fn add_like(&mut self, name: &str, other: &str, change: impl Fn(u8) -> u8) {
        let mut entry = self.header[other].clone();
        let at = |n: usize| entry["data_offsets"][n].as_u64().unwrap() as usize;
        let bytes: Vec<u8> = self.data[at(0)..at(1)].iter().map(|&b| change(b)).collect();
        let start = self.data.len();
        self.data.extend(bytes);
        entry["data_offsets"] = json!([start, self.data.len()]);
        self.header.insert(name.to_owned(), entry);
    }
}

/// tiny-qwen2, which is tied, with `tied` in its configuration and perhaps a head of its own.
fn qwen2(tied: bool, head: Option<fn(u8) -> u8>) -> Result<(Tiny, Vec<f32>), String> {
    let folder = tempfile::tempdir().unwrap();
    let from = tiny::folder("tiny-qwen2");
    let text = std::fs::read_to_string(from.join("config.json")).unwrap();
    let config =
        toy::with(serde_json::from_str(&text).unwrap(), json!({"tie_word_embeddings": tied}));
    toy::write_json(folder.path(), "config.json", &config);
    let mut file = File::read(&from.join("model.safetensors"));
    if let Some(change) = head {
        file.add_like("lm_head.weight", "model.embed_tokens.weight", change);
    }
    file.write(&folder.path().join("model.safetensors"));
    let mut tiny = Tiny::load("tiny-qwen2");
    tiny.checkpoint = Checkpoint::open(folder.path()).map_err(|e| e.to_string())?;
    let mut model = Model::load(&tiny.checkpoint, &Device::interpreter(), &tiny::options(16))
        .map_err(|e| e.to_string())?;
    model.extend(&tiny.ids[..5], Logits::Last).unwrap();
    let logits = model.logits().unwrap();
    Ok((tiny, logits))
}

#[test]
fn tied_outputs_are_the_embedding_whatever_head_is_there() {
    let flip: fn(u8) -> u8 = |b| b ^ 1;
    for head in [None, Some(flip)] {
        let (tiny, logits) = qwen2(true, head).unwrap();
        assert!(largest_difference(&logits, &tiny.logits[4]) <= 2e-4);
        let noted = tiny.checkpoint.notes().iter().any(|note| note.contains("lm_head.weight"));
        assert_eq!(noted, head.is_some(), "{:?}", tiny.checkpoint.notes());
    }
}

#[test]
fn untied_outputs_are_the_head_and_it_must_be_there() {
    let (tiny, logits) = qwen2(false, Some(|b| b)).unwrap();
    assert!(largest_difference(&logits, &tiny.logits[4]) <= 2e-4);
    let (tiny, logits) = qwen2(false, Some(|b| b ^ 1)).unwrap();
    assert!(largest_difference(&logits, &tiny.logits[4]) > 2e-4, "the head is read");
    let error = qwen2(false, None).map(|_| ()).unwrap_err();
    assert!(error.contains("lm_head.weight"), "{error}");
}

/// The up projections widened to f32, which is exact, beside gates that stay bf16: no one kernel reads
/// both, and the logits are the same.
#[test]
fn gate_and_up_may_have_different_formats() {
    let folder = tempfile::tempdir().unwrap();
    let from = tiny::folder("tiny-llama");
    std::fs::copy(from.join("config.json"), folder.path().join("config.json")).unwrap();
    let mut file = File::read(&from.join("model.safetensors"));
    for layer in 0..3 {
        let name = format!("model.layers.{layer}.mlp.up_proj.weight");
        let entry = &mut file.header[&name];
        let at = |n: usize| entry["data_offsets"][n].as_u64().unwrap() as usize;
        let wide: Vec<u8> =
            file.data[at(0)..at(1)].chunks(2).flat_map(|b| [0, 0, b[0], b[1]]).collect();
        let start = file.data.len();
        file.data.extend(wide);
        entry["dtype"] = json!("F32");
        entry["data_offsets"] = json!([start, file.data.len()]);
    }
    file.compact();
    file.write(&folder.path().join("model.safetensors"));
    let tiny = Tiny::load("tiny-llama");
    let checkpoint = Checkpoint::open(folder.path()).unwrap();
    for device in tiny::devices() {
        let mut model = Model::load(&checkpoint, &device, &tiny::options(64)).unwrap();
        model.extend(&tiny.ids[..9], Logits::Last).unwrap();
        model.extend(&tiny.ids[9..10], Logits::Last).unwrap();
        assert!(largest_difference(&model.logits().unwrap(), &tiny.logits[9]) <= 2e-4);
    }
}

#[test]
fn heads_may_be_wider_than_width_by_heads() {
    for family in ["llama", "qwen2", "qwen3"] {
        let changes = json!({"head_dim": 32, "tie_word_embeddings": true});
        let config = toy::with(toy::config(family), changes);
        let folder = toy::folder(&config, &toy::tensors(family, 32));
        let checkpoint = Checkpoint::open(folder.path()).unwrap();
        let options = Options { context: 32, ..tiny::options(8) };
        let mut model = Model::load(&checkpoint, &Device::interpreter(), &options).unwrap();
        model.extend(&[1, 2, 3], Logits::Last).unwrap();
        // All weights are 0, so nothing is likelier than anything else.
        assert!(model.logits().unwrap().iter().all(|&v| v == 0.0), "{family}");
        assert_eq!(model.choice().unwrap(), 0);
    }
}
