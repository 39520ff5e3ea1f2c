//! On a CPU, rows times bfloat16 weights are the same bits whichever rows are beside them.

use half::bf16;
use metile::{Device, Tensor};
use metile_kernels as kernels;

fn noise(n: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

#[test]
fn rows_have_the_same_bits_alone() {
    let device = Device::cpu();
    for (n, k) in [(64, 300), (96, 1536), (64, 2100)] {
        let w: Vec<bf16> = noise(n * k, 1).into_iter().map(bf16::from_f32).collect();
        let w = Tensor::from_slice(&device, [n, k], &w).unwrap();
        let project = |x: &[f32]| -> Vec<u32> {
            let rows = x.len() / k;
            let x = Tensor::from_slice(&device, [rows, k], x).unwrap();
            let mut out = Tensor::<f32, 2>::zeros(&device, [rows, n]).unwrap();
            kernels::project(&x, &w, &mut out).prepare(&device).unwrap().launch().unwrap();
            out.to_vec().unwrap().into_iter().map(f32::to_bits).collect()
        };
        let x = noise(40 * k, 2);
        let alone: Vec<u32> = x.chunks(k).flat_map(project).collect();
        for rows in [2, 3, 5, 16, 17, 40] {
            assert!(project(&x[..rows * k]) == alone[..rows * n], "{rows} rows, {n} × {k}");
        }
    }
}
