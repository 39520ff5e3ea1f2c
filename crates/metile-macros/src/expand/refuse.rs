//! What can't be traced, and what to write instead.

use super::body::Body;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, Block, Error, Expr, Item};

impl Body {
    /// Reports `expr` if it can't be traced.
    pub fn refused(&mut self, expr: &Expr) -> bool {
        let message = match expr {
            Expr::Return(_) => "a kernel can't return early: put the rest into an `if`",
            Expr::Break(_) => "`break` can't be traced: put the condition into the `while`",
            Expr::Continue(_) => {
                "`continue` can't be traced: put the rest of the body into an `if`"
            }
            Expr::Loop(_) => "`loop` can't be traced: use `while` with a condition",
            Expr::Try(_) => "`?` can't be traced: a kernel has no errors to return",
            Expr::TryBlock(_) => "a kernel has no `try` blocks",
            Expr::Await(_) | Expr::Async(_) => "a kernel has no async code",
            Expr::Unsafe(_) => "a kernel has no unsafe code",
            Expr::Yield(_) => "a kernel can't yield",
            Expr::Const(_) => "name the constant with `const NAME: T = …;`",
            Expr::RawAddr(_) => "a kernel has no pointers",
            Expr::Let(_) => "`let` in a condition stands alone: nest two `if`s",
            Expr::ForLoop(node) if node.label.is_some() => "labels can't be traced",
            Expr::While(node) if node.label.is_some() => "labels can't be traced",
            Expr::Block(node) if node.label.is_some() => "labels can't be traced",
            Expr::Verbatim(_) => "this syntax can't be traced",
            _ => return false,
        };
        self.refuse(expr.span(), message);
        true
    }
}

/// Reports `#[cfg]` inside a body: what it is on may be rewritten, and would then stay for good.
pub fn conditional_code(block: &mut Block, errors: &mut Vec<Error>) {
    ConditionalCode { errors }.visit_block_mut(block);
}

/// Whether the compiler would drop what `attribute` is on.
pub fn is_cfg(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg") || attribute.path().is_ident("cfg_attr")
}

struct ConditionalCode<'e> {
    errors: &'e mut Vec<Error>,
}

impl VisitMut for ConditionalCode<'_> {
    fn visit_attribute_mut(&mut self, attribute: &mut Attribute) {
        if is_cfg(attribute) {
            let message = "`cfg` can't be used inside a kernel: put it on a `const`, and use `if`";
            self.errors.push(Error::new(attribute.span(), message));
        }
    }
    // Items, and the arms of a `match`, stay as they are, so theirs is looked at.
    fn visit_item_mut(&mut self, _: &mut Item) {}
    fn visit_arm_mut(&mut self, arm: &mut syn::Arm) {
        let attributes = std::mem::take(&mut arm.attrs);
        visit_mut::visit_arm_mut(self, arm);
        arm.attrs = attributes;
    }
}
