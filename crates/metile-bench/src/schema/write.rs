//! Reports as files: strict, whole or not at all, never over another.

use super::Report;
use serde_json::Value;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Why a report was not written or read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// There is a file already.
    #[error("{}: exists, and reports are never overwritten; name another file", .0.display())]
    Exists(PathBuf),
    /// The system refuses.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A null without a reason: a number that is NaN or infinite, or one that was forgotten.
    #[error("`{0}` is null without a reason: every missing number has to say why it is missing")]
    Null(String),
    /// The text is no report.
    #[error("{}: {message}", path.display())]
    NotAReport {
        /// The file.
        path: PathBuf,
        /// Where it is wrong.
        message: String,
    },
}

/// A report's file, refused early if there is one.
#[derive(Debug)]
pub struct Destination {
    path: PathBuf,
}

impl Destination {
    /// Where a report will go.
    ///
    /// # Errors
    /// If there is a file, or its folder does not exist.
    pub fn new(path: &Path) -> Result<Destination, FileError> {
        if fs::symlink_metadata(path).is_ok() {
            return Err(FileError::Exists(path.to_owned()));
        }
        let folder = folder_of(path);
        if !folder.is_dir() {
            let error = io::Error::new(io::ErrorKind::NotFound, "its folder does not exist");
            return Err(FileError::Io { path: path.to_owned(), error });
        }
        Ok(Destination { path: path.to_owned() })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the report in one step: under another name first, then linked to its own, which fails if a
    /// file came to be there meanwhile. Whatever interrupts it, there is a whole report or none.
    ///
    /// # Errors
    /// If a number is missing without a reason, a file is there, or the system refuses.
    pub fn write(self, report: &Report) -> Result<PathBuf, FileError> {
        let text = to_text(report)?;
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let partial = folder_of(&self.path).join(format!(".{name}.{}.partial", std::process::id()));
        let io = |path: &Path| {
            let path = path.to_owned();
            move |error| FileError::Io { path, error }
        };
        let written = (|| {
            let mut file = OpenOptions::new().write(true).create_new(true).open(&partial)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()
        })();
        let linked = written.map_err(io(&partial)).and_then(|()| {
            fs::hard_link(&partial, &self.path).map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => FileError::Exists(self.path.clone()),
                _ => FileError::Io { path: self.path.clone(), error },
            })
        });
        // The other name goes either way; if it does not, it still is no report by its name.
        let _ = fs::remove_file(&partial);
        linked.map(|()| self.path)
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// The report as text.
///
/// # Errors
/// If a number is missing without a reason.
pub fn to_text(report: &Report) -> Result<String, FileError> {
    let value = serde_json::to_value(report).map_err(|error| FileError::NotAReport {
        path: PathBuf::new(),
        message: error.to_string(),
    })?;
    nulls_have_reasons(&value, "report")?;
    let mut text = serde_json::to_string_pretty(&value).unwrap_or_default();
    text.push('\n');
    Ok(text)
}

/// Refuses a null that has no `reason` beside it. `serde_json` writes NaN and infinities as null.
///
/// # Errors
/// The path of the first such null.
pub fn nulls_have_reasons(value: &Value, path: &str) -> Result<(), FileError> {
    match value {
        Value::Null => Err(FileError::Null(path.to_owned())),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .try_for_each(|(n, item)| nulls_have_reasons(item, &format!("{path}[{n}]"))),
        Value::Object(fields) => {
            let reason = fields.get("reason").and_then(Value::as_str).unwrap_or_default();
            fields.iter().try_for_each(|(name, field)| {
                if name == "value" && field.is_null() && !reason.is_empty() {
                    return Ok(());
                }
                nulls_have_reasons(field, &format!("{path}.{name}"))
            })
        }
        _ => Ok(()),
    }
}

/// Reads a report of this schema's version.
///
/// # Errors
/// If the file can't be read or is no such report.
pub fn read(path: &Path) -> Result<Report, FileError> {
    let text =
        fs::read_to_string(path).map_err(|error| FileError::Io { path: path.to_owned(), error })?;
    serde_json::from_str(&text).map_err(|error| FileError::NotAReport {
        path: path.to_owned(),
        message: error.to_string(),
    })
}
