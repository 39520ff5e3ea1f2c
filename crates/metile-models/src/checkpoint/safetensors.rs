//! The safetensors format: a JSON header and one block of data that the tensors cover without overlap
//! or hole.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use metile_ir::DType;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::Error;

/// The most bytes the format allows a header.
const HEADER_LIMIT: u64 = 100_000_000;
/// Bytes of the header's length.
const LENGTH_BYTES: u64 = 8;
/// The most dimensions a tensor is read with.
const MOST_DIMENSIONS: usize = 8;

/// A tensor of a safetensors file.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub dtype: DType,
    /// Extents, outermost first.
    pub shape: Vec<usize>,
    /// Where its data starts in the file, in bytes.
    pub offset: u64,
    /// Bytes of its data.
    pub bytes: u64,
}

/// The header of a safetensors file.
#[derive(Clone, Debug)]
pub struct Header {
    path: PathBuf,
    tensors: Vec<Tensor>,
    metadata: BTreeMap<String, String>,
}

impl Header {
    /// Reads the header of a file of `length` bytes from its start. `path` is for messages. Memory is
    /// bounded by a small multiple of the header's bytes.
    ///
    /// # Errors
    /// If the file breaks the format, or holds a tensor of a type that is not supported; the tensor
    /// is named.
    pub fn read(mut input: impl Read, length: u64, path: &Path) -> Result<Header, Error> {
        let fail = |field: &str, problem: String| Error::Safetensors {
            path: path.to_path_buf(),
            field: field.to_owned(),
            problem,
        };
        let io = |source| Error::Io { path: path.to_path_buf(), action: "read", source };
        let Some(after_length) = length.checked_sub(LENGTH_BYTES) else {
            let problem = format!("the file has {length} bytes, fewer than the 8 of this field");
            return Err(fail("header length", problem));
        };
        let mut field = [0; LENGTH_BYTES as usize];
        input.read_exact(&mut field).map_err(io)?;
        let header_bytes = u64::from_le_bytes(field);
        if header_bytes > HEADER_LIMIT {
            let problem = format!("it is {header_bytes}, more than the {HEADER_LIMIT} allowed");
            return Err(fail("header length", problem));
        }
        let Some(data) = after_length.checked_sub(header_bytes) else {
            let problem =
                format!("it is {header_bytes}, but {after_length} bytes of the file are left");
            return Err(fail("header length", problem));
        };
        let mut json = Vec::new();
        input.take(header_bytes).read_to_end(&mut json).map_err(io)?;
        if json.first() != Some(&b'{') {
            return Err(fail("header", "it does not begin with `{`".to_owned()));
        }
        let raw: RawHeader =
            serde_json::from_slice(&json).map_err(|error| fail("header", error.to_string()))?;
        check_cover(&raw.tensors, data, &fail)?;
        let data_offset = LENGTH_BYTES + header_bytes;
        let mut tensors = Vec::new();
        for (name, raw) in raw.tensors {
            tensors.push(
                raw.typed(&name, data_offset).map_err(|problem| fail(&named(&name), problem))?,
            );
        }
        Ok(Header { path: path.to_path_buf(), tensors, metadata: raw.metadata })
    }

    /// The file this header was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The tensors, in the header's order.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// The texts under `__metadata__`.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }
}

fn named(name: &str) -> String {
    format!("tensor `{name}`")
}

/// Checks that the tensors' ranges lie in the data one behind the other, from its start to its end.
fn check_cover(
    tensors: &[(String, RawTensor)],
    data: u64,
    fail: &impl Fn(&str, String) -> Error,
) -> Result<(), Error> {
    for (name, tensor) in tensors {
        let [begin, end] = tensor.data_offsets;
        if end < begin {
            return Err(fail(
                &named(name),
                format!("its data ends at {end}, before its begin {begin}"),
            ));
        }
        if end > data {
            let problem =
                format!("its data ends at {end}, but the file holds {data} bytes of data");
            return Err(fail(&named(name), problem));
        }
    }
    let mut order: Vec<&(String, RawTensor)> = tensors.iter().collect();
    order.sort_by_key(|(_, tensor)| tensor.data_offsets);
    let mut covered = 0;
    let mut before = "";
    for (name, tensor) in order {
        let [begin, end] = tensor.data_offsets;
        if begin < covered {
            let problem =
                format!("its data from {begin} on overlaps that of `{before}`, to {covered}");
            return Err(fail(&named(name), problem));
        }
        if begin > covered {
            let problem = format!("a hole of {} bytes lies before its data", begin - covered);
            return Err(fail(&named(name), problem));
        }
        (covered, before) = (end, name);
    }
    if covered < data {
        let problem = format!("{} bytes of data belong to no tensor", data - covered);
        return Err(fail("end of the data", problem));
    }
    Ok(())
}

/// A tensor as the header writes it.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTensor {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

impl RawTensor {
    /// Checked against its type; the range was checked before, whatever the type.
    fn typed(self, name: &str, data_offset: u64) -> Result<Tensor, String> {
        let [begin, end] = self.data_offsets;
        let dtype = dtype_of(&self.dtype)?;
        if self.shape.len() > MOST_DIMENSIONS {
            let count = self.shape.len();
            return Err(format!("it has {count} dimensions, more than {MOST_DIMENSIONS}"));
        }
        let product = self.shape.iter().try_fold(dtype.bytes() as u64, |n, &x| n.checked_mul(x));
        let Some(needed) = product else {
            return Err(format!(
                "shape {:?} of {} is more than 2^64 bytes",
                self.shape, self.dtype
            ));
        };
        if needed != end - begin {
            return Err(format!(
                "shape {:?} of {} takes {needed} bytes, but its data has {}",
                self.shape,
                self.dtype,
                end - begin
            ));
        }
        let shape = self.shape.iter().map(|&extent| extent as usize).collect();
        let offset = data_offset + begin;
        Ok(Tensor { name: name.to_owned(), dtype, shape, offset, bytes: needed })
    }
}

fn dtype_of(name: &str) -> Result<DType, String> {
    const KNOWN: [(&str, DType); 12] = [
        ("F32", DType::F32),
        ("F16", DType::F16),
        ("BF16", DType::BF16),
        ("BOOL", DType::Bool),
        ("U8", DType::U8),
        ("I8", DType::I8),
        ("U16", DType::U16),
        ("I16", DType::I16),
        ("U32", DType::U32),
        ("I32", DType::I32),
        ("U64", DType::U64),
        ("I64", DType::I64),
    ];
    let found = KNOWN.iter().find(|(known, _)| *known == name);
    found.map(|&(_, dtype)| dtype).ok_or_else(|| {
        let shown: String = name.chars().take(40).collect();
        format!("its dtype is `{shown}`; {} are known", KNOWN.map(|(known, _)| known).join(", "))
    })
}

/// The header's object, with every name once.
struct RawHeader {
    tensors: Vec<(String, RawTensor)>,
    metadata: BTreeMap<String, String>,
}

impl<'de> Deserialize<'de> for RawHeader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HeaderVisitor)
    }
}

struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = RawHeader;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<RawHeader, M::Error> {
        use serde::de::Error as _;
        let mut seen = std::collections::HashSet::new();
        let mut tensors = Vec::new();
        let mut metadata = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            if !seen.insert(name.clone()) {
                let _: IgnoredAny = map.next_value()?;
                return Err(M::Error::custom(format!("`{name}` is there twice")));
            }
            if name == "__metadata__" {
                metadata = map.next_value()?;
            } else {
                let tensor = map.next_value();
                let tensor =
                    tensor.map_err(|e| M::Error::custom(format!("tensor `{name}`: {e}")))?;
                tensors.push((name, tensor));
            }
        }
        Ok(RawHeader { tensors, metadata })
    }
}
