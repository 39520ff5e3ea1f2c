//! What was computed on: checkpoints, tokenizers, documents and sequences of tokens.

use super::figure::Figure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A file by content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileHash {
    /// Its name, or its path within the project or the checkpoint. Never a path of the machine.
    pub path: String,
    /// SHA-256 of its content, in hexadecimal.
    pub sha256: String,
    /// Its size.
    pub bytes: u64,
}

/// Extents of a model, from which byte counts follow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Geometry {
    /// Family: `llama`, `qwen2`, `qwen3`.
    pub family: String,
    /// Decoder layers.
    pub layers: u64,
    /// Width of the residual stream.
    pub hidden: u64,
    /// Width of the MLP.
    pub intermediate: u64,
    /// Query heads.
    pub heads: u64,
    /// Key and value heads.
    pub kv_heads: u64,
    /// Width of a head.
    pub head_dim: u64,
    /// Tokens.
    pub vocabulary: u64,
    /// Whether the output projection is the embedding.
    pub tied: bool,
}

/// A model's weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// Its name.
    pub name: String,
    /// Whether weights are synthetic: results then hold on synthetic weights.
    pub synthetic: bool,
    /// Where it came from, in words: a package with its version, a hub id, a seed.
    pub source: String,
    /// Its files.
    pub files: Vec<FileHash>,
    /// The tokenizer.
    pub tokenizer: FileHash,
    /// Its extents.
    pub geometry: Geometry,
    /// Type or format of weights: `float32`, `bfloat16`, `q4_1`.
    pub dtype: String,
    /// Bytes of all weights as loaded.
    pub weight_bytes: u64,
    /// Weights that are stored in another form as well.
    pub storage: Vec<WeightStorage>,
}

/// Weights kept in a second form without loss.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WeightStorage {
    /// Who reads this form: `decode_projections`, `vocabulary_head`.
    pub scope: String,
    /// The form: `u32_of_two_bf16`.
    pub form: String,
    /// Values.
    pub values: u64,
    /// Bytes of the original form, which stays allocated.
    pub original_bytes: u64,
    /// Bytes of this form.
    pub stored_bytes: u64,
    /// All values are finite.
    pub finite: bool,
    /// There is an even number of them in every row that is packed.
    pub even_count: bool,
    /// The low 16 bits of all values are 0.
    pub zero_low_bits: bool,
    /// Unpacking gave the same bits.
    pub round_trip: bool,
}

/// What a phase may be taken as evidence for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Candidates are chosen by it; it is no evidence for the one that was chosen.
    Tuning,
    /// What was chosen before, on other inputs.
    HeldOut,
    /// Nothing was chosen.
    Measurement,
}

/// A text that prompts were taken from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// What it was used for.
    pub scope: Scope,
    /// The file, by its path within the project.
    pub file: FileHash,
    /// The sequence of tokens that was its prefix.
    pub sequence: String,
}

/// Tokens, exactly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sequence {
    /// Its name in this report.
    pub name: String,
    /// What it is, in words: `prompt`, `validated output`.
    pub what: String,
    /// The ids.
    pub ids: Vec<u32>,
    /// SHA-256 of the ids as little-endian 32-bit integers.
    pub sha256: String,
    /// How many different ids there are.
    pub distinct: u64,
}

impl Sequence {
    /// A sequence with its hash and number of different ids.
    pub fn new(name: impl Into<String>, what: impl Into<String>, ids: Vec<u32>) -> Sequence {
        let mut sorted = ids.clone();
        sorted.sort_unstable();
        sorted.dedup();
        Sequence {
            name: name.into(),
            what: what.into(),
            sha256: crate::fingerprint::of_ids(&ids),
            distinct: sorted.len() as u64,
            ids,
        }
    }
}

/// What a study ran on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// Checkpoints.
    pub checkpoints: Vec<Checkpoint>,
    /// Documents.
    pub documents: Vec<Document>,
    /// Prompts and outputs.
    pub sequences: Vec<Sequence>,
    /// What was measured once, beside the pairs, and is part of no ratio.
    pub unpaired: Vec<Unpaired>,
}

/// A figure that is printed beside the pairs, labelled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Unpaired {
    /// What it is.
    pub label: String,
    /// The figure.
    pub value: Figure,
    /// Its unit.
    pub unit: String,
}
