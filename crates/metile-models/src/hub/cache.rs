//! The layout of Hugging Face's cache: `models--O--N` with `refs`, `blobs` and `snapshots`.

use std::path::{Path, PathBuf};

use super::{ModelId, is_plain_name};
use crate::Error;
use crate::checkpoint::missing_files;

/// The revision that ids without one mean.
pub(super) const REVISION: &str = "main";

/// A model's folder in the cache.
pub(super) struct Repository {
    folder: PathBuf,
}

impl Repository {
    pub(super) fn new(cache: &Path, model: &ModelId) -> Repository {
        let name = format!("models--{}--{}", model.organization, model.name);
        Repository { folder: cache.join(name) }
    }

    fn reference(&self) -> PathBuf {
        self.folder.join("refs").join(REVISION)
    }

    pub(super) fn snapshot(&self, commit: &str) -> PathBuf {
        self.folder.join("snapshots").join(commit)
    }

    pub(super) fn blob(&self, name: &str) -> PathBuf {
        self.folder.join("blobs").join(name)
    }

    /// The model's path, or what is lacking.
    pub(super) fn local(&self, model: &ModelId) -> Result<PathBuf, String> {
        let commit = std::fs::read_to_string(self.reference())
            .map_err(|_| format!("it is not in the cache {}", self.folder.display()))?;
        let commit = commit.trim();
        if !is_plain_name(commit) {
            return Err(format!("{} does not hold a revision", self.reference().display()));
        }
        let snapshot = self.snapshot(commit);
        if let Some(file) = &model.file {
            let path = snapshot.join(file);
            let lacking = || format!("{} is not in the cache", path.display());
            return if path.is_file() { Ok(path) } else { Err(lacking()) };
        }
        match missing_files(&snapshot) {
            None => Ok(snapshot),
            Some(lacking) => Err(format!("its cache is not complete: {lacking}")),
        }
    }

    /// Makes the blob `blob` the file `name` of the snapshot of `commit`.
    pub(super) fn link(&self, commit: &str, name: &str, blob: &str) -> Result<(), Error> {
        let path = self.snapshot(commit).join(name);
        let io = |source| Error::Io { path: path.clone(), action: "write", source };
        create_parent(&path)?;
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(io(error)),
            _ => {}
        }
        #[cfg(unix)]
        {
            let target = Path::new("..").join("..").join("blobs").join(blob);
            std::os::unix::fs::symlink(target, &path).map_err(io)
        }
        #[cfg(not(unix))]
        {
            std::fs::copy(self.blob(blob), &path).map(|_| ()).map_err(io)
        }
    }

    /// Makes `commit` what the cache's ids mean.
    pub(super) fn set_reference(&self, commit: &str) -> Result<(), Error> {
        let path = self.reference();
        create_parent(&path)?;
        std::fs::write(&path, commit).map_err(|source| Error::Io { path, action: "write", source })
    }
}

pub(super) fn create_parent(path: &Path) -> Result<(), Error> {
    let Some(folder) = path.parent() else { return Ok(()) };
    let io = |source| Error::Io { path: folder.to_path_buf(), action: "create", source };
    std::fs::create_dir_all(folder).map_err(io)
}
