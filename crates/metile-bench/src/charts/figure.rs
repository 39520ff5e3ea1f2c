//! What a chart shows, before it is drawn: the same for every source of figures.

/// A chart: facts that every one has to state, and panels.
#[derive(Clone, Debug)]
pub struct Chart {
    /// The name that `--chart` takes.
    pub name: &'static str,
    /// The line at the top.
    pub title: String,
    /// What a reader has to know of the figures.
    pub facts: Facts,
    /// Series by number, as panels refer to them: 0 is the candidate and 1 its baseline where arms are shown.
    /// A number without a name is not used.
    pub series: Vec<String>,
    /// Rows of panels, each row as wide as the chart.
    pub rows: Vec<Vec<Panel>>,
    /// What else marks mean.
    pub key: Vec<String>,
}

/// Printed on every chart; a fact that a report lacks says so.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The machine.
    pub device: String,
    /// When it was recorded.
    pub date: String,
    /// What the candidate is compared with, with versions.
    pub baseline: String,
    /// How many samples stand behind a mark.
    pub n: String,
    /// How ratios are computed.
    pub estimator: String,
    /// The class that the arms were held to.
    pub gate: String,
    /// What is the same on both sides.
    pub comparison: String,
    /// What has to be said wherever the result is shown.
    pub disclosures: Vec<String>,
}

/// What an axis counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Baseline over candidate: above 1 favours the candidate.
    Ratio,
    /// Seconds.
    Seconds,
    /// Tokens a second.
    TokensPerSecond,
    /// Bytes a second.
    BytesPerSecond,
    /// A part of 1.
    Share,
}

/// How a value axis goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Linear, from zero.
    FromZero,
    /// Linear, around the observations.
    Around,
    /// Logarithmic.
    Log,
}

/// A line across a panel.
#[derive(Clone, Debug)]
pub struct Reference {
    /// Where.
    pub at: f64,
    /// What it is.
    pub label: String,
}

impl Reference {
    /// Where both arms are as fast.
    pub fn equal() -> Reference {
        Reference { at: 1.0, label: "1.00× equal".to_owned() }
    }
}

/// A plot with axes of its own.
#[derive(Clone, Debug)]
pub struct Panel {
    /// What sets it apart from the others.
    pub heading: String,
    /// Smaller text under the heading.
    pub remarks: Vec<String>,
    /// What the value axis measures.
    pub quantity: String,
    /// In what.
    pub unit: Unit,
    /// Lines across.
    pub references: Vec<Reference>,
    /// The marks.
    pub body: Body,
}

/// The marks of a panel.
#[derive(Clone, Debug)]
pub enum Body {
    /// Horizontal bars, all from zero.
    Bars(Vec<BarGroup>),
    /// Every observation a dot, in columns.
    Dots {
        /// Groups of columns.
        groups: Vec<DotGroup>,
        /// The value axis. There are no bars, so that it need not start at zero.
        scale: Scale,
    },
    /// Values over a number, on a logarithmic axis of base 2 from the first tick to the last.
    Lines {
        /// What the number is.
        x: String,
        /// Where ticks are.
        ticks: Vec<f64>,
        /// The lines.
        lines: Vec<Line>,
    },
}

/// Bars that belong together.
#[derive(Clone, Debug)]
pub struct BarGroup {
    /// What they are of.
    pub label: String,
    /// The bars.
    pub bars: Vec<Bar>,
}

/// A bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Its series.
    pub series: usize,
    /// Its length, or why there is none: the bar is a gap then.
    pub value: Result<f64, String>,
    /// Observations behind it, each a dot.
    pub observations: Vec<f64>,
    /// Bounds of an interval of the value.
    pub interval: Option<(f64, f64)>,
    /// Words behind the value.
    pub note: String,
}

/// Columns that belong together.
#[derive(Clone, Debug)]
pub struct DotGroup {
    /// What they are of; lines are split at `\n`.
    pub label: String,
    /// The columns.
    pub columns: Vec<DotColumn>,
}

/// A column of observations.
#[derive(Clone, Debug)]
pub struct DotColumn {
    /// Its series.
    pub series: usize,
    /// The observations, or why there are none.
    pub observations: Result<Vec<f64>, String>,
    /// What is marked as the center: the median of the observations.
    pub center: Option<f64>,
    /// Whether an outline of the density is wanted: drawn only if the set is neither small nor constant.
    pub outline: bool,
    /// Words under the median: `selected`.
    pub note: String,
}

/// A line.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its series.
    pub series: usize,
    /// Its points, by x. A point without a value is a gap.
    pub points: Vec<LinePoint>,
}

/// A point of a line.
#[derive(Clone, Debug)]
pub struct LinePoint {
    /// Where.
    pub x: f64,
    /// The value, or why there is none.
    pub value: Result<f64, String>,
    /// Observations behind it.
    pub observations: Vec<f64>,
}

impl Body {
    /// Every value that has a mark.
    pub fn values(&self) -> Vec<f64> {
        let mut all = Vec::new();
        match self {
            Body::Bars(groups) => {
                for bar in groups.iter().flat_map(|g| &g.bars) {
                    all.extend(bar.value.as_ref().ok());
                    all.extend(&bar.observations);
                    all.extend(bar.interval.iter().flat_map(|&(low, high)| [low, high]));
                }
            }
            Body::Dots { groups, .. } => {
                for column in groups.iter().flat_map(|g| &g.columns) {
                    all.extend(column.observations.iter().flatten());
                    all.extend(column.center);
                }
            }
            Body::Lines { lines, .. } => {
                for point in lines.iter().flat_map(|l| &l.points) {
                    all.extend(point.value.as_ref().ok());
                    all.extend(&point.observations);
                }
            }
        }
        all
    }
}
