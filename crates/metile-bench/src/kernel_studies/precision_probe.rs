//! What precision a product really runs in: 1,024 ones times 1 + 2⁻¹¹ sum up to 1024.5 in f32, and to 1024 where
//! factors are rounded to TF32 or BF16 or sums to f16.

use metile::{Device, Tensor};
use metile_kernels as kernels;

/// Factors of the probe.
pub const LENGTH: usize = 1024;

/// The second factor of every product.
pub const FACTOR: f32 = 1.0 + 1.0 / 2048.0;

/// What ran, by the sum that it came to.
pub fn name(sum: f32) -> String {
    match sum {
        1024.5 => "f32: the sum of 1,024 products 1 · (1 + 2⁻¹¹) is 1024.5".to_owned(),
        1024.0 => "reduced: the sum of 1,024 products 1 · (1 + 2⁻¹¹) is 1024".to_owned(),
        other => {
            format!("neither f32 nor TF32: the sum of 1,024 products 1 · (1 + 2⁻¹¹) is {other}")
        }
    }
}

/// What a product runs in on `device`; or why that is not known.
pub fn of_device(device: &Device) -> String {
    let sum = || -> Result<f32, metile::Error> {
        // Of several rows and columns, so that the path is a matrix product's.
        let side = 16;
        let ones = Tensor::from_slice(device, [side, LENGTH], &vec![1.0f32; side * LENGTH])?;
        let factors = Tensor::from_slice(device, [side, LENGTH], &vec![FACTOR; side * LENGTH])?;
        let mut out = Tensor::<f32, 2>::zeros(device, [side, side])?;
        kernels::project(&ones, &factors, &mut out).prepare(device)?.launch()?;
        let all = out.to_vec()?;
        let differs = all.iter().find(|v| **v != all[0]);
        Ok(differs.copied().unwrap_or(all[0]))
    };
    sum().map_or_else(|why| format!("not probed: {why}"), name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_multiplies_in_f32() {
        assert!(of_device(&Device::cpu()).starts_with("f32"));
    }

    #[test]
    fn tf32_and_f16_are_told_from_f32() {
        let tf32 = |x: f32| f32::from_bits((x.to_bits() + 0x1000) & !0x1fff);
        // 1 + 2⁻¹¹ lies between two TF32 values; the tie goes to the even one, 1.
        let tie = |x: f32| if x == FACTOR { 1.0 } else { tf32(x) };
        let sum: f32 = (0..LENGTH).map(|_| tie(1.0) * tie(FACTOR)).sum();
        assert!(name(sum).starts_with("reduced"));
        let mut half_sum = half::f16::from_f32(0.0);
        for _ in 0..LENGTH {
            half_sum = half::f16::from_f32(half_sum.to_f32() + FACTOR);
        }
        assert!(!name(half_sum.to_f32()).starts_with("f32"));
        let sum: f32 = (0..LENGTH).map(|_| FACTOR).sum();
        assert!(name(sum).starts_with("f32"));
    }
}
