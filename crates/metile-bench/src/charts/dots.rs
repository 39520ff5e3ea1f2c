//! Every observation a dot, in columns, with the median marked.

use super::axis::Axis;
use super::canvas::{Align, Canvas, DrawError, Face, width, wrap};
use super::draw::Frame;
use super::figure::{DotColumn, DotGroup, Panel, Scale};
use super::outline::outline;
use plotters::style::Color;

/// Height of the plot itself.
pub(super) const PLOT: i32 = 250;
const LABEL: f64 = 11.0;

fn group_width(groups: &[DotGroup], plot: i32) -> i32 {
    plot / groups.len().max(1) as i32
}

fn label_lines(group: &DotGroup, limit: i32) -> Vec<String> {
    group.label.split('\n').flat_map(|line| wrap(line, LABEL, limit - 8)).collect()
}

/// Height of a panel's marks with the medians and labels under them.
pub(super) fn height(groups: &[DotGroup], panel_width: i32) -> i32 {
    let plot = panel_width - 66;
    let limit = group_width(groups, plot);
    let lines = groups.iter().map(|g| label_lines(g, limit).len()).max().unwrap_or(1) as i32;
    let notes = groups.iter().flat_map(|g| &g.columns).any(|c| !c.note.is_empty());
    PLOT + 24 + if notes { 14 } else { 0 } + lines * 14
}

/// Draws them into `frame`, whose height is [`height`]'s.
pub(super) fn draw(
    canvas: &Canvas<'_>,
    panel: &Panel,
    groups: &[DotGroup],
    scale: Scale,
    frame: Frame,
) -> Result<(), DrawError> {
    let theme = canvas.theme;
    let mut values = panel.body.values();
    values.extend(panel.references.iter().map(|r| r.at));
    let axis = match scale {
        Scale::FromZero => Axis::new(&values, panel.unit, false),
        Scale::Log => Axis::new(&values, panel.unit, true),
        Scale::Around => Axis::around(&values, panel.unit),
    };
    let (left, right, top, bottom) =
        (frame.left + 60, frame.right - 6, frame.top, frame.top + PLOT);
    let y = |value: f64| bottom - (axis.part(value) * f64::from(bottom - top)).round() as i32;
    let quiet = Face { size: LABEL, bold: false, colour: theme.quiet() };
    for (value, label) in axis.ticks(6) {
        canvas.line((left, y(value)), (right, y(value)), theme.grid().mix(1.0), 1)?;
        canvas.text(&label, (left - 6, y(value)), quiet, Align::Right)?;
    }
    canvas.line((left, bottom), (right, bottom), theme.quiet().mix(1.0), 1)?;
    let scale = match scale {
        Scale::FromZero => "from zero",
        Scale::Log => "log scale",
        Scale::Around => "not from zero",
    };
    let title = format!("{} [{}], {scale}", panel.quantity, axis.symbol());
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
        canvas.text(&reference.label, (right, at - 8), quiet, Align::Right)?;
    }
    let group = group_width(groups, right - left);
    let notes = groups.iter().flat_map(|g| &g.columns).any(|c| !c.note.is_empty());
    for (n, of) in groups.iter().enumerate() {
        let start = left + n as i32 * group;
        let column = (group - 10) / of.columns.len().max(1) as i32;
        for (m, set) in of.columns.iter().enumerate() {
            let middle = start + 5 + column * m as i32 + column / 2;
            draw_column(canvas, set, &axis, (middle, column / 2 - 4), &y, (top, bottom))?;
            let face = Face { size: 10.5, bold: false, colour: theme.ink() };
            if let Some(center) = set.center {
                let mut text = axis.shown(center);
                // The axis has the unit, where there is no room for it here.
                if width(&text, face.size, false) > column
                    && let Some((number, _)) = text.split_once(' ')
                {
                    text = number.to_owned();
                }
                // Medians of narrow columns are set smaller before they touch.
                let room = f64::from(column - 3) / f64::from(width(&text, face.size, false));
                let face = Face { size: (face.size * room).clamp(7.0, face.size), ..face };
                canvas.text(&text, (middle, bottom + 12), face, Align::Center)?;
            }
            if !set.note.is_empty() {
                let face = Face { bold: true, ..face };
                canvas.text(&set.note, (middle, bottom + 26), face, Align::Center)?;
            }
        }
        let first = bottom + 28 + if notes { 14 } else { 0 };
        for (line, text) in label_lines(of, group).iter().enumerate() {
            let at = (start + group / 2, first + line as i32 * 14);
            canvas.text(
                text,
                at,
                Face { size: LABEL, bold: false, colour: theme.ink() },
                Align::Center,
            )?;
        }
        if n > 0 {
            canvas.line((start, top), (start, bottom), theme.grid().mix(1.0), 1)?;
        }
    }
    Ok(())
}

fn draw_column(
    canvas: &Canvas<'_>,
    set: &DotColumn,
    axis: &Axis,
    (middle, half): (i32, i32),
    y: &impl Fn(f64) -> i32,
    (top, bottom): (i32, i32),
) -> Result<(), DrawError> {
    let theme = canvas.theme;
    let observations = match &set.observations {
        Ok(observations) => observations,
        Err(why) => {
            let face = Face { size: 10.5, bold: false, colour: theme.quiet() };
            let at = (middle, i32::midpoint(top, bottom));
            return canvas.text_turned(&format!("no value: {why}"), at, face, Align::Center, true);
        }
    };
    let half = half.clamp(6, 46);
    if let Some(shape) = set.outline.then(|| outline(observations)).flatten() {
        let right = shape.iter().map(|&(v, d)| (middle + (d * f64::from(half)) as i32, y(v)));
        let left = shape.iter().rev().map(|&(v, d)| (middle - (d * f64::from(half)) as i32, y(v)));
        let mut points: Vec<(i32, i32)> = right.chain(left).collect();
        canvas.polygon(points.clone(), theme.series(set.series).mix(0.22))?;
        points.extend(points.first().copied());
        canvas.path(points, theme.series(set.series).mix(0.7), 1)?;
    }
    if let Some(center) = set.center.filter(|c| axis.holds(*c)) {
        let at = y(center);
        canvas.line((middle - half, at), (middle + half, at), theme.ink().mix(1.0), 2)?;
    }
    for (x, at) in swarm(observations, y, middle, half) {
        canvas.mark((x, at), set.series, 3, false, 0.85)?;
    }
    Ok(())
}

/// Places dots so that none hides another, as far as there is room: each at its height, sideways as near to the
/// middle as is free.
fn swarm(values: &[f64], y: impl Fn(f64) -> i32, middle: i32, half: i32) -> Vec<(i32, i32)> {
    const STEP: i32 = 7;
    let mut placed: Vec<(i32, i32)> = Vec::with_capacity(values.len());
    // Beyond this dots cover each other anyway, and looking for room would be quadratic.
    const LOOKED_AT: usize = 400;
    for value in values {
        let at = y(*value);
        let free = |x: i32, placed: &[(i32, i32)]| {
            placed
                .iter()
                .rev()
                .take(LOOKED_AT)
                .all(|&(px, py)| (px - x).pow(2) + (py - at).pow(2) >= (STEP - 1).pow(2))
        };
        let reach = half / STEP;
        let spot = (0..=reach)
            .flat_map(|n| [middle + n * STEP, middle - n * STEP])
            .find(|&x| free(x, &placed))
            .unwrap_or(middle);
        placed.push((spot, at));
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_at_one_height_stand_side_by_side() {
        let places = swarm(&[1.0; 5], |_| 10, 100, 40);
        let mut xs: Vec<i32> = places.iter().map(|p| p.0).collect();
        xs.sort_unstable();
        assert_eq!(xs, [86, 93, 100, 107, 114]);
    }
}
