//! A safetensors file, written from front to back without holding a tensor.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use ::safetensors::Dtype;
use ::safetensors::tensor::{Metadata, TensorInfo};
use metile_ir::DType;
use sha2::{Digest, Sha256};

use super::{hex, io};
use crate::Error;

/// A tensor that a file is to hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// Its name.
    pub name: String,
    /// The type of its elements: f32, f16, bf16 or u32.
    pub dtype: DType,
    /// Extents, outermost first.
    pub shape: Vec<usize>,
}

impl Planned {
    /// Bytes of its data; `None` beyond the address space.
    fn bytes(&self) -> Option<usize> {
        self.shape.iter().try_fold(self.dtype.bytes(), |n, &extent| n.checked_mul(extent))
    }
}

/// Takes a tensor's bytes, piece by piece.
pub type Sink<'s> = dyn FnMut(&[u8]) -> Result<(), Error> + 's;

/// Writes the file at `path`, which must not exist: `tensors` in their order, with `fill(n, sink)`
/// giving the bytes of tensor `n`. Gives the SHA-256 of the whole file.
///
/// # Errors
/// If a tensor can't be in such a file, `fill` fails or gives another number of bytes than the shape
/// has, or the file can't be written.
pub fn write_safetensors(
    path: &Path,
    metadata: &[(&str, &str)],
    tensors: &[Planned],
    mut fill: impl FnMut(usize, &mut Sink<'_>) -> Result<(), Error>,
) -> Result<String, Error> {
    let fail = |field: &str, problem: String| Error::Safetensors {
        path: path.to_path_buf(),
        field: field.to_owned(),
        problem,
    };
    let header = header(metadata, tensors).map_err(|(field, problem)| fail(&field, problem))?;
    let file = File::create_new(path).map_err(io(path, "create"))?;
    let mut out = Hashed { file: BufWriter::new(file), hash: Sha256::new(), path };
    out.write(&(header.len() as u64).to_le_bytes())?;
    out.write(&header)?;
    for (n, tensor) in tensors.iter().enumerate() {
        let mut given = 0;
        fill(n, &mut |bytes| {
            given += bytes.len();
            out.write(bytes)
        })?;
        if Some(given) != tensor.bytes() {
            let problem = format!("shape {:?} was filled with {given} bytes", tensor.shape);
            return Err(fail(&format!("tensor `{}`", tensor.name), problem));
        }
    }
    out.finish()
}

/// The header's text, padded so that the data begins at a multiple of 8 bytes.
fn header(metadata: &[(&str, &str)], tensors: &[Planned]) -> Result<Vec<u8>, (String, String)> {
    let mut infos = Vec::new();
    let mut end = 0usize;
    for tensor in tensors {
        let odd = |problem: String| (format!("tensor `{}`", tensor.name), problem);
        let dtype = match tensor.dtype {
            DType::F32 => Dtype::F32,
            DType::F16 => Dtype::F16,
            DType::BF16 => Dtype::BF16,
            DType::U32 => Dtype::U32,
            other => return Err(odd(format!("{other} is not written; f32, f16, bf16, u32 are"))),
        };
        let begin = end;
        end = tensor
            .bytes()
            .and_then(|bytes| begin.checked_add(bytes))
            .ok_or_else(|| odd(format!("shape {:?} has too many bytes", tensor.shape)))?;
        let shape = tensor.shape.clone();
        infos.push((tensor.name.clone(), TensorInfo { dtype, shape, data_offsets: (begin, end) }));
    }
    let texts = metadata.iter().map(|&(key, text)| (key.to_owned(), text.to_owned())).collect();
    let wrong = |error: String| ("header".to_owned(), error);
    let metadata = Metadata::new(Some(texts), infos).map_err(|e| wrong(e.to_string()))?;
    let mut bytes = serde_json::to_vec(&metadata).map_err(|e| wrong(e.to_string()))?;
    bytes.resize(bytes.len().next_multiple_of(8), b' ');
    Ok(bytes)
}

/// A file and the hash of what went into it.
struct Hashed<'p> {
    file: BufWriter<File>,
    hash: Sha256,
    path: &'p Path,
}

impl Hashed<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.hash.update(bytes);
        self.file.write_all(bytes).map_err(io(self.path, "write"))
    }

    fn finish(mut self) -> Result<String, Error> {
        self.file.flush().map_err(io(self.path, "write"))?;
        Ok(hex(&self.hash.finalize()))
    }
}
