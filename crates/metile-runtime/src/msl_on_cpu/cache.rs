//! Compiled sources in the user's cache folder, each beside the text it was compiled from.

use super::MslError;
use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

const HEADERS: [(&str, &str); 2] = [
    ("metal_stdlib", include_str!("include/metal_stdlib")),
    ("threads.hpp", include_str!("include/threads.hpp")),
];

/// Where a text and what is made of it lie.
#[derive(Debug)]
pub(super) struct Entry {
    pub text: PathBuf,
    pub library: PathBuf,
}

pub(super) fn failed(path: &Path, reason: impl ToString) -> MslError {
    MslError::Cache { path: path.display().to_string(), reason: reason.to_string() }
}

fn folder() -> Result<PathBuf, MslError> {
    let variable = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let root = variable("METILE_CACHE")
        .or_else(|| Some(variable("XDG_CACHE_HOME")?.join("metile")))
        .or_else(|| Some(variable("HOME")?.join(".cache/metile")))
        .ok_or_else(|| {
            failed(Path::new("~"), "none of METILE_CACHE, XDG_CACHE_HOME and HOME is set")
        })?;
    let folder = root.join("msl-on-cpu");
    fs::create_dir_all(&folder).map_err(|e| failed(&folder, e))?;
    Ok(folder)
}

fn hash(of: &[&str]) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// The folder with the headers.
pub(super) fn headers() -> Result<PathBuf, MslError> {
    let texts: Vec<&str> = HEADERS.iter().map(|(_, text)| *text).collect();
    let folder = folder()?.join(format!("include-{:016x}", hash(&texts)));
    fs::create_dir_all(&folder).map_err(|e| failed(&folder, e))?;
    for (name, text) in HEADERS {
        let path = folder.join(name);
        // Whatever else lies there is replaced.
        if fs::read_to_string(&path).ok().as_deref() != Some(text) {
            write(&path, text)?;
        }
    }
    Ok(folder)
}

/// The entry for a text, written if it is not there; and whether what was compiled from exactly this text is
/// there too.
pub(super) fn entry(kernel: &str, text: &str) -> Result<(Entry, bool), MslError> {
    let stem = format!("{kernel}-{:016x}", hash(&[text]));
    let folder = folder()?;
    let at = |ending: &str| folder.join(format!("{stem}.{ending}"));
    let entry = Entry { text: at("cpp"), library: at("so") };
    let same = fs::read_to_string(&entry.text).ok().as_deref() == Some(text);
    if !same {
        write(&entry.text, text)?;
    }
    let compiled = same && entry.library.exists();
    Ok((entry, compiled))
}

/// A name beside `path` that nobody else has.
pub(super) fn draft(path: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut name: OsString = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}-{n}", std::process::id()));
    path.with_file_name(name)
}

/// Others see the whole text or none.
fn write(path: &Path, text: &str) -> Result<(), MslError> {
    let draft = draft(path);
    fs::write(&draft, text).map_err(|e| failed(&draft, e))?;
    fs::rename(&draft, path).map_err(|e| failed(path, e))
}
