//! The sizes of models that checkpoints are synthesized for.

use crate::Error;
use crate::config::{Family, ModelConfig, Rope, RopeScaling, RopeStyle};

/// A model's sizes, as its publisher's `config.json` gives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Geometry {
    /// Qwen/Qwen3-0.6B.
    Qwen3_0_6B,
    /// Qwen/Qwen2.5-0.5B.
    Qwen2_5_0_5B,
    /// Qwen/Qwen2.5-1.5B.
    Qwen2_5_1_5B,
    /// meta-llama/Llama-3.2-1B.
    Llama3_2_1B,
    /// meta-llama/Llama-3.2-3B.
    Llama3_2_3B,
    /// HuggingFaceTB/SmolLM2-135M.
    SmolLm2_135M,
}

impl Geometry {
    /// Every geometry.
    pub const ALL: [Geometry; 6] = [
        Geometry::Qwen3_0_6B,
        Geometry::Qwen2_5_0_5B,
        Geometry::Qwen2_5_1_5B,
        Geometry::Llama3_2_1B,
        Geometry::Llama3_2_3B,
        Geometry::SmolLm2_135M,
    ];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Geometry::Qwen3_0_6B => "qwen3-0.6b",
            Geometry::Qwen2_5_0_5B => "qwen2.5-0.5b",
            Geometry::Qwen2_5_1_5B => "qwen2.5-1.5b",
            Geometry::Llama3_2_1B => "llama-3.2-1b",
            Geometry::Llama3_2_3B => "llama-3.2-3b",
            Geometry::SmolLm2_135M => "smollm2-135m",
        }
    }

    /// The geometry called `name`.
    pub fn from_name(name: &str) -> Option<Geometry> {
        Geometry::ALL.into_iter().find(|geometry| geometry.name() == name)
    }

    /// The configuration with the first `layers` layers alone.
    ///
    /// # Errors
    /// If the model has not as many, or it would have none.
    pub fn with_layers(self, layers: usize) -> Result<ModelConfig, Error> {
        let config = self.config();
        if layers == 0 || layers > config.layers {
            let problem = format!("{layers} layers; {self} has 1 to {}", config.layers);
            return Err(Error::Geometry { problem });
        }
        Ok(ModelConfig { layers, ..config })
    }

    /// The model's configuration. It names no token that begins or ends a text: that is the
    /// tokenizer's.
    pub fn config(self) -> ModelConfig {
        // layers, width, heads, K/V heads, head's width, MLP's width
        let (family, sizes) = match self {
            Geometry::Qwen3_0_6B => (Family::Qwen3, [28, 1024, 16, 8, 128, 3072]),
            Geometry::Qwen2_5_0_5B => (Family::Qwen2, [24, 896, 14, 2, 64, 4864]),
            Geometry::Qwen2_5_1_5B => (Family::Qwen2, [28, 1536, 12, 2, 128, 8960]),
            Geometry::Llama3_2_1B => (Family::Llama, [16, 2048, 32, 8, 64, 8192]),
            Geometry::Llama3_2_3B => (Family::Llama, [28, 3072, 24, 8, 128, 8192]),
            Geometry::SmolLm2_135M => (Family::Llama, [30, 576, 9, 3, 64, 1536]),
        };
        let llama3 =
            RopeScaling::Llama3 { factor: 32.0, low: 1.0, high: 4.0, original_context: 8192 };
        let (vocabulary, context, theta, scaling, norm_eps) = match self {
            Geometry::Qwen3_0_6B => (151_936, 40_960, 1e6, RopeScaling::None, 1e-6),
            Geometry::Qwen2_5_0_5B => (151_936, 32_768, 1e6, RopeScaling::None, 1e-6),
            Geometry::Qwen2_5_1_5B => (151_936, 131_072, 1e6, RopeScaling::None, 1e-6),
            Geometry::Llama3_2_1B | Geometry::Llama3_2_3B => (128_256, 131_072, 5e5, llama3, 1e-5),
            Geometry::SmolLm2_135M => (49_152, 8_192, 1e5, RopeScaling::None, 1e-5),
        };
        let [layers, width, heads, kv_heads, head_dim, mlp_width] = sizes;
        ModelConfig {
            family,
            layers,
            width,
            heads,
            kv_heads,
            head_dim,
            mlp_width,
            vocabulary,
            norm_eps,
            rope: Rope { theta, style: RopeStyle::Split, scaling },
            context,
            tied: true,
            attention_bias: family == Family::Qwen2,
            qk_norm: family == Family::Qwen3,
            end_ids: Vec::new(),
            begin_id: None,
            add_begin: false,
        }
    }
}

impl std::fmt::Display for Geometry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
