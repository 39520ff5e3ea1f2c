//! Packed blocks: hand-computed ones, and random ones against a formula per element that is written
//! the way the formats are described, not the way the decoder walks.

use half::{bf16, f16};
use metile_ir::dtype::{Affine, AffineBits, AffineGroup, AffineScale};
use metile_ir::packed::{DecodeError, decode_block};
use metile_ir::{DType, PackedFormat as P};
use proptest::prelude::*;

fn decode(format: P, parts: &[&[u8]]) -> Vec<f32> {
    let mut out = vec![f32::NAN; format.block_elements()];
    decode_block(format, parts, &mut out).unwrap();
    out
}

fn h(v: f32) -> [u8; 2] {
    f16::from_f32(v).to_le_bytes()
}

/// A block from pieces.
fn block(pieces: &[&[u8]]) -> Vec<u8> {
    pieces.concat()
}

#[test]
fn q4_0_has_low_nibbles_first() {
    let out = decode(P::Q4_0, &[&block(&[&h(1.0), &[0x98; 16]])]);
    assert_eq!(out, [[0.0; 16], [1.0; 16]].concat());
}

#[test]
fn hand_computed_32_element_blocks() {
    let out = decode(P::Q4_1, &[&block(&[&h(2.0), &h(-3.0), &[0xf1; 16]])]);
    assert_eq!((out[0], out[15], out[16], out[31]), (-1.0, -1.0, 27.0, 27.0));
    // The fifth bits of elements 0 and 31 are set.
    let high = 0x8000_0001u32.to_le_bytes();
    let out = decode(P::Q5_0, &[&block(&[&h(0.5), &high, &[0x21; 16]])]);
    assert_eq!((out[0], out[1], out[16], out[31]), (0.5, -7.5, -7.0, 1.0));
    let out = decode(P::Q5_1, &[&block(&[&h(1.0), &h(0.25), &high, &[0x21; 16]])]);
    assert_eq!((out[0], out[1], out[16], out[31]), (17.25, 1.25, 2.25, 18.25));
    let mut bytes = block(&[&h(0.5), &[0; 32]]);
    (bytes[2], bytes[33]) = (0x80, 0x7f);
    let out = decode(P::Q8_0, &[&bytes]);
    assert_eq!((out[0], out[1], out[31]), (-64.0, 0.0, 63.5));
}

#[test]
fn hand_computed_super_blocks() {
    // Scale 1 and minimum 2 in sub-block 0; scale 63 and minimum 47 in sub-block 4, whose upper bit
    // pairs lie in bytes 0 and 4.
    let mut scales = [0u8; 12];
    scales[0] = 1 | 0b11 << 6;
    scales[4] = 2 | 0b10 << 6;
    scales[8] = 15 | 15 << 4;
    let mut nibbles = [0u8; 128];
    (nibbles[0], nibbles[64]) = (0x05, 0x0f);
    let out = decode(P::Q4K, &[&block(&[&h(2.0), &h(0.5), &scales, &nibbles])]);
    assert_eq!((out[0], out[1], out[32]), (2.0 * 5.0 - 1.0, -1.0, 0.0));
    assert_eq!((out[128], out[129]), (2.0 * 63.0 * 15.0 - 0.5 * 47.0, -0.5 * 47.0));

    let mut high = [0u8; 32];
    high[0] = 1 | 1 << 4;
    let out = decode(P::Q5K, &[&block(&[&h(2.0), &h(0.5), &scales, &high, &nibbles])]);
    assert_eq!((out[0], out[128]), (2.0 * 21.0 - 1.0, 2.0 * 63.0 * 31.0 - 0.5 * 47.0));

    let (mut low, mut pairs, mut scales) = ([0u8; 128], [0u8; 64], [1u8; 16]);
    (low[0], pairs[0], scales[0]) = (0x0f, 0b11, 0xfe);
    (low[127], pairs[63], scales[15]) = (0x10, 0b1000_0000, 3);
    let out = decode(P::Q6K, &[&block(&[&low, &pairs, &scales, &h(0.5)])]);
    assert_eq!(
        (out[0], out[1], out[255]),
        (0.5 * -2.0 * 31.0, 0.5 * -2.0 * -32.0, 0.5 * 3.0 * 1.0)
    );
}

#[test]
fn affine_rounds_the_product_before_the_sum() {
    let format = P::Affine(Affine {
        bits: AffineBits::B4,
        group: AffineGroup::G32,
        scale: AffineScale::F32,
    });
    let mut words = [0u8; 16];
    words[..4].copy_from_slice(&0x0000_0030u32.to_le_bytes());
    let (scale, bias) = (0.1f32, -0.3f32);
    let out = decode(format, &[&words, &scale.to_le_bytes(), &bias.to_le_bytes()]);
    assert_eq!((out[0], out[1].to_bits()), (bias, (scale * 3.0 + bias).to_bits()));
    assert_ne!(out[1], scale.mul_add(3.0, bias), "the example shows a difference");
}

#[test]
fn sizes_are_checked() {
    let mut out = [0.0; 32];
    let ok = [0u8; 18];
    assert!(matches!(
        decode_block(P::Q4_0, &[&ok[..17]], &mut out),
        Err(DecodeError::Bytes { wanted: 18, given: 17, array: 0, .. })
    ));
    assert!(matches!(
        decode_block(P::Q4_0, &[&ok, &ok], &mut out),
        Err(DecodeError::Arrays { wanted: 1, given: 2, .. })
    ));
    assert!(matches!(
        decode_block(P::Q4_0, &[&ok], &mut out[..31]),
        Err(DecodeError::Elements { wanted: 32, given: 31, .. })
    ));
    for format in P::all() {
        for array in 0..format.block_bytes().len() {
            let mut parts: Vec<Vec<u8>> =
                format.block_bytes().into_iter().map(|n| vec![0; n]).collect();
            parts[array].push(0);
            let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            let mut out = vec![0.0; format.block_elements()];
            assert!(decode_block(format, &parts, &mut out).is_err(), "{format}");
        }
    }
}

/// Bits `from..from + count` of a string of bytes, bit 0 the lowest of byte 0.
fn bits(bytes: &[u8], from: usize, count: usize) -> u32 {
    (0..count).map(|i| u32::from(bytes[(from + i) / 8] >> ((from + i) % 8) & 1) << i).sum()
}

/// Scale and minimum of sub-block `j`: 6-bit numbers, the first four of each in the low bits of bytes
/// 0..4 and 4..8, the others split between bytes 8..12 and the high bits of the first eight.
fn six_bits(scales: &[u8], j: usize) -> (f32, f32) {
    if j < 4 {
        return (bits(scales, 8 * j, 6) as f32, bits(scales, 8 * (j + 4), 6) as f32);
    }
    let scale = bits(scales, 8 * (j + 4), 4) + 16 * bits(scales, 8 * (j - 4) + 6, 2);
    let min = bits(scales, 8 * (j + 4) + 4, 4) + 16 * bits(scales, 8 * j + 6, 2);
    (scale as f32, min as f32)
}

/// Element `i` of a block.
fn element(format: P, parts: &[&[u8]], i: usize) -> f32 {
    let b = parts[0];
    let half = |at: usize| f16::from_bits(bits(b, 8 * at, 16) as u16).to_f32();
    // Nibble of element i of 32 whose nibbles begin at byte `at`.
    let nibble = |at: usize| bits(b, 8 * (at + i % 16) + 4 * (i / 16), 4);
    let (sub, within) = (i / 32, i % 32);
    let k_nibble = |at: usize| bits(b, 8 * (at + 32 * (sub / 2) + within) + 4 * (sub % 2), 4);
    match format {
        P::Q4_0 => (nibble(2) as f32 - 8.0) * half(0),
        P::Q4_1 => nibble(4) as f32 * half(0) + half(2),
        P::Q5_0 => ((nibble(6) + 16 * bits(b, 16 + i, 1)) as f32 - 16.0) * half(0),
        P::Q5_1 => (nibble(8) + 16 * bits(b, 32 + i, 1)) as f32 * half(0) + half(2),
        P::Q8_0 => f32::from(b[2 + i] as i8) * half(0),
        P::Q4K => {
            let (scale, min) = six_bits(&b[4..16], sub);
            half(0) * scale * k_nibble(16) as f32 - half(2) * min
        }
        P::Q5K => {
            let (scale, min) = six_bits(&b[4..16], sub);
            let q = k_nibble(48) + 16 * bits(b, 8 * (16 + within) + sub, 1);
            half(0) * scale * q as f32 - half(2) * min
        }
        P::Q6K => {
            let (part, quarter) = (i / 128, i % 128 / 32);
            let low = bits(b, 8 * (64 * part + 32 * (quarter % 2) + within) + 4 * (quarter / 2), 4);
            let high = bits(b, 8 * (128 + 32 * part + within) + 2 * quarter, 2);
            half(208) * f32::from(b[192 + i / 16] as i8) * ((low + 16 * high) as f32 - 32.0)
        }
        P::Affine(a) => {
            let number = |bytes: &[u8]| match a.scale.dtype() {
                DType::F16 => f16::from_bits(bits(bytes, 0, 16) as u16).to_f32(),
                DType::BF16 => bf16::from_bits(bits(bytes, 0, 16) as u16).to_f32(),
                _ => f32::from_bits(bits(bytes, 0, 32)),
            };
            // Little-endian words with the lowest bits first are one string of bits.
            let q = bits(b, i * a.bits.get(), a.bits.get());
            number(parts[1]) * q as f32 + number(parts[2])
        }
    }
}

proptest! {
    #[test]
    fn every_format_is_its_formula(seed in proptest::collection::vec(any::<u8>(), 256)) {
        for format in P::all() {
            let parts: Vec<Vec<u8>> = format.block_bytes().into_iter().enumerate()
                .map(|(array, n)| (0..n).map(|i| seed[(i + 101 * array) % 256]).collect()).collect();
            let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            for (i, value) in decode(format, &parts).into_iter().enumerate() {
                let wanted = element(format, &parts, i);
                prop_assert!(value.to_bits() == wanted.to_bits() || value.is_nan() && wanted.is_nan(),
                    "{format} element {i}: {value}, not {wanted}");
            }
        }
    }
}
