//! What a decoder has to know of a model besides its weights.

mod from_gguf;
pub(crate) mod hugging_face;
mod rope_settings;
mod to_hugging_face;

use crate::Error;
use crate::checkpoint::gguf::Header;

/// The architectures that are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Llama 1 to 3 and models of its shape, as SmolLM2.
    Llama,
    /// Qwen2 and Qwen2.5, dense: biases on the query, key and value projections.
    Qwen2,
    /// Qwen3, dense: RMS norms on each head's query and key.
    Qwen3,
}

impl Family {
    /// Every family.
    pub const ALL: [Family; 3] = [Family::Llama, Family::Qwen2, Family::Qwen3];

    /// Its name: `model_type` of a Hugging Face configuration, `general.architecture` of a GGUF file.
    pub const fn name(self) -> &'static str {
        match self {
            Family::Llama => "llama",
            Family::Qwen2 => "qwen2",
            Family::Qwen3 => "qwen3",
        }
    }

    /// The family called `name`, if it is known.
    pub fn from_name(name: &str) -> Option<Family> {
        Family::ALL.into_iter().find(|family| family.name() == name)
    }

    /// The known names, for messages.
    pub(crate) fn known() -> String {
        Family::ALL.map(Family::name).join(", ")
    }
}

impl std::fmt::Display for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Which two elements of a head's vector make a pair that RoPE turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeStyle {
    /// Element `i` with element `i + head_dim / 2`.
    Split,
    /// Element `2i` with element `2i + 1`.
    Interleaved,
}

/// How the frequencies of RoPE are stretched for contexts longer than those of the first training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// All divided by one factor.
    Linear {
        /// The factor, positive.
        factor: f64,
    },
    /// Long waves divided by a factor, short ones kept, those between blended, as in Llama 3.1.
    Llama3 {
        /// The factor, positive.
        factor: f64,
        /// Waves longer than `original_context / low` are divided.
        low: f64,
        /// Waves shorter than `original_context / high` are kept; above `low`.
        high: f64,
        /// Positions of the first training.
        original_context: usize,
    },
}

/// The rotary position embedding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rope {
    /// The base of the geometric row of wave lengths, positive.
    pub theta: f64,
    /// Which elements are turned together.
    pub style: RopeStyle,
    /// What the frequencies are stretched by.
    pub scaling: RopeScaling,
}

/// The sizes and settings of a decoder.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// The architecture.
    pub family: Family,
    /// Decoder layers.
    pub layers: usize,
    /// Elements of a position's hidden vector.
    pub width: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; `heads` is a multiple of it.
    pub kv_heads: usize,
    /// Elements of one head's vector, even; not always `width / heads`.
    pub head_dim: usize,
    /// Elements of the hidden vector of the MLP.
    pub mlp_width: usize,
    /// Tokens of the vocabulary.
    pub vocabulary: usize,
    /// What RMS norms add to the mean square.
    pub norm_eps: f32,
    /// The rotary position embedding.
    pub rope: Rope,
    /// The most positions the model was made for.
    pub context: usize,
    /// Whether the output projection is the embedding.
    pub tied: bool,
    /// Whether the query, key and value projections have biases.
    pub attention_bias: bool,
    /// Whether each head's query and key are RMS-normed.
    pub qk_norm: bool,
    /// The tokens that end a text: the union of what configuration, generation configuration and
    /// tokenizer name, ascending.
    pub end_ids: Vec<u32>,
    /// The token that begins a text, if the checkpoint names one.
    pub begin_id: Option<u32>,
    /// Whether a prompt begins with `begin_id`.
    pub add_begin: bool,
}

impl ModelConfig {
    /// The configuration that a GGUF file's metadata holds, and notes for the user.
    ///
    /// # Errors
    /// If a key is missing, contradicts another, or has a value that is not supported.
    pub fn from_gguf(header: &Header) -> Result<(ModelConfig, Vec<String>), Error> {
        from_gguf::read(header)
    }

    /// What does not fit together in the sizes, as (setting, problem); settings are named by `name`.
    fn inconsistency(&self, name: impl Fn(Size) -> String) -> Option<(String, String)> {
        if !self.heads.is_multiple_of(self.kv_heads) {
            let (heads, kv) = (self.heads, self.kv_heads);
            let problem = format!("{heads} query heads are not a multiple of {kv} key/value heads");
            return Some((name(Size::KvHeads), problem));
        }
        if !self.head_dim.is_multiple_of(2) {
            let problem = format!("it is {}: RoPE turns pairs, so it must be even", self.head_dim);
            return Some((name(Size::HeadDim), problem));
        }
        let theta = self.rope.theta;
        if theta.is_nan() || theta <= 0.0 {
            return Some((name(Size::Theta), format!("it is {theta}, not a positive number")));
        }
        if !(self.norm_eps.is_finite() && self.norm_eps >= 0.0) {
            let problem = format!("it is {}, not a number of at least 0", self.norm_eps);
            return Some((name(Size::NormEps), problem));
        }
        None
    }
}

/// Settings that [`ModelConfig::inconsistency`] names; each format has its own keys for them.
#[derive(Clone, Copy)]
enum Size {
    KvHeads,
    HeadDim,
    Theta,
    NormEps,
}

/// Sorts the end tokens and drops those outside the vocabulary, with a note: no model writes them.
fn settle_end_ids(ids: &mut Vec<u32>, vocabulary: usize, notes: &mut Vec<String>) {
    ids.sort_unstable();
    ids.dedup();
    ids.retain(|&id| {
        let known = (id as usize) < vocabulary;
        if !known {
            notes.push(format!(
                "end token {id} is left out: the vocabulary has {vocabulary} tokens"
            ));
        }
        known
    });
}
