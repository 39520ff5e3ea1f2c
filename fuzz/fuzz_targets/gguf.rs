//! Any bytes as a GGUF file: an error, or a header whose tensors lie in the file, apart from each other.
//! The configuration takes whatever the header gives.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use metile_models::checkpoint::gguf::Header;
use metile_models::config::ModelConfig;

fuzz_target!(|bytes: &[u8]| {
    let length = bytes.len() as u64;
    let Ok(header) = Header::read(bytes, length, Path::new("fuzz.gguf")) else { return };
    let mut ranges: Vec<(u64, u64)> =
        header.tensors().iter().map(|t| (t.offset, t.offset + t.bytes)).collect();
    ranges.sort_unstable();
    assert!(
        ranges
            .iter()
            .all(|&(start, end)| header.data_offset() <= start && start < end && end <= length)
    );
    assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0));
    if let Ok((config, _)) = ModelConfig::from_gguf(&header) {
        assert!(config.head_dim.is_multiple_of(2) && config.heads.is_multiple_of(config.kv_heads));
        assert!(config.end_ids.iter().all(|&id| (id as usize) < config.vocabulary));
    }
});
