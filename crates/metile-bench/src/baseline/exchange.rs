//! The folder through which tensors travel: shared memory if there is any.

use super::tensor::{Dtype, Tensor, TensorError, Values, sha256};
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A tensor as a line names it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TensorLine {
    /// A name in the exchange folder.
    pub file: String,
    /// Its element type.
    pub dtype: Dtype,
    /// Its extents.
    pub shape: Vec<usize>,
    /// SHA-256 of the file.
    pub sha256: String,
}

/// A file of ours in the exchange folder, which goes when this does.
pub struct Outgoing {
    path: PathBuf,
    /// How a line names it.
    pub line: TensorLine,
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        // The folder goes with the worker; a file that is gone already is no loss.
        let _ = fs::remove_file(&self.path);
    }
}

/// The folder of one worker, readable by this user only, removed at the end.
pub struct Exchange {
    folder: PathBuf,
    /// Held while we live: what finds it free may remove the folder.
    _lock: File,
    shared_memory: bool,
    limit: u64,
    next: u64,
}

const SHARED_MEMORY: &str = "/dev/shm";
const PREFIX: &str = "metile-exchange-";
const LOCK: &str = "lock";

impl Exchange {
    /// Makes a folder. Tensors of more than `limit` bytes are refused in both directions.
    ///
    /// # Errors
    /// With the path at fault.
    pub fn create(limit: u64) -> Result<Exchange, (PathBuf, io::Error)> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let shared = Path::new(SHARED_MEMORY);
        let (root, shared_memory) = if shared.is_dir() {
            (shared.to_path_buf(), true)
        } else {
            (std::env::temp_dir(), false)
        };
        remove_abandoned(&root);
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let folder = root.join(format!("{PREFIX}{}-{count}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&folder) {
                Ok(()) => {
                    let lock = hold(&folder).map_err(|error| (folder.clone(), error))?;
                    return Ok(Exchange { folder, _lock: lock, shared_memory, limit, next: 0 });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err((folder, error)),
            }
        }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether it lies in memory; if not, tensors travel through a disk.
    pub fn is_shared_memory(&self) -> bool {
        self.shared_memory
    }

    /// Writes a tensor for the worker.
    pub fn put(&mut self, tensor: &Tensor) -> Result<Outgoing, TensorError> {
        let bytes = tensor.values().bytes();
        let (dtype, shape) = (tensor.dtype(), tensor.shape().to_vec());
        if bytes.len() as u64 > self.limit {
            let bytes = bytes.len() as u64;
            return Err(TensorError::TooLarge { dtype, shape, bytes, limit: self.limit });
        }
        let file = format!("in-{}", self.next);
        self.next += 1;
        let path = self.folder.join(&file);
        let line = TensorLine { file, dtype, shape, sha256: sha256(bytes) };
        // Made before the write: what a failed one leaves goes with it.
        let outgoing = Outgoing { path, line };
        fs::write(&outgoing.path, bytes).map_err(|source| TensorError::Io {
            doing: "writing",
            file: outgoing.line.file.clone(),
            source,
        })?;
        Ok(outgoing)
    }

    /// Reads a tensor that the worker wrote, checks it against what was announced, and removes the file.
    pub fn take(&self, line: &TensorLine) -> Result<Tensor, TensorError> {
        let TensorLine { file, dtype, shape, sha256: announced } = line;
        let plain = file.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if file.is_empty() || !plain || file == LOCK {
            return Err(TensorError::FileName { file: file.chars().take(200).collect() });
        }
        let count = shape.iter().try_fold(1_usize, |n, &extent| n.checked_mul(extent));
        let Some((count, expected)) =
            count.and_then(|count| Some((count, count.checked_mul(dtype.size())? as u64)))
        else {
            return Err(TensorError::Uncountable { dtype: *dtype, shape: shape.clone() });
        };
        if expected > self.limit {
            let (dtype, shape, limit) = (*dtype, shape.clone(), self.limit);
            return Err(TensorError::TooLarge { dtype, shape, bytes: expected, limit });
        }
        let path = self.folder.join(file);
        let io = |doing| {
            let file = file.clone();
            move |source| TensorError::Io { doing, file, source }
        };
        let found = fs::symlink_metadata(&path).map_err(io("looking at"))?;
        if !found.is_file() {
            return Err(TensorError::NotAFile { file: file.clone() });
        }
        if found.len() != expected {
            let (file, dtype, shape) = (file.clone(), *dtype, shape.clone());
            return Err(TensorError::Length { file, dtype, shape, expected, found: found.len() });
        }
        // Only now is memory asked for: as much as the file has.
        let mut values = Values::zeros(*dtype, count);
        let mut opened = File::open(&path).map_err(io("opening"))?;
        opened.read_exact(values.bytes_mut()).map_err(io("reading"))?;
        fs::remove_file(&path).map_err(io("removing"))?;
        let found = sha256(values.bytes());
        if found != *announced {
            let announced = announced.chars().take(80).collect();
            return Err(TensorError::Hash { file: file.clone(), announced, found });
        }
        Tensor::new(shape, values)
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        // The worker removes it too when its input ends; whoever is second finds nothing.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The lock of a new folder.
fn hold(folder: &Path) -> io::Result<File> {
    // It gets its name once it is held: nobody finds it free.
    let unnamed = folder.join("new-lock");
    let lock = File::create_new(&unnamed)?;
    lock.lock()?;
    fs::rename(&unnamed, folder.join(LOCK))?;
    Ok(lock)
}

/// Removes folders whose makers were killed: their locks are free.
fn remove_abandoned(root: &Path) {
    let Ok(entries) = fs::read_dir(root) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if !name.to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        // Other users' folders can't be opened, and one without a lock is being made.
        let Ok(lock) = File::open(entry.path().join(LOCK)) else { continue };
        if lock.try_lock().is_ok() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
