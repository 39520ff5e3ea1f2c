//! What can go wrong between a path and a model.

use std::path::PathBuf;

/// Why a checkpoint, or a part of one, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried, as "open" or "read".
        action: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// There is no checkpoint at a path.
    #[error("{}: {problem}", path.display())]
    NotACheckpoint {
        /// The path given.
        path: PathBuf,
        /// What was looked for.
        problem: String,
    },
    /// A GGUF file breaks its format, or holds what is not supported.
    #[error("{}: {field}, at byte {offset}: {problem}", path.display())]
    Gguf {
        /// The file.
        path: PathBuf,
        /// The field of the header.
        field: String,
        /// Where the field starts in the file.
        offset: u64,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// A safetensors file breaks its format, or holds what is not supported.
    #[error("{}: {field}: {problem}", path.display())]
    Safetensors {
        /// The file.
        path: PathBuf,
        /// The tensor or the field of the header.
        field: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// A JSON file cannot be read as what it should be.
    #[error("{}: {problem}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong, with line and column where the parser gives them.
        problem: String,
    },
    /// A setting of a model is missing, contradicts another, or is not supported.
    #[error("{}: `{key}`: {problem}", path.display())]
    Config {
        /// The file that holds the setting.
        path: PathBuf,
        /// The setting.
        key: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// A tensor is missing, not known, of another shape, or was never read.
    #[error("{}: tensor `{tensor}`: {problem}", path.display())]
    Tensor {
        /// The checkpoint.
        path: PathBuf,
        /// The tensor's name in the checkpoint.
        tensor: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// A tokenizer is not supported, or does not know what it was asked.
    #[error("{}: tokenizer: {problem}", path.display())]
    Tokenizer {
        /// The file that holds the tokenizer.
        path: PathBuf,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// A chat template is missing, broken, or refused its messages.
    #[error("{}: chat template: {problem}", path.display())]
    ChatTemplate {
        /// The file that holds the template.
        path: PathBuf,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// A sampling setting has no meaning.
    #[error("{setting} is {value}: {allowed}")]
    SamplingSetting {
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// Logits that no token can be drawn from.
    #[error("{problem}")]
    Logits {
        /// What is wrong with them.
        problem: String,
    },
    /// A model on the Hugging Face hub, or in its local cache, cannot be had.
    #[error("model `{id}`: {problem}")]
    Hub {
        /// The model's id.
        id: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// A checkpoint cannot be written.
    #[error("{}: {problem}", path.display())]
    Output {
        /// Where it was to be.
        path: PathBuf,
        /// What is in the way, and what would be right.
        problem: String,
    },
    /// A geometry has no such model.
    #[error("{problem}")]
    Geometry {
        /// What was asked for, and what there is.
        problem: String,
    },
    /// A model does not fit the memory.
    #[error("{problem}")]
    Memory {
        /// What is needed, what there is, and what would need less.
        problem: String,
    },
}
