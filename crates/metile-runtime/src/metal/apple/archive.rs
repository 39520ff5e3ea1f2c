//! Pipelines kept on disk, as Metal's binary archives: one a kernel.
//!
//! An archive that Metal can't read, or that is of another GPU or system, is made anew. Nothing that goes wrong here
//! is an error.

use super::gpu::Gpu;
use objc2::AllocAnyThread;
use objc2::rc::Retained;
use objc2::runtime::ProtocolObject;
use objc2_foundation::{NSArray, NSString, NSURL};
use objc2_metal::{
    MTLBinaryArchive, MTLBinaryArchiveDescriptor, MTLComputePipelineDescriptor, MTLDevice,
};
use sha2::{Digest, Sha256};
use std::path::PathBuf;

/// A kernel's archive.
#[derive(Debug)]
pub(super) struct Archive {
    path: PathBuf,
    archive: Retained<ProtocolObject<dyn MTLBinaryArchive>>,
    found: bool,
}

impl Archive {
    /// The archive of a source on this GPU and system: found on disk, or empty.
    pub fn of(gpu: &Gpu, source: &str) -> Option<Archive> {
        let mut hash = Sha256::new();
        for part in [source, &gpu.model, &gpu.system, env!("CARGO_PKG_VERSION")] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let name: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        let path = folder()?.join(format!("{name}.metalarchive"));
        let open = |on_disk: bool| {
            let descriptor = MTLBinaryArchiveDescriptor::new();
            if on_disk {
                descriptor.setUrl(Some(&url(&path)));
            }
            gpu.device().newBinaryArchiveWithDescriptor_error(&descriptor)
        };
        if path.exists() {
            match open(true) {
                Ok(archive) => return Some(Archive { path, archive, found: true }),
                Err(error) => tracing::warn!(
                    target: "metile",
                    "{} can't be read ({}); it is made anew",
                    path.display(),
                    error.localizedDescription()
                ),
            }
        }
        match open(false) {
            Ok(archive) => Some(Archive { path, archive, found: false }),
            Err(error) => {
                tracing::warn!(target: "metile", "no binary archive: {}", error.localizedDescription());
                None
            }
        }
    }

    /// Whether it was on disk.
    pub fn found(&self) -> bool {
        self.found
    }

    /// Has the pipeline looked up here first.
    pub fn offer(&self, descriptor: &MTLComputePipelineDescriptor) {
        descriptor.setBinaryArchives(Some(&NSArray::from_slice(&[&*self.archive])));
    }

    /// Keeps the pipeline, if it is new.
    pub fn keep(&self, descriptor: &MTLComputePipelineDescriptor) {
        if self.found {
            return;
        }
        let draft = self.path.with_extension(format!("{}.new", std::process::id()));
        let kept = self
            .archive
            .addComputePipelineFunctionsWithDescriptor_error(descriptor)
            .and_then(|()| self.archive.serializeToURL_error(&url(&draft)))
            .map_err(|error| error.localizedDescription().to_string())
            .and_then(|()| std::fs::rename(&draft, &self.path).map_err(|e| e.to_string()));
        if let Err(reason) = kept {
            // What is left of a failed write is of no use to anyone.
            let _ = std::fs::remove_file(&draft);
            tracing::warn!(target: "metile", "{} can't be written: {reason}", self.path.display());
        }
    }
}

fn folder() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let root = variable("METILE_CACHE")
        .or_else(|| Some(variable("XDG_CACHE_HOME")?.join("metile")))
        .or_else(|| Some(variable("HOME")?.join(".cache/metile")))?;
    let folder = root.join("metal");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder)
}

fn url(path: &std::path::Path) -> Retained<NSURL> {
    NSURL::initFileURLWithPath(NSURL::alloc(), &NSString::from_str(&path.to_string_lossy()))
}
