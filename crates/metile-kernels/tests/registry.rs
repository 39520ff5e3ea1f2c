//! The registry: every instance is a legal program, and what is not there is refused with what is.

use metile::ir::tile::verify;
use metile_kernels::registry::{Entry, find, registry};
use metile_kernels::suite;
use std::collections::HashSet;

#[test]
fn every_kernel_traces_and_verifies() {
    for entry in registry() {
        // Each value of each parameter once.
        for parameter in entry.parameters() {
            for value in &parameter.values {
                let definition = entry.definition(None, &[(parameter.name, value)]).unwrap();
                let kernel = definition.trace().unwrap_or_else(|e| panic!("{definition:?}: {e}"));
                assert_eq!(kernel.name, entry.name);
                verify::verify(kernel).unwrap_or_else(|e| panic!("{definition:?}: {e:?}"));
            }
        }
        if let Some(dtype) = entry.dtype {
            assert!(entry.parameters().iter().any(|p| p.name == dtype), "{}", entry.name);
        }
    }
}

#[test]
fn names_are_unique_and_families_have_cases() {
    let mut names = HashSet::new();
    let families: HashSet<&str> = suite::cases().iter().map(|case| case.family).collect();
    for entry in registry() {
        assert!(names.insert(entry.name), "{}", entry.name);
        assert!(families.contains(entry.family), "no case of {}", entry.family);
    }
    let known: HashSet<&str> = registry().iter().map(|entry| entry.family).collect();
    assert_eq!(families, known);
}

#[test]
fn cases_have_names_of_their_own() {
    let mut names = HashSet::new();
    for case in suite::cases() {
        assert!(names.insert((case.family, case.name.clone())), "{case:?}");
    }
}

fn entry(name: &str) -> Entry {
    find(name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn instances_are_found_by_dtype_and_settings() {
    let label = |name: &str, dtype, settings: &[(&str, &str)]| {
        entry(name).definition(dtype, settings).map(|d| d.info().label())
    };
    assert_eq!(label("softmax_row", None, &[]).unwrap(), "softmax_row<f32, 1024>");
    let f16 = label("softmax_row", Some("f16"), &[("BLOCK", "4096")]);
    assert_eq!(f16.unwrap(), "softmax_row<f16, 4096>");
    let packed = label("project_tiles", Some("q4_0"), &[("A", "Q8_0"), ("BM", "16")]);
    assert_eq!(packed.unwrap(), "project_tiles<Q8_0, Q4_0, 16, 32, 256>");

    let error = |name: &str, dtype, settings: &[(&str, &str)]| {
        label(name, dtype, settings).unwrap_err().to_string()
    };
    assert_eq!(
        error("softmax_row", None, &[("BLOCK", "512")]),
        "kernel `softmax_row`: BLOCK can't be `512`; it is one of 1024, 256, 4096, 16384"
    );
    assert_eq!(
        error("softmax_row", Some("i8"), &[]),
        "kernel `softmax_row`: T can't be `i8`; it is one of f32, f16, bf16"
    );
    assert_eq!(
        error("softmax_row", None, &[("ROWS", "1")]),
        "kernel `softmax_row` has no parameter `ROWS`; it has T, BLOCK"
    );
    assert_eq!(
        error("quantize_q8_blocks", Some("f32"), &[]),
        "kernel `quantize_q8_blocks` has no choice of dtype; leave `f32` out"
    );
    assert_eq!(
        error("reduce_rows", Some("f16"), &[("F", "Mean")]),
        "kernel `reduce_rows` has no instance with all of these; with T = f16 there are: reduce_rows<f16, f16, Sum, 64, 256>"
    );
    assert!(find("log_sum_exp").is_none());
}
