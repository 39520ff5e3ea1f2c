//! New checkpoint folders, as Transformers and MLX-LM read them.

mod safetensors;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::Error;
pub use safetensors::{Planned, write_safetensors};

/// The file in which a folder made here says where its weights come from.
pub const PROVENANCE: &str = "metile.json";
/// The weights of a folder made here.
pub(super) const WEIGHTS: &str = "model.safetensors";

/// A checkpoint folder in the making. It lies beside its final place under another name until
/// [`finish`](Self::finish), so that what was interrupted never looks like a checkpoint; dropped
/// before, it is removed.
#[derive(Debug)]
pub struct NewFolder {
    partial: PathBuf,
    place: PathBuf,
    finished: bool,
}

impl NewFolder {
    /// A folder that is to become `place`.
    ///
    /// # Errors
    /// If there is something at `place` already, or no folder can be made beside it.
    pub fn create(place: &Path) -> Result<NewFolder, Error> {
        let refuse = |problem: &str| Error::Output {
            path: place.to_path_buf(),
            problem: problem.to_owned(),
        };
        refuse_existing(place)?;
        let Some(name) = place.file_name() else {
            return Err(refuse("it does not name a folder"));
        };
        let mut partial = name.to_os_string();
        partial.push(format!(".partial-{}", std::process::id()));
        let partial = place.with_file_name(partial);
        if let Some(parent) = partial.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            fs::create_dir_all(parent).map_err(io(parent, "create"))?;
        }
        fs::create_dir(&partial).map_err(io(&partial, "create"))?;
        Ok(NewFolder { partial, place: place.to_path_buf(), finished: false })
    }

    /// The path of a file in it, while it is being made.
    pub fn file(&self, name: &str) -> PathBuf {
        self.partial.join(name)
    }

    /// Writes a file of JSON, and gives its SHA-256.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn json(&self, name: &str, value: &Value) -> Result<String, Error> {
        let path = self.file(name);
        let mut text = serde_json::to_string_pretty(value)
            .map_err(|error| Error::Json { path: path.clone(), problem: error.to_string() })?;
        text.push('\n');
        self.bytes(name, text.as_bytes())
    }

    /// Writes a file, and gives its SHA-256.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn bytes(&self, name: &str, bytes: &[u8]) -> Result<String, Error> {
        let path = self.file(name);
        let mut file = File::create_new(&path).map_err(io(&path, "create"))?;
        file.write_all(bytes).map_err(io(&path, "write"))?;
        Ok(hex(&Sha256::digest(bytes)))
    }

    /// Puts the folder in its place.
    ///
    /// # Errors
    /// If something is there by now.
    pub fn finish(mut self) -> Result<(), Error> {
        refuse_existing(&self.place)?;
        fs::rename(&self.partial, &self.place).map_err(io(&self.place, "create"))?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        if !self.finished {
            // There is nobody to tell, and what is left has a name that no loader reads.
            let _ = fs::remove_dir_all(&self.partial);
        }
    }
}

fn refuse_existing(place: &Path) -> Result<(), Error> {
    match fs::symlink_metadata(place) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(io(place, "open")(source)),
        Ok(_) => Err(Error::Output {
            path: place.to_path_buf(),
            problem: "it exists; checkpoints are not overwritten".to_owned(),
        }),
    }
}

fn io(path: &Path, action: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_path_buf();
    move |source| Error::Io { path, action, source }
}

/// Bytes in hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
