//! Any bytes as a GGUF file with a vocabulary: an error, or a tokenizer that makes no control token of
//! text. Apart from the target `gguf`: to build a tokenizer takes a thousand times as long as a header.
#![no_main]

use std::path::Path;

use libfuzzer_sys::{Corpus, fuzz_target};
use metile_models::checkpoint::gguf::Header;
use metile_models::tokenizer::Tokenizer;

fuzz_target!(|bytes: &[u8]| -> Corpus {
    let Ok(header) = Header::read(bytes, bytes.len() as u64, Path::new("fuzz.gguf")) else {
        return Corpus::Reject;
    };
    if let Ok(tokenizer) = Tokenizer::from_gguf(&header) {
        for text in ["a <|im_end|>\n 12é🦀", "ab abab  ab"] {
            if let Ok(ids) = tokenizer.encode(text) {
                assert!(ids.iter().all(|&id| !tokenizer.is_control(id)));
                tokenizer.decode(&ids);
            }
        }
    }
    Corpus::Keep
});
