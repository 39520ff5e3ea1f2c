//! Reports as files.

use metile_bench::schema::write::{self, Destination, FileError, nulls_have_reasons};
use metile_bench::schema::{self, Figure};
use std::fs;

/// `METILE_WRITE_SCHEMA=1` writes the file anew.
#[test]
fn the_schema_in_the_book_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/report.schema.json");
    if std::env::var_os("METILE_WRITE_SCHEMA").is_some() {
        fs::write(path, schema::json_schema()).unwrap();
    }
    let written = fs::read_to_string(path).unwrap();
    assert!(
        written == schema::json_schema(),
        "docs/report.schema.json is not what the types say; \
         METILE_WRITE_SCHEMA=1 cargo test -p metile-bench --test report_file writes it"
    );
}

#[test]
fn a_file_that_exists_is_never_touched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.json");
    fs::write(&path, "mine").unwrap();
    assert!(matches!(Destination::new(&path), Err(FileError::Exists(_))));
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    let nowhere = folder.path().join("no/r.json");
    assert!(matches!(Destination::new(&nowhere), Err(FileError::Io { .. })));
}

#[test]
fn what_is_not_finite_becomes_null_with_a_reason() {
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let text = serde_json::to_string(&Figure::new(value)).unwrap();
        assert!(text.contains("null") && text.contains("reason"), "{text}");
        nulls_have_reasons(&serde_json::from_str(&text).unwrap(), "figure").unwrap();
    }
    assert_eq!(serde_json::to_string(&Figure::new(1.5)).unwrap(), r#"{"value":1.5}"#);
}

#[test]
fn a_null_without_a_reason_is_refused_with_its_place() {
    let value = serde_json::json!({"a": [{"value": null, "reason": "none"}, {"b": f64::NAN}]});
    let refused = nulls_have_reasons(&value, "report").unwrap_err();
    assert!(matches!(refused, FileError::Null(path) if path == "report.a[1].b"));
    let empty = serde_json::json!({"value": null, "reason": ""});
    assert!(nulls_have_reasons(&empty, "x").is_err());
}

#[test]
fn bare_nan_is_no_report() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.json");
    fs::write(&path, r#"{"schema": "metile-report", "version": NaN}"#).unwrap();
    assert!(matches!(write::read(&path), Err(FileError::NotAReport { .. })));
}
