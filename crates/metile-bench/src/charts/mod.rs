//! Charts, from checked reports alone: drawn as SVG, and the same drawing as PNG.

mod axis;
mod bars;
mod canvas;
mod dots;
mod draw;
mod figure;
mod lines;
mod models;
mod of_native;
mod of_published;
mod outline;
mod sweeps;
mod theme;

pub(crate) use axis::{ratio, significant};
pub use canvas::DrawError;
pub use draw::{png, svg};
pub use figure::{
    Bar, BarGroup, Body, Chart, DotColumn, DotGroup, Facts, Line, LinePoint, Panel, Reference,
    Scale, Unit,
};
pub use theme::Theme;

use crate::check::{Checked, Document};
use crate::published::Published;
use crate::schema::{Report, Status};
use std::path::PathBuf;

/// A chart by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChartKind {
    /// Decode and prefill speedups of models.
    ModelThroughput,
    /// Speedups of the time to the first token and of whole generations.
    ModelLatency,
    /// Times to the first token, every trial.
    TrialDistributions,
    /// The residual MLP by rows and formats.
    MatchedMatrix,
    /// Weight bytes over time.
    WeightBandwidth,
    /// Layers of several models.
    ModelShapes,
    /// Projections by width.
    ShapeSensitivity,
    /// One layer alone.
    Layer,
    /// A long document: tuning and held-out phases.
    ChunkedPrefill,
    /// Short generations.
    EndToEnd,
    /// One forward at a fixed cache slot.
    Megakernel,
    /// Two requests under several policies.
    Interleaving,
    /// Kernels case by case.
    CompilerResults,
}

impl ChartKind {
    /// All of them.
    pub const ALL: [ChartKind; 13] = [
        ChartKind::ModelThroughput,
        ChartKind::ModelLatency,
        ChartKind::TrialDistributions,
        ChartKind::MatchedMatrix,
        ChartKind::WeightBandwidth,
        ChartKind::ModelShapes,
        ChartKind::ShapeSensitivity,
        ChartKind::Layer,
        ChartKind::ChunkedPrefill,
        ChartKind::EndToEnd,
        ChartKind::Megakernel,
        ChartKind::Interleaving,
        ChartKind::CompilerResults,
    ];

    /// The name that `--chart` takes.
    pub fn name(self) -> &'static str {
        match self {
            ChartKind::ModelThroughput => "model-throughput",
            ChartKind::ModelLatency => "model-latency",
            ChartKind::TrialDistributions => "trial-distributions",
            ChartKind::MatchedMatrix => "matched-matrix",
            ChartKind::WeightBandwidth => "weight-bandwidth",
            ChartKind::ModelShapes => "model-shapes",
            ChartKind::ShapeSensitivity => "shape-sensitivity",
            ChartKind::Layer => "layer",
            ChartKind::ChunkedPrefill => "chunked-prefill",
            ChartKind::EndToEnd => "end-to-end",
            ChartKind::Megakernel => "megakernel",
            ChartKind::Interleaving => "interleaving",
            ChartKind::CompilerResults => "compiler-results",
        }
    }

    /// Whether reports can stand beside each other on it, in panels of their own.
    fn joins(self) -> bool {
        use ChartKind::{
            CompilerResults, Layer, ModelLatency, ModelThroughput, TrialDistributions,
        };
        matches!(
            self,
            ModelThroughput | ModelLatency | TrialDistributions | Layer | CompilerResults
        )
    }

    /// The chart of that name.
    pub fn by_name(name: &str) -> Option<ChartKind> {
        ChartKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Why there is no chart.
#[derive(Debug, thiserror::Error)]
pub enum ChartError {
    /// A report that is not good.
    #[error("{}: not drawn: {why}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// The first thing that is wrong with it.
        why: String,
    },
    /// The same content twice.
    #[error("{}: the same report twice; its samples would be counted twice", .0.display())]
    Twice(PathBuf),
    /// Reports without figures for the chart.
    #[error("these reports have no `{wanted}` chart; they have: {have}")]
    NoSuchChart {
        /// What was asked for.
        wanted: String,
        /// What there is.
        have: String,
    },
    /// Reports that can't be on one chart.
    #[error("{}: {why}", path.display())]
    Apart {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
}

/// Reports that may be drawn together: each is good, and none is there twice.
#[derive(Debug)]
pub struct Drawable<'c> {
    reports: Vec<&'c Checked>,
}

impl<'c> Drawable<'c> {
    /// Takes reports to be drawn together.
    ///
    /// # Errors
    /// If one is not good or the same as another.
    pub fn new(reports: &'c [Checked]) -> Result<Drawable<'c>, ChartError> {
        for (n, report) in reports.iter().enumerate() {
            if let Some(finding) = report.findings.wrong.first() {
                let why = finding.to_string();
                return Err(ChartError::Refused { path: report.path.clone(), why });
            }
            if let Some(Document::Native(native)) = &report.document
                && native.status == Status::Failed
            {
                let why = "a failed run has no timings to draw".to_owned();
                return Err(ChartError::Refused { path: report.path.clone(), why });
            }
            if reports[..n].iter().any(|other| other.digest == report.digest) {
                return Err(ChartError::Twice(report.path.clone()));
            }
        }
        Ok(Drawable { reports: reports.iter().collect() })
    }

    /// Charts that all of them have figures for, the chief one of the first report first.
    pub fn kinds(&self) -> Vec<ChartKind> {
        let mut kinds: Vec<ChartKind> = match self.reports.first() {
            Some(first) => kinds_of(first),
            None => Vec::new(),
        };
        kinds.retain(|kind| self.reports.iter().all(|r| kinds_of(r).contains(kind)));
        kinds
    }

    /// The chart of a kind. Compression is on it only where `include_mixed`, or where there is nothing else.
    ///
    /// # Errors
    /// If a report has no figures for it.
    pub fn chart(&self, kind: ChartKind, include_mixed: bool) -> Result<Chart, ChartError> {
        let none = || ChartError::NoSuchChart {
            wanted: kind.name().to_owned(),
            have: match self.kinds() {
                kinds if kinds.is_empty() => "none that all of them share".to_owned(),
                kinds => kinds.iter().map(|k| k.name()).collect::<Vec<_>>().join(", "),
            },
        };
        if !self.kinds().contains(&kind) {
            return Err(none());
        }
        if let (Some(second), false) = (self.reports.get(1), kind.joins()) {
            return Err(ChartError::Apart {
                path: second.path.clone(),
                why: format!("a `{}` chart is of one report; draw each by itself", kind.name()),
            });
        }
        let mut published: Vec<&Published> = Vec::new();
        let mut native: Vec<&Report> = Vec::new();
        for checked in &self.reports {
            match &checked.document {
                Some(Document::Published(report)) => published.push(report),
                Some(Document::Native(report)) => native.push(report),
                None => {}
            }
        }
        match (published.is_empty(), native.is_empty()) {
            (false, true) => of_published::chart(kind, &published, include_mixed),
            (true, false) => of_native::chart(kind, &native, include_mixed),
            _ => {
                return Err(ChartError::Apart {
                    path: self.reports[0].path.clone(),
                    why: "published evidence of the predecessor has charts of its own".to_owned(),
                });
            }
        }
        .ok_or_else(none)
    }
}

fn kinds_of(report: &Checked) -> Vec<ChartKind> {
    match &report.document {
        Some(Document::Published(report)) => of_published::kinds(report).to_vec(),
        Some(Document::Native(report)) => of_native::kinds(report),
        None => Vec::new(),
    }
}
