//! A kernel that the library does not have, in a crate that depends on `metile` alone.

use metile::prelude::*;

/// out = log Σⱼ e^(a·b + c), row by row, without overflow: the largest exponent is taken out of the sum.
///
/// `a`, `b`: [rows, cols], cols ≤ BLOCK; `out`: [rows]. One program per row. A row of width 0 gives -inf.
#[kernel]
pub fn log_sum_exp<T: Float, const BLOCK: usize>(
    a: &Tensor<T, 2>,
    b: &Tensor<T, 2>,
    out: &mut Tensor<f32, 1>,
    c: f32,
) {
    let row = program_id(0);
    assert!(a.dim(1) <= BLOCK, "a row fits a tile");
    let lane = arange(BLOCK);
    let inside = lane < a.dim(1);
    let v = select(inside, a.load((row, lane)) * b.load((row, lane)) + c, f32::NEG_INFINITY);
    let peak = v.max();
    // A row of nothing but -inf would compute -inf - -inf.
    let base = select(peak == f32::NEG_INFINITY, 0.0, peak);
    out.store(row, log(exp(v - base).sum()) + base);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_logarithm_of_the_sum() -> Result<(), Box<dyn std::error::Error>> {
        for device in [Device::interpreter(), Device::cpu()] {
            let a = Tensor::from_slice(&device, [2, 3], &[1.0f32, 2.0, 3.0, 100.0, 0.0, -100.0])?;
            let b = Tensor::from_slice(&device, [2, 3], &[1.0f32; 6])?;
            let mut out = Tensor::<f32, 1>::zeros(&device, [2])?;
            log_sum_exp::<f32, 4>(&a, &b, &mut out, 0.5).grid(2).prepare(&device)?.launch()?;
            let got = out.to_vec()?;
            assert!((got[0] - 3.907_606).abs() < 1e-5, "{got:?}");
            assert!((got[1] - 100.5).abs() < 1e-4, "{got:?}");
        }
        Ok(())
    }
}
