//! A tensor's values as `f32`, whatever its format.

use metile::prelude::{bf16, f16};
use metile_ir::packed::decode_block;
use metile_ir::{DType, Format};

use super::{Checkpoint, TensorInfo};
use crate::Error;

/// A tensor's arrays, read from the file, and its values on demand.
#[derive(Debug)]
pub struct Values {
    format: Format,
    columns: usize,
    arrays: Vec<Vec<u8>>,
}

impl Checkpoint {
    /// The values of `info`, which keep the file's representation until they are asked for.
    ///
    /// # Errors
    /// If the file cannot be read, or the format is not one of numbers that models have.
    pub fn values(&self, info: &TensorInfo) -> Result<Values, Error> {
        match info.format {
            Format::Plain(DType::F32 | DType::F16 | DType::BF16) | Format::Packed(_) => {}
            Format::Plain(other) => {
                return Err(Error::Tensor {
                    path: self.path().to_path_buf(),
                    tensor: info.name.clone(),
                    problem: format!("it holds {other}; weights are floats or packed"),
                });
            }
        }
        let columns = info.shape.last().copied().unwrap_or(1);
        Ok(Values { format: info.format, columns, arrays: self.read(info)? })
    }
}

impl Values {
    /// Elements of a row: of the last axis.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The values of row `n`, of all rows over the last axis. `out` has a row's elements. Exact for every
    /// format: dense values are widened, packed ones decoded as their format defines.
    ///
    /// # Panics
    /// If `n` is beyond the rows or `out` is no row.
    pub fn row(&self, n: usize, out: &mut [f32]) {
        assert_eq!(out.len(), self.columns, "a row");
        match self.format {
            Format::Packed(format) => {
                let sizes = format.block_bytes();
                let blocks = self.columns / format.block_elements();
                for (block, out) in out.chunks_exact_mut(format.block_elements()).enumerate() {
                    let at = n * blocks + block;
                    let parts: Vec<&[u8]> = self
                        .arrays
                        .iter()
                        .zip(&sizes)
                        .map(|(array, &bytes)| &array[at * bytes..(at + 1) * bytes])
                        .collect();
                    // The sizes are the format's own.
                    decode_block(format, &parts, out).expect("blocks of the format's sizes");
                }
            }
            Format::Plain(dtype) => {
                let bytes = dtype.bytes() * self.columns;
                let row = &self.arrays[0][n * bytes..(n + 1) * bytes];
                let two = |b: &[u8]| [b[0], b[1]];
                for (out, b) in out.iter_mut().zip(row.chunks_exact(dtype.bytes())) {
                    *out = match dtype {
                        DType::F16 => f16::from_le_bytes(two(b)).to_f32(),
                        DType::BF16 => bf16::from_le_bytes(two(b)).to_f32(),
                        _ => f32::from_le_bytes([b[0], b[1], b[2], b[3]]),
                    };
                }
            }
        }
    }
}
