//! MLX's affine groups: `scale·q + bias`, the product rounded before the sum.

use super::f16_at;
use crate::dtype::{Affine, AffineBits, AffineScale};

pub(super) fn decode(affine: Affine, parts: &[&[u8]], out: &mut [f32]) {
    let read = |bytes: &[u8]| match affine.scale {
        AffineScale::F16 => f16_at(bytes, 0),
        AffineScale::BF16 => half::bf16::from_le_bytes([bytes[0], bytes[1]]).to_f32(),
        AffineScale::F32 => f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
    };
    let (scale, bias) = (read(parts[1]), read(parts[2]));
    // Words are little-endian with the lowest bits first, so bytes follow the elements' order.
    for (i, value) in out.iter_mut().enumerate() {
        let q = match affine.bits {
            AffineBits::B4 => (parts[0][i / 2] >> (i % 2 * 4)) & 15,
            AffineBits::B8 => parts[0][i],
        };
        *value = scale * f32::from(q) + bias;
    }
}
