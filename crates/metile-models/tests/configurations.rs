//! What a model's configuration means, in both formats, and what is refused by name.

mod toy;

use metile_models::checkpoint::{Checkpoint, LayerRole, Role};
use metile_models::config::{ModelConfig, RopeScaling, RopeStyle};
use metile_models::rope::frequencies;
use serde_json::{Value, json};
use toy::{HEADS, KV_HEADS, WIDTH, config, folder, gguf_model, head, tensors, with, write_json};

/// Opens a folder of `family` with heads of `head_dim`, tied, whose configuration has `changes`.
fn open(family: &str, head_dim: u64, changes: Value) -> Result<Checkpoint, String> {
    let config = with(with(config(family), json!({"tie_word_embeddings": true})), changes);
    let folder = folder(&config, &tensors(family, head_dim));
    Checkpoint::open(folder.path()).map_err(|error| error.to_string())
}

/// Asserts that the configuration is refused with an error that names `key`.
fn refused(family: &str, changes: Value, key: &str, problem: &str) {
    let error = open(family, default_head_dim(family), changes).unwrap_err();
    assert!(error.contains(&format!("`{key}`")) && error.contains(problem), "{error}");
}

/// The `head_dim` of configurations that name none.
fn default_head_dim(family: &str) -> u64 {
    if family == "qwen3" { 128 } else { WIDTH / HEADS }
}

fn opened(family: &str, changes: Value) -> ModelConfig {
    open(family, default_head_dim(family), changes).unwrap().config().clone()
}

const FAMILIES: [&str; 3] = ["llama", "qwen2", "qwen3"];

#[test]
fn head_dim_is_the_explicit_value_or_the_architectures_default() {
    for family in FAMILIES {
        let explicit = open(family, 32, json!({"head_dim": 32})).unwrap();
        assert_eq!(explicit.config().head_dim, 32);
        let query = explicit.tensor(Role::Layer(0, LayerRole::Query)).unwrap();
        assert_eq!(query.shape, [HEADS as usize * 32, WIDTH as usize]);
        for absent in [json!({}), json!({"head_dim": null})] {
            assert_eq!(opened(family, absent).head_dim as u64, default_head_dim(family));
        }
        let error = open(family, 32, json!({})).unwrap_err();
        for part in ["q_proj.weight", "its shape is [128, 64]", "4 heads of", "needs"] {
            assert!(error.contains(part), "{error}");
        }
    }
    refused("llama", json!({"head_dim": 0}), "head_dim", "it is 0");
    refused("llama", json!({"head_dim": 15}), "head_dim", "must be even");
    refused("llama", json!({"head_dim": "16"}), "head_dim", "not a whole number");
    refused("llama", json!({"num_attention_heads": 6}), "head_dim", "6 heads do not divide");
    refused(
        "llama",
        json!({"num_key_value_heads": 3}),
        "num_key_value_heads",
        "not a multiple of 3",
    );
}

#[test]
fn head_dim_of_gguf_is_the_key_length_or_width_by_heads() {
    for family in FAMILIES {
        let folder = tempfile::tempdir().unwrap();
        let key = format!("{family}.attention.key_length");
        let explicit = Checkpoint::open(&gguf_model(family, 32).write(folder.path())).unwrap();
        assert_eq!(explicit.config().head_dim, 32);
        let absent = gguf_model(family, 16).without(&key).write(folder.path());
        assert_eq!(Checkpoint::open(&absent).unwrap().config().head_dim, 16);
        let wrong = gguf_model(family, 32).without(&key).write(folder.path());
        let error = Checkpoint::open(&wrong).unwrap_err().to_string();
        assert!(error.contains("attn_q.weight") && error.contains("4 heads of 16"), "{error}");
        for (key, problem) in
            [("attention.value_length", "a head has 32"), ("rope.dimension_count", "a head has 32")]
        {
            let key = format!("{family}.{key}");
            let model = gguf_model(family, 32).u32(&key, 16).write(folder.path());
            let error = Checkpoint::open(&model).unwrap_err().to_string();
            assert!(error.contains(&key) && error.contains(problem), "{error}");
        }
    }
}

#[test]
fn the_output_projection_is_there_or_tied_in_all_four_combinations() {
    for family in FAMILIES {
        let open = |tied: Value, with_head: bool| {
            let mut all = tensors(family, 16);
            all.extend(with_head.then(head));
            let config = with(config(family), json!({"tie_word_embeddings": tied, "head_dim": 16}));
            let folder = folder(&config, &all);
            Checkpoint::open(folder.path()).map_err(|error| error.to_string())
        };
        let tied = open(json!(true), false).unwrap();
        assert!(tied.config().tied && tied.tensor(Role::Output).is_none());
        assert!(tied.notes().is_empty());

        let extra = open(json!(true), true).unwrap();
        assert!(extra.config().tied && extra.tensor(Role::Output).is_none());
        assert!(extra.notes()[0].contains("lm_head.weight"), "{:?}", extra.notes());
        for info in extra.tensors() {
            assert_ne!(info.name, "lm_head.weight");
        }

        // Absent means untied in every known architecture.
        for untied in [json!(false), json!(null)] {
            let checkpoint = open(untied.clone(), true).unwrap();
            assert!(!checkpoint.config().tied && checkpoint.tensor(Role::Output).is_some());
            let error = open(untied, false).unwrap_err();
            assert!(
                error.contains("lm_head.weight") && error.contains("tie_word_embeddings"),
                "{error}"
            );
        }
    }
}

#[test]
fn gguf_is_tied_where_it_has_no_output_projection() {
    let folder = tempfile::tempdir().unwrap();
    let tied = Checkpoint::open(&gguf_model("qwen2", 16).write(folder.path())).unwrap();
    assert!(tied.config().tied && tied.tensor(Role::Output).is_none());
    let model = gguf_model("qwen2", 16).zeros("output.weight", &[WIDTH, toy::VOCABULARY]);
    let untied = Checkpoint::open(&model.write(folder.path())).unwrap();
    assert!(!untied.config().tied && untied.tensor(Role::Output).is_some());
}

#[test]
fn every_tensor_has_a_role_and_every_role_its_tensor() {
    for family in FAMILIES {
        let settings = with(config(family), json!({"tie_word_embeddings": true, "head_dim": 16}));
        let all = tensors(family, 16);
        for n in 0..all.len() {
            let mut fewer = all.clone();
            let (name, _) = fewer.remove(n);
            let error = Checkpoint::open(folder(&settings, &fewer).path()).unwrap_err().to_string();
            assert!(error.contains(&name) && error.contains("missing"), "{error}");
            let mut wrong = all.clone();
            wrong[n].1[0] += 1;
            let error = Checkpoint::open(folder(&settings, &wrong).path()).unwrap_err().to_string();
            assert!(error.contains(&name) && error.contains("its shape is"), "{error}");
        }
        let mut more = all.clone();
        more.push(("model.layers.0.self_attn.o_proj.bias".to_owned(), vec![WIDTH]));
        let error = Checkpoint::open(folder(&settings, &more).path()).unwrap_err().to_string();
        assert!(error.contains("o_proj.bias"), "{error}");
        more.last_mut().unwrap().0 = "model.layers.1.input_layernorm.weight".to_owned();
        let error = Checkpoint::open(folder(&settings, &more).path()).unwrap_err().to_string();
        assert!(error.contains("model.layers.1."), "{error}");
        more.last_mut().unwrap().0 = "model.layers.0.self_attn.rotary_emb.inv_freq".to_owned();
        let checkpoint = Checkpoint::open(folder(&settings, &more).path()).unwrap();
        assert!(checkpoint.notes()[0].contains("inv_freq"));

        let checkpoint = Checkpoint::open(folder(&settings, &all).path()).unwrap();
        for role in LayerRole::ALL {
            checkpoint.tensor(Role::Layer(0, role));
        }
        checkpoint.tensor(Role::Embedding);
        let error = checkpoint.check_all_used().unwrap_err().to_string();
        assert!(error.contains("model.norm.weight"), "{error}");
        checkpoint.tensor(Role::OutputNorm);
        checkpoint.check_all_used().unwrap();
    }
}

#[test]
fn rope_scaling_is_read_from_both_generations_of_keys() {
    let theta_only = opened("llama", json!({"rope_theta": 5e5}));
    assert_eq!((theta_only.rope.theta, theta_only.rope.scaling), (5e5, RopeScaling::None));
    assert_eq!(opened("llama", json!({"rope_theta": null})).rope.theta, 1e4);
    let linear = RopeScaling::Linear { factor: 4.0 };
    let llama3 = RopeScaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original_context: 64 };
    let llama3_keys = json!({"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                             "original_max_position_embeddings": 64});
    for (scaling, keys) in
        [(RopeScaling::None, json!({})), (linear, json!({"factor": 4})), (llama3, llama3_keys)]
    {
        let name = match scaling {
            RopeScaling::None => "default",
            RopeScaling::Linear { .. } => "linear",
            RopeScaling::Llama3 { .. } => "llama3",
        };
        for type_key in ["type", "rope_type"] {
            let old = with(keys.clone(), json!({type_key: name}));
            let config = opened("qwen2", json!({"rope_scaling": old, "rope_theta": 7e4}));
            assert_eq!((config.rope.theta, config.rope.scaling), (7e4, scaling));
        }
        let new = with(keys, json!({"rope_type": name, "rope_theta": 6e4}));
        let config = opened("qwen3", json!({"rope_parameters": new, "rope_theta": null}));
        assert_eq!((config.rope.theta, config.rope.scaling), (6e4, scaling));
        assert_eq!(config.rope.style, RopeStyle::Split);
    }
}

#[test]
fn rope_settings_that_are_not_computed_are_refused_by_name() {
    for kind in ["yarn", "dynamic", "longrope", "su", "mrope"] {
        for (key, type_key) in [
            ("rope_scaling", "type"),
            ("rope_scaling", "rope_type"),
            ("rope_parameters", "rope_type"),
        ] {
            let changes = json!({key: {type_key: kind, "factor": 4.0}, "rope_theta": null});
            refused(
                "llama",
                changes,
                &format!("{key}.rope_type"),
                &format!("`{kind}` scaling is not supported"),
            );
        }
    }
    for (changes, key, problem) in [
        (json!({"rope_scaling": {"type": "linear"}}), "rope_scaling.factor", "missing"),
        (
            json!({"rope_scaling": {"type": "linear", "factor": 0}}),
            "rope_scaling.factor",
            "positive",
        ),
        (
            json!({"rope_scaling": {"type": "linear", "factor": 2, "beta_fast": 1}}),
            "rope_scaling.beta_fast",
            "`linear` scaling",
        ),
        (
            json!({"rope_scaling": {"type": "default", "mrope_section": [1]}}),
            "rope_scaling.mrope_section",
            "`default`",
        ),
        (
            json!({"rope_scaling": {"type": "default", "rope_type": "linear"}}),
            "rope_scaling.rope_type",
            "`type` is `default`",
        ),
        (
            json!({"rope_parameters": {"rope_theta": 2e4}}),
            "rope_theta",
            "`rope_parameters.rope_theta` is 20000",
        ),
        (
            json!({"rope_parameters": {}, "rope_scaling": {}}),
            "rope_scaling",
            "`rope_parameters` is there too",
        ),
        (
            json!({"rope_parameters": {"full_attention": {}}}),
            "rope_parameters.full_attention",
            "does not have",
        ),
        (
            json!({"rope_parameters": {"partial_rotary_factor": 0.5}}),
            "rope_parameters.partial_rotary_factor",
            "0.5",
        ),
        (json!({"partial_rotary_factor": 0.5}), "partial_rotary_factor", "0.5"),
        (json!({"rope_theta": -1}), "rope_theta", "positive"),
        (
            json!({"rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 4,
                "original_max_position_embeddings": 64}}),
            "rope_scaling.high_freq_factor",
            "not above",
        ),
    ] {
        refused("llama", changes, key, problem);
    }
}

#[test]
fn frequencies_follow_the_formulas() {
    let config = |changes| {
        open("llama", 64, with(json!({"head_dim": 64}), changes)).unwrap().config().clone()
    };
    let plain = frequencies(&config(json!({"rope_theta": 5e5})), None);
    assert_eq!(plain.len(), 32);
    for (pair, &frequency) in plain.iter().enumerate() {
        let exact = 5e5f64.powf(-(pair as f64) / 32.0);
        assert!((f64::from(frequency) / exact - 1.0).abs() < 1e-6);
    }
    let linear = frequencies(
        &config(json!({"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 4}})),
        None,
    );
    assert!(plain.iter().zip(&linear).all(|(p, l)| (p / 4.0 - l).abs() <= p * 1e-6));
    // Llama 3.1's own settings: waves to 2048 positions are kept, those from 8192 on are divided.
    let scaled = frequencies(
        &config(json!({"rope_theta": 5e5, "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
            "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}})),
        None,
    );
    let mut blended = 0;
    for (&plain, &scaled) in plain.iter().zip(&scaled) {
        let wave = std::f64::consts::TAU / f64::from(plain);
        if wave < 2048.0 {
            assert_eq!(plain, scaled);
        } else if wave > 8192.0 {
            assert!((plain / 8.0 - scaled).abs() <= plain * 1e-6);
        } else {
            blended += 1;
            assert!(plain / 8.0 < scaled && scaled < plain);
        }
    }
    assert!(blended > 0);
    let factors: Vec<f32> = (1..=32).map(|n| n as f32).collect();
    let divided = frequencies(&config(json!({"rope_theta": 5e5})), Some(&factors));
    assert!(
        divided.iter().zip(&plain).zip(&factors).all(|((d, p), f)| (p / f - d).abs() <= p * 1e-6)
    );
}

#[test]
fn gguf_has_its_own_keys_for_rope() {
    let folder = tempfile::tempdir().unwrap();
    let open =
        |model: toy::Gguf| Checkpoint::open(&model.write(folder.path())).map_err(|e| e.to_string());
    let rope = |model: toy::Gguf| open(model).unwrap().config().rope;
    let base = || gguf_model("llama", 16);
    assert_eq!(rope(base()).style, RopeStyle::Interleaved);
    assert_eq!(rope(gguf_model("qwen2", 16)).style, RopeStyle::Split);
    assert_eq!(rope(gguf_model("qwen3", 16)).style, RopeStyle::Split);
    assert_eq!((rope(base()).theta, rope(base()).scaling), (1e4, RopeScaling::None));
    assert_eq!(rope(base().f32("llama.rope.freq_base", 1e5)).theta, 1e5);
    let factor = || base().f32("llama.rope.scaling.factor", 2.0);
    for linear in [
        factor(),
        factor().text("llama.rope.scaling.type", "linear"),
        base().f32("llama.rope.scale_linear", 2.0),
    ] {
        assert_eq!(rope(linear).scaling, RopeScaling::Linear { factor: 2.0 });
    }
    assert_eq!(rope(factor().text("llama.rope.scaling.type", "none")).scaling, RopeScaling::None);
    let error = open(factor().text("llama.rope.scaling.type", "yarn")).unwrap_err();
    assert!(error.contains("llama.rope.scaling.type") && error.contains("`yarn`"), "{error}");
    let factors = open(base().zeros("rope_freqs.weight", &[8])).unwrap();
    assert_eq!(factors.tensor(Role::RopeFactors).unwrap().shape, [8]);
    let error = open(base().zeros("rope_freqs.weight", &[16])).unwrap_err();
    assert!(error.contains("rope_freqs.weight") && error.contains("one per pair"), "{error}");
}

#[test]
fn sliding_windows_in_effect_are_refused_by_name() {
    for (family, changes, key) in [
        ("qwen2", json!({"use_sliding_window": true, "sliding_window": 64}), "sliding_window"),
        ("qwen2", json!({"use_sliding_window": true}), "use_sliding_window"),
        ("qwen3", json!({"layer_types": ["sliding_attention"]}), "layer_types"),
        ("qwen2", json!({"layer_types": "sliding_attention"}), "layer_types"),
        ("llama", json!({"sliding_window": 64}), "sliding_window"),
    ] {
        refused(family, changes, key, "");
    }
    for (family, changes) in [
        (
            "qwen2",
            json!({"use_sliding_window": false, "sliding_window": 64, "max_window_layers": 21}),
        ),
        ("qwen2", json!({"sliding_window": 64})),
        ("qwen3", json!({"layer_types": ["full_attention"], "sliding_window": null})),
        ("llama", json!({"sliding_window": null})),
    ] {
        opened(family, changes);
    }
    let folder = tempfile::tempdir().unwrap();
    let model = gguf_model("qwen2", 16).u32("qwen2.attention.sliding_window", 64);
    let error = Checkpoint::open(&model.write(folder.path())).unwrap_err().to_string();
    assert!(error.contains("qwen2.attention.sliding_window"), "{error}");
}

#[test]
fn settings_that_the_decoder_does_not_have_are_refused_by_name() {
    for (changes, key, problem) in [
        (
            json!({"model_type": "gemma3"}),
            "model_type",
            "`gemma3` is not supported; llama, qwen2, qwen3 are",
        ),
        (json!({"model_type": null}), "model_type", "known are llama, qwen2, qwen3"),
        (json!({"hidden_act": "gelu"}), "hidden_act", "`gelu`"),
        (json!({"attention_bias": true}), "attention_bias", "not supported"),
        (json!({"mlp_bias": true}), "mlp_bias", "not supported"),
        (json!({"hidden_size": null}), "hidden_size", "missing"),
        (json!({"vocab_size": 0}), "vocab_size", "it is 0"),
        (json!({"num_hidden_layers": 1.5}), "num_hidden_layers", "1.5"),
        (json!({"rms_norm_eps": -1.0}), "rms_norm_eps", "at least 0"),
        (
            json!({"quantization_config": {"quant_method": "gptq"}}),
            "quantization_config.quant_method",
            "`gptq`",
        ),
    ] {
        refused("llama", changes, key, problem);
    }
    let folder = tempfile::tempdir().unwrap();
    for (model, part) in [
        (
            gguf_model("llama", 16).text("general.architecture", "mamba"),
            "`mamba` is not supported; llama, qwen2, qwen3 are",
        ),
        (gguf_model("llama", 16).without("general.architecture"), "known are llama"),
        (gguf_model("llama", 16).u32("llama.expert_count", 8), "experts are not supported"),
        (gguf_model("llama", 16).text("general.type", "adapter"), "it is `adapter`, not `model`"),
        (gguf_model("llama", 16).u32("split.count", 2), "split into 2 files"),
        (gguf_model("llama", 16).truth("llama.attention.causal", false), "causal"),
        (
            gguf_model("llama", 16).without("llama.block_count"),
            "`llama.block_count`: the key is missing",
        ),
        (gguf_model("llama", 16).text("llama.block_count", "1"), "`llama.block_count`"),
        (gguf_model("llama", 16).i32s("llama.attention.head_count", &[4]), "a list of 1"),
        (gguf_model("llama", 16).u32("llama.vocab_size", 271), "token_embd.weight"),
    ] {
        let error = Checkpoint::open(&model.write(folder.path())).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    let odd = gguf_model("llama", 16).u32("llama.brand_new", 1).write(folder.path());
    let checkpoint = Checkpoint::open(&odd).unwrap();
    assert!(checkpoint.notes()[0].contains("llama.brand_new"), "{:?}", checkpoint.notes());
}

#[test]
fn end_tokens_are_the_union_of_all_that_name_one() {
    let end_ids = |config_ids: Value, generation: Value, tokenizer_eos: Value| {
        let changes = json!({"tie_word_embeddings": true, "eos_token_id": config_ids});
        let folder = folder(&with(config("llama"), changes), &tensors("llama", 16));
        write_json(folder.path(), "generation_config.json", &json!({"eos_token_id": generation}));
        write_json(folder.path(), "tokenizer.json", &toy::tokenizer_json());
        write_json(folder.path(), "tokenizer_config.json", &json!({"eos_token": tokenizer_eos}));
        Checkpoint::open(folder.path()).map(|c| (c.config().end_ids.clone(), c.notes().to_vec()))
    };
    let ids = |a, b, c| end_ids(a, b, c).unwrap().0;
    assert_eq!(ids(json!(256), json!(null), json!(null)), [256]);
    assert_eq!(ids(json!([1, 106]), json!(null), json!(null)), [1, 106]);
    assert_eq!(ids(json!(256), json!([257, 256]), json!(null)), [256, 257]);
    // The generation configuration names another token than the one that chats end with.
    assert_eq!(ids(json!(null), json!(256), json!("<|im_end|>")), [256, 258]);
    assert_eq!(ids(json!([5]), json!([6]), json!({"content": "<|endoftext|>"})), [5, 6, 256]);
    assert_eq!(ids(json!(null), json!(null), json!("abc")), [266]);
    assert!(ids(json!(null), json!(null), json!(null)).is_empty());
    let (kept, notes) = end_ids(json!([5, 9999]), json!(null), json!(null)).unwrap();
    assert!(kept == [5] && notes[0].contains("9999"), "{notes:?}");
    for wrong in [json!(-1), json!("2"), json!([1, "2"]), json!(1.5), json!([[1]])] {
        let error = end_ids(wrong, json!(null), json!(null)).unwrap_err().to_string();
        assert!(error.contains("eos_token_id"), "{error}");
    }
    let error = end_ids(json!(1), json!(null), json!("<|nobody|>")).unwrap_err().to_string();
    assert!(error.contains("<|nobody|>"), "{error}");
}

#[test]
fn gguf_ends_with_any_of_its_end_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let model = gguf_model("llama", 16)
        .u32("tokenizer.ggml.eos_token_id", 262)
        .u32("tokenizer.ggml.eot_token_id", 258)
        .u32("tokenizer.ggml.eom_token_id", 256);
    let checkpoint = Checkpoint::open(&model.write(folder.path())).unwrap();
    assert_eq!(checkpoint.config().end_ids, [256, 258, 262]);
}

#[test]
fn an_estimate_counts_weights_cache_and_activations() {
    let checkpoint = open("llama", 16, json!({})).unwrap();
    let estimate = metile_models::memory::estimate(&checkpoint, 100, 8);
    let weights: u64 =
        tensors("llama", 16).iter().map(|(_, s)| s.iter().product::<u64>() * 4).sum();
    assert_eq!(estimate.weights, weights);
    assert_eq!(estimate.kv_cache, 2 * KV_HEADS * 100 * 16 * 4);
    assert!(estimate.activations > 8 * 4 * WIDTH);
    let huge = metile_models::memory::estimate(&checkpoint, usize::MAX, usize::MAX);
    assert_eq!(huge.total(), u64::MAX);
    let error = metile_models::memory::check(&huge, Some(1 << 30)).unwrap_err().to_string();
    assert!(error.contains("are available"), "{error}");
}

#[cfg(unix)]
#[test]
fn what_is_not_a_file_is_refused_without_waiting_for_it() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["config.json", "model.safetensors"] {
        let path = folder.path().join(name);
        std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(Checkpoint::open(folder.path()).is_err());
        std::fs::remove_file(&path).unwrap();
        write_json(folder.path(), "config.json", &config("llama"));
    }
    std::fs::create_dir(folder.path().join("x.gguf")).unwrap();
    assert!(Checkpoint::open(&folder.path().join("x.gguf")).is_err());
}
