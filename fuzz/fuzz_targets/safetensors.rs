//! Any bytes as a safetensors file: an error, or a header whose tensors cover the data exactly.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use metile_models::checkpoint::safetensors::Header;

fuzz_target!(|bytes: &[u8]| {
    let length = bytes.len() as u64;
    let Ok(header) = Header::read(bytes, length, Path::new("fuzz.safetensors")) else { return };
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for tensor in header.tensors() {
        let elements: usize = tensor.shape.iter().product();
        assert_eq!((elements * tensor.dtype.bytes()) as u64, tensor.bytes);
        ranges.push((tensor.offset, tensor.offset + tensor.bytes));
    }
    ranges.sort_unstable();
    assert!(ranges.windows(2).all(|pair| pair[0].1 == pair[1].0));
    if let Some(&(_, end)) = ranges.last() {
        assert_eq!(end, length);
    }
});
