//! `config.json` and its neighbours, as Transformers writes them.

use std::path::Path;

use super::{Family, ModelConfig, Rope, RopeStyle, Size, rope_settings};
use crate::Error;
use crate::json::{Keys, shown};
use crate::tokenizer::hugging_face::Marks;

/// The `head_dim` of a Qwen3 configuration that names none.
const QWEN3_HEAD_DIM: usize = 128;
/// The `rms_norm_eps` of a configuration that names none, in every known architecture.
const DEFAULT_EPS: f64 = 1e-6;

/// Weights in MLX's affine layout, as `config.json` declares them.
pub(crate) struct Quantization {
    /// For modules without settings of their own.
    pub(crate) default: AffineSettings,
    /// For the modules named; `None`: not quantized.
    pub(crate) modules: Vec<(String, Option<AffineSettings>)>,
}

/// Bits of an element and elements of a group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AffineSettings {
    pub(crate) bits: usize,
    pub(crate) group: usize,
}

/// The configuration in `folder`, what it says of quantization, and notes for the user.
pub(crate) fn read(
    folder: &Path,
) -> Result<(ModelConfig, Option<Quantization>, Vec<String>), Error> {
    let keys = Keys::read(&folder.join("config.json"))?;
    let family = family(&keys)?;
    refuse_unsupported(&keys, family)?;
    let mut notes = Vec::new();
    let generation = Keys::read_if_present(&folder.join("generation_config.json"))?;
    let marks = Marks::read(folder)?;
    let config = config(&keys, family, generation.as_ref(), &marks, &mut notes)?;
    if let Some((key, problem)) = config.inconsistency(|size| {
        let key = match size {
            Size::KvHeads => "num_key_value_heads",
            Size::HeadDim => "head_dim",
            Size::Theta => "rope_theta",
            Size::NormEps => "rms_norm_eps",
        };
        key.to_owned()
    }) {
        return Err(keys.fail(&key, problem));
    }
    Ok((config, quantization(&keys)?, notes))
}

fn family(keys: &Keys) -> Result<Family, Error> {
    let Some(name) = keys.text("model_type")? else {
        return Err(keys
            .fail("model_type", format!("the setting is missing; known are {}", Family::known())));
    };
    Family::from_name(name).ok_or_else(|| {
        let problem = format!("architecture `{name}` is not supported; {} are", Family::known());
        keys.fail("model_type", problem)
    })
}

fn config(
    keys: &Keys,
    family: Family,
    generation: Option<&Keys>,
    marks: &Marks,
    notes: &mut Vec<String>,
) -> Result<ModelConfig, Error> {
    let width = keys.needed_count("hidden_size")?;
    let heads = keys.needed_count("num_attention_heads")?;
    let kv_heads = match keys.count("num_key_value_heads")? {
        Some(_) => keys.needed_count("num_key_value_heads")?,
        None => heads,
    };
    let head_dim = match keys.count("head_dim")? {
        Some(_) => keys.needed_count("head_dim")?,
        None if family == Family::Qwen3 => QWEN3_HEAD_DIM,
        None if width.is_multiple_of(heads) => width / heads,
        None => {
            let problem = format!(
                "the setting is missing, and {heads} heads do not divide the hidden size {width}"
            );
            return Err(keys.fail("head_dim", problem));
        }
    };
    let vocabulary = keys.needed_count("vocab_size")?;
    let mut end_ids = keys.ids("eos_token_id")?;
    if let Some(generation) = generation {
        end_ids.extend(generation.ids("eos_token_id")?);
    }
    end_ids.extend(marks.end_id);
    super::settle_end_ids(&mut end_ids, vocabulary, notes);
    let begin_id = keys.ids("bos_token_id")?.first().copied();
    let begin_id = marks.begin_id.or(begin_id);
    if marks.add_begin && begin_id.is_none() {
        return Err(keys.fail(
            "bos_token_id",
            "the tokenizer adds the token that begins a text, but none is named",
        ));
    }
    let (theta, scaling) = rope_settings::read(keys)?;
    Ok(ModelConfig {
        family,
        layers: keys.needed_count("num_hidden_layers")?,
        width,
        heads,
        kv_heads,
        head_dim,
        mlp_width: keys.needed_count("intermediate_size")?,
        vocabulary,
        norm_eps: keys.number("rms_norm_eps")?.unwrap_or(DEFAULT_EPS) as f32,
        rope: Rope { theta, style: RopeStyle::Split, scaling },
        context: keys.needed_count("max_position_embeddings")?,
        tied: keys.boolean("tie_word_embeddings")?.unwrap_or(false),
        attention_bias: family == Family::Qwen2,
        qk_norm: family == Family::Qwen3,
        end_ids,
        begin_id,
        add_begin: marks.add_begin,
    })
}

/// Refuses settings that change what the decoder computes and that it does not have.
fn refuse_unsupported(keys: &Keys, family: Family) -> Result<(), Error> {
    if let Some(name) = keys.text("hidden_act")?
        && !["silu", "swish"].contains(&name)
    {
        return Err(keys.fail("hidden_act", format!("`{name}` is not supported; `silu` is")));
    }
    for key in ["attention_bias", "mlp_bias"] {
        if keys.boolean(key)? == Some(true) && !(key == "attention_bias" && family == Family::Qwen2)
        {
            let problem = format!("{family} models with these biases are not supported");
            return Err(keys.fail(key, problem));
        }
    }
    if let Some(part) = keys.number("partial_rotary_factor")?
        && part != 1.0
    {
        let problem = format!("it is {part}; only whole heads are turned");
        return Err(keys.fail("partial_rotary_factor", problem));
    }
    sliding_window(keys, family)?;
    if let Some(other) = keys.object("quantization_config")?
        && let Some(method) = other.text("quant_method")?
    {
        let problem =
            format!("`{method}` weights are not supported; MLX's affine layout and GGUF are");
        return Err(other.fail("quant_method", problem));
    }
    Ok(())
}

fn sliding_window(keys: &Keys, family: Family) -> Result<(), Error> {
    if let Some(types) = keys.get("layer_types") {
        let Some(list) = types.as_array() else {
            return Err(keys.fail("layer_types", format!("it is {}, not a list", shown(types))));
        };
        if let Some(odd) = list.iter().find(|kind| kind.as_str() != Some("full_attention")) {
            let problem = format!("{} layers are not supported; `full_attention` is", shown(odd));
            return Err(keys.fail("layer_types", problem));
        }
    }
    let Some(window) = keys.get("sliding_window") else {
        if keys.boolean("use_sliding_window")? == Some(true) {
            let problem = "sliding windows are not supported";
            return Err(keys.fail("use_sliding_window", problem));
        }
        return Ok(());
    };
    let in_use = match keys.boolean("use_sliding_window")? {
        Some(in_use) => in_use,
        // Qwen's architectures have windows off unless this setting turns them on.
        None => family == Family::Llama,
    };
    if in_use {
        let problem = format!("a sliding window, here of {}, is not supported", shown(window));
        return Err(keys.fail("sliding_window", problem));
    }
    Ok(())
}

fn quantization(keys: &Keys) -> Result<Option<Quantization>, Error> {
    let Some(settings) = keys.object("quantization")? else { return Ok(None) };
    let default = affine_settings(&settings)?;
    let mut modules = Vec::new();
    for name in settings.names().filter(|name| !["bits", "group_size", "mode"].contains(name)) {
        let own = match settings.get(name) {
            Some(serde_json::Value::Bool(false)) => None,
            Some(serde_json::Value::Bool(true)) => Some(default),
            _ => match settings.object(name)? {
                Some(own) => Some(affine_settings(&own)?),
                None => continue,
            },
        };
        modules.push((name.to_owned(), own));
    }
    Ok(Some(Quantization { default, modules }))
}

fn affine_settings(keys: &Keys) -> Result<AffineSettings, Error> {
    if let Some(mode) = keys.text("mode")?
        && mode != "affine"
    {
        return Err(keys.fail("mode", format!("`{mode}` is not supported; `affine` is")));
    }
    let (bits, group) = (keys.needed_count("bits")?, keys.needed_count("group_size")?);
    if ![4, 8].contains(&bits) {
        return Err(keys.fail("bits", format!("{bits} bits are not supported; 4 and 8 are")));
    }
    if ![32, 64, 128].contains(&group) {
        let problem = format!("groups of {group} are not supported; of 32, 64 and 128 are");
        return Err(keys.fail("group_size", problem));
    }
    Ok(AffineSettings { bits, group })
}
