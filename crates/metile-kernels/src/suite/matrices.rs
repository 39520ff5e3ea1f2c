//! GEMM with its epilogues, batches, transposition, and the Fourier transform.

use super::data::{HostFloat, Placement, exactly, noise, stored, sum_error, unit, widened};
use super::{Case, Expected};
use crate::activation::{GeluErf, GeluTanh, Identity, Pointwise, Relu, Silu, Tanh};
use crate::fft::{Direction, FftTables, fft};
use crate::gemm::{batched_gemm, gemm, gemm_bias, gemm_map, gemm_residual};
use crate::transpose::transpose;
use metile::lang::element::HostElement;
use metile::lang::kernel::type_label;
use metile::prelude::*;

/// a · b in f64, each element with the sum of its terms' magnitudes.
fn products(a: &[f64], b: &[f64], [m, n, k]: [usize; 3]) -> Vec<(f64, f64)> {
    let mut all = Vec::with_capacity(m * n);
    for i in 0..m {
        for j in 0..n {
            let terms = (0..k).map(|x| a[i * k + x] * b[x * n + j]);
            all.push(terms.fold((0.0, 0.0), |(sum, size), t| (sum + t, size + t.abs())));
        }
    }
    all
}

fn plain<T: HostFloat>(shape: [usize; 3], placement: Placement) -> Case {
    let name = format!("gemm {} {shape:?} {placement:?}", T::DTYPE);
    Case::new("gemm", name, move |trial| {
        let [m, n, k] = shape;
        let (a, b) = (noise::<T>(m * k, 120), noise::<T>(k * n, 121));
        let left = trial.place([m, k], &a, placement, T::nearest(f32::NAN))?;
        let right = trial.place([k, n], &b, placement, T::nearest(f32::NAN))?;
        let empty = vec![T::nearest(0.0); m * n];
        let mut out = trial.place([m, n], &empty, placement, T::nearest(7.0))?;
        trial.launch(gemm(&left.view, &right.view, &mut out.view))?;
        let all = products(&widened(&a), &widened(&b), shape);
        let want = all.iter().map(|&(v, size)| stored::<T>(v, sum_error(k, size)));
        Ok((trial.results(&out)?, want.collect()))
    })
}

/// What is added in an epilogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Addend {
    Nothing,
    Bias,
    Residual,
}

fn epilogue<T: HostFloat, F: Pointwise>(
    shape: [usize; 3],
    addend: Addend,
    reference: fn(f64) -> f64,
) -> Case {
    const SCALE: f32 = 0.25;
    let label = type_label::<F>();
    let name = format!("gemm with {label} and {addend:?} {} {shape:?}", T::DTYPE);
    Case::new("gemm", name, move |trial| {
        let [m, n, k] = shape;
        let (a, b) = (noise::<T>(m * k, 120), noise::<T>(k * n, 121));
        let (left, right) = (trial.tensor([m, k], &a)?, trial.tensor([k, n], &b)?);
        let (bias, residual) = (noise::<T>(n, 122), noise::<T>(m * n, 123));
        let bias_tensor = trial.tensor([n], &bias)?;
        let residual_tensor = trial.tensor([m, n], &residual)?;
        let mut out = trial.zeros::<T, 2>([m, n])?;
        trial.launch(match addend {
            Addend::Nothing => gemm_map::<T, F>(&left, &right, &mut out, SCALE),
            Addend::Bias => gemm_bias::<T, F>(&left, &right, &bias_tensor, &mut out, SCALE),
            Addend::Residual => {
                gemm_residual::<T, F>(&left, &right, &residual_tensor, &mut out, SCALE)
            }
        })?;
        let (bias, residual) = (widened(&bias), widened(&residual));
        let all = products(&widened(&a), &widened(&b), shape);
        let want = all.iter().enumerate().map(|(i, &(v, size))| {
            let scale = f64::from(SCALE);
            let inner = if addend == Addend::Bias { bias[i % n] } else { 0.0 };
            let outer = if addend == Addend::Residual { residual[i] } else { 0.0 };
            let x = v * scale + inner;
            let y = outer + reference(x);
            // The functions' slopes are below 1.2; then 16 roundings of the function and the sum.
            let error = 1.2 * sum_error(k, size * scale + inner.abs());
            stored::<T>(y, error + 16.0 * unit::<f32>() * (x.abs() + y.abs() + outer.abs()))
        });
        Ok((widened(&out.to_vec()?), want.collect()))
    })
}

fn batches<T: HostFloat>(batch: usize, shape: [usize; 3]) -> Case {
    let name = format!("batched_gemm {} {batch} of {shape:?}", T::DTYPE);
    Case::new("batched_gemm", name, move |trial| {
        let [m, n, k] = shape;
        let (a, b) = (noise::<T>(batch * m * k, 124), noise::<T>(batch * k * n, 125));
        let (left, right) = (trial.tensor([batch, m, k], &a)?, trial.tensor([batch, k, n], &b)?);
        let mut out = trial.zeros::<T, 3>([batch, m, n])?;
        trial.launch(batched_gemm(&left, &right, &mut out))?;
        let (a, b) = (widened(&a), widened(&b));
        let all = (0..batch)
            .flat_map(|i| products(&a[i * m * k..][..m * k], &b[i * k * n..][..k * n], shape));
        let want = all.map(|(v, size)| stored::<T>(v, sum_error(k, size)));
        Ok((widened(&out.to_vec()?), want.collect()))
    })
}

fn transposes<T: HostElement>(
    [m, n]: [usize; 2],
    placement: Placement,
    value: fn(usize) -> T,
) -> Case {
    let name = format!("transpose {} {:?} {placement:?}", T::DTYPE, [m, n]);
    Case::new("transpose", name, move |trial| {
        let x: Vec<T> = (0..m * n).map(value).collect();
        let input = trial.place([m, n], &x, placement, value(1))?;
        let mut out = trial.place([n, m], &vec![value(0); m * n], placement, value(1))?;
        trial.launch(transpose(&input.view, &mut out.view))?;
        let x = widened(&x);
        let want = (0..m * n).map(|i| exactly(x[i % m * n + i / m]));
        Ok((trial.results(&out)?, want.collect()))
    })
    .exact()
}

/// The transform by its definition, with the sign of the exponent.
fn transform(re: &[f64], im: &[f64], sign: f64) -> Vec<(f64, f64)> {
    let n = re.len();
    let turn = |i: usize| (sign * std::f64::consts::TAU * i as f64 / n as f64).sin_cos();
    let table: Vec<(f64, f64)> = (0..n).map(turn).collect();
    let one = |k: usize| {
        let terms = (0..n).map(|j| {
            let (s, c) = table[j * k % n];
            (re[j] * c - im[j] * s, re[j] * s + im[j] * c)
        });
        terms.fold((0.0, 0.0), |(a, b), (x, y)| (a + x, b + y))
    };
    (0..n).map(one).collect()
}

fn transforms<T: HostFloat>(rows: usize, n: usize, direction: Direction) -> Case {
    let name = format!("fft {direction:?} {} {:?}", T::DTYPE, [rows, n]);
    Case::new("fft", name, move |trial| {
        let (re, im) = (noise::<T>(rows * n, 130), noise::<T>(rows * n, 131));
        let (a, b) = (trial.tensor([rows, n], &re)?, trial.tensor([rows, n], &im)?);
        let tables = FftTables::new(trial.device, n)?;
        let (mut c, mut d) = (trial.zeros::<T, 2>([rows, n])?, trial.zeros::<T, 2>([rows, n])?);
        trial.launch(fft(&a, &b, &tables, &mut c, &mut d, direction))?;
        let (re, im) = (widened(&re), widened(&im));
        let (sign, scale) = match direction {
            Direction::Forward => (-1.0, 1.0),
            Direction::Inverse => (1.0, 1.0 / n as f64),
        };
        let (mut want_re, mut want_im): (Vec<Expected>, Vec<Expected>) = (Vec::new(), Vec::new());
        for row in 0..rows {
            let (re, im) = (&re[row * n..(row + 1) * n], &im[row * n..(row + 1) * n]);
            let size = re.iter().chain(im).map(|v| v * v).sum::<f64>().sqrt();
            // Each of the log₂ n steps rounds values whose mean square is the row's norm.
            let steps = 1.0 + (n as f64).log2();
            let error = 4.0 * steps * unit::<f32>() * size * scale;
            for (x, y) in transform(re, im, sign) {
                want_re.push(stored::<T>(x * scale, error));
                want_im.push(stored::<T>(y * scale, error));
            }
        }
        let mut got = widened(&c.to_vec()?);
        got.extend(widened(&d.to_vec()?));
        want_re.extend(want_im);
        Ok((got, want_re))
    })
}

pub fn cases() -> Vec<Case> {
    use Placement::Plain;
    let mut all = Vec::new();
    for shape in [[1, 1, 1], [2, 31, 64], [3, 2, 576], [33, 65, 7], [0, 4, 4], [4, 0, 4], [4, 4, 0]]
    {
        all.push(plain::<f32>(shape, Plain));
        all.push(plain::<f16>(shape, Plain));
        all.push(plain::<bf16>(shape, Plain));
    }
    for placement in Placement::ALL {
        all.push(plain::<f32>([5, 7, 37], placement));
        all.push(plain::<f16>([5, 7, 37], placement));
    }
    // The large tiles, and one more row and column than they have.
    all.extend([plain::<f32>([512, 513, 3], Plain), plain::<f32>([65, 129, 257], Plain)]);
    let silu = |x: f64| x / (1.0 + (-x).exp());
    let gelu_tanh = |x: f64| {
        let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
        0.5 * x * (1.0 + u.tanh())
    };
    let gelu_erf = |x: f64| 0.5 * x * (1.0 + libm::erf(x / std::f64::consts::SQRT_2));
    for addend in [Addend::Nothing, Addend::Bias, Addend::Residual] {
        all.push(epilogue::<f32, Identity>([5, 33, 20], addend, |x| x));
        all.push(epilogue::<f32, Relu>([5, 33, 20], addend, |x| x.max(0.0)));
        all.push(epilogue::<f16, GeluTanh>([5, 33, 20], addend, gelu_tanh));
        all.push(epilogue::<f32, GeluErf>([5, 33, 20], addend, gelu_erf));
        all.push(epilogue::<bf16, Silu>([5, 33, 20], addend, silu));
        all.push(epilogue::<f32, Tanh>([1, 1, 1], addend, f64::tanh));
        all.push(epilogue::<f32, Relu>([2, 3, 0], addend, |x| x.max(0.0)));
    }
    all.push(epilogue::<f32, Silu>([34, 70, 9], Addend::Bias, silu));
    all.extend([batches::<f32>(3, [5, 7, 9]), batches::<f16>(2, [33, 65, 31])]);
    all.extend([batches::<bf16>(1, [1, 1, 1]), batches::<f32>(0, [2, 2, 2])]);
    all.push(batches::<f32>(2, [2, 3, 0]));
    for shape in [[1, 1], [2, 31], [64, 64], [65, 3], [1, 1025], [0, 3], [3, 0]] {
        all.push(transposes::<f32>(shape, Plain, |i| i as f32 - 7.5));
        all.push(transposes::<bf16>(shape, Plain, |i| bf16::from_f32(i as f32)));
        all.push(transposes::<i64>(shape, Plain, |i| i as i64 - 3));
        all.push(transposes::<u8>(shape, Plain, |i| i as u8));
    }
    for placement in Placement::ALL {
        all.push(transposes::<f16>([9, 70], placement, |i| f16::from_f32(i as f32)));
        all.push(transposes::<bool>([9, 7], placement, |i| i % 3 == 0));
    }
    for n in [1, 2, 4, 8, 32, 256, 1024] {
        all.push(transforms::<f32>(2, n, Direction::Forward));
        all.push(transforms::<f32>(1, n, Direction::Inverse));
    }
    all.push(transforms::<f32>(1, 4096, Direction::Forward));
    all.push(transforms::<f16>(3, 16, Direction::Forward));
    all.push(transforms::<bf16>(1, 64, Direction::Inverse));
    all.push(transforms::<f32>(0, 16, Direction::Forward));
    all
}
