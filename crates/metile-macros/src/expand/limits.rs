//! Bounds on the input, checked before anything recurses into it.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::Error;

/// Tokens of an item.
const MAX_TOKENS: usize = 50_000;
/// Tokens that can nest an expression: within one statement, counted along every path inwards.
const MAX_EXPRESSION: usize = 600;
/// Brackets in brackets.
const MAX_GROUPS: usize = 60;

/// Refuses items whose expressions could nest deeper than the compiler's stack allows.
pub fn check(tokens: &TokenStream) -> Result<(), Error> {
    let mut left = MAX_TOKENS;
    walk(tokens.clone(), 0, 0, &mut left)
}

fn walk(tokens: TokenStream, nesting: usize, before: usize, left: &mut usize) -> Result<(), Error> {
    let mut run = before;
    for token in tokens {
        let span = token.span();
        if *left == 0 {
            return Err(Error::new(span, format!("a kernel has at most {MAX_TOKENS} tokens")));
        }
        *left -= 1;
        run += 1;
        if run > MAX_EXPRESSION || nesting > MAX_GROUPS {
            return Err(Error::new(
                span,
                "this expression is nested too deeply: name its parts with `let`",
            ));
        }
        match token {
            TokenTree::Punct(p) if matches!(p.as_char(), ';' | ',') => run = before,
            TokenTree::Group(group) => {
                walk(group.stream(), nesting + 1, run, left)?;
                if group.delimiter() == Delimiter::Brace {
                    run = before;
                }
            }
            _ => {}
        }
    }
    Ok(())
}
