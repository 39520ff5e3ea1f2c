//! SmolLM2-135M-Instruct in Q4_1 against ids that other engines gave. The file is large, so it is not
//! in the repository: `METILE_SMOLLM2` names it, or `make demo` has fetched it; without it these tests
//! say that they are skipped.

mod tiny;

use metile::Device;
use metile_models::checkpoint::Checkpoint;
use metile_models::decoder::{Activations, Logits, Model, Options, RopeFrequencies, WeightType};
use serde_json::Value;
use std::path::PathBuf;

/// Of the third prompt of `smollm2-greedy.json`, whose two best logits are 0.0045 apart at one step, equality
/// up to there is enough.
const NARROW: f64 = 0.01;

fn file() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cached = || {
        let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
        Some(cache.join("metile/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"))
    };
    let path = folder("METILE_SMOLLM2").or_else(cached)?;
    path.is_file().then_some(path)
}

#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn open() -> Option<Checkpoint> {
    let Some(path) = file() else {
        eprintln!("skipped: METILE_SMOLLM2 names no file, and `make demo` has not fetched it");
        return None;
    };
    Some(Checkpoint::open(&path).unwrap())
}

fn load(checkpoint: &Checkpoint, chunk: usize, activations: Activations) -> Model {
    let options = Options {
        context: 512,
        chunk,
        activations,
        rope_frequencies: RopeFrequencies::F32,
        weights: WeightType::AsStored,
    };
    Model::load(checkpoint, &Device::cpu(), &options).unwrap()
}

fn cases(name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(tiny::folder(name)).unwrap();
    let mut all: Value = serde_json::from_str(&text).unwrap();
    serde_json::from_value(all["cases"].take()).unwrap()
}

fn ids(value: &Value) -> Vec<u32> {
    serde_json::from_value(value.clone()).unwrap()
}

/// Greedy ids after `prompt`, which is read in the model's chunks, or row by row.
fn greedy(model: &mut Model, prompt: &[u32], count: usize) -> Vec<u32> {
    model.keep(0);
    let chunk = model.options().chunk;
    let last = prompt.len().div_ceil(chunk) - 1;
    for (n, part) in prompt.chunks(chunk).enumerate() {
        model.extend(part, if n == last { Logits::Last } else { Logits::None }).unwrap();
    }
    let mut made = vec![model.choice().unwrap()];
    while made.len() < count {
        model.extend(&made[made.len() - 1..], Logits::Last).unwrap();
        made.push(model.choice().unwrap());
    }
    made
}

#[test]
fn every_id_that_three_engines_agree_on_in_every_path() {
    let Some(checkpoint) = open() else { return };
    for chunk in [256, 7, 1] {
        let mut model = load(&checkpoint, chunk, Activations::F32);
        for case in cases("smollm2-agreed.json") {
            let want = ids(&case["greedy_ids"]);
            let got = greedy(&mut model, &ids(&case["prompt_ids"]), want.len());
            assert_eq!(got, want, "{} in chunks of {chunk}", case["text"]);
        }
    }
}

#[test]
fn q8_activations_give_the_same_clear_choices() {
    let Some(checkpoint) = open() else { return };
    let mut model = load(&checkpoint, 256, Activations::Q8);
    for case in cases("smollm2-agreed.json") {
        let want = ids(&case["greedy_ids"]);
        let got = greedy(&mut model, &ids(&case["prompt_ids"]), want.len());
        assert_eq!(got, want, "{}", case["text"]);
    }
}

#[test]
fn greedy_ids_of_f32_arithmetic() {
    let Some(checkpoint) = open() else { return };
    let mut model = load(&checkpoint, 256, Activations::F32);
    for case in cases("smollm2-greedy.json") {
        let want = ids(&case["greedy_ids"]);
        let gap = |step: &Value| {
            let logits: Vec<f64> = serde_json::from_value(step["top_logits"].clone()).unwrap();
            logits[0] - logits[1]
        };
        let steps = case["steps"].as_array().unwrap();
        let sure = steps.iter().position(|s| gap(s) < NARROW).unwrap_or(want.len());
        let got = greedy(&mut model, &ids(&case["prompt_ids"]), want.len());
        assert_eq!(got[..sure], want[..sure], "{}", case["text"]);
    }
}
