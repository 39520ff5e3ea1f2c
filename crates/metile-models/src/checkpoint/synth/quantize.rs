//! Rows in MLX's affine layout.

use metile::prelude::bf16;

/// Integers of `bits` bits with a scale and a bias for each `group` elements: value = scale · q + bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AffineLayout {
    /// 4 or 8.
    pub bits: usize,
    /// Elements of a group.
    pub group: usize,
}

impl AffineLayout {
    /// The layouts that can be asked for, by name.
    pub const NAMED: [(&str, AffineLayout); 2] = [
        ("affine4-g64", AffineLayout { bits: 4, group: 64 }),
        ("affine8-g64", AffineLayout { bits: 8, group: 64 }),
    ];

    /// The layout called `name`.
    pub fn from_name(name: &str) -> Option<AffineLayout> {
        AffineLayout::NAMED.into_iter().find(|(known, _)| *known == name).map(|(_, layout)| layout)
    }

    /// Its name.
    pub fn name(self) -> String {
        format!("affine{}-g{}", self.bits, self.group)
    }

    /// The scale and bias of a group, bf16 both: the bias its least value, the scale a step of its range.
    fn scale_and_bias(self, values: &[f32]) -> (bf16, bf16) {
        let least = values.iter().copied().fold(f32::INFINITY, f32::min);
        let most = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let steps = ((1u32 << self.bits) - 1) as f32;
        let scale = (most - least) / steps;
        // Of a constant group any scale will do, but 0 could not be divided by.
        (bf16::from_f32(if scale > 0.0 { scale } else { 1.0 }), bf16::from_f32(least))
    }

    /// One of the three arrays of a row: the integers packed from the low bits of each `u32` up, the
    /// scales, or the biases.
    pub(super) fn array(self, row: &[f32], array: Array) -> Vec<u8> {
        let mut out = Vec::new();
        for group in row.chunks(self.group) {
            let (scale, bias) = self.scale_and_bias(group);
            match array {
                Array::Scales => out.extend(scale.to_le_bytes()),
                Array::Biases => out.extend(bias.to_le_bytes()),
                Array::Integers => {
                    let most = ((1u32 << self.bits) - 1) as f32;
                    for word in group.chunks(32 / self.bits) {
                        let integer = |&value: &f32| {
                            let q = (value - bias.to_f32()) / scale.to_f32();
                            q.round_ties_even().clamp(0.0, most) as u32
                        };
                        let place = |(n, value)| integer(value) << (n * self.bits);
                        let word = word.iter().enumerate().map(place).fold(0, |a, b| a | b);
                        out.extend(word.to_le_bytes());
                    }
                }
            }
        }
        out
    }
}

/// Which of the three arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Array {
    Integers,
    Scales,
    Biases,
}

impl Array {
    pub(super) const ALL: [(Array, &str); 3] =
        [(Array::Integers, "weight"), (Array::Scales, "scales"), (Array::Biases, "biases")];
}
