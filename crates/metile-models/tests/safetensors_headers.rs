//! safetensors files as they should be, and as nobody should write them; shards; MLX's layout.

mod toy;

use std::io::Cursor;
use std::path::Path;

use metile_ir::{DType, Format};
use metile_models::Error;
use metile_models::checkpoint::safetensors::Header;
use metile_models::checkpoint::{Checkpoint, LayerRole, Role};
use serde_json::{Map, Value, json};
use toy::{config, folder, head, safetensors, safetensors_file, tensors, with, write_json};

fn read(bytes: &[u8]) -> Result<Header, Error> {
    Header::read(Cursor::new(bytes), bytes.len() as u64, Path::new("test.safetensors"))
}

fn refused(bytes: &[u8], field: &str, problem: &str) {
    match read(bytes) {
        Err(Error::Safetensors { field: f, problem: p, .. }) => {
            assert!(f.contains(field) && p.contains(problem), "{f}: {p}");
        }
        other => panic!("{other:?}"),
    }
}

/// A file of tensors `[name, dtype, shape, begin, end]`.
fn file(tensors: &[(&str, &str, &[u64], u64, u64)], data: usize) -> Vec<u8> {
    let header: Map<String, Value> = tensors
        .iter()
        .map(|(name, dtype, shape, begin, end)| {
            let value = json!({"dtype": dtype, "shape": shape, "data_offsets": [begin, end]});
            ((*name).to_owned(), value)
        })
        .collect();
    safetensors_file(&Value::Object(header).to_string(), data)
}

#[test]
fn tensors_are_read_with_their_places() {
    let bytes = file(
        &[("b", "BF16", &[3], 4, 10), ("a", "F32", &[], 0, 4), ("c", "F32", &[0, 7], 10, 10)],
        10,
    );
    let header = read(&bytes).unwrap();
    let find = |name: &str| header.tensors().iter().find(|t| t.name == name).unwrap();
    let start = bytes.len() as u64 - 10;
    assert_eq!((find("a").offset, find("a").bytes, find("a").dtype), (start, 4, DType::F32));
    assert_eq!((find("b").offset, &find("b").shape[..]), (start + 4, &[3][..]));
    assert_eq!(find("c").bytes, 0);
    let with_metadata = r#"{"__metadata__":{"format":"pt"}}"#;
    let header = read(&safetensors_file(with_metadata, 0)).unwrap();
    assert_eq!(header.metadata()["format"], "pt");
}

#[test]
fn a_shape_must_take_what_its_data_has() {
    refused(
        &file(&[("t", "F32", &[1000, 1000], 0, 4)], 4),
        "tensor `t`",
        "takes 4000000 bytes, but its data has 4",
    );
    refused(
        &file(&[("t", "F32", &[1 << 32, 1 << 32], 0, 4)], 4),
        "tensor `t`",
        "more than 2^64 bytes",
    );
    refused(&file(&[("t", "F32", &[1 << 62], 0, 0)], 0), "tensor `t`", "more than 2^64 bytes");
    refused(&file(&[("t", "F32", &[1; 9], 0, 4)], 4), "tensor `t`", "9 dimensions");
}

#[test]
fn tensors_cover_the_data_without_overlap_or_hole() {
    let f32s: &[u64] = &[2];
    refused(
        &file(&[("a", "F32", f32s, 0, 8), ("b", "F32", f32s, 4, 12)], 12),
        "tensor `b`",
        "overlaps that of `a`",
    );
    refused(
        &file(&[("a", "F32", f32s, 0, 8), ("b", "F32", f32s, 12, 20)], 20),
        "tensor `b`",
        "a hole of 4 bytes",
    );
    refused(&file(&[("a", "F32", f32s, 4, 12)], 12), "tensor `a`", "a hole of 4 bytes");
    refused(
        &file(&[("a", "F32", f32s, 0, 8)], 9),
        "end of the data",
        "1 bytes of data belong to no tensor",
    );
    refused(&file(&[("a", "F32", f32s, 0, 8)], 7), "tensor `a`", "the file holds 7 bytes of data");
    refused(&file(&[("a", "F32", f32s, 8, 0)], 8), "tensor `a`", "before its begin 8");
    refused(&file(&[("a", "F32", f32s, 0, u64::MAX)], 8), "tensor `a`", "the file holds 8");
    refused(&safetensors_file("{}", 1), "end of the data", "1 bytes");
}

#[test]
fn an_unknown_dtype_does_not_skip_the_range_checks() {
    refused(&file(&[("t", "F8_X", &[4], 0, 4)], 4), "tensor `t`", "dtype is `F8_X`");
    refused(&file(&[("t", "F8_X", &[4], 0, 1 << 40)], 4), "tensor `t`", "the file holds 4 bytes");
    refused(&file(&[("t", "F8_X", &[4], 4, 0)], 4), "tensor `t`", "before its begin");
}

#[test]
fn the_headers_length_is_bounded_by_format_and_file() {
    let with_length = |length: u64| [&length.to_le_bytes()[..], b"{}"].concat();
    assert!(read(&with_length(2)).is_ok());
    refused(&with_length(1 << 63), "header length", "more than the 100000000 allowed");
    refused(&with_length(101_000_000), "header length", "more than the 100000000 allowed");
    refused(&with_length(3), "header length", "2 bytes of the file are left");
    refused(&with_length(0), "header", "does not begin with `{`");
    refused(b"1234567", "header length", "7 bytes");
    refused(b"", "header length", "0 bytes");
}

#[test]
fn headers_that_are_not_of_the_format_are_refused_by_name() {
    let tensor = r#"{"dtype":"F32","shape":[1],"data_offsets":[0,4]}"#;
    for (header, problem) in [
        (format!(r#"{{"t":{tensor},"t":{tensor}}}"#), "`t` is there twice"),
        (
            r#"{"t":{"dtype":"F32","shape":[1]}}"#.to_owned(),
            "tensor `t`: missing field `data_offsets`",
        ),
        (
            r#"{"t":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}"#.to_owned(),
            "tensor `t`: invalid value",
        ),
        (r#"{"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}}"#.to_owned(), "tensor `t`"),
        (
            r#"{"t":{"dtype":"F32","shape":[1],"data_offsets":[0,18446744073709551616]}}"#
                .to_owned(),
            "tensor `t`",
        ),
        (r#"{"__metadata__":{"a":1}}"#.to_owned(), "expected a string"),
        (format!("{{\"t\":{tensor}}}x"), "trailing characters"),
        ("{".repeat(100_000), "recursion limit|key must be a string"),
    ] {
        let error = read(&safetensors_file(&header, 4)).unwrap_err().to_string();
        assert!(problem.split('|').any(|problem| error.contains(problem)), "{error}");
    }
}

#[test]
fn every_cut_of_a_file_is_an_error() {
    let whole = file(&[("a", "F32", &[2], 0, 8), ("b", "I64", &[2], 8, 24)], 24);
    assert!(read(&whole).is_ok());
    for length in 0..whole.len() {
        assert!(read(&whole[..length]).is_err(), "{length} of {} bytes", whole.len());
    }
}

/// A llama folder in two shards, with `index` changed.
fn sharded(change: impl FnOnce(&mut Map<String, Value>)) -> Result<Checkpoint, Error> {
    let folder = tempfile::tempdir().unwrap();
    write_json(folder.path(), "config.json", &config("llama"));
    let mut all = tensors("llama", 16);
    all.push(head());
    let (first, second) = all.split_at(4);
    let mut map = Map::new();
    for (name, shard) in [("a.safetensors", first), ("b.safetensors", second)] {
        std::fs::write(folder.path().join(name), safetensors(shard)).unwrap();
        map.extend(shard.iter().map(|(tensor, _)| (tensor.clone(), json!(name))));
    }
    change(&mut map);
    write_json(folder.path(), "model.safetensors.index.json", &json!({"weight_map": map}));
    Checkpoint::open(folder.path())
}

#[test]
fn shards_are_one_checkpoint_and_the_index_is_checked() {
    let checkpoint = sharded(|_| ()).unwrap();
    for role in [Role::Embedding, Role::Output, Role::Layer(0, LayerRole::Down)] {
        let info = checkpoint.tensor(role).unwrap();
        assert_eq!(checkpoint.read(info).unwrap()[0].len() as u64, info.bytes);
    }
    for (name, file, problem) in [
        ("lm_head.weight", json!("a.safetensors"), "puts it into a.safetensors"),
        ("lm_head.weight", json!("../b.safetensors"), "not the name of a safetensors file"),
        ("lm_head.weight", json!("c.safetensors"), "c.safetensors"),
        ("ghost.weight", json!("a.safetensors"), "does not hold it"),
    ] {
        let error = sharded(|map| drop(map.insert(name.to_owned(), file))).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
    let error = sharded(|map| drop(map.remove("lm_head.weight"))).unwrap_err().to_string();
    assert!(error.contains("does not list it"), "{error}");
}

/// MLX tensors `[name, dtype, shape]`, with the data counting up.
fn mlx_file(tensors: &[(String, &str, Vec<u64>)]) -> Vec<u8> {
    let mut header = Map::new();
    let mut at = 0;
    for (name, dtype, shape) in tensors {
        let size = if *dtype == "U32" || *dtype == "F32" { 4 } else { 2 };
        let end = at + shape.iter().product::<u64>() * size;
        header.insert(
            name.clone(),
            json!({"dtype": dtype, "shape": shape, "data_offsets": [at, end]}),
        );
        at = end;
    }
    let mut bytes = safetensors_file(&Value::Object(header).to_string(), at as usize);
    let start = bytes.len() - at as usize;
    for (n, byte) in bytes[start..].iter_mut().enumerate() {
        *byte = (n % 251) as u8;
    }
    bytes
}

/// The tensors of a tied llama with every matrix quantized; `bits_of` by module.
fn mlx_tensors(bits_of: impl Fn(&str) -> u64, group: u64) -> Vec<(String, &'static str, Vec<u64>)> {
    let mut all = Vec::new();
    for (name, shape) in tensors("llama", 16) {
        match (&shape[..], name.strip_suffix(".weight")) {
            (&[rows, columns], Some(module)) => {
                let group = if columns % group == 0 { group } else { 32 };
                all.push((name.clone(), "U32", vec![rows, columns * bits_of(module) / 32]));
                all.push((format!("{module}.scales"), "BF16", vec![rows, columns / group]));
                all.push((format!("{module}.biases"), "BF16", vec![rows, columns / group]));
            }
            _ => all.push((name, "BF16", shape)),
        }
    }
    all
}

fn open_mlx(
    quantization: Value,
    tensors: &[(String, &str, Vec<u64>)],
) -> Result<Checkpoint, Error> {
    let config =
        with(config("llama"), json!({"tie_word_embeddings": true, "quantization": quantization}));
    let folder = folder(&config, &[]);
    std::fs::write(folder.path().join("model.safetensors"), mlx_file(tensors)).unwrap();
    Checkpoint::open(folder.path())
}

#[test]
fn three_affine_arrays_are_one_matrix() {
    let checkpoint =
        open_mlx(json!({"bits": 4, "group_size": 32}), &mlx_tensors(|_| 4, 32)).unwrap();
    let info = checkpoint.tensor(Role::Layer(0, LayerRole::Down)).unwrap();
    assert_eq!(info.shape, [64, 96]);
    assert_eq!(info.format, Format::from_name("affine4_g32_bf16").unwrap());
    let parts = checkpoint.read(info).unwrap();
    let sizes: Vec<usize> = parts.iter().map(Vec::len).collect();
    assert_eq!(sizes, [64 * 96 / 2, 64 * 3 * 2, 64 * 3 * 2]);
    assert_eq!(sizes.iter().sum::<usize>() as u64, info.bytes);
    assert_eq!(checkpoint.tensor(Role::OutputNorm).unwrap().format, Format::Plain(DType::BF16));
}

#[test]
fn modules_may_have_affine_settings_of_their_own() {
    let module = "model.layers.0.mlp.down_proj";
    let tensors = mlx_tensors(|name| if name == module { 8 } else { 4 }, 64);
    let own = json!({"bits": 4, "group_size": 64, module: {"bits": 8, "group_size": 32}});
    let checkpoint = open_mlx(own, &tensors).unwrap();
    let format = |role| checkpoint.tensor(role).unwrap().format.to_string();
    assert_eq!(format(Role::Layer(0, LayerRole::Down)), "affine8_g32_bf16");
    assert_eq!(format(Role::Embedding), "affine4_g64_bf16");
    let error = open_mlx(json!({"bits": 4, "group_size": 64}), &tensors).unwrap_err().to_string();
    assert!(error.contains("down_proj"), "{error}");
}

#[test]
fn affine_arrays_that_do_not_fit_are_refused() {
    let settings = || json!({"bits": 4, "group_size": 32});
    let base = || mlx_tensors(|_| 4, 32);
    let changed = |name: &str, dtype: &'static str, shape: &[u64]| {
        let mut tensors = base();
        let tensor = tensors.iter_mut().find(|(of, ..)| of.ends_with(name)).unwrap();
        (tensor.1, tensor.2) = (dtype, shape.to_vec());
        tensors
    };
    for (tensors, settings, problem) in [
        (
            changed("down_proj.scales", "BF16", &[64, 2]),
            settings(),
            "its scales have shape [64, 2]",
        ),
        (
            changed("down_proj.biases", "F16", &[64, 3]),
            settings(),
            "its scales are bf16, its biases f16",
        ),
        (changed("down_proj.weight", "F32", &[64, 12]), settings(), "packed integers are u32"),
        (changed("down_proj.weight", "U32", &[64, 11]), settings(), "not whole groups"),
        (base(), json!({"bits": 3, "group_size": 32}), "3 bits are not supported"),
        (base(), json!({"bits": 4, "group_size": 16}), "groups of 16 are not supported"),
        (base(), json!({"bits": 4, "group_size": 32, "mode": "mxfp4"}), "`mxfp4` is not supported"),
        (base(), Value::Null, "config.json has no `quantization`"),
        (
            base().into_iter().filter(|(name, ..)| !name.ends_with("down_proj.biases")).collect(),
            settings(),
            "down_proj.biases`: it is missing",
        ),
    ] {
        let error = open_mlx(settings, &tensors).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
}

#[test]
fn folders_that_are_no_checkpoint_say_what_is_missing() {
    let open = |path: &Path| Checkpoint::open(path).unwrap_err().to_string();
    let empty = tempfile::tempdir().unwrap();
    assert!(
        open(empty.path()).contains("neither config.json with safetensors files nor a .gguf file")
    );
    assert!(open(&empty.path().join("none")).contains("cannot open"));
    std::fs::write(empty.path().join("x.bin"), "").unwrap();
    assert!(open(&empty.path().join("x.bin")).contains(".gguf"));
    for name in ["a.gguf", "b.gguf"] {
        std::fs::write(empty.path().join(name), "").unwrap();
    }
    assert!(open(empty.path()).contains("name one of them: a.gguf, b.gguf"));
}
