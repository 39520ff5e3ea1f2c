//! SHA-256 of what went in and what ran.

use crate::schema::FileHash;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// SHA-256 in hexadecimal.
pub fn of_bytes(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

/// SHA-256 of several runs of bytes, each with its length, so that no two lists have the same.
pub fn of_all<'b>(runs: impl IntoIterator<Item = &'b [u8]>) -> String {
    let mut hash = Sha256::new();
    for run in runs {
        hash.update((run.len() as u64).to_le_bytes());
        hash.update(run);
    }
    hexadecimal(&hash.finalize())
}

/// SHA-256 of ids as little-endian 32-bit integers.
pub fn of_ids(ids: &[u32]) -> String {
    let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
    of_bytes(&bytes)
}

/// A file's content, under the name `shown`.
///
/// # Errors
/// If it can't be read.
pub fn of_file(path: &Path, shown: impl Into<String>) -> io::Result<FileHash> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    let mut bytes = 0;
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        hash.update(&buffer[..read]);
        bytes += read as u64;
    }
    Ok(FileHash { path: shown.into(), sha256: hexadecimal(&hash.finalize()), bytes })
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a String can't fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
