//! The catalogue of studies.

use metile::Device;
use metile_bench::schema::GateClass;
use metile_bench::study::{Chosen, Entry, OptionKind, Setup, catalogue};

fn entry(name: &str) -> Entry {
    catalogue().into_iter().find(|e| (e.declaration)().name == name).unwrap()
}

fn refusal(name: &str, options: &[(&str, &str)]) -> String {
    let entry = entry(name);
    let given = options.iter().map(|(n, v)| ((*n).to_owned(), vec![(*v).to_owned()]));
    let chosen = Chosen::new(entry.options, given).unwrap();
    let setup = Setup { device: Device::cpu(), chosen, seed: 0 };
    entry.open(&setup).err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn every_study_says_what_it_does_and_its_defaults_are_values() {
    let mut names = Vec::new();
    for entry in catalogue() {
        let d = (entry.declaration)();
        for words in [&d.title, &d.workload, &d.gate, &d.boundary.starts, &d.boundary.ends] {
            assert!(!words.is_empty(), "{}", d.name);
        }
        // What only validates times nothing.
        assert!(!d.metrics.is_empty() || d.pairs == 0, "{}", d.name);
        assert_eq!(d.pairs > 0, d.warmups > 0, "{}", d.name);
        assert_ne!(d.gate_class, GateClass::None);
        for option in entry.options {
            let Some(default) = option.default else { continue };
            let several = matches!(option.kind, OptionKind::Counts | OptionKind::Texts);
            let values: Vec<String> = match several {
                true => default.split_whitespace().map(str::to_owned).collect(),
                false => vec![default.to_owned()],
            };
            Chosen::new(entry.options, [(option.name.to_owned(), values)]).unwrap();
        }
        names.push(d.name);
    }
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn studies_that_wait_say_for_what() {
    for name in ["rmsnorm-tiling", "schedule-fusion", "thread-layouts", "staged-gemm"] {
        assert!(refusal(name, &[]).contains("waits for a GPU back-end"), "{name}");
    }
}

#[test]
fn an_a_a_has_twenty_pairs_at_least() {
    assert!(refusal("a-a", &[("pairs", "19")]).contains("at least 20"));
    assert_eq!(refusal("a-a", &[("pairs", "20")]), "");
}

#[test]
fn what_a_study_needs_and_lacks_is_named() {
    assert!(refusal("paired-regression", &[]).contains("--baseline-root"));
    assert!(refusal("paired-regression", &[("baseline-root", "/nowhere")]).contains("Cargo.toml"));
    assert!(refusal("matched-matrix", &[("baselines", "nothing")]).contains("nothing"));
    let formats = [("baselines", "none"), ("formats", "int3")];
    assert!(refusal("matched-matrix", &formats).contains("int3"));
    assert!(
        refusal("model-shapes", &[("baselines", "none"), ("models", "x")]).contains("no model")
    );
}
