//! The device's memory: storages at addresses of their own.

/// Storages of a launch. Each lies at an address with nothing next to it, so that a pointer belongs to one of them.
#[derive(Debug, Default)]
pub struct Memory<'m> {
    storages: Vec<Storage<'m>>,
}

#[derive(Debug)]
struct Storage<'m> {
    name: String,
    base: u64,
    bytes: Bytes<'m>,
}

#[derive(Debug)]
enum Bytes<'m> {
    Read(&'m [u8]),
    Write(&'m mut [u8]),
}

/// Where the first storage lies.
const FIRST: u64 = 1 << 32;
/// What storages are aligned to, as CUDA's and Metal's allocations are.
const ALIGN: u64 = 256;
/// What lies between two storages at least.
const GAP: u64 = 1 << 16;

impl<'m> Memory<'m> {
    /// No storages.
    pub fn new() -> Memory<'m> {
        Memory::default()
    }

    /// Adds a storage that the launch only reads; gives its address.
    pub fn read(&mut self, name: impl Into<String>, bytes: &'m [u8]) -> u64 {
        self.add(name.into(), Bytes::Read(bytes))
    }

    /// Adds a storage that the launch may write; gives its address.
    pub fn write(&mut self, name: impl Into<String>, bytes: &'m mut [u8]) -> u64 {
        self.add(name.into(), Bytes::Write(bytes))
    }

    fn add(&mut self, name: String, bytes: Bytes<'m>) -> u64 {
        let last = self.storages.last().map(|s| s.base.saturating_add(s.bytes().len() as u64));
        let base = last.map_or(FIRST, |end| end.saturating_add(GAP).next_multiple_of(ALIGN));
        self.storages.push(Storage { name, base, bytes });
        base
    }

    /// The storage that `address` points into or just behind.
    pub(super) fn find(&self, address: u64) -> Option<usize> {
        let after = self.storages.partition_point(|s| s.base <= address);
        let n = after.checked_sub(1)?;
        (address - self.storages[n].base <= self.storages[n].bytes().len() as u64).then_some(n)
    }

    pub(super) fn len(&self) -> usize {
        self.storages.len()
    }

    pub(super) fn name(&self, storage: usize) -> &str {
        &self.storages[storage].name
    }

    /// The distance of `address`, which [`find`](Self::find) found, from the storage's first byte.
    pub(super) fn offset(&self, storage: usize, address: u64) -> u64 {
        address - self.storages[storage].base
    }

    pub(super) fn bytes(&self, storage: usize) -> &[u8] {
        self.storages[storage].bytes()
    }

    pub(super) fn is_written(&self, storage: usize) -> bool {
        matches!(self.storages[storage].bytes, Bytes::Write(_))
    }

    /// The bytes to write; `None` for a storage that is only read.
    pub(super) fn bytes_mut(&mut self, storage: usize) -> Option<&mut [u8]> {
        match &mut self.storages[storage].bytes {
            Bytes::Read(_) => None,
            Bytes::Write(bytes) => Some(bytes),
        }
    }
}

impl Storage<'_> {
    fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Read(bytes) => bytes,
            Bytes::Write(bytes) => bytes,
        }
    }
}

/// An element's memory image, zero-extended.
pub(super) fn read_element(bytes: &[u8]) -> u64 {
    let mut image = [0; 8];
    for (to, &from) in image.iter_mut().zip(bytes) {
        *to = from;
    }
    u64::from_le_bytes(image)
}

/// Writes an element of as many bytes as there are.
pub(super) fn write_element(bytes: &mut [u8], bits: u64) {
    for (to, from) in bytes.iter_mut().zip(bits.to_le_bytes()) {
        *to = from;
    }
}
