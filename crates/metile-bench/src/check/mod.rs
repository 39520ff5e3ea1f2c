//! Reads a report and says what is wrong with it. Charts, tables and pages are made only of what passed.

mod findings;
mod native;

pub(crate) use findings::agrees;
pub use findings::{Finding, Findings, Recomputed};

use crate::json::{self, JsonError, MAX_BYTES};
use crate::published::{self, Published};
use crate::schema::{Report, Status, VERSION};
use serde::Deserialize;
use serde_json::Value;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Why a file can't be checked at all.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// The system refuses.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Not strict JSON.
    #[error("{}: {error}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Where.
        error: JsonError,
    },
    /// JSON of another kind.
    #[error("{}: unknown schema: {found}; this program reads metile-report and the eight published reports of the predecessor", path.display())]
    Schema {
        /// The file.
        path: PathBuf,
        /// What it says it is.
        found: String,
    },
}

/// A report of a schema that is known.
#[derive(Clone, Debug)]
pub enum Document {
    /// One of the predecessor's.
    Published(Box<Published>),
    /// One of this project's.
    Native(Box<Report>),
}

/// A report, and what is to be said of it.
#[derive(Debug)]
pub struct Checked {
    /// The file.
    pub path: PathBuf,
    /// SHA-256 of its content, whatever its layout.
    pub digest: String,
    /// The report; `None` if it lacks what its schema asks for, which is a finding then.
    pub document: Option<Document>,
    /// What was found.
    pub findings: Findings,
}

impl Checked {
    /// Whether nothing is wrong.
    pub fn is_good(&self) -> bool {
        self.findings.wrong.is_empty()
    }

    /// What a good report's figures stand on, in words.
    pub fn basis(&self) -> String {
        if self.is_summary_only() {
            return "summary only: nothing to recompute".to_owned();
        }
        if let Some(Document::Native(report)) = &self.document
            && report.status == Status::Failed
        {
            return "a failure report, without timings".to_owned();
        }
        format!("{} stored figures recomputed from raw samples", self.findings.recomputed.len())
    }

    /// Whether there is nothing to recompute from: no raw samples.
    pub fn is_summary_only(&self) -> bool {
        match &self.document {
            Some(Document::Published(published)) => !matches!(**published, Published::Models(_)),
            _ => false,
        }
    }
}

/// Reads and checks a file.
///
/// # Errors
/// If it can't be read, is not JSON, or of no schema that is known.
pub fn check_file(path: &Path) -> Result<Checked, Unreadable> {
    let io = |error| Unreadable::Io { path: path.to_owned(), error };
    let mut bytes = Vec::new();
    // One byte more than there may be, so that a pipe or a growing file is bounded too.
    File::open(path).map_err(io)?.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
    check_bytes(path, &bytes)
}

/// Checks what is in a file.
///
/// # Errors
/// If it is not JSON, or of no schema that is known.
pub fn check_bytes(path: &Path, bytes: &[u8]) -> Result<Checked, Unreadable> {
    let value =
        json::parse(bytes).map_err(|error| Unreadable::Json { path: path.to_owned(), error })?;
    let mut findings = Findings::default();
    if value.get("schema").and_then(Value::as_str) == Some("metile-report") {
        return native(path, &value);
    }
    let document = match Published::read(&value) {
        Ok(Some(published)) => {
            published::verify(&published, &value, &mut findings);
            Some(Document::Published(Box::new(published)))
        }
        Ok(None) => {
            return Err(Unreadable::Schema { path: path.to_owned(), found: described(&value) });
        }
        Err(error) => {
            findings.wrong("complete", "", error.to_string());
            None
        }
    };
    Ok(Checked { path: path.to_owned(), digest: json::content_digest(&value), document, findings })
}

fn native(path: &Path, value: &Value) -> Result<Checked, Unreadable> {
    let version = value.get("version").and_then(Value::as_u64);
    if version != Some(u64::from(VERSION)) {
        let found = format!(
            "metile-report, version {}",
            version.map_or("none".to_owned(), |v| v.to_string())
        );
        return Err(Unreadable::Schema { path: path.to_owned(), found });
    }
    let mut findings = Findings::default();
    let document = match Report::deserialize(value) {
        Ok(report) => {
            native::verify(&report, value, path, &mut findings);
            Some(Document::Native(Box::new(report)))
        }
        Err(error) => {
            findings.wrong("complete", "", error.to_string());
            None
        }
    };
    Ok(Checked { path: path.to_owned(), digest: json::content_digest(value), document, findings })
}

/// What a value of no known schema says that it is.
fn described(value: &Value) -> String {
    let Value::Object(fields) = value else { return "not an object".to_owned() };
    for name in ["schema", "scope", "schema_version"] {
        if let Some(found) = fields.get(name) {
            let text: String = found.to_string().chars().take(80).collect();
            return format!("`{name}` is {text}");
        }
    }
    "it has no `schema`".to_owned()
}
