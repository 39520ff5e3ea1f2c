//! The published reports are read, their medians recomputed, and a copy with a value changed refused.

use metile_bench::check::{Checked, Unreadable, check_bytes, check_file};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const FILES: [&str; 8] = [
    "m5-affine8-swiglu-qwen05.json",
    "m5-dense-bf16-swiglu-qwen05.json",
    "m5-matched-representation-matrix.json",
    "m5-mlx-lm-bf16-dense-qwen15.json",
    "m5-mlx-lm-bf16-models.json",
    "m5-mlx-lm-models.json",
    "m5-model-shape-matrix.json",
    "m5-shape-sensitivity.json",
];

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/published").join(name)
}

fn value(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(path(name)).unwrap()).unwrap()
}

fn checked(value: &Value) -> Checked {
    check_bytes(Path::new("copy.json"), value.to_string().as_bytes()).unwrap()
}

/// What is done to a copy.
type Change = fn(&mut Value);

/// The rules that a copy breaks once `change` was made to it.
fn broken(name: &str, change: impl FnOnce(&mut Value)) -> Vec<&'static str> {
    let mut copy = value(name);
    change(&mut copy);
    checked(&copy).findings.wrong.iter().map(|finding| finding.rule).collect()
}

#[test]
fn all_eight_are_good() {
    for name in FILES {
        let checked = check_file(&path(name)).unwrap();
        assert!(checked.is_good(), "{name}: {:?}", checked.findings.wrong);
        assert_eq!(checked.is_summary_only(), !name.starts_with("m5-mlx-lm"), "{name}");
        assert_eq!(checked.findings.recomputed.is_empty(), checked.is_summary_only(), "{name}");
    }
}

#[test]
fn stored_medians_are_the_medians_of_the_samples() {
    let checked = check_file(&path("m5-mlx-lm-models.json")).unwrap();
    let of = |name: &str| {
        let found = checked
            .findings
            .recomputed
            .iter()
            .find(|r| r.of == "Llama-3.2-1B-Instruct-4bit" && r.name == name);
        format!("{:.3}", found.unwrap().value)
    };
    assert_eq!(of("decode_speedup"), "0.998");
    assert_eq!(of("prefill_speedup"), "1.339");
    assert_eq!(of("ttft_speedup"), "1.135");
    assert_eq!(of("end_to_end_speedup"), "1.004");
}

#[test]
fn another_layout_of_the_same_content_is_the_same_report() {
    for name in FILES {
        assert!(checked(&value(name)).is_good(), "{name}");
    }
}

#[test]
fn any_number_changed_is_found_in_every_file() {
    for name in FILES {
        let mut copy = value(name);
        let mut changed = 0;
        change_first_number(&mut copy, &mut changed);
        assert_eq!(changed, 1, "{name}");
        assert!(!checked(&copy).is_good(), "{name}");
    }
}

fn change_first_number(value: &mut Value, changed: &mut u32) {
    match value {
        Value::Number(n) if *changed == 0 && n.is_f64() => {
            *changed = 1;
            *value = json!(n.as_f64().unwrap() * 1.0001);
        }
        Value::Array(items) => items.iter_mut().for_each(|v| change_first_number(v, changed)),
        Value::Object(fields) => fields.values_mut().for_each(|v| change_first_number(v, changed)),
        _ => {}
    }
}

#[test]
fn each_rule_broken_once_is_named() {
    let models = "m5-mlx-lm-models.json";
    let cases: [(&str, &str, Change); 13] = [
        ("medians from raw samples", models, |v| {
            v["models"][0]["medians"]["decode_speedup"] = json!(1.2);
        }),
        ("trial count", models, |v| {
            v["models"][0]["samples"]["MLX"].as_array_mut().unwrap().pop();
        }),
        ("positive times", models, |v| {
            v["models"][0]["samples"]["MLX"][3]["elapsed_seconds"] = json!(0.0);
        }),
        ("positive times", models, |v| {
            v["models"][0]["samples"]["MLX + meTile"][3]["time_to_first_token_seconds"] =
                json!(-1e-3);
        }),
        ("gate before timing", models, |v| {
            v["models"][0]["verification"]["actual_next_token"] = json!(1);
        }),
        ("gate before timing", "m5-mlx-lm-bf16-models.json", |v| {
            v["models"][0]["verification"]["kl_divergence"] = json!(0.01);
        }),
        ("nothing pooled", models, |v| {
            let again = v["models"][0].clone();
            v["models"].as_array_mut().unwrap().push(again);
        }),
        ("shared series", models, |v| {
            v["models"][1]["samples"]["MLX"][0]["elapsed_seconds"] = json!(4.0);
        }),
        ("what is compared", "m5-mlx-lm-bf16-models.json", |v| {
            v["models"][0]["precision_comparison"]["class"] = json!("same_precision");
        }),
        ("byte counts", "m5-shape-sensitivity.json", |v| {
            v["batch_sweep"][0]["weight_bytes"] = json!(82_575_361);
        }),
        ("ratio of medians", "m5-shape-sensitivity.json", |v| {
            v["width_sweep"][0]["speedup"] = json!(3.0);
        }),
        ("win rate", "m5-matched-representation-matrix.json", |v| {
            v["measurements"][0]["win_rate"] = json!(0.97);
        }),
        ("content digest", "m5-model-shape-matrix.json", |v| {
            v["models"][0]["prefill_down_speedup"] = json!(2.4);
        }),
    ];
    for (rule, name, change) in cases {
        let broken = broken(name, change);
        assert!(broken.contains(&rule), "{rule}: {broken:?}");
    }
}

#[test]
fn a_missing_field_is_a_finding_and_another_schema_is_unreadable() {
    let lacks = broken("m5-mlx-lm-models.json", |v| {
        v["models"][0].as_object_mut().unwrap().remove("samples");
    });
    assert_eq!(lacks, ["complete"]);
    for text in
        ["{\"schema\": \"another\"}", "[]", "{}", "{\"schema_version\": 1, \"scope\": \"x\"}"]
    {
        let error = check_bytes(Path::new("x.json"), text.as_bytes()).unwrap_err();
        assert!(matches!(error, Unreadable::Schema { .. }), "{text}: {error}");
    }
    let error = check_bytes(Path::new("x.json"), b"{\"schema\": NaN}").unwrap_err();
    assert!(matches!(error, Unreadable::Json { .. }));
}
