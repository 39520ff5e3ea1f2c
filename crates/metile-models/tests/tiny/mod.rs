//! The tiny checkpoints of `tests/data`, and the devices that tests run on.

#![allow(dead_code, reason = "each test file uses a part")]

use metile::Device;
use metile_models::checkpoint::Checkpoint;
use metile_models::decoder::{Activations, Model, Options, RopeFrequencies, WeightType};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A checkpoint with what Transformers computed of it.
pub struct Tiny {
    pub name: String,
    pub checkpoint: Checkpoint,
    /// All 43 ids.
    pub ids: Vec<u32>,
    /// A row per id.
    pub logits: Vec<Vec<f32>>,
    /// How many of the ids are the prompt of `greedy`.
    pub prompt: usize,
    pub greedy: Vec<u32>,
}

#[derive(serde::Deserialize)]
struct Expected {
    input_ids: Vec<u32>,
    logits: Vec<Vec<f32>>,
    greedy_prompt_length: usize,
    greedy_ids: Vec<u32>,
}

pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

impl Tiny {
    pub fn load(name: &str) -> Tiny {
        let folder = folder(name);
        let text = std::fs::read_to_string(folder.join("expected.json")).unwrap();
        let expected: Expected = serde_json::from_str(&text).unwrap();
        Tiny {
            name: name.to_owned(),
            checkpoint: Checkpoint::open(&folder).unwrap(),
            ids: expected.input_ids,
            logits: expected.logits,
            prompt: expected.greedy_prompt_length,
            greedy: expected.greedy_ids,
        }
    }

    /// Logits of some positions, computed in f64 with exact rotary frequencies.
    pub fn exact(&self) -> BTreeMap<usize, Vec<f32>> {
        let text = std::fs::read_to_string(folder(&self.name).join("exact.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    pub fn all() -> [Tiny; 3] {
        ["tiny-llama", "tiny-qwen2", "tiny-qwen3"].map(Tiny::load)
    }
}

/// Every device that models run on.
pub fn devices() -> Vec<Device> {
    vec![Device::cpu(), Device::interpreter()]
}

pub fn options(chunk: usize) -> Options {
    Options {
        context: 64,
        chunk,
        activations: Activations::F32,
        // What the stored logits were computed with; `decoder_logits` shows it.
        rope_frequencies: RopeFrequencies::BF16,
        weights: WeightType::AsStored,
    }
}

pub fn model(tiny: &Tiny, device: &Device, chunk: usize) -> Model {
    Model::load(&tiny.checkpoint, device, &options(chunk)).unwrap()
}

pub fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    // A NaN on either side counts as infinitely far.
    let far = |(a, b): (&f32, &f32)| {
        let d = (a - b).abs();
        if d.is_nan() { f32::INFINITY } else { d }
    };
    a.iter().zip(b).map(far).fold(0.0, f32::max)
}
