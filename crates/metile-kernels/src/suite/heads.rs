//! Heads on their way to attention.

use super::data::{HostFloat, exactly, noise, stored, unit, widened};
use super::{Case, Expected};
use crate::heads::{Heads, ready_heads};
use crate::rope::RopeStyle;
use metile::prelude::*;

const EPS: f32 = 1e-5;

/// Sizes of a case.
#[derive(Clone, Copy)]
struct Sizes {
    rows: usize,
    heads: usize,
    kv_heads: usize,
    half: usize,
    capacity: usize,
    past: usize,
    valid: usize,
}

/// What a model does with heads.
#[derive(Clone, Copy)]
struct Kind {
    normed: bool,
    style: RopeStyle,
    with_queries: bool,
}

/// A head at `position`, normed if there are weights, turned: each element, and how far off f32 may be.
fn head(x: &[f64], weight: Option<&[f64]>, position: usize, style: RopeStyle) -> Vec<(f64, f64)> {
    let half = x.len() / 2;
    let squares: f64 = x.iter().map(|v| v * v).sum();
    let scale = 1.0 / (squares / x.len() as f64 + f64::from(EPS)).sqrt();
    let normed: Vec<f64> = match weight {
        Some(weight) => x.iter().zip(weight).map(|(v, w)| v * scale * w).collect(),
        None => x.to_vec(),
    };
    // The sum of squares is off by a few units, as is every product after it.
    let relative = 4.0 + if weight.is_some() { 8.0 + x.len() as f64 / 8.0 } else { 0.0 };
    let mut out = vec![(0.0, 0.0); x.len()];
    for (i, frequency) in frequencies(half).into_iter().enumerate() {
        let (a, b) = match style {
            RopeStyle::Split => (i, i + half),
            RopeStyle::Interleaved => (2 * i, 2 * i + 1),
        };
        let (s, c) = f64::from(position as f32 * frequency).sin_cos();
        let error = (normed[a].abs() + normed[b].abs()) * relative * unit::<f32>();
        out[a] = (normed[a] * c - normed[b] * s, error);
        out[b] = (normed[b] * c + normed[a] * s, error);
    }
    out
}

fn frequencies(half: usize) -> Vec<f32> {
    (0..half).map(|i| 10000f32.powf(-(i as f32) / half as f32)).collect()
}

fn ready<C: HostFloat>(sizes: Sizes, kind: Kind) -> Case {
    let Sizes { rows, heads, kv_heads, half, capacity, past, valid } = sizes;
    let Kind { normed, style, with_queries } = kind;
    let width = 2 * half;
    let name = format!(
        "ready_heads {} {style:?} {:?} + {kv_heads} at {past} of {capacity}, {valid} valid{}{}",
        C::DTYPE,
        [rows, heads, width],
        if normed { ", normed" } else { "" },
        if with_queries { "" } else { ", no queries" }
    );
    Case::new("ready_heads", name, move |trial| {
        let q = noise::<f32>(rows * heads * width, 61);
        let (k, v) =
            (noise::<f32>(rows * kv_heads * width, 62), noise(rows * kv_heads * width, 63));
        let before = noise::<C>(kv_heads * capacity * width, 64);
        let weights = [noise::<f32>(width, 65), noise::<f32>(width, 66)];
        let mut queries = trial.tensor([rows, heads, width], &q)?;
        let keys = trial.tensor([rows, kv_heads, width], &k)?;
        let values = trial.tensor([rows, kv_heads, width], &v)?;
        let norms = [trial.tensor([width], &weights[0])?, trial.tensor([width], &weights[1])?];
        let frequencies = trial.tensor([half], &frequencies(half))?;
        let mut key_cache = trial.tensor([kv_heads, capacity, width], &before)?;
        let mut value_cache = trial.tensor([kv_heads, capacity, width], &before)?;
        let state = trial.tensor([2], &[past as i64, valid as i64])?;
        let inputs = Heads {
            queries: &mut queries,
            keys: &keys,
            values: &values,
            norms: normed.then_some([&norms[0], &norms[1]]),
            frequencies: &frequencies,
            style,
        };
        let call = ready_heads(inputs, &mut key_cache, &mut value_cache, &state, EPS, with_queries);
        trial.launch(call)?;

        let weights = weights.map(|w| widened(&w));
        let weight = |n: usize| normed.then_some(&weights[n][..]);
        let mut want: Vec<Expected> = widened(&q).into_iter().map(exactly).collect();
        let old: Vec<Expected> = widened(&before).into_iter().map(exactly).collect();
        let (mut want_keys, mut want_values) = (old.clone(), old);
        let (q, k) = (widened(&q), widened(&k));
        for row in 0..valid.min(rows) {
            for h in (0..heads).filter(|_| with_queries) {
                let at = (row * heads + h) * width;
                let turned = head(&q[at..at + width], weight(0), past + row, style);
                for (to, (value, error)) in want[at..].iter_mut().zip(turned) {
                    *to = stored::<f32>(value, error);
                }
            }
            for h in (0..kv_heads).filter(|_| past + row < capacity) {
                let from = (row * kv_heads + h) * width;
                let to = (h * capacity + past + row) * width;
                let turned = head(&k[from..from + width], weight(1), past + row, style);
                for (i, (value, error)) in turned.into_iter().enumerate() {
                    want_keys[to + i] = stored::<C>(value, error);
                    let moved = C::nearest(v[from + i]);
                    want_values[to + i] = exactly(widened(&[moved])[0]);
                }
            }
        }
        want.extend(want_keys);
        want.extend(want_values);
        let mut got = widened(&queries.to_vec()?);
        got.extend(widened(&key_cache.to_vec()?));
        got.extend(widened(&value_cache.to_vec()?));
        Ok((got, want))
    })
}

pub fn cases() -> Vec<Case> {
    let sizes = |rows, heads, kv_heads, half, [past, valid, capacity]: [usize; 3]| Sizes {
        rows,
        heads,
        kv_heads,
        half,
        capacity,
        past,
        valid,
    };
    let mut all = Vec::new();
    for style in [RopeStyle::Split, RopeStyle::Interleaved] {
        for normed in [false, true] {
            let kind = Kind { normed, style, with_queries: true };
            all.push(ready::<f32>(sizes(1, 9, 3, 32, [0, 1, 4]), kind));
            all.push(ready::<f32>(sizes(3, 4, 2, 64, [1000, 2, 1003]), kind));
            all.push(ready::<f16>(sizes(2, 3, 1, 40, [7, 2, 16]), kind));
            all.push(ready::<bf16>(sizes(2, 2, 1, 128, [3, 2, 8]), kind));
            all.push(ready::<f32>(sizes(1, 1, 1, 1, [1, 1, 2]), kind));
            // Rows that are not valid, rows beyond the cache, none at all.
            all.push(ready::<f32>(sizes(2, 2, 2, 4, [1, 0, 8]), kind));
            all.push(ready::<f32>(sizes(4, 2, 1, 4, [6, 4, 8]), kind));
            all.push(ready::<f32>(sizes(0, 2, 1, 4, [1, 0, 8]), kind));
            let kind = Kind { with_queries: false, ..kind };
            all.push(ready::<f32>(sizes(3, 5, 2, 32, [5, 3, 9]), kind));
        }
    }
    all
}
