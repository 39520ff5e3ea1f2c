//! Checkpoints: a model's tensors by what they are for, from GGUF or safetensors files.
//!
//! Opening reads headers only, and checks that the tensors are those of the configuration, with its
//! shapes. Data is read tensor by tensor.

mod affine;
pub mod convert;
pub mod gguf;
mod open;
mod roles;
pub mod safetensors;
mod sharded;
pub mod synth;
mod values;
pub mod write;

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use metile_ir::Format;

use crate::Error;
use crate::config::ModelConfig;
pub(crate) use open::missing_files;
pub use roles::{LayerRole, Role};
pub use values::Values;

/// One tensor of a checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorInfo {
    /// Its name in the checkpoint; of three affine arrays the one of the packed integers.
    pub name: String,
    /// What its memory holds.
    pub format: Format,
    /// Extents, outermost first; `[out, in]` for a matrix.
    pub shape: Vec<usize>,
    /// Bytes of all its arrays.
    pub bytes: u64,
    /// Where its arrays lie.
    parts: Vec<Part>,
}

/// A range of bytes in one of a checkpoint's files.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Part {
    file: usize,
    offset: u64,
    bytes: u64,
}

/// A tensor, and whether [`Checkpoint::tensor`] gave it out.
#[derive(Debug)]
struct Held {
    info: TensorInfo,
    asked_for: AtomicBool,
}

/// Where configuration and tokenizer come from.
#[derive(Debug)]
pub(crate) enum Source {
    /// The one file.
    Gguf(Box<gguf::Header>),
    /// Files of fixed names in this folder.
    HuggingFace(PathBuf),
}

/// An opened checkpoint.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    config: ModelConfig,
    tensors: Vec<Held>,
    by_role: HashMap<Role, usize>,
    files: Vec<(PathBuf, Mutex<File>)>,
    source: Source,
    notes: Vec<String>,
}

impl Checkpoint {
    /// Opens the checkpoint at `path`: a `.gguf` file, a `.safetensors` file beside its `config.json`,
    /// a folder with `config.json` and safetensors files, or a folder with one `.gguf` file.
    ///
    /// # Errors
    /// If there is none, a file breaks its format, the model is of a kind that is not supported, or its
    /// tensors are not those of its configuration.
    pub fn open(path: &Path) -> Result<Checkpoint, Error> {
        open::open(path)
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The model's sizes and settings.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// What a user may want to know: things of the checkpoint that are left out, and why.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Every tensor, in no order that means anything.
    pub fn tensors(&self) -> impl Iterator<Item = &TensorInfo> {
        self.tensors.iter().map(|held| &held.info)
    }

    /// The tensor for `role`, where the model has one. Tensors that the configuration calls for are
    /// always there: [`Checkpoint::open`] has checked it.
    pub fn tensor(&self, role: Role) -> Option<&TensorInfo> {
        let held = self.tensors.get(*self.by_role.get(&role)?)?;
        held.asked_for.store(true, Ordering::Relaxed);
        Some(&held.info)
    }

    /// The bytes of `info`'s arrays: one array, or packed integers, scales and biases of an affine
    /// format, as `Tensor::from_bytes` takes them.
    ///
    /// # Errors
    /// If the file cannot be read, or became shorter since it was opened.
    pub fn read(&self, info: &TensorInfo) -> Result<Vec<Vec<u8>>, Error> {
        info.parts.iter().map(|part| self.read_part(&info.name, part)).collect()
    }

    fn read_part(&self, name: &str, part: &Part) -> Result<Vec<u8>, Error> {
        let tensor_error = |problem: String| Error::Tensor {
            path: self.path.clone(),
            tensor: name.to_owned(),
            problem,
        };
        let Some((path, file)) = self.files.get(part.file) else {
            return Err(tensor_error("it belongs to another checkpoint".to_owned()));
        };
        let io = |source| Error::Io { path: path.clone(), action: "read", source };
        let mut bytes = Vec::new();
        usize::try_from(part.bytes)
            .ok()
            .and_then(|count| bytes.try_reserve_exact(count).ok())
            .ok_or_else(|| {
                tensor_error(format!("there is no memory for its {} bytes", part.bytes))
            })?;
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(part.offset)).map_err(io)?;
        let read = file.by_ref().take(part.bytes).read_to_end(&mut bytes).map_err(io)?;
        if (read as u64) < part.bytes {
            return Err(io(std::io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(bytes)
    }

    /// Checks that every tensor was asked for.
    ///
    /// # Errors
    /// If one was not: the model would be computed without it.
    pub fn check_all_used(&self) -> Result<(), Error> {
        let unused = self.tensors.iter().find(|held| !held.asked_for.load(Ordering::Relaxed));
        match unused {
            None => Ok(()),
            Some(held) => Err(Error::Tensor {
                path: self.path.clone(),
                tensor: held.info.name.clone(),
                problem: "nothing has read it".to_owned(),
            }),
        }
    }

    pub(crate) fn source(&self) -> &Source {
        &self.source
    }
}
