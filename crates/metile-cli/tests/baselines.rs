//! `metile baseline` from outside, with a stand-in for Python that makes environments without a network.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

/// Makes environments and fails on demand.
const STAND_IN: &str = r#"#!/bin/sh
case "$*" in
"-m venv "*) echo venv >> "$LOG"; mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
"-m pip install "*) echo install >> "$LOG"; test ! -e "$FAIL" || { echo "no such version" >&2; exit 1; } ;;
"-m pip freeze "*) echo "numpy==2.4.6"; echo "pip==1.0" ;;
"-I -c "*) ;;
*) echo "unexpected: $*" >&2; exit 9 ;;
esac
"#;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        let python = place.path("python");
        fs::write(&python, STAND_IN).unwrap();
        fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
        place
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_metile"));
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            if name.starts_with("METILE_PYTHON") || name == "METILE_CANDLE" {
                command.env_remove(name);
            }
        }
        command
            .args(arguments)
            .env("XDG_CACHE_HOME", self.path("cache"))
            .env("METILE_BASELINE_PYTHON", self.path("python"))
            .env("LOG", self.path("log"))
            .env("FAIL", self.path("fail"))
            .output()
            .unwrap()
    }

    /// The steps that were made since the last look.
    fn steps(&self) -> String {
        let log = fs::read_to_string(self.path("log")).unwrap_or_default();
        let _ = fs::remove_file(self.path("log"));
        log.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn an_installation_says_versions_and_is_made_once() {
    let place = Place::new();
    let listed = text(&place.run(&["baseline", "list"]).stdout);
    assert!(
        listed.contains("not installed: `metile baseline install numpy --device cpu`"),
        "{listed}"
    );

    let done = place.run(&["baseline", "install", "numpy"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let out = text(&done.stdout);
    assert_eq!(out, "numpy for cpu installed:\n  numpy==2.4.6\n  pip==1.0\n");
    assert_eq!(place.steps(), "venv install");
    let listed = text(&place.run(&["baseline", "list"]).stdout);
    assert!(listed.contains("numpy-cpu/bin/python"), "{listed}");

    let again = text(&place.run(&["baseline", "install", "numpy"]).stdout);
    assert!(again.starts_with("numpy for cpu was installed already:\n  numpy==2.4.6\n"), "{again}");
    assert_eq!(place.steps(), "");

    // An environment whose interpreter has gone is made anew.
    fs::remove_file(place.path("cache/metile/baselines/numpy-cpu/bin/python")).unwrap();
    let done = place.run(&["baseline", "install", "numpy"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_eq!(place.steps(), "venv install");
    // So is one of other requirements.
    let record = place.path("cache/metile/baselines/numpy-cpu/installed.json");
    let old = fs::read_to_string(&record).unwrap();
    let (key, _) = old.split_once("requirements_sha256\": \"").unwrap();
    fs::write(&record, format!("{key}requirements_sha256\": \"0\", \"packages\": []}}")).unwrap();
    place.run(&["baseline", "install", "numpy"]);
    assert_eq!(place.steps(), "venv install");
}

#[test]
fn a_failed_installation_is_none() {
    let place = Place::new();
    fs::write(place.path("fail"), "").unwrap();
    let done = place.run(&["baseline", "install", "onnxruntime"]);
    assert!(!done.status.success());
    let error = text(&done.stderr);
    assert!(error.contains("installing onnxruntime: pip install: exit status: 1"), "{error}");
    assert!(error.contains("no such version"), "the package manager's messages are shown: {error}");
    let listed = text(&place.run(&["baseline", "list"]).stdout);
    assert!(listed.contains("not installed: `metile baseline install onnxruntime"), "{listed}");
    fs::remove_file(place.path("fail")).unwrap();
    assert!(place.run(&["baseline", "install", "onnxruntime"]).status.success());
}

#[test]
fn what_there_is_none_of() {
    let place = Place::new();
    for (arguments, said) in [
        (
            &["baseline", "install", "tensorflow"][..],
            "no baseline is called `tensorflow`; there are mlx, pytorch",
        ),
        (
            &["baseline", "install", "numpy", "--device", "cuda"][..],
            "numpy has no worker on cuda; it has one on cpu",
        ),
    ] {
        let done = place.run(arguments);
        assert!(!done.status.success());
        assert!(text(&done.stderr).contains(said), "{}", text(&done.stderr));
    }
    assert!(!Path::new(&place.path("log")).exists());
}
