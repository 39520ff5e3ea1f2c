//! The eight published reports, by the digest of their content ([`crate::json::content_digest`]).

/// File name and digest.
pub(super) const PUBLISHED: [(&str, &str); 8] = [
    (
        "m5-affine8-swiglu-qwen05.json",
        "9e95af8b672bde607bf8014e2f6d7f74af5c411ba9796d5981162a4d15c5effe",
    ),
    (
        "m5-dense-bf16-swiglu-qwen05.json",
        "360fc2d5c80cf7c3f84a242cba08a6b60620d9561f52a306d768c0cba6ec4fe5",
    ),
    (
        "m5-matched-representation-matrix.json",
        "3bb9d98553035080d3c4ca1bbfa77102d27fd8feab626248fc59f532b8df8ace",
    ),
    (
        "m5-mlx-lm-bf16-dense-qwen15.json",
        "8a1eccba9f434d5e20049d086797041f60d87cecc2b7f1afb1879efae723ccdc",
    ),
    (
        "m5-mlx-lm-bf16-models.json",
        "e3677e901114a218caa8c18b693868635a3e2f33c625e187857ec797155c2af8",
    ),
    ("m5-mlx-lm-models.json", "3485976f0b9757d7460b4099d7ffb097043be94713c073c52a1fed15c5451a82"),
    (
        "m5-model-shape-matrix.json",
        "7cb8b4b16046295d223694568fdb947e678c5c7818bdc39c0a9ec78b8919bd52",
    ),
    (
        "m5-shape-sensitivity.json",
        "620f622fa7410854e0b58b9670d2910d88d6fcd95c85374ee170c55abdcf433a",
    ),
];
