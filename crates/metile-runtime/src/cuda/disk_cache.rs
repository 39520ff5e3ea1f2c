//! Compiled kernels on disk.
//!
//! An entry is found by the digest of everything that its code depends on, and holds that digest and one of its contents:
//! an entry that is damaged, or another's, counts as missing and is written again. Nothing that goes wrong here is an error.

use sha2::{Digest, Sha256};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

const MAGIC: &[u8; 16] = b"metile cubin 1\n\0";
/// Entries larger than this are not kept.
const MOST: u64 = 64 << 20;

/// What an entry is found by.
pub(super) type Key = [u8; 32];

/// The digest of parts, each told from the next.
pub(super) fn digest(parts: &[&[u8]]) -> Key {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// A folder of entries.
#[derive(Clone, Debug)]
pub(super) struct DiskCache {
    folder: PathBuf,
}

impl DiskCache {
    /// The cache of this user: in `METILE_CACHE`, else in the user's cache folder. `None` if there is no such folder.
    pub fn of_user() -> Option<DiskCache> {
        let variable = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let root = variable("METILE_CACHE")
            .or_else(|| Some(variable("XDG_CACHE_HOME")?.join("metile")))
            .or_else(|| Some(variable("HOME")?.join(".cache/metile")))?;
        Some(DiskCache::at(&root.join("cuda")))
    }

    /// The cache in `folder`.
    pub fn at(folder: &Path) -> DiskCache {
        DiskCache { folder: folder.to_owned() }
    }

    fn file(&self, key: &Key) -> PathBuf {
        let name: String = key.iter().map(|b| format!("{b:02x}")).collect();
        self.folder.join(format!("{name}.cubin"))
    }

    /// The contents of an entry, if there is a sound one.
    pub fn get(&self, key: &Key) -> Option<Vec<u8>> {
        let path = self.file(key);
        let file = std::fs::File::open(&path).ok()?;
        let mut bytes = Vec::new();
        file.take(MOST + 1).read_to_end(&mut bytes).ok()?;
        let sound = || {
            let rest = bytes.strip_prefix(MAGIC)?.strip_prefix(key)?;
            let (sum, contents) = rest.split_at_checked(32)?;
            (digest(&[contents]) == *sum).then_some(contents)
        };
        let found = sound().map(<[u8]>::to_vec);
        if found.is_none() {
            tracing::warn!(target: "metile", "{} is damaged; it is made anew", path.display());
        }
        found
    }

    /// Keeps `contents`. Processes that do so at once end with one of theirs, whole.
    pub fn put(&self, key: &Key, contents: &[u8]) {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        if contents.len() as u64 > MOST {
            return;
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = self.file(key);
        let new = self.folder.join(format!("{}-{number}.new", std::process::id()));
        let written = std::fs::create_dir_all(&self.folder).and_then(|()| {
            let mut file = std::fs::File::create(&new)?;
            for part in [&MAGIC[..], key, &digest(&[contents]), contents] {
                file.write_all(part)?;
            }
            file.sync_all()?;
            std::fs::rename(&new, &path)
        });
        if let Err(error) = written {
            // What is left of a failed write is of no use to anyone.
            let _ = std::fs::remove_file(&new);
            tracing::warn!(target: "metile", "{} can't be written: {error}", path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(name: &str) -> DiskCache {
        let folder = std::env::temp_dir().join(format!("metile-{name}-{}", std::process::id()));
        DiskCache::at(&folder)
    }

    #[test]
    fn only_sound_entries_are_found() {
        let cache = cache("disk-cache-sound");
        let (key, other) = (digest(&[b"a", b"bc"]), digest(&[b"ab", b"c"]));
        assert_ne!(key, other);
        assert_eq!(cache.get(&key), None);
        cache.put(&key, b"code");
        assert_eq!(cache.get(&key).as_deref(), Some(&b"code"[..]));
        let whole = std::fs::read(cache.file(&key)).unwrap();
        // Every byte counts, and so does the end.
        for n in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[n] ^= 1;
            std::fs::write(cache.file(&key), damaged).unwrap();
            assert_eq!(cache.get(&key), None, "byte {n}");
            std::fs::write(cache.file(&key), &whole[..n]).unwrap();
            assert_eq!(cache.get(&key), None, "{n} bytes");
        }
        // Another's entry under this name.
        cache.put(&other, b"code");
        std::fs::rename(cache.file(&other), cache.file(&key)).unwrap();
        assert_eq!(cache.get(&key), None);
        cache.put(&key, b"new code");
        assert_eq!(cache.get(&key).as_deref(), Some(&b"new code"[..]));
        std::fs::remove_dir_all(&cache.folder).unwrap();
    }

    #[test]
    fn writers_at_once_leave_a_whole_entry() {
        let cache = cache("disk-cache-writers");
        let key = digest(&[b"kernel"]);
        std::thread::scope(|scope| {
            for n in 0..8u8 {
                let cache = &cache;
                scope.spawn(move || {
                    for _ in 0..20 {
                        cache.put(&key, &vec![n; 10_000]);
                        let found = cache.get(&key).expect("an entry");
                        assert!(found.len() == 10_000 && found.iter().all(|b| *b == found[0]));
                    }
                });
            }
        });
        let left: Vec<_> = std::fs::read_dir(&cache.folder).unwrap().collect();
        assert_eq!(left.len(), 1);
        std::fs::remove_dir_all(&cache.folder).unwrap();
    }

    #[test]
    fn a_folder_that_can_not_be_written_is_no_error() {
        let cache = DiskCache::at(Path::new("/proc/metile"));
        cache.put(&digest(&[b"kernel"]), b"code");
        assert_eq!(cache.get(&digest(&[b"kernel"])), None);
    }
}
