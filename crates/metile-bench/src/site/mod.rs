//! A static page of reports: tables, filters and charts, with nothing fetched from elsewhere.

use crate::charts::{self, ChartError, ChartKind, DrawError, Drawable, Theme};
use crate::check::{Checked, Document, check_file};
use crate::tables::{self, Page, Table};
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// There is something already.
    #[error("{}: is not empty, and nothing is overwritten; name a folder that is not there yet", .0.display())]
    NotEmpty(PathBuf),
    /// The system refuses.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A chart can't be drawn.
    #[error(transparent)]
    Draw(#[from] DrawError),
    /// A chart can't be made.
    #[error(transparent)]
    Chart(#[from] ChartError),
}

/// What is on the page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// Reports with their tables.
    pub shown: usize,
    /// Reports that are wrong or unreadable: named with the reason, without a figure.
    pub refused: usize,
    /// Charts, each in two themes.
    pub charts: usize,
}

struct Entry {
    name: String,
    study: String,
    device: String,
    origin: &'static str,
    body: String,
}

/// Writes the page of `files` into `folder`, which is made, or is empty.
///
/// # Errors
/// If the folder has something in it, or the system refuses.
pub fn build(files: &[PathBuf], folder: &Path) -> Result<Site, SiteError> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |error| SiteError::Io { path, error }
    };
    fs::create_dir_all(folder.join("charts")).map_err(io(folder))?;
    let mut there = fs::read_dir(folder).map_err(io(folder))?.filter_map(Result::ok);
    let only_charts = there.all(|entry| entry.file_name() == "charts");
    let charts = fs::read_dir(folder.join("charts")).map_err(io(folder))?.count();
    if !only_charts || charts > 0 {
        return Err(SiteError::NotEmpty(folder.to_owned()));
    }
    let mut site = Site::default();
    let mut entries: Vec<Entry> = Vec::new();
    for (n, path) in files.iter().enumerate() {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let name = safe(&stem, n);
        let checked = match check_file(path) {
            Ok(checked) if checked.is_good() => checked,
            Ok(checked) => {
                let why = checked.findings.wrong.iter().map(ToString::to_string).collect();
                entries.push(refused(stem, why));
                site.refused += 1;
                continue;
            }
            Err(error) => {
                entries.push(refused(stem, vec![error.to_string()]));
                site.refused += 1;
                continue;
            }
        };
        site.shown += 1;
        let reports = [checked];
        let mut drawn = Vec::new();
        if let Ok(drawable) = Drawable::new(&reports) {
            for kind in drawable.kinds() {
                let chart = drawable.chart(kind, true)?;
                for theme in Theme::ALL {
                    let file = folder.join(picture(&name, kind, theme));
                    write_new(&file, charts::svg(&chart, theme)?.as_bytes()).map_err(io(&file))?;
                }
                drawn.push((kind, chart.title));
                site.charts += 1;
            }
        }
        entries.push(entry(stem, &name, &reports[0], &drawn));
    }
    let index = folder.join("index.html");
    write_new(&index, html(&entries, site).as_bytes()).map_err(io(&index))?;
    Ok(site)
}

fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).open(path)?.write_all(content)
}

/// A name for files of a report, whatever its own is.
fn safe(stem: &str, n: usize) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' };
    format!("{n}-{}", stem.chars().map(plain).take(80).collect::<String>())
}

fn picture(name: &str, kind: ChartKind, theme: Theme) -> String {
    format!("charts/{name}-{}-{}.svg", kind.name(), theme.name())
}

fn escape(text: &str) -> String {
    let clean = text.chars().map(|c| if c.is_control() { '\u{b7}' } else { c });
    clean
        .collect::<String>()
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

fn refused(name: String, why: Vec<String>) -> Entry {
    let mut body = "<p class=\"bad\">Refused: not shown, not drawn.</p><ul>".to_owned();
    for reason in why {
        let _ = write!(body, "<li>{}</li>", escape(&reason));
    }
    body.push_str("</ul>");
    Entry {
        name,
        study: "refused".to_owned(),
        device: "unknown".to_owned(),
        origin: "refused",
        body,
    }
}

fn entry(stem: String, name: &str, checked: &Checked, drawn: &[(ChartKind, String)]) -> Entry {
    let (study, device, origin) = match &checked.document {
        Some(Document::Native(report)) => {
            (report.declaration.name.clone(), report.device.clone(), "metile")
        }
        Some(Document::Published(report)) => (
            report.title().to_owned(),
            report.hardware().map_or("not recorded".to_owned(), |h| h.chip.clone()),
            "predecessor",
        ),
        None => ("unknown".to_owned(), "unknown".to_owned(), "unknown"),
    };
    let mut body = format!("<p class=\"quiet\">{}</p>", escape(&checked.basis()));
    for (kind, title) in drawn {
        let (dark, light) = (picture(name, *kind, Theme::Dark), picture(name, *kind, Theme::Light));
        let _ = write!(
            body,
            "<figure><picture><source srcset=\"{dark}\" media=\"(prefers-color-scheme: dark)\">\
             <img src=\"{light}\" alt=\"{}\" loading=\"lazy\"></picture></figure>",
            escape(title)
        );
    }
    if let Some(page) = tables::page(checked) {
        body.push_str(&page_html(&page));
    }
    Entry { name: stem, study, device, origin, body }
}

fn page_html(page: &Page) -> String {
    let mut html = format!("<p><b>{}</b></p><dl>", escape(&page.title));
    for (name, value) in &page.facts {
        let _ = write!(html, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(value));
    }
    html.push_str("</dl>");
    for table in &page.tables {
        html.push_str(&table_html(table));
    }
    html.push_str("<ul>");
    for note in &page.notes {
        let _ = write!(html, "<li>{}</li>", escape(note));
    }
    html.push_str("</ul>");
    html
}

fn table_html(table: &Table) -> String {
    let row = |cells: &[String], tag: &str| {
        let cells: String =
            cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect();
        format!("<tr>{cells}</tr>")
    };
    let rows: String = table.rows.iter().map(|cells| row(cells, "td")).collect();
    format!(
        "<details><summary>{}</summary><div class=\"wide\"><table><thead>{}</thead><tbody>{rows}</tbody></table></div></details>",
        escape(&table.heading),
        row(&table.columns, "th")
    )
}

fn html(entries: &[Entry], site: Site) -> String {
    let options = |of: &dyn Fn(&Entry) -> &str| -> String {
        let mut values: Vec<&str> = entries.iter().map(of).collect();
        values.sort_unstable();
        values.dedup();
        let option = |v: &&str| format!("<option value=\"{0}\">{0}</option>", escape(v));
        values.iter().map(option).collect()
    };
    let sections: String = entries
        .iter()
        .map(|e| {
            format!(
                "<section data-study=\"{}\" data-device=\"{}\" data-origin=\"{}\"><h2>{}</h2>{}</section>\n",
                escape(&e.study),
                escape(&e.device),
                e.origin,
                escape(&e.name),
                e.body
            )
        })
        .collect();
    include_str!("page.html")
        .replace("{{style}}", include_str!("style.css"))
        .replace("{{script}}", include_str!("filter.js"))
        .replace("{{studies}}", &options(&|e| &e.study))
        .replace("{{devices}}", &options(&|e| &e.device))
        .replace("{{origins}}", &options(&|e| e.origin))
        .replace(
            "{{counts}}",
            &format!(
                "{} reports shown, {} refused, {} charts",
                site.shown, site.refused, site.charts
            ),
        )
        .replace("{{sections}}", &sections)
}
