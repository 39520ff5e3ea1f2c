//! Weights of layers, drawn by a seed, in the formats that studies compare.

use super::harness::{Grid, draw};
use super::peers::Sent;
use crate::baseline::Tensor as Sendable;
use crate::random::Random;
use crate::study::Refusal;
use half::f16;
use metile::Device;
use metile::ir::Format;
use metile::lang::element::{Affine4, Affine8, Element};
use metile_weights::Matrix;
use std::rc::Rc;

/// How weights are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// bfloat16.
    BF16,
    /// 4-bit integers in groups of 64, with scales and biases in float16.
    Int4,
    /// 8-bit integers, as above.
    Int8,
}

/// Elements of a group.
pub const GROUP: usize = 64;

impl Storage {
    /// The storage of a name.
    pub fn parse(name: &str) -> Option<Storage> {
        [Storage::BF16, Storage::Int4, Storage::Int8].into_iter().find(|s| s.name() == name)
    }

    /// Its name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Storage::BF16 => "bf16",
            Storage::Int4 => "int4",
            Storage::Int8 => "int8",
        }
    }

    /// What activations are, beside such weights.
    pub fn activations(self) -> (Grid, Sent) {
        match self {
            Storage::BF16 => (Grid::BF16, Sent::BF16),
            Storage::Int4 | Storage::Int8 => (Grid::F16, Sent::F16),
        }
    }

    fn bits(self) -> Option<u64> {
        match self {
            Storage::BF16 => None,
            Storage::Int4 => Some(4),
            Storage::Int8 => Some(8),
        }
    }

    /// Parameters of a worker's operation on such weights.
    pub fn parameters(self) -> serde_json::Value {
        match self.bits() {
            None => serde_json::json!({}),
            Some(bits) => super::peers::affine(bits, GROUP as u64),
        }
    }

    /// Bytes of so many weights.
    pub fn bytes(self, weights: u64) -> u64 {
        match self.bits() {
            None => 2 * weights,
            // Integers, and a scale and a bias for each group.
            Some(bits) => weights * bits / 8 + 4 * weights / GROUP as u64,
        }
    }
}

/// A weight matrix `[n, k]`.
#[derive(Clone)]
pub struct Weights {
    /// Rows and columns.
    pub shape: [usize; 2],
    /// The values that its storage stands for, row-major.
    pub values: Rc<Vec<f32>>,
    storage: Storage,
    arrays: Vec<Vec<u8>>,
}

impl Weights {
    /// Weights of about the magnitude 1/√k, drawn by `name`. For affine formats integers, scales and biases are
    /// drawn, and the values follow.
    ///
    /// # Errors
    /// If k is no whole number of groups.
    pub fn draw(name: &str, shape: [usize; 2], storage: Storage) -> Result<Weights, Refusal> {
        let [n, k] = shape;
        let mut random = Random::named(0, &["weights", name]);
        let scale = 1.0 / (k as f32).sqrt();
        let Some(bits) = storage.bits() else {
            let values = draw(&mut random, n * k, 1.7 * scale, Grid::BF16);
            let bytes =
                values.iter().flat_map(|&v| half::bf16::from_f32(v).to_le_bytes()).collect();
            return Ok(Weights { shape, values: Rc::new(values), storage, arrays: vec![bytes] });
        };
        if k % GROUP != 0 {
            return Err(Refusal::Broken(format!(
                "{k} columns are no whole number of groups of {GROUP}"
            )));
        }
        let most = ((1u64 << bits) - 1) as f32;
        let (mut values, mut words) =
            (Vec::with_capacity(n * k), Vec::with_capacity(n * k * bits as usize / 8));
        let (mut scales, mut biases) = (Vec::new(), Vec::new());
        for _ in 0..n * k / GROUP {
            let step = f16::from_f32(3.4 * scale / most * (1.0 + 0.2 * random.signed_unit()));
            let bias = f16::from_f32(-step.to_f32() * most / 2.0);
            scales.extend(step.to_le_bytes());
            biases.extend(bias.to_le_bytes());
            let mut value = |q: u64| values.push(step.to_f32() * q as f32 + bias.to_f32());
            for _ in 0..GROUP * bits as usize / 64 {
                // 64 bits at a time, the first element lowest.
                let drawn = random.next();
                words.extend(drawn.to_le_bytes());
                (0..64 / bits).for_each(|at| value(drawn >> (at * bits) & ((1 << bits) - 1)));
            }
        }
        Ok(Weights { shape, values: Rc::new(values), storage, arrays: vec![words, scales, biases] })
    }

    /// Weights whose values are not needed: of the bytes of their arrays.
    pub fn of_arrays(shape: [usize; 2], storage: Storage, arrays: Vec<Vec<u8>>) -> Weights {
        Weights { shape, values: Rc::default(), storage, arrays }
    }

    /// On a device.
    ///
    /// # Errors
    /// If it has no room.
    pub fn matrix(&self, device: &Device) -> Result<Matrix, Refusal> {
        let format: Format = match self.storage {
            Storage::BF16 => <half::bf16 as Element>::FORMAT,
            Storage::Int4 => <Affine4<64, f16> as Element>::FORMAT,
            Storage::Int8 => <Affine8<64, f16> as Element>::FORMAT,
        };
        let arrays: Vec<&[u8]> = self.arrays.iter().map(Vec::as_slice).collect();
        let matrix = Matrix::new(device, format, self.shape, &arrays).map_err(super::broken)?;
        matrix.ok_or_else(|| Refusal::Broken(format!("weights can't be {format}")))
    }

    /// For a worker, as inputs of the names that it takes.
    ///
    /// # Errors
    /// If sizes do not fit.
    pub fn sendable(&self, name: &str) -> Result<Vec<(String, Sendable)>, Refusal> {
        let [n, k] = self.shape;
        let Some(bits) = self.storage.bits() else {
            return Ok(vec![(name.to_owned(), Sent::BF16.tensor(&[n, k], &self.values)?)]);
        };
        let words: Vec<u32> = self.arrays[0]
            .chunks_exact(4)
            .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect();
        let halves = |bytes: &[u8]| -> Vec<f16> {
            bytes.chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]])).collect()
        };
        let groups = [n, k / GROUP];
        let sized = Sendable::new(&[n, k * bits as usize / 32], words).map_err(super::broken)?;
        let scales = Sendable::new(&groups, halves(&self.arrays[1])).map_err(super::broken)?;
        let biases = Sendable::new(&groups, halves(&self.arrays[2])).map_err(super::broken)?;
        Ok(vec![
            (format!("{name}_q"), sized),
            (format!("{name}_scales"), scales),
            (format!("{name}_biases"), biases),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metile::Tensor;
    use metile_weights::Rows;

    #[test]
    fn a_device_and_the_values_agree() {
        for storage in [Storage::BF16, Storage::Int4, Storage::Int8] {
            let device = Device::interpreter();
            let weights = Weights::draw("w", [3, 128], storage).unwrap();
            let matrix = weights.matrix(&device).unwrap();
            let x = draw(&mut Random::new(1), 128, 1.0, Grid::F32);
            let dense = Tensor::from_slice(&device, [1, 128], &x).unwrap();
            let mut out = Tensor::<f32, 2>::zeros(&device, [1, 3]).unwrap();
            let rows = Rows::dense(&dense);
            matrix.project(rows, &mut out).prepare(&device).unwrap().launch().unwrap();
            for (n, &y) in out.to_vec().unwrap().iter().enumerate() {
                let row = &weights.values[n * 128..][..128];
                let expected: f64 =
                    row.iter().zip(&x).map(|(&w, &x)| f64::from(w) * f64::from(x)).sum();
                assert!((expected - f64::from(y)).abs() < 1e-4, "{storage:?} {expected} {y}");
            }
            let bytes: usize = weights.arrays.iter().map(Vec::len).sum();
            assert_eq!(bytes as u64, storage.bytes(3 * 128));
        }
    }
}
