//! What each construct of a body becomes, and what surrounds the body.

#[path = "../src/expand/mod.rs"]
mod expand;

use proc_macro2::TokenStream;
use std::str::FromStr;

fn tokens(text: &str) -> TokenStream {
    TokenStream::from_str(text).unwrap()
}

fn formatted(text: &str) -> String {
    prettyplease::unparse(&syn::parse_str(text).unwrap_or_else(|e| panic!("{e} in {text}")))
}

/// The statements of the function that the body of `#[kernel] fn k(parameters) { body }` becomes.
fn rewritten(parameters: &str, body: &str) -> String {
    let item = tokens(&format!("fn k({parameters}) {{ {body} }}"));
    let file = syn::parse2::<syn::File>(expand::kernel(TokenStream::new(), item)).unwrap();
    for item in file.items {
        let syn::Item::Impl(item) = item else { continue };
        let syn::ImplItem::Fn(definition) = &item.items[0] else { continue };
        let syn::Stmt::Item(syn::Item::Fn(function)) = &definition.block.stmts[0] else { continue };
        let block = &function.block;
        return formatted(&quote::quote!(fn body() #block).to_string());
    }
    panic!("refused: {body}");
}

#[track_caller]
fn becomes(body: &str, expected: &str) {
    let expected = expected.replace("l::", "::metile::lang::");
    assert_eq!(rewritten("", body), formatted(&format!("fn body() {{ {expected} }}")));
}

/// `name(name)`, as a plain `let` is followed by.
fn named(name: &str) -> String {
    format!(
        "{{ #[allow(unused_imports)] use l::NameAny as _; l::Name(&{name}).give(\"{name}\"); }}"
    )
}

#[test]
fn variables() {
    becomes("let mut x = e;", r#"let x = l::cell("x", e);"#);
    becomes("let mut x = 0;", r#"let x = l::cell("x", 0i64);"#);
    becomes("let mut x = -1;", r#"let x = l::cell("x", -1i64);"#);
    becomes("let mut x = 0x1f;", r#"let x = l::cell("x", 31i64);"#);
    becomes("let mut x = 0.5;", r#"let x = l::cell("x", 0.5f32);"#);
    becomes("let mut x = 1.;", r#"let x = l::cell("x", 1.0f32);"#);
    becomes("let mut x = 1u8;", r#"let x = l::cell("x", 1u8);"#);
    becomes("let mut x: i32 = 0;", r#"let x = l::cell_as::<l::Tile<i32>, _>("x", 0);"#);
    becomes("let mut x: Tile<f32> = e;", r#"let x = l::cell_as::<Tile<f32>, _>("x", e);"#);
    becomes(
        "let mut x: (f32, [bool; 2]) = e;",
        r#"let x = l::cell_as::<(l::Tile<f32>, [l::Tile<bool>; 2]), _>("x", e);"#,
    );
    becomes("let (mut a, _) = e;", r#"let (a, _) = e; let a = l::cell("a", a);"#);
    becomes(
        "let S { mut a, .. } = e; a",
        r#"let S { a, .. } = e; let a = l::cell("a", a); a.get()"#,
    );
    becomes("#[allow(unused)] let mut x = e;", r#"#[allow(unused)] let x = l::cell("x", e);"#);
    let parameter = rewritten("mut n: i64", "n -= 1;");
    let expected = r#"let n = l::cell("n", n); { n.set(n.get() - (1)); }"#;
    let expected = format!("fn body() {{ {} }}", expected.replace("l::", "::metile::lang::"));
    assert_eq!(parameter, formatted(&expected));
}

#[test]
fn plain_lets() {
    becomes("let x = e;", &format!("let x = e; {}", named("x")));
    becomes("let _x = e; let _ = e;", "let _x = e; let _ = e;");
    becomes("let x: usize = e;", &format!("let x: usize = e; {}", named("x")));
    becomes(
        "let x: f32 = e;",
        &format!("let x = l::lift_as::<l::Tile<f32>, _>(e); {}", named("x")),
    );
    becomes(
        "let (x, _): (f16, usize) = e;",
        &format!("let (x, _) = l::lift_as::<(l::Tile<f16>, usize), _>(e); {}", named("x")),
    );
    // A path, or a type inside of generics, is what it says.
    becomes("let _x: half::f16 = e;", "let _x: half::f16 = e;");
    becomes("let _x: Tile<f32> = e;", "let _x: Tile<f32> = e;");
    // A lone upper-case name may be a constant.
    becomes("let N = e;", "let N = e;");
    becomes("let ref mut _x = e;", "let ref mut _x = e;");
}

/// With a variable `x` in scope.
#[track_caller]
fn with_x(body: &str, expected: &str) {
    becomes(&format!("let mut x = e; {body}"), &format!(r#"let x = l::cell("x", e); {expected}"#));
}

#[test]
fn reads() {
    with_x(
        "f(x, x.m(x), x.0, x[x], &x);",
        "f(x.get(), x.get().m(x.get()), x.get().0, x.get()[x.get()], &x.get());",
    );
    with_x("S { x, y: x, ..x };", "S { x: x.get(), y: x.get(), ..x.get() };");
    with_x(
        "(x, [x; N], -x, !x, x + (x));",
        "(x.get(), [x.get(); N], -x.get(), !x.get(), x.get() + (x.get()));",
    );
    with_x("a::x; x::<f32>(); x!= x;", "a::x; x::<f32>(); l::ne(x.get(), x.get());");
    with_x("{ let _y = x..x; }", "{ let _y = x.get()..x.get(); }");
}

#[test]
fn scopes() {
    let shadowed = format!("let x = x.get(); {}", named("x"));
    with_x("{ let x = x; f(x); } f(x);", &format!("{{ {shadowed} f(x); }} f(x.get());"));
    with_x("let x = x; f(x);", &format!("{shadowed} f(x);"));
    with_x("let x = |x| x + 1;", &format!("let x = |x| x + 1; {}", named("x")));
    with_x(
        "match x { Some(x) => f(x), _ => f(x) }",
        "match x.get() { Some(x) => f(x), _ => f(x.get()) }",
    );
    with_x(
        "for x in x { f(x); } f(x);",
        r#"l::for_each("x", x.get(), |x| { { f(x); } }); f(x.get());"#,
    );
    with_x("{ const x: u8 = 1; f(x); }", "{ const x: u8 = 1; f(x); }");
    with_x(
        "{ fn x() { let mut x = 1; x = 2; } x(); }",
        "{ fn x() { let mut x = 1; x = 2; } x(); }",
    );
    // An item of the same block is hidden by the `let`, wherever it is.
    with_x("const x: u8 = 1; x = 2;", "const x: u8 = 1; x.set(2);");
    with_x(
        "{ f(x); let mut x = x; x = 1; } x = 2;",
        r#"{ f(x.get()); let x = l::cell("x", x.get()); x.set(1); } x.set(2);"#,
    );
    with_x(
        "|a| { let mut b = a; b = 1; b };",
        r#"|a| { let b = l::cell("b", a); b.set(1); b.get() };"#,
    );
}

#[test]
fn assignments() {
    with_x("x = x;", "x.set(x.get());");
    with_x("(x) = 1;", "x.set(1);");
    with_x("y = x; *p = x; y[x] = 1;", "y = x.get(); *p = x.get(); y[x.get()] = 1;");
    for operator in ["+", "-", "*", "/", "%", "^", "&", "|", "<<", ">>"] {
        with_x(&format!("x {operator}= a;"), &format!("x.set(x.get() {operator} (a));"));
    }
    with_x("y += x;", "y += x.get();");
    with_x(
        "x.0[x].1 = a < b;",
        "{
            let __metile_value = l::lt(a, b);
            let mut __metile_whole = x.get();
            __metile_whole.0[x.get()].1 = l::lift_as(__metile_value);
            x.set(__metile_whole);
        };",
    );
    with_x(
        "x[i] -= x;",
        "{
            let __metile_value = x.get();
            let mut __metile_whole = x.get();
            let __metile_place = &mut __metile_whole[i];
            *__metile_place = l::lift_as(*__metile_place - __metile_value);
            x.set(__metile_whole);
        };",
    );
    with_x(
        "(_, x, [x.0]) = e;",
        "{
            let (_, __metile_part_0, [__metile_part_1,],) = e;
            x.set(__metile_part_0);
            {
                let __metile_value = __metile_part_1;
                let mut __metile_whole = x.get();
                __metile_whole.0 = l::lift_as(__metile_value);
                x.set(__metile_whole);
            };
        };",
    );
    with_x("(a, b) = x;", "(a, b) = x.get();");
}

#[test]
fn loops() {
    // The outer braces are for what comes before the body.
    becomes("for i in a..b { f(i); }", r#"l::for_each("i", l::range(a, b), |i| { { f(i); } })"#);
    becomes("for _ in (a..=b) {}", r#"l::for_each("", l::range_inclusive(a, b), |_| { {} })"#);
    becomes("for (i, j) in e { g() }", r#"l::for_each("", e, |(i, j)| { { g() } })"#);
    becomes(
        "for mut i in e { i += 1; } f();",
        r#"l::for_each("i", e, |i| { let i = l::cell("i", i); { i.set(i.get() + (1)); } }); f();"#,
    );
    with_x(
        "while x < 3 { x += 1; } f();",
        "l::while_loop(|| l::lt(x.get(), 3), || { x.set(x.get() + (1)); }); f();",
    );
    becomes(
        "#[allow(unused)] for i in e {} f();",
        r#"#[allow(unused)] l::for_each("i", e, |i| { {} }); f();"#,
    );
}

#[test]
fn branches() {
    becomes("if c { f(); } g();", "l::branch(c, || { f(); }, || {}); g();");
    becomes("let _v = if c { a } else { b };", "let _v = l::branch(c, || { a }, || { b });");
    becomes(
        "if c { a } else if d { b } else { e }",
        "l::branch(c, || { a }, || l::branch(d, || { b }, || { e }))",
    );
    with_x(
        "if let Some(x) = x { f(x); } else if x { g(x); } h();",
        "if let Some(x) = x.get() { f(x); } else { l::branch(x.get(), || { g(x.get()); }, || {}) }; h();",
    );
    becomes(
        "match a < b { true if c == d => f(), _ => {} }",
        "match l::lt(a, b) { true if l::eq(c, d) => f(), _ => {} }",
    );
}

#[test]
fn operators() {
    for (operator, name) in
        [("<", "lt"), ("<=", "le"), (">", "gt"), (">=", "ge"), ("==", "eq"), ("!=", "ne")]
    {
        becomes(&format!("a + 1 {operator} -b"), &format!("l::{name}(a + 1, -b)"));
    }
    becomes("a && b || c", "l::or_else(l::and_then(a, || b), || c)");
    becomes("!a & (b << c)", "!a & (b << c)");
    becomes("a < b as i64", "l::lt(a, l::cast::<i64, _>(b))");
    becomes("f(-1 as f32, (2) as u8)", "f(-1 as f32, (2) as u8)");
    becomes("f::<{ A < B }>(a < b)", "f::<{ A < B }>(l::lt(a, b))");
    becomes("[a < b; { N * 2 }]", "[l::lt(a, b); { N * 2 }]");
}

#[test]
fn macros() {
    becomes("assert!(a < b);", r#"l::assert(l::lt(a, b), "a < b");"#);
    becomes(r#"assert!(a, "never {{}}",);"#, r#"l::assert(a, "never {}");"#);
    becomes(r#"print!("x");"#, r#"l::print("x", &[]);"#);
    becomes(
        r#"print!("{} {{}} {}", a + 1, b) f();"#.replace(") f", "); f").as_str(),
        r#"l::print("{} {{}} {}", &[&(a + 1) as &dyn l::Printable, &(b) as &dyn l::Printable]); f();"#,
    );
    becomes(r#"print! { "x" } f();"#, r#"l::print("x", &[]); f();"#);
}

#[test]
fn the_item_of_a_kernel() {
    let item = "
        /// Adds.
        #[inline]
        pub(crate) fn add<T: Float, const N: usize>(x: &Tensor<T, 1>, n: i64) where T: Copy { f(x, n) }";
    let made = expand::kernel(tokens("persistent"), tokens(item)).to_string();
    let expected = r#"
        #[doc(hidden)]
        #[allow(non_camel_case_types)]
        pub(crate) struct add {}
        impl add {
            #[doc = "The traced definition of [`add`](fn@add)."]
            pub(crate) fn definition<T: Float, const N: usize>() -> ::metile::lang::Definition where T: Copy {
                #[allow(unused_parens, unused_braces, clippy::all)]
                fn __metile_body<T: Float, const N: usize>(
                    x: <&Tensor<T, 1> as ::metile::lang::KernelParam>::Traced,
                    n: <i64 as ::metile::lang::KernelParam>::Traced
                ) where T: Copy { f(x, n) }
                ::metile::lang::Definition::new(
                    ::metile::lang::KernelInfo {
                        name: "add",
                        module: ::core::module_path!(),
                        generics: ::std::vec![
                            ("T", ::metile::lang::type_label::<T>()), ("N", ::std::format!("{:?}", N))
                        ],
                        source: ::metile::lang::SourceText {
                            file: ::core::file!(), first_line: 4u32, first_column: 93u32, text: "{ f(x, n) }",
                        },
                        persistent: true,
                    },
                    || {
                        let x = ::metile::lang::param::<&Tensor<T, 1> >("x");
                        let n = ::metile::lang::param::<i64>("n");
                        __metile_body::<T, N,>(x, n)
                    },
                )
            }
        }
        #[doc = " Adds."]
        #[inline]
        #[allow(clippy::too_many_arguments)]
        pub(crate) fn add<'call, T: Float, const N: usize>(
            x: &'call Tensor<T, 1>, n: i64
        ) -> ::metile::lang::KernelCall<'call> where T: Copy {
            ::metile::lang::KernelCall::new(add::definition::<T, N,>(), ::std::vec![
                <&'call Tensor<T, 1> as ::metile::lang::KernelParam>::bind(x),
                <i64 as ::metile::lang::KernelParam>::bind(n)
            ],)
        }"#;
    // The formatter leaves the tokens of `vec!` as they came.
    let joined = |text: &str| formatted(text).split_whitespace().collect::<String>();
    assert_eq!(joined(&made), joined(expected));
}

#[test]
fn the_item_of_a_helper() {
    let item = "pub fn h<const N: usize>(x: Tile<f32>, mut eps: f32, out: &mut Tensor<f32, 1>, p: (i64, usize)) \
                -> (f32, usize) { eps = x; (eps, N) }";
    let made = expand::kernel_fn(TokenStream::new(), tokens(item)).to_string();
    let expected = r#"
        #[track_caller]
        #[allow(unused_parens, unused_braces, clippy::all)]
        pub fn h<const N: usize>(
            x: Tile<f32>,
            eps: impl ::metile::lang::IntoTile<f32>,
            out: <&mut Tensor<f32, 1> as ::metile::lang::KernelParam>::Traced,
            p: (::metile::lang::Tile<i64>, usize)
        ) -> (::metile::lang::Tile<f32>, usize) {
            let __metile_frame = ::metile::lang::enter_helper("h", ::metile::lang::SourceText {
                file: ::core::file!(), first_line: 1u32, first_column: 113u32, text: "{ eps = x; (eps, N) }",
            });
            let eps = ::metile::lang::IntoTile::<f32>::into_tile(eps);
            (move || {
                ::metile::lang::lift_as::<(::metile::lang::Tile<f32>, usize), _>({
                    let eps = ::metile::lang::cell("eps", eps);
                    { eps.set(x); (eps.get(), N) }
                })
            })()
        }"#;
    assert_eq!(formatted(&made), formatted(expected));
}

#[test]
fn a_parameter_and_a_helper_may_have_any_name() {
    let item = "fn k(body: &Tensor<f32, 1>, definition: f32) { definition(body) }";
    let made = expand::kernel(TokenStream::new(), tokens(item)).to_string();
    assert!(made.contains("__metile_body :: < > (body , definition)"), "{made}");
}
