//! Small kernels through the whole way: macro, tracer, verifier, passes, interpreter.
use metile::prelude::*;

#[kernel]
fn add<T: Float, const BLOCK: usize>(x: &Tensor<T, 1>, y: &Tensor<T, 1>, out: &mut Tensor<T, 1>) {
    let at = program_id(0) * BLOCK + arange(BLOCK);
    out.store(at, x.load(at) + y.load(at));
}

/// Softmax over the last axis.
#[kernel]
fn softmax<T: Float, const BLOCK: usize>(x: &Tensor<T, 2>, out: &mut Tensor<T, 2>) {
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
        out.store(at, (exp(v - peak) / total).to::<T>());
    }
}

#[kernel_fn]
fn gelu(x: Tile<f32>, scale: f32) -> f32 {
    let half = 0.5 * x;
    half * (1.0 + erf(x * scale))
}

#[kernel]
fn control<const N: usize>(x: &Tensor<f32, 1>, out: &mut Tensor<f32, 1>, limit: i64, gain: f32) {
    let mut i = 0;
    let mut state = (zeros::<f32, 1>([N]), 0.0);
    while i < limit && limit > 0 {
        let v = x.load(i * N + arange(N));
        if i % 2 == 0 {
            state.0 += v;
        } else {
            state.0 = state.0 - v;
            state.1 += 1.0;
        }
        for k in 0..3 {
            if k == 1 {
                state.1 += gain;
            }
        }
        for j in 0..limit {
            state.1 += j as f32;
        }
        i += 1;
    }
    let bonus = if state.1 > 2.0 { state.1 } else { scalar(-1.0f32) };
    out.store(arange(N), gelu(state.0, 0.5) + bonus);
    assert!(i <= limit, "i stays below");
    print!("i = {}, sum = {}", i, state.0);
}

#[test]
fn adds() {
    let device = Device::interpreter();
    let x = Tensor::from_slice(&device, [5], &[1.0f32, 2.0, 3.0, 4.0, 5.0]).unwrap();
    let y = Tensor::from_slice(&device, [5], &[10.0f32; 5]).unwrap();
    let mut out = Tensor::<f32, 1>::zeros(&device, [5]).unwrap();
    add::<f32, 4>(&x, &y, &mut out).grid(2).prepare(&device).unwrap().launch().unwrap();
    assert_eq!(out.to_vec().unwrap(), [11.0, 12.0, 13.0, 14.0, 15.0]);
}

#[test]
fn softmaxes() {
    let device = Device::interpreter();
    let values: Vec<f16> = (0..21).map(|i| f16::from_f32((i % 5) as f32)).collect();
    let x = Tensor::from_slice(&device, [3, 7], &values).unwrap();
    let mut out = Tensor::<f16, 2>::zeros(&device, [3, 7]).unwrap();
    let prepared = softmax::<f16, 4>(&x, &mut out).grid(3).prepare(&device).unwrap();
    assert!(
        prepared.explain().starts_with("kernel softmax<f16, 4> on interpreter, grid 3 × 1 × 1")
    );
    let launched = prepared.launch().unwrap();
    assert!(launched.warnings.is_empty(), "{:?}", launched.warnings);
    let got = out.to_vec().unwrap();
    for row in 0..3 {
        let e: Vec<f32> = (0..7).map(|c| values[row * 7 + c].to_f32().exp()).collect();
        let total: f32 = e.iter().sum();
        for c in 0..7 {
            assert!((got[row * 7 + c].to_f32() - e[c] / total).abs() < 1e-3);
        }
    }
}

#[test]
fn controls() {
    let device = Device::interpreter();
    let x = Tensor::from_slice(&device, [8], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]).unwrap();
    let mut out = Tensor::<f32, 1>::zeros(&device, [2]).unwrap();
    let prepared = control::<2>(&x, &mut out, 3, 0.25).grid(1).prepare(&device).unwrap();
    // A variable carried by a `while` and changed in a branch and two loops within it.
    let text = prepared.traced().to_string();
    assert!(text.contains("-> (i64, f32[2], f32) {"), "{text}");
    let parsed = metile::ir::tile::parse::parse("control", &text).unwrap();
    assert_eq!(metile::ir::tile::same::same_program(prepared.traced(), &parsed), Ok(()));
    let launched = prepared.launch().unwrap();
    assert_eq!(launched.printed, ["i = 3, sum = [3.0, 4.0]"]);
    // state.1 = 1 (odd rounds) + 3 · 0.25 + 3 · (0 + 1 + 2)
    let bonus = 1.0 + 0.75 + 9.0;
    let want: Vec<f32> = [3.0f64, 4.0]
        .iter()
        .map(|&s| (s * 0.5 * (1.0 + libm_erf(s * 0.5)) + bonus) as f32)
        .collect();
    for (g, w) in out.to_vec().unwrap().iter().zip(want) {
        assert!((g - w).abs() < 1e-5, "{g} {w}");
    }
}

fn libm_erf(x: f64) -> f64 {
    // Series, enough for a test.
    let mut sum = 0.0;
    let mut term = x;
    for n in 0..60 {
        sum += term / (2 * n + 1) as f64;
        term *= -x * x / (n + 1) as f64;
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}
