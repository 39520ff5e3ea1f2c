//! The three families against stored logits and greedy ids, along every path through the decoder.
//! `tests/data/tiny-*/expected.json`: Transformers, float32 arithmetic on the stored weights.

mod tiny;

use metile::Device;
use metile_models::decoder::{Activations, Logits, Model, Options, RopeFrequencies};
use tiny::{Tiny, devices, largest_difference, model};

const TOLERANCE: f32 = 2e-4;

fn check(tiny: &Tiny, path: &str, rows: &[Vec<f32>]) {
    assert_eq!(rows.len(), tiny.logits.len(), "{} {path}", tiny.name);
    for (at, (got, want)) in rows.iter().zip(&tiny.logits).enumerate() {
        let difference = largest_difference(got, want);
        assert!(difference <= TOLERANCE, "{} {path}, position {at}: {difference}", tiny.name);
    }
}

#[test]
fn whole_prompts() {
    for tiny in Tiny::all() {
        for device in devices() {
            let mut model = model(&tiny, &device, 64);
            model.extend(&tiny.ids, Logits::All).unwrap();
            check(&tiny, "whole", &model.logits_of_chunk(tiny.ids.len()).unwrap());
            assert_eq!(
                model.logits().unwrap(),
                *model.logits_of_chunk(tiny.ids.len()).unwrap().last().unwrap(),
                "the last row's logits are the last row"
            );
        }
    }
}

#[test]
fn chunks() {
    for tiny in Tiny::all() {
        for device in devices() {
            for chunk in [1, 7] {
                let mut model = model(&tiny, &device, chunk);
                let mut rows = Vec::new();
                for ids in tiny.ids.chunks(chunk) {
                    model.extend(ids, Logits::All).unwrap();
                    rows.extend(model.logits_of_chunk(ids.len()).unwrap());
                }
                check(&tiny, &format!("chunks of {chunk}"), &rows);
            }
        }
    }
}

#[test]
fn step_by_step() {
    for tiny in Tiny::all() {
        for device in devices() {
            let mut model = model(&tiny, &device, 16);
            let mut rows = Vec::new();
            for &id in &tiny.ids {
                model.extend(&[id], Logits::Last).unwrap();
                rows.push(model.logits().unwrap());
            }
            check(&tiny, "steps", &rows);
        }
    }
}

/// Greedy ids after the prompt, with logits for its last row only.
#[test]
fn greedy_ids() {
    for tiny in Tiny::all() {
        for device in devices() {
            for chunk in [7, 64] {
                let mut model = model(&tiny, &device, chunk);
                let prompt = &tiny.ids[..tiny.prompt];
                let last = prompt.len().div_ceil(chunk) - 1;
                for (n, ids) in prompt.chunks(chunk).enumerate() {
                    let logits = if n == last { Logits::Last } else { Logits::None };
                    model.extend(ids, logits).unwrap();
                }
                let mut got = vec![model.choice().unwrap()];
                while got.len() < tiny.greedy.len() {
                    model.extend(&got[got.len() - 1..], Logits::Last).unwrap();
                    got.push(model.choice().unwrap());
                }
                assert_eq!(got, tiny.greedy, "{}, chunks of {chunk}", tiny.name);
            }
        }
    }
}

/// The stored logits were computed with frequencies rounded to bf16. Those in f32, which models are
/// trained with, give what the same computation in f64 gives (`exact.json`, NumPy, some positions); so do those as MLX computes them, at so
/// few positions.
#[test]
fn exact_frequencies() {
    for tiny in Tiny::all() {
        for device in devices() {
            for rope_frequencies in [RopeFrequencies::F32, RopeFrequencies::Exp2] {
                let options = Options { rope_frequencies, ..tiny::options(64) };
                let mut model = Model::load(&tiny.checkpoint, &device, &options).unwrap();
                model.extend(&tiny.ids, Logits::All).unwrap();
                let rows = model.logits_of_chunk(tiny.ids.len()).unwrap();
                for (position, want) in tiny.exact() {
                    let difference = largest_difference(&rows[position], &want);
                    let case = format!("{}, {rope_frequencies:?}", tiny.name);
                    assert!(difference <= TOLERANCE, "{case}, position {position}: {difference}");
                }
            }
        }
    }
}

/// There is nothing that quantized activations could meet.
#[test]
fn q8_activations_of_dense_weights_are_refused() {
    let tiny = Tiny::load("tiny-llama");
    let options = Options { activations: Activations::Q8, ..tiny::options(64) };
    let error = Model::load(&tiny.checkpoint, &Device::interpreter(), &options).unwrap_err();
    assert_eq!(
        error.to_string(),
        "activations can be q8 where weights are GGUF blocks, and this model has none"
    );
}
