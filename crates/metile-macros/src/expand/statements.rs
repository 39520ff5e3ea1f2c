//! `let`, statements, and the two macros a body may use.

use super::body::{Body, call};
use super::scope::{is_variable, take_mut_names};
use super::types;
use proc_macro2::{Literal, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Attribute, Expr, ExprMacro, Item, Lit, LitStr, Local, Pat, Stmt, Token, UnOp};

/// Gives the value its variable's name, for the text form.
pub fn naming(name: &syn::Ident) -> TokenStream {
    let text = name.to_string();
    if text.starts_with('_') || !is_variable(name) {
        return TokenStream::new();
    }
    let span = name.span();
    quote_spanned! {span=>
        { #[allow(unused_imports)] use ::metile::lang::NameAny as _; ::metile::lang::Name(&#name).give(#text); }
    }
}

/// Makes a bound name a cell.
pub fn cell_again(name: &syn::Ident) -> TokenStream {
    let text = name.to_string();
    let span = name.span();
    quote_spanned!(span=> let #name = ::metile::lang::cell(#text, #name);)
}

impl Body {
    pub fn statements(&mut self, statements: &mut Vec<Stmt>) {
        let mut out = Vec::with_capacity(statements.len());
        let count = statements.len();
        // Items are there in the whole block, and every `let` of the block hides them.
        for statement in &*statements {
            if let Stmt::Item(item) = statement
                && let Some(name) = item_name(item)
            {
                self.scopes.declare(&name, false);
            }
        }
        for (n, mut statement) in std::mem::take(statements).into_iter().enumerate() {
            match statement {
                Stmt::Local(local) => self.local(local, &mut out),
                Stmt::Item(_) => out.push(statement),
                Stmt::Expr(ref mut expr, ref mut semi) => {
                    // As a call it needs the semicolon that a loop or branch does without.
                    let ends_itself =
                        matches!(expr, Expr::ForLoop(_) | Expr::While(_) | Expr::If(_));
                    let span = expr.span();
                    let attributes = take_attributes(expr);
                    self.expr(expr);
                    if ends_itself && n + 1 < count {
                        semi.get_or_insert(Token![;](span));
                    }
                    // Rust takes attributes on statements, not on a value that ends a block.
                    if semi.is_some() && !attributes.is_empty() {
                        *expr = Expr::Verbatim(quote!(#(#attributes)* #expr));
                    }
                    out.push(statement);
                }
                Stmt::Macro(node) => {
                    let mut semi = node.semi_token;
                    if n + 1 < count {
                        semi.get_or_insert(Token![;](node.mac.span()));
                    }
                    let mut expr = Expr::Macro(ExprMacro { attrs: node.attrs, mac: node.mac });
                    self.expr(&mut expr);
                    out.push(Stmt::Expr(expr, semi));
                }
            }
        }
        *statements = out;
    }

    fn local(&mut self, mut local: Local, out: &mut Vec<Stmt>) {
        let span = local.pat.span();
        let Some(mut init) = local.init.take() else {
            return self.refuse(span, "a variable of a kernel needs a value from the start");
        };
        if let Some((token, _)) = &init.diverge {
            return self
                .refuse(token.span(), "`let … else` can't be traced: use `if let`, or `match`");
        }
        self.expr(&mut init.expr);
        let attributes = &local.attrs;
        let (pattern, declared) = match local.pat {
            Pat::Type(typed) => (*typed.pat, Some(*typed.ty)),
            pattern => (pattern, None),
        };
        let value = &init.expr;
        if let Pat::Ident(ident) = &pattern
            && ident.mutability.is_some()
            && ident.by_ref.is_none()
            && ident.subpat.is_none()
        {
            let (name, text) = (&ident.ident, ident.ident.to_string());
            self.scopes.declare(&text, true);
            out.push(parsed(match declared {
                Some(ty) => {
                    let ty = types::traced(&ty).unwrap_or(ty);
                    quote_spanned!(span=> #(#attributes)* let #name = ::metile::lang::cell_as::<#ty, _>(#text, #value);)
                }
                None => {
                    let value = typed_literal(value);
                    quote_spanned!(span=> #(#attributes)* let #name = ::metile::lang::cell(#text, #value);)
                }
            }));
            return;
        }
        let mut pattern = pattern;
        let (mutable, plain) = take_mut_names(&mut pattern);
        out.push(parsed(match declared {
            None => quote_spanned!(span=> #(#attributes)* let #pattern = #value;),
            Some(ty) => match types::traced(&ty) {
                Some(ty) => quote_spanned!(span=> #(#attributes)* let #pattern = ::metile::lang::lift_as::<#ty, _>(#value);),
                None => quote_spanned!(span=> #(#attributes)* let #pattern: #ty = #value;),
            },
        }));
        for name in &plain {
            self.scopes.declare(&name.to_string(), false);
            let tokens = naming(name);
            if !tokens.is_empty() {
                out.push(parsed(tokens));
            }
        }
        for name in &mutable {
            self.scopes.declare(&name.to_string(), true);
            out.push(parsed(cell_again(name)));
        }
    }

    pub fn macro_call(&mut self, expr: &mut Expr) {
        let Expr::Macro(node) = expr else { return };
        let (path, tokens, span) = (&node.mac.path, node.mac.tokens.clone(), node.mac.span());
        if path.is_ident("assert") {
            *expr = self.assertion(span, tokens);
        } else if path.is_ident("print") || path.is_ident("println") {
            *expr = self.printing(span, tokens);
        } else {
            let name = path.to_token_stream().to_string();
            let message = match name.as_str() {
                "assert_eq" | "debug_assert_eq" => "use `assert!(a == b)`".to_owned(),
                "assert_ne" | "debug_assert_ne" => "use `assert!(a != b)`".to_owned(),
                "debug_assert" => "use `assert!`".to_owned(),
                _ => {
                    format!("`{name}!` can't be traced: a kernel uses `assert!` and `print!` only")
                }
            };
            self.refuse(span, message);
        }
    }

    fn arguments(&mut self, tokens: TokenStream) -> Option<Vec<Expr>> {
        match Punctuated::<Expr, Token![,]>::parse_terminated.parse2(tokens) {
            Ok(arguments) => Some(arguments.into_iter().collect()),
            Err(error) => {
                self.errors.push(error);
                None
            }
        }
    }

    fn assertion(&mut self, span: proc_macro2::Span, tokens: TokenStream) -> Expr {
        let nothing = Expr::Verbatim(quote!(()));
        let Some(mut arguments) = self.arguments(tokens) else { return nothing };
        let message = match &arguments[..] {
            [condition] => condition.to_token_stream().to_string(),
            [_, message] => match literal(message) {
                Some(text) if holes(&text.value()) == Some(0) => {
                    text.value().replace("{{", "{").replace("}}", "}")
                }
                Some(text) => {
                    self.refuse(text.span(), "the message of `assert!` has no `{}` in a kernel");
                    return nothing;
                }
                None => {
                    self.refuse(message.span(), "the message of `assert!` is a string literal");
                    return nothing;
                }
            },
            _ => {
                self.refuse(span, "`assert!` takes a condition and, if you like, a string literal");
                return nothing;
            }
        };
        let condition = &mut arguments[0];
        let span = condition.span();
        self.expr(condition);
        call(span, "assert", &quote!(#condition, #message))
    }

    fn printing(&mut self, span: proc_macro2::Span, tokens: TokenStream) -> Expr {
        let nothing = Expr::Verbatim(quote!(()));
        let Some(mut arguments) = self.arguments(tokens) else { return nothing };
        let Some(format) = arguments.first().and_then(literal) else {
            self.refuse(span, "`print!` begins with a string literal");
            return nothing;
        };
        match holes(&format.value()) {
            Some(count) if count == arguments.len() - 1 => {}
            Some(count) => {
                let message = format!("{count} `{{}}` for {} values", arguments.len() - 1);
                self.refuse(format.span(), message);
                return nothing;
            }
            None => {
                self.refuse(format.span(), "`print!` in a kernel knows `{}`, `{{` and `}}` only");
                return nothing;
            }
        }
        for value in &arguments {
            if let Expr::Assign(named) = value {
                self.refuse(named.span(), "the values of `print!` have no names in a kernel");
            }
        }
        let mut values = Vec::new();
        for value in arguments.iter_mut().skip(1) {
            let at = value.span();
            self.expr(value);
            values.push(quote_spanned!(at=> &(#value) as &dyn ::metile::lang::Printable));
        }
        call(span, "print", &quote!(#format, &[#(#values),*]))
    }
}

fn parsed(tokens: TokenStream) -> Stmt {
    Stmt::Expr(Expr::Verbatim(tokens), None)
}

fn literal(expr: &Expr) -> Option<LitStr> {
    match expr {
        Expr::Lit(lit) => match &lit.lit {
            Lit::Str(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// How many `{}` a format has; `None` if it has anything else in braces.
fn holes(format: &str) -> Option<usize> {
    let mut rest = format;
    let mut count = 0;
    while let Some(at) = rest.find(['{', '}']) {
        let found = &rest[at..];
        if found.starts_with("{}") {
            count += 1;
        } else if !found.starts_with("{{") && !found.starts_with("}}") {
            return None;
        }
        rest = &found[2..];
    }
    Some(count)
}

/// A bare number that starts a variable is an index (`i64`) or an `f32`.
fn typed_literal(expr: &Expr) -> TokenStream {
    let (sign, inner) = match expr {
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => (Some(unary.op), &*unary.expr),
        other => (None, other),
    };
    let Expr::Lit(lit) = inner else { return expr.to_token_stream() };
    let suffixed = match &lit.lit {
        Lit::Int(int) if int.suffix().is_empty() => with_suffix(int.base10_digits(), "i64"),
        Lit::Float(float) if float.suffix().is_empty() => with_suffix(float.base10_digits(), "f32"),
        _ => None,
    };
    let Some(mut suffixed) = suffixed else { return expr.to_token_stream() };
    suffixed.set_span(lit.lit.span());
    match sign {
        Some(sign) => quote!(#sign #suffixed),
        None => suffixed.to_token_stream(),
    }
}

/// `1.` takes no suffix as it stands.
fn with_suffix(digits: &str, suffix: &str) -> Option<Literal> {
    let zero = if digits.ends_with('.') { "0" } else { "" };
    format!("{digits}{zero}{suffix}").parse().ok()
}

/// The attributes of a statement that is rewritten as a whole.
fn take_attributes(expr: &mut Expr) -> Vec<Attribute> {
    match expr {
        Expr::ForLoop(node) => std::mem::take(&mut node.attrs),
        Expr::While(node) => std::mem::take(&mut node.attrs),
        Expr::If(node) => std::mem::take(&mut node.attrs),
        _ => Vec::new(),
    }
}

fn item_name(item: &Item) -> Option<String> {
    match item {
        Item::Fn(item) => Some(item.sig.ident.to_string()),
        Item::Const(item) => Some(item.ident.to_string()),
        Item::Static(item) => Some(item.ident.to_string()),
        _ => None,
    }
}
