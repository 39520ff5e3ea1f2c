//! Environment variables that change what compilers and libraries do.

use std::collections::BTreeMap;

/// Beginnings of names of variables that matter.
const PREFIXES: [&str; 18] = [
    "METILE_",
    "MLX_",
    "OMP_",
    "MKL_",
    "OPENBLAS_",
    "BLIS_",
    "GOMP_",
    "KMP_",
    "CUDA_",
    "NVIDIA_",
    "CUBLAS_",
    "TORCH",
    "PYTORCH_",
    "ORT_",
    "GGML_",
    "RAYON_",
    "RUSTFLAGS",
    "TRITON_",
];

/// Those of `variables` that matter, as set.
pub fn overrides(variables: impl Iterator<Item = (String, String)>) -> BTreeMap<String, String> {
    variables
        .filter(|(name, _)| PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
        .map(|(name, value)| (name, shown_path(&value)))
        .collect()
}

/// A value as reports have it: of an absolute path only its last part, for where files lie on a machine is nobody
/// else's business.
pub fn shown_path(value: &str) -> String {
    let path = std::path::Path::new(value);
    match path.file_name() {
        Some(name) if path.is_absolute() => format!("…/{}", name.to_string_lossy()),
        _ => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_libraries_is_kept_and_places_are_not() {
        let set = [("MLX_ENABLE_TF32", "0"), ("METILE_PYTHON", "/a/b/python"), ("HOME", "/a")];
        let kept = overrides(set.into_iter().map(|(n, v)| (n.to_owned(), v.to_owned())));
        assert_eq!(kept.len(), 2);
        assert_eq!(kept["MLX_ENABLE_TF32"], "0");
        assert_eq!(kept["METILE_PYTHON"], "…/python");
    }
}
