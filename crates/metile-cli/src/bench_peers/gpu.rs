//! Kernels of the library on a GPU beside PyTorch's, graph against graph: each sample is one replay of a recorded
//! list of launches, divided by their number.

use super::process::{Peers, Request};
use super::{Arm, Measured};
use metile::lang::element::HostElement;
use metile::prelude::*;
use std::time::Instant;

/// A kernel at one size, with how many launches a list has.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    size: [usize; 2],
    launches: usize,
}

const fn case(name: &'static str, rows: usize, cols: usize, launches: usize) -> Case {
    Case { name, size: [rows, cols], launches }
}
/// Rows of the projection of a prompt's chunk.
const CHUNK: usize = 2048;
/// Query heads of attention, of [`Case::size`]'s second side, and K/V heads where queries share them.
const HEADS: usize = 16;
const KV_HEADS: usize = 8;

const CASES: [Case; 30] = [
    case("gemm_bf16", 1024, 1024, 100),
    case("gemm_bf16", 4096, 4096, 10),
    case("gemm_bf16", 8192, 8192, 4),
    case("gemm_f16", 1024, 1024, 100),
    case("gemm_f16", 4096, 4096, 10),
    case("gemm_f16", 8192, 8192, 4),
    case("gemm_f32", 1024, 1024, 50),
    case("gemm_f32", 4096, 4096, 4),
    case("softmax_f32", 32, 1024, 100),
    case("softmax_f32", 256, 1024, 100),
    case("softmax_f32", 4096, 4096, 20),
    case("softmax_f16", 4096, 4096, 20),
    case("rms_norm_f32", 32, 1024, 100),
    case("rms_norm_f32", 256, 1024, 100),
    case("rms_norm_f32", 4096, 4096, 20),
    case("rms_norm_f16", 4096, 4096, 20),
    case("layer_norm_f32", 32, 1024, 100),
    case("layer_norm_f32", 256, 1024, 100),
    case("layer_norm_f32", 4096, 4096, 20),
    case("layer_norm_f16", 4096, 4096, 20),
    case("copy_f32", 4096, 4096, 20),
    case("copy_f16", 4096, 4096, 20),
    case("project_bf16", 151_936, 1024, 10),
    case("project_f32", 151_936, 1024, 10),
    case("project_bf16", 3072, 1024, 100),
    case("chunk_bf16", 3072, 1024, 50),
    case("attention_bf16", 4096, 128, 10),
    case("attention_bf16", 8192, 128, 4),
    case("grouped_attention_bf16", 4096, 128, 10),
    case("grouped_attention_bf16", 8192, 128, 4),
];

/// Measures all cases that `wanted` asks for.
///
/// # Errors
/// If a kernel is refused, the device fails, or the peers' process ends.
pub fn measure(
    device: &Device,
    rounds: usize,
    peers: &mut Peers,
    wanted: impl Fn(&str) -> bool,
    mut each: impl FnMut(&Measured) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    for case in CASES {
        if !wanted(case.name) {
            continue;
        }
        let list = recorded(device, case)?;
        let ours: Arm<'_> = Box::new(move |_, repeats| {
            let timed = (0..repeats).map(|_| {
                let start = Instant::now();
                list.replay()?;
                Ok(start.elapsed().as_secs_f64() / case.launches as f64)
            });
            Ok(Ok(timed.collect::<anyhow::Result<Vec<f64>>>()?))
        });
        let theirs: Arm<'_> = Box::new(move |peers: &mut Peers, repeats: usize| {
            let Case { name, size, .. } = case;
            peers.time(&Request { peer: "torch", case: name, size, model: None, repeats })
        });
        let arms = vec![("metile".to_owned(), ours), ("torch".to_owned(), theirs)];
        each(&super::in_turn(case.name, case.size, rounds, 20, arms, peers)?)?;
    }
    Ok(())
}

fn noise(n: usize) -> impl Iterator<Item = f32> {
    let mut state = n as u32;
    (0..n).map(move |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    })
}

fn random<T: HostElement + Float + Weight, const R: usize>(
    device: &Device,
    shape: [usize; R],
    from: fn(f32) -> T,
) -> anyhow::Result<Tensor<T, R>> {
    let values: Vec<T> = noise(shape.iter().product()).map(from).collect();
    Ok(Tensor::from_slice(device, shape, &values)?)
}

/// The launches of a case, over tensors that live as long as the list.
fn recorded(device: &Device, case: Case) -> anyhow::Result<CommandList> {
    let Some((kernel, dtype)) = case.name.rsplit_once('_') else {
        anyhow::bail!("a case is named kernel_dtype, not {}", case.name);
    };
    match dtype {
        "bf16" => record(device, case, kernel, bf16::from_f32),
        "f16" => record(device, case, kernel, f16::from_f32),
        _ => record(device, case, kernel, |v| v),
    }
}

fn record<T: HostElement + Float + Weight>(
    device: &Device,
    case: Case,
    kernel: &str,
    from: fn(f32) -> T,
) -> anyhow::Result<CommandList> {
    let [rows, cols] = case.size;
    let mut list = CommandList::new(device);
    let x = random(device, [rows, cols], from)?;
    let w = random(device, [cols], from)?;
    let mut out = Tensor::<T, 2>::zeros(device, [rows, cols])?;
    match kernel {
        "gemm" => {
            let b = random(device, [rows, cols], from)?;
            for _ in 0..case.launches {
                list.record(metile_kernels::gemm(&x, &b, &mut out))?;
            }
        }
        "project" => {
            let row = random(device, [1, cols], |v| v)?;
            let mut out = Tensor::<f32, 2>::zeros(device, [1, rows])?;
            for _ in 0..case.launches {
                list.record(metile_kernels::project(&row, &x, &mut out))?;
            }
        }
        "chunk" => {
            let chunk = random(device, [CHUNK, cols], from)?;
            let mut out = Tensor::<f32, 2>::zeros(device, [CHUNK, rows])?;
            for _ in 0..case.launches {
                list.record(metile_kernels::project_matched(&chunk, &x, &mut out))?;
            }
        }
        "attention" | "grouped_attention" => {
            let kv_heads = if kernel == "attention" { HEADS } else { KV_HEADS };
            let queries = random(device, [rows, HEADS, cols], |v| v)?;
            let keys = random(device, [kv_heads, rows, cols], from)?;
            let values = random(device, [kv_heads, rows, cols], from)?;
            let state = Tensor::from_slice(device, [2], &[0, rows as i64])?;
            let mut out = Tensor::<f32, 2>::zeros(device, [rows, HEADS * cols])?;
            let scale = 1.0 / (cols as f32).sqrt();
            for _ in 0..case.launches {
                list.record(metile_kernels::prefill_attention(
                    &queries, &keys, &values, &mut out, &state, scale,
                ))?;
            }
        }
        _ => {
            for _ in 0..case.launches {
                list.record(match kernel {
                    "softmax" => metile_kernels::softmax(&x, &mut out),
                    "rms_norm" => metile_kernels::rms_norm(&x, &w, &mut out, 1e-5),
                    "layer_norm" => metile_kernels::layer_norm(&x, &w, &w, &mut out, 1e-5),
                    _ => metile_kernels::scale(&x, 1.0, &mut out),
                })?;
            }
        }
    }
    Ok(list)
}
