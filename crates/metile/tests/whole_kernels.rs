//! Kernels as people write them, against closed forms in f64.

use metile::prelude::*;

fn device() -> Device {
    match std::env::var("METILE_TEST_DEVICE").as_deref() {
        Ok("cpu") => Device::cpu(),
        Ok("cuda") => Device::cuda().unwrap(),
        _ => Device::interpreter(),
    }
}

/// Values that are not regular, in -2..2.
fn noise(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((state >> 40) as f32 / (1u64 << 22) as f32) - 2.0
        })
        .collect()
}

fn close(got: &[f32], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len());
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        let both_nan = g.is_nan() && w.is_nan();
        let same = f64::from(*g) == *w;
        assert!(
            both_nan || same || (f64::from(*g) - w).abs() <= tolerance * w.abs().max(1.0),
            "{i}: {g} and {w}"
        );
    }
}

fn widened<T: Float + metile::lang::element::HostElement>(t: &Tensor<T, 2>) -> Vec<f32> {
    t.to_vec().unwrap().iter().map(|v| v.scalar().as_f32().unwrap()).collect()
}

/// Softmax over the last axis, online. `x`, `out`: [rows, cols]; one program per row. A row of -inf
/// alone gives NaN, as 0/0 does.
#[kernel]
fn softmax_online<T: Float, const BLOCK: usize>(x: &Tensor<T, 2>, out: &mut Tensor<T, 2>) {
    let row = program_id(0);
    let cols = x.dim(1);
    let mut peak = f32::NEG_INFINITY;
    let mut total = 0.0;
    for start in tiles(cols, BLOCK) {
        let v = x.load_or((row, start + arange(BLOCK)), f32::NEG_INFINITY).to_f32();
        let next = max(peak, v.max());
        total = total * exp(peak - next) + exp(v - next).sum();
        peak = next;
    }
    for start in tiles(cols, BLOCK) {
        let at = (row, start + arange(BLOCK));
        let v = x.load(at).to_f32();
        out.store(at, exp(v - peak) / total);
    }
}

/// Softmax of whole rows of at most BLOCK columns.
#[kernel]
fn softmax_row<T: Float, const BLOCK: usize>(x: &Tensor<T, 2>, out: &mut Tensor<T, 2>) {
    let at = (program_id(0), arange(BLOCK));
    assert!(x.dim(1) <= BLOCK, "a row fits a tile");
    let v = x.load_or(at, f32::NEG_INFINITY).to_f32();
    let e = exp(v - v.max());
    out.store(at, e / e.sum());
}

fn softmax_f64(x: &[f32], cols: usize) -> Vec<f64> {
    let mut out = Vec::new();
    for row in x.chunks(cols.max(1)) {
        let peak = row.iter().fold(f64::NEG_INFINITY, |m, &v| m.max(f64::from(v)));
        let e: Vec<f64> = row.iter().map(|&v| (f64::from(v) - peak).exp()).collect();
        let total: f64 = e.iter().sum();
        out.extend(e.iter().map(|v| v / total));
    }
    out
}

#[test]
fn softmaxes() {
    let d = device();
    for (rows, cols) in [(1, 1), (3, 7), (2, 64), (2, 257), (0, 5), (3, 0)] {
        let x = noise(rows * cols, cols as u64);
        let want = softmax_f64(&x, cols);
        let input = Tensor::from_slice(&d, [rows, cols], &x).unwrap();
        let mut out = Tensor::<f32, 2>::zeros(&d, [rows, cols]).unwrap();
        softmax_online::<f32, 24>(&input, &mut out)
            .grid(rows)
            .prepare(&d)
            .unwrap()
            .launch()
            .unwrap();
        close(&widened(&out), &want, 1e-6);
        softmax_row::<f32, 300>(&input, &mut out).grid(rows).prepare(&d).unwrap().launch().unwrap();
        close(&widened(&out), &want, 1e-6);
        let narrow: Vec<f16> = x.iter().map(|&v| f16::from_f32(v)).collect();
        let exact: Vec<f32> = narrow.iter().map(|v| v.to_f32()).collect();
        let input = Tensor::from_slice(&d, [rows, cols], &narrow).unwrap();
        let mut out = Tensor::<f16, 2>::zeros(&d, [rows, cols]).unwrap();
        softmax_online::<f16, 16>(&input, &mut out)
            .grid(rows)
            .prepare(&d)
            .unwrap()
            .launch()
            .unwrap();
        close(&widened(&out), &softmax_f64(&exact, cols), 1e-3);
    }
}

#[test]
fn a_softmax_row_of_nothing_but_minus_infinity_is_nan() {
    let d = device();
    let input = Tensor::from_slice(&d, [1, 3], &[f32::NEG_INFINITY; 3]).unwrap();
    let mut out = Tensor::<f32, 2>::zeros(&d, [1, 3]).unwrap();
    softmax_row::<f32, 4>(&input, &mut out).grid(1).prepare(&d).unwrap().launch().unwrap();
    assert!(out.to_vec().unwrap().iter().all(|v| v.is_nan()));
}

/// out = x · weight / sqrt(mean(x²) + eps), row by row. `x`, `out`: [rows, cols]; `weight`: [cols].
#[kernel]
fn rms_norm<T: Float, const BLOCK: usize>(
    x: &Tensor<T, 2>,
    weight: &Tensor<T, 1>,
    out: &mut Tensor<T, 2>,
    eps: f32,
) {
    let row = program_id(0);
    let cols = x.dim(1);
    let mut squares = zeros::<f32, 1>([BLOCK]);
    for start in tiles(cols, BLOCK) {
        let v = x.load((row, start + arange(BLOCK)));
        squares += v * v;
    }
    let scale = rsqrt(squares.sum() / cols.to_f32() + eps);
    for start in tiles(cols, BLOCK) {
        let at = start + arange(BLOCK);
        out.store((row, at), x.load((row, at)) * scale * weight.load(at));
    }
}

#[test]
fn rms_norms() {
    let d = device();
    for cols in [1, 2, 31, 64, 576, 896] {
        let (rows, x, w) = (2, noise(2 * cols, 3), noise(cols, 4));
        let mut want = Vec::new();
        for row in x.chunks(cols) {
            let mean = row.iter().map(|&v| f64::from(v) * f64::from(v)).sum::<f64>() / cols as f64;
            let scale = 1.0 / (mean + 1e-5).sqrt();
            want.extend(row.iter().zip(&w).map(|(&v, &w)| f64::from(v) * scale * f64::from(w)));
        }
        let input = Tensor::from_slice(&d, [rows, cols], &x).unwrap();
        let weight = Tensor::from_slice(&d, [cols], &w).unwrap();
        let mut out = Tensor::<f32, 2>::zeros(&d, [rows, cols]).unwrap();
        rms_norm::<f32, 96>(&input, &weight, &mut out, 1e-5)
            .grid(rows)
            .prepare(&d)
            .unwrap()
            .launch()
            .unwrap();
        close(&out.to_vec().unwrap(), &want, 2e-6);
    }
}

/// out = (x - mean) / sqrt(variance + eps) · weight + bias, row by row.
#[kernel]
fn layer_norm<const BLOCK: usize>(
    x: &Tensor<f32, 2>,
    weight: &Tensor<f32, 1>,
    bias: &Tensor<f32, 1>,
    out: &mut Tensor<f32, 2>,
    eps: f32,
) {
    let row = program_id(0);
    let n = x.dim(1).to_f32();
    let lane = arange(BLOCK);
    let v = x.load((row, lane));
    let mean = v.sum() / n;
    let centred = select(lane < x.dim(1), v - mean, 0.0);
    let scale = rsqrt((centred * centred).sum() / n + eps);
    out.store((row, lane), fma(centred * scale, weight.load(lane), bias.load(lane)));
}

#[test]
fn layer_norms() {
    let d = device();
    for cols in [1, 5, 64, 100] {
        let (x, w, b) = (noise(3 * cols, 8), noise(cols, 9), noise(cols, 10));
        let mut want = Vec::new();
        for row in x.chunks(cols) {
            let mean = row.iter().map(|&v| f64::from(v)).sum::<f64>() / cols as f64;
            let variance =
                row.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / cols as f64;
            let scale = 1.0 / (variance + 1e-5).sqrt();
            want.extend(
                (0..cols).map(|c| {
                    (f64::from(row[c]) - mean) * scale * f64::from(w[c]) + f64::from(b[c])
                }),
            );
        }
        let input = Tensor::from_slice(&d, [3, cols], &x).unwrap();
        let (weight, bias) = (
            Tensor::from_slice(&d, [cols], &w).unwrap(),
            Tensor::from_slice(&d, [cols], &b).unwrap(),
        );
        let mut out = Tensor::<f32, 2>::zeros(&d, [3, cols]).unwrap();
        layer_norm::<100>(&input, &weight, &bias, &mut out, 1e-5)
            .grid(3)
            .prepare(&d)
            .unwrap()
            .launch()
            .unwrap();
        close(&out.to_vec().unwrap(), &want, 1e-5);
    }
}

/// out = a · bᵀ. `a`: [m, k]; `b`: [n, k], dense or packed; `out`: [m, n].
#[kernel]
fn project<A: Float, W: Weight, const BM: usize, const BN: usize, const BK: usize>(
    a: &Tensor<A, 2>,
    b: &Tensor<W, 2>,
    out: &mut Tensor<f32, 2>,
) {
    let (row, col) = (program_id(0) * BM, program_id(1) * BN);
    let mut acc = zeros::<f32, 2>([BM, BN]);
    for k in tiles(a.dim(1), BK) {
        let left = a.load_tile((row, k), [BM, BK]);
        let right = b.load_tile((col, k), [BN, BK]).to_f32();
        acc = dot_add(left, right.t(), acc);
    }
    out.store_tile((row, col), acc);
}

#[test]
fn projections_take_dense_and_packed_weights() {
    let d = device();
    let (m, n, k) = (3, 5, 64);
    let a = noise(m * k, 20);
    let input = Tensor::from_slice(&d, [m, k], &a).unwrap();
    // Q4_0 blocks with d = 0.5 and nibbles 0…15.
    let mut blocks = Vec::new();
    for block in 0..n * k / 32 {
        blocks.extend(f16::from_f32(0.5).to_bits().to_le_bytes());
        blocks.extend(
            (0..16).map(|j| ((j + block) % 16) as u8 | (((j * 3 + block) % 16) as u8) << 4),
        );
    }
    let mut dense = vec![0.0f32; n * k];
    for (block, bytes) in blocks.chunks(18).enumerate() {
        for j in 0..16 {
            dense[block * 32 + j] = (i32::from(bytes[2 + j] & 15) - 8) as f32 * 0.5;
            dense[block * 32 + 16 + j] = (i32::from(bytes[2 + j] >> 4) - 8) as f32 * 0.5;
        }
    }
    let want: Vec<f64> = (0..m * n)
        .map(|i| {
            (0..k).map(|x| f64::from(a[i / n * k + x]) * f64::from(dense[i % n * k + x])).sum()
        })
        .collect();
    let packed = Tensor::<Q4_0, 2>::from_bytes(&d, [n, k], &[&blocks]).unwrap();
    let plain = Tensor::from_slice(&d, [n, k], &dense).unwrap();
    let mut out = Tensor::<f32, 2>::zeros(&d, [m, n]).unwrap();
    project::<f32, Q4_0, 2, 3, 32>(&input, &packed, &mut out)
        .grid((2, 2))
        .prepare(&d)
        .unwrap()
        .launch()
        .unwrap();
    close(&out.to_vec().unwrap(), &want, 1e-5);
    project::<f32, f32, 2, 3, 24>(&input, &plain, &mut out)
        .grid((2, 2))
        .prepare(&d)
        .unwrap()
        .launch()
        .unwrap();
    close(&out.to_vec().unwrap(), &want, 1e-5);
}

#[test]
fn affine_weights_lie_in_three_arrays() {
    let d = device();
    let packed: Vec<u8> = (0..2 * 32).map(|i| (i * 37 % 256) as u8).collect();
    let scales: Vec<u8> =
        [0.5f32, -2.0].iter().flat_map(|&v| bf16::from_f32(v).to_bits().to_le_bytes()).collect();
    let biases: Vec<u8> =
        [1.0f32, 3.0].iter().flat_map(|&v| bf16::from_f32(v).to_bits().to_le_bytes()).collect();
    let weights =
        Tensor::<Affine4<64, bf16>, 2>::from_bytes(&d, [2, 64], &[&packed, &scales, &biases])
            .unwrap();
    let ones = Tensor::from_slice(&d, [1, 64], &[1.0f32; 64]).unwrap();
    let mut out = Tensor::<f32, 2>::zeros(&d, [1, 2]).unwrap();
    project::<f32, Affine4<64, bf16>, 1, 2, 16>(&ones, &weights, &mut out)
        .grid((1, 1))
        .prepare(&d)
        .unwrap()
        .launch()
        .unwrap();
    let sum = |row: usize, scale: f64, bias: f64| -> f64 {
        packed[row * 32..(row + 1) * 32]
            .iter()
            .flat_map(|&b| [b & 15, b >> 4])
            .map(|q| scale * f64::from(q) + bias)
            .sum()
    };
    close(&out.to_vec().unwrap(), &[sum(0, 0.5, 1.0), sum(1, -2.0, 3.0)], 1e-6);
    assert!(
        Tensor::<Affine4<64, bf16>, 2>::from_bytes(&d, [2, 60], &[&packed, &scales, &biases])
            .is_err()
    );
}

/// Causal attention of one head, keys in tiles, with an online softmax. `q`: [queries, D]; `k`, `v`:
/// [keys, D], of which the first `length` are valid. Query i sees keys up to i + length - queries. A
/// query that sees no key gives zeros.
#[kernel]
fn attention<const BQ: usize, const BK: usize, const D: usize>(
    q: &Tensor<f32, 2>,
    k: &Tensor<f32, 2>,
    v: &Tensor<f32, 2>,
    out: &mut Tensor<f32, 2>,
    length: i64,
    scale: f32,
) {
    let first = program_id(0) * BQ;
    let rows = first + arange(BQ);
    let last_key = rows + (length - q.dim(0));
    let (keys, values) = (k.narrow(0, 0, length), v.narrow(0, 0, length));
    let queries = q.load_tile((first, 0), [BQ, D]);
    let mut peak = full::<f32, 1>([BQ], f32::NEG_INFINITY);
    let mut total = zeros::<f32, 1>([BQ]);
    let mut acc = zeros::<f32, 2>([BQ, D]);
    for start in tiles(length, BK) {
        let column = start + arange(BK);
        let seen = column.expand(0) <= last_key.expand(1) && column.expand(0) < length;
        let scores = dot(queries, keys.load_tile((start, 0), [BK, D]).t()) * scale;
        let scores = select(seen, scores, f32::NEG_INFINITY);
        let next = max(peak, scores.max_along(1));
        // A row that has seen nothing yet would compute -inf - -inf.
        let base = select(next == f32::NEG_INFINITY, 0.0, next);
        let weights = exp(scores - base.expand(1));
        let fade = exp(peak - base);
        total = total * fade + weights.sum_along(1);
        acc = dot_add(weights, values.load_tile((start, 0), [BK, D]), acc * fade.expand(1));
        peak = next;
    }
    let safe = select(total == 0.0, 1.0, total);
    out.store_tile((first, 0), acc / safe.expand(1));
}

#[test]
fn attention_sees_the_causal_prefix_and_nothing_else() {
    let d = device();
    const D: usize = 8;
    for (queries, length, capacity) in [(1, 1, 4), (3, 3, 3), (2, 9, 16), (7, 7, 7), (5, 3, 8)] {
        let (q, mut k, mut v) =
            (noise(queries * D, 30), noise(capacity * D, 31), noise(capacity * D, 32));
        // Slots beyond the valid length are never loaded, whatever they hold.
        k[length * D..].fill(f32::NAN);
        v[length * D..].fill(f32::NAN);
        let mut want = Vec::new();
        for i in 0..queries {
            let seen = (i as i64 + 1 + length as i64 - queries as i64).max(0) as usize;
            let dot = |j: usize| {
                (0..D).map(|x| f64::from(q[i * D + x]) * f64::from(k[j * D + x])).sum::<f64>()
                    * 0.25
            };
            let scores: Vec<f64> = (0..seen).map(dot).collect();
            let peak = scores.iter().fold(f64::NEG_INFINITY, |a, &b| a.max(b));
            let weights: Vec<f64> = scores.iter().map(|s| (s - peak).exp()).collect();
            let total: f64 = weights.iter().sum();
            for x in 0..D {
                let sum: f64 = (0..seen).map(|j| weights[j] * f64::from(v[j * D + x])).sum();
                want.push(if seen == 0 { 0.0 } else { sum / total });
            }
        }
        let tensor =
            |rows: usize, values: &[f32]| Tensor::from_slice(&d, [rows, D], values).unwrap();
        let mut out = Tensor::<f32, 2>::zeros(&d, [queries, D]).unwrap();
        let (q, k, v) = (tensor(queries, &q), tensor(capacity, &k), tensor(capacity, &v));
        attention::<2, 3, D>(&q, &k, &v, &mut out, length as i64, 0.25)
            .grid(queries.div_ceil(2))
            .prepare(&d)
            .unwrap()
            .launch()
            .unwrap();
        close(&out.to_vec().unwrap(), &want, 1e-5);
    }
}

/// The index of the largest of `x`, in one persistent launch: a part for each program, a barrier,
/// then program 0 over the parts. `best`, `at`: [programs].
#[kernel(persistent)]
fn argmax<const BLOCK: usize>(
    x: &Tensor<f32, 1>,
    best: &mut Tensor<f32, 1>,
    at: &mut Tensor<i64, 1>,
    out: &mut Tensor<i64, 1>,
) {
    let me = program_id(0);
    let mut peak = f32::NEG_INFINITY;
    let mut index = 0;
    for start in step_range(me * BLOCK, x.dim(0), num_programs(0) * BLOCK) {
        let v = x.load_or(start + arange(BLOCK), f32::NEG_INFINITY);
        let found = v.max();
        if found > peak {
            peak = found;
            index = start + v.argmax();
        }
    }
    best.store(me, peak);
    at.store(me, index);
    grid_barrier();
    if me == 0 {
        let all = best.load_or(arange(64), f32::NEG_INFINITY);
        // The lowest index among equals, whichever program found it.
        let candidates =
            select(all == all.max(), at.load_or(arange(64), i64::MAX), scalar(i64::MAX));
        out.store(0, candidates.min());
    }
}

#[test]
fn argmax_takes_the_first_of_equals_across_programs() {
    let d = device();
    for n in [1, 5, 64, 300] {
        let mut x = noise(n, n as u64);
        x[n / 3] = 9.0;
        x[n - 1] = 9.0;
        let input = Tensor::from_slice(&d, [n], &x).unwrap();
        let mut best = Tensor::<f32, 1>::zeros(&d, [3]).unwrap();
        let mut at = Tensor::<i64, 1>::zeros(&d, [3]).unwrap();
        let mut out = Tensor::<i64, 1>::zeros(&d, [1]).unwrap();
        let launched = argmax::<16>(&input, &mut best, &mut at, &mut out)
            .grid(3)
            .prepare(&d)
            .unwrap()
            .launch()
            .unwrap();
        assert!(launched.warnings.is_empty(), "{:?}", launched.warnings);
        assert_eq!(out.to_vec().unwrap(), [(n / 3) as i64], "{n}");
    }
}

/// Every way to move elements within tiles.
#[kernel]
fn moves(out: &mut Tensor<i64, 2>) {
    let a = arange(6).reshape([2, 3]);
    let lane = arange(12);
    out.store((0, lane), cat([a, a + 6], 0).reshape([12]));
    out.store((1, lane), cat([a, a + 6], 1).reshape([12]));
    out.store((2, lane), interleave(arange(6), arange(6) + 10));
    out.store((3, lane), join(a, a * 10).reshape([12]));
    out.store((4, arange(6)), a.t().reshape([6]));
    out.store((5, arange(6)), arange(12).slice_step(0, 1..12, 2));
    let [low, high] = arange(12).split(0);
    out.store((6, arange(6)), low * high);
    out.store((7, arange(6)), a.gather(1, (a + 1) % 4).reshape([6]));
    out.store((8, lane), (arange(12).scan_sum(0)));
    out.store((9, arange(3)), a.sum_along(0));
    out.store((9, arange(2) + 3), a.max_along(1));
    out.store((9, arange(2) + 5), a.argmax_along(1));
    out.store((10, arange(6)), a.broadcast_to([2, 2, 3]).slice(0, 1..2).squeeze(0).reshape([6]));
    out.store((10, 6), ((a % 2 == 0).any_along(1).all()).to::<i64>());
}

#[test]
fn moves_within_tiles() {
    let d = device();
    let mut out = Tensor::<i64, 2>::zeros(&d, [11, 12]).unwrap();
    moves(&mut out).grid(1).prepare(&d).unwrap().launch().unwrap();
    let got = out.to_vec().unwrap();
    let rows: Vec<&[i64]> = got.chunks(12).collect();
    assert_eq!(rows[0], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    assert_eq!(rows[1], [0, 1, 2, 6, 7, 8, 3, 4, 5, 9, 10, 11]);
    assert_eq!(rows[2], [0, 10, 1, 11, 2, 12, 3, 13, 4, 14, 5, 15]);
    assert_eq!(rows[3], [0, 0, 1, 10, 2, 20, 3, 30, 4, 40, 5, 50]);
    assert_eq!(rows[4][..6], [0, 3, 1, 4, 2, 5]);
    assert_eq!(rows[5][..6], [1, 3, 5, 7, 9, 11]);
    assert_eq!(rows[6][..6], [0, 7, 16, 27, 40, 55]);
    // Index 3 is outside of 3 columns: 0.
    assert_eq!(rows[7][..6], [1, 2, 0, 3, 4, 5]);
    assert_eq!(rows[8], [0, 1, 3, 6, 10, 15, 21, 28, 36, 45, 55, 66]);
    assert_eq!(rows[9][..7], [3, 5, 7, 2, 5, 2, 2]);
    assert_eq!(rows[10][..7], [0, 1, 2, 3, 4, 5, 1]);
}
