//! Little-endian fields from a file's start, with the position kept for messages.

use std::fmt::Arguments;
use std::io::Read;
use std::path::Path;

use crate::Error;

/// Blocks up to this many bytes are read in one piece.
const SHORT: u64 = 4096;

pub(super) struct Reader<'a, R> {
    input: R,
    at: u64,
    /// Where the file, or what a header may take of it, ends.
    end: u64,
    cut: bool,
    path: &'a Path,
}

impl<'a, R: Read> Reader<'a, R> {
    pub(super) fn new(input: R, length: u64, limit: u64, path: &'a Path) -> Self {
        Reader { input, at: 0, end: length.min(limit), cut: length > limit, path }
    }

    /// Bytes read so far.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Bytes that may still be read.
    pub(super) fn left(&self) -> u64 {
        self.end - self.at
    }

    pub(super) fn fail(
        &self,
        offset: u64,
        field: Arguments<'_>,
        problem: impl Into<String>,
    ) -> Error {
        let (path, field) = (self.path.to_path_buf(), field.to_string());
        Error::Gguf { path, field, offset, problem: problem.into() }
    }

    /// Checks that `bytes` are left for `field`.
    pub(super) fn need(&self, bytes: u64, field: Arguments<'_>) -> Result<(), Error> {
        let left = self.left();
        if bytes <= left {
            return Ok(());
        }
        let of = if self.cut { "of the most a header may have" } else { "of the file" };
        Err(self.fail(self.at, field, format!("it takes {bytes} bytes, but {left} {of} are left")))
    }

    pub(super) fn bytes<const N: usize>(&mut self, field: Arguments<'_>) -> Result<[u8; N], Error> {
        self.need(N as u64, field)?;
        let mut bytes = [0; N];
        self.input.read_exact(&mut bytes).map_err(|source| self.io(source))?;
        self.at += N as u64;
        Ok(bytes)
    }

    pub(super) fn u32(&mut self, field: Arguments<'_>) -> Result<u32, Error> {
        self.bytes(field).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, field: Arguments<'_>) -> Result<u64, Error> {
        self.bytes(field).map(u64::from_le_bytes)
    }

    /// The next `count` bytes. Memory grows with what is really there.
    pub(super) fn block(&mut self, count: u64, field: Arguments<'_>) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        self.append(count, &mut bytes, field)?;
        Ok(bytes)
    }

    /// Appends the next `count` bytes to `to`.
    pub(super) fn append(
        &mut self,
        count: u64,
        to: &mut Vec<u8>,
        field: Arguments<'_>,
    ) -> Result<(), Error> {
        self.need(count, field)?;
        // Most texts are short: one read into place instead of a buffer that grows.
        if count <= SHORT {
            let start = to.len();
            to.resize(start + count as usize, 0);
            self.input.read_exact(&mut to[start..]).map_err(|source| self.io(source))?;
            self.at += count;
            return Ok(());
        }
        let read = self.input.by_ref().take(count).read_to_end(to);
        let read = read.map_err(|source| self.io(source))? as u64;
        self.at += read;
        if read < count {
            return Err(self.io(std::io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(())
    }

    /// A length and as many bytes of UTF-8.
    pub(super) fn string(&mut self, field: Arguments<'_>) -> Result<String, Error> {
        let at = self.at;
        let length = self.u64(format_args!("length of the {field}"))?;
        let bytes = self.block(length, field)?;
        String::from_utf8(bytes).map_err(|_| self.fail(at, field, "it is not UTF-8"))
    }

    fn io(&self, source: std::io::Error) -> Error {
        Error::Io { path: self.path.to_path_buf(), action: "read", source }
    }
}
