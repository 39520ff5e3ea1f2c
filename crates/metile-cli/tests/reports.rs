//! `metile report` as a program: exit codes, refusals, files that are never overwritten.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn published(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../metile-bench/tests/data/published").join(name)
}

fn metile(arguments: &[&dyn AsRef<std::ffi::OsStr>]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_metile"));
    command.arg("report");
    for argument in arguments {
        command.arg(argument);
    }
    command.output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn check_says_what_is_good_wrong_and_unreadable() {
    let good = published("m5-mlx-lm-models.json");
    let output = metile(&[&"check", &good]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).contains("48 stored figures recomputed from raw samples"));

    let summary = published("m5-matched-representation-matrix.json");
    let output = metile(&[&"check", &summary]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).contains("summary only: nothing to recompute"));

    let folder = tempfile::tempdir().unwrap();
    let tampered = folder.path().join("tampered.json");
    let text = std::fs::read_to_string(&good).unwrap();
    std::fs::write(&tampered, text.replacen("0.9984325654712388", "1.0984325654712388", 1))
        .unwrap();
    let output = metile(&[&"check", &good, &tampered]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("decode_speedup is stored as 1.0984325654712388"));

    let broken = folder.path().join("broken.json");
    for text in ["{\"schema\": NaN}", "{\"schema\": \"someone-else\"}"] {
        std::fs::write(&broken, text).unwrap();
        let output = metile(&[&"check", &broken, &good]);
        assert_eq!(output.status.code(), Some(2), "{text}");
    }
    assert_eq!(metile(&[&"check", &folder.path().join("none.json")]).status.code(), Some(2));
}

#[test]
fn show_prints_a_table_and_refuses_what_is_wrong() {
    let output = metile(&[&"show", &published("m5-mlx-lm-models.json")]);
    let text = stdout(&output);
    let row = text.lines().find(|line| line.contains("Llama-3.2-1B-Instruct-4bit")).unwrap();
    for figure in ["0.998×", "1.339×", "1.135×", "1.004×"] {
        assert!(row.contains(figure), "{row}");
    }
    let folder = tempfile::tempdir().unwrap();
    let tampered = folder.path().join("tampered.json");
    let text = std::fs::read_to_string(published("m5-shape-sensitivity.json")).unwrap();
    std::fs::write(&tampered, text.replacen("82575360", "82575361", 1)).unwrap();
    let output = metile(&[&"show", &tampered]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output), "");
    assert!(stderr(&output).contains("byte counts"));
}

#[test]
fn render_writes_both_kinds_and_never_over_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let report = published("m5-shape-sensitivity.json");
    let svg = folder.path().join("x.svg");
    let png = folder.path().join("x.png");
    for out in [&svg, &png] {
        let output = metile(&[&"render", &report, &"--out", out]);
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(stderr(&output).contains("weight-bandwidth"), "the other chart is named");
    }
    assert!(std::fs::read_to_string(&svg).unwrap().contains("Apple M5"));
    assert!(std::fs::read(&png).unwrap().starts_with(b"\x89PNG"));
    let before = std::fs::read(&svg).unwrap();
    let output = metile(&[&"render", &report, &"--chart", &"weight-bandwidth", &"--out", &svg]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("never overwritten"));
    assert_eq!(std::fs::read(&svg).unwrap(), before);

    let other = folder.path().join("y.svg");
    let twice = metile(&[&"render", &report, &report, &"--out", &other]);
    assert!(stderr(&twice).contains("the same report twice"));
    let unlike = published("m5-mlx-lm-models.json");
    let unlike = metile(&[&"render", &report, &unlike, &"--out", &other]);
    assert_eq!(unlike.status.code(), Some(1));
    let jpeg = metile(&[&"render", &report, &"--out", &folder.path().join("x.jpg")]);
    assert!(stderr(&jpeg).contains(".svg or .png"));
    assert!(!other.exists());
}

#[test]
fn site_writes_a_page_once() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("site");
    let report = published("m5-mlx-lm-models.json");
    let output = metile(&[&"site", &out, &report]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("1 reports shown, 0 refused, 3 charts"));
    assert!(out.join("index.html").is_file());
    assert_eq!(metile(&[&"site", &out, &report]).status.code(), Some(1));
}

#[test]
fn diagrams_are_of_the_compiler_s_own_structures() {
    let folder = tempfile::tempdir().unwrap();
    let draw = |what: &str, kernel: &str| {
        let out = folder.path().join(format!("{what}-{kernel}.svg"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_metile"));
        let output = command.args(["diagram", what, kernel, "--out"]).arg(&out).output().unwrap();
        (output.status.code(), stderr(&output), std::fs::read_to_string(&out).unwrap_or_default())
    };
    let shown = Command::new(env!("CARGO_BIN_EXE_metile"))
        .args(["kernel", "show", "gemm_tiles", "--as", "schedule"])
        .output()
        .unwrap();
    let (_, errors, pipeline) = draw("pipeline", "gemm_tiles");
    // Every stage of the schedule is a box, with the same counts.
    let stages: Vec<String> = stdout(&shown)
        .lines()
        .filter(|line| line.ends_with("operations"))
        .map(|line| line.split_whitespace().nth(1).unwrap().to_owned())
        .collect();
    assert!(!stages.is_empty());
    assert_eq!(pipeline.matches(">round ").count(), stages.len(), "{errors}");
    for pass in stages {
        assert!(pipeline.contains(&format!(": {pass}<")), "{pass}");
    }
    let (_, errors, memory) = draw("memory", "gemm_tiles");
    assert!(memory.contains("accumulator") && memory.contains("bytes of scratch"), "{errors}");
    let (code, errors, none) = draw("memory", "softmax_row");
    assert!(code == Some(1) && none.is_empty() && errors.contains("no matrix product"), "{errors}");
    let (_, errors, threads) = draw("threads", "softmax_row");
    assert!(threads.contains("thread 0") && threads.contains("pass over"), "{errors}");
}
