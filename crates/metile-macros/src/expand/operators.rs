//! Assignments, comparisons, `&&`, `||`, `as`.

use super::body::{Body, call};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{BinOp, Expr, Ident};

impl Body {
    pub fn assignment(&mut self, expr: &mut Expr) {
        let Expr::Assign(node) = expr else { return };
        self.expr(&mut node.right);
        let span = node.left.span();
        if let Some(name) = self.cell_name(&node.left) {
            self.captured(&name);
            let right = &node.right;
            *expr = Expr::Verbatim(quote_spanned!(span=> #name.set(#right)));
            return;
        }
        if let Some(name) = self.place_root(&node.left) {
            let (right, place) = (node.right.to_token_stream(), self.in_whole(&node.left));
            *expr = self.update(&name, span, right, place);
            return;
        }
        self.expr(&mut node.left);
    }

    fn compound(&mut self, expr: &mut Expr) {
        let Expr::Binary(node) = expr else { return };
        let span = node.left.span();
        let operator = plain_operator(&node.op);
        self.expr(&mut node.right);
        let right = node.right.to_token_stream();
        if let Some(name) = self.cell_name(&node.left) {
            self.captured(&name);
            *expr = Expr::Verbatim(quote_spanned!(span=> #name.set(#name.get() #operator (#right))));
            return;
        }
        if let Some(name) = self.place_root(&node.left) {
            let mut before = (*node.left).clone();
            self.expr(&mut before);
            let place = self.in_whole(&node.left);
            *expr = self.update(&name, span, quote!(#before #operator (#right)), place);
            return;
        }
        self.expr(&mut node.left);
    }

    fn captured(&mut self, name: &Ident) {
        if self.scopes.is_captured(&name.to_string()) {
            let message = format!("a closure can't assign to the mutable variable `{name}`: return the new value");
            self.refuse(name.span(), message);
        }
    }

    /// The cell at the root of `a.0`, `a[i]`, `a.0[i].1`.
    fn place_root(&mut self, place: &Expr) -> Option<Ident> {
        let inner = match place {
            Expr::Field(field) => &field.base,
            Expr::Index(index) => &index.expr,
            Expr::Paren(paren) => &paren.expr,
            _ => return None,
        };
        let root = self.cell_name(inner).or_else(|| self.place_root(inner))?;
        Some(root)
    }

    /// The place with its root replaced by the variable that [`update`](Self::update) declares.
    fn in_whole(&mut self, place: &Expr) -> proc_macro2::TokenStream {
        match place {
            Expr::Field(field) => {
                let (base, member) = (self.in_whole(&field.base), &field.member);
                quote!(#base.#member)
            }
            Expr::Index(index) => {
                let mut at = (*index.index).clone();
                self.expr(&mut at);
                let base = self.in_whole(&index.expr);
                quote!(#base[#at])
            }
            Expr::Paren(paren) => self.in_whole(&paren.expr),
            _ => quote!(__metile_whole),
        }
    }

    fn update(
        &mut self,
        name: &Ident,
        span: proc_macro2::Span,
        value: proc_macro2::TokenStream,
        place: proc_macro2::TokenStream,
    ) -> Expr {
        self.captured(name);
        Expr::Verbatim(quote_spanned! {span=> {
            let __metile_value = #value;
            let mut __metile_whole = #name.get();
            #place = ::metile::lang::lift_as(__metile_value);
            #name.set(__metile_whole);
        }})
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
        let arguments = if lazy { quote!(#left, || #right) } else { quote!(#left, #right) };
        *expr = call(span, function, &arguments);
    }

    pub fn cast(&mut self, expr: &mut Expr) {
        let Expr::Cast(node) = expr else { return };
        // A literal's type is the cast's to infer, natively.
        if matches!(*node.expr, Expr::Lit(_)) {
            return;
        }
        let span = node.expr.span();
        self.expr(&mut node.expr);
        let (value, ty) = (&node.expr, &node.ty);
        *expr = Expr::Verbatim(quote_spanned!(span=> ::metile::lang::cast::<#ty, _>(#value)));
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

fn plain_operator(op: &BinOp) -> proc_macro2::TokenStream {
    match op {
        BinOp::AddAssign(_) => quote!(+),
        BinOp::SubAssign(_) => quote!(-),
        BinOp::MulAssign(_) => quote!(*),
        BinOp::DivAssign(_) => quote!(/),
        BinOp::RemAssign(_) => quote!(%),
        BinOp::BitXorAssign(_) => quote!(^),
        BinOp::BitAndAssign(_) => quote!(&),
        BinOp::BitOrAssign(_) => quote!(|),
        BinOp::ShlAssign(_) => quote!(<<),
        BinOp::ShrAssign(_) => quote!(>>),
        other => other.to_token_stream(),
    }
}
