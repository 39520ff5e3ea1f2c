//! Real libraries' kernels, where they are installed, against f64 references. What is not installed is said on
//! stderr.

use half::{bf16, f16};
use metile_bench::baseline::{
    Baseline, BaselineError, Device, Dtype, KernelRequest, KernelWorker, StartOptions, Tensor,
    Variant,
};
use serde_json::{Map, Value, json};

fn open(baseline: Baseline) -> Option<KernelWorker> {
    match baseline.locate(Device::Cpu) {
        Ok(installed) => {
            let worker = installed.start(&StartOptions::threads(1)).unwrap();
            Some(KernelWorker::new(worker).unwrap())
        }
        Err(error @ BaselineError::NotInstalled { .. }) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Values in [-1, 1), repeatable, never constant.
fn noise(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12345);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

fn tensor(shape: &[usize], values: &[f32], dtype: Dtype) -> Tensor {
    match dtype {
        Dtype::F32 => Tensor::new(shape, values.to_vec()),
        Dtype::F16 => {
            Tensor::new(shape, values.iter().map(|&x| f16::from_f32(x)).collect::<Vec<_>>())
        }
        Dtype::Bf16 => {
            Tensor::new(shape, values.iter().map(|&x| bf16::from_f32(x)).collect::<Vec<_>>())
        }
        other => panic!("{other}"),
    }
    .unwrap()
}

fn random(shape: &[usize], seed: u32, dtype: Dtype) -> Tensor {
    tensor(shape, &noise(shape.iter().product(), seed), dtype)
}

fn wide(tensor: &Tensor) -> Vec<f64> {
    tensor.to_f32().unwrap().into_iter().map(f64::from).collect()
}

/// x [m, k] times w [n, k] transposed.
fn product(x: &[f64], w: &[f64], [m, n, k]: [usize; 3]) -> Vec<f64> {
    let row = |i: usize, j: usize| (0..k).map(|l| x[i * k + l] * w[j * k + l]).sum();
    (0..m * n).map(|at| row(at / n, at % n)).collect()
}

struct Arm<'k> {
    kernels: &'k mut KernelWorker,
    variant: Variant,
}

impl Arm<'_> {
    /// Runs an operation; checks that poisoning, filling and running again do what they say.
    fn run(
        &mut self,
        op: &str,
        parameters: Value,
        inputs: &[(&str, Tensor)],
    ) -> Result<Tensor, BaselineError> {
        let inputs: Vec<(String, Tensor)> =
            inputs.iter().map(|(name, tensor)| ((*name).to_owned(), tensor.clone())).collect();
        let Value::Object(parameters) = parameters else { panic!("{parameters}") };
        let request = KernelRequest {
            op: op.to_owned(),
            variant: self.variant,
            parameters,
            inputs: inputs.clone(),
        };
        let kernels = &mut *self.kernels;
        let prepared = kernels.prepare(&request)?;
        assert!(!prepared.notes.is_empty());
        let error = kernels.output(&prepared).unwrap_err();
        assert!(error.to_string().contains("no run"), "{error}");
        assert_eq!(kernels.run(&prepared, 2)?.value.len(), 2);
        let first = kernels.output(&prepared)?.remove(0).tensor;
        // Other values of the first input give another result, and the old ones the old.
        let (name, old) = &inputs[0];
        let other = random(old.shape(), 99, old.dtype());
        kernels.poison(&prepared)?;
        kernels.fill(&prepared, &[(name.clone(), other)])?;
        kernels.run(&prepared, 1)?;
        assert_ne!(kernels.output(&prepared)?[0].tensor, first, "{op} replays its output");
        kernels.fill(&prepared, &inputs[..1])?;
        kernels.run(&prepared, 1)?;
        assert_eq!(kernels.output(&prepared)?[0].tensor, first, "{op}");
        kernels.release(prepared)?;
        Ok(first)
    }
}

fn close(what: &str, got: &Tensor, want: &[f64], tolerance: f64) {
    let got = wide(got);
    assert_eq!(got.len(), want.len(), "{what}");
    for (at, (got, want)) in got.iter().zip(want).enumerate() {
        let bound = tolerance * (1.0 + want.abs());
        assert!((got - want).abs() <= bound, "{what}, element {at}: {got}, not {want}");
    }
}

fn tolerance(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F32 => 2e-5,
        Dtype::F16 => 4e-3,
        _ => 3e-2,
    }
}

fn products(baseline: Baseline, dtypes: &[Dtype], variant: Variant) {
    let Some(mut kernels) = open(baseline) else { return };
    let mut arm = Arm { kernels: &mut kernels, variant };
    let [m, n, k] = [5, 24, 64];
    for &dtype in dtypes {
        let what = format!("{baseline} {variant:?} {dtype}");
        let (a, b) = (random(&[m, k], 1, dtype), random(&[n, k], 2, dtype));
        let want = product(&wide(&a), &wide(&b), [m, n, k]);
        let inputs = [("a", a.clone()), ("b", b.clone())];
        let out = arm.run("gemm", json!({ "transpose_b": true }), &inputs).unwrap();
        assert_eq!((out.dtype(), out.shape()), (dtype, &[m, n][..]));
        close(&what, &out, &want, 8.0 * tolerance(dtype));
        let out = arm.run("project", json!({}), &[("x", a.clone()), ("w", b.clone())]).unwrap();
        close(&what, &out, &want, 8.0 * tolerance(dtype));
        // As stored: b [k, n].
        let values = b.to_f32().unwrap();
        let turned: Vec<f32> = (0..k * n).map(|at| values[at % n * k + at / n]).collect();
        let inputs = [("a", a), ("b", tensor(&[k, n], &turned, dtype))];
        close(&what, &arm.run("gemm", json!({}), &inputs).unwrap(), &want, 8.0 * tolerance(dtype));
    }
}

fn rows(baseline: Baseline, dtypes: &[Dtype], variant: Variant) {
    let Some(mut kernels) = open(baseline) else { return };
    let mut arm = Arm { kernels: &mut kernels, variant };
    let [rows, cols] = [3, 129];
    for &dtype in dtypes {
        let what = format!("{baseline} {variant:?} {dtype}");
        let x = random(&[rows, cols], 3, dtype);
        let (w, b) = (random(&[cols], 4, dtype), random(&[cols], 5, dtype));
        let (xs, ws, bs) = (wide(&x), wide(&w), wide(&b));
        let by_row =
            |f: &dyn Fn(&[f64]) -> Vec<f64>| xs.chunks(cols).flat_map(f).collect::<Vec<f64>>();
        let want = by_row(&|row| {
            let peak = row.iter().copied().fold(f64::MIN, f64::max);
            let total: f64 = row.iter().map(|x| (x - peak).exp()).sum();
            row.iter().map(|x| (x - peak).exp() / total).collect()
        });
        close(
            &what,
            &arm.run("softmax", json!({}), &[("x", x.clone())]).unwrap(),
            &want,
            tolerance(dtype),
        );
        let scale = |row: &[f64]| {
            1.0 / (row.iter().map(|x| x * x).sum::<f64>() / cols as f64 + 1e-5).sqrt()
        };
        let want = by_row(&|row| row.iter().zip(&ws).map(|(x, w)| x * scale(row) * w).collect());
        let inputs = [("x", x.clone()), ("w", w.clone())];
        let out = arm.run("rms_norm", json!({ "eps": 1e-5 }), &inputs).unwrap();
        // Rounded once.
        close(&what, &out, &want, if dtype == Dtype::F16 { 6e-4 } else { tolerance(dtype) });
        match arm.run("rms_norm", json!({ "eps": 1e-5, "rounding": "before_weight" }), &inputs) {
            Ok(out) => {
                close(&what, &out, &want, tolerance(dtype));
                if dtype == Dtype::F16 {
                    let policy = by_row(&|row| {
                        let each = row.iter().zip(&ws).map(|(x, w)| {
                            let normalized = f16::from_f64(x * scale(row)).to_f64();
                            f16::from_f64(normalized * w).to_f64()
                        });
                        each.collect()
                    });
                    let off = wide(&out).iter().zip(&policy).filter(|(a, b)| a != b).count();
                    assert!(off <= 4, "{what}: {off} elements follow another policy");
                }
            }
            Err(error) => assert!(matches!(error, BaselineError::Unsupported { .. }), "{error}"),
        }
        let want = by_row(&|row| {
            let mean = row.iter().sum::<f64>() / cols as f64;
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / cols as f64;
            let scaled = |x: &f64| (x - mean) / (variance + 1e-5).sqrt();
            row.iter().zip(ws.iter().zip(&bs)).map(|(x, (w, b))| scaled(x) * w + b).collect()
        });
        let inputs = [("x", x), ("w", w), ("b", b)];
        close(
            &what,
            &arm.run("layer_norm", json!({ "eps": 1e-5 }), &inputs).unwrap(),
            &want,
            tolerance(dtype),
        );
    }
}

/// Affine weights `[n, k]` in MLX's layout with the values that they stand for.
struct Affine {
    q: Tensor,
    scales: Tensor,
    biases: Tensor,
    values: Vec<f64>,
}

const GROUP: usize = 64;

fn unpack(q: &[u32], scales: &[f64], biases: &[f64], k: usize, bits: usize) -> Vec<f64> {
    let per_word = 32 / bits;
    (0..q.len() * per_word)
        .map(|at| {
            let level = q[at / per_word] >> (bits * (at % per_word)) & ((1 << bits) - 1);
            let group = at / k * (k / GROUP) + at % k / GROUP;
            f64::from(level) * scales[group] + biases[group]
        })
        .collect()
}

fn affine(n: usize, k: usize, bits: usize, seed: u32) -> Affine {
    let words = n * k * bits / 32;
    let q: Vec<u32> =
        noise(words, seed).iter().map(|x| x.to_bits().rotate_left(9) ^ 0x5a5a_1234).collect();
    // So that f16 holds the products of 8 bits as well as those of 4.
    let unit = 16.0 / (1_u32 << bits) as f32;
    let positive: Vec<f32> =
        noise(n * k / GROUP, seed + 1).iter().map(|x| (0.01 + x.abs() / 64.0) * unit).collect();
    let scales = tensor(&[n, k / GROUP], &positive, Dtype::F16);
    let biases = random(&[n, k / GROUP], seed + 2, Dtype::F16);
    let values = unpack(&q, &wide(&scales), &wide(&biases), k, bits);
    let q = Tensor::new(&[n, k * bits / 32], q).unwrap();
    Affine { q, scales, biases, values }
}

fn mlp(x: &[f64], [gate, up, down]: [&[f64]; 3], [m, h, i]: [usize; 3]) -> Vec<f64> {
    let (g, u) = (product(x, gate, [m, i, h]), product(x, up, [m, i, h]));
    let act: Vec<f64> = g.iter().zip(&u).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
    let d = product(&act, down, [m, h, i]);
    x.iter().zip(&d).map(|(x, d)| x + d).collect()
}

fn layers(baseline: Baseline, variant: Variant) {
    let Some(mut kernels) = open(baseline) else { return };
    let mut arm = Arm { kernels: &mut kernels, variant };
    let [m, h, i] = [2, 64, 128];
    let dtype = Dtype::Bf16;
    let x = random(&[m, h], 6, dtype);
    let quarter = |shape: &[usize], seed| {
        let values: Vec<f32> =
            noise(shape.iter().product(), seed).iter().map(|x| x / 4.0).collect();
        tensor(shape, &values, dtype)
    };
    let (gate, up, down) = (quarter(&[i, h], 7), quarter(&[i, h], 8), quarter(&[h, i], 9));
    let want = mlp(&wide(&x), [&wide(&gate), &wide(&up), &wide(&down)], [m, h, i]);
    let inputs = [("x", x), ("gate", gate), ("up", up), ("down", down)];
    let out = arm.run("swiglu_mlp", json!({}), &inputs).unwrap();
    close(&format!("{baseline} bf16"), &out, &want, 6e-2);
    for bits in [4, 8] {
        let x = random(&[m, h], 10, Dtype::F16);
        let [gate, up, down] =
            [affine(i, h, bits, 11), affine(i, h, bits, 14), affine(h, i, bits, 17)];
        let parameters = json!({ "bits": bits, "group": GROUP });
        let w = [
            ("x", x.clone()),
            ("w_q", gate.q.clone()),
            ("w_scales", gate.scales.clone()),
            ("w_biases", gate.biases.clone()),
        ];
        let out = arm.run("project", parameters.clone(), &w).unwrap();
        let want = product(&wide(&x), &gate.values, [m, i, h]);
        close(&format!("{baseline} {bits} bits"), &out, &want, 5e-3);
        // Small enough that f16 holds what is between.
        let small: Vec<f32> = noise(m * h, 10).iter().map(|x| x / 64.0).collect();
        let x = tensor(&[m, h], &small, Dtype::F16);
        let want = mlp(&wide(&x), [&gate.values, &up.values, &down.values], [m, h, i]);
        let inputs = [
            ("x", x),
            ("gate_q", gate.q),
            ("gate_scales", gate.scales),
            ("gate_biases", gate.biases),
            ("up_q", up.q),
            ("up_scales", up.scales),
            ("up_biases", up.biases),
            ("down_q", down.q),
            ("down_scales", down.scales),
            ("down_biases", down.biases),
        ];
        let out = arm.run("swiglu_mlp", parameters, &inputs).unwrap();
        close(&format!("{baseline} {bits} bits"), &out, &want, 3e-2);
    }
}

const ALL: [Dtype; 3] = [Dtype::F32, Dtype::F16, Dtype::Bf16];

#[test]
fn mlx() {
    for variant in [Variant::Eager, Variant::Compiled] {
        products(Baseline::Mlx, &ALL, variant);
        rows(Baseline::Mlx, &ALL, variant);
        layers(Baseline::Mlx, variant);
    }
}

#[test]
fn mlx_quantizes() {
    let Some(mut kernels) = open(Baseline::Mlx) else { return };
    let w = random(&[8, 128], 20, Dtype::F16);
    for bits in [4, 8] {
        let [q, scales, biases] = kernels.quantize(&w, bits, GROUP).unwrap();
        let metile_bench::baseline::tensor::Values::U32(words) = q.values() else {
            panic!("{q:?}")
        };
        let values = unpack(words, &wide(&scales), &wide(&biases), 128, bits);
        let step = 2.0 / f64::from((1_u32 << bits) - 1);
        for (got, want) in values.iter().zip(wide(&w)) {
            assert!((got - want).abs() <= step, "{bits} bits: {got}, not {want}");
        }
    }
}

#[test]
fn pytorch() {
    products(Baseline::PyTorch, &ALL, Variant::Eager);
    rows(Baseline::PyTorch, &ALL, Variant::Eager);
    layers(Baseline::PyTorch, Variant::Eager);
}

/// f32 alone: each operation compiles for seconds.
#[test]
fn pytorch_compiled() {
    rows(Baseline::PyTorch, &[Dtype::F32], Variant::Compiled);
}

#[test]
fn onnxruntime() {
    products(Baseline::OnnxRuntime, &[Dtype::F32], Variant::Eager);
    rows(Baseline::OnnxRuntime, &[Dtype::F32], Variant::Eager);
}

#[test]
fn numpy_and_mkl() {
    products(Baseline::NumPy, &[Dtype::F32], Variant::Eager);
    products(Baseline::Mkl, &[Dtype::F32], Variant::Eager);
}

#[test]
fn what_does_not_fit_is_refused() {
    let Some(mut kernels) = open(Baseline::NumPy) else { return };
    let request = |op: &str, parameters: Value, inputs: Vec<(&str, Tensor)>| KernelRequest {
        op: op.to_owned(),
        variant: Variant::Eager,
        parameters: parameters.as_object().cloned().unwrap_or_else(Map::new),
        inputs: inputs.into_iter().map(|(name, tensor)| (name.to_owned(), tensor)).collect(),
    };
    let matrix = |m: usize, n: usize| random(&[m, n], 1, Dtype::F32);
    for (request, said) in [
        (request("levitate", json!({}), vec![]), "no operation levitate"),
        (request("gemm", json!({ "transposeb": true }), vec![]), "no parameter transposeb"),
        (request("gemm", json!({}), vec![("a", matrix(2, 3))]), "gemm takes a, b"),
        (
            request("gemm", json!({}), vec![("a", matrix(2, 3)), ("b", matrix(2, 3))]),
            "inner extents differ: 3, 2",
        ),
        (
            request("gemm", json!({}), vec![("a", matrix(0, 3)), ("b", matrix(3, 3))]),
            "an output of shape [0, 3]",
        ),
    ] {
        let error = kernels.prepare(&request).unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    }
    let whole = request("gemm", json!({}), vec![("a", matrix(2, 3)), ("b", matrix(3, 2))]);
    let prepared = kernels.prepare(&whole).unwrap();
    let error = kernels.fill(&prepared, &[("a".to_owned(), matrix(3, 2))]).unwrap_err();
    assert!(error.to_string().contains("a is f32 [2, 3]; f32 [3, 2] came"), "{error}");
}
