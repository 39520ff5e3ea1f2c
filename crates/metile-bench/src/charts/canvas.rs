//! A surface with text that is measured: plotters' SVG back-end and the fonts of this crate.

use super::theme::Theme;
use plotters::backend::SVGBackend;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{Circle, PathElement, Polygon, Rectangle};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{
    Color, FontDesc, FontFamily, FontStyle, RGBAColor, RGBColor, ShapeStyle, TextStyle,
    register_font,
};
use std::sync::Once;

/// Fonts by name, the crate's own first: viewers that lack it have one of the same widths.
pub(super) const FAMILY: &str = "DejaVu Sans, Verdana, sans-serif";

/// DejaVu Sans, cut down to what charts need.
pub(super) static REGULAR: &[u8] = include_bytes!("../../fonts/DejaVuSans-subset.ttf");
/// The same in bold.
pub(super) static BOLD: &[u8] = include_bytes!("../../fonts/DejaVuSans-Bold-subset.ttf");

/// plotters gives fonts by the height of a line; its SVG back-end divides by this.
const LINE: f64 = 1.24;

/// Why a chart can't be drawn.
#[derive(Debug, thiserror::Error)]
pub enum DrawError {
    /// The plotting library refuses.
    #[error("drawing: {0}")]
    Plot(String),
    /// The drawing can't be turned into pixels.
    #[error("the picture: {0}")]
    Pixels(String),
}

fn plot<E: std::fmt::Debug>(error: E) -> DrawError {
    DrawError::Plot(format!("{error:?}"))
}

/// Which way text goes from its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Center,
    Right,
}

/// How text looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Face {
    pub size: f64,
    pub bold: bool,
    pub colour: RGBColor,
}

fn font(size: f64, bold: bool) -> FontDesc<'static> {
    static FONTS: Once = Once::new();
    FONTS.call_once(|| {
        // Both are part of the program; a test draws with each.
        let _ = register_font(FAMILY, FontStyle::Normal, REGULAR);
        let _ = register_font(FAMILY, FontStyle::Bold, BOLD);
    });
    let style = if bold { FontStyle::Bold } else { FontStyle::Normal };
    FontDesc::new(FontFamily::Name(FAMILY), size * LINE, style)
}

/// Width of a text, in pixels, rounded up.
pub(super) fn width(text: &str, size: f64, bold: bool) -> i32 {
    font(size, bold).box_size(text).map_or(0, |(w, _)| w as i32 + 1)
}

/// Lines of at most `limit` pixels, broken at spaces; words that are wider are broken anywhere.
pub(super) fn wrap(text: &str, size: f64, limit: i32) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let longer = if line.is_empty() { word.to_owned() } else { format!("{line} {word}") };
        if width(&longer, size, false) <= limit {
            line = longer;
            continue;
        }
        if !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        for c in word.chars() {
            line.push(c);
            if width(&line, size, false) > limit && line.chars().count() > 1 {
                line.pop();
                lines.push(std::mem::replace(&mut line, c.to_string()));
            }
        }
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

/// What can stand in XML and be seen: control characters are replaced.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{b7}' } else { c }).collect()
}

/// A surface.
pub(super) struct Canvas<'s> {
    area: DrawingArea<SVGBackend<'s>, Shift>,
    pub theme: Theme,
}

impl<'s> Canvas<'s> {
    pub fn new(
        svg: &'s mut String,
        size: (u32, u32),
        theme: Theme,
    ) -> Result<Canvas<'s>, DrawError> {
        let area = SVGBackend::with_string(svg, size).into_drawing_area();
        area.fill(&theme.background()).map_err(plot)?;
        Ok(Canvas { area, theme })
    }

    pub fn finish(self) -> Result<(), DrawError> {
        self.area.present().map_err(plot)
    }

    /// Text whose middle is at `y`.
    pub fn text(
        &self,
        text: &str,
        at: (i32, i32),
        face: Face,
        align: Align,
    ) -> Result<(), DrawError> {
        self.text_turned(text, at, face, align, false)
    }

    /// Text, read upwards if `turned`.
    pub fn text_turned(
        &self,
        text: &str,
        at: (i32, i32),
        face: Face,
        align: Align,
        turned: bool,
    ) -> Result<(), DrawError> {
        let across = match align {
            Align::Left => HPos::Left,
            Align::Center => HPos::Center,
            Align::Right => HPos::Right,
        };
        let mut font = font(face.size, face.bold);
        if turned {
            font = font.transform(plotters::style::FontTransform::Rotate270);
        }
        let style = TextStyle::from(font).color(&face.colour).pos(Pos::new(across, VPos::Center));
        self.area.draw_text(&printable(text), &style, at).map_err(plot)
    }

    pub fn line(
        &self,
        from: (i32, i32),
        to: (i32, i32),
        colour: RGBAColor,
        stroke: u32,
    ) -> Result<(), DrawError> {
        self.path(vec![from, to], colour, stroke)
    }

    pub fn path(
        &self,
        points: Vec<(i32, i32)>,
        colour: RGBAColor,
        stroke: u32,
    ) -> Result<(), DrawError> {
        let style = ShapeStyle { color: colour, filled: false, stroke_width: stroke };
        self.area.draw(&PathElement::new(points, style)).map_err(plot)
    }

    pub fn dashed(
        &self,
        from: (i32, i32),
        to: (i32, i32),
        colour: RGBAColor,
    ) -> Result<(), DrawError> {
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let length = dx.abs().max(dy.abs()).max(1);
        let at = |d: i32| (from.0 + dx * d / length, from.1 + dy * d / length);
        (0..length)
            .step_by(8)
            .try_for_each(|d| self.line(at(d), at((d + 5).min(length)), colour, 1))
    }

    pub fn rectangle(
        &self,
        from: (i32, i32),
        to: (i32, i32),
        colour: RGBAColor,
    ) -> Result<(), DrawError> {
        self.area.draw(&Rectangle::new([from, to], colour.filled())).map_err(plot)
    }

    pub fn polygon(&self, points: Vec<(i32, i32)>, colour: RGBAColor) -> Result<(), DrawError> {
        self.area.draw(&Polygon::new(points, colour.filled())).map_err(plot)
    }

    /// A series' mark: circle, square, triangle, diamond, and again. Hollow ones have the background inside.
    pub fn mark(
        &self,
        at: (i32, i32),
        series: usize,
        radius: i32,
        hollow: bool,
        alpha: f64,
    ) -> Result<(), DrawError> {
        let colour = self.theme.series(series).mix(alpha);
        let inside = if hollow { self.theme.background().mix(1.0) } else { colour };
        let (x, y) = at;
        let corners = match series % 4 {
            0 => {
                self.area.draw(&Circle::new(at, radius, inside.filled())).map_err(plot)?;
                if hollow {
                    let style = ShapeStyle { color: colour, filled: false, stroke_width: 2 };
                    self.area.draw(&Circle::new(at, radius, style)).map_err(plot)?;
                }
                return Ok(());
            }
            1 => {
                let r = (radius * 9 / 10).max(2);
                vec![(x - r, y - r), (x + r, y - r), (x + r, y + r), (x - r, y + r)]
            }
            2 => vec![
                (x, y - radius - 1),
                (x + radius + 1, y + radius),
                (x - radius - 1, y + radius),
            ],
            _ => vec![
                (x, y - radius - 1),
                (x + radius + 1, y),
                (x, y + radius + 1),
                (x - radius - 1, y),
            ],
        };
        self.polygon(corners.clone(), inside)?;
        if hollow {
            let mut closed = corners;
            closed.extend(closed.first().copied());
            self.path(closed, colour, 2)?;
        }
        Ok(())
    }
}
