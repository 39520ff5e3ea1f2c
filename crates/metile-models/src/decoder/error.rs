//! What can go wrong between a checkpoint and its next token.

use metile::TensorError;

/// Why a model could not be loaded or run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The checkpoint could not be read.
    #[error(transparent)]
    Checkpoint(#[from] crate::Error),
    /// An option that no model, or not this one, can follow.
    #[error("{0}")]
    Option(String),
    /// More positions are asked for than there are.
    #[error(
        "the prompt has {prompt} tokens and {asked} more may follow, {} in all, but the context has {context}",
        prompt.saturating_add(*asked)
    )]
    Context {
        /// Tokens of the prompt.
        prompt: usize,
        /// Tokens asked for after it.
        asked: usize,
        /// Positions of the context.
        context: usize,
    },
    /// The context filled up while text was generated.
    #[error(
        "the context of {context} tokens is full: {prompt} of the prompt and {generated} generated"
    )]
    Full {
        /// Tokens of the prompt.
        prompt: usize,
        /// Tokens generated.
        generated: usize,
        /// Positions of the context.
        context: usize,
    },
    /// There is nothing to continue.
    #[error("the prompt has no tokens")]
    NoPrompt,
    /// An id that the vocabulary does not have.
    #[error("token id {id} at place {place} is not in the vocabulary of {vocabulary}")]
    Id {
        /// The id.
        id: u32,
        /// Its place in the prompt, from 0.
        place: usize,
        /// Size of the vocabulary.
        vocabulary: usize,
    },
    /// The model computed no usable logits.
    #[error("the logits after {position} tokens hold NaN; no token can be chosen")]
    NotANumber {
        /// Tokens before.
        position: usize,
    },
    /// A kernel was refused or failed.
    #[error(transparent)]
    Kernel(#[from] metile::Error),
    /// Memory on the device.
    #[error(transparent)]
    Memory(#[from] TensorError),
}
