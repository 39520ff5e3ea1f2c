//! Matrix products of sizes that no tile divides, too large for the interpreter: on the CPU, against sums
//! in f64.

use metile::prelude::*;
use metile_kernels::gemm;

fn noise(n: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

/// The view `[rows, cols]` inside a matrix with a border of NaN on every side.
fn guarded(
    device: &Device,
    rows: usize,
    cols: usize,
    inside: &[f32],
) -> (Tensor<f32, 2>, Tensor<f32, 2>) {
    let mut all = vec![f32::NAN; (rows + 2) * (cols + 2)];
    for row in 0..rows {
        let at = (row + 1) * (cols + 2) + 1;
        all[at..at + cols].copy_from_slice(&inside[row * cols..(row + 1) * cols]);
    }
    let whole = Tensor::from_slice(device, [rows + 2, cols + 2], &all).unwrap();
    let view = whole.slice(0, 1..rows + 1).unwrap().slice(1, 1..cols + 1).unwrap();
    (whole, view)
}

fn check(m: usize, n: usize, k: usize) {
    let device = Device::cpu();
    let (a, b) = (noise(m * k, 1), noise(k * n, 2));
    let (_, left) = guarded(&device, m, k, &a);
    let (_, right) = guarded(&device, k, n, &b);
    let (whole, mut out) = guarded(&device, m, n, &vec![f32::NAN; m * n]);
    gemm(&left, &right, &mut out).prepare(&device).unwrap().launch().unwrap();
    let got = out.to_vec().unwrap();
    for i in 0..m {
        let mut row = vec![0.0f64; n];
        for x in 0..k {
            let factor = f64::from(a[i * k + x]);
            row.iter_mut().zip(&b[x * n..]).for_each(|(sum, &y)| *sum += factor * f64::from(y));
        }
        for (j, want) in row.iter().enumerate() {
            let error = (f64::from(got[i * n + j]) - want).abs();
            // Products of numbers up to 1, summed in f32.
            assert!(
                error <= 1e-6 * k as f64,
                "{m}×{n}×{k} at [{i}, {j}]: {}, not {want}",
                got[i * n + j]
            );
        }
    }
    let guards = whole.to_vec().unwrap().iter().filter(|v| v.is_nan()).count();
    assert_eq!(guards, (m + 2) * (n + 2) - m * n, "{m}×{n}×{k} left its border");
}

#[test]
fn products_of_sizes_that_no_tile_divides() {
    for (m, n, k) in [
        (382, 10, 1),
        (535, 257, 104),
        (257, 535, 382),
        (104, 382, 535),
        (535, 7, 257),
        (1, 535, 382),
        (382, 1, 535),
        (65, 104, 33),
        (10, 257, 9),
        (63, 8, 535),
        (3, 3, 535),
        (535, 535, 1),
    ] {
        check(m, n, k);
    }
}
