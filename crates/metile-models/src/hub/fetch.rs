//! A model's files from the server into the cache.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use super::cache::{Repository, create_parent};
use super::endpoint::{Endpoint, FileInfo};
use super::{ModelId, Progress, fail, is_plain_name, verify};
use crate::Error;

/// Files beside the weights that a model is read with.
const BESIDE: [&str; 5] = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
];
const INDEX: &str = "model.safetensors.index.json";

/// Fetches what is lacking of `model`, and makes it what the id means when all of it is there.
pub(super) fn model(
    endpoint: &Endpoint<'_>,
    repository: &Repository,
    model: &ModelId,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(), Error> {
    let listing = endpoint.list()?;
    for name in needed(&listing.files, model)? {
        let info = endpoint.info(&listing.commit, &name)?;
        file(endpoint, repository, model, (&listing.commit, &name, &info), progress)?;
        repository.link(&listing.commit, &name, &info.etag)?;
    }
    repository.set_reference(&listing.commit)
}

/// Which of a repository's files make the model.
fn needed(files: &[String], model: &ModelId) -> Result<Vec<String>, Error> {
    // Names with folders are other forms of the model, and nothing outside the snapshot is written.
    let files: Vec<&String> = files.iter().filter(|name| is_plain_name(name)).collect();
    let ending =
        |end: &'static str| files.iter().filter(move |n| n.ends_with(end)).map(|n| n.to_string());
    if let Some(file) = &model.file {
        return if files.contains(&file) {
            Ok(vec![file.clone()])
        } else {
            let gguf: Vec<String> = ending(".gguf").collect();
            let problem = format!("it has no file `{file}`; its GGUF files: {}", gguf.join(", "));
            Err(fail(&model.repository(), problem))
        };
    }
    let weights: Vec<String> = ending(".safetensors").collect();
    if !weights.is_empty() && files.iter().any(|name| *name == "config.json") {
        let beside = BESIDE.into_iter().chain([INDEX]);
        let beside = beside.filter(|name| files.iter().any(|file| file == name));
        // A model in one file may have its other forms beside it.
        let single = weights.iter().find(|name| *name == "model.safetensors").cloned();
        let weights = single.map_or(weights, |single| vec![single]);
        return Ok(beside.map(str::to_owned).chain(weights).collect());
    }
    let gguf: Vec<String> = ending(".gguf").collect();
    match &gguf[..] {
        [_] => Ok(gguf),
        [] => Err(fail(
            &model.repository(),
            "it holds neither safetensors with config.json nor a GGUF file",
        )),
        _ => {
            let problem = format!(
                "it holds {} GGUF files; add the name of one to the id: {}",
                gguf.len(),
                gguf.join(", ")
            );
            Err(fail(&model.repository(), problem))
        }
    }
}

/// Fetches one file into its blob, going on where an earlier download ended.
fn file(
    endpoint: &Endpoint<'_>,
    repository: &Repository,
    model: &ModelId,
    (commit, name, info): (&str, &str, &FileInfo),
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(), Error> {
    let blob = repository.blob(&info.etag);
    let total = info.bytes;
    if std::fs::metadata(&blob).is_ok_and(|metadata| metadata.len() == total) {
        progress(Progress { file: name, done: total, total });
        return Ok(());
    }
    let partial = repository.blob(&format!("{}.incomplete", info.etag));
    create_parent(&partial)?;
    let io = |source| Error::Io { path: partial.clone(), action: "write", source };
    // Not truncated: what is there is kept.
    let mut out =
        OpenOptions::new().create(true).truncate(false).write(true).open(&partial).map_err(io)?;
    if out.try_lock().is_err() {
        let problem =
            format!("another process is fetching {name}: {} is locked", partial.display());
        return Err(fail(&model.repository(), problem));
    }
    let mut have = out.metadata().map_err(io)?.len();
    if have > total {
        have = 0;
    }
    if have < total {
        let (from, mut response) = endpoint.content(commit, name, have, total)?;
        out.set_len(from).map_err(io)?;
        out.seek(SeekFrom::Start(from)).map_err(io)?;
        let source = response.body_mut().as_reader();
        have = copy(source, &mut out, &partial, (name, from, total), progress)
            .map_err(|problem| problem.unwrap_or_else(|text| fail(&model.repository(), text)))?;
    } else {
        out.set_len(total).map_err(io)?;
        progress(Progress { file: name, done: total, total });
    }
    if have < total {
        let problem = format!(
            "{name} broke off after {have} of {total} bytes; the next download goes on from there"
        );
        return Err(fail(&model.repository(), problem));
    }
    out.sync_all().map_err(io)?;
    if let Some(problem) = verify::mismatch(&partial, total, &info.etag)? {
        drop(out);
        std::fs::remove_file(&partial).map_err(io)?;
        let problem = format!("{name} is not what the server announced: {problem}; it was removed");
        return Err(fail(&model.repository(), problem));
    }
    std::fs::rename(&partial, &blob).map_err(io)
}

/// Copies up to `total` bytes of the file; gives how many are there at the end. An error of the
/// connection is a text, one of the disk an error.
fn copy(
    source: impl Read,
    out: &mut File,
    path: &Path,
    (file, from, total): (&str, u64, u64),
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<u64, Result<Error, String>> {
    let mut source = source.take(total - from);
    let mut buffer = vec![0; 1 << 16];
    let mut done = from;
    loop {
        progress(Progress { file, done, total });
        let read = match source.read(&mut buffer) {
            Ok(0) => return Ok(done),
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => {
                return Err(Err(format!(
                    "{file} broke off after {done} of {total} bytes ({error}); the next download \
                     goes on from there"
                )));
            }
        };
        out.write_all(&buffer[..read]).map_err(|source| {
            Ok(Error::Io { path: path.to_path_buf(), action: "write", source })
        })?;
        done += read as u64;
    }
}
