//! Arguments whose shapes don't fit are refused when they are launched, in words.

use metile::{Device, KernelCall, Tensor};
use metile_kernels as kernels;
use metile_kernels::fft::{Direction, FftTables};

fn zeros<const R: usize>(shape: [usize; R]) -> Tensor<f32, R> {
    Tensor::zeros(&Device::interpreter(), shape).unwrap()
}

#[track_caller]
fn refused(call: KernelCall<'_>, why: &str) {
    let error = call.prepare(&Device::interpreter()).unwrap().launch().unwrap_err().to_string();
    assert!(error.contains(why), "{error}");
}

#[test]
fn shapes_that_do_not_fit() {
    let (x, wide) = (zeros([2, 8]), zeros([2, 9]));
    let mut out = zeros([2, 8]);
    refused(kernels::softmax(&wide, &mut out), "out has x's shape");
    refused(kernels::add(&x, &wide, &mut out), "y and out have x's shape");
    refused(kernels::rms_norm(&x, &zeros([9]), &mut out, 1e-5), "weight its columns");
    refused(kernels::gemm(&x, &wide, &mut out), "a is [m, k], b is [k, n], out is [m, n]");
    refused(kernels::project(&x, &zeros([8, 9]), &mut out), "w is [n, k]");
    let bias = zeros([7]);
    refused(kernels::project_bias(&x, &zeros([8, 8]), &bias, &mut out), "bias is [n]");
    refused(kernels::transpose(&x, &mut out), "sides exchanged");
    refused(kernels::sum(&x, &mut zeros([3])), "an element for each row");
}

#[test]
fn lengths_that_are_no_power_of_two() {
    let device = Device::interpreter();
    let tables = FftTables::new(&device, 12).unwrap();
    let (re, im) = (zeros([1, 12]), zeros([1, 12]));
    let (mut a, mut b) = (zeros([1, 12]), zeros([1, 12]));
    let call = kernels::fft(&re, &im, &tables, &mut a, &mut b, Direction::Forward);
    refused(call, "a power of two up to 16384");
}

#[test]
fn heads_that_do_not_fit() {
    let device = Device::interpreter();
    let state = Tensor::from_slice(&device, [2], &[0i64, 1]).unwrap();
    let (q, cache) = (zeros([1, 3, 8]), zeros([2, 4, 8]));
    let mut out = zeros([1, 24]);
    let call = kernels::prefill_attention(&q, &cache, &cache, &mut out, &state, 1.0);
    refused(call, "a multiple of its heads");
    let (q, cache) = (zeros([1, 1, 300]), zeros([1, 4, 300]));
    let mut out = zeros([1, 300]);
    let call = kernels::prefill_attention(&q, &cache, &cache, &mut out, &state, 1.0);
    refused(call, "at most that of a tile");
    let mut cache = zeros([2, 4, 8]);
    refused(kernels::kv_write(&zeros([1, 1, 8]), &mut cache, &state), "the cache's heads");
}
