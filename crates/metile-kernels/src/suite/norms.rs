//! RMSNorm, LayerNorm and their relatives.

use super::data::{HostFloat, Placement, Trial, noise, stored, unit, widened};
use super::{Case, Expected, Results};
use crate::norm::{self, add_rms_norm, head_norm, layer_norm, rms_norm};
use metile::prelude::*;

const EPS: f32 = 1e-5;

/// Rows and columns: one element, narrow, ragged, aligned, wide, empty.
const SHAPES: [[usize; 2]; 12] = [
    [1, 1],
    [3, 2],
    [2, 31],
    [2, 64],
    [9, 31],
    [40, 5],
    [2, 576],
    [2, 896],
    [1, 1024],
    [2, 1025],
    [0, 64],
    [2, 0],
];

fn rms_reference<X: HostFloat, N: HostFloat>(x: &[f64], w: &[N], cols: usize) -> Vec<Expected> {
    let w = widened(w);
    let mut all = Vec::new();
    for row in x.chunks(cols.max(1)) {
        let mean = row.iter().map(|v| v * v).sum::<f64>() / cols as f64;
        let scale = 1.0 / (mean + f64::from(EPS)).sqrt();
        // The mean's rounding counts half through the root; then a few roundings of products.
        let relative = (8.0 + cols as f64 / 8.0) * unit::<f32>();
        all.extend(row.iter().zip(&w).map(|(v, w)| {
            let y = v * scale * w;
            stored::<X>(y, y.abs() * relative)
        }));
    }
    all
}

fn rms<X: HostFloat, N: HostFloat>(shape: [usize; 2], placement: Placement) -> Case {
    let name = format!("rms_norm {} × {} {shape:?} {placement:?}", X::DTYPE, N::DTYPE);
    Case::new("rms_norm", name, move |trial| {
        let n = shape[0] * shape[1];
        let (x, w) = (noise::<X>(n, 3), noise::<N>(shape[1], 4));
        let input = trial.place(shape, &x, placement, X::nearest(f32::NAN))?;
        let weight = trial.tensor([shape[1]], &w)?;
        let mut out = trial.place(shape, &vec![X::nearest(0.0); n], placement, X::nearest(7.0))?;
        trial.launch(rms_norm(&input.view, &weight, &mut out.view, EPS))?;
        Ok((trial.results(&out)?, rms_reference::<X, N>(&widened(&x), &w, shape[1])))
    })
}

/// The form that reads rows twice, with a tile narrower than the row.
fn rms_looped<X: HostFloat>(shape: [usize; 2]) -> Case {
    let name = format!("rms_norm_looped {} {shape:?}", X::DTYPE);
    Case::new("rms_norm", name, move |trial| {
        let (x, w) = (noise::<X>(shape[0] * shape[1], 3), noise::<X>(shape[1], 4));
        let input = trial.tensor(shape, &x)?;
        let weight = trial.tensor([shape[1]], &w)?;
        let mut out = trial.zeros::<X, 2>(shape)?;
        let call = norm::rms_norm_looped::<X, X, 256>(&input, &weight, &mut out, EPS);
        trial.launch(call.grid(shape[0]))?;
        let got = widened(&out.to_vec()?);
        Ok((got, rms_reference::<X, X>(&widened(&x), &w, shape[1])))
    })
}

fn add_rms<N: HostFloat>(shape: [usize; 2], looped: bool) -> Case {
    let form = if looped { "add_rms_norm_looped" } else { "add_rms_norm" };
    Case::new("add_rms_norm", format!("{form} {} {shape:?}", N::DTYPE), move |trial| {
        let n = shape[0] * shape[1];
        let (x, d, w) = (noise::<f32>(n, 3), noise::<f32>(n, 5), noise::<N>(shape[1], 4));
        let mut input = trial.tensor(shape, &x)?;
        let delta = trial.tensor(shape, &d)?;
        let weight = trial.tensor([shape[1]], &w)?;
        let mut out = trial.zeros::<f32, 2>(shape)?;
        let call = if looped {
            norm::add_rms_norm_looped::<N, 256>(&mut input, &delta, &weight, &mut out, EPS)
                .grid(shape[0])
        } else {
            add_rms_norm(&mut input, &delta, &weight, &mut out, EPS)
        };
        trial.launch(call)?;
        let sums: Vec<f64> = x.iter().zip(&d).map(|(x, d)| f64::from(x + d)).collect();
        let mut got = widened(&input.to_vec()?);
        got.extend(widened(&out.to_vec()?));
        let mut want: Vec<Expected> = sums.iter().map(|&v| super::data::exactly(v)).collect();
        want.extend(rms_reference::<f32, N>(&sums, &w, shape[1]));
        Ok((got, want))
    })
}

fn layer_reference<X: HostFloat, N: HostFloat>(
    x: &[f64],
    w: &[N],
    b: &[N],
    cols: usize,
) -> Vec<Expected> {
    let (w, b) = (widened(w), widened(b));
    let mut all = Vec::new();
    for row in x.chunks(cols.max(1)) {
        let mean = row.iter().sum::<f64>() / cols as f64;
        let variance = row.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / cols as f64;
        let scale = 1.0 / (variance + f64::from(EPS)).sqrt();
        let relative = (8.0 + cols as f64 / 8.0) * unit::<f32>();
        let largest = row.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        for (c, v) in row.iter().enumerate() {
            let y = (v - mean) * scale * w[c];
            // The mean is off by a rounding of the sum, which the scale then enlarges.
            let error = (y.abs() + largest * scale * w[c].abs() + b[c].abs()) * relative;
            all.push(stored::<X>(y + b[c], error));
        }
    }
    all
}

fn layer<X: HostFloat, N: HostFloat>(
    shape: [usize; 2],
    placement: Placement,
    looped: bool,
) -> Case {
    let form = if looped { "layer_norm_looped" } else { "layer_norm" };
    let name = format!("{form} {} × {} {shape:?} {placement:?}", X::DTYPE, N::DTYPE);
    Case::new("layer_norm", name, move |trial: &mut Trial<'_>| -> Results {
        let n = shape[0] * shape[1];
        let (x, w, b) = (noise::<X>(n, 8), noise::<N>(shape[1], 9), noise::<N>(shape[1], 10));
        let input = trial.place(shape, &x, placement, X::nearest(f32::NAN))?;
        let weight = trial.tensor([shape[1]], &w)?;
        let bias = trial.tensor([shape[1]], &b)?;
        let mut out = trial.place(shape, &vec![X::nearest(0.0); n], placement, X::nearest(7.0))?;
        let call = if looped {
            norm::layer_norm_looped::<X, N, 256>(&input.view, &weight, &bias, &mut out.view, EPS)
                .grid(shape[0])
        } else {
            layer_norm(&input.view, &weight, &bias, &mut out.view, EPS)
        };
        trial.launch(call)?;
        Ok((trial.results(&out)?, layer_reference::<X, N>(&widened(&x), &w, &b, shape[1])))
    })
}

/// Heads normed in place; rows from `valid` on stay.
fn heads<N: HostFloat>([rows, heads, width]: [usize; 3], valid: usize) -> Case {
    let name = format!("head_norm {} {:?}, {valid} valid", N::DTYPE, [rows, heads, width]);
    Case::new("head_norm", name, move |trial| {
        let (x, w) = (noise::<f32>(rows * heads * width, 3), noise::<N>(width, 4));
        let mut tensor = trial.tensor([rows, heads, width], &x)?;
        let weight = trial.tensor([width], &w)?;
        let state = trial.tensor([2], &[11i64, valid as i64])?;
        trial.launch(head_norm(&mut tensor, &weight, EPS, &state))?;
        let x = widened(&x);
        let mut want = rms_reference::<f32, N>(&x[..valid * heads * width], &w, width);
        want.extend(x[valid * heads * width..].iter().map(|&v| super::data::exactly(v)));
        Ok((widened(&tensor.to_vec()?), want))
    })
}

pub fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for shape in SHAPES {
        all.push(rms::<f32, f32>(shape, Placement::Plain));
        all.push(rms::<f16, f16>(shape, Placement::Plain));
        all.push(rms::<bf16, bf16>(shape, Placement::Plain));
        all.push(layer::<f32, f32>(shape, Placement::Plain, false));
        all.push(layer::<f16, f16>(shape, Placement::Plain, false));
        all.push(layer::<bf16, f32>(shape, Placement::Plain, false));
        all.push(add_rms::<f32>(shape, false));
    }
    for placement in Placement::ALL {
        all.push(rms::<f32, bf16>([5, 37], placement));
        all.push(rms::<f16, f32>([9, 37], placement));
        all.push(layer::<f32, f32>([5, 37], placement, false));
        all.push(layer::<bf16, bf16>([9, 37], placement, false));
    }
    for shape in [[2, 255], [2, 256], [2, 600], [1, 0]] {
        all.push(rms_looped::<f32>(shape));
        all.push(rms_looped::<f16>(shape));
        all.push(add_rms::<bf16>(shape, true));
        all.push(layer::<f32, f32>(shape, Placement::Plain, true));
    }
    all.push(add_rms::<f16>([3, 100], false));
    all.extend([heads::<f32>([3, 2, 64], 3), heads::<f32>([3, 9, 128], 2)]);
    all.extend([heads::<bf16>([2, 3, 80], 1), heads::<f16>([1, 1, 1], 1)]);
    all.extend([heads::<f32>([2, 3, 200], 0), heads::<f32>([0, 3, 64], 0)]);
    all
}
