//! Layers and projections: summaries without raw samples.

use super::{Hardware, PrecisionComparison, Software};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A format of weights, by the bits of a value (group scales are not counted).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bits {
    /// BF16.
    Bf16,
    /// Affine, 4 bits.
    Int4,
    /// Affine, 8 bits.
    Int8,
}

impl Bits {
    /// All, in the order of charts.
    pub const ALL: [Bits; 3] = [Bits::Bf16, Bits::Int4, Bits::Int8];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Bits::Bf16 => "BF16",
            Bits::Int4 => "INT4 (affine, group 64)",
            Bits::Int8 => "INT8 (affine, group 64)",
        }
    }

    /// Bits of a value.
    pub fn bits(self) -> u64 {
        match self {
            Bits::Bf16 => 16,
            Bits::Int4 => 4,
            Bits::Int8 => 8,
        }
    }
}

/// The MLP's widths.
#[derive(Clone, Debug, Deserialize)]
pub struct MlpShape {
    /// Residual stream.
    pub hidden: u64,
    /// Inside the MLP.
    pub intermediate: u64,
}

/// `matched_representation_matrix`.
#[derive(Clone, Debug, Deserialize)]
pub struct Matrix {
    /// The machine.
    pub hardware: Hardware,
    /// Versions.
    pub software: Software,
    /// When.
    pub recorded_at: String,
    /// Paired rounds behind each point.
    pub rounds: u64,
    /// What was compared.
    pub precision_comparison: PrecisionComparison,
    /// The layer.
    pub shape: MlpShape,
    /// Points.
    pub measurements: Vec<MatrixPoint>,
}

/// One format at one number of rows.
#[derive(Clone, Debug, Deserialize)]
pub struct MatrixPoint {
    /// Format.
    pub format: Bits,
    /// Rows.
    pub rows: u64,
    /// Median seconds of the candidate.
    pub metile_seconds: f64,
    /// Rows over those.
    pub metile_tokens_per_second: f64,
    /// Median seconds of the baseline.
    pub mlx_seconds: f64,
    /// Rows over those.
    pub mlx_tokens_per_second: f64,
    /// Median paired ratio.
    pub speedup: f64,
    /// Part of the rounds that the candidate won.
    pub win_rate: f64,
    /// A limitation.
    #[serde(default)]
    pub note: String,
}

/// `model_shape_matrix`.
#[derive(Clone, Debug, Deserialize)]
pub struct ModelShapes {
    /// Rows of the prefill projections.
    pub prompt_rows: u64,
    /// Paired rounds behind each point.
    pub rounds: u64,
    /// The width below which the baseline's projections are slow.
    pub cliff: u64,
    /// What was compared.
    pub precision_comparison: PrecisionComparison,
    /// Models.
    pub models: Vec<LayerModel>,
}

/// One model's layers.
#[derive(Clone, Debug, Deserialize)]
pub struct LayerModel {
    /// Its name.
    pub model: String,
    /// Residual width.
    pub hidden: u64,
    /// MLP width.
    pub intermediate: u64,
    /// Layers.
    pub layers: u64,
    /// Whether the residual width is below the cliff.
    pub below_cliff: bool,
    /// Speedup of the MLP block by rows.
    pub block_speedup: BTreeMap<String, f64>,
    /// Speedup of the down projection at prompt rows.
    pub prefill_down_speedup: f64,
    /// Speedup of the up projection at prompt rows.
    pub prefill_up_speedup: f64,
}

/// `shape_sensitivity`.
#[derive(Clone, Debug, Deserialize)]
pub struct ShapeSensitivity {
    /// The machine.
    pub hardware: Hardware,
    /// Versions.
    pub software: Software,
    /// When.
    pub recorded_at: String,
    /// Paired rounds behind each point.
    pub rounds: u64,
    /// Rows of the projections.
    pub prefill_rows: u64,
    /// Their inner width.
    pub reduction: u64,
    /// What was compared.
    pub precision_comparison: PrecisionComparison,
    /// The layer of the batch sweep.
    pub shape: MlpShape,
    /// Weight bandwidth by rows.
    pub batch_sweep: Vec<BatchPoint>,
    /// Projections by width.
    pub width_sweep: Vec<WidthPoint>,
}

/// One format at one number of rows.
#[derive(Clone, Debug, Deserialize)]
pub struct BatchPoint {
    /// Format.
    pub format: Bits,
    /// Rows.
    pub rows: u64,
    /// Bytes of the weights, scales not counted.
    pub weight_bytes: u64,
    /// Median seconds of the candidate.
    pub metile_seconds: f64,
    /// Weight bytes over those, in GB/s.
    pub metile_bandwidth: f64,
    /// Median seconds of the baseline.
    pub mlx_seconds: f64,
    /// Weight bytes over those, in GB/s.
    pub mlx_bandwidth: f64,
}

/// One width of a projection.
#[derive(Clone, Debug, Deserialize)]
pub struct WidthPoint {
    /// A model with that width.
    pub model: String,
    /// The width.
    pub output_features: u64,
    /// Median seconds of the candidate.
    pub metile_seconds: f64,
    /// Median seconds of the baseline.
    pub mlx_seconds: f64,
    /// The second over the first.
    pub speedup: f64,
}

/// `isolated_primitive`.
#[derive(Clone, Debug, Deserialize)]
pub struct Primitive {
    /// The machine.
    pub hardware: Hardware,
    /// Versions.
    pub software: Software,
    /// When.
    pub recorded_at: String,
    /// Hub id of the model that the layer is of.
    pub model: String,
    /// What was compared.
    pub precision_comparison: PrecisionComparison,
    /// What was found of the outputs.
    pub fidelity: Fidelity,
    /// Extents.
    pub shape: PrimitiveShape,
    /// Times.
    pub timings: Timings,
}

/// Errors, or that there are none.
#[derive(Clone, Debug, Deserialize)]
pub struct Fidelity {
    /// Whether all bits are the same.
    pub bitwise_exact: Option<bool>,
    /// Largest absolute error.
    pub max_absolute_error: Option<f64>,
}

/// Extents of a layer.
#[derive(Clone, Debug, Deserialize)]
pub struct PrimitiveShape {
    /// Features in.
    pub input_features: u64,
    /// Features out.
    pub output_features: u64,
    /// Rows.
    pub rows: u64,
}

/// Two times, and their ratio.
#[derive(Clone, Debug, Deserialize)]
pub struct Timings {
    /// Candidate.
    pub metile_seconds: f64,
    /// Baseline.
    pub mlx_seconds: f64,
    /// The second over the first.
    pub speedup: f64,
}
