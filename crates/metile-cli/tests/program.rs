//! The `metile` program from outside: what it prints, and how it fails.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Ids that continue the first 19 of tiny-llama's, and those 19.
const PROMPT: &str = "11,49,89,131,175,202,250,25,58,93,130,169,210,253,23,70,100,132,166";
const GREEDY: [u32; 8] = [118, 118, 95, 246, 61, 234, 48, 97];

fn tiny(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../metile-models/tests/data").join(name)
}

/// tiny-llama with a tokenizer whose tokens are bytes.
fn spoken() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in ["config.json", "generation_config.json", "model.safetensors"] {
        std::fs::copy(tiny("tiny-llama").join(file), folder.path().join(file)).unwrap();
    }
    let mut next = 255u32;
    let mut character = |byte: u32| match byte {
        0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF => char::from_u32(byte).unwrap(),
        _ => {
            next += 1;
            char::from_u32(next).unwrap()
        }
    };
    let vocabulary: serde_json::Map<String, Value> =
        (0..256).map(|byte| (character(byte).to_string(), json!(byte))).collect();
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false,
                       "use_regex": false});
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": bytes, "post_processor": null, "decoder": bytes,
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": "",
                  "end_of_word_suffix": "", "fuse_unk": false, "byte_fallback": false,
                  "ignore_merges": false, "vocab": vocabulary, "merges": []}
    });
    std::fs::write(folder.path().join("tokenizer.json"), tokenizer.to_string()).unwrap();
    folder
}

fn metile(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_metile"));
    command.args(arguments);
    command
}

fn generate(model: &Path, arguments: &[&str]) -> Command {
    let mut command = metile(&["generate", "--rope-frequencies", "bf16", "--model"]);
    command.arg(model).args(arguments);
    command
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr_of_failure(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn json_has_exactly_the_named_fields() {
    let ids = ["--ids", PROMPT, "--max-tokens", "8", "--ignore-eos", "--json"];
    let output = generate(&tiny("tiny-llama"), &ids).output().unwrap();
    let object: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let mut names: Vec<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    let mut wanted = [
        "prompt_ids",
        "generated_ids",
        "text",
        "finish_reason",
        "ttft_s",
        "prefill_tokens_per_s",
        "decode_tokens_per_s",
        "weights_bytes",
        "peak_memory_bytes",
        "device",
    ];
    wanted.sort_unstable();
    assert_eq!(names, wanted);
    assert_eq!(object["generated_ids"], json!(GREEDY));
    assert_eq!(object["prompt_ids"].as_array().unwrap().len(), 19);
    assert_eq!(object["finish_reason"], "length");
    assert_eq!(object["text"], Value::Null);
    assert!(object["ttft_s"].as_f64().unwrap() > 0.0);
    assert!(object["prefill_tokens_per_s"].as_f64().unwrap() > 0.0);
    assert!(object["decode_tokens_per_s"].as_f64().unwrap() > 0.0);
    assert!(object["weights_bytes"].as_u64().unwrap() > 300_000);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("there will be ids but no text"), "{said}");
}

#[test]
fn logits_are_a_row_per_prompt_position() {
    let path = tiny("tiny-qwen3");
    let expected = std::fs::read_to_string(path.join("expected.json")).unwrap();
    let expected: Value = serde_json::from_str(&expected).unwrap();
    for chunk in ["3", "256"] {
        let ids: Vec<String> =
            expected["input_ids"].as_array().unwrap()[..7].iter().map(Value::to_string).collect();
        let ids = ids.join(",");
        let arguments =
            ["--ids", &ids, "--max-tokens", "0", "--json", "--logits", "--chunk", chunk];
        let output = generate(&path, &arguments).output().unwrap();
        let object: Value = serde_json::from_str(&stdout(&output)).unwrap();
        let rows = object["logits"].as_array().unwrap();
        assert_eq!(rows.len(), 7);
        for (row, want) in rows.iter().zip(expected["logits"].as_array().unwrap()) {
            let (row, want) = (row.as_array().unwrap(), want.as_array().unwrap());
            assert_eq!(row.len(), 256);
            for (a, b) in row.iter().zip(want) {
                assert!((a.as_f64().unwrap() - b.as_f64().unwrap()).abs() <= 2e-4);
            }
        }
    }
}

#[test]
fn text_goes_to_stdout_and_statistics_to_stderr() {
    let folder = spoken();
    let arguments = ["--ids", PROMPT, "--max-tokens", "8", "--ignore-eos", "--stats"];
    let output = generate(folder.path(), &arguments).output().unwrap();
    assert_eq!(stdout(&output), "vv_\u{FFFD}=\u{FFFD}0a\n");
    let said = String::from_utf8(output.stderr).unwrap();
    for line in ["device", "memory", "weights", "first token", "prefill", "decode", "finish"] {
        assert!(said.lines().any(|l| l.starts_with(line)), "{line}: {said}");
    }
    // The stop string spans tokens, and is not printed.
    let arguments = ["--ids", PROMPT, "--max-tokens", "8", "--ignore-eos", "--stop", "v_"];
    let output = generate(folder.path(), &arguments).output().unwrap();
    assert_eq!(stdout(&output), "v\n");
    // Text and files are read alike.
    let file = folder.path().join("prompt.txt");
    std::fs::write(&file, "Hi there").unwrap();
    let json = ["--max-tokens", "1", "--json", "--prompt", "Hi there"];
    let object: Value =
        serde_json::from_str(&stdout(&generate(folder.path(), &json).output().unwrap())).unwrap();
    let from_file = ["--max-tokens", "1", "--json", "--file", file.to_str().unwrap()];
    let other: Value =
        serde_json::from_str(&stdout(&generate(folder.path(), &from_file).output().unwrap()))
            .unwrap();
    assert_eq!(object["prompt_ids"], json!(b"Hi there"));
    assert_eq!(object["prompt_ids"], other["prompt_ids"]);
}

#[test]
fn errors_say_what_and_where() {
    let missing = stderr_of_failure(&mut generate(Path::new("/nowhere/m.gguf"), &["--ids", "1"]));
    assert!(missing.starts_with("error: /nowhere/m.gguf"), "{missing}");

    let llama = tiny("tiny-llama");
    let full = ["--ids", "1,2,3", "--max-tokens", "510"];
    assert_eq!(
        stderr_of_failure(&mut generate(&llama, &full)).lines().last(),
        Some(
            "error: the prompt has 3 tokens and 510 more may follow, 513 in all, but the context has 512"
        )
    );
    let odd = stderr_of_failure(&mut generate(&llama, &["--ids", "1,256"]));
    assert!(odd.contains("token id 256 at place 1 is not in the vocabulary of 256"), "{odd}");
    let q8 = ["--ids", "1", "--activations", "q8", "--max-tokens", "1"];
    let q8 = stderr_of_failure(&mut generate(&llama, &q8));
    assert!(q8.contains("this model has none"), "{q8}");
    let text = stderr_of_failure(&mut generate(&llama, &["--prompt", "x"]));
    assert!(text.contains("tokenizer"), "{text}");
    let cold = ["--ids", "1", "--temperature", "-1"];
    let cold = stderr_of_failure(&mut generate(&llama, &cold));
    assert!(cold.contains("temperature is -1"), "{cold}");

    let empty = tempfile::tempdir().unwrap();
    let mut unknown = generate(Path::new("nobody/nothing"), &["--ids", "1"]);
    let unknown = stderr_of_failure(unknown.env("HF_HUB_CACHE", empty.path()));
    assert!(unknown.contains("--download"), "{unknown}");

    let mut smollm2 = generate(Path::new("smollm2"), &["--ids", "1"]);
    let smollm2 = stderr_of_failure(smollm2.env("METILE_SMOLLM2", "/nowhere/s.gguf"));
    assert!(smollm2.contains("/nowhere/s.gguf"), "{smollm2}");
    let mut smollm2 = generate(Path::new("smollm2"), &["--ids", "1"]);
    smollm2.env_remove("METILE_SMOLLM2").env("XDG_CACHE_HOME", empty.path()).env("PATH", "");
    let smollm2 = stderr_of_failure(&mut smollm2);
    assert!(smollm2.contains("make demo"), "{smollm2}");

    for wrong in [&["--ids", "1", "--prompt", "x"][..], &["--ids", "1", "--logits"], &[]] {
        let output = generate(&llama, wrong).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
#[cfg(unix)]
fn ctrl_c_ends_cleanly() {
    use std::process::Stdio;
    let arguments = ["--ids", PROMPT, "--max-tokens", "490", "--ignore-eos", "--json"];
    let mut command = generate(&tiny("tiny-llama"), &arguments);
    command.args(["--device", "interp"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    // The handler is in place before the model is loaded; 490 tokens take the interpreter minutes.
    std::thread::sleep(std::time::Duration::from_secs(5));
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    let object: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(object["finish_reason"], "cancelled");
    let ids = object["generated_ids"].as_array().unwrap();
    assert!(ids.len() < 490);
    assert!(ids.iter().zip(GREEDY).all(|(id, want)| *id == want));
}

#[test]
fn kernels_and_devices_are_listed() {
    let list = stdout(&metile(&["kernel", "list"]).output().unwrap());
    assert!(list.lines().any(|line| line.starts_with("rms_norm_row")), "{list}");
    let shown = ["kernel", "show", "rms_norm_row", "--set", "BLOCK=1024", "--as", "tile-ir"];
    let shown = stdout(&metile(&shown).output().unwrap());
    assert!(shown.contains("rms_norm_row"), "{shown}");
    let form =
        stdout(&metile(&["kernel", "show", "rms_norm_row", "--as", "cpu"]).output().unwrap());
    assert!(form.contains("cpu form of rms_norm_row"), "{form}");
    let plan = ["kernel", "show", "rms_norm_row", "--as", "schedule"];
    let plan = stdout(&metile(&plan).output().unwrap());
    assert!(plan.contains("passes:") && plan.contains("bytes of scratch"), "{plan}");
    let wrong = stderr_of_failure(&mut metile(&["kernel", "show", "no_such"]));
    assert!(wrong.contains("`metile kernel list`"), "{wrong}");
    let wrong = ["kernel", "show", "rms_norm_row", "--set", "BLOCK"];
    let wrong = stderr_of_failure(&mut metile(&wrong));
    assert!(wrong.contains("NAME=VALUE"), "{wrong}");
    let devices = stdout(&metile(&["device", "list"]).output().unwrap());
    assert!(devices.contains("cpu") && devices.contains("interp"), "{devices}");
}

#[test]
fn bench_model_prints_a_line_per_case() {
    let mut command = metile(&["bench", "model", "--model"]);
    command.arg(tiny("tiny-llama"));
    command.args(["--prefill", "5", "--decode", "2", "--depth", "0,3", "--runs", "1"]);
    let lines = stdout(&command.output().unwrap());
    assert_eq!(lines.lines().count(), 4, "{lines}");
    assert!(lines.lines().all(|line| line.ends_with("tokens/s")), "{lines}");
}
