//! A configuration as `config.json`, which Transformers and MLX-LM read.

use serde_json::{Value, json};

use super::{Family, ModelConfig, RopeScaling};

impl ModelConfig {
    /// The `config.json` of a checkpoint whose tensors are `dtype` (as PyTorch names it), in MLX's affine
    /// layout of (bits, group) where `quantized` says so. Heads are turned in halves
    /// ([`RopeStyle::Split`](super::RopeStyle::Split)), as that format has them, whatever this
    /// configuration says: who writes weights orders the rows so.
    pub fn to_hugging_face(&self, dtype: &str, quantized: Option<(usize, usize)>) -> Value {
        let architecture = match self.family {
            Family::Llama => "LlamaForCausalLM",
            Family::Qwen2 => "Qwen2ForCausalLM",
            Family::Qwen3 => "Qwen3ForCausalLM",
        };
        let end = match &self.end_ids[..] {
            [] => Value::Null,
            [id] => json!(id),
            ids => json!(ids),
        };
        let mut config = json!({
            "architectures": [architecture],
            "model_type": self.family.name(),
            "torch_dtype": dtype,
            "vocab_size": self.vocabulary,
            "hidden_size": self.width,
            "intermediate_size": self.mlp_width,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "rms_norm_eps": shortest(self.norm_eps),
            "rope_theta": self.rope.theta,
            "rope_scaling": rope_scaling(self.rope.scaling),
            "max_position_embeddings": self.context,
            "tie_word_embeddings": self.tied,
            "attention_dropout": 0.0,
            "initializer_range": 0.02,
            "use_cache": true,
            "bos_token_id": self.begin_id,
            "eos_token_id": end,
        });
        let own = match self.family {
            Family::Llama => json!({"attention_bias": false, "mlp_bias": false}),
            Family::Qwen2 => {
                json!({"use_sliding_window": false, "sliding_window": null})
            }
            Family::Qwen3 => {
                json!({"attention_bias": false, "use_sliding_window": false, "sliding_window": null})
            }
        };
        let quantization = match quantized {
            Some((bits, group)) => {
                let settings = json!({"bits": bits, "group_size": group, "mode": "affine"});
                json!({"quantization": settings, "quantization_config": settings})
            }
            None => json!({}),
        };
        for more in [own, quantization] {
            if let (Value::Object(config), Value::Object(more)) = (&mut config, more) {
                config.extend(more);
            }
        }
        config
    }
}

/// An f32 as the f64 that is written with the fewest digits: 1e-6, not 9.999999974752427e-7.
fn shortest(x: f32) -> f64 {
    x.to_string().parse().unwrap_or(f64::from(x))
}

fn rope_scaling(scaling: RopeScaling) -> Value {
    match scaling {
        RopeScaling::None => Value::Null,
        RopeScaling::Linear { factor } => json!({"rope_type": "linear", "factor": factor}),
        RopeScaling::Llama3 { factor, low, high, original_context } => json!({
            "rope_type": "llama3",
            "factor": factor,
            "low_freq_factor": low,
            "high_freq_factor": high,
            "original_max_position_embeddings": original_context,
        }),
    }
}
