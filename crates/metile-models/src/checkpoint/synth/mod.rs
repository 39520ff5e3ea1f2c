//! Checkpoints of a known model's sizes with random weights.
//!
//! Speed does not depend on what weights say, so a study can be made where the model itself is not to be
//! had. The weights are made row by row while they are written: memory is bounded by a block of rows.

mod geometry;
mod quantize;
mod weights;

use std::path::Path;

use metile::prelude::bf16;
use metile_ir::DType;
use serde_json::json;

use super::roles::{LayerRole, Naming, Role, shape};
use super::write::{NewFolder, PROVENANCE, Planned, WEIGHTS, write_safetensors};
use crate::Error;
use crate::config::ModelConfig;
use crate::tokenizer::Tokenizer;
pub use geometry::Geometry;
pub use quantize::AffineLayout;
use quantize::Array;
use weights::{Distribution, Generator};

/// Elements that are made at a time, at least a row.
const BLOCK: usize = 1 << 18;

/// What to synthesize.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// What the sizes are called, as of [`Geometry::name`].
    pub geometry: &'a str,
    /// The model's sizes, as of [`Geometry::config`].
    pub config: &'a ModelConfig,
    /// MLX's affine layout for matrices; else bf16.
    pub quantize: Option<AffineLayout>,
    /// One seed, one checkpoint.
    pub seed: u64,
    /// The tokenizer that goes with it, with the configuration of its own checkpoint.
    pub tokenizer: (&'a Tokenizer, &'a ModelConfig),
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// SHA-256 of the weights' file.
    pub weights_sha256: String,
    /// SHA-256 of `tokenizer.json`.
    pub tokenizer_sha256: String,
    /// Bytes of tensors.
    pub bytes: u64,
}

/// A tensor to write, and what of.
struct Part {
    role: Role,
    number: u64,
    array: Option<Array>,
}

/// Writes the checkpoint to `out`, a folder that does not exist yet. `progress` is told tensors written and
/// tensors in all.
///
/// # Errors
/// If there is something at `out`, the tokenizer has more tokens than the model or is
/// no byte-level BPE, or a file can't be written.
pub fn synthesize(
    request: &Request<'_>,
    out: &Path,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Written, Error> {
    let config = configuration(request, out)?;
    let folder = NewFolder::create(out)?;
    let (tokenizer, _) = request.tokenizer;
    let tokenizer_sha256 = folder.json("tokenizer.json", &tokenizer.to_json()?)?;
    folder.json("tokenizer_config.json", &tokenizer.config_json(&config, None))?;
    let quantized = request.quantize.map(|layout| (layout.bits, layout.group));
    folder.json("config.json", &config.to_hugging_face("bfloat16", quantized))?;
    let (parts, planned) = plan(&config, request.quantize);
    let format = if request.quantize.is_some() { "mlx" } else { "pt" };
    let mut bytes = 0;
    let weights_sha256 =
        write_safetensors(&folder.file(WEIGHTS), &[("format", format)], &planned, |n, sink| {
            progress(n, parts.len());
            let part = &parts[n];
            let columns = shape(&config, part.role).and_then(|s| s.last().copied()).unwrap_or(1);
            let distribution = Distribution::of(&config, part.role);
            let generator = Generator::new(request.seed, part.number, distribution);
            let rows =
                shape(&config, part.role).map_or(0, |s| s.iter().product::<usize>() / columns);
            let at_a_time = (BLOCK / columns).max(1);
            let mut values = vec![0.0; at_a_time.min(rows) * columns];
            for first in (0..rows).step_by(at_a_time) {
                let values = &mut values[..at_a_time.min(rows - first) * columns];
                generator.fill((first * columns) as u64, values);
                let block: Vec<u8> = match (part.array, request.quantize) {
                    (Some(array), Some(layout)) => {
                        values.chunks(columns).flat_map(|row| layout.array(row, array)).collect()
                    }
                    _ => values.iter().flat_map(|&v| bf16::from_f32(v).to_le_bytes()).collect(),
                };
                bytes += block.len() as u64;
                sink(&block)?;
            }
            Ok(())
        })?;
    progress(parts.len(), parts.len());
    let written = Written { weights_sha256, tokenizer_sha256, bytes };
    folder.json(
        PROVENANCE,
        &json!({
            "weights": "synthetic",
            "geometry": request.geometry,
            "layers": config.layers,
            "seed": request.seed,
            "quantize": request.quantize.map(AffineLayout::name),
            "weights_sha256": written.weights_sha256,
            "tokenizer_sha256": written.tokenizer_sha256,
        }),
    )?;
    folder.finish()?;
    Ok(written)
}

/// The request's configuration, with the tokens that begin and end the tokenizer's texts.
fn configuration(request: &Request<'_>, out: &Path) -> Result<ModelConfig, Error> {
    let refuse = |problem: String| Error::Output { path: out.to_path_buf(), problem };
    let mut config = request.config.clone();
    let (_, source) = request.tokenizer;
    if source.vocabulary > config.vocabulary {
        let (tokens, most) = (source.vocabulary, config.vocabulary);
        let problem = format!("the tokenizer has {tokens} tokens, the model's vocabulary {most}");
        return Err(refuse(problem));
    }
    config.end_ids.clone_from(&source.end_ids);
    config.begin_id = source.begin_id;
    Ok(config)
}

/// Every tensor in the file's order, and where its values come from.
fn plan(config: &ModelConfig, quantize: Option<AffineLayout>) -> (Vec<Part>, Vec<Planned>) {
    let layers = (0..config.layers)
        .flat_map(|n| LayerRole::ALL.into_iter().map(move |role| Role::Layer(n, role)));
    let roles = [Role::Embedding].into_iter().chain(layers).chain([Role::OutputNorm, Role::Output]);
    let (mut parts, mut planned) = (Vec::new(), Vec::new());
    for (number, role) in (0..).zip(roles) {
        let Some(shape) = shape(config, role) else { continue };
        let name = Naming::HuggingFace.name(role);
        let (Some(layout), &[rows, columns]) = (quantize, &shape[..]) else {
            parts.push(Part { role, number, array: None });
            planned.push(Planned { name, dtype: DType::BF16, shape });
            continue;
        };
        for (array, suffix) in Array::ALL {
            let (dtype, width) = match array {
                Array::Integers => (DType::U32, columns * layout.bits / 32),
                Array::Scales | Array::Biases => (DType::BF16, columns / layout.group),
            };
            let module = name.strip_suffix("weight").unwrap_or(&name);
            parts.push(Part { role, number, array: Some(array) });
            planned.push(Planned {
                name: format!("{module}{suffix}"),
                dtype,
                shape: vec![rows, width],
            });
        }
    }
    (parts, planned)
}
