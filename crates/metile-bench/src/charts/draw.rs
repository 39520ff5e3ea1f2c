//! The whole chart: title, facts, series, panels, what has to be said.

use super::bars;
use super::canvas::{Align, BOLD, Canvas, DrawError, Face, REGULAR, printable, width, wrap};
use super::dots;
use super::figure::{Body, Chart, Panel};
use super::lines;
use super::theme::Theme;
use resvg::{tiny_skia, usvg};
use std::sync::Arc;

const WIDTH: i32 = 1000;
const MARGIN: i32 = 24;
const BETWEEN: i32 = 26;

/// A rectangle of the surface.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub left: i32,
    pub right: i32,
    pub top: i32,
    pub bottom: i32,
}

impl Frame {
    pub fn width(&self) -> i32 {
        self.right - self.left
    }
}

/// Text lines under the title: every fact, whether or not there is much to say.
fn facts(chart: &Chart) -> Vec<String> {
    let f = &chart.facts;
    [
        format!("Device: {} · recorded: {}", f.device, f.date),
        format!("Baseline: {}", f.baseline),
        format!("n: {} · estimator: {}", f.n, f.estimator),
        format!("Gate class: {} · compared: {}", f.gate, f.comparison),
    ]
    .iter()
    .flat_map(|line| wrap(&printable(line), 12.0, WIDTH - 2 * MARGIN))
    .collect()
}

fn notes(chart: &Chart) -> Vec<String> {
    chart
        .key
        .iter()
        .chain(&chart.facts.disclosures)
        .flat_map(|note| wrap(&format!("• {}", printable(note)), 11.0, WIDTH - 2 * MARGIN))
        .collect()
}

fn title(chart: &Chart) -> Vec<String> {
    // Bold letters are wider than what `wrap` measures.
    wrap(&printable(&chart.title), 19.0, WIDTH - 2 * MARGIN)
}

fn panel_width(row: &[Panel]) -> i32 {
    let n = row.len().max(1) as i32;
    (WIDTH - 2 * MARGIN - (n - 1) * BETWEEN) / n
}

fn head(panel: &Panel, width: i32) -> Vec<(String, bool)> {
    let heading = wrap(&printable(&panel.heading), 13.5, width).into_iter().map(|l| (l, true));
    let remarks = panel
        .remarks
        .iter()
        .flat_map(|remark| wrap(&printable(remark), 11.0, width))
        .map(|line| (line, false));
    heading.chain(remarks).collect()
}

/// What a panel takes: over its marks, the marks, and the axis under them.
fn extents(panel: &Panel, width: i32) -> (i32, i32, i32) {
    let reference = if panel.references.is_empty() { 0 } else { 14 };
    let over = head(panel, width).len() as i32 * 17 + 10;
    match &panel.body {
        Body::Bars(groups) => (over + reference, bars::height(groups, width), 42),
        Body::Dots { groups, .. } => (over, dots::height(groups, width), 4),
        Body::Lines { .. } => (over, lines::PLOT, 42),
    }
}

/// The chart as SVG.
///
/// # Errors
/// If the plotting library refuses.
pub fn svg(chart: &Chart, theme: Theme) -> Result<String, DrawError> {
    let (title, facts, notes) = (title(chart), facts(chart), notes(chart));
    let legend = legend(chart);
    let row_heights: Vec<i32> = chart
        .rows
        .iter()
        .map(|row| {
            let width = panel_width(row);
            row.iter()
                .map(|panel| {
                    let (over, marks, under) = extents(panel, width);
                    over + marks + under
                })
                .max()
                .unwrap_or(0)
                + 18
        })
        .collect();
    let height = MARGIN
        + title.len() as i32 * 24
        + facts.len() as i32 * 17
        + legend.len() as i32 * 22
        + 22
        + row_heights.iter().sum::<i32>()
        + notes.len() as i32 * 15
        + MARGIN / 2;
    let mut text = String::new();
    let size = (WIDTH as u32, height.max(1) as u32);
    let canvas = Canvas::new(&mut text, size, theme)?;
    let mut y = MARGIN;
    for line in &title {
        let face = Face { size: 17.0, bold: true, colour: theme.ink() };
        canvas.text(line, (MARGIN, y), face, Align::Left)?;
        y += 24;
    }
    for line in &facts {
        let face = Face { size: 12.0, bold: false, colour: theme.quiet() };
        canvas.text(line, (MARGIN, y), face, Align::Left)?;
        y += 17;
    }
    y += 6;
    for entries in &legend {
        for &(series, x) in entries {
            canvas.mark((x + 6, y), series, 5, false, 1.0)?;
            let face = Face { size: 12.0, bold: false, colour: theme.ink() };
            canvas.text(&chart.series[series], (x + 18, y), face, Align::Left)?;
        }
        y += 22;
    }
    y += 6;
    for (row, height) in chart.rows.iter().zip(&row_heights) {
        let width = panel_width(row);
        for (n, panel) in row.iter().enumerate() {
            let left = MARGIN + n as i32 * (width + BETWEEN);
            draw_panel(&canvas, panel, left, width, y)?;
        }
        y += height;
    }
    for line in &notes {
        let face = Face { size: 11.0, bold: false, colour: theme.quiet() };
        canvas.text(line, (MARGIN, y), face, Align::Left)?;
        y += 15;
    }
    canvas.finish()?;
    Ok(described(&text, chart))
}

fn draw_panel(
    canvas: &Canvas<'_>,
    panel: &Panel,
    left: i32,
    width: i32,
    mut y: i32,
) -> Result<(), DrawError> {
    let theme = canvas.theme;
    let (over, marks, _) = extents(panel, width);
    let top = y + over;
    for (line, bold) in head(panel, width) {
        let face = if bold {
            Face { size: 12.5, bold, colour: theme.ink() }
        } else {
            Face { size: 11.0, bold, colour: theme.quiet() }
        };
        canvas.text(&line, (left, y + 6), face, Align::Left)?;
        y += 17;
    }
    let frame = Frame { left, right: left + width, top, bottom: top + marks };
    match &panel.body {
        Body::Bars(groups) => bars::draw(canvas, panel, groups, frame),
        Body::Dots { groups, scale } => dots::draw(canvas, panel, groups, *scale, frame),
        Body::Lines { x, ticks, lines } => lines::draw(canvas, panel, (x, ticks, lines), frame),
    }
}

/// Series with their places, in rows.
fn legend(chart: &Chart) -> Vec<Vec<(usize, i32)>> {
    let mut rows = vec![Vec::new()];
    let mut x = MARGIN;
    let named = chart.series.iter().enumerate().filter(|(_, name)| !name.is_empty());
    for (n, name) in named {
        let needs = 18 + width(name, 12.0, false) + 24;
        if x + needs > WIDTH - MARGIN && x > MARGIN {
            rows.push(Vec::new());
            x = MARGIN;
        }
        if let Some(row) = rows.last_mut() {
            row.push((n, x));
        }
        x += needs;
    }
    rows.retain(|row| !row.is_empty());
    rows
}

/// The drawing with a title and a description for who can't see it.
fn described(svg: &str, chart: &Chart) -> String {
    let escape = |text: &str| {
        printable(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
    };
    let mut words = facts(chart);
    words.extend(chart.facts.disclosures.iter().cloned());
    let head = format!(
        "<title>{}</title>\n<desc>{}</desc>\n",
        escape(&chart.title),
        escape(&words.join(" "))
    );
    match svg.find('>') {
        Some(end) if svg.starts_with("<svg") => {
            format!("<svg role=\"img\"{}{head}{}", &svg[4..=end], &svg[end + 1..])
        }
        _ => svg.to_owned(),
    }
}

/// The same drawing as pixels, two for each of the drawing's, as a PNG file's content.
///
/// # Errors
/// If the drawing can't be read back or is too large.
pub fn png(svg: &str) -> Result<Vec<u8>, DrawError> {
    let pixels = |error: String| DrawError::Pixels(error);
    let mut options = usvg::Options::default();
    let fonts = Arc::make_mut(&mut options.fontdb);
    fonts.load_font_data(REGULAR.to_vec());
    fonts.load_font_data(BOLD.to_vec());
    fonts.set_sans_serif_family("DejaVu Sans");
    let tree = usvg::Tree::from_str(svg, &options).map_err(|e| pixels(e.to_string()))?;
    let size = tree.size();
    let (width, height) = ((size.width() * 2.0) as u32, (size.height() * 2.0) as u32);
    let mut map = tiny_skia::Pixmap::new(width, height)
        .ok_or_else(|| pixels(format!("{width} × {height} pixels are too many")))?;
    resvg::render(&tree, tiny_skia::Transform::from_scale(2.0, 2.0), &mut map.as_mut());
    map.encode_png().map_err(|e| pixels(e.to_string()))
}
