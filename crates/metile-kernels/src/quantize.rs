//! Activations as packed blocks.

use metile::KernelCall;
use metile::prelude::*;

/// GGUF Q8_0 blocks of 32 elements: d = max|x| / 127 as f16, then 32 times q = round(x · (1/d)) as i8, ties
/// to even; 1/d is taken before d is rounded to f16, and is 0 for a block of zeros.
///
/// `x`: [rows, k]; `out`: [rows, k/32 · 34] bytes, which a `Tensor<Q8_0, 2>` of shape [rows, k] reads; k is
/// a multiple of 32. In a block with a NaN d is NaN; with an infinity d is infinite; a d above 65,504 becomes
/// infinite. One program per row and BLOCK columns.
#[kernel]
pub fn quantize_q8_blocks<const BLOCK: usize>(x: &Tensor<f32, 2>, out: &mut Tensor<u8, 2>) {
    let k = x.dim(1);
    assert!(
        k % 32 == 0 && out.dim(1) == k / 32 * 34 && out.dim(0) == x.dim(0),
        "x is [rows, k] with k a multiple of 32, out is [rows, k/32 · 34]"
    );
    let row = program_id(1);
    let first = program_id(0) * BLOCK;
    let v = x.load((row, first + arange(BLOCK))).reshape([BLOCK / 32, 32]);
    let d = abs(v).max_along(1) / 127.0;
    let inverse = select(d == 0.0, 0.0, 1.0 / d);
    let block = first / 32 * 34 + arange(BLOCK / 32) * 34;
    let q = round(v * inverse.expand(1)).to::<i8>().bitcast::<u8>();
    out.store((row, block.expand(1) + (arange(32) + 2).expand(0)), q);
    let bits = d.to::<f16>().bitcast::<u16>();
    out.store((row, block), (bits & 255).to::<u8>());
    out.store((row, block + 1), (bits >> 8).to::<u8>());
}

/// Q8_0 blocks of every row: see [`quantize_q8_blocks`].
pub fn quantize_q8<'c>(x: &'c Tensor<f32, 2>, out: &'c mut Tensor<u8, 2>) -> KernelCall<'c> {
    let [rows, k] = x.shape();
    match k {
        0..=256 => quantize_q8_blocks::<256>(x, out).grid((k.div_ceil(256), rows)),
        _ => quantize_q8_blocks::<256>(x, out).grid((k.div_ceil(256), rows)),
    }
}
