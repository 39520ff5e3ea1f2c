//! The attributes `#[kernel]` and `#[kernel_fn]`.
//!
//! They only rewrite: a body stays ordinary Rust whose `let mut`, `for`, `while`, `if`, comparisons
//! and assertions become calls into `metile::lang`. Types then decide what is a host value, known
//! while the kernel is traced, and what is a value of the program.
//!
//! | written | becomes |
//! | --- | --- |
//! | `let mut x = e` | a cell; reading and assigning `x` become calls |
//! | `for i in a..b { }` | a loop of the program if a bound is traced, else unrolled |
//! | `while c { }`, `if c { } else { }` | a region if `c` is traced; `if` on a host `bool` is decided while tracing |
//! | `a < b`, `a == b`, `a && b` | a `Tile<bool>` if a side is traced |
//! | `e as T` | a conversion, on the host or traced |
//! | `assert!(c, "..")`, `print!("{}", v)` | checked and printed by the program |
//! | `f32`, `i64`, … as the type of a variable or parameter | a traced scalar |
//!
//! What can't be traced is an error at its place: `return`, `break`, `continue`, `loop`, `?`,
//! `async`, `unsafe`, `while let`, `let … else`, variables without initializer, `&mut` to a variable,
//! methods that change a variable in place, closures that use a mutable variable, `cfg` on a
//! statement, and macros other than the two above.

mod expand;

use proc_macro::TokenStream;

/// Makes a function a kernel. `#[kernel(persistent)]` makes one whose programs all run at once, so
/// that they may wait for each other.
#[proc_macro_attribute]
pub fn kernel(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::kernel(attribute.into(), item.into()).into()
}

/// Makes a function callable from kernels: its body is traced into the caller.
#[proc_macro_attribute]
pub fn kernel_fn(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::kernel_fn(attribute.into(), item.into()).into()
}
