//! Horizontal bars from zero, with the observations behind each as dots.

use super::axis::Axis;
use super::canvas::{Align, Canvas, DrawError, Face, width, wrap};
use super::draw::Frame;
use super::figure::{BarGroup, Panel, Unit};
use plotters::style::Color;

const BAR: i32 = 15;
const GAP: i32 = 4;
const GROUP: i32 = 10;
const LABEL: f64 = 11.5;
const LABEL_LIMIT: i32 = 250;

fn group_height(group: &BarGroup, limit: i32) -> i32 {
    let bars = group.bars.len() as i32 * (BAR + GAP);
    let lines = label_lines(group, limit).len() as i32;
    bars.max(lines * 15) + GROUP
}

/// Lines of a group's label, broken where it says so and where they are too long.
fn label_lines(group: &BarGroup, limit: i32) -> Vec<String> {
    group.label.split('\n').flat_map(|line| wrap(line, LABEL, limit)).collect()
}

fn label_limit(panel_width: i32) -> i32 {
    LABEL_LIMIT.min(panel_width * 2 / 5)
}

/// Height of the marks of a panel that is `panel_width` wide.
pub(super) fn height(groups: &[BarGroup], panel_width: i32) -> i32 {
    let limit = label_limit(panel_width);
    groups.iter().map(|g| group_height(g, limit)).sum::<i32>() + 8
}

/// Draws them into `frame`, whose bottom has the axis.
pub(super) fn draw(
    canvas: &Canvas<'_>,
    panel: &Panel,
    groups: &[BarGroup],
    frame: Frame,
) -> Result<(), DrawError> {
    let theme = canvas.theme;
    let limit = label_limit(frame.width());
    let mut values = panel.body.values();
    values.extend(panel.references.iter().map(|r| r.at));
    let axis = Axis::new(&values, panel.unit, false);
    let labels = groups
        .iter()
        .flat_map(|g| label_lines(g, limit))
        .map(|line| width(&line, LABEL, false))
        .max()
        .unwrap_or(0);
    let words = |bar: &super::figure::Bar| -> String {
        match &bar.value {
            Ok(value) => {
                let slower = panel.unit == Unit::Ratio && *value < 1.0;
                let slower = if slower { " slower" } else { "" };
                let note =
                    if bar.note.is_empty() { String::new() } else { format!(" · {}", bar.note) };
                format!("{}{slower}{note}", axis.shown(*value))
            }
            Err(why) => format!("no value: {why}"),
        }
    };
    let (left, bottom) = (frame.left + labels + 10, frame.bottom);
    // The words stand right of all marks, so that none covers a dot.
    let room = groups
        .iter()
        .flat_map(|g| &g.bars)
        .filter(|bar| bar.value.is_ok())
        .map(|bar| width(&words(bar), 11.0, true))
        .max()
        .unwrap_or(0)
        .min(frame.width() / 3);
    let right = (frame.right - room - 14).max(left + 60);
    let x = |value: f64| left + (axis.part(value) * f64::from(right - left)).round() as i32;
    let quiet = Face { size: 11.0, bold: false, colour: theme.quiet() };
    for (value, label) in axis.ticks(((right - left) / 75).max(2) as usize) {
        canvas.line((x(value), frame.top), (x(value), bottom), theme.grid().mix(1.0), 1)?;
        canvas.text(&label, (x(value), bottom + 11), quiet, Align::Center)?;
    }
    let mut y = frame.top + 6;
    for group in groups {
        let height = group_height(group, limit) - GROUP;
        let lines = label_lines(group, limit);
        let first = y + height / 2 - (lines.len() as i32 - 1) * 15 / 2;
        for (n, line) in lines.iter().enumerate() {
            let face = Face { size: LABEL, bold: false, colour: theme.ink() };
            canvas.text(line, (left - 8, first + n as i32 * 15), face, Align::Right)?;
        }
        let mut top = y + (height - group.bars.len() as i32 * (BAR + GAP)) / 2;
        for (n, bar) in group.bars.iter().enumerate() {
            let colour = theme.series(bar.series);
            let middle = top + BAR / 2;
            let mut end = left;
            if let Ok(value) = bar.value {
                let alpha = if bar.observations.is_empty() { 1.0 } else { 0.4 };
                canvas.rectangle((left, top), (x(value), top + BAR), colour.mix(alpha))?;
                end = x(value);
                if !bar.observations.is_empty() {
                    canvas.line((end, top - 2), (end, top + BAR + 2), theme.ink().mix(1.0), 3)?;
                }
            }
            if let Some((low, high)) = bar.interval {
                let y = top + BAR + 1;
                canvas.line((x(low), y), (x(high), y), theme.ink().mix(1.0), 1)?;
                for at in [low, high] {
                    canvas.line((x(at), y - 3), (x(at), y + 3), theme.ink().mix(1.0), 1)?;
                }
            }
            for (nth, value) in bar.observations.iter().enumerate() {
                let jitter = [0, -4, 4, -2, 2][nth % 5];
                canvas.mark((x(*value), middle + jitter), bar.series, 2, false, 0.9)?;
                end = end.max(x(*value));
            }
            let missing = bar.value.is_err();
            let mut at = if bar.observations.is_empty() { end + 6 } else { right + 8 };
            let wide = width(&words(bar), 11.0, true);
            for line in panel.references.iter().map(|r| x(r.at)) {
                if at <= line + 3 && line <= at + wide && !missing {
                    at = line + 6;
                }
            }
            // The same reason is said once.
            if missing && n > 0 && group.bars[0].value == bar.value {
                top += BAR + GAP;
                continue;
            }
            let colour = if missing { theme.quiet() } else { theme.ink() };
            let slower = matches!(bar.value, Ok(v) if panel.unit == Unit::Ratio && v < 1.0);
            let face = Face { size: 11.0, bold: slower, colour };
            canvas.text(&words(bar), (at, middle), face, Align::Left)?;
            top += BAR + GAP;
        }
        y += height + GROUP;
    }
    canvas.line((left, frame.top), (left, bottom), theme.quiet().mix(1.0), 1)?;
    for reference in &panel.references {
        let at = x(reference.at);
        canvas.dashed((at, frame.top - 4), (at, bottom), theme.ink().mix(1.0))?;
        canvas.text(&reference.label, (at, frame.top - 11), quiet, Align::Center)?;
    }
    let unit = axis.symbol();
    let title = format!("{} [{unit}], from zero", panel.quantity);
    canvas.text(&title, (i32::midpoint(left, right), bottom + 28), quiet, Align::Center)
}
