//! The walk over a body. Each family of syntax has its own file; this one decides which.

use super::scope::Scopes;
use proc_macro2::Span;
use quote::quote_spanned;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{Arm, Block, Error, Expr, ExprClosure, ExprIf, ExprMethodCall, FieldValue, Item, Path};

/// The state of the walk.
#[derive(Debug, Default)]
pub struct Body {
    pub scopes: Scopes,
    pub errors: Vec<Error>,
}

impl Body {
    pub fn refuse(&mut self, span: Span, message: impl std::fmt::Display) {
        self.errors.push(Error::new(span, message));
    }

    pub fn expr(&mut self, expr: &mut Expr) {
        self.visit_expr_mut(expr);
    }

    pub fn block(&mut self, block: &mut Block) {
        self.scopes.push();
        self.statements(&mut block.stmts);
        self.scopes.pop();
    }

    /// The cell that `expr` is, if it is one.
    pub fn cell_name(&self, expr: &Expr) -> Option<syn::Ident> {
        match expr {
            Expr::Path(path) if path.qself.is_none() => self.cell_path(&path.path),
            Expr::Paren(inner) => self.cell_name(&inner.expr),
            Expr::Group(inner) => self.cell_name(&inner.expr),
            _ => None,
        }
    }

    fn cell_path(&self, path: &Path) -> Option<syn::Ident> {
        let ident = path.get_ident()?;
        self.scopes.is_cell(&ident.to_string()).then(|| ident.clone())
    }

    fn read(&mut self, expr: &mut Expr) {
        let Some(ident) = self.cell_name(expr) else { return };
        if self.scopes.is_captured(&ident.to_string()) {
            let message = format!(
                "a closure can't use the mutable variable `{ident}`: pass its value as an argument"
            );
            self.refuse(ident.span(), message);
        }
        let span = ident.span();
        *expr = Expr::Verbatim(quote_spanned!(span=> #ident.get()));
    }

    fn closure(&mut self, closure: &mut ExprClosure) {
        if let Some(token) = &closure.asyncness {
            self.refuse(token.span(), "a kernel has no async code");
        }
        self.scopes.push();
        self.scopes.enter_closure();
        for input in &mut closure.inputs {
            self.bind(
                input,
                "a closure's parameters can't be `mut`: bind them again with `let mut`",
            );
        }
        self.expr(&mut closure.body);
        self.scopes.leave_closure();
        self.scopes.pop();
    }

    /// Declares what a pattern binds outside of `let` and `for`, where cells can't be made.
    pub fn bind(&mut self, pattern: &mut syn::Pat, refusal: &str) {
        let (mutable, plain) = super::scope::take_mut_names(pattern);
        for name in mutable {
            self.refuse(name.span(), refusal);
        }
        for name in plain {
            self.scopes.declare(&name.to_string(), false);
        }
    }

    fn arm(&mut self, arm: &mut Arm) {
        self.scopes.push();
        self.bind(
            &mut arm.pat,
            "a pattern of `match` can't be `mut`: bind it again with `let mut`",
        );
        if let Some((_, guard)) = &mut arm.guard {
            self.expr(guard);
        }
        self.expr(&mut arm.body);
        self.scopes.pop();
    }

    /// `if let` looks at host values, so it stays what it is.
    pub fn if_let(&mut self, node: &mut ExprIf) {
        self.scopes.push();
        if let Expr::Let(condition) = &mut *node.cond {
            self.expr(&mut condition.expr);
            self.bind(
                &mut condition.pat,
                "a pattern of `if let` can't be `mut`: bind it again with `let mut`",
            );
        }
        self.block(&mut node.then_branch);
        self.scopes.pop();
        if let Some((_, otherwise)) = &mut node.else_branch {
            self.expr(otherwise);
        }
    }

    fn borrow(&mut self, node: &mut syn::ExprReference) {
        if node.mutability.is_some()
            && let Some(ident) = self.place_root(&node.expr)
        {
            let message =
                format!("`{ident}` can't be borrowed `&mut`: return the new value and assign it");
            return self.refuse(ident.span(), message);
        }
        self.expr(&mut node.expr);
    }

    /// Reading a variable gives a copy, which these methods would change instead.
    fn method(&mut self, node: &mut ExprMethodCall) {
        let name = node.method.to_string();
        let changes = name.ends_with("_mut") || CHANGING.contains(&name.as_str());
        if changes && let Some(ident) = self.place_root(&node.receiver) {
            let message =
                format!("`{name}` can't change `{ident}` in place: assign the new value to it");
            self.refuse(node.method.span(), message);
        }
        visit_mut::visit_expr_method_call_mut(self, node);
    }
}

/// Methods of arrays and slices that change them, and that no tile has.
const CHANGING: [&str; 15] = [
    "clone_from",
    "clone_from_slice",
    "copy_from_slice",
    "copy_within",
    "fill",
    "fill_with",
    "reverse",
    "rotate_left",
    "rotate_right",
    "sort",
    "sort_by",
    "sort_unstable",
    "sort_unstable_by",
    "swap",
    "swap_with_slice",
];

impl VisitMut for Body {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        if self.refused(expr) {
            return;
        }
        match expr {
            Expr::Path(_) => self.read(expr),
            Expr::Assign(_) => self.assignment(expr),
            Expr::Binary(_) => self.binary(expr),
            Expr::Cast(_) => self.cast(expr),
            Expr::ForLoop(_) => self.for_loop(expr),
            Expr::While(_) => self.while_loop(expr),
            Expr::If(_) => self.branch(expr),
            Expr::Macro(_) => self.macro_call(expr),
            Expr::Closure(closure) => self.closure(closure),
            Expr::Reference(reference) => self.borrow(reference),
            Expr::MethodCall(node) => self.method(node),
            // The length is a constant expression.
            Expr::Repeat(node) => self.expr(&mut node.expr),
            Expr::Match(node) => {
                self.expr(&mut node.expr);
                node.arms.iter_mut().for_each(|arm| self.arm(arm));
            }
            Expr::Block(node) => self.block(&mut node.block),
            _ => visit_mut::visit_expr_mut(self, expr),
        }
    }

    fn visit_block_mut(&mut self, block: &mut Block) {
        self.block(block);
    }

    fn visit_field_value_mut(&mut self, field: &mut FieldValue) {
        if field.colon_token.is_none() && self.cell_name(&field.expr).is_some() {
            field.colon_token = Some(syn::token::Colon(field.expr.span()));
        }
        self.expr(&mut field.expr);
    }

    // Items and types inside a body are the host's.
    fn visit_item_mut(&mut self, _: &mut Item) {}
    fn visit_type_mut(&mut self, _: &mut syn::Type) {}
    fn visit_path_arguments_mut(&mut self, _: &mut syn::PathArguments) {}
    fn visit_generic_argument_mut(&mut self, _: &mut syn::GenericArgument) {}
    fn visit_angle_bracketed_generic_arguments_mut(
        &mut self,
        _: &mut syn::AngleBracketedGenericArguments,
    ) {
    }
}

/// `::metile::lang::name(arguments)` at `span`.
pub fn call(span: Span, name: &str, arguments: &proc_macro2::TokenStream) -> Expr {
    let name = syn::Ident::new(name, span);
    Expr::Verbatim(quote_spanned!(span=> ::metile::lang::#name(#arguments)))
}
