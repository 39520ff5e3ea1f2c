//! Reports as tables of text.

mod of_native;
mod of_published;

use crate::check::{Checked, Document};
use std::fmt::Write as _;

/// A table: a heading, column names, rows.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// What the rows are.
    pub heading: String,
    /// Column names. The first column is left-aligned, the others right-aligned.
    pub columns: Vec<String>,
    /// Cells.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(heading: impl Into<String>, columns: &[&str]) -> Table {
        let columns = columns.iter().map(|&c| c.to_owned()).collect();
        Table { heading: heading.into(), columns, rows: Vec::new() }
    }

    fn write(&self, text: &mut String) {
        let width = |n: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(n));
            cells.chain(self.columns.get(n)).map(|c| c.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut line = |cells: &[String]| {
            for (n, (cell, width)) in cells.iter().zip(&widths).enumerate() {
                let pad = " ".repeat(width - cell.chars().count());
                // Writing to a String can't fail.
                let _ = match n {
                    0 => write!(text, "  {cell}{pad}"),
                    _ => write!(text, "  {pad}{cell}"),
                };
            }
            let end = text.trim_end_matches(' ').len();
            text.truncate(end);
            text.push('\n');
        };
        line(&self.columns);
        for row in &self.rows {
            line(row);
        }
    }
}

/// What a table page says: facts first, then tables, then what has to be said.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// A line about the report.
    pub title: String,
    /// Name and value.
    pub facts: Vec<(String, String)>,
    /// The tables.
    pub tables: Vec<Table>,
    /// Disclosures.
    pub notes: Vec<String>,
}

/// The tables of a report that is good; `None` for one that is not.
pub fn page(report: &Checked) -> Option<Page> {
    if !report.is_good() {
        return None;
    }
    match report.document.as_ref()? {
        Document::Published(published) => Some(of_published::page(published)),
        Document::Native(report) => Some(of_native::page(report)),
    }
}

impl Page {
    /// As text for a terminal. Control characters of the report are not passed on.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", self.title);
        let width = self.facts.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        for (name, value) in &self.facts {
            let _ = writeln!(text, "  {name:<width$}  {value}");
        }
        for table in &self.tables {
            let _ = writeln!(text, "\n{}", table.heading);
            table.write(&mut text);
        }
        if !self.notes.is_empty() {
            text.push('\n');
        }
        for note in &self.notes {
            let _ = writeln!(text, "- {note}");
        }
        text.chars().map(|c| if c.is_control() && c != '\n' { '\u{b7}' } else { c }).collect()
    }
}
