//! Real libraries with small models, where they are installed: greedy ids, logits and K/V agree with metile's and
//! among each other. What is not installed is said on stderr.

use metile::Device as Compute;
use metile_bench::baseline::{
    Baseline, BaselineError, Device, Dtype, Generate, LoadRequest, LogitsWanted, ModelWorker,
    StartOptions, StepWanted, Variant,
};
use metile_models::checkpoint::Checkpoint;
use metile_models::decoder::{Activations, Logits, Model, Options, RopeFrequencies, WeightType};
use std::path::{Path, PathBuf};

const FAMILIES: [&str; 3] = ["tiny-llama", "tiny-qwen2", "tiny-qwen3"];
const OUTPUTS: usize = 24;
const CAPACITY: usize = 64;
/// Of logits, which reach about 3, and of K/V: orders of summation differ.
const TOLERANCE: f32 = 1e-3;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../metile-models/tests/data").join(name)
}

fn prompt(name: &str) -> Vec<u32> {
    let text = std::fs::read_to_string(folder(name).join("expected.json")).unwrap();
    let expected: serde_json::Value = serde_json::from_str(&text).unwrap();
    let ids = expected["input_ids"].as_array().unwrap();
    let count = expected["greedy_prompt_length"].as_u64().unwrap() as usize;
    ids[..count].iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

/// A model in a baseline's worker, or nothing and a line on stderr if it is not installed.
fn open(
    baseline: Baseline,
    checkpoint: &Path,
    dtype: Option<Dtype>,
    variant: Variant,
) -> Option<ModelWorker> {
    let installed = match baseline.locate(Device::Cpu) {
        Ok(installed) => installed,
        Err(error @ BaselineError::NotInstalled { .. }) => {
            eprintln!("skipped: {error}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let worker = installed.start(&StartOptions::threads(1)).unwrap();
    eprintln!("{baseline}: {:?} {:?}", worker.hello().versions, worker.hello().settings);
    let checkpoint = checkpoint.to_path_buf();
    let request = LoadRequest { checkpoint, dtype, capacity: CAPACITY, variant };
    Some(ModelWorker::load(worker, &request).unwrap())
}

/// What metile computes: the greedy ids, and the logits of the prompt's last row.
fn metile(name: &str, prompt: &[u32]) -> (Vec<u32>, Vec<f32>) {
    let checkpoint = Checkpoint::open(&folder(name)).unwrap();
    let options = Options {
        context: CAPACITY,
        chunk: 16,
        activations: Activations::F32,
        rope_frequencies: RopeFrequencies::F32,
        weights: WeightType::AsStored,
    };
    let mut model = Model::load(&checkpoint, &Compute::cpu(), &options).unwrap();
    for ids in prompt.chunks(16) {
        model.extend(ids, Logits::Last).unwrap();
    }
    let logits = model.logits().unwrap();
    let mut ids = vec![model.choice().unwrap()];
    while ids.len() < OUTPUTS {
        model.extend(&ids[ids.len() - 1..], Logits::Last).unwrap();
        ids.push(model.choice().unwrap());
    }
    (ids, logits)
}

fn far(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    let far = |(a, b): (&f32, &f32)| {
        let d = (a - b).abs();
        if d.is_nan() { f32::INFINITY } else { d }
    };
    a.iter().zip(b).map(far).fold(0.0, f32::max)
}

fn check(baseline: Baseline, variant: Variant) {
    for name in FAMILIES {
        let Some(mut model) = open(baseline, &folder(name), Some(Dtype::F32), variant) else {
            return;
        };
        let prompt = prompt(name);
        let (ids, logits) = metile(name, &prompt);
        let request = Generate { prompt: &prompt, outputs: OUTPUTS, forced: None };
        // Twice: a second generation starts from nothing, whatever the first left.
        for _ in 0..2 {
            assert_eq!(model.generate(&request).unwrap().ids, ids, "{baseline}, {name}");
        }
        // Fed its own ids, it says the same; fed others, it does not.
        let forced = Generate { forced: Some(&ids[..OUTPUTS - 1]), ..request };
        assert_eq!(model.generate(&forced).unwrap().ids, ids, "{baseline}, {name}");
        let others = [7; OUTPUTS - 1];
        let forced = Generate { forced: Some(&others), ..request };
        assert_ne!(model.generate(&forced).unwrap().ids, ids, "{baseline}, {name}");
        model.reset().unwrap();
        if !model.has_key_values() {
            assert_eq!(model.prefill(&prompt, LogitsWanted::None).unwrap().token, ids[0]);
            let error = model.step(ids[0], StepWanted { kv: true, logits: false }).unwrap_err();
            assert!(matches!(error, BaselineError::Unsupported { .. }), "{error}");
            continue;
        }
        let last = model.prefill(&prompt, LogitsWanted::Last).unwrap().logits.unwrap();
        let difference = far(&last.to_f32().unwrap(), &logits);
        assert!(difference < TOLERANCE, "{baseline}, {name}: logits differ by {difference}");
        // The cache of one call is the cache of several.
        let whole = model.kv(0..3, 0..prompt.len()).unwrap();
        model.reset().unwrap();
        let mut rows = Vec::new();
        model
            .prefill_with_stops::<BaselineError>(
                &prompt,
                &[5, 6, prompt.len()],
                LogitsWanted::All,
                |_, _, at| {
                    rows.extend(at.logits.unwrap().to_f32().unwrap());
                    Ok(())
                },
            )
            .unwrap();
        let pieces = model.kv(0..3, 0..prompt.len()).unwrap();
        for (a, b) in [(&whole.keys, &pieces.keys), (&whole.values, &pieces.values)] {
            assert!(
                far(&a.to_f32().unwrap(), &b.to_f32().unwrap()) < TOLERANCE,
                "{baseline}, {name}"
            );
        }
        let difference = far(&rows[rows.len() - logits.len()..], &logits);
        assert!(difference < TOLERANCE, "{baseline}, {name}: logits differ by {difference}");
        // A step's slot is what the cache then holds.
        let step = model.step(ids[0], StepWanted { logits: true, kv: true }).unwrap();
        assert_eq!(step.token, ids[1]);
        let slot = model.kv(0..3, prompt.len()..prompt.len() + 1).unwrap();
        assert_eq!(step.kv.unwrap(), slot);
    }
}

#[test]
fn mlx() {
    check(Baseline::Mlx, Variant::Eager);
}

#[test]
fn mlx_streaming_gives_the_same_ids() {
    let name = "tiny-qwen3";
    let Some(mut model) = open(Baseline::Mlx, &folder(name), Some(Dtype::F32), Variant::Eager)
    else {
        return;
    };
    let prompt = prompt(name);
    let (ids, _) = metile(name, &prompt);
    assert_eq!(model.stream_generate(&prompt, OUTPUTS).unwrap().ids, ids);
}

#[test]
fn pytorch_eager() {
    check(Baseline::PyTorch, Variant::Eager);
}

/// One family: compiling takes a minute.
#[test]
fn pytorch_compiled() {
    let name = "tiny-qwen3";
    let Some(mut model) =
        open(Baseline::PyTorch, &folder(name), Some(Dtype::F32), Variant::Compiled)
    else {
        return;
    };
    let prompt = prompt(name);
    let (ids, _) = metile(name, &prompt);
    let request = Generate { prompt: &prompt, outputs: OUTPUTS, forced: None };
    for _ in 0..2 {
        assert_eq!(model.generate(&request).unwrap().ids, ids);
    }
}

#[test]
fn candle() {
    check(Baseline::Candle, Variant::Eager);
}

/// Keys are rotated and values cached alike: two libraries hold the same state.
#[test]
fn mlx_and_pytorch_hold_the_same_keys_and_values() {
    for name in FAMILIES {
        let open = |baseline| open(baseline, &folder(name), Some(Dtype::F32), Variant::Eager);
        let (Some(mut a), Some(mut b)) = (open(Baseline::Mlx), open(Baseline::PyTorch)) else {
            return;
        };
        let prompt = prompt(name);
        for model in [&mut a, &mut b] {
            model.prefill(&prompt, LogitsWanted::None).unwrap();
        }
        let (a, b) = (a.kv(0..3, 0..prompt.len()).unwrap(), b.kv(0..3, 0..prompt.len()).unwrap());
        for (a, b) in [(&a.keys, &b.keys), (&a.values, &b.values)] {
            let difference = far(&a.to_f32().unwrap(), &b.to_f32().unwrap());
            assert!(difference < TOLERANCE, "{name}: {difference}");
        }
    }
}

/// Prompts on which 8-bit activations and f32 arithmetic agree, with SmolLM2's own file.
#[test]
fn smollm2_in_llama_cpp_and_candle() {
    let text = std::fs::read_to_string(folder("smollm2-agreed.json")).unwrap();
    let agreed: serde_json::Value = serde_json::from_str(&text).unwrap();
    let cache = metile_bench::baseline::cache_folder().unwrap();
    let file = std::env::var_os("METILE_SMOLLM2").map(PathBuf::from);
    let file = file.unwrap_or_else(|| cache.join("smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"));
    if !file.is_file() {
        eprintln!("skipped: {} is not here; `make demo` fetches it", file.display());
        return;
    }
    for baseline in [Baseline::LlamaCpp, Baseline::Candle] {
        let Some(mut model) = open(baseline, &file, None, Variant::Eager) else { continue };
        assert_eq!(model.loaded().vocabulary, 49152);
        let geometry = (model.loaded().layers, model.loaded().kv_heads, model.loaded().head_dim);
        assert_eq!(geometry, (30, 3, 64));
        for case in agreed_cases(&agreed) {
            let (prompt, ids) = case;
            let request = Generate { prompt: &prompt, outputs: ids.len(), forced: None };
            assert_eq!(model.generate(&request).unwrap().ids, ids, "{baseline}");
        }
    }
}

fn agreed_cases(agreed: &serde_json::Value) -> Vec<(Vec<u32>, Vec<u32>)> {
    let ids = |value: &serde_json::Value| -> Vec<u32> {
        value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
    };
    let cases = agreed["cases"].as_array().or_else(|| agreed.as_array()).unwrap();
    assert!(!cases.is_empty());
    cases.iter().map(|case| (ids(&case["prompt_ids"]), ids(&case["greedy_ids"]))).collect()
}
