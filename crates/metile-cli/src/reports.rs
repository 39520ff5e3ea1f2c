//! `metile report`.

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use metile_bench::charts::{self, ChartKind, Drawable, Theme};
use metile_bench::check::{Checked, check_file};
use metile_bench::tables;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What to do with reports.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Recompute everything that follows from the raw samples, and say what is wrong.
    ///
    /// Exits with 0 if all reports are good, 1 if one is wrong, 2 if one can't be read.
    Check(Files),
    /// A report as tables
    Show(Files),
    /// Draw a chart of one report or several
    Render(Render),
    /// Write a static page of reports, with filters and charts
    Site(Site),
}

/// Reports.
#[derive(Debug, Args)]
pub struct Files {
    /// Reports
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// A chart.
#[derive(Debug, Args)]
pub struct Render {
    /// Reports
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Where to write it: a name that ends in .svg or .png, and is not there yet
    #[arg(long, value_name = "X.svg|X.png")]
    out: PathBuf,
    /// Which chart, where there are several; the report's chief one if not given
    #[arg(long, value_name = "NAME")]
    chart: Option<String>,
    /// Add comparisons of compressed weights, in panels of their own
    #[arg(long)]
    include_mixed: bool,
    /// Colours
    #[arg(long, value_enum, default_value_t = ThemeName::Light)]
    theme: ThemeName,
}

/// A page.
#[derive(Debug, Args)]
pub struct Site {
    /// The folder to write: not there yet, or empty
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Reports; all .json files of reports/ if none is named
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Colours by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ThemeName {
    /// On white.
    Light,
    /// On near-black.
    Dark,
}

/// Runs the command; the exit code is part of what it says.
pub fn run(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Check(arguments) => check(&arguments.files),
        Command::Show(arguments) => show(&arguments.files),
        Command::Site(arguments) => site(arguments).map(|()| ExitCode::SUCCESS),
        Command::Render(arguments) => render(arguments).map(|()| ExitCode::SUCCESS),
    }
}

const WRONG: u8 = 1;
const UNREADABLE: u8 = 2;

fn check(files: &[PathBuf]) -> anyhow::Result<ExitCode> {
    let mut out = io::stdout().lock();
    let mut worst = 0;
    for path in files {
        let checked = match check_file(path) {
            Ok(checked) => checked,
            Err(error) => {
                worst = UNREADABLE;
                writeln!(out, "unreadable: {error}")?;
                continue;
            }
        };
        let name = path.display();
        if checked.is_good() {
            writeln!(out, "{name}: good; {}", checked.basis())?;
        } else {
            worst = worst.max(WRONG);
            writeln!(out, "{name}: wrong")?;
        }
        for finding in &checked.findings.wrong {
            writeln!(out, "  {finding}")?;
        }
        for note in &checked.findings.notes {
            writeln!(out, "  {note}")?;
        }
    }
    out.flush()?;
    Ok(ExitCode::from(worst))
}

fn show(files: &[PathBuf]) -> anyhow::Result<ExitCode> {
    let mut out = io::stdout().lock();
    let mut worst = 0;
    for (n, path) in files.iter().enumerate() {
        let checked = match check_file(path) {
            Ok(checked) => checked,
            Err(error) => {
                worst = UNREADABLE;
                crate::report::note(format_args!("error: {error}"));
                continue;
            }
        };
        if n > 0 {
            writeln!(out)?;
        }
        match tables::page(&checked) {
            Some(page) => write!(out, "{}", page.text())?,
            None => {
                worst = worst.max(WRONG);
                crate::report::note(format_args!("error: {}", refusal(&checked)));
            }
        }
    }
    out.flush()?;
    Ok(ExitCode::from(worst))
}

fn refusal(checked: &Checked) -> String {
    let why = checked.findings.wrong.first().map_or(String::new(), ToString::to_string);
    format!("{}: not shown: {why}", checked.path.display())
}

fn render(arguments: &Render) -> anyhow::Result<()> {
    let png = match arguments.out.extension().and_then(|e| e.to_str()) {
        Some("svg") => false,
        Some("png") => true,
        _ => bail!("--out names a file that ends in .svg or .png, not {}", arguments.out.display()),
    };
    let reports =
        arguments.files.iter().map(|path| check_file(path)).collect::<Result<Vec<Checked>, _>>()?;
    let drawable = Drawable::new(&reports)?;
    let kinds = drawable.kinds();
    let names = || kinds.iter().map(|k| k.name()).collect::<Vec<_>>().join(", ");
    let kind = match &arguments.chart {
        Some(name) => ChartKind::by_name(name).with_context(|| {
            format!("there is no chart `{name}`; these reports have: {}", names())
        })?,
        None => {
            let Some(chief) = kinds.first() else { bail!("these reports have no chart in common") };
            if kinds.len() > 1 {
                crate::report::note(format_args!(
                    "drawing `{}`; --chart takes: {}",
                    chief.name(),
                    names()
                ));
            }
            *chief
        }
    };
    let theme = match arguments.theme {
        ThemeName::Light => Theme::Light,
        ThemeName::Dark => Theme::Dark,
    };
    let svg = charts::svg(&drawable.chart(kind, arguments.include_mixed)?, theme)?;
    let content = if png { charts::png(&svg)? } else { svg.into_bytes() };
    write_new(&arguments.out, &content)
}

fn site(arguments: &Site) -> anyhow::Result<()> {
    let mut files = arguments.files.clone();
    if files.is_empty() {
        let listed = std::fs::read_dir("reports").context("reports/ (or name the reports)")?;
        files = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
        files.retain(|path| path.extension().is_some_and(|e| e == "json"));
        files.sort();
    }
    let site = metile_bench::site::build(&files, &arguments.folder)?;
    crate::report::note(format_args!(
        "{}: {} reports shown, {} refused, {} charts",
        arguments.folder.join("index.html").display(),
        site.shown,
        site.refused,
        site.charts
    ));
    Ok(())
}

/// Writes a file that is not there yet.
pub fn write_new(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    let mut file =
        OpenOptions::new().write(true).create_new(true).open(path).with_context(|| {
            format!("{} is not written; what exists is never overwritten", path.display())
        })?;
    file.write_all(content).with_context(|| path.display().to_string())
}
