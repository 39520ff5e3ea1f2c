//! `for`, `while`, `if`.

use super::body::{Body, call};
use super::scope::take_mut_names;
use super::statements::cell_again;
use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, ExprGroup, ExprParen, Pat, RangeLimits};

impl Body {
    pub fn for_loop(&mut self, expr: &mut Expr) {
        let Expr::ForLoop(node) = expr else { return };
        let span = node.for_token.span;
        let over = self.loop_range(&mut node.expr);
        self.scopes.push();
        let (mutable, plain) = take_mut_names(&mut node.pat);
        let mut first = TokenStream::new();
        for name in &plain {
            self.scopes.declare(&name.to_string(), false);
        }
        for name in &mutable {
            self.scopes.declare(&name.to_string(), true);
            first.extend(cell_again(name));
        }
        self.block(&mut node.body);
        self.scopes.pop();
        let (pattern, body) = (&node.pat, &node.body);
        let name = match &**pattern {
            Pat::Ident(ident) => ident.ident.to_string(),
            _ => String::new(),
        };
        let arguments = quote_spanned!(span=> #name, #over, |#pattern| { #first #body });
        *expr = call(span, "for_each", &arguments);
    }

    fn loop_range(&mut self, mut over: &mut Expr) -> TokenStream {
        while let Expr::Paren(ExprParen { expr: inner, .. })
        | Expr::Group(ExprGroup { expr: inner, .. }) = over
        {
            over = inner;
        }
        let Expr::Range(range) = over else {
            self.expr(over);
            return over.to_token_stream();
        };
        let span = range.span();
        let inclusive = matches!(range.limits, RangeLimits::Closed(_));
        let (Some(low), Some(high)) = (&mut range.start, &mut range.end) else {
            self.refuse(span, "a loop over a range needs both bounds");
            return TokenStream::new();
        };
        self.expr(low);
        self.expr(high);
        let name = if inclusive { "range_inclusive" } else { "range" };
        call(span, name, &quote!(#low, #high)).to_token_stream()
    }

    pub fn while_loop(&mut self, expr: &mut Expr) {
        let Expr::While(node) = expr else { return };
        let span = node.while_token.span;
        if let Expr::Let(condition) = &*node.cond {
            let message = "`while let` can't be traced: use `while` with a condition";
            return self.refuse(condition.let_token.span, message);
        }
        self.expr(&mut node.cond);
        self.block(&mut node.body);
        let (condition, body) = (&node.cond, &node.body);
        *expr = call(span, "while_loop", &quote_spanned!(span=> || #condition, || #body));
    }

    pub fn branch(&mut self, expr: &mut Expr) {
        let Expr::If(node) = expr else { return };
        let span = node.if_token.span;
        if matches!(*node.cond, Expr::Let(_)) {
            return self.if_let(node);
        }
        self.expr(&mut node.cond);
        self.block(&mut node.then_branch);
        let otherwise = match &mut node.else_branch {
            Some((_, otherwise)) => {
                self.expr(otherwise);
                otherwise.to_token_stream()
            }
            None => quote_spanned!(span=> {}),
        };
        let (condition, then) = (&node.cond, &node.then_branch);
        let arguments = quote_spanned!(span=> #condition, || #then, || #otherwise);
        *expr = call(span, "branch", &arguments);
    }
}
