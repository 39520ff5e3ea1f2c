//! `metile kernel-worker`: kernels for a study that runs in another process.

use anyhow::Context;
use std::io;
use std::path::PathBuf;

/// Answers requests of a study on stdin until they end.
pub fn run() -> anyhow::Result<()> {
    let folder = std::env::var_os("METILE_EXCHANGE")
        .map(PathBuf::from)
        .context("METILE_EXCHANGE names no folder; a study starts this command, not a person")?;
    let limit = match std::env::var("METILE_TENSOR_BYTES") {
        Ok(text) => text.parse().context("METILE_TENSOR_BYTES is no number of bytes")?,
        Err(_) => 8 << 30,
    };
    let (input, output) = (io::stdin().lock(), io::stdout().lock());
    Ok(metile_bench::kernel_studies::worker::serve(input, output, &folder, limit)?)
}
