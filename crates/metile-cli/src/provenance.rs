//! Where figures come from: what a report says besides them.

use serde_json::{Value, json};
use std::process::Command;

/// The commit of the repository that this is run in, and whether files differ from it; elsewhere what
/// `METILE_COMMIT` says, or null.
pub fn commit() -> Value {
    let git = |arguments: &[&str]| {
        let done = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8_lossy(&done.stdout).trim().to_owned();
        done.status.success().then_some(text)
    };
    let Some(id) = git(&["rev-parse", "HEAD"]) else {
        let told = std::env::var("METILE_COMMIT").ok();
        return told.map_or(Value::Null, |id| json!({"id": id, "clean": null}));
    };
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]);
    json!({"id": id, "clean": changed.map(|files| files.is_empty())})
}

/// What the system says of the processor, and of what else was running; null where it does not say.
pub fn machine() -> Value {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let model = read("/proc/cpuinfo").and_then(|text| {
        let line = text.lines().find(|l| l.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    let load = read("/proc/loadavg").map(|text| text.trim().to_owned());
    json!({"processor": model, "load_average": load, "system": std::env::consts::OS})
}
