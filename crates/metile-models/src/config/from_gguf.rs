//! A GGUF file's metadata as a configuration.

use super::{Family, ModelConfig, Rope, RopeScaling, RopeStyle, Size};
use crate::Error;
use crate::checkpoint::gguf::{Header, Value};

/// The base of RoPE where a file names none.
const DEFAULT_THETA: f64 = 10_000.0;

/// Keys under the architecture's name that are read here, or that describe without changing what is
/// computed.
const READ: [&str; 23] = [
    "attention.causal",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.layer_norm_rms_epsilon",
    "attention.sliding_window",
    "attention.value_length",
    "block_count",
    "context_length",
    "embedding_length",
    "expert_count",
    "expert_used_count",
    "feed_forward_length",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.attn_factor",
    "rope.scaling.factor",
    "rope.scaling.finetuned",
    "rope.scaling.original_context_length",
    "rope.scaling.type",
    "tensor_data_layout",
    "vocab_size",
];

/// The configuration that `header` holds, and notes for the user.
///
/// # Errors
/// If a key is missing or has a value that is not supported.
pub(super) fn read(header: &Header) -> Result<(ModelConfig, Vec<String>), Error> {
    const ARCHITECTURE: &str = "general.architecture";
    let name = header.text(ARCHITECTURE)?.ok_or_else(|| {
        header.fail(ARCHITECTURE, format!("the key is missing; known are {}", Family::known()))
    })?;
    let family = Family::from_name(name).ok_or_else(|| {
        let problem = format!("architecture `{name}` is not supported; {} are", Family::known());
        header.fail(ARCHITECTURE, problem)
    })?;
    let keys = Keys { header, family };
    keys.refuse_unsupported()?;
    let mut notes = Vec::new();
    let config = keys.config(&mut notes)?;
    if let Some((key, problem)) = config.inconsistency(|size| {
        keys.name(match size {
            Size::KvHeads => "attention.head_count_kv",
            Size::HeadDim => "attention.key_length",
            Size::Theta => "rope.freq_base",
            Size::NormEps => "attention.layer_norm_rms_epsilon",
        })
    }) {
        return Err(header.fail(&key, problem));
    }
    let prefix = keys.name("");
    for key in header.keys().filter_map(|key| key.strip_prefix(&prefix)) {
        if !READ.contains(&key) {
            notes.push(format!("the key `{prefix}{key}` is not one that is read"));
        }
    }
    Ok((config, notes))
}

struct Keys<'a> {
    header: &'a Header,
    family: Family,
}

impl Keys<'_> {
    fn name(&self, key: &str) -> String {
        format!("{}.{key}", self.family)
    }

    fn needed(&self, key: &str) -> Result<usize, Error> {
        self.header.needed_count(&self.name(key))
    }

    fn count(&self, key: &str) -> Result<Option<usize>, Error> {
        let name = self.name(key);
        match self.header.count(&name)? {
            Some(0) => Err(self.header.fail(&name, "it is 0, not a positive number")),
            count => Ok(count),
        }
    }

    fn config(&self, notes: &mut Vec<String>) -> Result<ModelConfig, Error> {
        let header = self.header;
        let width = self.needed("embedding_length")?;
        let heads = self.needed("attention.head_count")?;
        let kv_heads = self.count("attention.head_count_kv")?.unwrap_or(heads);
        let head_dim = self.head_dim(width, heads)?;
        let vocabulary = self.vocabulary()?;
        let id = |key: &str| header.id(&format!("tokenizer.ggml.{key}"));
        let mut end_ids = Vec::new();
        for key in ["eos_token_id", "eot_token_id", "eom_token_id"] {
            end_ids.extend(id(key)?);
        }
        super::settle_end_ids(&mut end_ids, vocabulary, notes);
        let begin_id = id("bos_token_id")?;
        const ADD: &str = "tokenizer.ggml.add_bos_token";
        // SentencePiece vocabularies begin texts with the token unless a file says otherwise.
        let by_default = || Ok(header.text("tokenizer.ggml.model")? == Some("llama"));
        let add_begin = header.boolean(ADD)?.map_or_else(by_default, Ok)?;
        if add_begin && begin_id.is_none_or(|id| id as usize >= vocabulary) {
            let problem = "prompts begin with `tokenizer.ggml.bos_token_id`, which names no token";
            return Err(header.fail(ADD, problem));
        }
        let theta = header.number(&self.name("rope.freq_base"))?.unwrap_or(DEFAULT_THETA);
        let style = match self.family {
            // The converter to GGUF reorders the rows of Llama's query and key projections.
            Family::Llama => RopeStyle::Interleaved,
            Family::Qwen2 | Family::Qwen3 => RopeStyle::Split,
        };
        const EPS: &str = "attention.layer_norm_rms_epsilon";
        let eps = header.number(&self.name(EPS))?;
        let eps = eps.ok_or_else(|| header.fail(&self.name(EPS), "the key is missing"))?;
        Ok(ModelConfig {
            family: self.family,
            layers: self.needed("block_count")?,
            width,
            heads,
            kv_heads,
            head_dim,
            mlp_width: self.needed("feed_forward_length")?,
            vocabulary,
            norm_eps: eps as f32,
            rope: Rope { theta, style, scaling: self.scaling()? },
            context: self.needed("context_length")?,
            // A file without an output projection is how GGUF says that the embedding is used.
            tied: !header.tensors().iter().any(|tensor| tensor.name == "output.weight"),
            attention_bias: self.family == Family::Qwen2,
            qk_norm: self.family == Family::Qwen3,
            end_ids,
            begin_id,
            add_begin,
        })
    }

    fn head_dim(&self, width: usize, heads: usize) -> Result<usize, Error> {
        const KEY: &str = "attention.key_length";
        let head_dim = match self.count(KEY)? {
            Some(explicit) => explicit,
            // The format's own default, whatever the architecture.
            None if width.is_multiple_of(heads) => width / heads,
            None => {
                let problem = format!(
                    "the key is missing, and {heads} heads do not divide the width {width}"
                );
                return Err(self.header.fail(&self.name(KEY), problem));
            }
        };
        for key in ["attention.value_length", "rope.dimension_count"] {
            if let Some(other) = self.count(key)?
                && other != head_dim
            {
                let problem =
                    format!("it is {other}, but a head has {head_dim} elements; both must be one");
                return Err(self.header.fail(&self.name(key), problem));
            }
        }
        Ok(head_dim)
    }

    fn vocabulary(&self) -> Result<usize, Error> {
        const TOKENS: &str = "tokenizer.ggml.tokens";
        let embedding = self.header.tensors().iter().find(|t| t.name == "token_embd.weight");
        let from_tokens = self.header.texts(TOKENS)?.map(|tokens| tokens.len());
        let explicit = self.count("vocab_size")?;
        let rows = embedding.and_then(|tensor| tensor.shape.first().copied());
        match explicit.or(rows).or(from_tokens) {
            Some(0) | None => Err(self
                .header
                .fail(&self.name("vocab_size"), "nothing says how many tokens there are")),
            Some(count) => match from_tokens {
                Some(tokens) if tokens > count => {
                    let problem = format!("there are {tokens} tokens, but the model has {count}");
                    Err(self.header.fail(TOKENS, problem))
                }
                _ => Ok(count),
            },
        }
    }

    fn scaling(&self) -> Result<RopeScaling, Error> {
        let header = self.header;
        let factor_key = self.name("rope.scaling.factor");
        let factor = match header.number(&factor_key)? {
            None => header.number(&self.name("rope.scale_linear"))?,
            given => given,
        };
        let type_key = self.name("rope.scaling.type");
        match header.text(&type_key)? {
            Some("none") => Ok(RopeScaling::None),
            // A factor without a type is linear scaling: the format's first way to write it.
            None if factor.is_none() => Ok(RopeScaling::None),
            None | Some("linear") => match factor {
                Some(factor) if factor > 0.0 => Ok(RopeScaling::Linear { factor }),
                Some(factor) => {
                    Err(header.fail(&factor_key, format!("it is {factor}, not a positive number")))
                }
                None => Err(header.fail(&factor_key, "the key is missing")),
            },
            Some(other) => {
                let problem = format!(
                    "`{other}` scaling is not supported; none and linear are, and factors in \
                     `rope_freqs.weight`"
                );
                Err(header.fail(&type_key, problem))
            }
        }
    }

    fn refuse_unsupported(&self) -> Result<(), Error> {
        let header = self.header;
        for key in ["attention.sliding_window", "expert_count"] {
            let name = self.name(key);
            let what = if key == "expert_count" { "experts" } else { "sliding windows" };
            match header.get(&name) {
                None => {}
                Some(Value::Array(_)) => {
                    return Err(header.fail(&name, format!("{what} are not supported")));
                }
                Some(_) => {
                    if let Some(count) = header.count(&name)?.filter(|&count| count > 0) {
                        return Err(
                            header.fail(&name, format!("it is {count}; {what} are not supported"))
                        );
                    }
                }
            }
        }
        if let Some(kind) = header.text("general.type")?
            && kind != "model"
        {
            return Err(header.fail("general.type", format!("it is `{kind}`, not `model`")));
        }
        if let Some(count) = header.count("split.count")?.filter(|&count| count > 1) {
            let problem = format!("the model is split into {count} files, which is not supported");
            return Err(header.fail("split.count", problem));
        }
        let causal = self.name("attention.causal");
        if header.boolean(&causal)? == Some(false) {
            return Err(header.fail(&causal, "attention that is not causal is not supported"));
        }
        let factor = self.name("rope.scaling.attn_factor");
        if let Some(x) = header.number(&factor)?
            && x != 1.0
        {
            return Err(header.fail(&factor, format!("it is {x}; only 1 is supported")));
        }
        Ok(())
    }
}
