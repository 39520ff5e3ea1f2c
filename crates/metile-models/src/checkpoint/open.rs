//! From a path to the tensors of a model, each with its role.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use metile_ir::{DType, Format};

use super::roles::{LayerRole, Naming, Role, shape};
use super::{Checkpoint, Held, Part, Source, TensorInfo, affine, gguf, sharded};
use crate::Error;
use crate::config::{self, ModelConfig};

pub(super) fn open(path: &Path) -> Result<Checkpoint, Error> {
    let io = |action| move |source| Error::Io { path: path.to_path_buf(), action, source };
    let metadata = std::fs::metadata(path).map_err(io("open"))?;
    let extension = path.extension().and_then(|extension| extension.to_str());
    if !metadata.is_dir() {
        return match extension {
            Some("gguf") => open_gguf(path),
            Some("safetensors") => {
                let folder = path.parent().unwrap_or(Path::new(""));
                open_hugging_face(path, folder, &[path.to_path_buf()], None)
            }
            _ => {
                Err(not_one(path, "the file's name ends neither with .gguf nor with .safetensors"))
            }
        };
    }
    let files = sharded::find(path)?;
    match files {
        sharded::Files::Gguf(file) => open_gguf(&file),
        sharded::Files::Safetensors { files, index } => {
            open_hugging_face(path, path, &files, index.as_ref())
        }
    }
}

pub(super) fn not_one(path: &Path, problem: impl Into<String>) -> Error {
    Error::NotACheckpoint { path: path.to_path_buf(), problem: problem.into() }
}

/// A file and its length.
pub(super) fn open_file(path: &Path) -> Result<(File, u64), Error> {
    let io = |source| Error::Io { path: path.to_path_buf(), action: "open", source };
    // Asked before it is opened: to open a pipe waits for who writes to it.
    if !std::fs::metadata(path).map_err(io)?.is_file() {
        return Err(not_one(path, "it is not a regular file"));
    }
    let file = File::open(path).map_err(io)?;
    let length = file.metadata().map_err(io)?.len();
    Ok((file, length))
}

fn open_gguf(path: &Path) -> Result<Checkpoint, Error> {
    let (file, length) = open_file(path)?;
    let header = gguf::Header::read(BufReader::new(&file), length, path)?;
    let (config, notes) = ModelConfig::from_gguf(&header)?;
    let infos = header.tensors().iter().map(|tensor| TensorInfo {
        name: tensor.name.clone(),
        format: tensor.format,
        shape: tensor.shape.clone(),
        bytes: tensor.bytes,
        parts: vec![Part { file: 0, offset: tensor.offset, bytes: tensor.bytes }],
    });
    let (tensors, by_role) = assign(path, &config, Naming::Gguf, infos.collect())?;
    Ok(Checkpoint {
        path: path.to_path_buf(),
        config,
        tensors,
        by_role,
        files: vec![(path.to_path_buf(), Mutex::new(file))],
        source: Source::Gguf(Box::new(header)),
        notes,
    })
}

fn open_hugging_face(
    path: &Path,
    folder: &Path,
    paths: &[PathBuf],
    index: Option<&sharded::Index>,
) -> Result<Checkpoint, Error> {
    if !folder.join("config.json").is_file() {
        return Err(not_one(path, format!("there is no config.json in {}", folder.display())));
    }
    let (config, quantization, mut notes) = config::hugging_face::read(folder)?;
    let (files, plain) = sharded::tensors(paths, index)?;
    let mut infos = affine::join(path, plain, quantization.as_ref())?;
    infos.retain(|info| {
        let reason = if config.tied && info.name == Naming::HuggingFace.name(Role::Output) {
            "the configuration says that the embedding is the output projection"
        } else if info.name.ends_with(".rotary_emb.inv_freq") {
            "RoPE's frequencies follow from the configuration"
        } else {
            return true;
        };
        notes.push(format!("tensor `{}` is left out: {reason}", info.name));
        false
    });
    let (tensors, by_role) = assign(path, &config, Naming::HuggingFace, infos)?;
    let source = Source::HuggingFace(folder.to_path_buf());
    Ok(Checkpoint { path: path.to_path_buf(), config, tensors, by_role, files, source, notes })
}

/// Gives each tensor its role, and checks that they are those of the configuration.
fn assign(
    path: &Path,
    config: &ModelConfig,
    naming: Naming,
    infos: Vec<TensorInfo>,
) -> Result<(Vec<Held>, HashMap<Role, usize>), Error> {
    let fail = |tensor: &str, problem: String| Error::Tensor {
        path: path.to_path_buf(),
        tensor: tensor.to_owned(),
        problem,
    };
    let mut by_name: BTreeMap<&str, usize> =
        infos.iter().enumerate().map(|(n, info)| (info.name.as_str(), n)).collect();
    let layers = (0..config.layers)
        .flat_map(|n| LayerRole::ALL.into_iter().map(move |role| Role::Layer(n, role)));
    let roles = [Role::Embedding, Role::OutputNorm, Role::Output, Role::RopeFactors];
    let mut by_role = HashMap::new();
    for role in roles.into_iter().chain(layers) {
        let Some(shape) = shape(config, role) else { continue };
        let name = naming.name(role);
        let Some(at) = by_name.remove(name.as_str()) else {
            if role == Role::RopeFactors {
                continue;
            }
            return Err(fail(&name, missing(config, role)));
        };
        let info = &infos[at];
        if info.shape != shape {
            return Err(fail(&name, mismatch(config, role, &info.shape, &shape)));
        }
        if let Some(problem) = wrong_format(role, info) {
            return Err(fail(&name, problem));
        }
        by_role.insert(role, at);
    }
    if let Some((name, _)) = by_name.into_iter().next() {
        return Err(fail(
            name,
            format!(
                "no {} decoder of {} layers with this configuration has such a tensor",
                config.family, config.layers
            ),
        ));
    }
    let held = |info| Held { info, asked_for: false.into() };
    Ok((infos.into_iter().map(held).collect(), by_role))
}

fn missing(config: &ModelConfig, role: Role) -> String {
    match role {
        Role::Output => "it is missing, and the configuration does not say that the embedding is \
                         the output projection (`tie_word_embeddings`)"
            .to_owned(),
        _ => {
            format!("it is missing; a {} decoder of {} layers has it", config.family, config.layers)
        }
    }
}

fn mismatch(config: &ModelConfig, role: Role, found: &[usize], wanted: &[usize]) -> String {
    use LayerRole as L;
    let ModelConfig { width, heads, kv_heads, head_dim, mlp_width, vocabulary, .. } = config;
    let from = match role {
        Role::Embedding | Role::Output => format!("vocabulary {vocabulary}, width {width}"),
        Role::OutputNorm => format!("width {width}"),
        Role::RopeFactors => format!("one per pair of a head of {head_dim}"),
        Role::Layer(_, layer) => match layer {
            L::AttentionNorm | L::MlpNorm => format!("width {width}"),
            L::Query | L::AttentionOutput | L::QueryBias => {
                format!("{heads} heads of {head_dim}, width {width}")
            }
            L::Key | L::Value | L::KeyBias | L::ValueBias => {
                format!("{kv_heads} key/value heads of {head_dim}, width {width}")
            }
            L::QueryNorm | L::KeyNorm => format!("heads of {head_dim}"),
            L::Gate | L::Up | L::Down => format!("MLP width {mlp_width}, width {width}"),
        },
    };
    format!("its shape is {found:?}, but the configuration ({from}) needs {wanted:?}")
}

/// Why `info` cannot be the weights for `role`: vectors are floats, matrices floats or packed.
fn wrong_format(role: Role, info: &TensorInfo) -> Option<String> {
    match info.format {
        Format::Plain(DType::F32) => None,
        // The factors are read on the host, where they become part of the frequencies.
        _ if role == Role::RopeFactors => Some(format!("it holds {}, not f32", info.format)),
        Format::Plain(DType::F16 | DType::BF16) => None,
        Format::Packed(_) if info.shape.len() == 2 => None,
        _ => Some(format!(
            "it holds {}; vectors are f32, f16 or bf16, matrices also packed",
            info.format
        )),
    }
}

/// What a folder lacks to be a checkpoint, judged by names only.
pub(crate) fn missing_files(folder: &Path) -> Option<String> {
    match sharded::find(folder) {
        Err(error) => Some(error.to_string()),
        Ok(sharded::Files::Gguf(_)) => None,
        Ok(sharded::Files::Safetensors { files, .. }) => {
            let lacking = files.iter().find(|file| !file.is_file());
            lacking.map(|file| format!("{} is missing", file.display()))
        }
    }
}
