//! Embedding, quantization, rotation, the cache, argmax.

use super::data::{HostFloat, Weights, exactly, noise, stored, unit, weights, widened};
use super::{Case, Expected};
use crate::argmax::{ArgmaxBuffers, argmax_merge, argmax_parts};
use crate::cache::kv_write;
use crate::embedding::{embed, embedding};
use crate::quantize::quantize_q8;
use crate::rope::{RopeStyle, rope};
use metile::prelude::*;

fn rows_of(table: &[f64], ids: &[i64], width: usize) -> Vec<f64> {
    let row = |&id: &i64| -> Vec<f64> {
        let at = usize::try_from(id).ok().and_then(|id| table.get(id * width..(id + 1) * width));
        at.map_or(vec![0.0; width], <[f64]>::to_vec)
    };
    ids.iter().flat_map(row).collect()
}

/// The last id of `ids` is beyond the valid rows.
fn embeds<W: Weight>(vocabulary: usize, width: usize, ids: &'static [i64]) -> Case {
    let name = format!("embed {} {:?}", W::FORMAT, [ids.len(), vocabulary, width]);
    Case::new("embedding", name, move |trial| {
        let table: Weights<W> = weights(trial.device, [vocabulary, width], 40)?;
        let (rows, valid) = (ids.len(), ids.len().saturating_sub(1));
        let index = trial.tensor([rows], ids)?;
        let state = trial.tensor([2], &[5i64, valid as i64])?;
        let mut out = trial.tensor([rows, width], &vec![7.0f32; rows * width])?;
        trial.launch(embed(&index, &table.tensor, &mut out, &state))?;
        let mut want = rows_of(&table.values, &ids[..valid], width);
        want.resize(rows * width, 7.0);
        Ok((widened(&out.to_vec()?), want.into_iter().map(exactly).collect()))
    })
    .exact()
}

fn gathers<W: Weight, O: HostFloat>(vocabulary: usize, width: usize, ids: &'static [i64]) -> Case {
    let name =
        format!("embedding {} to {} {:?}", W::FORMAT, O::DTYPE, [ids.len(), vocabulary, width]);
    Case::new("embedding", name, move |trial| {
        let table: Weights<W> = weights(trial.device, [vocabulary, width], 41)?;
        let index = trial.tensor([ids.len()], ids)?;
        let mut out = trial.zeros::<O, 2>([ids.len(), width])?;
        trial.launch(embedding(&index, &table.tensor, &mut out))?;
        let nearest = |v: f64| {
            let rounded = O::nearest(v as f32).scalar().as_f32();
            exactly(rounded.map_or(f64::NAN, f64::from))
        };
        let want = rows_of(&table.values, ids, width).into_iter().map(nearest);
        Ok((widened(&out.to_vec()?), want.collect()))
    })
    .exact()
}

/// Bytes of Q8_0 blocks, in the arithmetic that the kernel's docstring states.
fn q8_blocks(x: &[f32]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for block in x.chunks(32) {
        let most = block.iter().fold(0.0f32, |m, v| m.max(v.abs()));
        let d = most / 127.0;
        let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
        bytes.extend(f16::from_f32(d).to_le_bytes());
        bytes.extend(block.iter().map(|v| (v * inverse).round_ties_even() as i8 as u8));
    }
    bytes
}

fn quantizes([rows, k]: [usize; 2]) -> Case {
    Case::new("quantize_q8", format!("quantize_q8 {:?}", [rows, k]), move |trial| {
        let mut x = noise::<f32>(rows * k, 50);
        x.iter_mut().take(32).for_each(|v| *v = 0.0);
        x.iter_mut().skip(32).take(3).for_each(|v| *v *= 1e4);
        let input = trial.tensor([rows, k], &x)?;
        let mut out = trial.zeros::<u8, 2>([rows, k / 32 * 34])?;
        trial.launch(quantize_q8(&input, &mut out))?;
        let want = widened(&q8_blocks(&x)).into_iter().map(exactly).collect();
        Ok((widened(&out.to_vec()?), want))
    })
    .exact()
}

fn rotates(
    [rows, heads, width]: [usize; 3],
    half: usize,
    [past, valid]: [usize; 2],
    style: RopeStyle,
) -> Case {
    let name = format!("rope {style:?} {:?}, {half} pairs at {past}", [rows, heads, width]);
    Case::new("rope", name, move |trial| {
        let x = noise::<f32>(rows * heads * width, 60);
        let frequencies: Vec<f32> =
            (0..half).map(|i| 10000f32.powf(-(i as f32) / half as f32)).collect();
        let mut tensor = trial.tensor([rows, heads, width], &x)?;
        let f = trial.tensor([half], &frequencies)?;
        let state = trial.tensor([2], &[past as i64, valid as i64])?;
        trial.launch(rope(&mut tensor, &f, &state, style))?;
        let x = widened(&x);
        let mut want: Vec<Expected> = x.iter().map(|&v| exactly(v)).collect();
        for row in 0..valid.min(rows) {
            for head in 0..heads {
                for (i, frequency) in frequencies.iter().enumerate() {
                    let at = (row * heads + head) * width;
                    let (a, b) = match style {
                        RopeStyle::Split => (at + i, at + i + half),
                        RopeStyle::Interleaved => (at + 2 * i, at + 2 * i + 1),
                    };
                    // The angle is the rounded f32 product.
                    let angle = f64::from((past + row) as f32 * frequency);
                    let (s, c) = angle.sin_cos();
                    let error = (x[a].abs() + x[b].abs()) * 4.0 * unit::<f32>();
                    want[a] = stored::<f32>(x[a] * c - x[b] * s, error);
                    want[b] = stored::<f32>(x[b] * c + x[a] * s, error);
                }
            }
        }
        Ok((widened(&tensor.to_vec()?), want))
    })
}

fn caches<C: HostFloat>(
    [rows, heads, width]: [usize; 3],
    capacity: usize,
    [past, valid]: [usize; 2],
) -> Case {
    let shape = [rows, heads, width];
    let name = format!("kv_write {} {shape:?} at {past} of {capacity}, {valid} valid", C::DTYPE);
    Case::new("kv_write", name, move |trial| {
        let x = noise::<f32>(rows * heads * width, 70);
        let before = noise::<C>(heads * capacity * width, 71);
        let input = trial.tensor([rows, heads, width], &x)?;
        let mut cache = trial.tensor([heads, capacity, width], &before)?;
        let state = trial.tensor([2], &[past as i64, valid as i64])?;
        trial.launch(kv_write(&input, &mut cache, &state))?;
        let mut want = before;
        for row in (0..valid.min(rows)).take_while(|row| past + row < capacity) {
            for head in 0..heads {
                for i in 0..width {
                    want[(head * capacity + past + row) * width + i] =
                        C::nearest(x[(row * heads + head) * width + i]);
                }
            }
        }
        Ok((widened(&cache.to_vec()?), widened(&want).into_iter().map(exactly).collect()))
    })
    .exact()
}

/// Which element of row r is made the largest, if any.
type Peak = fn(usize, usize) -> Option<(usize, f32)>;

fn finds<X: HostFloat>(rows: usize, n: usize, what: &'static str, peak: Peak) -> Case {
    let name = format!("argmax {} {:?} {what}", X::DTYPE, [rows, n]);
    Case::new("argmax", name, move |trial| {
        let mut x = noise::<X>(rows * n, 80);
        for row in 0..rows {
            if let Some((at, value)) = peak(row, n) {
                x[row * n + at] = X::nearest(value);
                // An equal later on, which must lose.
                x[row * n + n - 1] = X::nearest(value);
            }
        }
        let input = trial.tensor([rows, n], &x)?;
        let mut buffers = ArgmaxBuffers::new(trial.device, rows, n)?;
        let mut id = trial.zeros::<i64, 1>([rows])?;
        trial.launch(argmax_parts(&input, &mut buffers))?;
        trial.launch(argmax_merge(&buffers, &mut id))?;
        let x = widened(&x);
        let first = |row: usize| {
            let row = &x[row * n..(row + 1) * n];
            let mut best = 0;
            for (i, v) in row.iter().enumerate() {
                if !row[best].is_nan() && (v.is_nan() || *v > row[best]) {
                    best = i;
                }
            }
            exactly(best as f64)
        };
        Ok((widened(&id.to_vec()?), (0..rows).map(first).collect()))
    })
    .exact()
}

pub fn cases() -> Vec<Case> {
    let mut all = vec![
        embeds::<f32>(7, 31, &[6, 0, 3, -1, 7, 2]),
        embeds::<f16>(7, 300, &[6, 0, 3]),
        embeds::<bf16>(3, 1, &[1, 1]),
        embeds::<f32>(3, 1, &[]),
        embeds::<Q4_0>(5, 64, &[4, 1, 0]),
        embeds::<Q4_1>(5, 64, &[4, 1, 0]),
        embeds::<Q5_0>(5, 64, &[4, 1, 0]),
        embeds::<Q5_1>(5, 64, &[4, 1, 0]),
        embeds::<Q8_0>(5, 576, &[4, 1, 0]),
        embeds::<Q4K>(5, 256, &[4, 1, 0]),
        embeds::<Q5K>(5, 256, &[4, 1, 0]),
        embeds::<Q6K>(5, 512, &[4, 1, 0]),
        embeds::<Affine4<64, bf16>>(5, 128, &[4, 1, 0]),
        embeds::<Affine8<32, f16>>(5, 64, &[4, 1, 0]),
        embeds::<Affine8<128, f32>>(5, 128, &[4, 1, 0]),
        gathers::<f32, f32>(7, 31, &[6, 0, 3, -1, 7, i64::MIN]),
        gathers::<f16, f16>(7, 64, &[6, 0, 3]),
        gathers::<bf16, f32>(7, 2050, &[6]),
        gathers::<Q4_1, bf16>(7, 64, &[6, 0, 3]),
    ];
    all.extend([[1, 32], [3, 64], [2, 576], [1, 2080], [0, 64], [2, 0]].map(quantizes));
    for style in [RopeStyle::Split, RopeStyle::Interleaved] {
        all.push(rotates([1, 9, 64], 32, [0, 1], style));
        all.push(rotates([3, 3, 64], 32, [1000, 2], style));
        all.push(rotates([2, 8, 128], 64, [4095, 2], style));
        all.push(rotates([2, 1, 80], 40, [7, 2], style));
        all.push(rotates([2, 3, 64], 8, [131_071, 2], style));
        all.push(rotates([1, 2, 256], 128, [3, 1], style));
        all.push(rotates([1, 1, 2], 1, [1, 1], style));
        all.push(rotates([2, 1, 8], 4, [1, 0], style));
        all.push(rotates([0, 1, 8], 4, [1, 0], style));
    }
    all.extend([
        caches::<f32>([1, 3, 64], 9, [0, 1]),
        caches::<f32>([5, 3, 64], 9, [4, 3]),
        caches::<f16>([40, 2, 64], 64, [3, 35]),
        caches::<bf16>([3, 2, 200], 8, [3, 3]),
        caches::<f32>([4, 1, 1], 6, [4, 4]),
        caches::<f32>([4, 1, 31], 6, [6, 4]),
        caches::<f32>([2, 2, 8], 6, [1, 0]),
        caches::<f32>([0, 2, 8], 6, [1, 0]),
        caches::<f32>([2, 2, 8], 6, [1, 5]),
    ]);
    for n in [1, 2, 31, 64, 1025, 9000] {
        all.push(finds::<f32>(2, n, "first of equals", |row, n| Some(((n / 3 + row) % n, 9.0))));
        all.push(finds::<f16>(1, n, "anything", |_, _| None));
    }
    all.push(finds::<f32>(1, 9000, "first NaN", |_, n| Some((n / 2, f32::NAN))));
    all.push(finds::<bf16>(3, 100, "NaN", |row, _| (row == 1).then_some((5, f32::NAN))));
    all.push(finds::<f32>(1, 70, "infinity", |_, _| Some((69, f32::INFINITY))));
    all.push(finds::<f32>(0, 70, "nothing", |_, _| None));
    all
}
