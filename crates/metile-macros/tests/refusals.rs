//! What the macros refuse: the message, and the line and column it is at.

#[path = "../src/expand/mod.rs"]
mod expand;

use proc_macro2::{TokenStream, TokenTree};
use std::str::FromStr;

fn tokens(text: &str) -> TokenStream {
    TokenStream::from_str(text).unwrap()
}

/// The errors in an expansion, as `line:column message`; columns count from 1.
fn errors(expansion: &TokenStream) -> Vec<String> {
    let mut found = Vec::new();
    let mut at = None;
    for token in expansion.clone() {
        match (token, at) {
            (TokenTree::Ident(word), _) if word == "compile_error" => {
                at = Some(word.span().start())
            }
            (TokenTree::Group(group), Some(start)) => {
                at = None;
                let text: syn::LitStr = syn::parse2(group.stream()).unwrap();
                found.push(format!("{}:{} {}", start.line, start.column + 1, text.value()));
            }
            _ => {}
        }
    }
    found
}

/// `body` begins at line 2.
#[track_caller]
fn refuses(body: &str, expected: &[&str]) {
    let item = tokens(&format!("fn k(n: i64) {{\n{body}\n}}"));
    assert_eq!(errors(&expand::kernel(TokenStream::new(), item.clone())), expected);
    assert_eq!(errors(&expand::kernel_fn(TokenStream::new(), item)), expected);
}

#[track_caller]
fn item_refuses(attribute: &str, item: &str, expected: &[&str]) {
    assert_eq!(errors(&expand::kernel(tokens(attribute), tokens(item))), expected);
}

#[test]
fn leaving_early() {
    refuses(
        "if c {\n    return;\n}",
        &["3:5 a kernel can't return early: put the rest into an `if`"],
    );
    refuses(
        "while c { break; }\nwhile c { continue; }",
        &[
            "2:11 `break` can't be traced: put the condition into the `while`",
            "3:11 `continue` can't be traced: put the rest of the body into an `if`",
        ],
    );
    refuses("f()?;", &["2:1 `?` can't be traced: a kernel has no errors to return"]);
    refuses("loop { f(); }", &["2:1 `loop` can't be traced: use `while` with a condition"]);
    for labelled in ["'a: for i in e {}", "'a: while c {}", "'a: {}"] {
        refuses(labelled, &["2:1 labels can't be traced"]);
    }
}

#[test]
fn other_kinds_of_code() {
    refuses("async {};", &["2:1 a kernel has no async code"]);
    refuses("e.await;", &["2:1 a kernel has no async code"]);
    refuses("f(async |a| a);", &["2:3 a kernel has no async code"]);
    refuses("let v = unsafe { f() };", &["2:9 a kernel has no unsafe code"]);
    refuses("let v = const { 1 };", &["2:9 name the constant with `const NAME: T = …;`"]);
    refuses("f(&raw const n);", &["2:3 a kernel has no pointers"]);
    refuses("yield n;", &["2:1 a kernel can't yield"]);
    refuses("try { f() };", &["2:1 a kernel has no `try` blocks"]);
}

#[test]
fn conditions() {
    refuses(
        "while let Some(i) = e {}",
        &["2:7 `while let` can't be traced: use `while` with a condition"],
    );
    refuses(
        "if let Some(i) = e && c {}",
        &["2:4 `let` in a condition stands alone: nest two `if`s"],
    );
    refuses(
        "if c && let Some(i) = e {}",
        &["2:9 `let` in a condition stands alone: nest two `if`s"],
    );
}

#[test]
fn declarations() {
    refuses("let x;", &["2:5 a variable of a kernel needs a value from the start"]);
    refuses("let mut x: f32;", &["2:5 a variable of a kernel needs a value from the start"]);
    refuses(
        "let Some(x) = e else { f() };",
        &["2:17 `let … else` can't be traced: use `if let`, or `match`"],
    );
    refuses("for i in n.. {}", &["2:10 a loop over a range needs both bounds"]);
    refuses(
        "match e { Some(mut a) => f(), _ => {} }",
        &["2:20 a pattern of `match` can't be `mut`: bind it again with `let mut`"],
    );
    refuses(
        "if let Some(mut a) = e {}",
        &["2:17 a pattern of `if let` can't be `mut`: bind it again with `let mut`"],
    );
    refuses(
        "f(|mut a| a);",
        &["2:8 a closure's parameters can't be `mut`: bind them again with `let mut`"],
    );
}

#[test]
fn variables() {
    refuses(
        "let mut x = e;\nlet f = |a| a + x;",
        &["3:17 a closure can't use the mutable variable `x`: pass its value as an argument"],
    );
    refuses(
        "let mut x = e;\nf(|a| { let mut b = a; b = 1; x.0 = b; x += 1 });",
        &[
            "3:31 a closure can't assign to the mutable variable `x`: return the new value",
            "3:40 a closure can't assign to the mutable variable `x`: return the new value",
        ],
    );
    for borrowed in ["x", "x.0", "x[i]", "(x)"] {
        let message = "`x` can't be borrowed `&mut`: return the new value and assign it";
        let column = 8 + usize::from(borrowed.starts_with('('));
        refuses(
            &format!("let mut x = e;\nf(&mut {borrowed});"),
            &[&format!("3:{column} {message}")],
        );
    }
    refuses(
        "let mut x = e;\nx.swap(0, 1);\nfor v in x.0.iter_mut() {}",
        &[
            "3:3 `swap` can't change `x` in place: assign the new value to it",
            "4:14 `iter_mut` can't change `x` in place: assign the new value to it",
        ],
    );
    refuses("let mut x = e;\n(x, y) = e;", &["3:5 assign to this in a statement of its own"]);
}

#[test]
fn macros() {
    refuses(
        "let v = vec![1];",
        &["2:9 `vec!` can't be traced: a kernel uses `assert!` and `print!` only"],
    );
    refuses("assert_eq!(a, b);", &["2:1 use `assert!(a == b)`"]);
    refuses("assert_ne!(a, b);", &["2:1 use `assert!(a != b)`"]);
    refuses("assert!(a, b);", &["2:12 the message of `assert!` is a string literal"]);
    refuses(
        r#"assert!(a, "{}", b);"#,
        &["2:1 `assert!` takes a condition and, if you like, a string literal"],
    );
    refuses(r#"assert!(a, "{b}");"#, &["2:12 the message of `assert!` has no `{}` in a kernel"]);
    refuses("print!(a);", &["2:1 `print!` begins with a string literal"]);
    refuses(r#"print!("{} {}", a);"#, &["2:8 2 `{}` for 1 values"]);
    for format in ["{a}", "{:?}", "{", "}", "é{"] {
        let body = format!("print!({format:?});");
        refuses(&body, &["2:8 `print!` in a kernel knows `{}`, `{{` and `}}` only"]);
    }
    refuses(r#"print!("{}", a = b);"#, &["2:14 the values of `print!` have no names in a kernel"]);
    let item = tokens("fn k() { assert!(a b); }");
    assert_eq!(errors(&expand::kernel(TokenStream::new(), item)).len(), 1);
}

#[test]
fn conditional_compilation() {
    let message = "`cfg` can't be used inside a kernel: put it on a `const`, and use `if`";
    refuses("#[cfg(a)]\nlet x = e;", &[&format!("2:1 {message}")]);
    refuses("f();\n#[cfg(a)]\nfor i in e {}", &[&format!("3:1 {message}")]);
    refuses("#[cfg_attr(a, b)] f();", &[&format!("2:1 {message}")]);
    refuses("#[cfg(a)] const N: u8 = 1; match e { #[cfg(a)] 1 => f(), _ => g() }", &[]);
}

#[test]
fn every_mistake_is_reported() {
    refuses(
        "let x;\nif c { return; } else { loop {} }\nassert!(f()?);",
        &[
            "2:5 a variable of a kernel needs a value from the start",
            "3:8 a kernel can't return early: put the rest into an `if`",
            "3:25 `loop` can't be traced: use `while` with a condition",
            "4:9 `?` can't be traced: a kernel has no errors to return",
        ],
    );
}

#[test]
fn signatures() {
    item_refuses(
        "persistant",
        "fn k() {}",
        &["1:1 the only option of `#[kernel]` is `persistent`"],
    );
    item_refuses("", "async fn k() {}", &["1:1 a kernel can't be async: it is traced on the spot"]);
    item_refuses(
        "",
        "unsafe fn k() {}",
        &["1:1 a kernel can't be unsafe: the language has nothing unsafe"],
    );
    item_refuses("", "const fn k() {}", &["1:1 a kernel can't be const: it is traced at run time"]);
    item_refuses("", "extern \"C\" fn k() {}", &["1:1 a kernel can't be extern"]);
    item_refuses(
        "",
        "fn k<'a>() {}",
        &["1:6 a kernel can't be generic over lifetimes: leave them out"],
    );
    item_refuses("", "fn k(&self) {}", &["1:6 a kernel is a free function: it has no `self`"]);
    item_refuses("", "fn k((a, b): T) {}", &["1:6 a kernel's parameters are plain names"]);
    item_refuses(
        "",
        "fn k(a: impl T) {}",
        &["1:9 name the type with a generic parameter instead of `impl`"],
    );
    item_refuses(
        "",
        "fn k(#[cfg(a)] a: T) {}",
        &["1:6 a parameter is there always: put `cfg` on the whole function"],
    );
    item_refuses(
        "",
        "fn k(a: usize) -> i64 {}",
        &[
            "1:19 a kernel returns nothing: it writes its results through `&mut Tensor` parameters",
            "1:9 a kernel's run-time scalars are i32, i64, f32, …; make a compile-time size a const generic",
        ],
    );
    item_refuses("", "fn k() -> () {}", &[]);
    let made = expand::kernel_fn(tokens("inline"), tokens("fn h() {}"));
    assert_eq!(errors(&made), ["1:1 `#[kernel_fn]` takes no options"]);
}

/// What is refused stays declared, so that its users are not reported as well.
#[test]
fn refused_items_stay() {
    let kept = |item: &str| {
        let made = expand::kernel(TokenStream::new(), tokens(item));
        let items = syn::parse2::<syn::File>(made).unwrap().items;
        quote::ToTokens::to_token_stream(items.last().unwrap()).to_string()
    };
    let stub =
        tokens("#[a] #[allow(unused, clippy::all)] pub fn k<T>(x: T) { ::core::unreachable!() }");
    assert_eq!(kept("#[a] pub fn k<T>(x: T) { return; }"), stub.to_string());
    let stub = tokens("pub fn k<T>(x: T) { ::core::unreachable!() }");
    assert_eq!(kept("pub fn k<T>(x: T) { let = ; }"), stub.to_string());
    let deep = format!("pub fn k<T>(x: T) {{ {}x }}", "!".repeat(1000));
    assert_eq!(kept(&deep), stub.to_string());
    assert_eq!(kept("struct S { a: u8 }"), tokens("struct S { a: u8 }").to_string());
}

#[test]
fn only_functions() {
    item_refuses("", "struct S;", &["1:1 `#[kernel]` and `#[kernel_fn]` go on functions"]);
    item_refuses("", "", &["1:1 `#[kernel]` and `#[kernel_fn]` go on functions"]);
}
