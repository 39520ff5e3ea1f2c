//! Products of matrices that are both drawn anew.

use super::{Form, no_form};
use crate::kernel_studies::broken;
use crate::kernel_studies::device_arm::{DeviceArm, FromF32, Timing};
use crate::kernel_studies::harness::{Grid, Oracle};
use crate::study::Refusal;
use half::{bf16, f16};
use metile::lang::element::Float;
use metile::{CommandList, Device, Error, Tensor};
use metile_kernels as kernels;
use metile_kernels::activation::Identity;
use metile_kernels::gemm::gemm_tiles;

/// out = a · b on a device.
pub fn gemm(
    device: &Device,
    extents: [usize; 3],
    t: Grid,
    form: Form,
    timing: Timing,
) -> Result<DeviceArm, Refusal> {
    match t {
        Grid::F32 => gemm_of::<f32>(device, extents, form, timing),
        Grid::F16 => gemm_of::<f16>(device, extents, form, timing),
        Grid::BF16 => gemm_of::<bf16>(device, extents, form, timing),
    }
}

fn gemm_of<T: FromF32 + Float>(
    device: &Device,
    [m, k, n]: [usize; 3],
    form: Form,
    timing: Timing,
) -> Result<DeviceArm, Refusal> {
    if !matches!(form, Form::Library | Form::FixedTiles) {
        return Err(no_form("gemm", form));
    }
    let matrix = |shape| Tensor::<T, 2>::zeros(device, shape).map_err(broken);
    let (a, b, mut out) = (matrix([m, k])?, matrix([k, n])?, matrix([m, n])?);
    let (fresh, written) = (vec![a.raw().clone(), b.raw().clone()], vec![out.raw().clone()]);
    let record = move |list: &mut CommandList| -> Result<(), Error> {
        list.record(match form {
            Form::FixedTiles => gemm_tiles::<T, Identity, 32, 32, 32>(&a, &b, &mut out, 1.0)
                .grid((n.div_ceil(32), m.div_ceil(32))),
            _ => kernels::gemm(&a, &b, &mut out),
        })
    };
    DeviceArm::new(device, fresh, Vec::new(), written, timing, Box::new(record))
}

/// out = a · b.
pub struct GemmOracle {
    /// Columns of a.
    pub inner: usize,
    /// Columns of b.
    pub cols: usize,
}

impl Oracle for GemmOracle {
    fn row(&self, _policy: &str, inputs: &[Vec<f32>], row: usize) -> Vec<f64> {
        let a = &inputs[0][row * self.inner..][..self.inner];
        let mut out = vec![0.0; self.cols];
        for (&factor, b) in a.iter().zip(inputs[1].chunks_exact(self.cols)) {
            for (sum, &b) in out.iter_mut().zip(b) {
                *sum += f64::from(factor) * f64::from(b);
            }
        }
        out
    }
}
