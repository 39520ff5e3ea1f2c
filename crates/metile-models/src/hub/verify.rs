//! Whether a file is what its hash says.

use std::fmt::Write;
use std::io::Read;
use std::path::Path;

use sha1::Sha1;
use sha2::{Digest, Sha256};

use crate::Error;

/// What is wrong with the content at `path` of `bytes` bytes, whose ETag the server gave: 64 hex digits
/// are its SHA-256, 40 the SHA-1 of its Git blob. Others say nothing of the content.
pub(super) fn mismatch(path: &Path, bytes: u64, etag: &str) -> Result<Option<String>, Error> {
    let hex = etag.chars().all(|c| c.is_ascii_hexdigit());
    let (name, found) = match etag.len() {
        64 if hex => ("SHA-256", digest(path, Sha256::new())?),
        40 if hex => {
            let start = Sha1::new().chain_update(format!("blob {bytes}\0"));
            ("Git's SHA-1", digest(path, start)?)
        }
        _ => return Ok(None),
    };
    let right = found.eq_ignore_ascii_case(etag);
    Ok((!right).then(|| format!("{name} of what came is {found}, not {etag}")))
}

fn digest<D: Digest>(path: &Path, mut digest: D) -> Result<String, Error> {
    let io = |action| move |source| Error::Io { path: path.to_path_buf(), action, source };
    let mut file = std::fs::File::open(path).map_err(io("open"))?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = file.read(&mut buffer).map_err(io("read"))?;
        if read == 0 {
            break;
        }
        digest.update(&buffer[..read]);
    }
    let mut hex = String::new();
    for byte in digest.finalize().as_slice() {
        let _ = write!(hex, "{byte:02x}");
    }
    Ok(hex)
}
