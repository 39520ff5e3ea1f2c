//! Starts the fake worker.

#![allow(dead_code, reason = "each test file uses a part")]

use metile_bench::baseline::{BaselineError, Limits, LoadRequest, ModelWorker, Variant, Worker};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

pub fn spawn_with(mode: &str, limits: Limits) -> Result<Worker, BaselineError> {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new("python3");
    command
        .args(["-B", "-u"])
        .arg(crate_folder.join("tests/worker/fake_worker.py"))
        .arg(mode)
        .env("PYTHONPATH", crate_folder.join("../../python"));
    Worker::spawn("fake", command, limits)
}

pub fn limits() -> Limits {
    Limits {
        start: Duration::from_secs(60),
        operation: Duration::from_secs(60),
        tensor_bytes: 1 << 20,
    }
}

pub fn spawn(mode: &str) -> Worker {
    spawn_with(mode, limits()).unwrap()
}

pub fn request() -> LoadRequest {
    LoadRequest { checkpoint: "a/toy".into(), dtype: None, capacity: 64, variant: Variant::Eager }
}

pub fn model(mode: &str) -> ModelWorker {
    ModelWorker::load(spawn(mode), &request()).unwrap()
}
