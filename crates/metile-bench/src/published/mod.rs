//! The predecessor's published reports, read-only: another schema, of runs on an Apple M5.

mod digests;
mod layers;
mod models;
mod verify;

pub use layers::{
    BatchPoint, Bits, LayerModel, Matrix, MatrixPoint, ModelShapes, Primitive, ShapeSensitivity,
    WidthPoint,
};
pub use models::{Mode, ModelRun, SPEEDUPS, Sample, Samples, Suite, Verification, Workload};
pub(crate) use verify::verify;

use serde::Deserialize;
use serde_json::Value;

/// A published report.
#[derive(Clone, Debug)]
pub enum Published {
    /// Whole models, with the raw samples of each.
    Models(Suite),
    /// The residual MLP in three formats by rows.
    Matrix(Matrix),
    /// Layers of nine models.
    Shapes(ModelShapes),
    /// Projections by width, and weight bandwidth by rows.
    Sensitivity(ShapeSensitivity),
    /// One layer alone.
    Primitive(Primitive),
}

impl Published {
    /// Reads a value as one of the published kinds; `None` if it is none of them.
    ///
    /// # Errors
    /// If it says that it is of a kind and lacks what that kind has.
    pub fn read(value: &Value) -> Result<Option<Published>, serde_json::Error> {
        if value.get("schema").is_some() || value.get("schema_version").is_none() {
            // One of the eight was published without a version.
            if value.get("scope").and_then(Value::as_str) != Some("model_shape_matrix") {
                return Ok(None);
            }
        }
        Ok(Some(match value.get("scope").and_then(Value::as_str) {
            Some("matched_representation_matrix") => Published::Matrix(read(value)?),
            Some("model_shape_matrix") => Published::Shapes(read(value)?),
            Some("shape_sensitivity") => Published::Sensitivity(read(value)?),
            Some("isolated_primitive") => Published::Primitive(read(value)?),
            None if value.get("models").is_some() => Published::Models(read(value)?),
            _ => return Ok(None),
        }))
    }

    /// What it is, in words.
    pub fn title(&self) -> &'static str {
        match self {
            Published::Models(_) => "model generation beside MLX-LM",
            Published::Matrix(_) => "residual SwiGLU MLP, the same weights on both sides",
            Published::Shapes(_) => "layers of nine models",
            Published::Sensitivity(_) => "projection width and weight bandwidth",
            Published::Primitive(_) => "one layer alone",
        }
    }

    /// When it was recorded; empty where it does not say.
    pub fn recorded(&self) -> &str {
        match self {
            Published::Models(x) => &x.recorded_at,
            Published::Matrix(x) => &x.recorded_at,
            Published::Shapes(_) => "",
            Published::Sensitivity(x) => &x.recorded_at,
            Published::Primitive(x) => &x.recorded_at,
        }
    }

    /// The machine; `None` where it does not say.
    pub fn hardware(&self) -> Option<&Hardware> {
        match self {
            Published::Models(x) => x.models.first().map(|m| &m.hardware),
            Published::Matrix(x) => Some(&x.hardware),
            Published::Shapes(_) => None,
            Published::Sensitivity(x) => Some(&x.hardware),
            Published::Primitive(x) => Some(&x.hardware),
        }
    }

    /// Versions of the baseline; `None` where it does not say.
    pub fn software(&self) -> Option<&Software> {
        match self {
            Published::Models(x) => x.models.first().map(|m| &m.software),
            Published::Matrix(x) => Some(&x.software),
            Published::Shapes(_) => None,
            Published::Sensitivity(x) => Some(&x.software),
            Published::Primitive(x) => Some(&x.software),
        }
    }
}

fn read<'v, T: Deserialize<'v>>(value: &'v Value) -> Result<T, serde_json::Error> {
    T::deserialize(value)
}

/// The machine of a published run.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Hardware {
    /// `Apple M5`.
    pub chip: String,
    /// `32 GB`.
    pub memory: String,
    /// `Mac17,2`.
    pub model_name: String,
}

/// Versions of a published run.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Software {
    /// MLX.
    pub mlx: String,
    /// MLX-LM.
    pub mlx_lm: String,
    /// Python.
    pub python: String,
}

/// What was compared.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct PrecisionComparison {
    /// `same_precision`, `same_representation`, or what was compressed.
    pub class: String,
    /// Whether both sides read the same weights in the same format.
    pub same_weight_representation: bool,
}
