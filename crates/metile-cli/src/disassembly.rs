//! Machine code of NVIDIA's GPUs as text, by the CUDA toolkit's programs.

use anyhow::{Context, bail};
use std::io::{ErrorKind, Write};
use std::process::Command;

/// Programs that take a cubin, with their options.
const PROGRAMS: [(&str, &[&str]); 2] = [("cuobjdump", &["--dump-sass"]), ("nvdisasm", &[])];

/// The instructions of `cubin`.
///
/// # Errors
/// If the toolkit is not installed, or refuses the code.
pub fn sass(cubin: &[u8]) -> anyhow::Result<String> {
    let mut file = tempfile::Builder::new().suffix(".cubin").tempfile()?;
    file.write_all(cubin)?;
    for (program, options) in PROGRAMS {
        let output = match Command::new(program).args(options).arg(file.path()).output() {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            output => output.with_context(|| format!("{program} can't be run"))?,
        };
        if !output.status.success() {
            bail!("{program} refuses the code: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    bail!("neither cuobjdump nor nvdisasm is on PATH; they are in NVIDIA's CUDA toolkit")
}
