//! Each pass on small kernels: what goes in, and what comes out.

use metile_compiler::{Options, Pass, optimize};
use metile_ir::tile::parse::parse;
use metile_ir::tile::same::same_program;
use metile_ir::tile::verify::verify;
use metile_ir::tile::{Kernel, Verified};

/// What every kernel here takes.
const PARAMETERS: &str = "%x: tensor<f32, 1>, %m: mut tensor<f32, 1>, %n: mut tensor<i64, 1>, \
     %t: mut tensor<bool, 1>, %w: tensor<f32, 2>, %h: mut tensor<f16, 1>, \
     %i: i64, %j: i64, %f: f32, %p: bool, %half: f16, %short: i16";

fn kernel(body: &str) -> Verified {
    let text = format!("kernel @k({PARAMETERS}) {{\n{body}\nreturn\n}}\n");
    let kernel = parse("test", &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    verify(kernel).unwrap_or_else(|e| panic!("{}\n{text}", e[0]))
}

fn after(passes: &[Pass], body: &str) -> Kernel {
    let options = Options { passes: passes.to_vec(), ..Options::default() };
    let optimized = optimize(kernel(body), &options).expect("every pass gives a sound kernel");
    optimized.kernel.into_kernel()
}

/// Whether the passes make `after` of `before`.
fn becomes(passes: &[Pass], before: &str, wanted: &str) {
    let found = after(passes, before);
    if let Err(why) = same_program(&found, kernel(wanted).kernel()) {
        panic!("{why}\n{before}\nbecame\n{found}\nnot\n{wanted}");
    }
}

/// Rewriting passes leave what is no longer used to `dce`.
fn simplifies(before: &str, wanted: &str) {
    becomes(&[Pass::Canonicalize, Pass::Dce], before, wanted);
}

fn stays(passes: &[Pass], body: &str) {
    becomes(passes, body, body);
}

/// A body that computes `value` of `%i` and stores it.
fn int(ops: &str, value: &str) -> String {
    format!("%zero = constant 0 : i64\n{ops}\nstore %n[%zero], {value}")
}

/// The same with `f32`.
fn float(ops: &str, value: &str) -> String {
    format!("%zero = constant 0 : i64\n{ops}\nstore %m[%zero], {value}")
}

/// The same with `bool`.
fn truth(ops: &str, value: &str) -> String {
    format!("%zero = constant 0 : i64\n{ops}\nstore %t[%zero], {value}")
}

mod canonicalize {
    use super::*;

    #[test]
    fn integers() {
        let cases = [
            ("%c = constant 0 : i64\n%r = add %c, %i : i64", "", "%i"),
            ("%c = constant 1 : i64\n%r = mul %c, %i : i64", "", "%i"),
            ("%c = constant -1 : i64\n%r = and %i, %c : i64", "", "%i"),
            ("%c = constant 1 : i64\n%r = div %i, %c : i64", "", "%i"),
            ("%a = neg %i : i64\n%r = neg %a : i64", "", "%i"),
            ("%a = not %i : i64\n%r = not %a : i64", "", "%i"),
            ("%c = constant -1 : i64\n%r = xor %c, %i : i64", "%r = not %i : i64", "%r"),
            (
                "%c = constant 5 : i64\n%d = constant 7 : i64\n%a = sub %i, %c : i64\n%r = add %a, %d : i64",
                "%d = constant 2 : i64\n%r = add %i, %d : i64",
                "%r",
            ),
            ("%a = neg %j : i64\n%r = add %i, %a : i64", "%r = sub %i, %j : i64", "%r"),
            ("%c = constant 0 : i64\n%r = sub %c, %i : i64", "%r = neg %i : i64", "%r"),
            ("%r = sub %i, %i : i64", "%r = constant 0 : i64", "%r"),
            ("%r = max %i, %i : i64", "", "%i"),
            ("%r = select %p, %i, %i : i64", "", "%i"),
        ];
        for (before, wanted, value) in cases {
            simplifies(&int(before, "%r"), &int(wanted, value));
        }
        // Shifts do not gather as sums do.
        let shifts = "%c = constant 1 : i64\n%a = shl %i, %c : i64\n%r = shl %a, %c : i64";
        stays(&[Pass::Canonicalize, Pass::Dce], &int(shifts, "%r"));
    }

    #[test]
    fn floats_only_where_every_bit_stays() {
        // A sum is no signalling NaN, so what leaves its number alone leaves its bits alone.
        let sum = "%s = add %f, %f : f32\n";
        for rule in [
            "%c = constant 1.0 : f32\n%r = mul %s, %c : f32",
            "%c = constant 1.0 : f32\n%r = div %s, %c : f32",
            "%c = constant 0.0 : f32\n%r = sub %s, %c : f32",
            "%c = constant -0.0 : f32\n%r = add %c, %s : f32",
        ] {
            simplifies(&float(&format!("{sum}{rule}"), "%r"), &float(sum, "%s"));
        }
        let both = [Pass::Canonicalize, Pass::Dce];
        stays(&both, &float("%c = constant 1.0 : f32\n%r = mul %f, %c : f32", "%r"));
        stays(&both, &float(&format!("{sum}%c = constant 0.0 : f32\n%r = add %s, %c : f32"), "%r"));
        stays(&both, &float(&format!("{sum}%r = sub %s, %s : f32"), "%r"));
        stays(&both, &float("%c = constant nan:0x7fc00001 : f32\n%r = add %c, %f : f32", "%r"));
        simplifies(
            &float("%c = constant 4.0 : f32\n%r = div %f, %c : f32", "%r"),
            &float("%c = constant 0.25 : f32\n%r = mul %f, %c : f32", "%r"),
        );
        // The reciprocal is no normal number.
        stays(&both, &float("%c = constant 1.7014118e38 : f32\n%r = div %f, %c : f32", "%r"));
    }

    #[test]
    fn comparisons_and_choices() {
        let cases = [
            (
                "%c = constant 3 : i64\n%a = lt %c, %i : bool\n%r = not %a : bool",
                "%c = constant 3 : i64\n%r = le %i, %c : bool",
                "%r",
            ),
            ("%r = le %i, %i : bool", "%r = constant true : bool", "%r"),
            (
                "%c = constant true : bool\n%d = constant false : bool\n%r = select %p, %d, %c : bool",
                "%r = not %p : bool",
                "%r",
            ),
            ("%c = constant false : bool\n%r = ne %c, %p : bool", "", "%p"),
        ];
        for (before, wanted, value) in cases {
            simplifies(&truth(before, "%r"), &truth(wanted, value));
        }
        let both = [Pass::Canonicalize, Pass::Dce];
        // NaN is neither below nor not below.
        stays(&both, &truth("%a = lt %f, %f : bool\n%r = not %a : bool", "%r"));
        stays(&both, &truth("%r = eq %f, %f : bool", "%r"));
    }

    #[test]
    fn conversions() {
        simplifies(
            &int("%a = cast %short : i32\n%r = cast %a : i64", "%r"),
            &int("%r = cast %short : i64", "%r"),
        );
        simplifies(
            &int("%a = cast %i : i32\n%b = cast %a : i8\n%r = cast %b : i64", "%r"),
            &int("%b = cast %i : i8\n%r = cast %b : i64", "%r"),
        );
        let both = [Pass::Canonicalize, Pass::Dce];
        // Through f32 the number is rounded; a bf16 does not hold every f16.
        stays(&both, &int("%a = cast %i : f32\n%r = cast %a : i64", "%r"));
        stays(&both, &float("%a = cast %half : bf16\n%r = cast %a : f32", "%r"));
        // On the way out and back a signalling NaN would have become a quiet one.
        let store = "%zero = constant 0 : i64\n%a = cast %half : f32\n%r = cast %a : f16\nstore %h[%zero], %r";
        stays(&both, store);
        simplifies(&float("%a = bitcast %f : u32\n%r = bitcast %a : f32", "%r"), &float("", "%f"));
    }

    #[test]
    fn moves() {
        let load = "%at = constant 0 : i64\n%fill = constant 0.0 : f32\n\
             %a = load_tile %w[%at, %at], %fill : f32[4, 8]\n";
        let end = "%all = reshape %r : f32[32]\n%lane = arange : i64[32]\nstore %m[%lane], %all";
        let cases = [
            (
                "%b = transpose %a [1, 0] : f32[8, 4]\n%r = transpose %b [1, 0] : f32[4, 8]\n",
                "%all = reshape %a : f32[32]\n%lane = arange : i64[32]\nstore %m[%lane], %all",
            ),
            (
                "%b = reshape %a : f32[2, 16]\n%r = reshape %b : f32[16, 2]\n",
                "%all = reshape %a : f32[32]\n%lane = arange : i64[32]\nstore %m[%lane], %all",
            ),
            (
                "%b = slice %a axis 1 start 1 step 2 : f32[4, 3]\n\
                 %c = slice %b axis 1 start 1 step 1 : f32[4, 2]\n\
                 %r = broadcast %c : f32[4, 4, 2]\n",
                "%c = slice %a axis 1 start 3 step 2 : f32[4, 2]\n%r = broadcast %c : f32[4, 4, 2]\n\
                 %all = reshape %r : f32[32]\n%lane = arange : i64[32]\nstore %m[%lane], %all",
            ),
            (
                "%b = cat axis 0 %a, %a : f32[8, 8]\n%r = slice %b axis 0 start 4 step 1 : f32[4, 8]\n",
                "%all = reshape %a : f32[32]\n%lane = arange : i64[32]\nstore %m[%lane], %all",
            ),
        ];
        for (before, wanted) in cases {
            simplifies(&format!("{load}{before}{end}"), &format!("{load}{wanted}"));
        }
    }

    #[test]
    fn a_transposed_factor_becomes_a_flag() {
        let load = "%at = constant 0 : i64\n%fill = constant 0.0 : f32\n\
             %a = load_tile %w[%at, %at], %fill : f32[4, 8]\n%acc = constant 0.0 : f32[4, 4]\n";
        let end = "%all = reshape %r : f32[16]\n%lane = arange : i64[16]\nstore %m[%lane], %all";
        simplifies(
            &format!(
                "{load}%b = transpose %a [1, 0] : f32[8, 4]\n%r = dot %a, %b, %acc : f32[4, 4]\n{end}"
            ),
            &format!("{load}%r = dot %a, %a, %acc transpose_b : f32[4, 4]\n{end}"),
        );
    }

    #[test]
    fn views_and_masks() {
        simplifies(
            &int("%v = narrow %w, %i, %j axis 0 : tensor<f32, 2>\n%r = dim %v, 1 : i64", "%r"),
            &int("%r = dim %w, 1 : i64", "%r"),
        );
        simplifies(
            &int(
                "%c = constant 0 : i64\n%d = dim %w, 0 : i64\n%v = narrow %w, %c, %d axis 0 : tensor<f32, 2>\n%r = dim %v, 0 : i64",
                "%r",
            ),
            &int("%r = dim %w, 0 : i64", "%r"),
        );
        // Picked outside of its axis, a view is empty on every axis.
        stays(
            &[Pass::Canonicalize, Pass::Dce],
            &int("%v = pick %w, %i axis 0 : tensor<f32, 1>\n%r = dim %v, 0 : i64", "%r"),
        );
        simplifies(
            &float("%y = constant true : bool\n%r = load %x[%i] mask %y, %f : f32", "%r"),
            &float("%r = load %x[%i], %f : f32", "%r"),
        );
        simplifies("%y = constant false : bool\nstore %m[%i] mask %y, %f", "");
        simplifies("%y = constant true : bool\nassert %y, \"holds\"", "");
    }

    #[test]
    fn control_whose_course_is_known() {
        simplifies(
            &int(
                "%y = constant true : bool\n%r = if %y -> (i64) { %a = mul %i, %j : i64\nyield %a } else { yield %j }",
                "%r",
            ),
            &int("%a = mul %i, %j : i64", "%a"),
        );
        simplifies(
            &int(
                "%a = constant 3 : i64\n%b = constant 3 : i64\n%r = for %k = %a to %b step %i (%s = %j) -> (i64) { %q = mul %s, %k : i64\nyield %q }",
                "%r",
            ),
            &int("", "%j"),
        );
        simplifies(
            &int(
                "%a = constant 3 : i64\n%b = constant 4 : i64\n%c = constant 1 : i64\n%r = for %k = %a to %b step %c (%s = %j) -> (i64) { %q = mul %s, %k : i64\nyield %q }",
                "%r",
            ),
            &int("%a = constant 3 : i64\n%q = mul %j, %a : i64", "%q"),
        );
        simplifies(
            &int(
                "%r = while (%s = %j) -> (i64) { %no = constant false : bool\n%q = mul %s, %i : i64\ncondition %no, %q } do (%u: i64) { yield %u }",
                "%r",
            ),
            &int("%q = mul %j, %i : i64", "%q"),
        );
        // What goes round as it came is what it came as.
        simplifies(
            &int(
                "%one = constant 1 : i64\n%r, %e = for %k = %i to %j step %one (%s = %j, %z = %i) -> (i64, i64) { %q = mul %s, %z : i64\nyield %q, %z }\n%o = mul %r, %e : i64",
                "%o",
            ),
            &int(
                "%one = constant 1 : i64\n%r = for %k = %i to %j step %one (%s = %j) -> (i64) { %q = mul %s, %i : i64\nyield %q }\n%o = mul %r, %i : i64",
                "%o",
            ),
        );
    }
}

mod fold {
    use super::*;

    #[test]
    fn constants_are_computed() {
        let both = [Pass::Fold, Pass::Dce];
        let cases = [
            ("%a = constant 5 : i64\n%b = constant -2 : i64\n%r = div %a, %b : i64", "-2"),
            ("%a = constant 9223372036854775807 : i64\n%r = add %a, %a : i64", "-2"),
            ("%a = constant 3 : i64[4]\n%r = reduce sum %a axis 0 : i64", "12"),
            ("%a = constant 3 : i64[4]\n%r = reduce argmax %a axis 0 : i64", "0"),
            ("%a = constant nan:0x7fc00001 : f32\n%r = cast %a : i64", "0"),
            (
                "%p1 = constant true : bool\n%a = constant 1 : i64\n%b = constant 2 : i64\n%r = select %p1, %a, %b : i64",
                "1",
            ),
        ];
        for (before, wanted) in cases {
            becomes(
                &both,
                &int(before, "%r"),
                &int(&format!("%r = constant {wanted} : i64"), "%r"),
            );
        }
        becomes(
            &both,
            &float(
                "%a = constant 1.0 : f32[4]\n%b = reshape %a : f32[2, 2]\n%c = reduce max %b axis 0 : f32[2]\n%r = reduce min %c axis 0 : f32",
                "%r",
            ),
            &float("%r = constant 1.0 : f32", "%r"),
        );
        // An extreme of several NaNs is the usual one.
        becomes(
            &both,
            &float("%a = constant nan:0x7fc00001 : f32[4]\n%r = reduce max %a axis 0 : f32", "%r"),
            &float("%r = constant nan:0x7fc00000 : f32", "%r"),
        );
    }

    #[test]
    fn what_is_warned_of_or_open_stays() {
        let both = [Pass::Fold, Pass::Dce];
        stays(
            &both,
            &int("%a = constant 5 : i64\n%b = constant 0 : i64\n%r = div %a, %b : i64", "%r"),
        );
        stays(
            &both,
            &int(
                "%a = constant -9223372036854775808 : i64\n%b = constant -1 : i64\n%r = rem %a, %b : i64",
                "%r",
            ),
        );
        stays(
            &both,
            &float(
                "%a = constant nan:0x7fc00001 : f32\n%b = constant nan:0x7fc00002 : f32\n%r = add %a, %b : f32",
                "%r",
            ),
        );
        stays(&both, &float("%a = constant 0.1 : f32[4]\n%r = reduce sum %a axis 0 : f32", "%r"));
    }
}

mod cse {
    use super::*;

    const CSE: [Pass; 1] = [Pass::Cse];

    #[test]
    fn the_second_time_is_the_first() {
        becomes(
            &CSE,
            &int("%a = add %i, %j : i64\n%b = add %j, %i : i64\n%r = mul %a, %b : i64", "%r"),
            &int("%a = add %i, %j : i64\n%r = mul %a, %a : i64", "%r"),
        );
        becomes(
            &CSE,
            &float(
                "%a = load %x[%i], %f : f32\nstore %m[%i], %a\n%b = load %x[%i], %f : f32\n%r = mul %a, %b : f32",
                "%r",
            ),
            &float("%a = load %x[%i], %f : f32\nstore %m[%i], %a\n%r = mul %a, %a : f32", "%r"),
        );
        // From outside into a region.
        becomes(
            &CSE,
            &int(
                "%a = mul %i, %j : i64\n%r = if %p -> (i64) { %b = mul %i, %j : i64\nyield %b } else { yield %i }\n%s = add %a, %r : i64",
                "%s",
            ),
            &int(
                "%a = mul %i, %j : i64\n%r = if %p -> (i64) { yield %a } else { yield %i }\n%s = add %a, %r : i64",
                "%s",
            ),
        );
    }

    #[test]
    fn what_may_differ_stays() {
        // A store may lie between loads of what is written.
        stays(
            &CSE,
            &float(
                "%a = load %m[%i], %f : f32\nstore %m[%i], %f\n%b = load %m[%i], %f : f32\n%r = mul %a, %b : f32",
                "%r",
            ),
        );
        // Which NaN a sum keeps depends on the order.
        stays(
            &CSE,
            &float(
                "%g = neg %f : f32\n%a = add %f, %g : f32\n%b = add %g, %f : f32\n%r = mul %a, %b : f32",
                "%r",
            ),
        );
        // Not from one branch to the other.
        stays(
            &CSE,
            &int(
                "%r = if %p -> (i64) { %a = mul %i, %j : i64\nyield %a } else { %b = mul %i, %j : i64\nyield %b }",
                "%r",
            ),
        );
    }
}

mod licm {
    use super::*;

    const LICM: [Pass; 1] = [Pass::Licm];

    #[test]
    fn what_does_not_change_leaves_both_loops() {
        becomes(
            &LICM,
            "%one = constant 1 : i64\nfor %k = %i to %j step %one { for %l = %i to %k step %one { %c = constant 3 : i64\n%a = mul %c, %j : i64\n%v = load %x[%a], %f : f32\n%b = add %k, %a : i64\nstore %m[%b], %v\nyield }\nyield }",
            "%one = constant 1 : i64\n%c = constant 3 : i64\n%a = mul %c, %j : i64\n%v = load %x[%a], %f : f32\nfor %k = %i to %j step %one { %b = add %k, %a : i64\nfor %l = %i to %k step %one { store %m[%b], %v\nyield }\nyield }",
        );
        becomes(
            &LICM,
            &int(
                "%r = while (%s = %i) -> (i64) { %a = mul %j, %j : i64\n%c = lt %s, %a : bool\ncondition %c, %s } do (%u: i64) { %b = add %j, %j : i64\n%d = add %u, %b : i64\nyield %d }",
                "%r",
            ),
            &int(
                "%a = mul %j, %j : i64\n%b = add %j, %j : i64\n%r = while (%s = %i) -> (i64) { %c = lt %s, %a : bool\ncondition %c, %s } do (%u: i64) { %d = add %u, %b : i64\nyield %d }",
                "%r",
            ),
        );
    }

    #[test]
    fn what_may_change_or_warn_stays() {
        let one = "%one = constant 1 : i64\nfor %k = %i to %j step %one {";
        // A branch may not be taken.
        stays(
            &LICM,
            &format!(
                "{one} if %p {{ %a = mul %i, %j : i64\nstore %n[%k], %a\nyield }} else {{ yield }}\nyield }}"
            ),
        );
        stays(&LICM, &format!("{one} %v = load %m[%i], %f : f32\nstore %m[%k], %v\nyield }}"));
        // Before a loop that never runs, this would warn of a division by zero.
        stays(&LICM, &format!("{one} %a = div %i, %j : i64\nstore %n[%k], %a\nyield }}"));
        becomes(
            &LICM,
            &format!(
                "{one} %c = constant 3 : i64\n%a = div %i, %c : i64\nstore %n[%k], %a\nyield }}"
            ),
            "%one = constant 1 : i64\n%c = constant 3 : i64\n%a = div %i, %c : i64\nfor %k = %i to %j step %one { store %n[%k], %a\nyield }",
        );
    }
}

mod dce {
    use super::*;

    const DCE: [Pass; 1] = [Pass::Dce];

    #[test]
    fn what_nobody_uses_goes() {
        becomes(&DCE, "%a = load %x[%i], %f : f32\n%b = exp %a : f32\n%c = div %i, %j : i64", "");
        becomes(&DCE, "%r = if %p -> (i64) { yield %i } else { yield %j }", "");
        becomes(
            &DCE,
            "%one = constant 1 : i64\n%r = for %k = %i to %j step %one (%s = %i) -> (i64) { yield %k }",
            "",
        );
    }

    #[test]
    fn carried_values_go_with_their_cycle() {
        becomes(
            &DCE,
            &int(
                "%one = constant 1 : i64\n%r, %u, %v = for %k = %i to %j step %one (%a = %i, %b = %j, %c = %i) -> (i64, i64, i64) { %d = add %a, %k : i64\n%e = add %b, %c : i64\nyield %d, %c, %e }",
                "%r",
            ),
            &int(
                "%one = constant 1 : i64\n%r = for %k = %i to %j step %one (%a = %i) -> (i64) { %d = add %a, %k : i64\nyield %d }",
                "%r",
            ),
        );
        becomes(
            &DCE,
            &int(
                "%r, %u = while (%a = %i, %b = %j) -> (i64, i64) { %c = lt %a, %j : bool\ncondition %c, %a, %b } do (%d: i64, %e: i64) { %g = add %d, %d : i64\nyield %g, %e }",
                "%r",
            ),
            &int(
                "%r = while (%a = %i) -> (i64) { %c = lt %a, %j : bool\ncondition %c, %a } do (%d: i64) { %g = add %d, %d : i64\nyield %g }",
                "%r",
            ),
        );
        becomes(
            &DCE,
            &int(
                "%r, %u = if %p -> (i64, i64) { %a = mul %i, %i : i64\nyield %i, %a } else { yield %j, %j }",
                "%r",
            ),
            &int("%r = if %p -> (i64) { yield %i } else { yield %j }", "%r"),
        );
    }

    #[test]
    fn what_is_an_effect_stays() {
        // It may not end.
        stays(&DCE, "while { condition %p } do { yield }");
        stays(
            &DCE,
            "%one = constant 1 : i64\nfor %k = %i to %j step %one { if %p { store %n[%k], %k\nyield } else { yield }\nyield }",
        );
        stays(&DCE, "print \"here\"\nassert %p, \"holds\"");
    }
}
