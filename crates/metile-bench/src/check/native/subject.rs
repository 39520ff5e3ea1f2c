//! What was computed on: hashes, counts of bytes, documents and sequences.

use super::{Findings, is_sha256};
use crate::fingerprint;
use crate::schema::{Checkpoint, Comparison, FileHash, Geometry, Report, Scope, Sequence};
use std::path::Path;

pub(super) fn verify(report: &Report, path: &Path, findings: &mut Findings) {
    let subject = &report.subject;
    for (n, checkpoint) in subject.checkpoints.iter().enumerate() {
        let place = format!("subject.checkpoints[{n}] ({})", checkpoint.name);
        for file in checkpoint.files.iter().chain([&checkpoint.tokenizer]) {
            hash(file, &place, findings);
        }
        if checkpoint.files.is_empty() {
            findings.wrong("hashes", &place, "no file of the checkpoint is named");
        }
        weights(checkpoint, &place, findings);
        storage(report, checkpoint, &place, findings);
    }
    for (n, sequence) in subject.sequences.iter().enumerate() {
        let place = format!("subject.sequences[{n}] ({})", sequence.name);
        if subject.sequences[..n].iter().any(|other| other.name == sequence.name) {
            findings.wrong("complete", &place, "two sequences of one name");
        }
        let right = Sequence::new("", "", sequence.ids.clone());
        if sequence.sha256 != right.sha256 {
            findings.wrong("hashes", &place, format!("the ids have SHA-256 {}", right.sha256));
        }
        if sequence.distinct != right.distinct {
            let message =
                format!("{} different ids, and there are {}", sequence.distinct, right.distinct);
            findings.wrong("sequence count", &place, message);
        }
        let beyond = subject.checkpoints.iter().map(|c| c.geometry.vocabulary).max();
        if let Some(id) =
            sequence.ids.iter().find(|&&id| beyond.is_some_and(|v| u64::from(id) >= v))
        {
            findings.wrong("model geometry", &place, format!("{id} is no id of the vocabulary"));
        }
    }
    documents(report, path, findings);
}

fn hash(file: &FileHash, place: &str, findings: &mut Findings) {
    if !is_sha256(&file.sha256) {
        findings.wrong(
            "hashes",
            place,
            format!("`{}` of {} is no SHA-256", file.sha256, file.path),
        );
    }
}

/// Values in matrices of one layer, in those of all, and in the head.
fn matrices(g: &Geometry) -> Option<(u64, u64)> {
    let (q, kv) = (g.heads.checked_mul(g.head_dim)?, g.kv_heads.checked_mul(g.head_dim)?);
    let attention = g.hidden.checked_mul(q.checked_mul(2)?.checked_add(kv.checked_mul(2)?)?)?;
    let mlp = g.hidden.checked_mul(g.intermediate)?.checked_mul(3)?;
    let layers = attention.checked_add(mlp)?.checked_mul(g.layers)?;
    Some((layers, g.vocabulary.checked_mul(g.hidden)?))
}

/// The weights' bytes are those of the geometry, vectors (norms, biases) allowed for.
fn weights(checkpoint: &Checkpoint, place: &str, findings: &mut Findings) {
    let g = &checkpoint.geometry;
    let Some((layers, head)) = matrices(g) else {
        findings.wrong("model geometry", place, "its extents are too large to be true");
        return;
    };
    let width = match checkpoint.dtype.as_str() {
        "float32" => 4,
        "bfloat16" | "float16" => 2,
        // Formats with scales: the file's own bytes.
        _ => return,
    };
    let heads = if g.tied { 1 } else { 2 };
    let values = head.checked_mul(heads).and_then(|h| h.checked_add(layers));
    // Norms and biases: a few vectors a layer, in FP32 at most.
    let vectors = g
        .hidden
        .checked_mul(8)
        .and_then(|v| v.checked_add(4 * g.heads.checked_mul(g.head_dim)?))
        .and_then(|v| v.checked_mul(g.layers.checked_add(1)?))
        .and_then(|v| v.checked_mul(4));
    let (Some(least), Some(vectors)) = (values.and_then(|v| v.checked_mul(width)), vectors) else {
        findings.wrong("model geometry", place, "its extents are too large to be true");
        return;
    };
    // A tied head may be stored a second time in the form that the head reads.
    let most = least.saturating_add(vectors).saturating_add(head.saturating_mul(4));
    if checkpoint.weight_bytes < least || checkpoint.weight_bytes > most {
        findings.wrong(
            "byte counts",
            place,
            format!(
                "{} bytes of {} weights; the geometry's matrices alone are {least}",
                checkpoint.weight_bytes, checkpoint.dtype
            ),
        );
    }
}

/// Packed copies: labelled, verified, and of as many bytes as the geometry gives.
fn storage(report: &Report, checkpoint: &Checkpoint, place: &str, findings: &mut Findings) {
    let declaration = &report.declaration;
    if checkpoint.storage.is_empty() {
        return;
    }
    if declaration.comparison == Comparison::SameWeightsAndFormat {
        findings.wrong(
            "packed runs are labelled",
            "declaration.comparison",
            "weights are stored in a second form, and the comparison is not lossless_weight_storage",
        );
    }
    if !declaration.disclosures.iter().any(|d| d.contains("lossless_weight_storage")) {
        findings.wrong(
            "packed runs are labelled",
            "declaration.disclosures",
            "weights are stored in a second form, and lossless_weight_storage is not disclosed",
        );
    }
    for storage in &checkpoint.storage {
        let at = format!("{place}.storage ({})", storage.scope);
        if !(storage.finite && storage.even_count && storage.zero_low_bits && storage.round_trip) {
            findings.wrong(
                "lossless storage",
                &at,
                "a condition of lossless packing does not hold",
            );
        }
        let right = (storage.values.checked_mul(4), storage.values.checked_mul(2));
        if right != (Some(storage.original_bytes), Some(storage.stored_bytes)) {
            findings.wrong(
                "byte counts",
                &at,
                format!(
                    "{} bytes in {}; {} values are four and two bytes each",
                    storage.original_bytes, storage.stored_bytes, storage.values
                ),
            );
        }
        let geometry = matrices(&checkpoint.geometry);
        let expected = match storage.scope.as_str() {
            "decode_projections" => geometry.map(|g| g.0),
            "vocabulary_head" => geometry.map(|g| g.1),
            other => {
                findings.wrong(
                    "byte counts",
                    &at,
                    format!("`{other}` is no scope of packed weights"),
                );
                continue;
            }
        };
        if expected != Some(storage.values) {
            findings.wrong(
                "byte counts",
                &at,
                format!("{} values, and the geometry gives {expected:?}", storage.values),
            );
        }
    }
}

/// Tuning and held-out texts are two, by path, content and tokens; and what lies beside the report is what ran.
fn documents(report: &Report, path: &Path, findings: &mut Findings) {
    let subject = &report.subject;
    let ids = |name: &str| subject.sequences.iter().find(|s| s.name == name).map(|s| &s.ids);
    for (n, document) in subject.documents.iter().enumerate() {
        let place = format!("subject.documents[{n}] ({})", document.file.path);
        hash(&document.file, &place, findings);
        if ids(&document.sequence).is_none() {
            let message = format!("there is no sequence `{}`", document.sequence);
            findings.wrong("complete", &place, message);
        }
        beside(&document.file, path, &place, findings);
        for other in &subject.documents[..n] {
            let apart = |scope| document.scope == scope || other.scope == scope;
            if !(apart(Scope::Tuning) && apart(Scope::HeldOut)) {
                continue;
            }
            let (a, b) = (ids(&document.sequence), ids(&other.sequence));
            let prefix = match (a, b) {
                (Some(a), Some(b)) => {
                    let shared = a.len().min(b.len());
                    a[..shared] == b[..shared]
                }
                _ => false,
            };
            if document.file.path == other.file.path
                || document.file.sha256 == other.file.sha256
                || prefix
            {
                findings.wrong(
                    "two documents",
                    &place,
                    format!(
                        "the same document as {}: held-out evidence is of another path, content and tokens",
                        other.file.path
                    ),
                );
            }
        }
    }
}

/// A document that lies where the report says, seen from a folder above the report, is compared with its hash.
fn beside(file: &FileHash, report: &Path, place: &str, findings: &mut Findings) {
    let named = Path::new(&file.path);
    let inside = named.components().all(|c| matches!(c, std::path::Component::Normal(_)));
    if !inside || file.path.is_empty() {
        return;
    }
    let found = report.ancestors().skip(1).map(|folder| folder.join(named)).find(|p| p.is_file());
    let Some(found) = found else { return };
    match fingerprint::of_file(&found, file.path.clone()) {
        Ok(right) if right != *file => findings.wrong(
            "hashes",
            place,
            format!("the file has SHA-256 {} and {} bytes", right.sha256, right.bytes),
        ),
        Ok(_) => {}
        Err(error) => findings.notes.push(format!("{}: not compared: {error}", file.path)),
    }
}
