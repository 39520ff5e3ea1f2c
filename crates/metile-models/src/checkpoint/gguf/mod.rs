//! GGUF, versions 2 and 3, little-endian: the header as the file's own types, every size checked
//! against the bytes that are left before it is believed.

mod reader;
mod tensors;
mod value;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::Error;
use reader::Reader;
pub use tensors::Tensor;
pub use value::{Array, Strings, Value};

/// Where tensor data is aligned unless `general.alignment` says otherwise.
const DEFAULT_ALIGNMENT: u64 = 32;
/// The most bytes that metadata and tensor infos may take: twenty times those of the largest
/// vocabularies there are.
const HEADER_LIMIT: u64 = 256 << 20;
/// A pair is at least a key of one byte with its length, the value's type and one byte.
const LEAST_PAIR: u64 = 8 + 1 + 4 + 1;
/// A tensor info is at least a name of one byte with its length, one dimension, type and offset.
const LEAST_TENSOR: u64 = 8 + 1 + 4 + 8 + 4 + 8;

/// A metadata value and where it stands in the file.
#[derive(Clone, Debug)]
struct Entry {
    value: Value,
    offset: u64,
}

/// Everything before a GGUF file's tensor data.
#[derive(Clone, Debug)]
pub struct Header {
    path: PathBuf,
    version: u32,
    alignment: u64,
    data_offset: u64,
    metadata: BTreeMap<String, Entry>,
    tensors: Vec<Tensor>,
}

impl Header {
    /// Reads the header of a file of `length` bytes from its start. `path` is for messages. Memory is
    /// bounded by a small multiple of the header's bytes.
    ///
    /// # Errors
    /// If the file breaks the format, or holds a tensor of a type or size that is not supported; the
    /// field and its byte offset are named.
    pub fn read(input: impl Read, length: u64, path: &Path) -> Result<Header, Error> {
        let mut reader = Reader::new(input, length, HEADER_LIMIT, path);
        let version = magic_and_version(&mut reader)?;
        let tensor_count = count(&mut reader, "tensor count", LEAST_TENSOR)?;
        let pair_count = count(&mut reader, "metadata count", LEAST_PAIR)?;
        let metadata = metadata(&mut reader, pair_count)?;
        let alignment = alignment(&metadata, path)?;
        let infos = tensors::infos(&mut reader, tensor_count)?;
        let end = reader.at();
        // The header's limit keeps `end` far from overflow.
        let data_offset = end.next_multiple_of(alignment);
        let tensors = tensors::place(infos, data_offset, alignment, length, path)?;
        Ok(Header { path: path.to_path_buf(), version, alignment, data_offset, metadata, tensors })
    }

    /// The file this header was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The format's version, 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// What tensor offsets are multiples of, in bytes.
    pub fn alignment(&self) -> u64 {
        self.alignment
    }

    /// Where tensor data starts, in bytes.
    pub fn data_offset(&self) -> u64 {
        self.data_offset
    }

    /// The tensors in the file's order.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// The keys of the metadata, sorted.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.metadata.keys().map(String::as_str)
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.metadata.get(key).map(|entry| &entry.value)
    }

    /// An error about the value of `key`, or about its absence.
    pub(crate) fn fail(&self, key: &str, problem: impl Into<String>) -> Error {
        let (path, problem) = (self.path.clone(), problem.into());
        match self.metadata.get(key) {
            Some(entry) => {
                Error::Gguf { path, field: format!("`{key}`"), offset: entry.offset, problem }
            }
            None => Error::Config { path, key: key.to_owned(), problem },
        }
    }

    fn typed<'a, T>(
        &'a self,
        key: &str,
        what: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        read(value)
            .map(Some)
            .ok_or_else(|| self.fail(key, format!("it is {}, not {what}", value.kind())))
    }

    /// A whole number from 0 to 2^32 - 1 of any integer type.
    pub(crate) fn count(&self, key: &str) -> Result<Option<usize>, Error> {
        let number = self.typed(key, "a whole number of at least 0", Value::as_u64)?;
        match number {
            Some(n) if n > u64::from(u32::MAX) => {
                Err(self.fail(key, format!("it is {n}, more than 2^32 - 1")))
            }
            Some(n) => Ok(Some(n as usize)),
            None => Ok(None),
        }
    }

    /// The same, where it has to be there and positive.
    pub(crate) fn needed_count(&self, key: &str) -> Result<usize, Error> {
        match self.count(key)? {
            Some(0) => Err(self.fail(key, "it is 0, not a positive number")),
            Some(n) => Ok(n),
            None => Err(self.fail(key, "the key is missing")),
        }
    }

    pub(crate) fn id(&self, key: &str) -> Result<Option<u32>, Error> {
        Ok(self.count(key)?.map(|id| id as u32))
    }

    pub(crate) fn number(&self, key: &str) -> Result<Option<f64>, Error> {
        self.typed(key, "a finite number", Value::as_f64)
    }

    pub(crate) fn boolean(&self, key: &str) -> Result<Option<bool>, Error> {
        self.typed(key, "a truth value", Value::as_bool)
    }

    pub(crate) fn text(&self, key: &str) -> Result<Option<&str>, Error> {
        self.typed(key, "a text", Value::as_str)
    }

    pub(crate) fn texts(&self, key: &str) -> Result<Option<&Strings>, Error> {
        self.typed(key, "a list of texts", |value| match value {
            Value::Array(Array::String(list)) => Some(list),
            _ => None,
        })
    }

    pub(crate) fn array(&self, key: &str) -> Result<Option<&Array>, Error> {
        self.typed(key, "a list", |value| match value {
            Value::Array(array) => Some(array),
            _ => None,
        })
    }
}

fn magic_and_version<R: Read>(reader: &mut Reader<'_, R>) -> Result<u32, Error> {
    let magic = reader.bytes::<4>(format_args!("magic"))?;
    if magic != *b"GGUF" {
        let shown = magic.escape_ascii();
        return Err(reader.fail(0, format_args!("magic"), format!("it is `{shown}`, not `GGUF`")));
    }
    let version = reader.u32(format_args!("version"))?;
    match version {
        2 | 3 => Ok(version),
        _ => {
            let problem = if version.swap_bytes() <= 3 {
                "the file is big-endian, which is not supported".to_owned()
            } else {
                format!("it is {version}; versions 2 and 3 are supported")
            };
            Err(reader.fail(4, format_args!("version"), problem))
        }
    }
}

/// A number of things that take at least `least` bytes each.
fn count<R: Read>(reader: &mut Reader<'_, R>, field: &str, least: u64) -> Result<u64, Error> {
    let at = reader.at();
    let count = reader.u64(format_args!("{field}"))?;
    let most = reader.left() / least;
    if count > most {
        let problem = format!(
            "it is {count}, but the {} bytes that are left hold at most {most}",
            reader.left()
        );
        return Err(reader.fail(at, format_args!("{field}"), problem));
    }
    Ok(count)
}

fn metadata<R: Read>(
    reader: &mut Reader<'_, R>,
    pairs: u64,
) -> Result<BTreeMap<String, Entry>, Error> {
    let mut metadata = BTreeMap::new();
    for n in 0..pairs {
        let at = reader.at();
        let key = reader.string(format_args!("key of metadata pair {n}"))?;
        let field = format_args!("key of metadata pair {n}");
        if key.is_empty() {
            return Err(reader.fail(at, field, "it is empty"));
        }
        if metadata.contains_key(&key) {
            return Err(reader.fail(at, field, format!("`{key}` was there before")));
        }
        let kind = reader.u32(format_args!("type of `{key}`"))?;
        let offset = reader.at();
        let value = value::read(reader, kind, format_args!("`{key}`"))?;
        metadata.insert(key, Entry { value, offset });
    }
    Ok(metadata)
}

fn alignment(metadata: &BTreeMap<String, Entry>, path: &Path) -> Result<u64, Error> {
    const KEY: &str = "general.alignment";
    let Some(entry) = metadata.get(KEY) else { return Ok(DEFAULT_ALIGNMENT) };
    match entry.value {
        Value::U32(n) if n > 0 && n.is_multiple_of(8) => Ok(u64::from(n)),
        ref value => Err(Error::Gguf {
            path: path.to_path_buf(),
            field: format!("`{KEY}`"),
            offset: entry.offset,
            problem: format!("it is {value}, not a u32 that is a positive multiple of 8"),
        }),
    }
}
