//! Errors and warnings about a kernel: what rule was broken, where, and what would satisfy it.

use crate::span::{SourceFile, Span};
use std::fmt;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// The kernel is refused.
    Error,
    /// The kernel runs; what it did is defined, but likely not meant.
    Warning,
}

/// One finding about a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// The name of the kernel, as `softmax`.
    pub kernel: String,
    /// What is wrong, in one sentence.
    pub message: String,
    /// Where, if known.
    pub span: Option<Span>,
    /// What stands at the span: "this has shape [4, 8]".
    pub label: String,
    /// What would be right.
    pub hint: Option<String>,
    /// Further places: the callers of the helper the span lies in.
    pub related: Vec<(Span, String)>,
}

impl Diagnostic {
    /// An error without a place yet.
    pub fn error(message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            kernel: String::new(),
            message: message.into(),
            span: None,
            label: String::new(),
            hint: None,
            related: Vec::new(),
        }
    }

    /// A warning without a place yet.
    pub fn warning(message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(message) }
    }

    /// Adds what would be right.
    pub fn hint(mut self, hint: impl Into<String>) -> Diagnostic {
        self.hint = Some(hint.into());
        self
    }

    /// Adds what stands at the span.
    pub fn label(mut self, label: impl Into<String>) -> Diagnostic {
        self.label = label.into();
        self
    }

    /// Adds the place.
    pub fn at(mut self, span: Option<Span>) -> Diagnostic {
        self.span = span;
        self
    }

    /// Adds the kernel's name.
    pub fn in_kernel(mut self, kernel: &str) -> Diagnostic {
        self.kernel = kernel.to_owned();
        self
    }

    /// The finding as text with the source line and a caret, ending in a newline.
    pub fn render(&self, files: &[SourceFile]) -> String {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let mut out = if self.kernel.is_empty() {
            format!("{severity}: {}\n", self.message)
        } else {
            format!("{severity}: kernel `{}`: {}\n", self.kernel, self.message)
        };
        if let Some(span) = self.span {
            out.push_str(&render_place(files, span, &self.label));
        }
        for (span, label) in &self.related {
            out.push_str(&format!("note: {label}\n"));
            out.push_str(&render_place(files, *span, ""));
        }
        if let Some(hint) = &self.hint {
            out.push_str("  = help: ");
            out.push_str(hint);
            out.push('\n');
        }
        out
    }
}

impl std::error::Error for Diagnostic {}

impl fmt::Display for Diagnostic {
    /// The message alone; [`Diagnostic::render`] shows the source line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.kernel.is_empty() {
            write!(f, "kernel `{}`: ", self.kernel)?;
        }
        f.write_str(&self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, " ({hint})")?;
        }
        Ok(())
    }
}

/// `--> file:line:column`, the line, and carets with the label below it.
fn render_place(files: &[SourceFile], span: Span, label: &str) -> String {
    let unknown = SourceFile::named("<unknown>");
    let file = files.get(span.file as usize).unwrap_or(&unknown);
    let gutter = span.line.to_string().len();
    let mut out = format!("{:gutter$}--> {}:{}:{}\n", "", file.name, span.line, span.column);
    let Some(text) = file.line(span.line) else {
        if !label.is_empty() {
            out.push_str(&format!("{:gutter$} = {label}\n", ""));
        }
        return out;
    };
    let (text, column) = window(&text, span.column);
    let (pad, width) = caret_extent(&text, column);
    let (pad, carets) = (" ".repeat(pad), "^".repeat(width));
    out.push_str(&format!("{:gutter$} |\n", ""));
    out.push_str(&format!("{} | {}\n", span.line, text.replace('\t', " ").trim_end()));
    out.push_str(format!("{:gutter$} | {pad}{carets} {label}", "").trim_end());
    out.push('\n');
    out
}

/// The part of a long line around the column, and the column in it.
fn window(line: &str, column: u32) -> (String, u32) {
    const WIDTH: usize = 160;
    let at = (column.saturating_sub(1)) as usize;
    let skip = at.saturating_sub(WIDTH / 2);
    if skip == 0 {
        return (line.chars().take(WIDTH).collect(), column);
    }
    let part: String = line.chars().skip(skip).take(WIDTH).collect();
    (format!("…{part}"), (at - skip + 2) as u32)
}

/// Columns before the caret, and how many carets: a name with its call's parentheses, or one
/// character. The tracer knows where an expression starts, not where it ends.
fn caret_extent(line: &str, column: u32) -> (usize, usize) {
    let chars: Vec<char> = line.chars().collect();
    let start = (column.saturating_sub(1) as usize).min(chars.len());
    let name = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | '.' | '!');
    let mut end = start;
    while end < chars.len() && name(chars[end]) {
        end += 1;
    }
    if end > start && chars.get(end) == Some(&'(') {
        let mut depth = 0;
        for (i, c) in chars.iter().enumerate().skip(end) {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                end = i + 1;
                break;
            }
        }
    }
    (start, (end - start).max(1))
}
