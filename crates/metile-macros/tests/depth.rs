//! Input that nests without end is refused, and nothing overflows the stack: not the parser, not
//! the walk, not dropping the tree.

#[path = "../src/expand/mod.rs"]
mod expand;

use proc_macro2::TokenStream;
use std::str::FromStr;

/// Half of what a compiler's main thread has.
fn on_some_stack(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(4 << 20).spawn(test).unwrap();
    thread.join().unwrap();
}

fn expand_both(item: &str) -> [String; 2] {
    let Ok(item) = TokenStream::from_str(item) else { return Default::default() };
    [expand::kernel, expand::kernel_fn]
        .map(|expand| expand(TokenStream::new(), item.clone()).to_string())
}

/// As much of `unit` as still passes is expanded, and more is refused.
fn repeated(before: &str, unit: &str, middle: &str, closing: &str, after: &str) {
    for count in [24, 36, 60, 240, 500] {
        let body =
            format!("{before}{}{middle}{}{after}", unit.repeat(count), closing.repeat(count));
        for item in [format!("fn k() {{ {body} }}"), format!("fn k(a: {body}) {{}}"), body] {
            if let Ok(item) = TokenStream::from_str(&item) {
                let made = expand::kernel(TokenStream::new(), item).to_string();
                assert!(count < 500 || made.contains("compile_error"), "{unit} {count}");
            }
        }
    }
}

#[test]
fn prefixes() {
    on_some_stack(|| {
        for unit in [
            "!",
            "- ",
            "*",
            "&",
            "& mut ",
            "&'a ",
            "|a| ",
            "|| ",
            "move || ",
            "return ",
            "break ",
            "a = ",
            "a += ",
            "..",
            "for x in ",
            "if ",
            "while ",
            "match ",
            "let x = ",
            "a as ",
            "async move ",
            "static || ",
            "fn() -> ",
            "*const ",
            "dyn for<'a> ",
            "impl Fn() -> ",
            "x @ ",
            "A<",
            "A::<",
            "<A as ",
            "A<u8, ",
            "A<B<u8>, ",
            "A<fn() -> u8, ",
            "a < b, c::<",
            "'a: ",
            "yield ",
            "const ",
            "ref mut ",
            "unsafe ",
            "#[a] ",
            "S {} = ",
            "for S {} in ",
            "|a| -> T {} = ",
            "let S {} = ",
            "box ",
            "raw ",
            "a == b && !",
            "a..=",
        ] {
            repeated("", unit, "a", "", "");
            repeated("let _ = ", unit, "a", "", ";");
            repeated("let x: ", unit, "T", "", " = a;");
            repeated("let ", unit, "T", "", " = a;");
            repeated("match a { ", unit, "a", "", " => a }");
            repeated("a as ", unit, "a", "", "");
        }
    });
}

#[test]
fn chains() {
    on_some_stack(|| {
        for unit in [
            " + a",
            " * a",
            " && a",
            " || a",
            " == a",
            " << a",
            ".a",
            ".a()",
            "()",
            "[0]",
            "?",
            ".await",
            " as T",
            " as A<T>",
            " | a",
            ".0",
            " .. a",
            " - {}",
            ".a::<T>(|a| a)",
            " {} + a",
            "!()",
            "!{}",
            " {} else if a",
            " else",
            " = {}",
            "::<A>",
        ] {
            repeated("a", unit, "", "", "");
            repeated("let _ = a", unit, "", "", ";");
            repeated("if a", unit, "", "", "{}");
            repeated("match a { a", unit, "", "", " => a }");
            repeated("let mut a = 0; a = a", unit, "", "", ";");
        }
    });
}

#[test]
fn brackets() {
    on_some_stack(|| {
        for (open, close) in [
            ("(", ")"),
            ("[", "]"),
            ("{", "}"),
            ("f(", ")"),
            ("a[", "]"),
            ("if a {", "}"),
            ("while a {", "}"),
            ("for a in b {", "}"),
            ("match a { _ => ", "}"),
            ("assert!(", ")"),
            ("print!(\"{}\", ", ")"),
            ("(!", ")"),
            ("(a = ", ")"),
            ("f(|a| ", ")"),
            ("{ let mut a = ", "; }"),
            ("a[{ a[0] += ", "; 0 }]"),
            ("{ fn a() ", "}"),
            ("A<", ">"),
            ("(a, ", ")"),
            ("if ", " {}"),
            ("match ", " {}"),
            ("a.b(-", ")"),
            ("return (", ")"),
            ("(&mut ", ",)"),
            ("S { a: ", "}"),
            ("|| { if a == b && c { ", "} }"),
        ] {
            repeated("", open, "a", close, "");
            repeated("let mut a = ", open, "a", close, ";");
            repeated("let a: ", open, "a", close, " = a;");
            repeated("let ", open, "a", close, " = a;");
        }
    });
}

/// What an author may well write is accepted.
#[test]
fn long_is_not_deep() {
    let accepts = |body: &str| {
        for made in expand_both(&format!("fn k() {{ {body} }}")) {
            assert!(!made.contains("compile_error"), "{body:.200}: {made:.300}");
        }
    };
    accepts(&format!("let table = [{}];", "-1.5f32, ".repeat(2048)));
    accepts(&format!("let table = [{}];", "cast::<f32>(a < b), ".repeat(500)));
    accepts(&"if a < b && c >= 1 { x.store((a, b + 1), y); }".repeat(500));
    accepts(&"for i in 0..n { if a > b { f(); } else if c { g(); } else { h(); } }".repeat(200));
    accepts(&"let v = a.load((x, y + 1)) * b + c.sum();".repeat(1000));
    accepts(&format!("match a {{ {} _ => {{}} }}", "0 => { f() } ".repeat(200)));
    accepts(&format!("let sum = a{};", " + b * c".repeat(100)));
    accepts(&format!("let p = {}a{};", "a + x * (".repeat(30), ")".repeat(30)));
    accepts(&format!("{}f();{}", "for i in 0..n { if a < b { ".repeat(7), "} }".repeat(7)));
}
