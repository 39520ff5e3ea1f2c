//! The parser of the text form, and the form itself.
//!
//! ```text
//! file 0 "src/softmax.rs"
//! kernel @softmax(%x: tensor<f16, 2>, %out: mut tensor<f16, 2>, %eps: f32) precision(relaxed) {
//!   %row = program_id 0 : i64 @0:14:15
//!   %cols = dim %x, 1 : i64
//!   %0 = constant -inf : f32
//!   %peak = for %start = %low to %cols step %2 (%peak.1 = %0) -> (f32) {
//!     …
//!     yield %5
//!   }
//!   store %out[%row, %4], %7
//!   return
//! }
//! ```
//!
//! Line breaks and blanks are alike; `//` begins a comment that ends with its line. In the grammar,
//! `x,*` is a list of `x` that may be empty, `x,+` one that may not, and `x?` may be left out.
//!
//! ```text
//! text       = file* kernel
//! file       = "file" integer string                    in order from 0; what locations refer to
//! kernel     = "kernel" "@" (name | string) "(" (value ":" type),* ")" attribute* region
//! attribute  = "persistent" | "precision" "(" ("strict" | "relaxed") ")"
//! region     = "{" operation+ "}"                       the last operation, and no other, is an end
//! operation  = (value,+ "=")? (simple (":" type)? location? | control)
//! location   = "@" integer ":" integer ":" integer      file, line, column
//! value      = "%" integer | "%" name ("." integer)?    the name without the number is the hint
//! type       = dtype ("[" integer,+ "]")?               f32, f32[4, 8]
//!            | "mut"? "tensor" "<" format "," integer ">"
//!            | "counters" "<" format "," integer ">"
//!            | ("mut" | "counters")? "list" "<" format "," integer ">"
//!
//! simple     = ("program_id" | "num_programs") integer
//!            | "constant" literal | "arange"
//!            | unary v                                  neg, abs, not, exp, …
//!            | (binary | compare) v "," v               add, sub, …; eq, ne, lt, le, gt, ge
//!            | ("select" | "fma") v "," v "," v
//!            | ("cast" | "bitcast" | "broadcast" | "reshape") v
//!            | "transpose" v "[" integer,* "]"
//!            | "slice" v "axis" integer "start" integer "step" integer
//!            | "cat" "axis" integer v,+
//!            | "gather" v "," v "axis" integer
//!            | "reduce" ("sum" | "max" | "min" | "argmax" | "argmin" | "any" | "all") v "axis" integer
//!            | "scan" ("sum" | "max" | "min") v "axis" integer
//!            | "dot" v "," v "," v "transpose_a"? "transpose_b"?
//!            | "dim" v "," integer
//!            | "narrow" v "," v "," v "axis" integer    tensor, start, length
//!            | "pick" v "," v "axis" integer
//!            | "item" v "," v
//!            | ("load" | "store") v "[" v,* "]" ("mask" v)? "," v
//!            | ("load_tile" | "store_tile") v "[" v,* "]" "," v
//!            | "atomic" ("add" | "max" | "min" | "exchange") v "[" v,* "]" "," v
//!            | "atomic_cas" v "[" v,* "]" "," v "," v   expected, value
//!            | ("counter_add" | "counter_wait") v "," v "," v
//!            | "grid_barrier"
//!            | "assert" v "," string
//!            | "print" string ("," v)*
//! end        = "yield" v,* | "condition" v ("," v)* | "return"
//!
//! control    = "for" value "=" v "to" v "step" v carried? results? location? region
//!            | "while" carried? results? location? region "do" ("(" (value ":" type),+ ")")? region
//!            | "if" v results? location? region "else" region
//! carried    = "(" (value "=" v),+ ")"                  region arguments with their first values
//! results    = "->" "(" type,+ ")"
//! literal    = decimal | "inf" | "-inf" | "nan" ":" hexadecimal | "true" | "false"
//! string     = '"' … '"'                                escapes: \" \\ \n \r \t \u{…}
//! ```
//!
//! `v` is a value that is visible: defined before, in the same region or one around it. A name is
//! given once where it is visible; regions beside each other may use a name each. The index of `for`
//! is an `i64`, and the arguments of `carried` have the types of the results. A `constant` is of the
//! dtype that follows; decimals are rounded to it, and refused if out of its range.
//!
//! What comes out is well-formed: handles, regions, ends and visibility are as they should be, and
//! operands are as many as the form demands. Types are taken from the text;
//! [`verify`](super::verify) checks them.

mod control;
mod lexer;
mod memory;
mod operations;
mod types;

use self::lexer::{BadToken, Lexer, Token, described, shortened, unescaped};
use super::verify::{MAX_NESTING, MAX_OPS};
use super::{Definition, Kernel, OpKind, Precision, Type, Value, ValueData};
use crate::diagnostic::Diagnostic;
use crate::span::{Snippet, SourceFile, Span};
use std::collections::HashMap;

/// The longest text that is read, in bytes.
pub const MAX_TEXT: usize = 64 << 20;

/// The most entries of one list: what one line of text may ask for is bounded.
const MAX_LIST: usize = 1 << 16;

/// The most values of a kernel.
const MAX_VALUES: usize = 1 << 22;

type Parsed<T> = Result<T, Box<Diagnostic>>;

/// Reads a kernel. `name` is what the text is called in messages.
///
/// # Errors
/// The first thing that is not as [the grammar](self) says, and what was expected. Its span points
/// into the text, as file 0: [`Diagnostic::render`] shows it, given the file [`source`] makes.
pub fn parse(name: &str, text: &str) -> Result<Kernel, Box<Diagnostic>> {
    if text.len() > MAX_TEXT {
        return Err(Box::new(Diagnostic::error(format!(
            "{name} has {} bytes; a text has at most {MAX_TEXT}",
            text.len()
        ))));
    }
    let mut parser = Parser {
        text,
        lexer: Lexer::new(text),
        token: Token::End,
        start: 0,
        kernel: Kernel::new(""),
        visible: HashMap::new(),
        shown: Vec::new(),
        hidden: HashMap::new(),
        depth: 0,
    };
    parser.advance()?;
    parser.text(name)?;
    Ok(parser.kernel)
}

/// The text as the file that the spans of [`parse`]'s errors point into.
pub fn source(name: &str, text: &str) -> SourceFile {
    let snippet = Snippet { first_line: 1, first_column: 1, text: text.to_owned() };
    SourceFile { name: name.to_owned(), snippets: vec![snippet] }
}

struct Parser<'t> {
    text: &'t str,
    lexer: Lexer<'t>,
    /// The token to look at next, and where it starts.
    token: Token<'t>,
    start: usize,
    kernel: Kernel,
    /// The values that may be used here.
    visible: HashMap<&'t str, Value>,
    /// Their names, in order of definition: a region's are taken back where it ends.
    shown: Vec<(&'t str, usize)>,
    /// Where names of regions that have ended were defined, for messages.
    hidden: HashMap<&'t str, usize>,
    /// Regions around the current place.
    depth: usize,
}

/// A name that is given to a value, and where.
type Name<'t> = (&'t str, usize);

impl<'t> Parser<'t> {
    /// Everything.
    fn text(&mut self, name: &str) -> Parsed<()> {
        if self.token == Token::End {
            return Err(self.fail(self.start, format!("{name} holds no kernel")).into());
        }
        while self.token == Token::Word("file") {
            self.file()?;
        }
        self.word("kernel")?;
        self.header()?;
        let body = self.kernel.body;
        let shown = self.shown.len();
        self.region(body, &OpKind::Return, shown)?;
        match self.token {
            Token::End => Ok(()),
            Token::Word("kernel") => {
                Err(self.fail(self.start, "a text holds one kernel, not two".to_owned()).into())
            }
            _ => Err(self.expected("the end of the text after the kernel")),
        }
    }

    fn file(&mut self) -> Parsed<()> {
        self.advance()?;
        let (offset, next) = (self.start, self.kernel.files.len());
        let number = self.integer("the number of the file", u64::from(u32::MAX))?;
        if number != next as u64 {
            return Err(self
                .fail(offset, format!("this is file {next}, not {number}"))
                .hint("files are numbered in order from 0")
                .into());
        }
        let name = self.string("the name of the file")?;
        self.kernel.files.push(SourceFile::named(name));
        Ok(())
    }

    /// From `@` to before the body.
    fn header(&mut self) -> Parsed<()> {
        self.mark('@')?;
        self.kernel.name = match self.token {
            Token::Word(name) => {
                self.advance()?;
                name.to_owned()
            }
            _ => self.string("the name of the kernel")?,
        };
        self.mark('(')?;
        let parameters = self.list(')', |p| p.typed_name())?;
        for (n, (name, ty)) in parameters.into_iter().enumerate() {
            let value = self.define(name, ty, Definition::Parameter(n as u32))?;
            self.kernel.parameters.push(value);
        }
        loop {
            match self.token {
                Token::Word("persistent") if !self.kernel.persistent => {
                    self.advance()?;
                    self.kernel.persistent = true;
                }
                Token::Word("precision") => {
                    self.advance()?;
                    self.mark('(')?;
                    self.kernel.precision = match self.token {
                        Token::Word("strict") => Precision::Strict,
                        Token::Word("relaxed") => Precision::Relaxed,
                        _ => return Err(self.expected("`strict` or `relaxed`")),
                    };
                    self.advance()?;
                    self.mark(')')?;
                }
                Token::Mark('{') => return Ok(()),
                _ => return Err(self.expected("`persistent`, `precision` or `{`")),
            }
        }
    }

    /// `%x: tensor<f16, 2>`.
    fn typed_name(&mut self) -> Parsed<(Name<'t>, Type)> {
        let name = self.new_name()?;
        self.mark(':')?;
        Ok((name, self.ty()?))
    }

    /// Entries separated by commas up to `close`, which is passed.
    fn list<T>(
        &mut self,
        close: char,
        mut entry: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        let mut entries = Vec::new();
        if self.eat(close)? {
            return Ok(entries);
        }
        loop {
            self.room(entries.len())?;
            entries.push(entry(self)?);
            if self.eat(close)? {
                return Ok(entries);
            }
            if !self.eat(',')? {
                return Err(self.expected(&format!("`,` or `{close}`")));
            }
        }
    }

    /// Refuses the entry that would make a list too long.
    fn room(&self, entries: usize) -> Parsed<()> {
        if entries < MAX_LIST {
            return Ok(());
        }
        Err(self.fail(self.start, format!("a list has at most {MAX_LIST} entries")).into())
    }

    fn advance(&mut self) -> Parsed<()> {
        let (token, start) = self.lexer.next().map_err(|bad| self.bad(0, bad))?;
        (self.token, self.start) = (token, start);
        Ok(())
    }

    /// Passes `c` if it is next.
    fn eat(&mut self, c: char) -> Parsed<bool> {
        let found = self.token == Token::Mark(c);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn mark(&mut self, c: char) -> Parsed<()> {
        if self.eat(c)? {
            return Ok(());
        }
        Err(self.expected(&format!("`{c}`")))
    }

    fn word(&mut self, word: &'static str) -> Parsed<()> {
        if self.token == Token::Word(word) {
            return self.advance();
        }
        Err(self.expected(&format!("`{word}`")))
    }

    /// An integer from 0 to `max`.
    fn integer(&mut self, what: &str, max: u64) -> Parsed<u64> {
        let Token::Number(digits) = self.token else {
            return Err(self.expected(what));
        };
        if !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(self.expected(&format!("{what}, an integer of decimal digits")));
        }
        match digits.parse::<u64>().ok().filter(|&n| n <= max) {
            Some(n) => {
                self.advance()?;
                Ok(n)
            }
            None => Err(self
                .fail(self.start, format!("{} is too large for {what}", shortened(digits)))
                .hint(format!("at most {max} is allowed"))
                .into()),
        }
    }

    fn string(&mut self, what: &str) -> Parsed<String> {
        let Token::Text(written) = self.token else {
            return Err(self.expected(&format!("{what} in quotes")));
        };
        let text = unescaped(written).map_err(|bad| self.bad(self.start + 1, bad))?;
        self.advance()?;
        Ok(text)
    }

    /// A value that is visible.
    fn value(&mut self) -> Parsed<Value> {
        let Token::Value(name) = self.token else {
            return Err(self.expected("a value"));
        };
        if let Some(&value) = self.visible.get(name) {
            self.advance()?;
            return Ok(value);
        }
        let name_shown = shortened(name);
        let Some(&offset) = self.hidden.get(name) else {
            return Err(self
                .fail(self.start, format!("`%{name_shown}` is not defined before it is used"))
                .into());
        };
        let mut error = self.fail(self.start, format!("`%{name_shown}` is not visible here"));
        error.related.push((
            self.span(offset),
            "it is defined here, in a region that has ended; give it as a result".to_owned(),
        ));
        Err(error.into())
    }

    /// A name for a value to be defined.
    fn new_name(&mut self) -> Parsed<Name<'t>> {
        let Token::Value(name) = self.token else {
            return Err(self.expected("a name such as `%x`"));
        };
        let offset = self.start;
        self.advance()?;
        Ok((name, offset))
    }

    /// Makes a value and shows it under its name.
    fn define(&mut self, name: Name<'t>, ty: Type, definition: Definition) -> Parsed<Value> {
        let (name, offset) = name;
        if self.kernel.values.len() >= MAX_VALUES {
            return Err(self
                .fail(offset, format!("a kernel has at most {MAX_VALUES} values"))
                .into());
        }
        // `row.1` is the second `row`; numbers stand for no name at all.
        let hint = name.split('.').next().filter(|h| !h.starts_with(|c: char| c.is_ascii_digit()));
        let value =
            self.kernel.values.push(ValueData { ty, definition, name: hint.map(str::to_owned) });
        if self.visible.insert(name, value).is_none() {
            self.shown.push((name, offset));
            return Ok(value);
        }
        let mut error = self.fail(offset, format!("`%{}` is defined twice", shortened(name)));
        if let Some(&(_, first)) = self.shown.iter().find(|(n, _)| *n == name) {
            error.related.push((self.span(first), "the first definition".to_owned()));
        }
        Err(error.into())
    }

    /// That something else than `what` was found.
    fn expected(&self, what: &str) -> Box<Diagnostic> {
        let found = described(self.token);
        Box::new(self.fail(self.start, format!("expected {what}, found {found}")))
    }

    fn bad(&self, base: usize, bad: BadToken) -> Box<Diagnostic> {
        Box::new(self.fail(base + bad.offset, bad.message))
    }

    /// An error about the text at `offset`.
    fn fail(&self, offset: usize, message: String) -> Diagnostic {
        Diagnostic::error(message).at(Some(self.span(offset))).in_kernel(&self.kernel.name)
    }

    /// The place of a byte of the text.
    fn span(&self, offset: usize) -> Span {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line = before.rsplit('\n').next().unwrap_or_default();
        // A text has less than 2^32 bytes.
        let lines = before.bytes().filter(|&b| b == b'\n').count() as u32;
        Span { file: 0, line: lines + 1, column: line.chars().count() as u32 + 1 }
    }
}
