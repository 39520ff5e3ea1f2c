//! The pinned documents are what they were: reports name them by hash.

use metile_bench::fingerprint;
use metile_models::checkpoint::Checkpoint;
use metile_models::tokenizer::Tokenizer;
use std::path::{Path, PathBuf};

const DOCUMENTS: [(&str, &str, usize); 2] = [
    (
        "language-and-compiler.txt",
        "82603f24eb17ac972fde5e6f88dca8aa83d00c26c9d8f14c50d7af7f14cd9665",
        4312,
    ),
    (
        "cpu-decoder-and-measuring.txt",
        "9a28a8ceacb148b00f20c7da6ed1cc1c228ec314bedfab3443e8b13d1835df6a",
        5226,
    ),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reports/documents")
}

#[test]
fn documents_are_pinned_and_differ() {
    for (name, sha256, _) in DOCUMENTS {
        let file = fingerprint::of_file(&folder().join(name), name).unwrap();
        assert_eq!(file.sha256, sha256, "{name} is pinned: reports name it by this hash");
    }
    assert_ne!(DOCUMENTS[0].1, DOCUMENTS[1].1);
    let agreed = fingerprint::of_file(&folder().join("smollm2-agreed.json"), "").unwrap();
    assert_eq!(agreed.sha256, "3ef5a8989c6933c3c3070f84947eb823694fdfe9b9b68a9a727eef77354ab9f5");
}

/// Where `make demo` puts the model, or what `METILE_SMOLLM2` names.
fn smollm2() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("METILE_SMOLLM2") {
        return Some(PathBuf::from(path));
    }
    let cache = Path::new(&std::env::var_os("HOME")?).join(".cache/metile/smollm2");
    let path = cache.join("SmolLM2-135M-Instruct.Q4_1.gguf");
    path.is_file().then_some(path)
}

#[test]
fn documents_have_tokens_enough_for_both_gates() {
    let Some(path) = smollm2() else {
        eprintln!("not run: SmolLM2 is not here; `make demo` fetches it");
        return;
    };
    let tokenizer = Tokenizer::from_checkpoint(&Checkpoint::open(&path).unwrap()).unwrap();
    let ids = DOCUMENTS.map(|(name, _, tokens)| {
        let text = std::fs::read_to_string(folder().join(name)).unwrap();
        let ids = tokenizer.encode(&text).unwrap();
        assert_eq!(ids.len(), tokens, "{name}");
        assert!(ids.len() >= 4200);
        ids
    });
    // 2,048 + 8 of the first; of the second 4,096 and the 1,023 that are fed after them.
    assert!(ids[1].len() >= 4096 + 1023);
    let shared = ids[0].iter().zip(&ids[1]).take_while(|(a, b)| a == b).count();
    assert!(shared < 32, "{shared} ids in common");
}
