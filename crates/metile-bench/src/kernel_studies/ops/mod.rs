//! Operations that kernel studies measure: each as kernels of the library, as an operation of a worker, and as a
//! reference.

mod layers;
mod norms;
mod products;
#[cfg(test)]
mod tests;

use super::device_arm::{DeviceArm, Timing};
use super::harness::{Fresh, Grid, Oracle};
use super::peers::{Operation, Sent};
use super::weights::{Storage, Weights};
use crate::schema::Work;
use crate::study::Refusal;
use metile::Device;
use serde_json::Value;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Everything in f64, rounded once.
pub const LATE: &str = "in the final cast only";
/// The normalized value is rounded to the type of x before it meets the weight.
pub const EARLY: &str = "to the type of x before the weight";

/// An operation with its extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// out = a · b, of [m, k] and [k, n].
    Gemm {
        /// Rows of a.
        m: usize,
        /// Columns of a.
        k: usize,
        /// Columns of b.
        n: usize,
        /// Type of all three.
        t: Grid,
    },
    /// RMSNorm of every row.
    RmsNorm(Shape),
    /// LayerNorm of every row.
    LayerNorm(Shape),
    /// Softmax of every row.
    Softmax(Shape),
    /// out = x · wᵀ, of [rows, k] and stored [n, k].
    Project {
        /// Rows of x.
        rows: usize,
        /// Rows of w.
        n: usize,
        /// Columns of both.
        k: usize,
        /// How w is stored.
        storage: Storage,
    },
    /// out = x + down(silu(gate x) · up x), the residual MLP of a decoder's layer (SwiGLU; Shazeer, 2020).
    Mlp {
        /// Rows of x.
        rows: usize,
        /// Columns of x.
        hidden: usize,
        /// Rows of gate and up.
        intermediate: usize,
        /// How the three matrices are stored.
        storage: Storage,
    },
}

/// Rows of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// Their type.
    pub t: Grid,
}

/// Which kernel of the library computes an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The one that the library chooses.
    Library,
    /// A row is read once and kept (RMSNorm).
    Register,
    /// A row is read twice, 1,024 columns at a time (RMSNorm).
    Looped,
    /// A product in small fixed tiles of 32 × 32 × 32: the compiler's own baseline.
    FixedTiles,
}

/// Weights of an operation, which outlive its cases.
#[derive(Clone, Default)]
pub struct Held {
    /// Matrices: none, one (`w`), or three (`gate`, `up`, `down`).
    pub matrices: Vec<Weights>,
    /// Vectors: none, one (`w`), or two (`w`, `b`).
    pub vectors: Vec<Rc<Vec<f32>>>,
}

fn type_of(t: Grid) -> Sent {
    match t {
        Grid::F32 => Sent::F32,
        Grid::F16 => Sent::F16,
        Grid::BF16 => Sent::BF16,
    }
}

fn bytes_of(t: Grid) -> u64 {
    if t == Grid::F32 { 4 } else { 2 }
}

/// Operations that may be held against the peak of f32: those that nothing on this machine can do in another, faster
/// unit.
fn claimed(flop: u64, t: Grid) -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    let faster =
        std::is_x86_feature_detected!("avx512bf16") || std::is_x86_feature_detected!("avx512fp16");
    #[cfg(not(target_arch = "x86_64"))]
    let faster = true;
    (t == Grid::F32 || !faster).then_some(flop)
}

impl Op {
    /// Extents of the output.
    pub fn output(&self) -> [usize; 2] {
        match *self {
            Op::Gemm { m, n, .. } => [m, n],
            Op::RmsNorm(s) | Op::LayerNorm(s) | Op::Softmax(s) => [s.rows, s.cols],
            Op::Project { rows, n, .. } => [rows, n],
            Op::Mlp { rows, hidden, .. } => [rows, hidden],
        }
    }

    /// Inputs that are drawn anew for every trial.
    pub fn fresh(&self) -> Vec<Fresh> {
        let one = |name, elements, scale, grid| Fresh { name, elements, scale, grid };
        match *self {
            Op::Gemm { m, k, n, t } => {
                vec![one("a", m * k, 1.0, t), one("b", k * n, 1.7 / (k as f32).sqrt(), t)]
            }
            Op::RmsNorm(s) | Op::LayerNorm(s) => vec![one("x", s.rows * s.cols, 1.0, s.t)],
            Op::Softmax(s) => vec![one("x", s.rows * s.cols, 4.0, s.t)],
            Op::Project { rows, k, storage, .. } => {
                vec![one("x", rows * k, 1.0, storage.activations().0)]
            }
            Op::Mlp { rows, hidden, storage, .. } => {
                vec![one("x", rows * hidden, 1.0, storage.activations().0)]
            }
        }
    }

    /// Elements may differ from the reference by the first + the second · |expected|, for a type that is computed in:
    /// the rounding of results, and of what a library rounds between.
    pub fn tolerance(&self) -> (f64, f64) {
        let t = match *self {
            Op::Gemm { t, .. } => t,
            Op::RmsNorm(s) | Op::LayerNorm(s) | Op::Softmax(s) => s.t,
            Op::Project { storage, .. } | Op::Mlp { storage, .. } => storage.activations().0,
        };
        match t {
            Grid::F32 => (1e-4, 1e-4),
            Grid::F16 => (4e-3, 4e-3),
            Grid::BF16 => (3e-2, 3e-2),
        }
    }

    /// Bytes and operations of a launch.
    pub fn work(&self) -> Work {
        match *self {
            Op::Gemm { m, k, n, t } => Work {
                flop: claimed(2 * (m * k * n) as u64, t),
                distinct_read_bytes: Some(bytes_of(t) * (m * k + k * n) as u64),
                weight_bytes: None,
            },
            Op::RmsNorm(s) | Op::LayerNorm(s) | Op::Softmax(s) => Work {
                flop: None,
                distinct_read_bytes: Some(bytes_of(s.t) * (s.rows * s.cols) as u64),
                weight_bytes: None,
            },
            Op::Project { rows, n, k, storage } => {
                let bytes = storage.bytes((n * k) as u64);
                Work {
                    flop: claimed(2 * (rows * n * k) as u64, storage.activations().0),
                    distinct_read_bytes: Some(bytes),
                    weight_bytes: Some(bytes),
                }
            }
            Op::Mlp { rows, hidden, intermediate, storage } => {
                let bytes = storage.bytes((3 * hidden * intermediate) as u64);
                Work {
                    flop: claimed(
                        6 * (rows * hidden * intermediate) as u64,
                        storage.activations().0,
                    ),
                    distinct_read_bytes: Some(bytes),
                    weight_bytes: Some(bytes),
                }
            }
        }
    }

    /// Rows of the output that a gate compares with the reference, so that it takes about a second at most.
    pub fn gate_rows(&self) -> usize {
        let of_a_row = match *self {
            Op::Gemm { k, n, .. } | Op::Project { n, k, .. } => k * n,
            Op::RmsNorm(s) | Op::LayerNorm(s) | Op::Softmax(s) => s.cols,
            Op::Mlp { hidden, intermediate, .. } => 3 * hidden * intermediate,
        };
        (400_000_000 / of_a_row.max(1)).max(3)
    }

    /// What sets a case of it apart.
    pub fn parameters(&self) -> BTreeMap<String, Value> {
        let of = |all: &[(&str, Value)]| -> BTreeMap<String, Value> {
            all.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
        };
        match *self {
            Op::Gemm { m, k, n, t } => of(&[
                ("op", "gemm".into()),
                ("m", m.into()),
                ("k", k.into()),
                ("n", n.into()),
                ("dtype", t.name().into()),
            ]),
            Op::RmsNorm(s) => of(&s.parameters("rms_norm")),
            Op::LayerNorm(s) => of(&s.parameters("layer_norm")),
            Op::Softmax(s) => of(&s.parameters("softmax")),
            Op::Project { rows, n, k, storage } => of(&[
                ("op", "project".into()),
                ("rows", rows.into()),
                ("n", n.into()),
                ("k", k.into()),
                ("format", storage.name().into()),
            ]),
            Op::Mlp { rows, hidden, intermediate, storage } => of(&[
                ("op", "swiglu_mlp".into()),
                ("rows", rows.into()),
                ("hidden", hidden.into()),
                ("intermediate", intermediate.into()),
                ("format", storage.name().into()),
            ]),
        }
    }

    /// Its weights: drawn by name and extents, the same for all rows.
    ///
    /// # Errors
    /// If the extents do not fit the storage.
    pub fn hold(&self) -> Result<Held, Refusal> {
        let matrices = match *self {
            Op::Project { n, k, storage, .. } => vec![Weights::draw("w", [n, k], storage)?],
            Op::Mlp { hidden, intermediate, storage, .. } => vec![
                Weights::draw("gate", [intermediate, hidden], storage)?,
                Weights::draw("up", [intermediate, hidden], storage)?,
                Weights::draw("down", [hidden, intermediate], storage)?,
            ],
            _ => Vec::new(),
        };
        let vectors = match *self {
            Op::RmsNorm(s) => vec![norms::weight(s)],
            Op::LayerNorm(s) => vec![norms::weight(s), norms::bias(s)],
            _ => Vec::new(),
        };
        Ok(Held { matrices, vectors })
    }

    /// What tells weights apart.
    pub fn weights_key(&self) -> String {
        match *self {
            Op::Project { n, k, storage, .. } => format!("project {n} {k} {}", storage.name()),
            Op::Mlp { hidden, intermediate, storage, .. } => {
                format!("mlp {hidden} {intermediate} {}", storage.name())
            }
            Op::RmsNorm(s) => format!("rms_norm {} {}", s.cols, s.t.name()),
            Op::LayerNorm(s) => format!("layer_norm {} {}", s.cols, s.t.name()),
            Op::Softmax(_) | Op::Gemm { .. } => String::new(),
        }
    }

    /// As kernels of the library on a device.
    ///
    /// # Errors
    /// If the form is not one of this operation's, or a launch is refused.
    pub fn on(
        &self,
        device: &Device,
        held: &Held,
        form: Form,
        timing: Timing,
    ) -> Result<DeviceArm, Refusal> {
        match *self {
            Op::Gemm { m, k, n, t } => products::gemm(device, [m, k, n], t, form, timing),
            Op::RmsNorm(s) => norms::rms_norm(device, held, s, form, timing),
            Op::LayerNorm(s) => norms::layer_norm(device, held, s, form, timing),
            Op::Softmax(s) => norms::softmax(device, s, form, timing),
            Op::Project { rows, n, k, storage } => {
                layers::project(device, held, [rows, n, k], storage, form, timing)
            }
            Op::Mlp { rows, hidden, intermediate, storage } => {
                layers::mlp(device, held, [rows, hidden, intermediate], storage, form, timing)
            }
        }
    }

    /// As an operation of a worker, rounding under a policy.
    ///
    /// # Errors
    /// If sizes do not fit.
    pub fn sent(&self, held: &Held, policy: &str) -> Result<Operation, Refusal> {
        match *self {
            Op::Gemm { m, k, n, t } => Ok(Operation {
                name: "gemm",
                parameters: serde_json::json!({}),
                fresh: vec![("a", vec![m, k]), ("b", vec![k, n])],
                sent: type_of(t),
                kept: Vec::new(),
            }),
            Op::RmsNorm(s) => norms::sent("rms_norm", held, s, policy),
            Op::LayerNorm(s) => norms::sent("layer_norm", held, s, policy),
            Op::Softmax(s) => norms::sent("softmax", held, s, policy),
            Op::Project { rows, k, storage, .. } => {
                layers::sent("project", held, &["w"], [rows, k], storage)
            }
            Op::Mlp { rows, hidden, storage, .. } => {
                layers::sent("swiglu_mlp", held, &["gate", "up", "down"], [rows, hidden], storage)
            }
        }
    }

    /// The reference.
    pub fn oracle(&self, held: &Held) -> Box<dyn Oracle> {
        match *self {
            Op::Gemm { k, n, .. } => Box::new(products::GemmOracle { inner: k, cols: n }),
            Op::RmsNorm(s) => Box::new(norms::RmsNormOracle(s, held.clone())),
            Op::LayerNorm(s) => Box::new(norms::LayerNormOracle(s, held.clone())),
            Op::Softmax(s) => Box::new(norms::SoftmaxOracle(s)),
            Op::Project { .. } => Box::new(layers::ProjectOracle(held.clone())),
            Op::Mlp { .. } => Box::new(layers::MlpOracle(held.clone())),
        }
    }

    /// The same operation with few rows and columns: to ask whether a library does it at all.
    pub fn small(&self) -> Op {
        match *self {
            Op::Gemm { t, .. } => Op::Gemm { m: 4, k: 8, n: 4, t },
            Op::RmsNorm(s) => Op::RmsNorm(Shape { rows: 2, cols: 8, ..s }),
            Op::LayerNorm(s) => Op::LayerNorm(Shape { rows: 2, cols: 8, ..s }),
            Op::Softmax(s) => Op::Softmax(Shape { rows: 2, cols: 8, ..s }),
            Op::Project { storage, .. } => Op::Project { rows: 2, n: 64, k: 128, storage },
            Op::Mlp { storage, .. } => Op::Mlp { rows: 2, hidden: 64, intermediate: 128, storage },
        }
    }
}

impl Shape {
    fn parameters(&self, op: &'static str) -> [(&'static str, Value); 4] {
        [
            ("op", op.into()),
            ("rows", self.rows.into()),
            ("cols", self.cols.into()),
            ("dtype", self.t.name().into()),
        ]
    }
}

/// A form that the operation does not have.
fn no_form(op: &str, form: Form) -> Refusal {
    Refusal::Broken(format!("{op} has no form {form:?}"))
}
