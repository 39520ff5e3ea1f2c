//! Operations on rows.

use super::{EARLY, Form, Held, Shape, no_form, type_of};
use crate::kernel_studies::broken;
use crate::kernel_studies::device_arm::{DeviceArm, FromF32, Timing, tensor};
use crate::kernel_studies::harness::{Grid, Oracle, draw};
use crate::kernel_studies::peers::Operation;
use crate::random::Random;
use crate::study::Refusal;
use half::{bf16, f16};
use metile::lang::element::Float;
use metile::{CommandList, Device, Error, KernelCall, Tensor};
use metile_kernels as kernels;
use metile_kernels::norm::{rms_norm_looped, rms_norm_row};
use std::rc::Rc;

const EPS: f32 = 1e-5;

/// A row's weights: near 1, as trained ones are, and of the type of x.
pub fn weight(s: Shape) -> Rc<Vec<f32>> {
    let drawn = draw(&mut Random::named(0, &["norm weight"]), s.cols, 0.5, Grid::F32);
    Rc::new(drawn.into_iter().map(|v| s.t.round(1.0 + v)).collect())
}

/// What is added to a row.
pub fn bias(s: Shape) -> Rc<Vec<f32>> {
    Rc::new(draw(&mut Random::named(0, &["norm bias"]), s.cols, 0.5, s.t))
}

fn vector(held: &Held, n: usize) -> Result<&[f32], Refusal> {
    let found = held.vectors.get(n).map(|values| values.as_slice());
    found.ok_or_else(|| Refusal::Broken(format!("a norm without its vector {n}")))
}

macro_rules! by_type {
    ($t:expr, $function:ident($($argument:expr),*)) => {
        match $t {
            Grid::F32 => $function::<f32>($($argument),*),
            Grid::F16 => $function::<f16>($($argument),*),
            Grid::BF16 => $function::<bf16>($($argument),*),
        }
    };
}

/// RMSNorm on a device.
pub fn rms_norm(
    device: &Device,
    held: &Held,
    s: Shape,
    form: Form,
    timing: Timing,
) -> Result<DeviceArm, Refusal> {
    if form == Form::FixedTiles {
        return Err(no_form("rms_norm", form));
    }
    by_type!(s.t, rms_norm_of(device, held, s, form, timing))
}

fn rms_norm_of<T: FromF32 + Float>(
    device: &Device,
    held: &Held,
    s: Shape,
    form: Form,
    timing: Timing,
) -> Result<DeviceArm, Refusal> {
    if form == Form::Register && s.cols > 16384 {
        return Err(Refusal::Broken(format!("{} columns are no tile of 16,384", s.cols)));
    }
    let call: Call<T> = match (form, s.cols) {
        (Form::Looped, _) => |x, v, out| {
            let rows = x.shape()[0];
            rms_norm_looped::<T, T, 1024>(x, &v[0], out, EPS).grid(rows)
        },
        (Form::Register, 0..=1024) => |x, v, out| {
            let rows = x.shape()[0];
            rms_norm_row::<T, T, 1024>(x, &v[0], out, EPS).grid(rows)
        },
        (Form::Register, 1025..=4096) => |x, v, out| {
            let rows = x.shape()[0];
            rms_norm_row::<T, T, 4096>(x, &v[0], out, EPS).grid(rows)
        },
        (Form::Register, _) => |x, v, out| {
            let rows = x.shape()[0];
            rms_norm_row::<T, T, 16384>(x, &v[0], out, EPS).grid(rows)
        },
        _ => |x, v, out| kernels::rms_norm(x, &v[0], out, EPS),
    };
    rows(device, s, &[vector(held, 0)?], timing, call)
}

/// LayerNorm on a device.
pub fn layer_norm(
    device: &Device,
    held: &Held,
    s: Shape,
    form: Form,
    timing: Timing,
) -> Result<DeviceArm, Refusal> {
    if form != Form::Library {
        return Err(no_form("layer_norm", form));
    }
    by_type!(s.t, layer_norm_of(device, held, s, timing))
}

fn layer_norm_of<T: FromF32 + Float>(
    device: &Device,
    held: &Held,
    s: Shape,
    timing: Timing,
) -> Result<DeviceArm, Refusal> {
    let vectors = [vector(held, 0)?, vector(held, 1)?];
    rows::<T>(device, s, &vectors, timing, |x, v, out| {
        kernels::layer_norm(x, &v[0], &v[1], out, EPS)
    })
}

/// Softmax on a device.
pub fn softmax(
    device: &Device,
    s: Shape,
    form: Form,
    timing: Timing,
) -> Result<DeviceArm, Refusal> {
    if form != Form::Library {
        return Err(no_form("softmax", form));
    }
    by_type!(s.t, softmax_of(device, s, timing))
}

fn softmax_of<T: FromF32 + Float>(
    device: &Device,
    s: Shape,
    timing: Timing,
) -> Result<DeviceArm, Refusal> {
    rows::<T>(device, s, &[], timing, |x, _, out| kernels::softmax(x, out))
}

/// A launch from the first argument to the last, with vectors.
type Call<T> =
    for<'c> fn(&'c Tensor<T, 2>, &'c [Tensor<T, 1>], &'c mut Tensor<T, 2>) -> KernelCall<'c>;

/// `call` from `x` to `out`, both of `s`.
fn rows<T: FromF32 + Float>(
    device: &Device,
    s: Shape,
    vectors: &[&[f32]],
    timing: Timing,
    call: Call<T>,
) -> Result<DeviceArm, Refusal> {
    let vectors: Result<Vec<Tensor<T, 1>>, Refusal> =
        vectors.iter().map(|values| tensor::<T, 1>(device, [s.cols], values)).collect();
    let vectors = vectors?;
    let x = Tensor::<T, 2>::zeros(device, [s.rows, s.cols]).map_err(broken)?;
    let mut out = Tensor::<T, 2>::zeros(device, [s.rows, s.cols]).map_err(broken)?;
    let kept = vectors.iter().map(|v| v.raw().clone()).collect();
    let (fresh, written) = (x.raw().clone(), out.raw().clone());
    let record = move |list: &mut CommandList| -> Result<(), Error> {
        list.record(call(&x, &vectors, &mut out))
    };
    DeviceArm::new(device, vec![fresh], kept, vec![written], timing, Box::new(record))
}

/// As an operation of a worker.
pub fn sent(name: &'static str, held: &Held, s: Shape, policy: &str) -> Result<Operation, Refusal> {
    let t = type_of(s.t);
    let mut kept = Vec::new();
    let mut parameters = serde_json::json!({});
    if name != "softmax" {
        parameters["eps"] = f64::from(EPS).into();
        kept.push(("w".to_owned(), t.tensor(&[s.cols], vector(held, 0)?)?));
    }
    if name == "layer_norm" {
        kept.push(("b".to_owned(), t.tensor(&[s.cols], vector(held, 1)?)?));
    }
    if name == "rms_norm" {
        let rounding = if policy == EARLY { "before_weight" } else { "final" };
        parameters["rounding"] = rounding.into();
    }
    Ok(Operation { name, parameters, fresh: vec![("x", vec![s.rows, s.cols])], sent: t, kept })
}

fn row(inputs: &[Vec<f32>], cols: usize, row: usize) -> Vec<f64> {
    inputs[0][row * cols..][..cols].iter().map(|&v| f64::from(v)).collect()
}

/// y = x · weight / √(mean(x²) + eps) (Zhang and Sennrich, 2019).
pub struct RmsNormOracle(pub Shape, pub Held);

impl Oracle for RmsNormOracle {
    fn row(&self, policy: &str, inputs: &[Vec<f32>], at: usize) -> Vec<f64> {
        let s = self.0;
        let x = row(inputs, s.cols, at);
        let mean = x.iter().map(|v| v * v).sum::<f64>() / s.cols as f64;
        let scale = 1.0 / (mean + f64::from(EPS)).sqrt();
        let each = x.iter().zip(self.1.vectors[0].iter()).map(|(v, &w)| {
            let normalized = v * scale;
            let normalized =
                if policy == EARLY { f64::from(s.t.round(normalized as f32)) } else { normalized };
            normalized * f64::from(w)
        });
        each.collect()
    }
}

/// y = (x − mean) / √(variance + eps) · weight + bias (Ba, Kiros and Hinton, 2016).
pub struct LayerNormOracle(pub Shape, pub Held);

impl Oracle for LayerNormOracle {
    fn row(&self, _policy: &str, inputs: &[Vec<f32>], at: usize) -> Vec<f64> {
        let s = self.0;
        let x = row(inputs, s.cols, at);
        let n = s.cols as f64;
        let mean = x.iter().sum::<f64>() / n;
        let variance = x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
        let scale = 1.0 / (variance + f64::from(EPS)).sqrt();
        let each = x.iter().zip(self.1.vectors[0].iter()).zip(self.1.vectors[1].iter());
        each.map(|((v, &w), &b)| (v - mean) * scale * f64::from(w) + f64::from(b)).collect()
    }
}

/// y = e^x / Σ e^x.
pub struct SoftmaxOracle(pub Shape);

impl Oracle for SoftmaxOracle {
    fn row(&self, _policy: &str, inputs: &[Vec<f32>], at: usize) -> Vec<f64> {
        let x = row(inputs, self.0.cols, at);
        let peak = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = x.iter().map(|v| (v - peak).exp()).sum();
        x.iter().map(|v| (v - peak).exp() / sum).collect()
    }
}
