//! RoPE in Hugging Face configurations: `rope_theta` with `rope_scaling`, or `rope_parameters`.

use super::RopeScaling;
use crate::Error;
use crate::json::Keys;

/// The base where a configuration names none: the default of every known architecture.
const DEFAULT_THETA: f64 = 10_000.0;

/// Base and scaling of the configuration `keys`, from whichever generation of keys it has.
pub(super) fn read(keys: &Keys) -> Result<(f64, RopeScaling), Error> {
    let outer_theta = keys.number("rope_theta")?;
    let (key, settings) = match (keys.object("rope_parameters")?, keys.object("rope_scaling")?) {
        (Some(_), Some(_)) => {
            return Err(
                keys.fail("rope_scaling", "`rope_parameters` is there too; one of them is needed")
            );
        }
        (Some(new), None) => ("rope_parameters", new),
        (None, Some(old)) => ("rope_scaling", old),
        (None, None) => return Ok((outer_theta.unwrap_or(DEFAULT_THETA), RopeScaling::None)),
    };
    let inner_theta = settings.number("rope_theta")?;
    if let (Some(outer), Some(inner)) = (outer_theta, inner_theta)
        && outer != inner
    {
        let problem = format!("it is {outer}, but `{key}.rope_theta` is {inner}");
        return Err(keys.fail("rope_theta", problem));
    }
    let theta = inner_theta.or(outer_theta).unwrap_or(DEFAULT_THETA);
    Ok((theta, scaling(keys, &settings)?))
}

fn scaling(keys: &Keys, settings: &Keys) -> Result<RopeScaling, Error> {
    let (new, old) = (settings.text("rope_type")?, settings.text("type")?);
    if let (Some(new), Some(old)) = (new, old)
        && new != old
    {
        return Err(settings.fail("rope_type", format!("it is `{new}`, but `type` is `{old}`")));
    }
    let kind = new.or(old);
    let own: &[&str] = match kind.unwrap_or("default") {
        "default" => &[],
        "linear" => &["factor"],
        "llama3" => {
            &["factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"]
        }
        other => {
            let problem =
                format!("`{other}` scaling is not supported; default, linear and llama3 are");
            return Err(settings.fail("rope_type", problem));
        }
    };
    for name in settings.names() {
        let shared = ["rope_type", "type", "rope_theta", "partial_rotary_factor"].contains(&name);
        if !shared && !own.contains(&name) {
            let kind = kind.unwrap_or("default");
            return Err(settings.fail(name, format!("`{kind}` scaling does not have this setting")));
        }
    }
    if let Some(part) = settings.number("partial_rotary_factor")?
        && part != 1.0
    {
        let problem = format!("it is {part}; only whole heads are turned");
        return Err(settings.fail("partial_rotary_factor", problem));
    }
    let positive = |key: &str| match settings.number(key)? {
        Some(x) if x > 0.0 => Ok(x),
        Some(x) => Err(settings.fail(key, format!("it is {x}, not a positive number"))),
        None => Err(settings.fail(key, "the setting is missing")),
    };
    match kind.unwrap_or("default") {
        "linear" => Ok(RopeScaling::Linear { factor: positive("factor")? }),
        "llama3" => {
            let (low, high) = (positive("low_freq_factor")?, positive("high_freq_factor")?);
            if low >= high {
                let problem = format!("it is {high}, not above `low_freq_factor`, {low}");
                return Err(settings.fail("high_freq_factor", problem));
            }
            const ORIGINAL: &str = "original_max_position_embeddings";
            let original_context = match settings.count(ORIGINAL)? {
                Some(_) => settings.needed_count(ORIGINAL)?,
                None => keys.needed_count(ORIGINAL)?,
            };
            let factor = positive("factor")?;
            Ok(RopeScaling::Llama3 { factor, low, high, original_context })
        }
        _ => Ok(RopeScaling::None),
    }
}
