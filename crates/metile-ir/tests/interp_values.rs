//! What operations on tiles compute.

mod interp_support;

use half::{bf16, f16};
use interp_support::{Memory, apply, compute, tensor};
use metile_ir::interp::Options;

const NAN: f32 = f32::NAN;
const INF: f32 = f32::INFINITY;

#[test]
fn moves_keep_nan_payloads_and_negative_zero() {
    let bits = [0x7f80_0001u32, 0xffc0_1234, 0x8000_0000, 1];
    let body = "
      %m = reshape %a : f32[2, 2]
      %t = transpose %m [1, 0] : f32[2, 2]
      %u = transpose %t [1, 0] : f32[2, 2]
      %f = reshape %u : f32[4]
      %i = arange : i64[4]
      %g = gather %f, %i axis 0 : f32[4]
      %c = eq %i, %i : bool[4]
      %r = select %c, %g, %a : f32[4]";
    assert_eq!(apply::<u32, u32>("f32", &bits, "f32", 4, body), bits);
    let halves = [0x7c01u16, 0xfe12, 0x8000, 1];
    for dtype in ["f16", "bf16"] {
        let copy = "%m = reshape %a : D[2, 2]\n%r = reshape %m : D[4]".replace('D', dtype);
        assert_eq!(apply::<u16, u16>(dtype, &halves, dtype, 4, &copy), halves);
    }
    let cast = "%r = bitcast %a : u32[4]";
    assert_eq!(apply::<u32, u32>("f32", &bits, "u32", 4, cast), bits);
}

#[test]
fn any_byte_but_zero_is_true_and_is_stored_as_one() {
    let bytes = [0u8, 1, 2, 255];
    assert_eq!(
        apply::<u8, u8>("bool", &bytes, "bool", 4, "%r = reshape %a : bool[4]"),
        [0, 1, 1, 1]
    );
    assert_eq!(apply::<u8, u8>("bool", &bytes, "u8", 4, "%r = cast %a : u8[4]"), [0, 1, 1, 1]);
}

#[test]
fn reduce_max_and_argmax() {
    let cases: [(&[f32], f32, i64, i64); 8] = [
        (&[NAN, 6.0, 8.0], NAN, 0, 0),
        (&[1.0, NAN], NAN, 1, 1),
        (&[INF, NAN], NAN, 1, 1),
        (&[-0.0, 0.0], 0.0, 0, 0),
        (&[5.0, 5.0], 5.0, 0, 0),
        (&[-INF, -INF], -INF, 0, 0),
        (&[1.0, 3.0, 3.0, -2.0, -2.0], 3.0, 1, 3),
        (&[7.0], 7.0, 0, 0),
    ];
    for (values, max, argmax, argmin) in cases {
        let of = |op: &str, ty: &str| {
            format!("%s = reduce {op} %a axis 0 : {ty}\n%r = reshape %s : {ty}[1]")
        };
        let found: Vec<f32> = apply("f32", values, "f32", 1, &of("max", "f32"));
        assert!(
            found[0].is_nan() && max.is_nan() || found[0].to_bits() == max.to_bits(),
            "{values:?}"
        );
        assert_eq!(apply::<f32, i64>("f32", values, "i64", 1, &of("argmax", "i64")), [argmax]);
        assert_eq!(apply::<f32, i64>("f32", values, "i64", 1, &of("argmin", "i64")), [argmin]);
    }
}

#[test]
fn float_sums_round_once() {
    let values: Vec<f32> = (0..4096).map(|i| [1e8, 1.0, -1e8, 0.0][i % 4]).collect();
    let body = "%s = reduce sum %a axis 0 : f32\n%r = reshape %s : f32[1]";
    assert_eq!(apply::<f32, f32>("f32", &values, "f32", 1, body), [1024.0]);
    let zeros: Vec<f32> = apply("f32", &[-0.0f32, -0.0], "f32", 1, body);
    assert_eq!(zeros[0].to_bits(), 0x8000_0000);
    let scan = "%r = scan sum %a axis 0 : f32[4]";
    let running: Vec<f32> = apply("f32", &[1e8f32, 1.0, 1.0, -1e8], "f32", 4, scan);
    assert_eq!(running, [1e8, 1e8, 1e8, 2.0]);
}

#[test]
fn integer_sums_wrap_and_scans_go_along_their_axis() {
    let body = "%s = reduce sum %a axis 0 : i8\n%r = reshape %s : i8[1]";
    assert_eq!(apply::<i8, i8>("i8", &[127, 1, 1], "i8", 1, body), [-127]);
    let over = |op: &str, axis: u8| {
        format!(
            "%m = reshape %a : i32[2, 3]\n%s = scan {op} %m axis {axis} : i32[2, 3]
             %r = reshape %s : i32[6]"
        )
    };
    let a = [3, 1, 2, 6, 5, 4];
    assert_eq!(apply::<i32, i32>("i32", &a, "i32", 6, &over("sum", 0)), [3, 1, 2, 9, 6, 6]);
    assert_eq!(apply::<i32, i32>("i32", &a, "i32", 6, &over("sum", 1)), [3, 4, 6, 6, 11, 15]);
    assert_eq!(apply::<i32, i32>("i32", &a, "i32", 6, &over("min", 1)), [3, 1, 1, 6, 5, 4]);
    let f = "%r = scan max %a axis 0 : f32[4]";
    let found: Vec<f32> = apply("f32", &[1.0f32, NAN, 9.0, 2.0], "f32", 4, f);
    assert!(found[0] == 1.0 && found[1..].iter().all(|x| x.is_nan()));
}

#[test]
fn reductions_take_one_axis_away() {
    let over = |op: &str, axis: u8, to: &str, n: usize| {
        format!(
            "%m = reshape %a : i32[2, 3]\n%s = reduce {op} %m axis {axis} : {to}[{n}]
             %r = reshape %s : {to}[{n}]"
        )
    };
    let a = [3, 1, 2, 6, 5, 4];
    assert_eq!(apply::<i32, i32>("i32", &a, "i32", 3, &over("sum", 0, "i32", 3)), [9, 6, 6]);
    assert_eq!(apply::<i32, i32>("i32", &a, "i32", 2, &over("min", 1, "i32", 2)), [1, 4]);
    assert_eq!(apply::<i32, i64>("i32", &a, "i64", 2, &over("argmax", 1, "i64", 2)), [0, 0]);
    let truth = |op: &str| format!("%s = reduce {op} %a axis 0 : bool\n%r = reshape %s : bool[1]");
    for (values, any, all) in [([0u8, 0], 0, 0), ([0, 1], 1, 0), ([1, 1], 1, 1)] {
        assert_eq!(apply::<u8, u8>("bool", &values, "bool", 1, &truth("any")), [any]);
        assert_eq!(apply::<u8, u8>("bool", &values, "bool", 1, &truth("all")), [all]);
    }
}

#[test]
fn shapes() {
    let a = [0, 1, 2, 3, 4, 5];
    for (body, wanted) in [
        (
            "%m = reshape %a : i32[2, 3]\n%t = transpose %m [1, 0] : i32[3, 2]\n%r = reshape %t : i32[6]",
            vec![0, 3, 1, 4, 2, 5],
        ),
        (
            "%m = reshape %a : i32[1, 2, 3]\n%t = transpose %m [2, 0, 1] : i32[3, 1, 2]\n%r = reshape %t : i32[6]",
            vec![0, 3, 1, 4, 2, 5],
        ),
        ("%r = slice %a axis 0 start 1 step 2 : i32[3]", vec![1, 3, 5]),
        (
            "%m = reshape %a : i32[2, 3]\n%s = slice %m axis 1 start 1 step 1 : i32[2, 2]\n%r = reshape %s : i32[4]",
            vec![1, 2, 4, 5],
        ),
        (
            "%m = reshape %a : i32[2, 3]\n%c = cat axis 1 %m, %m : i32[2, 6]\n%r = reshape %c : i32[12]",
            vec![0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5],
        ),
        (
            "%m = reshape %a : i32[6, 1]\n%c = broadcast %m : i32[2, 6, 2]\n%s = slice %c axis 0 start 1 step 1 : i32[1, 6, 2]\n%r = reshape %s : i32[12]",
            vec![0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5],
        ),
        (
            "%m = reshape %a : i32[2, 3]\n%i = constant 1 : u8[2, 2]\n%g = gather %m, %i axis 1 : i32[2, 2]\n%r = reshape %g : i32[4]",
            vec![1, 1, 4, 4],
        ),
        ("%i = constant -1 : i64[2]\n%r = gather %a, %i axis 0 : i32[2]", vec![0, 0]),
        ("%i = constant 6 : i64[2]\n%r = gather %a, %i axis 0 : i32[2]", vec![0, 0]),
        (
            "%i = constant 18446744073709551615 : u64[2]\n%r = gather %a, %i axis 0 : i32[2]",
            vec![0, 0],
        ),
    ] {
        assert_eq!(apply::<i32, i32>("i32", &a, "i32", wanted.len(), body), wanted, "{body}");
    }
}

#[test]
fn dots() {
    let a = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
    let body = |left: &str, right: &str, flags: &str| {
        format!(
            "%x = reshape %a : f32{left}\n%y = reshape %a : f32{right}
             %acc = constant 0.5 : f32[2, 2]
             %d = dot %x, %y, %acc {flags} : f32[2, 2]\n%r = reshape %d : f32[4]"
        )
    };
    for (left, right, flags, wanted) in [
        ("[2, 3]", "[3, 2]", "", [22.5, 28.5, 49.5, 64.5]),
        ("[2, 3]", "[2, 3]", "transpose_b", [14.5, 32.5, 32.5, 77.5]),
        ("[3, 2]", "[3, 2]", "transpose_a", [35.5, 44.5, 44.5, 56.5]),
        ("[3, 2]", "[2, 3]", "transpose_a transpose_b", [22.5, 49.5, 28.5, 64.5]),
    ] {
        assert_eq!(apply::<f32, f32>("f32", &a, "f32", 4, &body(left, right, flags)), wanted);
    }
    // Products that f32 would round, or lose, before the sum.
    let body = "%x = reshape %a : f32[1, 3]\n%acc = constant 0.0 : f32[1, 1]
        %one = constant 1.0 : f32[3, 1]\n%d = dot %x, %one, %acc : f32[1, 1]
        %r = reshape %d : f32[1]";
    assert_eq!(apply::<f32, f32>("f32", &[1e8, 1.0, -1e8], "f32", 1, body), [1.0]);
    let halves = [f16::from_f32(1.5), f16::from_f32(-2.0)];
    let body = "%x = reshape %a : f16[1, 2]\n%y = constant 3.0 : bf16[2, 1]
        %acc = constant 1.0 : f32[1, 1]\n%d = dot %x, %y, %acc : f32[1, 1]
        %r = reshape %d : f32[1]";
    assert_eq!(apply::<f16, f32>("f16", &halves, "f32", 1, body), [-0.5]);
    let body = "%x = reshape %a : i8[1, 2]\n%y = constant -128 : i8[2, 1]
        %acc = constant 2147483647 : i32[1, 1]\n%d = dot %x, %y, %acc : i32[1, 1]
        %r = reshape %d : i32[1]";
    assert_eq!(apply::<i8, i32>("i8", &[-128, 0], "i32", 1, body), [i32::MAX.wrapping_add(16384)]);
}

#[test]
fn casts_of_tiles() {
    let nan = f32::from_bits(0x7f80_0001);
    let a = [1.003_906_3f32, f32::MAX, nan, -0.0];
    let found: Vec<bf16> = apply("f32", &a, "bf16", 4, "%r = cast %a : bf16[4]");
    assert!(found[2].is_nan());
    assert_eq!([found[1].to_bits(), found[3].to_bits()], [0x7f80, 0x8000]);
    let found: Vec<i32> =
        apply("f32", &[NAN, 3e9f32, -3e9, -1.5], "i32", 4, "%r = cast %a : i32[4]");
    assert_eq!(found, [0, i32::MAX, i32::MIN, -1]);
}

#[test]
fn loops_and_branches() {
    let sum = |low: &str, high: &str, step: &str| {
        format!(
            "%l = constant {low} : i64\n%h = constant {high} : i64\n%s = constant {step} : i64
             %z = constant 0 : i64\n%one = constant 1 : i64
             %n, %last = for %i = %l to %h step %s (%c = %z, %w = %z) -> (i64, i64) {{
               %d = add %c, %one : i64
               yield %d, %i
             }}
             %x = reshape %n : i64[1]\n%y = reshape %last : i64[1]
             %r = cat axis 0 %x, %y : i64[2]"
        )
    };
    let (min, max) = (i64::MIN.to_string(), i64::MAX.to_string());
    for (low, high, step, wanted) in [
        ("0", "10", "3", [4, 9]),
        ("0", "0", "1", [0, 0]),
        ("5", "-5", "1", [0, 0]),
        ("0", "3", "0", [3, 2]),
        ("0", "3", "-7", [3, 2]),
        ("9223372036854775800", &*max, "5", [2, i64::MAX - 2]),
        (&*min, &*max, &*max, [3, i64::MAX - 1]),
    ] {
        assert_eq!(compute::<i64>("i64", 2, &sum(low, high, step)), wanted, "{low} {high} {step}");
    }
    // Values carried by `while` are swapped, all read before any is written.
    let body = "
      %a0 = constant 1 : i64
      %b0 = constant 2 : i64
      %n0 = constant 3 : i64
      %one = constant 1 : i64
      %zero = constant 0 : i64
      %p, %q, %n = while (%a = %a0, %b = %b0, %m = %n0) -> (i64, i64, i64) {
        %go = gt %m, %zero : bool
        condition %go, %a, %b, %m
      } do (%a1: i64, %b1: i64, %m1: i64) {
        %less = sub %m1, %one : i64
        yield %b1, %a1, %less
      }
      %big = gt %p, %q : bool
      %s = if %big -> (i64) { yield %p } else { yield %n }
      %x = reshape %p : i64[1]
      %y = reshape %s : i64[1]
      %r = cat axis 0 %x, %y : i64[2]";
    assert_eq!(compute::<i64>("i64", 2, body), [2, 2]);
}

#[test]
fn positions_in_the_grid() {
    let text = "kernel @k(%out: mut tensor<i64, 4>) {
      %x = program_id 0 : i64
      %y = program_id 1 : i64
      %z = program_id 2 : i64
      %nx = num_programs 0 : i64
      %zero = constant 0 : i64
      %n = dim %out, 3 : i64
      %hundred = constant 100 : i64
      %a = mul %z, %hundred : i64
      %b = add %a, %x : i64
      store %out[%x, %y, %z, %zero], %b
      return }";
    for order_seed in [None, Some(1), Some(99)] {
        let mut memory = Memory::new().with(&[-1i64; 12]);
        let options = Options { order_seed, ..Options::default() };
        memory.run_with(options, text, [3, 2, 2], &[tensor(0, &[3, 2, 2, 1])]).unwrap();
        assert_eq!(memory.get::<i64>(0), [0, 100, 0, 100, 1, 101, 1, 101, 2, 102, 2, 102]);
    }
}

#[test]
fn orders_are_permutations_and_differ() {
    let text = "kernel @k() {
      %x = program_id 0 : i64
      print \"{}\", %x
      return }";
    let mut orders = std::collections::HashSet::new();
    for seed in 0..32 {
        for n in [1u64, 2, 12, 97] {
            let options = Options { order_seed: Some(seed), ..Options::default() };
            let outcome = Memory::new().run_with(options, text, [n, 1, 1], &[]).unwrap();
            let mut seen: Vec<u64> = outcome.printed.iter().map(|s| s.parse().unwrap()).collect();
            if n == 97 {
                orders.insert(seen.clone());
            }
            seen.sort_unstable();
            assert_eq!(seen, (0..n).collect::<Vec<_>>());
        }
    }
    assert!(orders.len() > 20, "{}", orders.len());
}
