//! The files of a checkpoint's folder, and the tensors of several safetensors files as one list.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::Part;
use super::open::{not_one, open_file};
use super::safetensors::{Header, Tensor};
use crate::Error;
use crate::json::read_bytes;

/// The most bytes of an index: some hundred per tensor of the largest models.
const INDEX_LIMIT: u64 = 64 << 20;
const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

pub(super) enum Files {
    Gguf(PathBuf),
    Safetensors { files: Vec<PathBuf>, index: Option<Index> },
}

/// Which file holds which tensor.
pub(super) struct Index {
    path: PathBuf,
    /// Tensor to file name.
    map: BTreeMap<String, String>,
}

/// The weight files in `folder`.
pub(super) fn find(folder: &Path) -> Result<Files, Error> {
    let io = |source| Error::Io { path: folder.to_path_buf(), action: "read", source };
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(folder).map_err(io)? {
        names.extend(entry.map_err(io)?.file_name().into_string());
    }
    let ending = |end: &str| names.iter().filter(|n| n.ends_with(end)).collect::<Vec<_>>();
    let (safetensors, gguf) = (ending(".safetensors"), ending(".gguf"));
    let one = |name: &str| Files::Safetensors { files: vec![folder.join(name)], index: None };
    if names.contains("config.json") {
        if names.contains(SINGLE) {
            return Ok(one(SINGLE));
        }
        if names.contains(INDEX) {
            let index = read_index(&folder.join(INDEX))?;
            let files: BTreeSet<&String> = index.map.values().collect();
            let files = files.into_iter().map(|name| folder.join(name)).collect();
            return Ok(Files::Safetensors { files, index: Some(index) });
        }
        match safetensors[..] {
            [name] => return Ok(one(name)),
            [] => {}
            _ => {
                let problem = format!(
                    "there are {} safetensors files, but neither {SINGLE} nor {INDEX}",
                    safetensors.len()
                );
                return Err(not_one(folder, problem));
            }
        }
    }
    match gguf[..] {
        [name] => Ok(Files::Gguf(folder.join(name))),
        [] => Err(not_one(
            folder,
            "the folder holds neither config.json with safetensors files nor a .gguf file",
        )),
        _ => {
            let names: Vec<&str> = gguf.iter().take(8).map(|name| name.as_str()).collect();
            let problem = format!(
                "the folder holds {} .gguf files; name one of them: {}",
                gguf.len(),
                names.join(", ")
            );
            Err(not_one(folder, problem))
        }
    }
}

fn read_index(path: &Path) -> Result<Index, Error> {
    #[derive(serde::Deserialize)]
    struct Raw {
        weight_map: BTreeMap<String, String>,
    }
    let json = |problem: String| Error::Json { path: path.to_path_buf(), problem };
    let bytes = read_bytes(path, INDEX_LIMIT)?;
    let raw: Raw = serde_json::from_slice(&bytes).map_err(|error| json(error.to_string()))?;
    for (tensor, name) in &raw.weight_map {
        let plain = name.ends_with(".safetensors") && !name.contains(['/', '\\', ':']);
        if !plain {
            let problem = format!(
                "`weight_map` puts `{tensor}` into `{name}`, which is not the name of a safetensors file"
            );
            return Err(json(problem));
        }
    }
    if raw.weight_map.is_empty() {
        return Err(json("`weight_map` is empty".to_owned()));
    }
    Ok(Index { path: path.to_path_buf(), map: raw.weight_map })
}

/// Open files with their paths.
type OpenFiles = Vec<(PathBuf, Mutex<File>)>;

/// The opened files, and their tensors with where each lies.
pub(super) fn tensors(
    paths: &[PathBuf],
    index: Option<&Index>,
) -> Result<(OpenFiles, Vec<(Tensor, Part)>), Error> {
    let mut files = Vec::new();
    let mut tensors = Vec::new();
    for (file_number, path) in paths.iter().enumerate() {
        let (file, length) = open_file(path)?;
        let header = Header::read(BufReader::new(&file), length, path)?;
        for tensor in header.tensors() {
            if let Some(index) = index {
                index.check(tensor, path)?;
            }
            let part = Part { file: file_number, offset: tensor.offset, bytes: tensor.bytes };
            tensors.push((tensor.clone(), part));
        }
        files.push((path.clone(), Mutex::new(file)));
    }
    if let Some(index) = index {
        index.check_complete(&tensors)?;
    }
    Ok((files, tensors))
}

impl Index {
    fn check(&self, tensor: &Tensor, path: &Path) -> Result<(), Error> {
        let fail = |problem: String| Error::Tensor {
            path: path.to_path_buf(),
            tensor: tensor.name.clone(),
            problem,
        };
        match self.map.get(&tensor.name) {
            None => Err(fail(format!("{} does not list it", self.path.display()))),
            Some(file) if path.file_name().is_none_or(|name| name != file.as_str()) => {
                Err(fail(format!("{} puts it into {file}", self.path.display())))
            }
            Some(_) => Ok(()),
        }
    }

    fn check_complete(&self, tensors: &[(Tensor, Part)]) -> Result<(), Error> {
        let found: BTreeSet<&str> =
            tensors.iter().map(|(tensor, _)| tensor.name.as_str()).collect();
        match self.map.iter().find(|(name, _)| !found.contains(name.as_str())) {
            None => Ok(()),
            Some((name, file)) => Err(Error::Tensor {
                path: self.path.clone(),
                tensor: name.clone(),
                problem: format!("the index puts it into {file}, which does not hold it"),
            }),
        }
    }
}
