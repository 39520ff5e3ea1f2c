//! What goes wrong with a baseline.

use super::tensor::TensorError;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// What a worker's stderr held last, and how the process ended.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Ended {
    /// `exit status: 1`, `signal: 9 (SIGKILL)`, or nothing if it still ran.
    pub status: Option<String>,
    /// The last lines of its stderr, oldest first.
    pub stderr: Vec<String>,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(status) = &self.status {
            write!(f, " ({status})")?;
        }
        if self.stderr.is_empty() {
            return write!(f, "; its stderr is empty");
        }
        write!(f, "; the last lines of its stderr:")?;
        self.stderr.iter().try_for_each(|line| write!(f, "\n    {line}"))
    }
}

/// An error of a baseline or of its worker.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BaselineError {
    /// No baseline has this name.
    #[error("no baseline is called `{name}`; there are {known}")]
    UnknownBaseline {
        /// What was asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A baseline does not run on this kind of device.
    #[error("{baseline} has no worker on {device}; it has one on {available}")]
    NoSuchDevice {
        /// The baseline.
        baseline: &'static str,
        /// What was asked for.
        device: String,
        /// The devices it has.
        available: String,
    },
    /// A baseline is not installed.
    #[error(
        "the baseline {baseline} is not installed for {device}: {why}; `{command}` installs it"
    )]
    NotInstalled {
        /// The baseline.
        baseline: &'static str,
        /// For which device.
        device: &'static str,
        /// What was looked for.
        why: String,
        /// What would install it.
        command: String,
    },
    /// A step of an installation failed.
    #[error("installing {baseline}: {step}: {detail}")]
    Install {
        /// The baseline.
        baseline: &'static str,
        /// What was being done.
        step: String,
        /// What came of it.
        detail: String,
    },
    /// No folder for caches is known.
    #[error("no cache folder: set XDG_CACHE_HOME or HOME to an absolute path")]
    NoCacheFolder,
    /// A file of our own could not be written or read.
    #[error("{doing} {}: {source}", path.display())]
    File {
        /// What was being done.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The worker's process could not be started.
    #[error("starting {baseline}'s worker with {program}: {source}")]
    Start {
        /// The baseline.
        baseline: String,
        /// What was run.
        program: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// The worker ended while something was asked of it.
    #[error("{baseline}'s worker ended during `{op}`{ended}")]
    Died {
        /// The baseline.
        baseline: String,
        /// What it was doing.
        op: String,
        /// How, and with what last words.
        ended: Ended,
    },
    /// The worker did not answer in time, and was ended.
    #[error("{baseline}'s worker did not answer `{op}` within {limit:?} and was ended{ended}")]
    Timeout {
        /// The baseline.
        baseline: String,
        /// What it was doing.
        op: String,
        /// How long it had.
        limit: Duration,
        /// With what last words.
        ended: Ended,
    },
    /// The worker wrote a line that is no answer, and was ended.
    #[error("{baseline}'s worker answered `{op}` with a line that {why}: {line}{ended}")]
    Malformed {
        /// The baseline.
        baseline: String,
        /// What it was doing.
        op: String,
        /// What is wrong with the line.
        why: String,
        /// The line's start.
        line: String,
        /// With what last words.
        ended: Ended,
    },
    /// The worker was ended after an earlier error and answers nothing more.
    #[error("{baseline}'s worker has ended, after: {after}")]
    Unusable {
        /// The baseline.
        baseline: String,
        /// The earlier error.
        after: String,
    },
    /// The worker has no such operation.
    #[error("{baseline}'s worker has no operation `{op}`: {why}")]
    Unsupported {
        /// The baseline.
        baseline: String,
        /// What was asked for.
        op: String,
        /// Why not.
        why: String,
    },
    /// The worker reports an error of its own; it can still be used.
    #[error("{baseline}'s worker refuses `{op}`: {kind}: {message}")]
    Refused {
        /// The baseline.
        baseline: String,
        /// What was asked for.
        op: String,
        /// The class of the error.
        kind: String,
        /// What it says.
        message: String,
    },
    /// A tensor did not arrive as it was announced.
    #[error("{baseline}'s worker, `{op}`: {source}")]
    Tensor {
        /// The baseline.
        baseline: String,
        /// What was asked for.
        op: String,
        /// What is wrong with it.
        source: TensorError,
    },
    /// An answer that contradicts what was asked or what was loaded.
    #[error("{baseline}'s worker answered `{op}` with {what}")]
    Inconsistent {
        /// The baseline.
        baseline: String,
        /// What was asked for.
        op: String,
        /// What is wrong.
        what: String,
    },
}
