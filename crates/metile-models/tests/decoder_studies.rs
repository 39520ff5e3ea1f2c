//! What studies do with a decoder beside generating.

mod tiny;

use metile::Device;
use metile_models::decoder::{Error, Logits, Model, Options, Packing, WeightType};
use tiny::{Tiny, devices, largest_difference, model, options};

const OUTPUTS: usize = 6;

fn greedy(model: &mut Model, prompt: &[u32]) -> Vec<u32> {
    model.reset();
    model.prefill(prompt).unwrap();
    let mut ids = vec![model.choice().unwrap()];
    while ids.len() < OUTPUTS {
        model.extend(&ids[ids.len() - 1..], Logits::Last).unwrap();
        ids.push(model.choice().unwrap());
    }
    ids
}

/// Keys and values of every layer, for all tokens read.
fn state(model: &Model) -> Vec<f32> {
    let layers = 0..model.config().layers;
    let tokens = model.cached().len();
    let read = |layer| {
        let both = model.key_values(layer, 0..tokens).unwrap();
        assert_eq!(both.keys.len(), model.config().kv_heads * tokens * model.config().head_dim);
        both.keys.into_iter().chain(both.values)
    };
    layers.flat_map(read).collect()
}

#[test]
fn the_state_of_a_prompt_is_one_whatever_the_chunks() {
    for tiny in Tiny::all() {
        for device in devices() {
            // One model and one chunk are enough for the interpreter, which takes its time.
            let slow = device.name() == Device::interpreter().name();
            if slow && tiny.name != "tiny-llama" {
                continue;
            }
            let mut model = model(&tiny, &device, 43);
            model.prefill(&tiny.ids).unwrap();
            let (whole, logits) = (state(&model), model.logits().unwrap());
            for &chunk in if slow { &[16][..] } else { &[16, 32, 1] } {
                model.set_chunk(chunk).unwrap();
                assert_eq!(model.options().chunk, chunk);
                // The tokens are still there.
                assert_eq!(state(&model), whole);
                model.poison().unwrap();
                // Chunk by chunk, each a prompt of its own to its end: the boundary that a gate looks at.
                for ids in tiny.ids.chunks(chunk) {
                    model.extend(ids, Logits::Last).unwrap();
                }
                assert!(largest_difference(&state(&model), &whole) < 1e-4);
                assert!(largest_difference(&model.logits().unwrap(), &logits) < 1e-4);
                model.poison().unwrap();
                model.prefill(&tiny.ids).unwrap();
                assert!(largest_difference(&state(&model), &whole) < 1e-4);
                assert!(largest_difference(&model.logits().unwrap(), &logits) < 1e-4);
            }
        }
    }
}

#[test]
fn what_is_not_there_is_refused() {
    let tiny = Tiny::load("tiny-llama");
    let mut model = model(&tiny, &Device::cpu(), 16);
    model.prefill(&tiny.ids[..5]).unwrap();
    assert!(model.key_values(0, 0..5).is_ok());
    for (layer, positions) in [(0, 0..6), (0, 5..9), (99, 0..1)] {
        let error = model.key_values(layer, positions).unwrap_err();
        assert!(matches!(error, Error::Option(_)), "{error}");
    }
    assert!(model.prefill(&[]).is_err());
    assert!(model.set_chunk(0).is_err());
    // What failed changed nothing.
    assert_eq!(model.options().chunk, 16);
    assert_eq!(model.cached(), &tiny.ids[..5]);
}

#[test]
fn after_poison_nothing_is_left_that_looks_like_a_result() {
    let tiny = Tiny::load("tiny-qwen3");
    for device in devices() {
        let mut model = model(&tiny, &device, 16);
        let prompt = &tiny.ids[..20];
        let ids = greedy(&mut model, prompt);
        let before = state(&model);
        model.poison().unwrap();
        assert!(model.cached().is_empty());
        assert!(model.logits().unwrap().iter().all(|v| v.is_nan()));
        assert!(matches!(model.choice(), Err(Error::NotANumber { .. })));
        assert_eq!(greedy(&mut model, prompt), ids);
        assert_eq!(state(&model), before);
    }
}

#[test]
fn a_reset_forgets_and_the_same_memory_serves_again() {
    let tiny = Tiny::load("tiny-qwen2");
    let mut model = model(&tiny, &Device::cpu(), 16);
    let bytes = model.storage_bytes();
    let ids = greedy(&mut model, &tiny.ids);
    let other = greedy(&mut model, &tiny.ids[7..20]);
    assert_eq!(greedy(&mut model, &tiny.ids), ids);
    assert_eq!(greedy(&mut model, &tiny.ids[7..20]), other);
    assert_eq!(model.storage_bytes(), bytes);
}

#[test]
fn another_chunk_leaves_weights_and_cache_where_they_are() {
    let tiny = Tiny::load("tiny-llama");
    let mut model = model(&tiny, &Device::cpu(), 16);
    let before = model.storage_bytes();
    model.set_chunk(64).unwrap();
    let after = model.storage_bytes();
    assert!(after.scratch > before.scratch, "{before:?} {after:?}");
    assert_eq!((after.weights, after.cache), (before.weights, before.cache));
    let config = model.config();
    let cache = config.layers * 2 * config.kv_heads * 64 * config.head_dim * 4;
    assert_eq!(after.cache, cache as u64);
}

#[test]
fn two_requests_over_the_same_weights_do_not_see_each_other() {
    let tiny = Tiny::load("tiny-qwen3");
    for device in [Device::cpu()] {
        let mut first = model(&tiny, &device, 16);
        let prompts = [&tiny.ids[..20], &tiny.ids[9..40]];
        let alone = prompts.map(|prompt| greedy(&mut first, prompt));
        first.reset();
        let mut second = first.fork_request().unwrap();
        assert!(first.shares_weights_with(&second));
        assert!(!first.shares_weights_with(&model(&tiny, &device, 16)));
        // Their chunks and steps take turns.
        let mut requests = [(&mut first, Vec::new()), (&mut second, Vec::new())];
        for (n, (model, _)) in requests.iter_mut().enumerate() {
            model.extend(&prompts[n][..16], Logits::None).unwrap();
        }
        for (n, (model, _)) in requests.iter_mut().enumerate() {
            model.extend(&prompts[n][16..][..prompts[n].len().min(32) - 16], Logits::Last).unwrap();
        }
        for _ in 0..OUTPUTS {
            for (model, ids) in &mut requests {
                if let Some(&id) = ids.last() {
                    model.extend(&[id], Logits::Last).unwrap();
                }
                let id = model.choice().unwrap();
                ids.push(id);
            }
        }
        assert_eq!(requests.map(|(_, ids)| ids), alone);
    }
}

fn packed_model(tiny: &Tiny, device: &Device, weights: WeightType) -> Model {
    let options = Options { weights, ..options(16) };
    Model::load(&tiny.checkpoint, device, &options).unwrap()
}

#[test]
fn packed_weights_give_the_same_logits_in_half_the_bytes() {
    for tiny in Tiny::all() {
        let most = if tiny.name == "tiny-llama" { 2 } else { 1 };
        for device in devices().into_iter().take(most) {
            let mut plain = packed_model(&tiny, &device, WeightType::F32);
            let mut packed = packed_model(&tiny, &device, WeightType::F32);
            let Packing::Packed { original, packed: bytes } = packed.pack_decode_weights().unwrap()
            else {
                panic!("bf16 values in f32 can be packed")
            };
            assert_eq!(original, 2 * bytes);
            let storage = packed.storage_bytes();
            assert_eq!((storage.packed_originals, storage.packed_copies), (original, bytes));
            // The originals stay.
            assert_eq!(storage.weights, plain.storage_bytes().weights);
            let config = packed.config();
            let (heads, kv) = (config.heads * config.head_dim, config.kv_heads * config.head_dim);
            let layer = (2 * heads + 2 * kv + 3 * config.mlp_width) * config.width;
            let expected = config.layers * layer + config.vocabulary * config.width;
            assert_eq!(original, 4 * expected as u64);

            let prompt = &tiny.ids[..20];
            assert_eq!(greedy(&mut packed, prompt), greedy(&mut plain, prompt));
            let (a, b) = (packed.logits().unwrap(), plain.logits().unwrap());
            match device.name() == Device::interpreter().name() {
                true => assert_eq!(a, b),
                false => assert!(largest_difference(&a, &b) < 1e-4),
            }
            // A request beside it reads the same copies.
            let mut fork = packed.fork_request().unwrap();
            assert_eq!(fork.storage_bytes().packed_copies, bytes);
            assert_eq!(greedy(&mut fork, prompt), greedy(&mut packed, prompt));
        }
    }
}

#[test]
fn what_cannot_be_packed_stays_and_says_why() {
    let tiny = Tiny::load("tiny-llama");
    let mut model = packed_model(&tiny, &Device::cpu(), WeightType::AsStored);
    let ids = greedy(&mut model, &tiny.ids);
    let Packing::Unpacked { reason } = model.pack_decode_weights().unwrap() else {
        panic!("bf16 weights are packed already")
    };
    assert!(reason.contains("layer 0's query projection is bf16"), "{reason}");
    assert_eq!(model.storage_bytes().packed_copies, 0);
    assert_eq!(greedy(&mut model, &tiny.ids), ids);
}

#[test]
fn weights_in_another_type_are_the_same_numbers_where_they_fit() {
    for tiny in Tiny::all() {
        let logits = |weights| {
            let mut model = packed_model(&tiny, &Device::interpreter(), weights);
            model.prefill(&tiny.ids[..16]).unwrap();
            (model.logits().unwrap(), model.storage_bytes().weights, model.weights_bytes())
        };
        let (stored, bytes, in_file) = logits(WeightType::AsStored);
        assert_eq!(bytes, in_file);
        let (wide, wide_bytes, still) = logits(WeightType::F32);
        assert_eq!(stored, wide);
        assert_eq!((wide_bytes, still), (2 * bytes, in_file));
        assert_eq!(logits(WeightType::BF16).0, stored);
        // f16 has more digits and less range.
        assert!(largest_difference(&logits(WeightType::F16).0, &stored) < 0.05);
    }
}
