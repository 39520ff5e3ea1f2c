//! The page of reports, also as a browser sees it.

use metile_bench::site::{SiteError, build};
use std::path::{Path, PathBuf};
use std::process::Command;

fn published() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/published");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect();
    files.sort();
    files
}

/// A page of the published reports and of a copy of one with a figure changed.
fn page(folder: &Path) -> PathBuf {
    let mut files = published();
    let text = std::fs::read_to_string(&files[7]).unwrap();
    let tampered = folder.join("tampered <b>.json");
    std::fs::write(&tampered, text.replacen("82575360", "82575361", 1)).unwrap();
    files.push(tampered);
    let out = folder.join("site");
    let site = build(&files, &out).unwrap();
    assert_eq!((site.shown, site.refused, site.charts), (8, 1, 15));
    out
}

#[test]
fn the_page_has_all_reports_and_fetches_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let out = page(folder.path());
    let html = std::fs::read_to_string(out.join("index.html")).unwrap();
    assert_eq!(html.matches("<section ").count(), 9);
    assert!(html.contains("byte counts"), "why one is refused");
    assert!(html.contains("tampered &lt;b&gt;"));
    assert!(!html.contains("{{"), "a place that nothing was put in");
    assert!(!html.contains("http://") && !html.contains("https://"));
    for part in html.split("srcset=\"").skip(1).chain(html.split("src=\"").skip(1)) {
        let file = part.split('"').next().unwrap();
        assert!(out.join(file).is_file(), "{file}");
    }
    assert!(matches!(build(&published(), &out), Err(SiteError::NotEmpty(_))));
}

/// Chromium, by the names that it goes by.
fn chromium() -> Option<&'static str> {
    ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success()))
}

#[test]
fn filters_work_in_a_browser() {
    let Some(browser) = chromium() else {
        eprintln!("skipped: there is no chromium on this machine");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let out = page(folder.path());
    let seen = |hash: &str| {
        let profile = folder.path().join(format!("profile{}", hash.len()));
        let output = Command::new(browser)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg(format!("file://{}{hash}", out.join("index.html").display()))
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let hidden = |dom: &str| {
        dom.split("<section ")
            .skip(1)
            .filter(|s| s.split('>').next().unwrap().contains("hidden"))
            .count()
    };
    let all = seen("");
    assert!(all.contains("9 of 9 reports"), "the script ran");
    assert_eq!(hidden(&all), 0);
    let refused = seen("#origin=refused");
    assert!(refused.contains("1 of 9 reports"));
    assert_eq!(hidden(&refused), 8);
    let found = seen("#text=Llama-3.2-3B");
    assert!(found.contains("3 of 9 reports"));
}
