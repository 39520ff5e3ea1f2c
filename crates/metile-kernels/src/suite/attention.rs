//! Attention, with every slot of the cache beyond the valid length poisoned.

use super::data::{HostFloat, exactly, noise, stored, sum_error, unit, widened};
use super::{Case, Expected};
use crate::attention::{
    DecodeBuffers, decode_attention_merge, decode_attention_parts, prefill_attention,
};
use metile::prelude::*;

/// Sizes of one attention.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    heads: usize,
    kv_heads: usize,
    width: usize,
    capacity: usize,
}

const SCALE: f32 = 0.125;

/// The attention of one query head over the first `keys` slots, of which queries and weights are rounded by up to `rounding` of
/// themselves.
fn attend(q: &[f64], k: &[f64], v: &[f64], keys: usize, rounding: f64) -> Vec<Expected> {
    let width = q.len();
    if keys == 0 {
        return vec![exactly(0.0); width];
    }
    let mut scores = Vec::new();
    let mut score_error = 0f64;
    for slot in k.chunks(width).take(keys) {
        let terms = q.iter().zip(slot).map(|(a, b)| a * b * f64::from(SCALE));
        let (sum, size) = terms.fold((0.0, 0.0), |(s, m), t| (s + t, m + t.abs()));
        score_error = score_error.max(sum_error(width, size) + rounding * size);
        scores.push(sum);
    }
    let peak = scores.iter().fold(f64::NEG_INFINITY, |a, &b| a.max(b));
    let weights: Vec<f64> = scores.iter().map(|s| (s - peak).exp()).collect();
    let total: f64 = weights.iter().sum();
    // An error of a score is a relative one of its weight, in the numerator and in the sum; the
    // exponentials, their sum and the fading add roundings.
    let relative = rounding + 2.0 * score_error + (32.0 + keys as f64 / 4.0) * unit::<f32>();
    (0..width)
        .map(|x| {
            let terms = (0..keys).map(|j| weights[j] * v[j * width + x] / total);
            let (sum, size) = terms.fold((0.0, 0.0), |(s, m), t| (s + t, m + t.abs()));
            stored::<f32>(sum, size * relative)
        })
        .collect()
}

/// Keys or values, of which the slots from `length` on are NaN.
fn cache<C: HostFloat>(sizes: Sizes, length: usize, seed: u64) -> Vec<C> {
    let mut all = noise::<C>(sizes.kv_heads * sizes.capacity * sizes.width, seed);
    for head in all.chunks_mut((sizes.capacity * sizes.width).max(1)) {
        head[length.min(sizes.capacity) * sizes.width..].fill(C::nearest(f32::NAN));
    }
    all
}

/// Rows of queries, row r seeing `keys(r)` slots.
fn reference(
    sizes: Sizes,
    [q, k, v]: [&[f64]; 3],
    rows: usize,
    keys: impl Fn(usize) -> usize,
    rounding: f64,
) -> Vec<Expected> {
    let Sizes { heads, kv_heads, width, capacity } = sizes;
    let mut all = Vec::new();
    for row in 0..rows {
        for head in 0..heads {
            let kv = head / (heads / kv_heads);
            let slots = kv * capacity * width..(kv + 1) * capacity * width;
            let query = &q[(row * heads + head) * width..][..width];
            all.extend(attend(query, &k[slots.clone()], &v[slots], keys(row), rounding));
        }
    }
    all
}

fn decodes<C: HostFloat>(sizes: Sizes, length: usize) -> Case {
    let Sizes { heads, kv_heads, width, capacity } = sizes;
    let name = format!(
        "decode_attention {} {heads}/{kv_heads} heads of {width}, {length} of {capacity} keys",
        C::DTYPE
    );
    Case::new("decode_attention", name, move |trial| {
        let q = noise::<f32>(heads * width, 90);
        let (k, v) = (cache::<C>(sizes, length, 91), cache::<C>(sizes, length, 92));
        let query = trial.tensor([1, heads, width], &q)?;
        let keys = trial.tensor([kv_heads, capacity, width], &k)?;
        let values = trial.tensor([kv_heads, capacity, width], &v)?;
        // Length 0 stands for a chunk without rows, which stores nothing.
        let state = trial.tensor([2], &[length as i64 - 1, i64::from(length > 0)])?;
        let mut out = trial.tensor([1, heads * width], &vec![7.0f32; heads * width])?;
        let mut buffers = DecodeBuffers::new(trial.device, heads, capacity, width)?;
        trial.launch(decode_attention_parts(
            &query,
            &keys,
            &values,
            &mut buffers,
            &state,
            SCALE,
        ))?;
        trial.launch(decode_attention_merge(&buffers, &mut out, &state))?;
        let (q, k, v) = (widened(&q), widened(&k), widened(&v));
        let want = match length {
            0 => vec![exactly(7.0); heads * width],
            _ => reference(sizes, [&q, &k, &v], 1, |_| length, 0.0),
        };
        Ok((widened(&out.to_vec()?), want))
    })
}

fn prefills<C: HostFloat>(sizes: Sizes, rows: usize, [past, valid]: [usize; 2]) -> Case {
    let Sizes { heads, kv_heads, width, capacity } = sizes;
    let name = format!(
        "prefill_attention {} {heads}/{kv_heads} heads of {width}, {valid} of {rows} rows after {past} of {capacity} keys",
        C::DTYPE
    );
    Case::new("prefill_attention", name, move |trial| {
        let n = heads * width;
        let q = noise::<f32>(rows * n, 93);
        let length = past + valid;
        let (k, v) = (cache::<C>(sizes, length, 94), cache::<C>(sizes, length, 95));
        let query = trial.tensor([rows, heads, width], &q)?;
        let keys = trial.tensor([kv_heads, capacity, width], &k)?;
        let values = trial.tensor([kv_heads, capacity, width], &v)?;
        let state = trial.tensor([2], &[past as i64, valid as i64])?;
        let mut out = trial.tensor([rows, n], &vec![7.0f32; rows * n])?;
        trial.launch(prefill_attention(&query, &keys, &values, &mut out, &state, SCALE))?;
        let (q, k, v) = (widened(&q), widened(&k), widened(&v));
        // Rounded to the cache's type.
        let rounding = if C::DTYPE == f32::DTYPE { 0.0 } else { unit::<C>() };
        let keys = |row| past + row + 1;
        let mut want = reference(sizes, [&q, &k, &v], valid, keys, rounding);
        want.resize(rows * n, exactly(7.0));
        Ok((widened(&out.to_vec()?), want))
    })
}

pub fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    let llama = |capacity| Sizes { heads: 32, kv_heads: 8, width: 128, capacity };
    let small = |capacity| Sizes { heads: 9, kv_heads: 3, width: 64, capacity };
    for length in [0, 1, 31, 32, 33, 38] {
        all.push(decodes::<f32>(small(64), length));
        all.push(decodes::<f32>(Sizes { heads: 4, kv_heads: 1, ..llama(40) }, length));
    }
    all.push(decodes::<f32>(llama(300), 38));
    for length in [1023, 1024, 1025] {
        all.push(decodes::<f32>(Sizes { heads: 3, kv_heads: 1, ..small(1500) }, length));
        all.push(decodes::<f16>(Sizes { heads: 4, kv_heads: 1, ..llama(1025) }, length));
    }
    for length in [4095, 4096] {
        all.push(decodes::<f32>(
            Sizes { heads: 2, kv_heads: 1, width: 16, capacity: 4096 },
            length,
        ));
    }
    for (heads, kv_heads, width) in
        [(1, 1, 1), (7, 7, 31), (14, 2, 64), (5, 1, 80), (20, 2, 24), (6, 2, 200), (12, 2, 96)]
    {
        let sizes = Sizes { heads, kv_heads, width, capacity: 20 };
        all.push(decodes::<bf16>(sizes, 19));
        all.push(prefills::<f32>(sizes, 3, [9, 3]));
    }
    for (rows, state) in
        [(1, [0, 1]), (33, [0, 33]), (40, [3, 35]), (5, [126, 5]), (3, [4, 0]), (0, [4, 0])]
    {
        all.push(prefills::<f32>(small(140), rows, state));
    }
    all.push(prefills::<f32>(Sizes { heads: 4, kv_heads: 1, ..llama(200) }, 40, [130, 40]));
    all.push(prefills::<f16>(Sizes { heads: 1, kv_heads: 1, ..llama(300) }, 70, [200, 70]));
    all.push(prefills::<bf16>(Sizes { heads: 14, kv_heads: 2, ..small(40) }, 17, [1, 17]));
    for (rows, state) in [(70, [0, 70]), (64, [70, 64]), (130, [3, 100])] {
        let grouped = Sizes { heads: 4, kv_heads: 2, width: 128, capacity: 200 };
        all.push(prefills::<bf16>(grouped, rows, state));
        all.push(prefills::<f16>(Sizes { heads: 3, kv_heads: 1, ..small(200) }, rows, state));
    }
    all.push(prefills::<f32>(small(10), 8, [4, 6]));
    all
}
