//! Layers over stored weights. Activations come and go in 16 bits; between, metile has them in f32.

use super::{Form, Held, no_form};
use crate::kernel_studies::broken;
use crate::kernel_studies::device_arm::{DeviceArm, Timing};
use crate::kernel_studies::harness::{Grid, Oracle};
use crate::kernel_studies::peers::Operation;
use crate::kernel_studies::weights::Storage;
use crate::study::Refusal;
use metile::lang::tensor::RawTensor;
use metile::prelude::*;
use metile_weights::{Matrix, Rows};

/// out = x in another type. `x`, `out`: [rows, cols]. One program per ROWS × BLOCK.
#[kernel]
fn convert<S: Float, D: Float, const ROWS: usize, const BLOCK: usize>(
    x: &Tensor<S, 2>,
    out: &mut Tensor<D, 2>,
) {
    let at = (program_id(1) * ROWS, program_id(0) * BLOCK);
    out.store_tile(at, x.load_tile(at, [ROWS, BLOCK]).to_f32());
}

/// Activations of a layer in 16 bits.
#[derive(Debug)]
enum Halves {
    F16(Tensor<f16, 2>),
    BF16(Tensor<bf16, 2>),
}

impl Halves {
    fn zeros(device: &Device, storage: Storage, shape: [usize; 2]) -> Result<Halves, Refusal> {
        Ok(match storage.activations().0 {
            Grid::BF16 => Halves::BF16(Tensor::zeros(device, shape).map_err(broken)?),
            Grid::F16 | Grid::F32 => Halves::F16(Tensor::zeros(device, shape).map_err(broken)?),
        })
    }

    fn raw(&self) -> &RawTensor {
        match self {
            Halves::F16(tensor) => tensor.raw(),
            Halves::BF16(tensor) => tensor.raw(),
        }
    }

    fn widen(&self, out: &mut Tensor<f32, 2>, list: &mut CommandList) -> Result<(), Error> {
        let [rows, cols] = out.shape();
        let grid = (cols.div_ceil(4096), rows.div_ceil(4));
        list.record(match self {
            Halves::F16(x) => convert::<f16, f32, 4, 4096>(x, out).grid(grid),
            Halves::BF16(x) => convert::<bf16, f32, 4, 4096>(x, out).grid(grid),
        })
    }

    fn narrow(&mut self, x: &Tensor<f32, 2>, list: &mut CommandList) -> Result<(), Error> {
        let [rows, cols] = x.shape();
        let grid = (cols.div_ceil(4096), rows.div_ceil(4));
        list.record(match self {
            Halves::F16(out) => convert::<f32, f16, 4, 4096>(x, out).grid(grid),
            Halves::BF16(out) => convert::<f32, bf16, 4, 4096>(x, out).grid(grid),
        })
    }
}

/// The memory of weights in one of the formats of [`Storage`].
fn raw(matrix: &Matrix) -> Result<RawTensor, Refusal> {
    match matrix {
        Matrix::BF16(tensor) => Ok(tensor.raw().clone()),
        Matrix::Affine4G64F16(tensor) => Ok(tensor.raw().clone()),
        Matrix::Affine8G64F16(tensor) => Ok(tensor.raw().clone()),
        other => Err(Refusal::Broken(format!("layers have no weights of {}", other.format()))),
    }
}

fn floats(device: &Device, shape: [usize; 2]) -> Result<Tensor<f32, 2>, Refusal> {
    Tensor::zeros(device, shape).map_err(broken)
}

/// out = x · wᵀ on a device.
pub fn project(
    device: &Device,
    held: &Held,
    [rows, n, k]: [usize; 3],
    storage: Storage,
    form: Form,
    timing: Timing,
) -> Result<DeviceArm, Refusal> {
    if form != Form::Library {
        return Err(no_form("project", form));
    }
    let w = held.matrices[0].matrix(device)?;
    let x = Halves::zeros(device, storage, [rows, k])?;
    let mut out = Halves::zeros(device, storage, [rows, n])?;
    let (mut wide, mut product) = (floats(device, [rows, k])?, floats(device, [rows, n])?);
    let written = vec![out.raw().clone(), wide.raw().clone(), product.raw().clone()];
    let (fresh, kept) = (vec![x.raw().clone()], vec![raw(&w)?]);
    let record = move |list: &mut CommandList| -> Result<(), Error> {
        x.widen(&mut wide, list)?;
        list.record(w.project(Rows::dense(&wide), &mut product))?;
        out.narrow(&product, list)
    };
    DeviceArm::new(device, fresh, kept, written, timing, Box::new(record))
}

/// out = x + down(silu(gate x) · up x) on a device.
pub fn mlp(
    device: &Device,
    held: &Held,
    [rows, hidden, intermediate]: [usize; 3],
    storage: Storage,
    form: Form,
    timing: Timing,
) -> Result<DeviceArm, Refusal> {
    if form != Form::Library {
        return Err(no_form("swiglu_mlp", form));
    }
    let mut matrices = held.matrices.iter().map(|weights| weights.matrix(device));
    let mut next = || matrices.next().unwrap_or_else(|| Err(broken("an MLP has three matrices")));
    let (gate, up, down) = (next()?, next()?, next()?);
    let x = Halves::zeros(device, storage, [rows, hidden])?;
    let mut out = Halves::zeros(device, storage, [rows, hidden])?;
    let (mut wide, mut between) =
        (floats(device, [rows, hidden])?, floats(device, [rows, intermediate])?);
    let written = vec![out.raw().clone(), wide.raw().clone(), between.raw().clone()];
    let kept = vec![raw(&gate)?, raw(&up)?, raw(&down)?];
    let fresh = vec![x.raw().clone()];
    let record = move |list: &mut CommandList| -> Result<(), Error> {
        x.widen(&mut wide, list)?;
        let input = Rows::dense(&wide);
        let call = gate.project_swiglu(&up, input, &mut between);
        let call = call.ok_or_else(|| Error::Internal {
            kernel: "swiglu_mlp".to_owned(),
            message: "gate and up have different formats".to_owned(),
        })?;
        list.record(call)?;
        list.record(down.project_add(Rows::dense(&between), &mut wide))?;
        out.narrow(&wide, list)
    };
    DeviceArm::new(device, fresh, kept, written, timing, Box::new(record))
}

/// As an operation of a worker whose weights have these names.
pub fn sent(
    name: &'static str,
    held: &Held,
    names: &[&str],
    x: [usize; 2],
    storage: Storage,
) -> Result<Operation, Refusal> {
    let mut kept = Vec::new();
    for (weights, name) in held.matrices.iter().zip(names) {
        kept.extend(weights.sendable(name)?);
    }
    Ok(Operation {
        name,
        parameters: storage.parameters(),
        fresh: vec![("x", x.to_vec())],
        sent: storage.activations().1,
        kept,
    })
}

fn row(inputs: &[Vec<f32>], cols: usize, row: usize) -> Vec<f64> {
    inputs[0][row * cols..][..cols].iter().map(|&v| f64::from(v)).collect()
}

/// x · wᵀ of one row, in f64.
fn times(x: &[f64], held: &Held, n: usize) -> Vec<f64> {
    let weights = held.matrices[n].values.chunks_exact(x.len());
    weights.map(|w| x.iter().zip(w).map(|(a, &b)| a * f64::from(b)).sum()).collect()
}

/// out = x · wᵀ.
pub struct ProjectOracle(pub Held);

impl Oracle for ProjectOracle {
    fn row(&self, _policy: &str, inputs: &[Vec<f32>], at: usize) -> Vec<f64> {
        let x = row(inputs, self.0.matrices[0].shape[1], at);
        times(&x, &self.0, 0)
    }
}

/// out = x + down(silu(gate x) · up x).
pub struct MlpOracle(pub Held);

impl Oracle for MlpOracle {
    fn row(&self, _policy: &str, inputs: &[Vec<f32>], at: usize) -> Vec<f64> {
        let x = row(inputs, self.0.matrices[0].shape[1], at);
        let (gate, up) = (times(&x, &self.0, 0), times(&x, &self.0, 1));
        let between: Vec<f64> =
            gate.iter().zip(&up).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
        let down = times(&between, &self.0, 2);
        x.iter().zip(down).map(|(x, y)| x + y).collect()
    }
}
