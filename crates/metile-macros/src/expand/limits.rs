//! Bounds on the input, checked before anything recurses into it: the parser, the walk, and even
//! dropping a syntax tree go as deep as the expression nests.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use syn::Error;

/// Tokens of an item.
const MAX_TOKENS: usize = 50_000;
/// What the tokens around one token weigh together: a bound on the levels that it lies deep in.
const MAX_WEIGHT: usize = 256;
/// Brackets in brackets.
const MAX_GROUPS: usize = 32;
/// A token that takes the parser through all of its levels again, as `|a|` and `return` do, or may
/// start a type in a type.
const HEAVY: usize = 4;
/// `<`, which may start the arguments of a type: those take the parser the most stack, about 50 KiB
/// where it isn't optimized, so that all of an item stays below 4 MiB of a compiler's 8.
const ANGLE: usize = 6;
/// A token that adds one level, as `+` and `.` do.
const LIGHT: usize = 1;

/// Words that an operand of the expression they begin may follow directly.
const WORDS: [&str; 26] = [
    "as", "async", "await", "become", "box", "break", "const", "dyn", "else", "extern", "fn",
    "for", "if", "impl", "in", "let", "loop", "match", "move", "raw", "return", "static", "try",
    "unsafe", "while", "yield",
];

/// Refuses items whose expressions could nest deeper than the compiler's stack allows.
pub fn check(tokens: &TokenStream) -> Result<(), Error> {
    let mut left = MAX_TOKENS;
    walk(tokens.clone(), 0, 0, &mut left)
}

/// What lies around the next token of one bracket, as far as it can nest.
#[derive(Default)]
struct Run {
    weight: usize,
    /// `<` without its `>`: a comma between them ends nothing.
    open: usize,
    after_braces: bool,
    after_arrow_shaft: bool,
}

impl Run {
    fn see(&mut self, token: &TokenTree) {
        let after_braces = std::mem::take(&mut self.after_braces);
        let after_arrow_shaft = std::mem::take(&mut self.after_arrow_shaft);
        match token {
            TokenTree::Punct(punct) => match punct.as_char() {
                ';' => *self = Run::default(),
                ',' => self.weight = self.open * ANGLE,
                '<' => {
                    self.open += 1;
                    self.weight += ANGLE;
                }
                '>' if !after_arrow_shaft => {
                    self.open = self.open.saturating_sub(1);
                    self.weight += LIGHT;
                }
                ':' | '#' | '\'' => {}
                c => {
                    self.weight += if matches!(c, '=' | '|' | '@' | '&') { HEAVY } else { LIGHT };
                    self.after_arrow_shaft =
                        matches!(c, '-' | '=') && punct.spacing() == Spacing::Joint;
                }
            },
            TokenTree::Ident(ident) => {
                let word = ident.to_string();
                if after_braces && !matches!(word.as_str(), "else" | "as" | "in") {
                    // Nothing but a new statement begins so.
                    *self = Run::default();
                }
                if WORDS.contains(&word.as_str()) {
                    self.weight += HEAVY;
                }
            }
            TokenTree::Group(group) => {
                // Calls of calls, and indexes into indexes, nest without being inside each other.
                self.weight += LIGHT;
                self.after_braces = group.delimiter() == Delimiter::Brace;
            }
            // Nor does an expression go on with a number after braces.
            TokenTree::Literal(_) if after_braces => *self = Run::default(),
            TokenTree::Literal(_) => {}
        }
    }
}

fn walk(tokens: TokenStream, nesting: usize, before: usize, left: &mut usize) -> Result<(), Error> {
    let mut run = Run::default();
    for token in tokens {
        let span = token.span();
        if *left == 0 {
            return Err(Error::new(span, format!("a kernel has at most {MAX_TOKENS} tokens")));
        }
        *left -= 1;
        run.see(&token);
        if before + run.weight > MAX_WEIGHT || nesting > MAX_GROUPS {
            return Err(Error::new(
                span,
                "this expression is nested too deeply: name its parts with `let`",
            ));
        }
        if let TokenTree::Group(group) = token {
            walk(group.stream(), nesting + 1, before + run.weight + HEAVY, left)?;
        }
    }
    Ok(())
}
