//! Assignments, comparisons, `&&`, `||`, `as`.

use super::body::{Body, call};
use proc_macro2::TokenStream;
use quote::{ToTokens, quote_spanned};
use syn::spanned::Spanned;
use syn::{BinOp, Expr, Ident, UnOp};

impl Body {
    pub fn assignment(&mut self, expr: &mut Expr) {
        let Expr::Assign(node) = expr else { return };
        self.expr(&mut node.right);
        if self.splits_into_variables(&node.left) {
            *expr = self.split_assignment(&node.left, &node.right);
            return;
        }
        let right = node.right.to_token_stream();
        if let Some(set) = self.set(&node.left, right) {
            *expr = set;
            return;
        }
        self.expr(&mut node.left);
    }

    /// `place = right` where `place` is a variable or a part of one.
    fn set(&mut self, place: &Expr, right: TokenStream) -> Option<Expr> {
        let span = place.span();
        let name = self.place_root(place)?;
        self.captured(&name);
        if self.cell_name(place).is_some() {
            return Some(Expr::Verbatim(quote_spanned!(span=> #name.set(#right))));
        }
        let whole = Ident::new("__metile_whole", span);
        let place = self.in_whole(place, &whole);
        Some(Expr::Verbatim(quote_spanned! {span=> {
            let __metile_value = #right;
            let mut #whole = #name.get();
            #place = ::metile::lang::lift_as(__metile_value);
            #name.set(#whole);
        }}))
    }

    /// Whether `left` is a tuple or array on the left of `=` that a variable is in.
    fn splits_into_variables(&self, left: &Expr) -> bool {
        let parts = match left {
            Expr::Tuple(tuple) => &tuple.elems,
            Expr::Array(array) => &array.elems,
            _ => return false,
        };
        parts.iter().any(|part| self.place_root(part).is_some() || self.splits_into_variables(part))
    }

    /// `(a, b.0) = right`: all of `right` is worked out before the first variable changes.
    fn split_assignment(&mut self, left: &Expr, right: &Expr) -> Expr {
        let span = left.span();
        let mut places = Vec::new();
        let pattern = split_pattern(left, &mut places);
        let mut sets = Vec::new();
        for (name, place) in places {
            match self.set(place, name.to_token_stream()) {
                Some(set) => sets.push(set.to_token_stream()),
                None => {
                    let message = "assign to this in a statement of its own";
                    self.refuse(place.span(), message);
                }
            }
        }
        Expr::Verbatim(quote_spanned!(span=> { let #pattern = #right; #(#sets;)* }))
    }

    fn compound(&mut self, expr: &mut Expr) {
        let Expr::Binary(node) = expr else { return };
        let span = node.left.span();
        let operator = plain_operator(&node.op);
        self.expr(&mut node.right);
        let right = node.right.to_token_stream();
        if let Some(name) = self.cell_name(&node.left) {
            self.captured(&name);
            *expr =
                Expr::Verbatim(quote_spanned!(span=> #name.set(#name.get() #operator (#right))));
            return;
        }
        if let Some(name) = self.place_root(&node.left) {
            self.captured(&name);
            let whole = Ident::new("__metile_whole", span);
            // Through a reference, so that an index in the place is worked out once.
            let place = self.in_whole(&node.left, &whole);
            *expr = Expr::Verbatim(quote_spanned! {span=> {
                let __metile_value = #right;
                let mut #whole = #name.get();
                let __metile_place = &mut #place;
                *__metile_place = ::metile::lang::lift_as(*__metile_place #operator __metile_value);
                #name.set(#whole);
            }});
            return;
        }
        self.expr(&mut node.left);
    }

    fn captured(&mut self, name: &Ident) {
        if self.scopes.is_captured(&name.to_string()) {
            let message = format!(
                "a closure can't assign to the mutable variable `{name}`: return the new value"
            );
            self.refuse(name.span(), message);
        }
    }

    /// The cell at the root of `a`, `a.0`, `a[i]`, `a.0[i].1`.
    pub fn place_root(&self, place: &Expr) -> Option<Ident> {
        match place {
            Expr::Field(field) => self.place_root(&field.base),
            Expr::Index(index) => self.place_root(&index.expr),
            Expr::Paren(paren) => self.place_root(&paren.expr),
            Expr::Group(group) => self.place_root(&group.expr),
            _ => self.cell_name(place),
        }
    }

    /// The place with its root replaced by the variable `whole`.
    fn in_whole(&mut self, place: &Expr, whole: &Ident) -> TokenStream {
        let span = whole.span();
        match place {
            Expr::Field(field) => {
                let (base, member) = (self.in_whole(&field.base, whole), &field.member);
                quote_spanned!(span=> #base.#member)
            }
            Expr::Index(index) => {
                let mut at = (*index.index).clone();
                self.expr(&mut at);
                let base = self.in_whole(&index.expr, whole);
                quote_spanned!(span=> #base[#at])
            }
            Expr::Paren(paren) => self.in_whole(&paren.expr, whole),
            Expr::Group(group) => self.in_whole(&group.expr, whole),
            _ => whole.to_token_stream(),
        }
    }

    pub fn binary(&mut self, expr: &mut Expr) {
        let Expr::Binary(node) = expr else { return };
        let span = node.left.span();
        let function = match node.op {
            BinOp::Lt(_) => "lt",
            BinOp::Le(_) => "le",
            BinOp::Gt(_) => "gt",
            BinOp::Ge(_) => "ge",
            BinOp::Eq(_) => "eq",
            BinOp::Ne(_) => "ne",
            BinOp::And(_) => "and_then",
            BinOp::Or(_) => "or_else",
            _ if is_compound(&node.op) => return self.compound(expr),
            _ => {
                self.expr(&mut node.left);
                self.expr(&mut node.right);
                return;
            }
        };
        let lazy = matches!(node.op, BinOp::And(_) | BinOp::Or(_));
        self.expr(&mut node.left);
        self.expr(&mut node.right);
        let (left, right) = (&node.left, &node.right);
        let arguments = if lazy {
            quote_spanned!(span=> #left, || #right)
        } else {
            quote_spanned!(span=> #left, #right)
        };
        *expr = call(span, function, &arguments);
    }

    pub fn cast(&mut self, expr: &mut Expr) {
        let Expr::Cast(node) = expr else { return };
        // A literal's type is the cast's to infer, natively.
        if is_literal(&node.expr) {
            return;
        }
        let span = node.expr.span();
        self.expr(&mut node.expr);
        let (value, ty) = (&node.expr, &node.ty);
        *expr = Expr::Verbatim(quote_spanned!(span=> ::metile::lang::cast::<#ty, _>(#value)));
    }
}

/// A literal, also with a sign.
fn is_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Unary(unary) => matches!(unary.op, UnOp::Neg(_)) && is_literal(&unary.expr),
        Expr::Paren(paren) => is_literal(&paren.expr),
        Expr::Group(group) => is_literal(&group.expr),
        other => matches!(other, Expr::Lit(_)),
    }
}

/// The pattern that takes apart what is assigned to `left`, and the name it has for each place.
fn split_pattern<'e>(left: &'e Expr, places: &mut Vec<(Ident, &'e Expr)>) -> TokenStream {
    match left {
        Expr::Tuple(tuple) => {
            let parts: Vec<_> =
                tuple.elems.iter().map(|part| split_pattern(part, places)).collect();
            quote_spanned!(left.span()=> (#(#parts,)*))
        }
        Expr::Array(array) => {
            let parts: Vec<_> =
                array.elems.iter().map(|part| split_pattern(part, places)).collect();
            quote_spanned!(left.span()=> [#(#parts,)*])
        }
        Expr::Infer(_) => left.to_token_stream(),
        _ => {
            let name = Ident::new(&format!("__metile_part_{}", places.len()), left.span());
            places.push((name.clone(), left));
            name.to_token_stream()
        }
    }
}

fn is_compound(op: &BinOp) -> bool {
    matches!(
        op,
        BinOp::AddAssign(_)
            | BinOp::SubAssign(_)
            | BinOp::MulAssign(_)
            | BinOp::DivAssign(_)
            | BinOp::RemAssign(_)
            | BinOp::BitXorAssign(_)
            | BinOp::BitAndAssign(_)
            | BinOp::BitOrAssign(_)
            | BinOp::ShlAssign(_)
            | BinOp::ShrAssign(_)
    )
}

/// The operator of a compound assignment without its `=`, where the author wrote it: an operation
/// is placed where its operator is, too.
fn plain_operator(op: &BinOp) -> TokenStream {
    let span = op.span();
    match op {
        BinOp::AddAssign(_) => quote_spanned!(span=> +),
        BinOp::SubAssign(_) => quote_spanned!(span=> -),
        BinOp::MulAssign(_) => quote_spanned!(span=> *),
        BinOp::DivAssign(_) => quote_spanned!(span=> /),
        BinOp::RemAssign(_) => quote_spanned!(span=> %),
        BinOp::BitXorAssign(_) => quote_spanned!(span=> ^),
        BinOp::BitAndAssign(_) => quote_spanned!(span=> &),
        BinOp::BitOrAssign(_) => quote_spanned!(span=> |),
        BinOp::ShlAssign(_) => quote_spanned!(span=> <<),
        BinOp::ShrAssign(_) => quote_spanned!(span=> >>),
        other => other.to_token_stream(),
    }
}
