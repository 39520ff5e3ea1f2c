//! Kernels of the library, and one that it does not have, beside other libraries.

use super::process::{Peers, Request};
use super::{Arm, Measured};
use metile::prelude::*;
use metile::runtime::cpu;
use std::time::Instant;

/// A kernel at one size.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    size: [usize; 2],
    peers: &'static [&'static str],
}

const ROWS: &[&str] = &["onnxruntime", "torch", "torch_compiled"];
const MATRICES: &[&str] = &["numpy", "mkl", "onnxruntime"];
const fn case(
    name: &'static str,
    rows: usize,
    cols: usize,
    peers: &'static [&'static str],
) -> Case {
    Case { name, size: [rows, cols], peers }
}
const CASES: [Case; 15] = [
    case("gemm", 256, 256, MATRICES),
    case("gemm", 1024, 1024, MATRICES),
    case("gemm", 2048, 2048, MATRICES),
    case("softmax", 256, 1024, ROWS),
    case("softmax", 4096, 4096, ROWS),
    case("rms_norm", 256, 1024, ROWS),
    case("rms_norm", 4096, 4096, ROWS),
    case("layer_norm", 256, 1024, ROWS),
    case("layer_norm", 4096, 4096, ROWS),
    case("log_sum_exp", 256, 1024, &[]),
    case("log_sum_exp", 4096, 4096, &[]),
    case("project_f32", 151_936, 1024, &[]),
    case("project_bf16", 151_936, 1024, &[]),
    case("project_f32", 49_152, 576, &[]),
    case("project_bf16", 49_152, 576, &[]),
];

/// out = log Σⱼ e^(a·b + c), row by row: a kernel that the library does not have.
#[kernel]
fn log_sum_exp<const BLOCK: usize>(
    a: &Tensor<f32, 2>,
    b: &Tensor<f32, 2>,
    out: &mut Tensor<f32, 1>,
    c: f32,
) {
    let row = program_id(0);
    let lane = arange(BLOCK);
    let v = a.load((row, lane)) * b.load((row, lane)) + c;
    let v = select(lane < a.dim(1), v, f32::NEG_INFINITY);
    let peak = v.max();
    out.store(row, log(exp(v - peak).sum()) + peak);
}

/// Bytes that a case reads and writes at least, where its rate is of interest.
pub fn bytes(measured: &Measured) -> Option<usize> {
    let [rows, cols] = measured.size;
    match measured.case {
        "project_f32" => Some(4 * rows * cols),
        "project_bf16" => Some(2 * rows * cols),
        "softmax" | "log_sum_exp" => Some(8 * rows * cols),
        _ => None,
    }
}

fn weight_bytes(case: Case) -> usize {
    let [rows, cols] = case.size;
    rows * cols * if case.name == "project_bf16" { 2 } else { 4 }
}

/// Measures all cases that `wanted` asks for.
///
/// # Errors
/// If a kernel is refused, or the peers' process ends.
pub fn measure(
    rounds: usize,
    peers: &mut Peers,
    wanted: impl Fn(&str) -> bool,
    mut each: impl FnMut(&Measured) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    for case in CASES {
        if !wanted(case.name) {
            continue;
        }
        let mut ours = arm(case)?;
        // About a tenth of a second a sample, and at least three runs.
        let once = ours(peers, 3)?.map_err(anyhow::Error::msg)?;
        let repeats = ((0.1 / super::median(once)) as usize).clamp(3, 200);
        let mut arms: Vec<(String, Arm<'_>)> = vec![("metile".to_owned(), ours)];
        if case.name.starts_with("project") {
            // The machine's own rate for as many bytes, at the same time.
            let read = cpu::Reader::new(weight_bytes(case)).map_err(anyhow::Error::msg)?;
            arms.push((
                "reading".to_owned(),
                Box::new(move |_, repeats| {
                    let seconds = (0..repeats).map(|_| read.seconds());
                    Ok(Ok(seconds.collect()))
                }),
            ));
        }
        for &peer in case.peers {
            let theirs = move |peers: &mut Peers, repeats: usize| {
                let Case { name, size, .. } = case;
                peers.time(&Request { peer, case: name, size, model: None, repeats })
            };
            arms.push((peer.to_owned(), Box::new(theirs)));
        }
        each(&super::in_turn(case.name, case.size, rounds, repeats, arms, peers)?)?;
    }
    Ok(())
}

fn noise(n: usize) -> Vec<f32> {
    let mut state = n as u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

/// The kernel of a case, prepared over tensors that live as long as it does.
fn arm(case: Case) -> anyhow::Result<Arm<'static>> {
    let device = Device::cpu();
    let [rows, cols] = case.size;
    let matrix = || Tensor::from_slice(&device, [rows, cols], &noise(rows * cols));
    let vector = || Tensor::from_slice(&device, [cols], &noise(cols));
    let mut list = CommandList::new(&device);
    match case.name {
        "gemm" => {
            let mut out = Tensor::<f32, 2>::zeros(&device, [rows, cols])?;
            list.record(metile_kernels::gemm(&matrix()?, &matrix()?, &mut out))?;
        }
        "softmax" => {
            let mut out = Tensor::<f32, 2>::zeros(&device, [rows, cols])?;
            list.record(metile_kernels::softmax(&matrix()?, &mut out))?;
        }
        "rms_norm" => {
            let mut out = Tensor::<f32, 2>::zeros(&device, [rows, cols])?;
            list.record(metile_kernels::rms_norm(&matrix()?, &vector()?, &mut out, 1e-5))?;
        }
        "layer_norm" => {
            let mut out = Tensor::<f32, 2>::zeros(&device, [rows, cols])?;
            let (x, w) = (matrix()?, vector()?);
            list.record(metile_kernels::layer_norm(&x, &w, &w, &mut out, 1e-5))?;
        }
        "log_sum_exp" => {
            let mut out = Tensor::<f32, 1>::zeros(&device, [rows])?;
            let (a, b) = (matrix()?, matrix()?);
            list.record(match cols {
                0..=1024 => log_sum_exp::<1024>(&a, &b, &mut out, 0.5).grid(rows),
                _ => log_sum_exp::<4096>(&a, &b, &mut out, 0.5).grid(rows),
            })?;
        }
        name => {
            let x = Tensor::from_slice(&device, [1, cols], &noise(cols))?;
            let mut out = Tensor::<f32, 2>::zeros(&device, [1, rows])?;
            if name == "project_f32" {
                list.record(metile_kernels::project(&x, &matrix()?, &mut out))?;
            } else {
                let halves: Vec<bf16> =
                    noise(rows * cols).into_iter().map(bf16::from_f32).collect();
                let w = Tensor::from_slice(&device, [rows, cols], &halves)?;
                list.record(metile_kernels::project(&x, &w, &mut out))?;
            }
        }
    }
    Ok(Box::new(move |_, repeats| {
        let timed = (0..repeats).map(|_| {
            let start = Instant::now();
            list.replay()?;
            Ok(start.elapsed().as_secs_f64())
        });
        Ok(Ok(timed.collect::<anyhow::Result<Vec<f64>>>()?))
    }))
}
