//! GGUF's 32-element blocks. Low nibbles are elements 0 to 15, high nibbles 16 to 31.

use super::f16_at;

/// `d·(q - 8)`: `d` f16, 16 bytes of nibbles.
pub(super) fn q4_0(block: &[u8], out: &mut [f32]) {
    let d = f16_at(block, 0);
    for (j, &byte) in block[2..18].iter().enumerate() {
        out[j] = (i32::from(byte & 15) - 8) as f32 * d;
        out[j + 16] = (i32::from(byte >> 4) - 8) as f32 * d;
    }
}

/// `d·q + m`: `d`, `m` f16, 16 bytes of nibbles.
pub(super) fn q4_1(block: &[u8], out: &mut [f32]) {
    let (d, m) = (f16_at(block, 0), f16_at(block, 2));
    for (j, &byte) in block[4..20].iter().enumerate() {
        out[j] = f32::from(byte & 15) * d + m;
        out[j + 16] = f32::from(byte >> 4) * d + m;
    }
}

/// The 5-bit integers of a block: nibbles, and a fifth bit each in a 32-bit word.
fn five_bits(high: &[u8], nibbles: &[u8]) -> [u8; 32] {
    let word = u32::from_le_bytes([high[0], high[1], high[2], high[3]]);
    std::array::from_fn(|i| {
        let byte = nibbles[i % 16];
        let nibble = if i < 16 { byte & 15 } else { byte >> 4 };
        nibble | (((word >> i) & 1) as u8) << 4
    })
}

/// `d·(q - 16)`: `d` f16, 4 bytes of fifth bits, 16 bytes of nibbles.
pub(super) fn q5_0(block: &[u8], out: &mut [f32]) {
    let d = f16_at(block, 0);
    for (value, q) in out.iter_mut().zip(five_bits(&block[2..6], &block[6..22])) {
        *value = (i32::from(q) - 16) as f32 * d;
    }
}

/// `d·q + m`: `d`, `m` f16, 4 bytes of fifth bits, 16 bytes of nibbles.
pub(super) fn q5_1(block: &[u8], out: &mut [f32]) {
    let (d, m) = (f16_at(block, 0), f16_at(block, 2));
    for (value, q) in out.iter_mut().zip(five_bits(&block[4..8], &block[8..24])) {
        *value = f32::from(q) * d + m;
    }
}

/// `d·q`: `d` f16, 32 signed bytes.
pub(super) fn q8_0(block: &[u8], out: &mut [f32]) {
    let d = f16_at(block, 0);
    for (value, &q) in out.iter_mut().zip(&block[2..34]) {
        *value = f32::from(q as i8) * d;
    }
}
