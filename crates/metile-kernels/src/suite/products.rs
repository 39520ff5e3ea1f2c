//! Projections, over every weight format.

use super::data::{HostFloat, Weights, noise, stored, sum_error, unit, weights, widened};
use super::{Case, Expected, Results};
use crate::project::{
    project, project_add, project_add_matched, project_bias, project_bias_matched, project_matched,
    project_swiglu, project_swiglu_matched,
};
use metile::ir::Format;
use metile::lang::element::{Affine4, Affine8};
use metile::prelude::*;

/// a · bᵀ in f64, each element with the sum of its terms' magnitudes.
fn products(a: &[f64], b: &[f64], [m, n, k]: [usize; 3]) -> Vec<(f64, f64)> {
    let mut all = Vec::with_capacity(m * n);
    for i in 0..m {
        for j in 0..n {
            let terms = (0..k).map(|x| a[i * k + x] * b[j * k + x]);
            all.push(terms.fold((0.0, 0.0), |(sum, size), t| (sum + t, size + t.abs())));
        }
    }
    all
}

/// Bounds of a product with `f`, whose slope is at most 1.2, applied.
fn expected(products: &[(f64, f64)], k: usize) -> Vec<Expected> {
    products.iter().map(|&(v, size)| stored::<f32>(v, sum_error(k, size))).collect()
}

fn name<A: Weight, W: Weight>(entry: &str, shape: [usize; 3]) -> String {
    format!("{entry} {} × {} {shape:?}", A::FORMAT, W::FORMAT)
}

fn plain<A: Weight, W: Weight>(shape: [usize; 3]) -> Case {
    Case::new("projection", name::<A, W>("project", shape), move |trial| -> Results {
        let [m, n, k] = shape;
        let x: Weights<A> = weights(trial.device, [m, k], 20)?;
        let w: Weights<W> = weights(trial.device, [n, k], 21)?;
        let mut out = trial.zeros::<f32, 2>([m, n])?;
        trial.launch(project(&x.tensor, &w.tensor, &mut out))?;
        Ok((widened(&out.to_vec()?), expected(&products(&x.values, &w.values, shape), k)))
    })
}

fn biased<A: Weight, W: Weight, B: HostFloat>(shape: [usize; 3]) -> Case {
    let label = name::<A, W>("project_bias", shape);
    Case::new("projection", format!("{label} + {}", B::DTYPE), move |trial| {
        let [m, n, k] = shape;
        let x: Weights<A> = weights(trial.device, [m, k], 20)?;
        let w: Weights<W> = weights(trial.device, [n, k], 21)?;
        let b = noise::<B>(n, 22);
        let bias = trial.tensor([n], &b)?;
        let mut out = trial.zeros::<f32, 2>([m, n])?;
        trial.launch(project_bias(&x.tensor, &w.tensor, &bias, &mut out))?;
        let b = widened(&b);
        let mut all = products(&x.values, &w.values, shape);
        for (i, (v, size)) in all.iter_mut().enumerate() {
            *v += b[i % n];
            *size += b[i % n].abs();
        }
        Ok((widened(&out.to_vec()?), expected(&all, k)))
    })
}

fn added<A: Weight, W: Weight>(shape: [usize; 3]) -> Case {
    Case::new("projection", name::<A, W>("project_add", shape), move |trial| {
        let [m, n, k] = shape;
        let x: Weights<A> = weights(trial.device, [m, k], 20)?;
        let w: Weights<W> = weights(trial.device, [n, k], 21)?;
        let before = noise::<f32>(m * n, 23);
        let mut out = trial.tensor([m, n], &before)?;
        trial.launch(project_add(&x.tensor, &w.tensor, &mut out))?;
        let mut all = products(&x.values, &w.values, shape);
        for ((v, size), b) in all.iter_mut().zip(&before) {
            *v += f64::from(*b);
            *size += f64::from(b.abs());
        }
        Ok((widened(&out.to_vec()?), expected(&all, k)))
    })
}

/// silu(g) · u, both sums of k terms.
fn swiglu(g: &[(f64, f64)], u: &[(f64, f64)], k: usize) -> Vec<Expected> {
    let one = |(&(g, g_size), &(u, u_size)): (&(f64, f64), &(f64, f64))| {
        let silu = g / (1.0 + (-g).exp());
        // silu's slope is below 1.1; the sigmoid itself is good to a few roundings.
        let g_error = 1.1 * sum_error(k, g_size) + 8.0 * unit::<f32>() * silu.abs();
        let u_error = sum_error(k, u_size);
        let error = g_error * (u.abs() + u_error) + silu.abs() * u_error;
        stored::<f32>(silu * u, error)
    };
    g.iter().zip(u).map(one).collect()
}

fn gated<A: Weight, W: Weight>(shape: [usize; 3]) -> Case {
    Case::new("projection", name::<A, W>("project_swiglu", shape), move |trial| {
        let [m, n, k] = shape;
        let x: Weights<A> = weights(trial.device, [m, k], 20)?;
        let gate: Weights<W> = weights(trial.device, [n, k], 21)?;
        let up: Weights<W> = weights(trial.device, [n, k], 24)?;
        let mut out = trial.zeros::<f32, 2>([m, n])?;
        trial.launch(project_swiglu(&x.tensor, &gate.tensor, &up.tensor, &mut out))?;
        let g = products(&x.values, &gate.values, shape);
        let u = products(&x.values, &up.values, shape);
        Ok((widened(&out.to_vec()?), swiglu(&g, &u, k)))
    })
}

/// All four projections of rows and weights of one 16-bit type.
fn matched<T: HostFloat + Weight>(shape: [usize; 3]) -> Case {
    let label = name::<T, T>("projections, matched,", shape);
    Case::new("projection", label, move |trial| -> Results {
        let [m, n, k] = shape;
        let x: Weights<T> = weights(trial.device, [m, k], 20)?;
        let w: Weights<T> = weights(trial.device, [n, k], 21)?;
        let up: Weights<T> = weights(trial.device, [n, k], 24)?;
        let bias = noise::<f32>(n, 22);
        let bias = trial.tensor([n], &bias)?;
        let (mut found, mut want) = (Vec::new(), Vec::new());
        let mut take = |out: Tensor<f32, 2>, all: Vec<Expected>| -> Result<(), _> {
            found.extend(widened(&out.to_vec()?));
            want.extend(all);
            Ok::<(), metile::Error>(())
        };
        let all = products(&x.values, &w.values, shape);
        let mut out = trial.zeros::<f32, 2>([m, n])?;
        trial.launch(project_matched(&x.tensor, &w.tensor, &mut out))?;
        take(out, expected(&all, k))?;
        let mut out = trial.zeros::<f32, 2>([m, n])?;
        trial.launch(project_bias_matched(&x.tensor, &w.tensor, &bias, &mut out))?;
        let with = |extra: &[f64]| -> Vec<(f64, f64)> {
            let extra = extra.iter().cycle();
            all.iter().zip(extra).map(|(&(v, size), b)| (v + b, size + b.abs())).collect()
        };
        take(out, expected(&with(&widened(&bias.to_vec()?)), k))?;
        let before = noise::<f32>(m * n, 23);
        let mut out = trial.tensor([m, n], &before)?;
        trial.launch(project_add_matched(&x.tensor, &w.tensor, &mut out))?;
        take(out, expected(&with(&widened(&before)), k))?;
        let mut out = trial.zeros::<f32, 2>([m, n])?;
        trial.launch(project_swiglu_matched(&x.tensor, &w.tensor, &up.tensor, &mut out))?;
        take(out, swiglu(&all, &products(&x.values, &up.values, shape), k))?;
        Ok((found, want))
    })
}

fn every<W: Weight>(all: &mut Vec<Case>) {
    let block = match W::FORMAT {
        Format::Plain(_) => 24,
        Format::Packed(format) => format.block_elements(),
    };
    all.extend([plain::<f32, W>([1, 5, block]), plain::<f32, W>([3, 33, 2 * block])]);
    if block % 32 == 0 {
        all.push(plain::<Q8_0, W>([2, 5, block]));
    }
}

pub fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    every::<f32>(&mut all);
    every::<f16>(&mut all);
    every::<bf16>(&mut all);
    every::<Q4_0>(&mut all);
    every::<Q4_1>(&mut all);
    every::<Q5_0>(&mut all);
    every::<Q5_1>(&mut all);
    every::<Q8_0>(&mut all);
    every::<Q4K>(&mut all);
    every::<Q5K>(&mut all);
    every::<Q6K>(&mut all);
    every::<Affine4<32, f16>>(&mut all);
    every::<Affine4<32, bf16>>(&mut all);
    every::<Affine4<32, f32>>(&mut all);
    every::<Affine4<64, f16>>(&mut all);
    every::<Affine4<64, bf16>>(&mut all);
    every::<Affine4<64, f32>>(&mut all);
    every::<Affine4<128, f16>>(&mut all);
    every::<Affine4<128, bf16>>(&mut all);
    every::<Affine4<128, f32>>(&mut all);
    every::<Affine8<32, f16>>(&mut all);
    every::<Affine8<32, bf16>>(&mut all);
    every::<Affine8<32, f32>>(&mut all);
    every::<Affine8<64, f16>>(&mut all);
    every::<Affine8<64, bf16>>(&mut all);
    every::<Affine8<64, f32>>(&mut all);
    every::<Affine8<128, f16>>(&mut all);
    every::<Affine8<128, bf16>>(&mut all);
    every::<Affine8<128, f32>>(&mut all);
    // Row counts around every tile, one element, nothing, ragged columns.
    for m in [1, 2, 3, 4, 8, 9, 16, 17, 65] {
        all.push(plain::<f32, Q4_1>([m, 9, 64]));
    }
    for shape in [[1, 1, 1], [0, 4, 8], [2, 0, 8], [2, 3, 0], [1, 65, 31], [2, 31, 257]] {
        all.extend([plain::<f32, f32>(shape), plain::<f16, bf16>(shape)]);
        all.extend([added::<f32, f16>(shape), gated::<f32, f32>(shape)]);
        all.push(biased::<f32, bf16, f32>(shape));
    }
    all.extend([plain::<f32, f32>([1, 3, 2500]), plain::<f32, Q8_0>([1, 40, 576])]);
    all.extend([plain::<f32, f16>([1, 2050, 260]), plain::<f32, f32>([70, 513, 260])]);
    all.extend([biased::<f32, Q8_0, f16>([3, 40, 64]), biased::<Q8_0, Q4_0, bf16>([1, 40, 64])]);
    all.extend([added::<f32, Q4_0>([4, 33, 64]), added::<Q8_0, Q8_0>([1, 33, 64])]);
    // One tile of either height, ragged ones, steps that are cut, rows that are no whole units, nothing.
    for shape in
        [[64, 128, 64], [128, 64, 192], [33, 130, 72], [150, 70, 130], [17, 9, 33], [0, 8, 8]]
    {
        all.extend([matched::<bf16>(shape), matched::<f16>(shape)]);
    }
    all.extend([gated::<f32, Q4_1>([2, 33, 64]), gated::<Q8_0, Q6K>([1, 3, 256])]);
    all
}
