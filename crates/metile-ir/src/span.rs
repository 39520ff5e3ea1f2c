//! Where in the user's source an operation was written.

/// A position in one of a kernel's source files: 1-based line and column, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// Index into the kernel's [`SourceFile`]s.
    pub file: u32,
    /// 1-based line.
    pub line: u32,
    /// 1-based column, counted in characters.
    pub column: u32,
}

/// A source file that spans point into, with as much of its text as is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// The path as the compiler that built the kernel saw it.
    pub name: String,
    /// The known stretches of text, in order of their first lines.
    pub snippets: Vec<Snippet>,
}

/// A run of source text that starts at `first_line` and `first_column`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snippet {
    /// 1-based line of the first character.
    pub first_line: u32,
    /// 1-based column of the first character.
    pub first_column: u32,
    /// The text.
    pub text: String,
}

impl SourceFile {
    /// A file of which only the name is known.
    pub fn named(name: impl Into<String>) -> SourceFile {
        SourceFile { name: name.into(), snippets: Vec::new() }
    }

    /// The text of `line`, padded on the left where the start of the line is unknown.
    pub fn line(&self, line: u32) -> Option<String> {
        self.snippets.iter().find_map(|s| {
            let nth = line.checked_sub(s.first_line)?;
            let text = s.text.lines().nth(nth as usize)?;
            let pad = if nth == 0 { s.first_column.saturating_sub(1) as usize } else { 0 };
            Some(format!("{}{text}", " ".repeat(pad.min(4096))))
        })
    }
}
