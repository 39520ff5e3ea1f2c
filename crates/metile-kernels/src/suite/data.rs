//! Inputs of cases: values that are not regular, laid out plainly or with strides, and packed weights.

use super::{Expected, Outcome};
use half::f16;
use metile::ir::packed::decode_block;
use metile::ir::{Format, PackedFormat};
use metile::lang::element::{Dtype, Float, HostElement, Weight};
use metile::{Device, Error, KernelCall, Tensor};
use std::time::Instant;

/// One run of a case on a device.
pub struct Trial<'d> {
    pub device: &'d Device,
    seconds: f64,
    warnings: Vec<String>,
    stray_writes: usize,
}

impl<'d> Trial<'d> {
    pub fn new(device: &'d Device) -> Self {
        Trial { device, seconds: 0.0, warnings: Vec::new(), stray_writes: 0 }
    }

    /// Prepares, launches and times a call.
    pub fn launch(&mut self, call: KernelCall<'_>) -> Result<(), Error> {
        let prepared = call.prepare(self.device)?;
        let start = Instant::now();
        let launched = prepared.launch()?;
        self.seconds += start.elapsed().as_secs_f64();
        self.warnings.extend(launched.warnings);
        Ok(())
    }

    pub fn finish(self, values: Vec<f64>, expected: Vec<Expected>) -> Outcome {
        let Trial { seconds, warnings, stray_writes, .. } = self;
        Outcome { values, expected, stray_writes, warnings, seconds }
    }

    /// A tensor with `values`.
    pub fn tensor<T: HostElement, const R: usize>(
        &self,
        shape: [usize; R],
        values: &[T],
    ) -> Result<Tensor<T, R>, Error> {
        Ok(Tensor::from_slice(self.device, shape, values)?)
    }

    /// A tensor of zeros.
    pub fn zeros<T: HostElement, const R: usize>(
        &self,
        shape: [usize; R],
    ) -> Result<Tensor<T, R>, Error> {
        Ok(Tensor::zeros(self.device, shape)?)
    }

    /// A matrix with `values`, among elements that hold `filler`.
    pub fn place<T: HostElement>(
        &self,
        [rows, cols]: [usize; 2],
        values: &[T],
        placement: Placement,
        filler: T,
    ) -> Result<Placed<T>, Error> {
        let far = 65_536 / cols.max(1) + 1;
        let extents = match placement {
            Placement::Plain => [rows, cols],
            Placement::Padded => [rows + 2, cols + 5],
            Placement::Transposed => [cols, rows],
            Placement::Far => [rows * far, cols],
        };
        let mut all = vec![filler; extents[0] * extents[1]];
        let mut own = vec![false; all.len()];
        for (i, &value) in values.iter().enumerate() {
            let (row, col) = (i / cols, i % cols);
            let at = match placement {
                Placement::Plain => i,
                Placement::Padded => (row + 1) * extents[1] + col + 3,
                Placement::Transposed => col * rows + row,
                Placement::Far => row * far * cols + col,
            };
            all[at] = value;
            own[at] = true;
        }
        let backing = Tensor::from_slice(self.device, extents, &all)?;
        let view = match placement {
            Placement::Plain => backing.share(),
            Placement::Padded => backing.slice(0, 1..1 + rows)?.slice(1, 3..3 + cols)?,
            Placement::Transposed => backing.swap_axes(0, 1)?,
            Placement::Far => backing.step_by(0, far)?,
        };
        Ok(Placed { view, backing, before: all, own })
    }

    /// The values of a placed result; what the kernel wrote beside it is counted.
    pub fn results<T: HostElement>(&mut self, placed: &Placed<T>) -> Result<Vec<f64>, Error> {
        let after = placed.backing.to_vec()?;
        let changed = |i: &usize| after[*i].scalar() != placed.before[*i].scalar();
        self.stray_writes += (0..after.len()).filter(|i| !placed.own[*i]).filter(changed).count();
        Ok(widened(&placed.view.to_vec()?))
    }
}

/// How a matrix lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Row-major, without gaps.
    Plain,
    /// Rows with a gap, away from the start.
    Padded,
    /// Column-major.
    Transposed,
    /// Rows 65,536 elements and more apart.
    Far,
}

impl Placement {
    pub const ALL: [Placement; 4] =
        [Placement::Plain, Placement::Padded, Placement::Transposed, Placement::Far];
}

/// A matrix in a larger tensor.
pub struct Placed<T: HostElement> {
    pub view: Tensor<T, 2>,
    backing: Tensor<T, 2>,
    before: Vec<T>,
    own: Vec<bool>,
}

/// A float dtype of tensors.
pub trait HostFloat: Float + HostElement {}
impl<T: Float + HostElement> HostFloat for T {}

/// Irregular values in −2..2.
pub fn noise<T: Float>(n: usize, seed: u64) -> Vec<T> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            T::nearest((state >> 40) as f32 / (1u64 << 22) as f32 - 2.0)
        })
        .collect()
}

/// Values of any dtype, widened exactly.
pub fn widened<T: Dtype>(values: &[T]) -> Vec<f64> {
    values
        .iter()
        .map(|v| {
            let scalar = v.scalar();
            let int = scalar.as_int().map(|i| i as f64);
            scalar.as_f32().map_or(int.unwrap_or(f64::NAN), f64::from)
        })
        .collect()
}

/// One rounding to `T`, as a part of the value.
pub fn unit<T: Dtype>() -> f64 {
    match T::DTYPE {
        metile::ir::DType::F16 => 2f64.powi(-11),
        metile::ir::DType::BF16 => 2f64.powi(-8),
        _ => 2f64.powi(-24),
    }
}

/// `value`, as an f32 computation whose result is off by at most `error`, stored as `T`.
pub fn stored<T: Dtype>(value: f64, error: f64) -> Expected {
    // The last term is half the step of f16's subnormals, and of f32's far below it.
    let subnormal = if T::DTYPE == metile::ir::DType::F16 { 2f64.powi(-25) } else { 0.0 };
    Expected { value, within: error + (value.abs() + error) * unit::<T>() + subnormal }
}

/// `value` exactly.
pub fn exactly(value: f64) -> Expected {
    Expected { value, within: 0.0 }
}

/// Rounding error of an f32 sum of `n` terms whose magnitudes sum to `magnitude`. Each term passes
/// through a quarter of the additions at most, as sums are kept in four lanes or more.
pub fn sum_error(n: usize, magnitude: f64) -> f64 {
    (16.0 + n as f64 / 4.0) * 2f64.powi(-24) * magnitude
}

/// Weights of a format, and what they decode to.
pub struct Weights<W: Weight> {
    pub tensor: Tensor<W, 2>,
    pub values: Vec<f64>,
}

/// Irregular weights. The extent of the last axis is a multiple of the format's block.
pub fn weights<W: Weight>(
    device: &Device,
    [rows, cols]: [usize; 2],
    seed: u64,
) -> Result<Weights<W>, Error> {
    let (arrays, values) = match W::FORMAT {
        Format::Plain(dtype) => {
            let plain: Vec<f32> = noise(rows * cols, seed);
            let (mut bytes, mut values) = (Vec::new(), Vec::new());
            for v in plain {
                match dtype {
                    metile::ir::DType::F16 => {
                        let v = f16::from_f32(v);
                        bytes.extend(v.to_le_bytes());
                        values.push(f64::from(v));
                    }
                    metile::ir::DType::BF16 => {
                        let v = half::bf16::from_f32(v);
                        bytes.extend(v.to_le_bytes());
                        values.push(f64::from(v));
                    }
                    _ => {
                        bytes.extend(v.to_le_bytes());
                        values.push(f64::from(v));
                    }
                }
            }
            (vec![bytes], values)
        }
        Format::Packed(format) => packed(format, rows * cols, seed),
    };
    let parts: Vec<&[u8]> = arrays.iter().map(Vec::as_slice).collect();
    Ok(Weights { tensor: Tensor::from_bytes(device, [rows, cols], &parts)?, values })
}

/// Blocks of random integers with scales around a hundredth.
fn packed(format: PackedFormat, elements: usize, seed: u64) -> (Vec<Vec<u8>>, Vec<f64>) {
    let sizes = format.block_bytes();
    let mut arrays = vec![Vec::new(); sizes.len()];
    let mut values = Vec::new();
    let mut decoded = vec![0.0f32; format.block_elements()];
    for block in 0..elements / format.block_elements() {
        let seed = seed.wrapping_mul(1000).wrapping_add(block as u64);
        let bits: Vec<f32> = noise(sizes[0], seed);
        let scales: Vec<f32> = noise(2, seed ^ 0x5555);
        let mut parts: Vec<Vec<u8>> = vec![bits.iter().map(|v| (v * 64.0) as i32 as u8).collect()];
        let scale = |i: usize| f16::from_f32(scales[i] * 0.02).to_le_bytes();
        match format {
            PackedFormat::Q4_0 | PackedFormat::Q5_0 | PackedFormat::Q8_0 => {
                parts[0][..2].copy_from_slice(&scale(0));
            }
            PackedFormat::Q4_1 | PackedFormat::Q5_1 | PackedFormat::Q4K | PackedFormat::Q5K => {
                parts[0][..2].copy_from_slice(&scale(0));
                parts[0][2..4].copy_from_slice(&scale(1));
            }
            PackedFormat::Q6K => parts[0][208..].copy_from_slice(&scale(0)),
            PackedFormat::Affine(affine) => {
                parts.extend(scales.iter().map(|&v| match affine.scale.dtype() {
                    metile::ir::DType::F16 => f16::from_f32(v * 0.02).to_le_bytes().to_vec(),
                    metile::ir::DType::BF16 => {
                        half::bf16::from_f32(v * 0.02).to_le_bytes().to_vec()
                    }
                    _ => (v * 0.02).to_le_bytes().to_vec(),
                }))
            }
        }
        let slices: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        // The sizes are the format's own, so that the decoder takes them.
        if decode_block(format, &slices, &mut decoded).is_ok() {
            values.extend(decoded.iter().map(|&v| f64::from(v)));
        }
        for (array, part) in arrays.iter_mut().zip(parts) {
            array.extend(part);
        }
    }
    (arrays, values)
}
