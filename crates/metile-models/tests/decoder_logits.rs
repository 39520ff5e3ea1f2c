//! The three families against stored logits and greedy ids, along every path through the decoder.
//! `tests/data/tiny-*/expected.json`: Transformers, float32 arithmetic on the stored weights.

mod tiny;

use metile::Device;
use metile_models::decoder::{Activations, Logits, Model, Options, RopeFrequencies, WeightType};
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

/// 16-bit activations: logits are off by what rounding rows and cache to bf16 costs, whole and in chunks, and the cache shows rounded
/// values. One of the chunks is too short for rows to be rounded.
#[test]
fn sixteen_bit_activations() {
    let tiny = Tiny::load("tiny-qwen3");
    let ids: Vec<u32> = tiny.ids.iter().cycle().copied().take(40).collect();
    for device in devices() {
        let load = |chunk, activations| {
            let options = Options { activations, ..tiny::options(chunk) };
            Model::load(&tiny.checkpoint, &device, &options).unwrap()
        };
        let mut exact = load(40, Activations::F32);
        exact.prefill(&ids).unwrap();
        let want = exact.logits().unwrap();
        let scale = want.iter().fold(0f32, |most, v| most.max(v.abs()));
        for chunk in [40, 24, 5] {
            let mut model = load(chunk, Activations::SixteenBit);
            model.prefill(&ids).unwrap();
            let difference = largest_difference(&model.logits().unwrap(), &want);
            assert!(difference > 0.0, "nothing was rounded");
            assert!(difference <= 0.05 * scale, "chunks of {chunk}: {difference} of {scale}");
            let state = model.key_values(1, 3..30).unwrap();
            let rounded = |v: &f32| v.to_bits() & 0xFFFF == 0;
            assert!(state.keys.iter().chain(&state.values).all(rounded));
            // Half of the bytes of a cache in f32.
            assert_eq!(2 * model.storage_bytes().cache, exact.storage_bytes().cache);
            model.poison_free_slots().unwrap();
            model.extend(&[1], Logits::Last).unwrap();
            assert!(model.logits().unwrap().iter().all(|v| v.is_finite()));
        }
        // On a device without matrix units nothing is rounded unasked.
        assert_eq!(load(8, Activations::Auto).options().activations, Activations::F32);
    }
}

/// Rows meet weights of their own type.
#[test]
fn sixteen_bit_activations_of_other_weights_are_refused() {
    let tiny = Tiny::load("tiny-llama");
    let options = Options {
        activations: Activations::SixteenBit,
        weights: WeightType::F32,
        ..tiny::options(64)
    };
    let error = Model::load(&tiny.checkpoint, &Device::cpu(), &options).unwrap_err();
    assert!(error.to_string().contains("this model's are f32"), "{error}");
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
