//! What the parser says about texts that are wrong: whole messages, as a person sees them.

use metile_ir::tile::parse::{MAX_TEXT, parse, source};
use metile_ir::tile::verify::MAX_NESTING;

/// The message about `text`, which must be refused.
#[track_caller]
fn refusal(text: &str) -> String {
    match parse("k.tile", text) {
        Ok(kernel) => panic!("this is read:\n{kernel}"),
        Err(error) => error.render(&[source("k.tile", text)]),
    }
}

/// The first line of the message about a kernel with these operations before `return`, and the caret.
#[track_caller]
fn refused(operations: &str) -> String {
    let text = format!("kernel @k(%x: f32, %t: tensor<f32, 1>) {{\n{operations}\nreturn }}");
    let rendered = refusal(&text);
    let head = rendered.lines().next().unwrap_or_default();
    let place = rendered.lines().nth(1).unwrap_or_default();
    let hint = rendered.lines().find(|l| l.contains("= help")).unwrap_or_default();
    let head = head.strip_prefix("error: kernel `k`: ").unwrap_or(head);
    let place = place.rsplit("k.tile:").next().unwrap_or_default();
    let hint = hint.trim_start().replace("= help: ", " | ");
    format!("{place}: {head}{hint}")
}

#[test]
fn a_missing_value() {
    assert_eq!(
        refusal("kernel @k(%x: f32) {\n  %y = add %x, %z : f32\n  return\n}\n"),
        "\
error: kernel `k`: `%z` is not defined before it is used
 --> k.tile:2:16
  |
2 |   %y = add %x, %z : f32
  |                ^
"
    );
}

#[test]
fn a_value_of_a_region_that_has_ended() {
    assert_eq!(
        refusal(
            "kernel @k(%c: bool) {\n  if %c {\n    %v = not %c : bool\n    yield\n  } else {\n    yield\n  }\n  assert %v, \"\"\n  return\n}\n"
        ),
        "\
error: kernel `k`: `%v` is not visible here
 --> k.tile:8:10
  |
8 |   assert %v, \"\"
  |          ^
note: it is defined here, in a region that has ended; give it as a result
 --> k.tile:3:5
  |
3 |     %v = not %c : bool
  |     ^
"
    );
}

#[test]
fn a_redefinition() {
    assert_eq!(
        refusal("kernel @k(%x: f32) {\n  %x = neg %x : f32\n  return\n}\n"),
        "\
error: kernel `k`: `%x` is defined twice
 --> k.tile:2:3
  |
2 |   %x = neg %x : f32
  |   ^
note: the first definition
 --> k.tile:1:11
  |
1 | kernel @k(%x: f32) {
  |           ^
"
    );
}

#[test]
fn an_unclosed_region() {
    assert_eq!(
        refusal("kernel @k(%c: bool) {\n  if %c {\n    yield\n  } else {\n"),
        "\
error: kernel `k`: expected an operation, found the end of the text
 --> k.tile:5:1
note: the region begins here
 --> k.tile:4:10
  |
4 |   } else {
  |          ^
  = help: this region ends in `yield`
"
    );
    assert_eq!(
        refusal("kernel @k() {\n  grid_barrier\n}\n"),
        "\
error: kernel `k`: expected an operation, found `}`
 --> k.tile:3:1
  |
3 | }
  | ^
note: the region begins here
 --> k.tile:1:13
  |
1 | kernel @k() {
  |             ^
  = help: this region ends in `return`
"
    );
}

#[test]
fn texts_that_are_no_kernel() {
    assert_eq!(refusal(""), "error: k.tile holds no kernel\n --> k.tile:1:1\n");
    assert_eq!(
        refusal("kernel @a() { return }\nkernel @b() { return }"),
        "\
error: kernel `a`: a text holds one kernel, not two
 --> k.tile:2:1
  |
2 | kernel @b() { return }
  | ^^^^^^
"
    );
    assert_eq!(
        refusal("file 1 \"a.rs\"\nkernel @a() { return }"),
        "\
error: this is file 0, not 1
 --> k.tile:1:6
  |
1 | file 1 \"a.rs\"
  |      ^
  = help: files are numbered in order from 0
"
    );
    assert!(
        refusal("func @k() { return }").starts_with("error: expected `kernel`, found `func`\n")
    );
    assert!(refusal("kernel @k() fast { return }").starts_with(
        "error: kernel `k`: expected `persistent`, `precision` or `{`, found `fast`\n"
    ));
    assert!(refusal("kernel @k() { return } x").starts_with(
        "error: kernel `k`: expected the end of the text after the kernel, found `x`\n"
    ));
    let long = " ".repeat(MAX_TEXT + 1);
    assert_eq!(refusal(&long), "error: k.tile has 67108865 bytes; a text has at most 67108864\n");
}

#[test]
fn operations() {
    assert_eq!(refused("%y = negate %x : f32"), "2:6: there is no operation `negate`");
    assert_eq!(refused("neg %x : f32"), "2:1: `neg` gives 1 value, but none is named here");
    assert_eq!(
        refused("%a = grid_barrier"),
        "2:1: `grid_barrier` gives no value, but 1 is named here"
    );
    assert_eq!(refused("%a, %b = neg %x : f32"), "2:1: `neg` gives 1 value, but 2 are named here");
    assert_eq!(
        refused("%y = neg %x"),
        "3:1: expected `:` and the type of the result, found `return`"
    );
    assert_eq!(refused("%y = add %x : f32"), "2:13: expected `,`, found `:`");
    assert_eq!(refused("%y = add %x, 1 : f32"), "2:14: expected a value, found `1`");
    assert_eq!(
        refused("%y = reduce mean %x axis 0 : f32"),
        "2:13: expected one of `sum`, `max`, `min`, `argmax`, `argmin`, `any`, `all`, found `mean`"
    );
    assert_eq!(refused("%y = reduce sum %x : f32"), "2:20: expected `axis`, found `:`");
    assert_eq!(
        refused("%y = program_id 256 : i64"),
        "2:17: 256 is too large for an axis | at most 255 is allowed"
    );
    assert_eq!(
        refused("%y = program_id -1 : i64"),
        "2:17: expected an axis, an integer of decimal digits, found `-1`"
    );
    assert_eq!(refused("%y = load %t[%x : f32"), "2:17: expected `,` or `]`, found `:`");
    assert_eq!(refused("store %t[%x] mask, %x"), "2:18: expected a value, found `,`");
    assert_eq!(refused("assert %x, oops"), "2:12: expected the message in quotes, found `oops`");
    assert_eq!(refused("yield"), "2:1: this region ends in `return`, not in `yield`");
    assert_eq!(refused("return"), "3:1: expected `}` after `return`, found `return`");
    assert_eq!(refused("%y = neg %x : f32 @0:1"), "3:1: expected `:`, found `return`");
}

#[test]
fn control() {
    assert_eq!(
        refused("for %i = %x to %x step %x (%a = %x) { yield %a }"),
        "2:37: `for` carries 1 value, but gives no value | each value carried is a result"
    );
    assert_eq!(
        refused("%r = if %x -> (f32, f32) { yield %x } else { yield %x }"),
        "2:1: `if` gives 2 values, but 1 is named here"
    );
    assert_eq!(refused("if %x { yield }"), "3:1: expected `else`, found `return`");
    assert_eq!(
        refused("while { yield } do { yield }"),
        "2:9: this region ends in `condition`, not in `yield`"
    );
    assert_eq!(
        refused("for %i = %x to %i step %x { yield }"),
        "2:16: `%i` is not defined before it is used"
    );
}

#[test]
fn types_and_shapes() {
    assert_eq!(
        refused("%y = cast %x : f64"),
        "2:16: there is no type `f64` | types are written f32, f32[4, 8], tensor<f32, 2>, mut tensor<f32, 2>, counters<u32, 1> and list<f32, 2>"
    );
    assert_eq!(
        refused("%y = arange : i64[0]"),
        "2:18: axis 0 of the tile shape [0] is 0; sides are at least 1"
    );
    assert_eq!(
        refused("%y = arange : i64[4096, 4096]"),
        "2:18: the tile shape [4096, 4096] has more than 4194304 elements"
    );
    assert_eq!(
        refused("%y = arange : i64[1, 1, 1, 1, 1]"),
        "2:18: a tile has at most 4 axes, not 5"
    );
    assert_eq!(
        refused("%y = arange : i64[99999999999999999999]"),
        "2:19: 99999999999999999999 is too large for a side of the tile | at most 4294967295 is allowed"
    );
    assert_eq!(refused("%y = arange : i64[]"), "2:19: expected a side of the tile, found `]`");
    assert_eq!(
        refused("%y = pick %t, %x axis 0 : tensor<f8, 1>"),
        "2:34: there is no format `f8` | a tensor holds elements of a dtype, as `f16`, or a packed format, as `q4_0`"
    );
    assert_eq!(
        refused("%y = pick %t, %x axis 0 : mut f32"),
        "2:31: expected `tensor` or `list` after `mut`, found `f32`"
    );
    assert_eq!(
        refused("%y = constant 1 : tensor<f32, 1>"),
        "2:6: a constant is a tile, not a tensor<f32, 1>"
    );
}

#[test]
fn constants() {
    assert_eq!(refused("%y = constant 128 : i8"), "2:15: `128` is out of the range of i8");
    assert_eq!(refused("%y = constant -1 : u32"), "2:15: `-1` is out of the range of u32");
    assert_eq!(
        refused("%y = constant 340282366920938463463374607431768211456 : u64"),
        "2:15: `340282366920938463463374607431768211456` is out of the range of u64"
    );
    assert_eq!(refused("%y = constant 1.5 : i32"), "2:15: `1.5` is no constant of i32");
    assert_eq!(refused("%y = constant 0x10 : i32"), "2:15: `0x10` is no constant of i32");
    assert_eq!(refused("%y = constant 65520 : f16"), "2:15: `65520` is out of the range of f16");
    assert_eq!(refused("%y = constant 1e39 : f32"), "2:15: `1e39` is out of the range of f32");
    for bad in ["1.2.3", "1_0", "infinity", "-infinity", "-", "-nan", "true"] {
        let expected = format!("2:15: `{bad}` is no constant of f32");
        assert_eq!(refused(&format!("%y = constant {bad} : f32")), expected);
    }
    assert_eq!(refused("%y = constant 1 : bool"), "2:15: `1` is no bool; `true` and `false` are");
    assert_eq!(
        refused("%y = constant nan : f32"),
        "2:21: expected the bits of the NaN, as `0x7fc00000`, found `f32`"
    );
    assert_eq!(
        refused("%y = constant nan:0x7f800000 : f32"),
        "2:15: 0x7f800000 are not the bits of a NaN of f32"
    );
    assert_eq!(
        refused("%y = constant nan:0x17fc00000 : f32"),
        "2:15: 0x17fc00000 are not the bits of a NaN of f32"
    );
    assert_eq!(
        refused("%y = constant nan:0x1 : i32"),
        "2:15: 0x1 are not the bits of a NaN of i32"
    );
}

#[test]
fn tokens() {
    assert_eq!(refused("%y = neg $x : f32"), "2:10: the character '$' has no meaning here");
    let no_name = "is no name of a value; it is `%` with a number, or with a name that may end in `.` and a number";
    for bad in ["%", "%1a", "%a.", "%a.b", "%1.2"] {
        assert_eq!(refused(&format!("{bad} = neg %x : f32")), format!("2:1: `{bad}` {no_name}"));
    }
    assert_eq!(refused("print \"open"), "2:7: a string is not closed by `\"` on its line");
    let escapes = r#"unknown escape in a string; there are \", \\, \n, \r, \t and \u{…}"#;
    for bad in [r"\q", r"\u", r"\u{", r"\u{}", r"\u{d800}", r"\u{110000}", r"\u{+1}"] {
        assert_eq!(refused(&format!("print \"ab{bad}\"")), format!("2:10: {escapes}"));
    }
    let long = "x".repeat(100);
    assert_eq!(
        refused(&format!("%y = {long}")),
        format!("2:6: there is no operation `{}…`", "x".repeat(40))
    );
}

/// `if`s in each other, `depth` regions in all.
fn nested(depth: usize) -> String {
    let open = "if %c {\n".repeat(depth - 1);
    let close = "yield } else { yield }\n".repeat(depth - 1);
    format!("kernel @k(%c: bool) {{\n{open}{close}return }}\n")
}

#[test]
fn deep_nesting() {
    assert!(parse("k.tile", &nested(MAX_NESTING)).is_ok());
    assert_eq!(
        refusal(&nested(MAX_NESTING + 1)),
        "\
error: kernel `k`: regions nest more than 64 deep
  --> k.tile:65:7
   |
65 | if %c {
   |       ^
"
    );
    assert!(refusal(&nested(1_000_000)).contains("deep"));
}

#[test]
fn long_lists() {
    let yields = format!("{}%x", "%x,\n".repeat(1 << 16));
    assert_eq!(
        refused(&format!("cat axis 0 {yields} : f32")),
        "65538:1: a list has at most 65536 entries"
    );
    let operations = "grid_barrier\n".repeat(1 << 20);
    assert_eq!(refused(&operations), "1048579:1: a kernel has at most 1048576 operations");
}

#[test]
fn a_changed_byte_never_panics() {
    let text = "kernel @k(%t: mut tensor<f16, 2>, %c: bool) {\n %0 = constant -1.5e-3 : f16[2]\n %a.1 = if %c -> (f32) @0:1:2 { %n = constant nan:0x7fc00000 : f32 yield %n } else { yield %0 }\n print \"\\u{e9} {}\", %0\n return }";
    assert!(parse("k.tile", text).is_ok());
    for at in 0..text.len() {
        for byte in (0u8..128).chain([0xc3]) {
            let mut bytes = text.as_bytes().to_vec();
            bytes[at] = byte;
            if let Ok(kernel) = parse("k.tile", &String::from_utf8_lossy(&bytes)) {
                assert!(parse("k.tile", &kernel.to_string()).is_ok());
            }
        }
    }
}
