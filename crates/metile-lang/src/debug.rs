//! Assertions and printing.

use crate::element::Dtype;
use crate::tile::Tile;
use crate::trace::{Raw, here, with};
use metile_ir::Diagnostic;
use metile_ir::tile::OpKind;

/// A condition to assert: a host `bool`, checked while tracing, or a tile, checked by the program.
#[diagnostic::on_unimplemented(message = "`{Self}` can't be asserted: it is no bool")]
pub trait Assertable {
    #[doc(hidden)]
    fn check(self, message: &str);
}
impl Assertable for bool {
    #[track_caller]
    fn check(self, message: &str) {
        let at = here();
        if !self {
            with(|t| t.error(at, Diagnostic::error(format!("assertion failed: {message}"))));
        }
    }
}
impl Assertable for Tile<bool> {
    #[track_caller]
    fn check(self, message: &str) {
        let at = here();
        with(|t| t.effect(at, OpKind::Assert { message: message.to_owned() }, &[self.raw]));
    }
}

/// `assert!(condition, "message")`.
#[track_caller]
pub fn assert<C: Assertable>(condition: C, message: &str) {
    condition.check(message);
}

/// A value that `print!` shows: a tile, or a host number, which is part of the text.
#[diagnostic::on_unimplemented(message = "`{Self}` can't be printed in a kernel")]
pub trait Printable {
    #[doc(hidden)]
    fn show(&self) -> Shown;
}
/// What `print!` shows.
#[doc(hidden)]
#[derive(Debug)]
pub struct Shown(Item);

#[derive(Debug)]
enum Item {
    Text(String),
    Value(Raw),
}

impl<T: Dtype> Printable for Tile<T> {
    fn show(&self) -> Shown {
        Shown(Item::Value(self.raw))
    }
}
macro_rules! printable {
    ($($ty:ty)*) => {$(
        impl Printable for $ty {
            fn show(&self) -> Shown {
                Shown(Item::Text(self.to_string()))
            }
        }
    )*};
}
printable!(bool i8 u8 i16 u16 i32 u32 i64 u64 isize usize f32 f64 &str);

/// `print!("text {}", value)`: each `{}` is replaced by a value, `{{` and `}}` stand for braces.
#[track_caller]
pub fn print(format: &str, values: &[&dyn Printable]) {
    let at = here();
    let mut text = String::new();
    let mut operands = Vec::new();
    let mut values = values.iter();
    let mut rest = format;
    while let Some(found) = rest.find(['{', '}']) {
        text.push_str(&rest[..found]);
        let (token, after) = rest[found..].split_at((found + 2).min(rest.len()) - found);
        rest = after;
        match token {
            "{}" => match values.next().map(|v| v.show().0) {
                // The text form has no escapes, so a host text's own braces are doubled out of it.
                Some(Item::Text(host)) => text.push_str(&host.replace("{}", "{ }")),
                Some(Item::Value(raw)) => {
                    text.push_str("{}");
                    operands.push(raw);
                }
                None => text.push_str("{}"),
            },
            "{{" => text.push('{'),
            "}}" => text.push('}'),
            other => text.push_str(other),
        }
    }
    text.push_str(rest);
    with(|t| t.effect(at, OpKind::Print { format: text }, &operands));
}
