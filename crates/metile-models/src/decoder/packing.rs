//! Lossless packing: a copy of f32 weights in half their bytes, for the kernels that read one row.
//!
//! Weights that were trained or published in bf16 and widened to f32 have 16 zero bits below. Two such values
//! lie in one `u32`, the first in its low half. Memory of such words, lowest byte first, is also rows of
//! bf16; the projection kernels read it as that, and their widening of each element to f32, a shift by 16, is
//! the exact f32 again. Products and sums are those of f32.

use super::error::Error;
use super::inspect::allocated;
use super::load::{Projections, Weights};
use metile::prelude::bf16;
use metile::{Device, Tensor, TensorError};
use metile_weights::Matrix;

/// What came of packing a model's decode weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Every projection of a layer and the vocabulary's have a packed copy.
    Packed {
        /// Bytes of the f32 weights that were packed.
        original: u64,
        /// Bytes of the copies.
        packed: u64,
    },
    /// None has, and why.
    Unpacked {
        /// The first weights that can't be packed, and what is in the way.
        reason: String,
    },
}

/// The packed copies.
#[derive(Debug)]
pub struct PackedWeights {
    /// The projections of each layer.
    pub layers: Vec<Projections<Matrix>>,
    /// The vocabulary's projection.
    pub output: Matrix,
    /// Bytes of the copies.
    pub bytes: u64,
    /// Bytes of what they are copies of.
    pub original_bytes: u64,
}

/// Why weights have no packed copy.
enum Failed {
    /// They can't have one without loss.
    Unpackable(String),
    /// The device.
    Error(Error),
}

impl From<TensorError> for Failed {
    fn from(error: TensorError) -> Failed {
        Failed::Error(error.into())
    }
}

impl PackedWeights {
    /// Packs the weights that a decode step's projections read, one matrix at a time. The reason where one
    /// can't be.
    pub fn new(device: &Device, weights: &Weights) -> Result<Result<PackedWeights, String>, Error> {
        match Self::packed(device, weights) {
            Ok(packed) => Ok(Ok(packed)),
            Err(Failed::Unpackable(reason)) => Ok(Err(reason)),
            Err(Failed::Error(error)) => Err(error),
        }
    }

    fn packed(device: &Device, weights: &Weights) -> Result<PackedWeights, Failed> {
        let mut packer = Packer { device, bytes: 0, original_bytes: 0 };
        let mut layers = Vec::new();
        for (n, layer) in weights.layers.iter().enumerate() {
            let pack =
                |name, matrix| packer.matrix(matrix, &format!("layer {n}'s {name} projection"));
            layers.push(layer.projections().try_map(pack)?);
        }
        let output = weights.output.as_ref().unwrap_or(&weights.embedding);
        let output = packer.matrix(output, "the vocabulary's projection")?;
        let Packer { bytes, original_bytes, .. } = packer;
        Ok(PackedWeights { layers, output, bytes, original_bytes })
    }
}

struct Packer<'d> {
    device: &'d Device,
    bytes: u64,
    original_bytes: u64,
}

impl Packer<'_> {
    fn matrix(&mut self, matrix: &Matrix, name: &str) -> Result<Matrix, Failed> {
        let unpackable = |problem: String| Failed::Unpackable(format!("{name} {problem}"));
        let Matrix::F32(original) = matrix else {
            return Err(unpackable(format!("is {}, not f32", matrix.format())));
        };
        let values = original.to_vec()?;
        let words = pack(&values).map_err(unpackable)?;
        let packed: Tensor<u32, 1> = Tensor::from_slice(self.device, [words.len()], &words)?;
        let back = unpack(&packed.to_vec()?);
        let same = back.len() == values.len()
            && back.iter().zip(&values).all(|(a, b)| a.to_bits() == b.to_bits());
        if !same {
            return Err(unpackable("does not come back from the device bit for bit".to_owned()));
        }
        self.original_bytes += allocated(original);
        self.bytes += allocated(&packed);
        let rows: Tensor<bf16, 2> =
            Tensor::from_parts(original.shape(), packed.raw().parts.clone())?;
        Ok(Matrix::BF16(rows))
    }
}

/// Pairs of values as words, the first in the low half; what is in the way where they can't be.
fn pack(values: &[f32]) -> Result<Vec<u32>, String> {
    if !values.len().is_multiple_of(2) {
        return Err(format!("has {} values, an odd number", values.len()));
    }
    if let Some(at) = values.iter().position(|v| !v.is_finite()) {
        return Err(format!("has {} at element {at}", values[at]));
    }
    if let Some(at) = values.iter().position(|v| v.to_bits() & 0xFFFF != 0) {
        let value = values[at];
        return Err(format!(
            "has {value:e} at element {at}, whose low 16 bits, {:#06x}, are not zero",
            value.to_bits() & 0xFFFF
        ));
    }
    let pairs = values.as_chunks::<2>().0;
    Ok(pairs.iter().map(|[low, high]| low.to_bits() >> 16 | high.to_bits()).collect())
}

/// The values of words that [`pack`] made.
fn unpack(words: &[u32]) -> Vec<f32> {
    let both = |&word: &u32| [word << 16, word & 0xFFFF_0000].map(f32::from_bits);
    words.iter().flat_map(both).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_come_back_bit_for_bit() {
        let values = [1.0, -2.5, 0.0, -0.0, f32::from_bits(0x0001_0000), -1e38];
        let values = values.map(|v: f32| f32::from_bits(v.to_bits() & 0xFFFF_0000));
        let words = pack(&values).unwrap();
        assert_eq!(words[0], 0xC020_3F80);
        let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&unpack(&words)), bits(&values));
    }

    #[test]
    fn what_cannot_be_packed_is_said() {
        assert!(pack(&[1.0]).unwrap_err().contains("odd"));
        assert!(pack(&[1.0, f32::NAN]).unwrap_err().contains("element 1"));
        assert!(pack(&[f32::INFINITY, 1.0]).unwrap_err().contains("element 0"));
        let error = pack(&[1.0, f32::from_bits(0x3F80_0001)]).unwrap_err();
        assert!(error.contains("0x0001"), "{error}");
    }
}
