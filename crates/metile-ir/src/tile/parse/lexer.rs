//! Splitting text into tokens, one at a time: the tokens of a large text are never all held.

/// A token; the strings are pieces of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'t> {
    /// `%row.1`, without the `%`.
    Value(&'t str),
    /// A name or keyword.
    Word(&'t str),
    /// A number as written, sign included.
    Number(&'t str),
    /// What stands between the quotes of a string, escapes as written.
    Text(&'t str),
    /// `->`.
    Arrow,
    /// Any other character that has a meaning.
    Mark(char),
    /// The end of the text.
    End,
}

/// Why the text at an offset is no token.
pub(super) struct BadToken {
    pub(super) offset: usize,
    pub(super) message: String,
}

pub(super) struct Lexer<'t> {
    text: &'t str,
    offset: usize,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str) -> Lexer<'t> {
        Lexer { text, offset: 0 }
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.offset..).unwrap_or_default()
    }

    /// Goes past the characters that `belongs` holds for, and returns them.
    fn take(&mut self, belongs: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let end = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
        self.offset += end;
        &rest[..end]
    }

    fn skip_blanks(&mut self) {
        loop {
            self.take(char::is_whitespace);
            if !self.rest().starts_with("//") {
                return;
            }
            self.take(|c| c != '\n');
        }
    }

    /// The next token and where it starts.
    pub(super) fn next(&mut self) -> Result<(Token<'t>, usize), BadToken> {
        self.skip_blanks();
        let start = self.offset;
        let rest = self.rest();
        let Some(first) = rest.chars().next() else {
            return Ok((Token::End, start));
        };
        let token = match first {
            '%' => self.value()?,
            '"' => self.string()?,
            'a'..='z' | 'A'..='Z' | '_' => Token::Word(self.take(in_name)),
            '0'..='9' => self.number(rest),
            '-' if rest.starts_with("->") => {
                self.offset += 2;
                Token::Arrow
            }
            '-' => {
                self.offset += 1;
                self.number(rest)
            }
            '(' | ')' | '{' | '}' | '[' | ']' | '<' | '>' | ',' | ':' | '=' | '@' => {
                self.offset += 1;
                Token::Mark(first)
            }
            other => {
                let message = format!("the character {other:?} has no meaning here");
                return Err(BadToken { offset: start, message });
            }
        };
        Ok((token, start))
    }

    /// A number that begins where `rest` does; whether it is a good one depends on where it stands.
    fn number(&mut self, rest: &'t str) -> Token<'t> {
        let start = self.text.len() - rest.len();
        self.take(|c| in_name(c) || c == '.');
        // The sign of an exponent; in a hexadecimal number `e` is a digit.
        let so_far = &self.text[start..self.offset];
        let exponent = so_far.ends_with(['e', 'E']) && !so_far.contains(['x', 'X']);
        if exponent && self.rest().starts_with(['+', '-']) {
            self.offset += 1;
            self.take(in_name);
        }
        Token::Number(&self.text[start..self.offset])
    }

    fn value(&mut self) -> Result<Token<'t>, BadToken> {
        let percent = self.offset;
        self.offset += 1;
        let start = self.offset;
        let name = self.take(in_name);
        let numbered = name.starts_with(|c: char| c.is_ascii_digit());
        let digits = name.bytes().all(|b| b.is_ascii_digit());
        let mut good = !name.is_empty() && (!numbered || digits);
        if self.rest().starts_with('.') {
            self.offset += 1;
            let suffix = self.take(in_name);
            good &= !numbered && !suffix.is_empty() && suffix.bytes().all(|b| b.is_ascii_digit());
        }
        if good {
            return Ok(Token::Value(&self.text[start..self.offset]));
        }
        let message = format!(
            "`{}` is no name of a value; it is `%` with a number, or with a name that may end in `.` and a number",
            shortened(&self.text[percent..self.offset])
        );
        Err(BadToken { offset: percent, message })
    }

    fn string(&mut self) -> Result<Token<'t>, BadToken> {
        let quote = self.offset;
        self.offset += 1;
        let start = self.offset;
        loop {
            self.take(|c| !matches!(c, '"' | '\\' | '\n'));
            if self.rest().starts_with('"') {
                self.offset += 1;
                return Ok(Token::Text(&self.text[start..self.offset - 1]));
            }
            if !self.rest().starts_with('\\') {
                let message = "a string is not closed by `\"` on its line".to_owned();
                return Err(BadToken { offset: quote, message });
            }
            // The escaped character, so that an escaped quote does not end the string.
            self.offset += 1;
            self.offset += self.rest().chars().next().map_or(0, char::len_utf8);
        }
    }
}

fn in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// At most 40 characters of `text`, for messages.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(40) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// What `token` is, for messages.
pub(super) fn described(token: Token<'_>) -> String {
    match token {
        Token::Value(name) => format!("`%{}`", shortened(name)),
        Token::Word(text) | Token::Number(text) => format!("`{}`", shortened(text)),
        Token::Text(_) => "a string".to_owned(),
        Token::Arrow => "`->`".to_owned(),
        Token::Mark(c) => format!("`{c}`"),
        Token::End => "the end of the text".to_owned(),
    }
}

/// The characters of a string literal, or what is wrong at which byte of it.
pub(super) fn unescaped(written: &str) -> Result<String, BadToken> {
    let mut text = String::new();
    let mut rest = written;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        let (c, length) = escape(&rest[at + 1..]).ok_or_else(|| BadToken {
            offset: written.len() - rest.len() + at,
            message: "unknown escape in a string; there are \\\", \\\\, \\n, \\r, \\t and \\u{…}"
                .to_owned(),
        })?;
        text.push(c);
        rest = &rest[at + 1 + length..];
    }
    text.push_str(rest);
    Ok(text)
}

/// The character that the text after a `\` stands for, and the length of that text.
fn escape(text: &str) -> Option<(char, usize)> {
    let c = match text.chars().next()? {
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        c @ ('"' | '\\') => c,
        'u' => {
            let digits = text.strip_prefix("u{")?;
            let digits = &digits[..digits.find('}')?];
            let hexadecimal = digits.bytes().all(|b| b.is_ascii_hexdigit());
            let code = u32::from_str_radix(digits, 16).ok().filter(|_| hexadecimal)?;
            return Some((char::from_u32(code)?, digits.len() + 3));
        }
        _ => return None,
    };
    Some((c, 1))
}
