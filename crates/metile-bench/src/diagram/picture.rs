//! Boxes in rows with arrows between them, as SVG. Colours follow the reader's light or dark setting.

use std::fmt::Write as _;

const WIDE: usize = 330;
const GAP: usize = 40;
const MARGIN: usize = 24;
const LINE: usize = 17;
/// Characters of a line: what fits a box in the widest common sans-serif.
const CHARACTERS: usize = 44;

/// What a box stands for; a word in the picture says it as well.
#[derive(Clone, Copy, Debug)]
pub(super) enum Look {
    Data,
    Work,
    Idle,
}

/// A box that was drawn: left, top, width, height.
pub(super) type Place = (usize, usize, usize, usize);

/// A picture that grows downwards.
pub(super) struct Picture {
    title: String,
    body: String,
    notes: Vec<String>,
    top: usize,
    lowest: usize,
    right: usize,
}

fn escape(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { '\u{b7}' } else { c }).collect();
    clean.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn wrap(text: &str, limit: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let Some(line) = lines.last_mut() else { break };
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > limit {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

impl Picture {
    pub fn new(title: &str) -> Picture {
        let top = MARGIN + 40;
        Picture {
            title: title.to_owned(),
            body: String::new(),
            notes: Vec::new(),
            top,
            lowest: top,
            right: 0,
        }
    }

    pub fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }

    /// A box in the current row.
    pub fn boxed(&mut self, column: usize, title: &str, lines: &[String], look: Look) -> Place {
        let left = MARGIN + column * (WIDE + GAP);
        let titles = wrap(title, CHARACTERS - 4);
        let lines: Vec<String> = lines.iter().flat_map(|line| wrap(line, CHARACTERS)).collect();
        let height = 14 + (titles.len() + lines.len()) * LINE;
        let class = match look {
            Look::Data => "data",
            Look::Work => "work",
            Look::Idle => "idle",
        };
        let _ = write!(
            self.body,
            "<rect class=\"{class}\" x=\"{left}\" y=\"{}\" width=\"{WIDE}\" height=\"{height}\" rx=\"6\"/>",
            self.top
        );
        let bold = titles.iter().map(|line| (line, "head"));
        for (n, (line, class)) in bold.chain(lines.iter().map(|line| (line, "line"))).enumerate() {
            let y = self.top + 20 + n * LINE;
            let _ = write!(
                self.body,
                "<text class=\"{class}\" x=\"{}\" y=\"{y}\">{}</text>",
                left + 12,
                escape(line)
            );
        }
        self.lowest = self.lowest.max(self.top + height);
        self.right = self.right.max(left + WIDE);
        (left, self.top, WIDE, height)
    }

    pub fn next_row(&mut self) {
        self.top = self.lowest + GAP;
    }

    /// An arrow from one box to another, beside or below it.
    pub fn arrow(&mut self, from: Place, to: Place) {
        let middle = |p: Place| p.1 + p.3 / 2;
        let (x1, y1, x2, y2) = if from.1 == to.1 {
            let y = middle(from).min(middle(to));
            (from.0 + from.2, y, to.0, y)
        } else {
            (from.0 + from.2 / 2, from.1 + from.3, to.0 + to.2 / 2, to.1)
        };
        let bend = y1.midpoint(y2);
        let path = if y1 == y2 || x1 == x2 {
            format!("M{x1} {y1} L{x2} {y2}")
        } else {
            format!("M{x1} {y1} L{x1} {bend} L{x2} {bend} L{x2} {y2}")
        };
        let _ = write!(self.body, "<path class=\"arrow\" d=\"{path}\" marker-end=\"url(#end)\"/>");
    }

    pub fn svg(self) -> String {
        let width = (self.right + MARGIN).max(760);
        let notes: Vec<String> = self.notes.iter().flat_map(|note| wrap(note, width / 8)).collect();
        let height = self.lowest + MARGIN + notes.len() * LINE + 10;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\">\n<title>{}</title>\n<style>{}</style>\n\
             <defs><marker id=\"end\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
             orient=\"auto\"><path class=\"tip\" d=\"M0 0 L8 4 L0 8 Z\"/></marker></defs>\n\
             <rect class=\"back\" width=\"{width}\" height=\"{height}\"/>\n<text class=\"title\" x=\"{MARGIN}\" y=\"38\">{}</text>\n",
            escape(&self.title),
            STYLE,
            escape(&self.title)
        );
        svg.push_str(&self.body);
        for (n, line) in notes.iter().enumerate() {
            let y = self.lowest + MARGIN + 10 + n * LINE;
            let _ = write!(
                svg,
                "<text class=\"line\" x=\"{MARGIN}\" y=\"{y}\">{}</text>",
                escape(line)
            );
        }
        svg.push_str("\n</svg>\n");
        svg
    }
}

const STYLE: &str = "\
text{font-family:'DejaVu Sans',Verdana,sans-serif;fill:#1a1c20;font-size:12px}\
.title{font-size:18px;font-weight:bold}.head{font-weight:bold;font-size:12.5px}\
.back{fill:#fff}.data{fill:#e3eefb;stroke:#005fa0;stroke-width:1.5}\
.work{fill:#fdeadb;stroke:#cd5500;stroke-width:1.5}\
.idle{fill:#fff;stroke:#54585f;stroke-dasharray:5 3}\
.arrow{fill:none;stroke:#54585f;stroke-width:1.5}.tip{fill:#54585f}\
@media (prefers-color-scheme:dark){text{fill:#eceef1}.back{fill:#14161a}.data{fill:#12304a;stroke:#56b4e9}\
.work{fill:#4a2a10;stroke:#ee8228}.idle{fill:#14161a;stroke:#aab0ba}.arrow{stroke:#aab0ba}.tip{fill:#aab0ba}}";
