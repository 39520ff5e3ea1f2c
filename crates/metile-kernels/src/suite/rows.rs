//! Softmax and reductions of rows.

use super::data::{HostFloat, Placement, exactly, noise, stored, sum_error, unit, widened};
use super::{Case, Expected};
use crate::argmax::argmax;
use crate::reduce::{Maximum, Mean, Minimum, Reduction, Sum, reduce};
use crate::softmax::{self, softmax};
use metile::lang::kernel::type_label;
use metile::prelude::*;

fn softmax_reference<T: HostFloat>(x: &[f64], cols: usize) -> Vec<Expected> {
    let mut all = Vec::new();
    for row in x.chunks(cols.max(1)) {
        let peak = row.iter().fold(f64::NEG_INFINITY, |m, &v| m.max(v));
        let e: Vec<f64> = row.iter().map(|v| (v - peak).exp()).collect();
        let total: f64 = e.iter().sum();
        // The exponential's own error, the difference's (at most 4, so 4 roundings), the sum's.
        let relative = (16.0 + cols as f64 / 4.0) * unit::<f32>();
        all.extend(e.iter().map(|e| stored::<T>(e / total, e / total * relative)));
    }
    all
}

/// Rows of every kind: see the entries' ladders. `forms` are the entry, or a form with a narrow tile.
fn softmaxes<T: HostFloat>(shape: [usize; 2], placement: Placement, online: bool) -> Case {
    let form = if online { "softmax_online" } else { "softmax" };
    let name = format!("{form} {} {shape:?} {placement:?}", T::DTYPE);
    Case::new("softmax", name, move |trial| {
        let n = shape[0] * shape[1];
        let x = noise::<T>(n, 110);
        let input = trial.place(shape, &x, placement, T::nearest(f32::NAN))?;
        let mut out = trial.place(shape, &vec![T::nearest(0.0); n], placement, T::nearest(7.0))?;
        let call = if online {
            softmax::softmax_online::<T, 64>(&input.view, &mut out.view).grid(shape[0])
        } else {
            softmax(&input.view, &mut out.view)
        };
        trial.launch(call)?;
        Ok((trial.results(&out)?, softmax_reference::<T>(&widened(&x), shape[1])))
    })
}

/// Rows with infinities and NaN.
fn softmax_specials(online: bool) -> Case {
    let form = if online { "softmax_online" } else { "softmax" };
    Case::new("softmax", format!("{form} specials"), move |trial| {
        const COLS: usize = 130;
        let (low, high, nan) = (f32::NEG_INFINITY, f32::INFINITY, f32::NAN);
        let mut x = vec![low; 5 * COLS];
        // Row 0 is -inf alone, row 1 is -inf but for two elements in the last tile.
        x[COLS + 128] = 3.0;
        x[COLS + 129] = 3.0;
        x[2 * COLS + 7] = nan;
        x[3 * COLS + 9] = high;
        // Huge values don't overflow.
        x[4 * COLS] = 3e38;
        x[4 * COLS + 1] = 3e38;
        let input = trial.tensor([5, COLS], &x)?;
        let mut out = trial.zeros::<f32, 2>([5, COLS])?;
        let call = if online {
            softmax::softmax_online::<f32, 64>(&input, &mut out).grid(5)
        } else {
            softmax(&input, &mut out)
        };
        trial.launch(call)?;
        let mut want = vec![exactly(f64::NAN); COLS];
        let halves = |a: usize, b: usize| {
            (0..COLS).map(move |c| exactly(if c == a || c == b { 0.5 } else { 0.0 }))
        };
        want.extend(halves(128, 129));
        want.extend(vec![exactly(f64::NAN); 2 * COLS]);
        want.extend(halves(0, 1));
        Ok((widened(&out.to_vec()?), want))
    })
}

fn reduces<T: HostFloat, O: HostFloat, F: Reduction>(
    shape: [usize; 2],
    placement: Placement,
    reference: fn(&[f64]) -> Expected,
) -> Case {
    let label = type_label::<F>();
    let name = format!("reduce {label} {} to {} {shape:?} {placement:?}", T::DTYPE, O::DTYPE);
    Case::new("reductions", name, move |trial| {
        let [rows, cols] = shape;
        let x = noise::<T>(rows * cols, 111);
        let input = trial.place(shape, &x, placement, T::nearest(f32::NAN))?;
        let mut out = trial.zeros::<O, 1>([rows])?;
        trial.launch(reduce::<T, O, F>(&input.view, &mut out))?;
        let x = widened(&x);
        let of = |row: usize| {
            let want = reference(&x[row * cols..(row + 1) * cols]);
            stored::<O>(want.value, want.within)
        };
        Ok((widened(&out.to_vec()?), (0..rows).map(of).collect()))
    })
}

fn sum(row: &[f64]) -> Expected {
    let size: f64 = row.iter().map(|v| v.abs()).sum();
    Expected { value: row.iter().sum(), within: sum_error(row.len(), size) }
}
fn mean(row: &[f64]) -> Expected {
    let Expected { value, within } = sum(row);
    let n = row.len() as f64;
    Expected { value: value / n, within: within / n }
}
fn largest(row: &[f64]) -> Expected {
    exactly(row.iter().fold(f64::NEG_INFINITY, |m, &v| m.max(v)))
}
fn smallest(row: &[f64]) -> Expected {
    exactly(row.iter().fold(f64::INFINITY, |m, &v| m.min(v)))
}

fn finds<T: HostFloat>(shape: [usize; 2], nan: Option<usize>) -> Case {
    let name = format!("argmax in one stage {} {shape:?}, NaN at {nan:?}", T::DTYPE);
    Case::new("argmax", name, move |trial| {
        let [rows, cols] = shape;
        let mut x = noise::<T>(rows * cols, 112);
        if let Some(at) = nan {
            x[at] = T::nearest(f32::NAN);
        }
        let input = trial.tensor(shape, &x)?;
        let mut id = trial.zeros::<i64, 1>([rows])?;
        trial.launch(argmax(&input, &mut id))?;
        let x = widened(&x);
        let first = |row: usize| {
            let row = &x[row * cols..(row + 1) * cols];
            let peak = row.iter().fold(f64::NEG_INFINITY, |m, &v| m.max(v));
            let nan = row.iter().position(|v| v.is_nan());
            let at = nan.or_else(|| row.iter().position(|&v| v == peak)).unwrap_or(0);
            exactly(at as f64)
        };
        Ok((widened(&id.to_vec()?), (0..rows).map(first).collect()))
    })
    .exact()
}

pub fn cases() -> Vec<Case> {
    use Placement::Plain;
    let mut all = vec![softmax_specials(false), softmax_specials(true)];
    for shape in
        [[1, 1], [3, 2], [2, 31], [9, 64], [40, 5], [2, 576], [2, 896], [2, 1025], [0, 5], [3, 0]]
    {
        all.push(softmaxes::<f32>(shape, Plain, false));
        all.push(softmaxes::<f16>(shape, Plain, false));
        all.push(softmaxes::<bf16>(shape, Plain, false));
        all.push(reduces::<f32, f32, Sum>(shape, Plain, sum));
        all.push(reduces::<f16, f32, Mean>(shape, Plain, mean));
        all.push(reduces::<bf16, bf16, Maximum>(shape, Plain, largest).exact());
        all.push(reduces::<f32, f32, Minimum>(shape, Plain, smallest).exact());
        all.push(finds::<f32>(shape, None));
    }
    for cols in [63, 64, 65, 300] {
        all.push(softmaxes::<f32>([2, cols], Plain, true));
        all.push(softmaxes::<f16>([1, cols], Plain, true));
    }
    for placement in Placement::ALL {
        all.push(softmaxes::<f32>([5, 37], placement, false));
        all.push(softmaxes::<bf16>([9, 37], placement, false));
        all.push(softmaxes::<f32>([2, 70], placement, true));
        all.push(reduces::<f32, f16, Sum>([9, 37], placement, sum));
        all.push(reduces::<f32, f32, Maximum>([2, 37], placement, largest).exact());
    }
    all.push(softmaxes::<f32>([1, 16_500], Plain, false));
    all.push(reduces::<f32, f32, Sum>([1, 9000], Plain, sum));
    all.push(reduces::<f16, f16, Mean>([1, 5000], Plain, mean));
    all.extend([finds::<f16>([2, 5000], None), finds::<f32>([2, 5000], Some(4990))]);
    all.push(finds::<bf16>([3, 40], Some(50)));
    all
}
