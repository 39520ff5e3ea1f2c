//! Decoding packed weight blocks to `f32`, bit for bit as the formats' reference decoders do.

mod affine;
mod k_quants;
mod legacy;

use crate::dtype::PackedFormat;

/// Why a block could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The number of arrays is not the format's.
    #[error("{format} blocks lie in {wanted} arrays, not {given}")]
    Arrays {
        /// The format.
        format: PackedFormat,
        /// Arrays the format has.
        wanted: usize,
        /// Arrays given.
        given: usize,
    },
    /// A block has too few or too many bytes.
    #[error("a {format} block has {wanted} bytes in array {array}, not {given}")]
    Bytes {
        /// The format.
        format: PackedFormat,
        /// Which array.
        array: usize,
        /// Bytes a block has.
        wanted: usize,
        /// Bytes given.
        given: usize,
    },
    /// The output does not hold a block.
    #[error("a {format} block has {wanted} elements, not {given}")]
    Elements {
        /// The format.
        format: PackedFormat,
        /// Elements a block has.
        wanted: usize,
        /// Elements of the output.
        given: usize,
    },
}

/// Decodes one block. `parts` are the block's bytes in each of the format's arrays; `out` takes
/// [`PackedFormat::block_elements`] values.
///
/// # Errors
/// If a size is not the format's.
pub fn decode_block(
    format: PackedFormat,
    parts: &[&[u8]],
    out: &mut [f32],
) -> Result<(), DecodeError> {
    let sizes = format.block_bytes();
    if parts.len() != sizes.len() {
        return Err(DecodeError::Arrays { format, wanted: sizes.len(), given: parts.len() });
    }
    for (array, (part, &wanted)) in parts.iter().zip(&sizes).enumerate() {
        if part.len() != wanted {
            return Err(DecodeError::Bytes { format, array, wanted, given: part.len() });
        }
    }
    let wanted = format.block_elements();
    if out.len() != wanted {
        return Err(DecodeError::Elements { format, wanted, given: out.len() });
    }
    let block = parts[0];
    match format {
        PackedFormat::Q4_0 => legacy::q4_0(block, out),
        PackedFormat::Q4_1 => legacy::q4_1(block, out),
        PackedFormat::Q5_0 => legacy::q5_0(block, out),
        PackedFormat::Q5_1 => legacy::q5_1(block, out),
        PackedFormat::Q8_0 => legacy::q8_0(block, out),
        PackedFormat::Q4K => k_quants::q4_k(block, out),
        PackedFormat::Q5K => k_quants::q5_k(block, out),
        PackedFormat::Q6K => k_quants::q6_k(block, out),
        PackedFormat::Affine(affine) => affine::decode(affine, parts, out),
    }
    Ok(())
}

/// The `f16` at byte `at`, widened. Sizes are checked before any decoder runs.
fn f16_at(bytes: &[u8], at: usize) -> f32 {
    half::f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32()
}
