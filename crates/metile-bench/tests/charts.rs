//! Charts of the published reports: each says what it has to, and refused reports have none.

use metile_bench::charts::{ChartError, ChartKind, Drawable, Theme, png, svg};
use metile_bench::check::{Checked, check_bytes, check_file};
use std::path::{Path, PathBuf};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/published").join(name)
}

fn published() -> Vec<Checked> {
    let mut files: Vec<_> = std::fs::read_dir(path(""))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect();
    files.sort();
    files.iter().map(|file| check_file(file).unwrap()).collect()
}

#[test]
fn every_chart_of_every_published_report_is_whole_in_both_themes() {
    for report in published() {
        let one = [report];
        let drawable = Drawable::new(&one).unwrap();
        assert!(!drawable.kinds().is_empty(), "{}", one[0].path.display());
        for kind in drawable.kinds() {
            let chart = drawable.chart(kind, false).unwrap();
            assert_eq!(chart.name, kind.name());
            for theme in Theme::ALL {
                let svg = svg(&chart, theme).unwrap();
                for fact in
                    ["Device:", "recorded:", "Baseline:", "n: ", "estimator:", "Gate class:"]
                {
                    assert!(svg.contains(fact), "{}: {fact}", chart.name);
                }
                assert!(svg.contains("<title>") && svg.contains("role=\"img\""));
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{}", chart.name);
            }
        }
    }
}

#[test]
fn losses_are_written_on_the_chart() {
    let one = [check_file(&path("m5-mlx-lm-models.json")).unwrap()];
    let chart = Drawable::new(&one).unwrap().chart(ChartKind::ModelThroughput, false).unwrap();
    let svg = svg(&chart, Theme::Light).unwrap();
    assert!(svg.contains("0.998× slower"));
    assert!(svg.contains("one native series for both arms"));
}

#[test]
fn compression_is_apart_from_matched_weights() {
    let reports =
        ["m5-mlx-lm-models.json", "m5-mlx-lm-bf16-models.json", "m5-mlx-lm-bf16-dense-qwen15.json"]
            .map(|name| check_file(&path(name)).unwrap());
    let drawable = Drawable::new(&reports).unwrap();
    let matched = drawable.chart(ChartKind::ModelLatency, false).unwrap();
    let words = |chart: &metile_bench::charts::Chart| -> Vec<String> {
        chart.rows.iter().flatten().map(|panel| panel.heading.clone()).collect()
    };
    assert_eq!(words(&matched).len(), 2, "output lengths differ: {:?}", words(&matched));
    assert!(!words(&matched).concat().contains("COMPRESSION"));
    assert!(matched.facts.disclosures.iter().any(|d| d.contains("--include-mixed")));
    let mixed = drawable.chart(ChartKind::ModelLatency, true).unwrap();
    assert_eq!(words(&mixed).iter().filter(|w| w.contains("COMPRESSION")).count(), 1);
    assert_eq!(words(&mixed).len(), 3);
}

#[test]
fn outlines_are_for_four_bit_models_alone() {
    let outlines = |name: &str| {
        let one = [check_file(&path(name)).unwrap()];
        let chart =
            Drawable::new(&one).unwrap().chart(ChartKind::TrialDistributions, false).unwrap();
        svg(&chart, Theme::Light).unwrap().matches("<polygon").count()
    };
    // Seven sets: one of the four models is a shared series. Markers of series 1 are squares: nine a set.
    let four_bits = outlines("m5-mlx-lm-models.json");
    let dense = outlines("m5-mlx-lm-bf16-dense-qwen15.json");
    assert_eq!(four_bits - (4 * 9 + 1), 7);
    assert_eq!(dense, 9 + 1);
}

#[test]
fn what_is_not_good_is_not_drawn() {
    let text = std::fs::read_to_string(path("m5-shape-sensitivity.json")).unwrap();
    let tampered = text.replacen("\"speedup\": 2.81", "\"speedup\": 3.81", 1);
    assert_ne!(text, tampered);
    let one = [check_bytes(Path::new("x.json"), tampered.as_bytes()).unwrap()];
    assert!(matches!(Drawable::new(&one), Err(ChartError::Refused { .. })));
    let good = || check_file(&path("m5-shape-sensitivity.json")).unwrap();
    assert!(matches!(Drawable::new(&[good(), good()]), Err(ChartError::Twice(_))));
}

#[test]
fn a_picture_has_the_drawing_s_size_twice() {
    let one = [check_file(&path("m5-affine8-swiglu-qwen05.json")).unwrap()];
    let chart = Drawable::new(&one).unwrap().chart(ChartKind::Layer, false).unwrap();
    let svg = svg(&chart, Theme::Dark).unwrap();
    let bytes = png(&svg).unwrap();
    let at = |n: usize| u32::from_be_bytes(bytes[n..n + 4].try_into().unwrap());
    assert_eq!(at(16), 2000);
    let height: u32 =
        svg.split("height=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
    assert_eq!(at(20), 2 * height);
}
