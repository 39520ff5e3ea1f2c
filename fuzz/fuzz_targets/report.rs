//! Any bytes as a report: an error or findings, and a report that is good can be shown and drawn.
#![no_main]

use libfuzzer_sys::fuzz_target;
use metile_bench::charts::{Drawable, Theme, svg};
use metile_bench::check::check_bytes;
use metile_bench::tables;
use std::path::Path;

fuzz_target!(|bytes: &[u8]| {
    let Ok(checked) = check_bytes(Path::new("fuzz.json"), bytes) else { return };
    assert_eq!(tables::page(&checked).is_some(), checked.is_good());
    let reports = [checked];
    let Ok(drawable) = Drawable::new(&reports) else { return };
    for kind in drawable.kinds() {
        if let Ok(chart) = drawable.chart(kind, true) {
            assert!(svg(&chart, Theme::Light).is_ok());
        }
    }
});
