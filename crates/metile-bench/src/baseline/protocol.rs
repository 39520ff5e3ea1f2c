//! The lines between a driver and a worker. `docs/src/baselines.md` describes them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The protocol's version; both sides state theirs.
pub const VERSION: u32 = 1;

/// The longest line that either side takes, in bytes.
pub const LONGEST_LINE: usize = 16 << 20;

/// What a worker says of itself before the first request.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// The protocol's version.
    pub protocol: u32,
    /// Which worker it is.
    pub worker: String,
    /// The operations it has.
    pub operations: Vec<String>,
    /// Versions of the interpreter and of the libraries that it has loaded or would load.
    pub versions: BTreeMap<String, String>,
    /// What decides its arithmetic and speed: device, threads, BLAS, TF32, environment variables.
    pub settings: Map<String, Value>,
}

/// A request.
#[derive(Serialize)]
pub(super) struct Request<'a> {
    pub id: u64,
    pub op: &'a str,
    pub arguments: Value,
}

/// An answer: one of the two.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Response {
    pub id: u64,
    #[serde(default)]
    pub ok: Option<Value>,
    #[serde(default)]
    pub error: Option<WorkerError>,
}

/// What a worker could not do.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WorkerError {
    pub kind: String,
    pub message: String,
}
