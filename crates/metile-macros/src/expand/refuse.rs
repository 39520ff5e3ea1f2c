//! What can't be traced, and what to write instead.

use super::body::Body;
use syn::spanned::Spanned;
use syn::{Expr, UnOp};

impl Body {
    /// Reports `expr` if it can't be traced.
    pub fn refused(&mut self, expr: &Expr) -> bool {
        let message = match expr {
            Expr::Return(_) => "a kernel can't return early: put the rest into an `if`",
            Expr::Break(_) => "`break` can't be traced: put the condition into the `while`",
            Expr::Continue(_) => "`continue` can't be traced: put the rest of the body into an `if`",
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
            Expr::Unary(node) if matches!(node.op, UnOp::Deref(_)) => {
                "a kernel's values are no pointers: leave out the `*`"
            }
            _ => return false,
        };
        self.refuse(expr.span(), message);
        true
    }
}
