//! Lines over a number, on an axis of base 2.

use super::axis::{Axis, significant};
use super::canvas::{Align, Canvas, DrawError, Face, width};
use super::draw::Frame;
use super::figure::{Line, Panel, Unit};
use plotters::style::Color;

/// Height of a panel's marks, without the axis.
pub(super) const PLOT: i32 = 210;

/// Draws them into `frame`, whose bottom has the axis.
pub(super) fn draw(
    canvas: &Canvas<'_>,
    panel: &Panel,
    (x_label, ticks, lines): (&str, &[f64], &[Line]),
    frame: Frame,
) -> Result<(), DrawError> {
    let theme = canvas.theme;
    let mut values = panel.body.values();
    values.extend(panel.references.iter().map(|r| r.at));
    // Room for the numbers over the points.
    values.extend(
        values
            .iter()
            .copied()
            .fold(None, |a: Option<f64>, v| Some(a.map_or(v, |a| a.max(v))))
            .map(|v| v * 1.08),
    );
    let axis = Axis::new(&values, panel.unit, false);
    let (left, right, top, bottom) = (frame.left + 60, frame.right - 18, frame.top, frame.bottom);
    let y = |value: f64| bottom - (axis.part(value) * f64::from(bottom - top)).round() as i32;
    let (low, high) = (
        ticks.iter().copied().fold(f64::INFINITY, f64::min),
        ticks.iter().copied().fold(0.0, f64::max),
    );
    let x = |value: f64| {
        let part = if high > low { (value / low).log2() / (high / low).log2() } else { 0.5 };
        left + 14 + (part.clamp(0.0, 1.0) * f64::from(right - left - 28)).round() as i32
    };
    let quiet = Face { size: 11.0, bold: false, colour: theme.quiet() };
    for (value, label) in axis.ticks(5) {
        canvas.line((left, y(value)), (right, y(value)), theme.grid().mix(1.0), 1)?;
        canvas.text(&label, (left - 6, y(value)), quiet, Align::Right)?;
    }
    let mut free_from = i32::MIN;
    let size = if ticks.len() > 9 { 9.0 } else { 10.5 };
    for tick in ticks {
        let label = significant(*tick, 6);
        let half = width(&label, size, false) / 2;
        canvas.line((x(*tick), bottom), (x(*tick), bottom + 4), theme.quiet().mix(1.0), 1)?;
        if x(*tick) - half < free_from {
            continue;
        }
        free_from = x(*tick) + half + 2;
        let face = Face { size, ..quiet };
        canvas.text(&label, (x(*tick), bottom + 12), face, Align::Center)?;
    }
    canvas.line((left, bottom), (right, bottom), theme.quiet().mix(1.0), 1)?;
    canvas.text(x_label, (i32::midpoint(left, right), bottom + 28), quiet, Align::Center)?;
    let title = format!("{} [{}], from zero", panel.quantity, axis.symbol());
    canvas.text_turned(
        &title,
        (frame.left + 8, i32::midpoint(top, bottom)),
        quiet,
        Align::Center,
        true,
    )?;
    for reference in &panel.references {
        let at = y(reference.at);
        canvas.dashed((left, at), (right, at), theme.ink().mix(1.0))?;
    }
    // Where lines lie on each other the baseline shows as a wider band under the candidate's.
    let wide = |line: &Line| lines.len() > 1 && line.series == 1;
    for line in lines {
        let stroke = if wide(line) { 6 } else { 2 };
        let mut run: Vec<(i32, i32)> = Vec::new();
        let colour = theme.series(line.series).mix(if wide(line) { 0.5 } else { 1.0 });
        for point in &line.points {
            match point.value {
                Ok(value) => run.push((x(point.x), y(value))),
                Err(_) => canvas.path(std::mem::take(&mut run), colour, stroke)?,
            }
        }
        canvas.path(run, colour, stroke)?;
        for point in &line.points {
            for value in &point.observations {
                canvas.mark((x(point.x), y(*value)), line.series, 2, false, 0.35)?;
            }
        }
    }
    for line in lines {
        draw_points(canvas, panel, line, lines.len() == 1, &axis, &x, &y, bottom)?;
    }
    Ok(())
}

/// The points of a line; with their values where it is the only one.
#[allow(clippy::too_many_arguments)]
fn draw_points(
    canvas: &Canvas<'_>,
    panel: &Panel,
    line: &Line,
    alone: bool,
    axis: &Axis,
    x: &impl Fn(f64) -> i32,
    y: &impl Fn(f64) -> i32,
    bottom: i32,
) -> Result<(), DrawError> {
    let theme = canvas.theme;
    let height = |n: usize| line.points.get(n).and_then(|p| p.value.as_ref().ok()).map(|v| y(*v));
    // Where the last figure over and under the line ended.
    let mut free = [i32::MIN; 2];
    for (n, point) in line.points.iter().enumerate() {
        let Ok(value) = point.value else {
            let face = Face { size: 10.0, bold: false, colour: theme.quiet() };
            canvas.text("gap", (x(point.x), bottom - 8), face, Align::Center)?;
            continue;
        };
        let slower = panel.unit == Unit::Ratio && value < 1.0;
        let at = (x(point.x), y(value));
        let radius = if !alone && line.series == 1 { 6 } else { 4 };
        canvas.mark(at, line.series, radius, slower, 1.0)?;
        if !alone {
            continue;
        }
        let text = axis.shown(value);
        let half = width(&text, 9.5, slower) / 2;
        // Under the point where the line comes down to it, over it elsewhere.
        let falls = [n.checked_sub(1).and_then(height), height(n + 1)]
            .into_iter()
            .flatten()
            .any(|other| other < at.1 - 6)
            // Under the axis there are other figures.
            && at.1 + 20 < bottom;
        let room = |under: bool| {
            at.0 - half >= free[usize::from(under)] && !(under && at.1 + 20 >= bottom)
        };
        let under = match (room(falls), room(!falls)) {
            (true, _) => falls,
            (false, true) => !falls,
            // A loss is always written.
            _ if slower => falls,
            _ => continue,
        };
        let face = Face { size: 9.5, bold: slower, colour: theme.ink() };
        let height = if under { at.1 + 13 } else { at.1 - 12 };
        let behind = theme.background().mix(0.75);
        canvas.rectangle((at.0 - half, height - 6), (at.0 + half, height + 6), behind)?;
        canvas.text(&text, (at.0, height), face, Align::Center)?;
        free[usize::from(under)] = at.0 + half + 3;
    }
    Ok(())
}
