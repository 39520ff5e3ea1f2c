//! The workers' Python sources, which travel in the program and are written to the cache folder.

use super::error::BaselineError;
use super::locate::cache_folder;
use super::tensor::sha256;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! python {
    ($($path:literal),* $(,)?) => {
        [$(($path, include_str!(concat!("../../../../python/", $path)))),*]
    };
}

const SOURCES: [(&str, &str); 20] = python![
    "worker.py",
    "metile_baselines/__init__.py",
    "metile_baselines/decoding.py",
    "metile_baselines/environment.py",
    "metile_baselines/exchange.py",
    "metile_baselines/kernels.py",
    "metile_baselines/llama_cpp_model.py",
    "metile_baselines/mkl_kernels.py",
    "metile_baselines/mlx_arrays.py",
    "metile_baselines/mlx_kernels.py",
    "metile_baselines/mlx_model.py",
    "metile_baselines/numpy_arrays.py",
    "metile_baselines/numpy_kernels.py",
    "metile_baselines/onnxruntime_kernels.py",
    "metile_baselines/protocol.py",
    "metile_baselines/pytorch_arrays.py",
    "metile_baselines/pytorch_kernels.py",
    "metile_baselines/pytorch_model.py",
    "metile_baselines/streams.py",
    "metile_baselines/triton_kernels.py",
];

/// SHA-256 over names and texts of all sources: what a report says of its workers.
pub fn fingerprint() -> String {
    let text: Vec<String> = SOURCES
        .iter()
        .map(|(path, text)| format!("{path} {}\n", sha256(text.as_bytes())))
        .collect();
    sha256(text.concat().as_bytes())
}

/// The script that starts a worker.
pub fn worker() -> Result<PathBuf, BaselineError> {
    let fingerprint = fingerprint();
    let folder = cache_folder()?.join("baselines").join("workers").join(&fingerprint[..16]);
    for (path, text) in SOURCES {
        let path = folder.join(path);
        // Also a file that someone changed is written anew.
        if !fs::read(&path).is_ok_and(|found| found == text.as_bytes()) {
            write(&path, text).map_err(|source| BaselineError::File {
                doing: "writing",
                path: path.clone(),
                source,
            })?;
        }
    }
    Ok(folder.join("worker.py"))
}

/// Writes beside and renames, so that a worker that starts meanwhile never reads half a file.
fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let beside = path.with_extension(format!("{}-{count}.new", std::process::id()));
    fs::write(&beside, text)?;
    fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use super::SOURCES;
    use std::path::Path;

    /// A file that is there but does not travel would be missing from every installed program.
    #[test]
    fn all_sources_travel() {
        let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python");
        let package = std::fs::read_dir(python.join("metile_baselines")).unwrap();
        let names = package.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut found: Vec<String> = names
            .filter(|name| name.ends_with(".py"))
            .map(|name| format!("metile_baselines/{name}"))
            .chain(["worker.py".to_owned()])
            .collect();
        found.sort();
        let mut travelling = SOURCES.map(|(path, _)| path.to_owned()).to_vec();
        travelling.sort();
        assert_eq!(found, travelling);
    }
}
