//! What models of a study read: documents as ids, synthetic ids, the checkpoint and what it is.

use crate::fingerprint;
use crate::schema::{Checkpoint, Document, FileHash, Geometry, Scope, Sequence, WeightStorage};
use crate::study::OpenError;
use metile_models::checkpoint::write::PROVENANCE;
use metile_models::config::ModelConfig;
use metile_models::tokenizer::Tokenizer;
use std::path::{Path, PathBuf};

/// A prompt, and what follows it in its text.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// Its name in the report.
    pub name: String,
    /// The ids.
    pub ids: Vec<u32>,
    /// The ids behind them, for teacher-forced gates; as many as the study generates, less one.
    pub next: Vec<u32>,
}

impl Prompt {
    /// The prompt's sequence.
    pub fn sequence(&self) -> Sequence {
        Sequence::new(&self.name, "prompt", self.ids.clone())
    }
}

fn missing(problem: impl std::fmt::Display) -> OpenError {
    OpenError::Missing(problem.to_string())
}

/// A pinned text, tokenized.
#[derive(Clone, Debug)]
pub struct Text {
    /// Where it is.
    pub path: PathBuf,
    /// What it holds.
    pub file: FileHash,
    /// All its ids.
    pub ids: Vec<u32>,
}

impl Text {
    /// Reads and tokenizes the file at `path`, with no chat template and no special token.
    ///
    /// # Errors
    /// If it can't be read or is no UTF-8.
    pub fn read(path: &Path, tokenizer: &Tokenizer) -> Result<Text, OpenError> {
        let shown = shown(path);
        let file = fingerprint::of_file(path, shown.clone())
            .map_err(|error| missing(format!("{}: {error}", path.display())))?;
        let text = std::fs::read_to_string(path)
            .map_err(|error| missing(format!("{}: {error}", path.display())))?;
        let mut ids = tokenizer.encode(&text).map_err(missing)?;
        // A token that begins texts is a special one.
        if ids.first().is_some_and(|&id| tokenizer.is_control(id)) {
            ids.remove(0);
        }
        Ok(Text { path: path.to_path_buf(), file, ids })
    }

    /// The first `tokens` ids as a prompt, with what follows for `outputs` forced steps.
    ///
    /// # Errors
    /// If the text is shorter.
    pub fn prompt(&self, name: &str, tokens: usize, forced: usize) -> Result<Prompt, OpenError> {
        let needed = tokens + forced;
        if self.ids.len() < needed {
            return Err(missing(format!(
                "{}: {} tokens; a prompt of {tokens} with {forced} teacher-forced ones needs {needed}",
                self.path.display(),
                self.ids.len()
            )));
        }
        Ok(Prompt {
            name: name.to_owned(),
            ids: self.ids[..tokens].to_vec(),
            next: self.ids[tokens..needed].to_vec(),
        })
    }

    /// As a report names it.
    pub fn document(&self, scope: Scope, sequence: &str) -> Document {
        Document { scope, file: self.file.clone(), sequence: sequence.to_owned() }
    }
}

/// Refuses two texts that are not two: the same path, the same content, or the same ids.
///
/// # Errors
/// Which of the three.
pub fn check_different(a: &Text, b: &Text) -> Result<(), OpenError> {
    let (one, other) = (a.path.canonicalize(), b.path.canonicalize());
    let same = |what: &str| {
        Err(missing(format!(
            "{} and {} have the same {what}: the held-out document must be another one",
            a.path.display(),
            b.path.display()
        )))
    };
    if a.path == b.path || matches!((one, other), (Ok(a), Ok(b)) if a == b) {
        return same("path");
    }
    if a.file.sha256 == b.file.sha256 {
        return same("content");
    }
    let shared = a.ids.len().min(b.ids.len());
    if a.ids[..shared] == b.ids[..shared] {
        return same("tokens");
    }
    Ok(())
}

/// A path as a report shows it: within the project where it is relative, else its last part.
fn shown(path: &Path) -> String {
    match path.is_relative() {
        true => path.display().to_string(),
        false => path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned()),
    }
}

/// Ids that say nothing, `seed`'s, the same everywhere.
pub fn synthetic_ids(seed: u64, tokens: usize, vocabulary: usize) -> Vec<u32> {
    let mut random = crate::random::Random::named(seed, &["prompt", &tokens.to_string()]);
    (0..tokens).map(|_| random.below(vocabulary as u64) as u32).collect()
}

/// What a checkpoint is, as its folder or file says.
#[derive(Clone, Debug)]
pub struct Origin {
    name: String,
    /// Whether its weights are synthetic.
    pub synthetic: bool,
    source: String,
    files: Vec<FileHash>,
    tokenizer: FileHash,
}

impl Origin {
    /// Reads what there is to say of the checkpoint at `path`.
    ///
    /// # Errors
    /// If a file can't be read.
    pub fn read(path: &Path) -> Result<Origin, OpenError> {
        let file = |path: &Path| {
            let name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into());
            fingerprint::of_file(path, name)
                .map_err(|error| missing(format!("{}: {error}", path.display())))
        };
        let name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        if !path.is_dir() {
            let this = file(path)?;
            let source = format!("the file {name}");
            return Ok(Origin {
                name,
                synthetic: false,
                source,
                tokenizer: this.clone(),
                files: vec![this],
            });
        }
        let mut names: Vec<PathBuf> = std::fs::read_dir(path)
            .map_err(|error| missing(format!("{}: {error}", path.display())))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| {
                path.extension().is_some_and(|e| e == "safetensors" || e == "json" || e == "gguf")
            })
            .collect();
        names.sort();
        let files = names.iter().map(|path| file(path)).collect::<Result<Vec<_>, _>>()?;
        let tokenizer = files.iter().find(|f| f.path == "tokenizer.json").cloned();
        let tokenizer = tokenizer.unwrap_or_else(|| FileHash {
            path: "none: ids alone".to_owned(),
            sha256: fingerprint::of_bytes(b""),
            bytes: 0,
        });
        let (synthetic, source) = provenance(path)?;
        Ok(Origin { name, synthetic, source, files, tokenizer })
    }

    /// As a report has it.
    pub fn checkpoint(
        &self,
        config: &ModelConfig,
        dtype: &str,
        weight_bytes: u64,
        storage: Vec<WeightStorage>,
    ) -> Checkpoint {
        Checkpoint {
            name: self.name.clone(),
            synthetic: self.synthetic,
            source: self.source.clone(),
            files: self.files.clone(),
            tokenizer: self.tokenizer.clone(),
            geometry: Geometry {
                family: config.family.name().to_owned(),
                layers: config.layers as u64,
                hidden: config.width as u64,
                intermediate: config.mlp_width as u64,
                heads: config.heads as u64,
                kv_heads: config.kv_heads as u64,
                head_dim: config.head_dim as u64,
                vocabulary: config.vocabulary as u64,
                tied: config.tied,
            },
            dtype: dtype.to_owned(),
            weight_bytes,
            storage,
        }
    }
}

/// Whether the weights in `folder` are synthetic, and where they come from.
fn provenance(folder: &Path) -> Result<(bool, String), OpenError> {
    let path = folder.join(PROVENANCE);
    if !path.exists() {
        return Ok((false, "a folder that does not say where its weights come from".to_owned()));
    }
    let text = std::fs::read_to_string(&path)
        .map_err(|error| missing(format!("{}: {error}", path.display())))?;
    let value: serde_json::Value = serde_json::from_str(&text)
        .map_err(|error| missing(format!("{}: {error}", path.display())))?;
    let field = |name: &str| match &value[name] {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match value["weights"].as_str() {
        Some("synthetic") => Ok((
            true,
            format!(
                "synthetic weights: geometry {}, {} layers, seed {}",
                field("geometry"),
                field("layers"),
                field("seed")
            ),
        )),
        Some("converted") => Ok((
            value["source_provenance"]["weights"] == "synthetic",
            format!(
                "converted from {} to {}, {} of {} values rounded",
                field("source"),
                field("dtype"),
                field("rounded_values"),
                field("values")
            ),
        )),
        _ => Err(missing(format!(
            "{}: `weights` is neither synthetic nor converted",
            path.display()
        ))),
    }
}
