//! GGUF's 256-element super-blocks.

use super::f16_at;

/// Scale and minimum of sub-block `j` of eight, 6 bits each, packed in 12 bytes.
fn scale_min(j: usize, packed: &[u8]) -> (f32, f32) {
    let (scale, min) = if j < 4 {
        (packed[j] & 63, packed[j + 4] & 63)
    } else {
        (
            (packed[j + 4] & 15) | (packed[j - 4] >> 6) << 4,
            (packed[j + 4] >> 4) | (packed[j] >> 6) << 4,
        )
    };
    (f32::from(scale), f32::from(min))
}

/// `(d·scale)·q - dmin·min`: `d`, `dmin` f16, 12 bytes of scales, 128 bytes of nibbles. Each 32 bytes
/// hold two sub-blocks: low nibbles, then high ones.
pub(super) fn q4_k(block: &[u8], out: &mut [f32]) {
    let (d, dmin) = (f16_at(block, 0), f16_at(block, 2));
    let (scales, nibbles) = (&block[4..16], &block[16..144]);
    for (i, value) in out.iter_mut().enumerate() {
        let (sub, within) = (i / 32, i % 32);
        let byte = nibbles[sub / 2 * 32 + within];
        let q = if sub % 2 == 0 { byte & 15 } else { byte >> 4 };
        let (scale, min) = scale_min(sub, scales);
        *value = d * scale * f32::from(q) - dmin * min;
    }
}

/// As [`q4_k`], with a fifth bit of each element in 32 bytes before the nibbles: bit `sub` of byte
/// `within`.
pub(super) fn q5_k(block: &[u8], out: &mut [f32]) {
    let (d, dmin) = (f16_at(block, 0), f16_at(block, 2));
    let (scales, high, nibbles) = (&block[4..16], &block[16..48], &block[48..176]);
    for (i, value) in out.iter_mut().enumerate() {
        let (sub, within) = (i / 32, i % 32);
        let byte = nibbles[sub / 2 * 32 + within];
        let low = if sub % 2 == 0 { byte & 15 } else { byte >> 4 };
        let q = low | ((high[within] >> sub) & 1) << 4;
        let (scale, min) = scale_min(sub, scales);
        *value = d * scale * f32::from(q) - dmin * min;
    }
}

/// `(d·scale)·(q - 32)`: 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 signed scales (one
/// per 16 elements), `d` f16. Each half of 128 elements is four groups of 32.
pub(super) fn q6_k(block: &[u8], out: &mut [f32]) {
    let (low, high, scales) = (&block[..128], &block[128..192], &block[192..208]);
    let d = f16_at(block, 208);
    for (i, value) in out.iter_mut().enumerate() {
        let (part, group, within) = (i / 128, i % 128 / 32, i % 32);
        let byte = low[part * 64 + group % 2 * 32 + within];
        let nibble = if group < 2 { byte & 15 } else { byte >> 4 };
        let pair = (high[part * 32 + within] >> (2 * group)) & 3;
        let q = i32::from(nibble | pair << 4) - 32;
        let scale = scales[part * 8 + group * 2 + within / 16] as i8;
        *value = d * f32::from(scale) * q as f32;
    }
}
