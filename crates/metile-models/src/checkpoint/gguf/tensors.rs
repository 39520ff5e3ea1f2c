//! Tensor infos, and where their data lies.

use std::collections::HashSet;
use std::io::Read;
use std::path::Path;

use metile_ir::{DType, Format, PackedFormat};

use super::reader::Reader;
use crate::Error;

/// GGUF tensors have at most four dimensions.
const MOST_DIMENSIONS: u32 = 4;

/// A tensor of a GGUF file.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// What its memory holds.
    pub format: Format,
    /// Extents, outermost first: the reverse of the file's order.
    pub shape: Vec<usize>,
    /// Where its data starts in the file, in bytes.
    pub offset: u64,
    /// Bytes of its data.
    pub bytes: u64,
}

/// A tensor as the header gives it: `offset` counts from the start of the data.
pub(super) struct Info {
    tensor: Tensor,
    /// Where the info's offset field stands.
    at: u64,
}

pub(super) fn infos<R: Read>(reader: &mut Reader<'_, R>, count: u64) -> Result<Vec<Info>, Error> {
    let mut infos = Vec::new();
    let mut names = HashSet::new();
    for n in 0..count {
        let at = reader.at();
        let name = reader.string(format_args!("name of tensor {n}"))?;
        let field = format_args!("name of tensor {n}");
        if name.is_empty() {
            return Err(reader.fail(at, field, "it is empty"));
        }
        if !names.insert(name.clone()) {
            return Err(reader.fail(at, field, format!("`{name}` was there before")));
        }
        infos.push(info(reader, name)?);
    }
    Ok(infos)
}

fn info<R: Read>(reader: &mut Reader<'_, R>, name: String) -> Result<Info, Error> {
    let at = reader.at();
    let count = reader.u32(format_args!("dimension count of `{name}`"))?;
    if count == 0 || count > MOST_DIMENSIONS {
        let problem = format!("it is {count}; a tensor has 1 to {MOST_DIMENSIONS} dimensions");
        return Err(reader.fail(at, format_args!("dimension count of `{name}`"), problem));
    }
    let shape_at = reader.at();
    let mut shape = Vec::new();
    let mut elements = 1u64;
    for axis in 0..count {
        let at = reader.at();
        let extent = reader.u64(format_args!("dimension {axis} of `{name}`"))?;
        let fail = |problem: String| {
            reader.fail(at, format_args!("dimension {axis} of `{name}`"), problem)
        };
        if extent == 0 {
            return Err(fail("it is 0".to_owned()));
        }
        elements =
            elements.checked_mul(extent).filter(|&n| n <= i64::MAX as u64).ok_or_else(|| {
                fail(format!("it is {extent}: the tensor would have more than 2^63 elements"))
            })?;
        shape.push(extent as usize);
    }
    let kind_at = reader.at();
    let kind = reader.u32(format_args!("type of `{name}`"))?;
    let format = format_of(kind)
        .map_err(|problem| reader.fail(kind_at, format_args!("type of `{name}`"), problem))?;
    let (block, block_bytes) = match format {
        Format::Plain(dtype) => (1, dtype.bytes()),
        Format::Packed(packed) => (packed.block_elements(), packed.block_bytes().iter().sum()),
    };
    // Rows are packed one by one, so it is the row that has to be whole blocks.
    if !shape[0].is_multiple_of(block) {
        let problem =
            format!("rows of {} are not whole blocks of {block}, as {format} needs", shape[0]);
        return Err(reader.fail(shape_at, format_args!("dimension 0 of `{name}`"), problem));
    }
    let bytes = (elements / block as u64).checked_mul(block_bytes as u64).ok_or_else(|| {
        let problem = format!("{elements} elements of {format} are more than 2^64 bytes");
        reader.fail(shape_at, format_args!("dimensions of `{name}`"), problem)
    })?;
    let at = reader.at();
    let offset = reader.u64(format_args!("offset of `{name}`"))?;
    shape.reverse();
    Ok(Info { tensor: Tensor { name, format, shape, offset, bytes }, at })
}

/// Checks that the data lies in the file, aligned and apart; offsets become those of the file.
pub(super) fn place(
    infos: Vec<Info>,
    data_offset: u64,
    alignment: u64,
    length: u64,
    path: &Path,
) -> Result<Vec<Tensor>, Error> {
    let data = length.saturating_sub(data_offset);
    let fail = |info: &Info, problem: String| Error::Gguf {
        path: path.to_path_buf(),
        field: format!("offset of `{}`", info.tensor.name),
        offset: info.at,
        problem,
    };
    for info in &infos {
        let Tensor { offset, bytes, .. } = info.tensor;
        if !offset.is_multiple_of(alignment) {
            return Err(fail(
                info,
                format!("it is {offset}, not a multiple of the alignment {alignment}"),
            ));
        }
        if offset.checked_add(bytes).is_none_or(|end| end > data) {
            let problem =
                format!("{bytes} bytes from {offset} on do not lie in the {data} bytes of data");
            return Err(fail(info, problem));
        }
    }
    let mut order: Vec<&Info> = infos.iter().collect();
    order.sort_by_key(|info| info.tensor.offset);
    for pair in order.windows(2) {
        let (before, after) = (&pair[0].tensor, &pair[1].tensor);
        if before.offset + before.bytes > after.offset {
            return Err(fail(pair[1], format!("its data overlaps that of `{}`", before.name)));
        }
    }
    let placed = |info: Info| Tensor { offset: info.tensor.offset + data_offset, ..info.tensor };
    Ok(infos.into_iter().map(placed).collect())
}

/// What memory of a file's tensor type holds.
fn format_of(kind: u32) -> Result<Format, String> {
    let plain = |dtype| Ok(Format::Plain(dtype));
    let packed = |format| Ok(Format::Packed(format));
    let name = match kind {
        0 => return plain(DType::F32),
        1 => return plain(DType::F16),
        2 => return packed(PackedFormat::Q4_0),
        3 => return packed(PackedFormat::Q4_1),
        6 => return packed(PackedFormat::Q5_0),
        7 => return packed(PackedFormat::Q5_1),
        8 => return packed(PackedFormat::Q8_0),
        12 => return packed(PackedFormat::Q4K),
        13 => return packed(PackedFormat::Q5K),
        14 => return packed(PackedFormat::Q6K),
        30 => return plain(DType::BF16),
        9 => "Q8_1",
        10 => "Q2_K",
        11 => "Q3_K",
        15 => "Q8_K",
        16 => "IQ2_XXS",
        17 => "IQ2_XS",
        18 => "IQ3_XXS",
        19 => "IQ1_S",
        20 => "IQ4_NL",
        21 => "IQ3_S",
        22 => "IQ2_S",
        23 => "IQ4_XS",
        24 => "I8",
        25 => "I16",
        26 => "I32",
        27 => "I64",
        28 => "F64",
        29 => "IQ1_M",
        34 => "TQ1_0",
        35 => "TQ2_0",
        39 => "MXFP4",
        _ => return Err(format!("there is no tensor type {kind}; {SUPPORTED}")),
    };
    Err(format!("{name} is not supported; {SUPPORTED}"))
}

const SUPPORTED: &str = "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K and Q6_K are";
