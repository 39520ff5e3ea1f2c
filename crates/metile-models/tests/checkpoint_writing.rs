//! Checkpoints written here, read back by our own loader and by Transformers.

mod tiny;
mod toy;

use metile::Device;
use metile_models::checkpoint::convert::{ConvertDtype, convert};
use metile_models::checkpoint::synth::{AffineLayout, Geometry, Request, synthesize};
use metile_models::checkpoint::write::NewFolder;
use metile_models::checkpoint::{Checkpoint, LayerRole, Role};
use metile_models::config::{ModelConfig, RopeStyle};
use metile_models::decoder::{Activations, Logits, Model, Options, RopeFrequencies, WeightType};
use metile_models::tokenizer::Tokenizer;
use std::path::Path;
use tempfile::TempDir;
use tiny::{Tiny, largest_difference};

fn quiet(_: usize, _: usize) {}

fn values(checkpoint: &Checkpoint, role: Role) -> Vec<f32> {
    let info = checkpoint.tensor(role).unwrap();
    let values = checkpoint.values(info).unwrap();
    let rows = info.shape.iter().product::<usize>() / values.columns();
    let mut out = vec![0.0; rows * values.columns()];
    for (n, row) in out.chunks_mut(values.columns()).enumerate() {
        values.row(n, row);
    }
    out
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

fn logits(checkpoint: &Checkpoint, ids: &[u32]) -> Vec<f32> {
    let options = Options {
        context: 64,
        chunk: 16,
        activations: Activations::F32,
        rope_frequencies: RopeFrequencies::F32,
        weights: WeightType::AsStored,
    };
    let mut model = Model::load(checkpoint, &Device::cpu(), &options).unwrap();
    model.extend(ids, Logits::Last).unwrap();
    model.logits().unwrap()
}

#[test]
fn tensors_of_bf16_are_equal_bit_for_bit_in_both_types() {
    for tiny in Tiny::all() {
        let folder = TempDir::new().unwrap();
        for dtype in [ConvertDtype::Float32, ConvertDtype::BFloat16] {
            let out = folder.path().join(dtype.name());
            let made = convert(&tiny.checkpoint, dtype, &out, &mut quiet).unwrap();
            assert_eq!(made.rounded, 0);
            assert_eq!(made.tokenizer_sha256, None);
            let back = Checkpoint::open(&out).unwrap();
            assert_eq!(back.config(), tiny.checkpoint.config());
            for info in tiny.checkpoint.tensors() {
                let other = back.tensors().find(|other| other.name == info.name).unwrap();
                let all = |checkpoint: &Checkpoint, info| {
                    let read = checkpoint.values(info).unwrap();
                    let mut row = vec![0.0; read.columns()];
                    let rows = info.shape.iter().product::<usize>() / read.columns();
                    let mut bits = Vec::new();
                    for n in 0..rows {
                        read.row(n, &mut row);
                        bits.extend(row.iter().map(|v| v.to_bits()));
                    }
                    bits
                };
                assert_eq!(all(&tiny.checkpoint, info), all(&back, other), "{}", info.name);
            }
            // Weights in bfloat16 are summed in another order.
            let pair = [&back, &tiny.checkpoint].map(|checkpoint| logits(checkpoint, &[1, 2, 3]));
            assert!(largest_difference(&pair[0], &pair[1]) < 1e-4);
        }
    }
}

/// A GGUF model of f32 weights that are no bf16 numbers.
fn gguf(family: &str, folder: &Path) -> Checkpoint {
    let model = toy::gguf_model(family, 16);
    let path = model.write(folder);
    let zeros = Checkpoint::open(&path).unwrap();
    let mut model = model;
    for info in zeros.tensors() {
        let count = info.shape.iter().product::<usize>();
        let noise = |n: usize| (((n * 7919 + info.name.len() * 31) % 1009) as f32 - 504.3) / 3000.0;
        let norm = info.name.contains("norm") as u8 as f32;
        let data = (0..count).flat_map(|n| (norm + noise(n)).to_le_bytes()).collect();
        let dimensions: Vec<u64> = info.shape.iter().rev().map(|&n| n as u64).collect();
        let name = info.name.clone();
        model = model.without(&name).tensor(&name, &dimensions, toy::F32, data);
    }
    Checkpoint::open(&model.write(folder)).unwrap()
}

#[test]
fn a_gguf_models_rows_are_reordered_so_that_it_computes_the_same() {
    for family in ["llama", "qwen2", "qwen3"] {
        let folder = TempDir::new().unwrap();
        let source = gguf(family, folder.path());
        let out = folder.path().join("out");
        let made = convert(&source, ConvertDtype::Float32, &out, &mut quiet).unwrap();
        assert_eq!(made.rounded, 0);
        let back = Checkpoint::open(&out).unwrap();
        assert_eq!(back.config().rope.style, RopeStyle::Split);
        let ids = [5, 99, 200, 7, 31];
        let difference = largest_difference(&logits(&source, &ids), &logits(&back, &ids));
        assert!(difference < 1e-5, "{family}: {difference}");
        let embedding = |c: &Checkpoint| bits(&values(c, Role::Embedding));
        assert_eq!(embedding(&source), embedding(&back));
        // The tokenizer is the same one.
        let (a, b) = (Tokenizer::from_checkpoint(&source), Tokenizer::from_checkpoint(&back));
        let (a, b) = (a.unwrap(), b.unwrap());
        for text in ["abc ab\n<|im_start|> 12", "é", ""] {
            assert_eq!(a.encode(text).unwrap(), b.encode(text).unwrap(), "{text}");
            let control = |t: &Tokenizer| t.encode_with_control(text).unwrap();
            assert_eq!(control(&a), control(&b), "{text}");
        }
        let rounded =
            convert(&source, ConvertDtype::BFloat16, &folder.path().join("b"), &mut quiet).unwrap();
        assert!(rounded.rounded > rounded.values / 2, "{rounded:?}");
    }
}

#[test]
fn nothing_is_overwritten_and_nothing_unfinished_is_left() {
    let tiny = Tiny::load("tiny-llama");
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    std::fs::create_dir(&out).unwrap();
    let error = convert(&tiny.checkpoint, ConvertDtype::Float32, &out, &mut quiet).unwrap_err();
    assert!(error.to_string().contains("not overwritten"), "{error}");
    let source = gguf("qwen3", folder.path());
    let tokenizer = Tokenizer::from_checkpoint(&source).unwrap();
    let (sizes, of) = (small(), source.config());
    let request = request(&sizes, &tokenizer, of);
    let error = synthesize(&request, &out, &mut quiet).unwrap_err();
    assert!(error.to_string().contains("not overwritten"), "{error}");
    // What is dropped before it is finished is gone.
    let place = folder.path().join("half");
    let half = NewFolder::create(&place).unwrap();
    half.bytes("config.json", b"{}").unwrap();
    drop(half);
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

/// SmolLM2, smaller.
fn small() -> ModelConfig {
    let config = Geometry::SmolLm2_135M.with_layers(2).unwrap();
    ModelConfig { vocabulary: 512, width: 192, heads: 3, kv_heads: 1, mlp_width: 256, ..config }
}

fn request<'a>(
    sizes: &'a ModelConfig,
    tokenizer: &'a Tokenizer,
    of: &'a ModelConfig,
) -> Request<'a> {
    Request {
        geometry: "small",
        config: sizes,
        quantize: None,
        seed: 11,
        tokenizer: (tokenizer, of),
    }
}

#[test]
fn a_synthetic_model_is_its_seeds_and_computes_like_a_trained_one() {
    let folder = TempDir::new().unwrap();
    let source = gguf("llama", folder.path());
    let tokenizer = Tokenizer::from_checkpoint(&source).unwrap();
    let sizes = small();
    let request = request(&sizes, &tokenizer, source.config());
    let make = |request: &Request<'_>, name: &str| {
        let out = folder.path().join(name);
        (synthesize(request, &out, &mut quiet).unwrap(), Checkpoint::open(&out).unwrap())
    };
    let (first, plain) = make(&request, "first");
    let (again, _) = make(&request, "again");
    assert_eq!(first, again);
    let (other, _) = make(&Request { seed: 12, ..request }, "other");
    assert_ne!(first.weights_sha256, other.weights_sha256);

    let config = plain.config();
    assert_eq!((config.layers, config.width, config.vocabulary), (2, 192, 512));
    let text = std::fs::read_to_string(folder.path().join("first/metile.json")).unwrap();
    assert!(text.contains(&first.weights_sha256) && text.contains(&first.tokenizer_sha256));
    assert!(text.contains("\"synthetic\""), "{text}");

    // Converted, it is still known to be synthetic.
    let out = folder.path().join("converted");
    convert(&plain, ConvertDtype::Float32, &out, &mut quiet).unwrap();
    let text = std::fs::read_to_string(out.join("metile.json")).unwrap();
    assert!(text.contains("\"synthetic\""), "{text}");

    let down = Role::Layer(1, LayerRole::Down);
    assert!(values(&plain, down).iter().all(|v| v.to_bits() & 0xFFFF == 0));
    let ids: Vec<u32> = (0..40).map(|n| n * 1009 % 512).collect();
    let row = logits(&plain, &ids[..16]);
    let mean = row.iter().sum::<f32>() / row.len() as f32;
    let deviation = row.iter().map(|v| (v - mean).powi(2)).sum::<f32>() / row.len() as f32;
    assert!((1.5..4.0).contains(&deviation.sqrt()), "{deviation}");

    for (name, layout) in AffineLayout::NAMED {
        let (_, packed) = make(&Request { quantize: Some(layout), ..request }, name);
        let (exact, near) = (values(&plain, down), values(&packed, down));
        // Half a step, and what the rounded scale and bias add: a group's range is within 7 deviations.
        let steps = ((1 << layout.bits) - 1) as f32;
        let spread = exact.iter().copied().fold(0.0, f32::max) * 2.0;
        let bound = spread * (0.5 / steps + 1.0 / 128.0);
        assert!(largest_difference(&exact, &near) < bound, "{name}");
        let norm = |c: &Checkpoint| bits(&values(c, Role::OutputNorm));
        assert_eq!(norm(&plain), norm(&packed));
        assert!(logits(&packed, &ids[..4]).iter().all(|v| v.is_finite()));
    }
}

#[test]
fn a_synthetic_model_has_no_more_layers_than_its_geometry_and_room_for_its_tokens() {
    let folder = TempDir::new().unwrap();
    let source = gguf("llama", folder.path());
    let tokenizer = Tokenizer::from_checkpoint(&source).unwrap();
    for layers in [0, 31] {
        let error = Geometry::SmolLm2_135M.with_layers(layers).unwrap_err();
        assert!(error.to_string().contains("1 to 30"), "{error}");
    }
    let sizes = small();
    let mut large = source.config().clone();
    large.vocabulary = 200_000;
    let error =
        synthesize(&request(&sizes, &tokenizer, &large), &folder.path().join("x"), &mut quiet);
    assert!(error.unwrap_err().to_string().contains("512"));
    for geometry in Geometry::ALL {
        assert_eq!(Geometry::from_name(geometry.name()), Some(geometry));
    }
}

/// Transformers loads a folder as it stands, tokenizer included, and computes what we do.
#[test]
fn transformers_reads_what_is_written() {
    let Some(python) = std::env::var_os("METILE_PYTHON") else {
        eprintln!("not run: METILE_PYTHON names no Python with torch and transformers");
        return;
    };
    let folder = TempDir::new().unwrap();
    let made = ["llama", "qwen2", "qwen3"].map(|family| {
        let place = folder.path().join(family);
        std::fs::create_dir(&place).unwrap();
        let source = gguf(family, &place);
        let out = place.join("out");
        convert(&source, ConvertDtype::Float32, &out, &mut quiet).unwrap();
        (source, out)
    });
    let folders = made.iter().map(|(_, out)| out);
    let output =
        std::process::Command::new(&python).args(["-c", PROGRAM]).args(folders).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let theirs: Vec<(Vec<f32>, Vec<u32>)> = serde_json::from_slice(&output.stdout).unwrap();
    for ((source, out), (theirs, ids)) in made.iter().zip(theirs) {
        let ours = logits(&Checkpoint::open(out).unwrap(), &[5, 99, 200, 7, 31]);
        assert!(largest_difference(&ours, &theirs) < 1e-4, "{}", out.display());
        let tokenizer = Tokenizer::from_checkpoint(source).unwrap();
        assert_eq!(ids, tokenizer.encode_with_control("abc <|im_end|> ab").unwrap());
    }
}

const PROGRAM: &str = "
import json, sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
results = []
for folder in sys.argv[1:]:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        logits = model(torch.tensor([[5, 99, 200, 7, 31]])).logits[0, -1]
    ids = AutoTokenizer.from_pretrained(folder)('abc <|im_end|> ab').input_ids
    results.append([logits.tolist(), ids])
print(json.dumps(results))
";
