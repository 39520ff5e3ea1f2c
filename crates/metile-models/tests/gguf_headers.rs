//! GGUF files as they should be, and as nobody should write them.

mod toy;

use std::io::Cursor;
use std::path::Path;
use std::time::{Duration, Instant};

use metile_ir::packed::decode_block;
use metile_ir::{DType, Format, PackedFormat};
use metile_models::Error;
use metile_models::checkpoint::gguf::{Array, Header, Value};
use metile_models::checkpoint::{Checkpoint, LayerRole, Role};
use toy::{F32, Gguf, gguf_model};

fn read(bytes: &[u8]) -> Result<Header, Error> {
    let started = Instant::now();
    let header = Header::read(Cursor::new(bytes), bytes.len() as u64, Path::new("test.gguf"));
    assert!(started.elapsed() < Duration::from_millis(500), "{:?}", started.elapsed());
    header
}

/// Asserts that the file is refused with an error that names field and offset.
fn refused(bytes: &[u8], field: &str, offset: u64, problem: &str) {
    match read(bytes) {
        Err(Error::Gguf { field: f, offset: o, problem: p, .. }) => {
            assert!(f.contains(field) && o == offset && p.contains(problem), "{f} at {o}: {p}");
        }
        other => panic!("{other:?}"),
    }
}

/// A file of magic, version and counts, then `rest`.
fn file(tensors: u64, pairs: u64, rest: &[u8]) -> Vec<u8> {
    let mut bytes = b"GGUF\x03\0\0\0".to_vec();
    bytes.extend(tensors.to_le_bytes());
    bytes.extend(pairs.to_le_bytes());
    bytes.extend(rest);
    bytes
}

/// The key `k`, then a type.
fn key(kind: u32) -> Vec<u8> {
    let mut bytes = 1u64.to_le_bytes().to_vec();
    bytes.push(b'k');
    bytes.extend(kind.to_le_bytes());
    bytes
}

#[test]
fn every_type_of_value_is_read_in_both_versions() {
    for version in [2, 3] {
        let mut gguf = Gguf::new()
            .raw("u8", 0, vec![200])
            .raw("i8", 1, vec![200])
            .raw("u16", 2, 60_000u16.to_le_bytes().to_vec())
            .raw("i16", 3, (-3i16).to_le_bytes().to_vec())
            .raw("u32", 4, u32::MAX.to_le_bytes().to_vec())
            .raw("i32", 5, i32::MIN.to_le_bytes().to_vec())
            .raw("f32", 6, 1.5f32.to_le_bytes().to_vec())
            .truth("bool", true)
            .text("text", "é")
            .raw("u64", 10, u64::MAX.to_le_bytes().to_vec())
            .raw("i64", 11, i64::MIN.to_le_bytes().to_vec())
            .raw("f64", 12, 2.5f64.to_le_bytes().to_vec())
            .texts("texts", &["", "a", "bc"])
            .array("bools", 7, 2, vec![0, 1])
            .array("bytes", 0, 3, vec![1, 2, 3])
            .f32s("floats", &[1.0, -2.0]);
        let mut nested = 0u32.to_le_bytes().to_vec();
        nested.extend(1u64.to_le_bytes());
        nested.push(9);
        gguf = gguf.array("nested", 9, 1, nested);
        gguf.version = version;
        let header = read(&gguf.build()).unwrap();
        assert_eq!(header.version(), version);
        let get = |key: &str| header.get(key).unwrap().clone();
        assert_eq!(get("u8"), Value::U8(200));
        assert_eq!(get("i8"), Value::I8(-56));
        assert_eq!(get("u16"), Value::U16(60_000));
        assert_eq!(get("i16"), Value::I16(-3));
        assert_eq!(get("u32"), Value::U32(u32::MAX));
        assert_eq!(get("i32"), Value::I32(i32::MIN));
        assert_eq!(get("f32"), Value::F32(1.5));
        assert_eq!(get("bool"), Value::Bool(true));
        assert_eq!(get("text"), Value::String("é".to_owned()));
        assert_eq!(get("u64"), Value::U64(u64::MAX));
        assert_eq!(get("i64"), Value::I64(i64::MIN));
        assert_eq!(get("f64"), Value::F64(2.5));
        assert_eq!(get("bools"), Value::Array(Array::Bool(vec![false, true])));
        assert_eq!(get("bytes"), Value::Array(Array::U8(vec![1, 2, 3])));
        assert_eq!(get("floats"), Value::Array(Array::F32(vec![1.0, -2.0])));
        assert_eq!(get("nested"), Value::Array(Array::Nested(vec![Array::U8(vec![9])])));
        let Value::Array(Array::String(texts)) = get("texts") else { panic!() };
        assert_eq!(texts.iter().collect::<Vec<_>>(), ["", "a", "bc"]);
    }
}

#[test]
fn an_array_of_2_to_the_63_elements_is_refused_at_once() {
    for kind in 0..=12u32 {
        let mut rest = key(9);
        rest.extend(kind.to_le_bytes());
        rest.extend((1u64 << 63).to_le_bytes());
        let offset = 24 + 8 + 1 + 4 + 4;
        refused(&file(0, 1, &rest), "length of `k`", offset, "do not fit");
    }
}

#[test]
fn an_array_of_bytes_is_not_read_as_one_of_floats() {
    // As many elements as bytes: right for u8, four times too long for f32.
    let array = |kind: u32| {
        let mut rest = key(9);
        rest.extend(kind.to_le_bytes());
        rest.extend(8u64.to_le_bytes());
        rest.extend([0; 8]);
        file(0, 1, &rest)
    };
    assert!(read(&array(0)).is_ok());
    refused(&array(6), "length of `k`", 41, "8 elements of at least 4 bytes");
}

#[test]
fn lengths_and_counts_beyond_the_file_are_refused() {
    refused(&file(1 << 63, 0, &[]), "tensor count", 8, "at most 0");
    refused(&file(0, u64::MAX, &[]), "metadata count", 16, "at most 0");
    let mut rest = (1u64 << 63).to_le_bytes().to_vec();
    rest.extend([0; 20]);
    refused(&file(0, 1, &rest), "key of metadata pair 0", 32, "takes 9223372036854775808 bytes");
    let mut rest = key(8);
    rest.extend((1u64 << 63).to_le_bytes());
    refused(&file(0, 1, &rest), "value of `k`", 45, "takes 9223372036854775808 bytes");
}

#[test]
fn keys_and_names_are_there_and_once() {
    let mut empty = 0u64.to_le_bytes().to_vec();
    empty.extend([0; 16]);
    refused(&file(0, 1, &empty), "key of metadata pair 0", 24, "empty");
    let mut twice = [key(0), vec![1], key(0), vec![2]].concat();
    refused(&file(0, 2, &twice), "key of metadata pair 1", 38, "`k` was there before");
    twice = Gguf::new().zeros("t", &[1]).tensor("t", &[1], F32, vec![0; 4]).build();
    refused(&twice, "name of tensor 1", 24 + 33, "`t` was there before");
    let bad = [1u64.to_le_bytes().to_vec(), vec![0xFF], vec![0; 8]].concat();
    refused(&file(0, 1, &bad), "key of metadata pair 0", 24, "not UTF-8");
}

#[test]
fn arrays_in_arrays_end_before_the_stack_does() {
    let mut rest = key(9);
    for _ in 0..100_000 {
        rest.extend(9u32.to_le_bytes());
        rest.extend(1u64.to_le_bytes());
    }
    refused(&file(0, 1, &rest), "`k`", 24 + 13 + 3 * 12 + 4, "nested deeper than 4");
}

#[test]
fn magic_version_types_and_truths_are_checked() {
    refused(b"GGML\x03\0\0\0", "magic", 0, "not `GGUF`");
    refused(b"GG", "magic", 0, "takes 4 bytes, but 2");
    for (version, problem) in [(1u32, "it is 1"), (4, "it is 4"), (0x0300_0000, "big-endian")] {
        let mut bytes = file(0, 0, &[]);
        bytes[4..8].copy_from_slice(&version.to_le_bytes());
        refused(&bytes, "version", 4, problem);
    }
    refused(&file(0, 1, &[key(13), vec![0]].concat()), "`k`", 33, "there are types 0 to 12");
    refused(&file(0, 1, &[key(7), vec![2]].concat()), "`k`", 37, "0 or 1, not 2");
}

/// A file with one tensor info.
fn one_tensor(dimensions: &[u64], kind: u32, offset: u64, data: usize) -> Vec<u8> {
    let mut rest = 1u64.to_le_bytes().to_vec();
    rest.push(b't');
    rest.extend((dimensions.len() as u32).to_le_bytes());
    rest.extend(dimensions.iter().flat_map(|n| n.to_le_bytes()));
    rest.extend(kind.to_le_bytes());
    rest.extend(offset.to_le_bytes());
    let mut bytes = file(1, 0, &rest);
    bytes.resize(bytes.len().next_multiple_of(32) + data, 0);
    bytes
}

#[test]
fn a_tensors_dimensions_type_and_place_are_checked() {
    assert!(read(&one_tensor(&[4, 2], F32, 0, 32)).is_ok());
    refused(&one_tensor(&[0], F32, 0, 0), "dimension 0 of `t`", 37, "it is 0");
    refused(&one_tensor(&[4, 0], F32, 0, 0), "dimension 1 of `t`", 45, "it is 0");
    let large = (1 << 42) + 1;
    refused(&one_tensor(&[large, large], F32, 0, 64), "dimension 1 of `t`", 45, "2^63 elements");
    refused(&one_tensor(&[large, 1 << 19], F32, 0, 64), "offset of `t`", 57, "do not lie in");
    refused(&one_tensor(&[1 << 62], F32, 0, 64), "dimensions of `t`", 37, "2^64 bytes");
    refused(&one_tensor(&[], F32, 0, 0), "dimension count of `t`", 33, "1 to 4");
    refused(&one_tensor(&[1; 5], F32, 0, 4), "dimension count of `t`", 33, "1 to 4");
    refused(&one_tensor(&[4], F32, 0, 15), "offset of `t`", 49, "do not lie in the 15");
    refused(&one_tensor(&[4], F32, 32, 32), "offset of `t`", 49, "do not lie in");
    refused(&one_tensor(&[4], F32, u64::MAX - 31, 32), "offset of `t`", 49, "do not lie in");
    refused(&one_tensor(&[4], F32, 4, 32), "offset of `t`", 49, "multiple of the alignment 32");
    refused(&one_tensor(&[4], 10, 0, 32), "type of `t`", 45, "Q2_K is not supported");
    refused(&one_tensor(&[4], 99, 0, 32), "type of `t`", 45, "no tensor type 99");
}

#[test]
fn tensors_that_overlap_are_refused() {
    let mut bytes = Gguf::new().zeros("a", &[16]).zeros("b", &[16]).build();
    let at = bytes.windows(8).rposition(|w| w == 64u64.to_le_bytes()).unwrap();
    bytes[at..at + 8].copy_from_slice(&32u64.to_le_bytes());
    refused(&bytes, "offset of `b`", at as u64, "overlaps that of `a`");
}

/// A model's file with little metadata.
fn small_vocabulary(family: &str) -> Gguf {
    let model = gguf_model(family, 16).texts("tokenizer.ggml.tokens", &["a", "b"]);
    model.i32s("tokenizer.ggml.token_type", &[1, 1])
}

#[test]
fn every_cut_of_a_file_is_an_error() {
    let whole = small_vocabulary("qwen2").align(64).build();
    let header = read(&whole).unwrap();
    let data = header.data_offset() as usize;
    for length in (0..data + 1).chain([whole.len() - 1]) {
        assert!(read(&whole[..length]).is_err(), "{length} of {} bytes", whole.len());
    }
}

#[test]
fn one_changed_byte_is_an_error_or_a_header_within_the_file() {
    let whole = small_vocabulary("llama").build();
    let data = read(&whole).unwrap().data_offset() as usize;
    for at in 0..data {
        for value in [0, 1, 0x7F, 0x80, 0xFF] {
            let mut bytes = whole.clone();
            bytes[at] = value;
            if let Ok(header) = read(&bytes) {
                for tensor in header.tensors() {
                    assert!(tensor.offset + tensor.bytes <= bytes.len() as u64);
                }
            }
        }
    }
}

#[test]
fn declared_alignments_are_kept() {
    for alignment in [8, 32, 64, 4096, 24] {
        let folder = tempfile::tempdir().unwrap();
        let gguf = gguf_model("llama", 16).align(alignment).without("output_norm.weight").tensor(
            "output_norm.weight",
            &[toy::WIDTH],
            F32,
            vec![0x5A; 256],
        );
        let checkpoint = Checkpoint::open(&gguf.write(folder.path())).unwrap();
        let norm = checkpoint.tensor(Role::OutputNorm).unwrap();
        assert_eq!(checkpoint.read(norm).unwrap(), [vec![0x5A; 256]], "alignment {alignment}");
    }
    for alignment in [0u32, 1, 12] {
        let gguf = Gguf::new().u32("general.alignment", alignment);
        refused(&gguf.build(), "general.alignment", 53, "positive multiple of 8");
    }
    refused(
        &Gguf::new().text("general.alignment", "32").build(),
        "general.alignment",
        53,
        "a text",
    );
}

#[test]
fn types_of_blocks_may_be_mixed_in_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut gguf = gguf_model("llama", 16);
    for (name, kind, block, bytes, dimensions) in [
        ("ffn_gate.weight", 2, 32, 18, [64, 96]),
        ("ffn_up.weight", 3, 32, 20, [64, 96]),
        ("ffn_down.weight", 6, 32, 22, [96, 64]),
        ("attn_q.weight", 7, 32, 24, [64, 64]),
        ("attn_k.weight", 8, 32, 34, [64, 32]),
        ("attn_v.weight", 1, 1, 2, [64, 32]),
        ("attn_output.weight", 30, 1, 2, [64, 64]),
    ] {
        let name = format!("blk.0.{name}");
        let size = dimensions[0] / block * bytes * dimensions[1];
        gguf =
            gguf.without(&name).tensor(&name, &dimensions, kind, vec![kind as u8; size as usize]);
    }
    let checkpoint = Checkpoint::open(&gguf.write(folder.path())).unwrap();
    use LayerRole as L;
    for (role, format, byte) in [
        (L::Gate, Format::Packed(PackedFormat::Q4_0), 2),
        (L::Up, Format::Packed(PackedFormat::Q4_1), 3),
        (L::Down, Format::Packed(PackedFormat::Q5_0), 6),
        (L::Query, Format::Packed(PackedFormat::Q5_1), 7),
        (L::Key, Format::Packed(PackedFormat::Q8_0), 8),
        (L::Value, Format::Plain(DType::F16), 1),
        (L::AttentionOutput, Format::Plain(DType::BF16), 30),
    ] {
        let info = checkpoint.tensor(Role::Layer(0, role)).unwrap();
        assert_eq!(info.format, format);
        let bytes = checkpoint.read(info).unwrap().remove(0);
        assert!(bytes.len() as u64 == info.bytes && bytes.iter().all(|&b| b == byte));
    }
}

#[test]
fn rows_are_whole_blocks() {
    // 576 and 896 are not multiples of 256, so no row of them is Q6_K; of 32 they are.
    for width in [576u64, 896] {
        for kind in [12, 13, 14] {
            refused(
                &one_tensor(&[width, 256], kind, 0, 0),
                "dimension 0 of `t`",
                37,
                "not whole blocks of 256",
            );
        }
        for (kind, bytes) in [(2, 18), (3, 20), (6, 22), (7, 24), (8, 34)] {
            let data = width / 32 * bytes * 3;
            let header = read(&one_tensor(&[width, 3], kind, 0, data as usize)).unwrap();
            assert_eq!(header.tensors()[0].bytes, data);
            assert_eq!(header.tensors()[0].shape, [3, width as usize]);
        }
    }
    for (kind, bytes) in [(12, 144), (13, 176), (14, 210)] {
        let header = read(&one_tensor(&[512, 3], kind, 0, bytes * 6)).unwrap();
        assert_eq!(header.tensors()[0].bytes, bytes as u64 * 6);
    }
}

#[test]
fn a_blocks_low_nibbles_come_before_its_high_ones() {
    let mut values = [f32::NAN; 32];
    let one = half::f16::from_f32(1.0).to_le_bytes();
    let block = [&one[..], &[0x98; 16]].concat();
    decode_block(PackedFormat::Q4_0, &[&block], &mut values).unwrap();
    assert_eq!(values[..16], [0.0; 16]);
    assert_eq!(values[16..], [1.0; 16]);
    let half = half::f16::from_f32(0.5).to_le_bytes();
    let block = [&one[..], &half, &[0x98; 16]].concat();
    decode_block(PackedFormat::Q4_1, &[&block], &mut values).unwrap();
    assert_eq!(values[..16], [8.5; 16]);
    assert_eq!(values[16..], [9.5; 16]);
}
