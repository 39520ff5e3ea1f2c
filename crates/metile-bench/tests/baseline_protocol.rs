//! Workers that misbehave: every one is a typed error that says what happened, in bounded time, and leaves
//! nothing behind. Needs `python3` alone.

mod worker;

use metile_bench::baseline::{BaselineError, Limits, ModelWorker, TensorError};
use metile_bench::baseline::{Dtype, LogitsWanted};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use worker::{limits, model, request, spawn, spawn_with};

/// Where its tensors travel.
fn folder(worker: &metile_bench::baseline::Worker) -> PathBuf {
    PathBuf::from(worker.hello().settings["path"].as_str().unwrap())
}

fn misbehave(mode: &str, limit: Option<Duration>) -> (BaselineError, Duration) {
    let mut worker = spawn(mode);
    let folder = folder(&worker);
    assert!(folder.is_dir());
    let start = Instant::now();
    let error = worker.call::<Map<String, Value>>("misbehave", json!({}), limit).unwrap_err();
    let took = start.elapsed();
    // Whatever happened, nothing more is asked of it.
    let next = worker.call::<Map<String, Value>>("print", json!({}), None).unwrap_err();
    assert!(matches!(next, BaselineError::Unusable { .. }), "{mode}: {next}");
    drop(worker);
    assert!(!folder.exists(), "{mode} leaves {}", folder.display());
    (error, took)
}

#[test]
fn what_libraries_print_stays_out_of_the_answers_and_requests_out_of_their_input() {
    let mut worker = spawn("well");
    for _ in 0..3 {
        let answer = worker.call::<Value>("print", json!({}), None).unwrap();
        assert_eq!(answer.value, json!({ "standard_input": "" }));
        assert!(answer.round_trip_s > 0.0);
    }
}

#[test]
fn the_hello_says_versions_and_settings() {
    let worker = spawn("well");
    assert!(worker.hello().versions["python"].starts_with('3'));
    assert_eq!(worker.hello().settings["device"], "cpu");
    assert!(worker.hello().operations.iter().any(|op| op == "kv"));
    assert_eq!(worker.name(), "fake");
}

#[test]
fn a_worker_that_dies_says_how_and_its_last_words() {
    let (error, _) = misbehave("dies", None);
    let BaselineError::Died { op, ended, .. } = &error else { panic!("{error}") };
    assert_eq!(op, "misbehave");
    assert_eq!(ended.status.as_deref(), Some("exit status: 7"));
    assert_eq!(ended.stderr, ["last words", "of a worker"]);
    assert!(error.to_string().ends_with("last words\n    of a worker"), "{error}");
}

#[test]
fn a_child_that_keeps_the_pipe_does_not_hide_the_death() {
    let (error, took) = misbehave("dies_with_child", None);
    assert!(matches!(error, BaselineError::Died { .. }), "{error}");
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[test]
fn a_worker_that_hangs_is_ended() {
    let limit = Duration::from_millis(400);
    let (error, took) = misbehave("hangs", Some(limit));
    let BaselineError::Timeout { limit: said, ended, .. } = &error else { panic!("{error}") };
    assert_eq!(*said, limit);
    assert_eq!(ended.stderr, ["thinking"]);
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[test]
fn lines_that_are_no_answer() {
    for (mode, said) in [
        ("garbage", "is no answer"),
        ("wrong_id", "answers request 99, not 1"),
        ("both", "has not exactly one of `ok` and `error`"),
        ("neither", "has not exactly one of `ok` and `error`"),
        ("not_utf8", "is no answer"),
        ("half_a_line", "is no answer"),
        ("endless_line", "has more than 16777216 bytes"),
        ("nan", "is no answer"),
        ("deep", "is no answer"),
    ] {
        let (error, took) = misbehave(mode, None);
        assert!(matches!(error, BaselineError::Malformed { .. }), "{mode}: {error}");
        assert!(error.to_string().contains(said), "{mode}: {error}");
        assert!(error.to_string().len() < 2000, "{mode}: the line is clipped");
        assert!(took < Duration::from_secs(20), "{mode}: {took:?}");
    }
}

#[test]
fn hellos_that_are_none() {
    for (mode, said) in [
        ("garbage_before_hello", "is no hello"),
        ("other_name", "is of the worker \"somebody\""),
        ("other_protocol", "speaks protocol 99, not 1"),
    ] {
        let error = spawn_with(mode, limits()).err().unwrap();
        assert!(matches!(error, BaselineError::Malformed { .. }), "{mode}: {error}");
        assert!(error.to_string().contains(said), "{mode}: {error}");
    }
    let slow = Limits { start: Duration::from_millis(500), ..limits() };
    let error = spawn_with("never_starts", slow).err().unwrap();
    assert!(matches!(error, BaselineError::Timeout { .. }), "{error}");
    let error = spawn_with("import_fails", limits()).err().unwrap();
    let BaselineError::Refused { kind, message, .. } = error else { panic!("{error}") };
    assert_eq!(kind, "ModuleNotFoundError");
    assert!(message.contains("no_such_library"), "{message}");
}

#[test]
fn errors_of_the_library_leave_the_worker_usable() {
    let mut worker = spawn("well");
    let error = worker.call::<Value>("misbehave", json!({}), None).unwrap_err();
    let BaselineError::Refused { kind, message, .. } = &error else { panic!("{error}") };
    assert_eq!((kind.as_str(), message.as_str()), ("ValueError", "an error of the library"));
    worker.call::<Value>("print", json!({}), None).unwrap();
}

#[test]
fn an_operation_that_there_is_none_of_is_not_asked_for() {
    let mut worker = spawn("well");
    let error = worker.call::<Value>("levitate", json!({}), None).unwrap_err();
    assert!(matches!(error, BaselineError::Unsupported { .. }), "{error}");
}

#[test]
fn tensors_that_are_not_as_announced() {
    type Is = fn(&TensorError) -> bool;
    let cases: [(&str, Is); 9] = [
        ("wrong_hash", |e| matches!(e, TensorError::Hash { .. })),
        ("wrong_shape", |e| matches!(e, TensorError::Unexpected { .. })),
        ("short_file", |e| matches!(e, TensorError::Length { found: 3, expected: 64, .. })),
        ("absurd_size", |e| matches!(e, TensorError::TooLarge { .. })),
        ("uncountable", |e| matches!(e, TensorError::Uncountable { .. })),
        ("path", |e| matches!(e, TensorError::FileName { .. })),
        ("symlink", |e| matches!(e, TensorError::NotAFile { .. })),
        ("no_file", |e| matches!(e, TensorError::Io { .. })),
        ("well", |_| false),
    ];
    for (mode, is) in cases {
        let mut model = model(mode);
        match model.prefill(&[1, 2], LogitsWanted::Last) {
            Ok(_) => assert_eq!(mode, "well"),
            Err(BaselineError::Tensor { source, .. }) => assert!(is(&source), "{mode}: {source}"),
            Err(error) => panic!("{mode}: {error}"),
        }
    }
    let error = model("wrong_dtype").prefill(&[1], LogitsWanted::Last).unwrap_err();
    assert!(error.to_string().contains("values of type i32"), "{error}");
    assert_eq!(Dtype::F32.to_string(), "f32");
}

#[test]
fn an_absurd_geometry_is_not_believed() {
    let error = ModelWorker::load(spawn("absurd_geometry"), &request()).err().unwrap();
    assert!(matches!(error, BaselineError::Inconsistent { .. }), "{error}");
}

/// A driver that was killed leaves a folder; its worker, whose input has ended, removes it, and so does whoever
/// comes next.
#[test]
fn folders_of_killed_drivers_are_removed() {
    let root = std::path::Path::new("/dev/shm");
    if !root.is_dir() {
        eprintln!("no /dev/shm here: the fallback's folder is not looked at");
        return;
    }
    let abandoned = root.join(format!("metile-exchange-abandoned-{}", std::process::id()));
    std::fs::create_dir(&abandoned).unwrap();
    std::fs::write(abandoned.join("lock"), "").unwrap();
    let first = spawn("well");
    assert!(!abandoned.exists());
    let held = folder(&first);
    let _second = spawn("well");
    assert!(held.exists(), "a folder in use stays");
}
