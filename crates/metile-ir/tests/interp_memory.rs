//! Loads, stores, views and atomics; arguments that are refused; what is warned about.

mod interp_support;

use interp_support::{Memory, apply, item, strided, tensor};
use metile_ir::Scalar;
use metile_ir::interp::{Argument, Buffer, Failure, Interpreter, Options, Part, TensorArgument};

/// Loads 8 lanes of `%x: i32` at `%in: at` and stores them.
fn load8(at: &str) -> String {
    format!(
        "file 0 \"bins.rs\"
         kernel @bins(%x: tensor<i32, 1>, %in: tensor<{at}, 1>, %out: mut tensor<i32, 1>) {{
           %lanes = arange : i64[8]
           %zero = constant 0 : {at}
           %fill = constant -5 : i32
           %at = load %in[%lanes], %zero : {at}[8]
           %v = load %x[%at], %fill : i32[8] @0:7:9
           store %out[%lanes], %v
           return
         }}"
    )
}

#[test]
fn loads_are_masked_by_the_views_own_shape() {
    let text = load8("i64");
    let at = [0i64, 1, 2, 3, -1, 1 << 40, i64::MIN, i64::MAX];
    for (length, wanted) in [(3u64, [10, 11, 12, -5]), (2, [10, 11, -5, -5])] {
        let mut memory = Memory::new().with(&[10, 99, 11, 99, 12]).with(&at).with(&[0i32; 8]);
        let arguments = [strided(0, 0, &[length], &[2]), tensor(1, &[8]), tensor(2, &[8])];
        let options = Options { warn_out_of_shape: true, ..Options::default() };
        let outcome = memory.run_with(options, &text, [1, 1, 1], &arguments).unwrap();
        let found = memory.get::<i32>(2);
        assert_eq!((&found[..4], &found[4..]), (&wanted[..], &[-5; 4][..]));
        // Once per operation, of its first lane outside.
        assert_eq!(outcome.warnings.len(), 1);
        let w = &outcome.warnings[0];
        let lane = length;
        assert_eq!(
            w.message,
            format!(
                "program (0, 0, 0) reads `x` at [{length}], outside of its shape [{length}] (lane {lane})"
            )
        );
        assert_eq!((w.kernel.as_str(), w.span.unwrap().line), ("bins", 7));
    }
    // Not on request: silent.
    let mut memory = Memory::new().with(&[1]).with(&at).with(&[0i32; 8]);
    let arguments = [tensor(0, &[1]), tensor(1, &[8]), tensor(2, &[8])];
    assert!(memory.run(&text, [1, 1, 1], &arguments).unwrap().warnings.is_empty());
}

#[test]
fn indices_of_any_integer_dtype() {
    let x = [10, 11];
    let run = |text: &str, memory: Memory| {
        let mut memory = memory.with(&[0i32; 8]);
        let arguments = [tensor(0, &[2]), tensor(1, &[8]), tensor(2, &[8])];
        memory.run(text, [1, 1, 1], &arguments).unwrap();
        memory.get::<i32>(2)
    };
    let at = [1u64, 0, u64::MAX, 1 << 63, 2, u64::MAX - 1, 1, 3];
    let found = run(&load8("u64"), Memory::new().with(&x).with(&at));
    assert_eq!(found, [11, 10, -5, -5, -5, -5, 11, -5]);
    let found = run(&load8("i8"), Memory::new().with(&x).with(&[1i8, 0, -1, -128, 127, 2, 1, 0]));
    assert_eq!(found, [11, 10, -5, -5, -5, -5, 11, 10]);
}

#[test]
fn stores_outside_and_masked_do_nothing_and_the_last_lane_wins() {
    let text = "kernel @k(%out: mut tensor<i32, 1>, %skip: i64) {
      %lanes = arange : i64[8]
      %three = constant 3 : i64[8]
      %one = constant 1 : i64[8]
      %group = rem %lanes, %three : i64[8]
      %at = sub %group, %one : i64[8]
      %v = cast %lanes : i32[8]
      %s = broadcast %skip : i64[8]
      %mask = ne %lanes, %s : bool[8]
      store %out[%at] mask %mask, %v
      return }";
    for (skip, wanted) in [(7, [4, 5, 9]), (-1, [7, 5, 9]), (5, [7, 2, 9])] {
        let mut memory = Memory::new().with(&[9i32; 3]);
        let arguments = [tensor(0, &[2]), Argument::Scalar(Scalar::i64(skip))];
        memory.run(text, [1, 1, 1], &arguments).unwrap();
        assert_eq!(memory.get::<i32>(0), wanted, "{skip}");
    }
}

#[test]
fn rectangles_at_any_origin() {
    let text = "kernel @k(%x: tensor<i32, 2>, %out: mut tensor<i32, 2>, %r: i64, %c: i64) {
      %fill = constant 7 : i32
      %zero = constant 0 : i64
      %v = load_tile %x[%r, %c], %fill : i32[2, 2]
      store_tile %out[%zero, %zero], %v
      store_tile %out[%r, %c], %v
      return }";
    let run = |r: i64, c: i64| {
        let mut memory = Memory::new().with(&[1, 2, 3, 4, 5, 6]).with(&[0i32; 6]);
        let arguments = [
            tensor(0, &[2, 3]),
            tensor(1, &[2, 3]),
            Argument::Scalar(Scalar::i64(r)),
            Argument::Scalar(Scalar::i64(c)),
        ];
        memory.run(text, [1, 1, 1], &arguments).unwrap();
        memory.get::<i32>(1)
    };
    assert_eq!(run(0, 1), [2, 2, 3, 5, 5, 6]);
    assert_eq!(run(-1, -1), [1, 7, 0, 7, 1, 0]);
    assert_eq!(run(1, 2), [6, 7, 0, 7, 7, 6]);
    for far in [i64::MAX, i64::MIN, 1 << 31, -(1 << 33)] {
        assert_eq!(run(far, 0), [7, 7, 0, 7, 7, 0]);
        assert_eq!(run(0, far), [7, 7, 0, 7, 7, 0]);
    }
}

#[test]
fn huge_shapes_over_small_memory() {
    // Row 2^40 of a tensor whose rows are all the same ones.
    let text = "kernel @k(%x: tensor<i32, 2>, %out: mut tensor<i64, 1>) {
      %row = constant 1099511627776 : i64
      %two = constant 2 : i64
      %fill = constant 0 : i32
      %v = load %x[%row, %two], %fill : i32
      %n = dim %x, 0 : i64
      %far = constant 9223372036854775807 : i64
      %rest = narrow %x, %row, %far axis 0 : tensor<i32, 2>
      %m = dim %rest, 0 : i64
      %w = cast %v : i64
      %z = constant 0 : i64
      %o = constant 1 : i64
      store %out[%z], %w
      store %out[%o], %n
      store %out[%two], %m
      return }";
    let mut memory = Memory::new().with(&[5, 6, 7]).with(&[0i64; 3]);
    let arguments = [strided(0, 0, &[1 << 41, 3], &[0, 1]), tensor(1, &[3])];
    memory.run(text, [1, 1, 1], &arguments).unwrap();
    assert_eq!(memory.get::<i64>(1), [7, 1 << 41, 1 << 40]);
}

#[test]
fn negative_strides() {
    let at = [0i64, 1, 2, 3, 4, 5, 6, 7];
    let mut memory = Memory::new().with(&[1, 2, 3]).with(&at).with(&[0i32; 8]);
    let arguments = [strided(0, 8, &[3], &[-1]), tensor(1, &[8]), strided(2, 28, &[8], &[-1])];
    memory.run(&load8("i64"), [1, 1, 1], &arguments).unwrap();
    assert_eq!(memory.get::<i32>(2), [-5, -5, -5, -5, -5, 1, 2, 3]);
}

#[test]
fn views_clamp_and_pick() {
    let text = "kernel @k(%x: tensor<i32, 2>, %out: mut tensor<i64, 1>, %s: i64, %n: i64) {
      %zero = constant 0 : i64
      %one = constant 1 : i64
      %two = constant 2 : i64
      %three = constant 3 : i64
      %fill = constant -1 : i32
      %v = narrow %x, %s, %n axis 0 : tensor<i32, 2>
      %rows = dim %v, 0 : i64
      %first = load %v[%zero, %zero], %fill : i32
      %f = cast %first : i64
      %p = pick %x, %s axis 0 : tensor<i32, 1>
      %cols = dim %p, 0 : i64
      %e = load %p[%one], %fill : i32
      %g = cast %e : i64
      store %out[%zero], %rows
      store %out[%one], %f
      store %out[%two], %cols
      store %out[%three], %g
      return }";
    let run = |s: i64, n: i64, shape: &[u64]| {
        let mut memory = Memory::new().with(&[1, 2, 3, 4, 5, 6]).with(&[0i64; 4]);
        let arguments = [
            tensor(0, shape),
            tensor(1, &[4]),
            Argument::Scalar(Scalar::i64(s)),
            Argument::Scalar(Scalar::i64(n)),
        ];
        memory.run(text, [1, 1, 1], &arguments).unwrap();
        memory.get::<i64>(1)
    };
    assert_eq!(run(1, 1, &[3, 2]), [1, 3, 2, 4]);
    assert_eq!(run(1, i64::MAX, &[3, 2]), [2, 3, 2, 4]);
    assert_eq!(run(-1, 2, &[3, 2]), [2, 1, 0, -1]);
    assert_eq!(run(3, 2, &[3, 2]), [0, -1, 0, -1]);
    assert_eq!(run(i64::MAX, i64::MIN, &[3, 2]), [0, -1, 0, -1]);
    assert_eq!(run(1, -1, &[3, 2]), [0, -1, 2, 4]);
    // An axis that stays keeps its extent, though there is no element.
    assert_eq!(run(0, 1, &[0, 2]), [0, -1, 0, -1]);
    assert_eq!(run(2, 1, &[3, 0]), [1, -1, 0, -1]);
}

#[test]
fn picking_from_an_empty_tensor_keeps_the_other_extents() {
    let text = "kernel @k(%x: tensor<i32, 3>, %out: mut tensor<i64, 1>) {
      %zero = constant 0 : i64
      %p = pick %x, %zero axis 0 : tensor<i32, 2>
      %n = dim %p, 1 : i64
      store %out[%zero], %n
      return }";
    let mut memory = Memory::new().with(&[0i32]).with(&[0i64]);
    memory.run(text, [1, 1, 1], &[tensor(0, &[3, 0, 5]), tensor(1, &[1])]).unwrap();
    assert_eq!(memory.get::<i64>(1), [5]);
}

#[test]
fn lists() {
    let text = "kernel @k(%x: list<i32, 1>, %out: mut tensor<i64, 1>) {
      %i = program_id 0 : i64
      %one = constant 1 : i64
      %four = constant 4 : i64
      %fill = constant -1 : i32
      %which = sub %i, %one : i64
      %t = item %x, %which : tensor<i32, 1>
      %v = load %t[%one], %fill : i32
      %n = dim %t, 0 : i64
      %w = cast %v : i64
      %j = add %i, %four : i64
      store %out[%i], %w
      store %out[%j], %n
      return }";
    let mut memory = Memory::new().with(&[1, 2, 3, 4]).with(&[0i64; 8]);
    let list = Argument::List(vec![item(0, 0, &[2], &[1]), item(0, 8, &[2], &[1])]);
    memory.run(text, [4, 1, 1], &[list, tensor(1, &[8])]).unwrap();
    assert_eq!(memory.get::<i64>(1), [-1, 2, 4, -1, 0, 2, 2, 0]);
    let uneven = Argument::List(vec![item(0, 0, &[2], &[1]), item(0, 0, &[1], &[1])]);
    assert!(memory.run(text, [1, 1, 1], &[uneven, tensor(1, &[8])]).is_err());
}

#[test]
fn atomics_take_lanes_in_order() {
    let body = |op: &str| {
        format!(
            "kernel @k(%x: mut tensor<i32, 1>, %at: tensor<i64, 1>, %old: mut tensor<i32, 1>) {{
               %lanes = arange : i64[4]
               %z = constant 0 : i64
               %i = load %at[%lanes], %z : i64[4]
               %v = cast %lanes : i32[4]
               %ten = constant 10 : i32[4]
               %w = add %v, %ten : i32[4]
               %o = {op} : i32[4]
               store %old[%lanes], %o
               return }}"
        )
    };
    for (op, x, old) in [
        ("atomic add %x[%i], %w", [21, 12], [0, 10, 0, 0]),
        ("atomic max %x[%i], %w", [11, 12], [0, 10, 0, 0]),
        ("atomic min %x[%i], %w", [0, 0], [0, 0, 0, 0]),
        ("atomic exchange %x[%i], %w", [11, 12], [0, 10, 0, 0]),
        // Lane 1 finds 10, not the 1 that it expects.
        ("atomic_cas %x[%i], %v, %w", [10, 0], [0, 10, 0, 0]),
    ] {
        let mut memory = Memory::new().with(&[0i32; 2]).with(&[0i64, 0, 1, -1]).with(&[9i32; 4]);
        let arguments = [tensor(0, &[2]), tensor(1, &[4]), tensor(2, &[4])];
        memory.run(&body(op), [1, 1, 1], &arguments).unwrap();
        assert_eq!(
            (memory.get::<i32>(0), memory.get::<i32>(2)),
            (x.to_vec(), old.to_vec()),
            "{op}"
        );
    }
}

#[test]
fn compare_and_swap_compares_bits() {
    let text = "kernel @k(%x: mut tensor<f32, 1>) {
      %z = constant 0 : i64
      %plus = constant 0.0 : f32
      %one = constant 1.0 : f32
      %o = atomic_cas %x[%z], %plus, %one : f32
      return }";
    for (before, after) in [(0.0f32, 1.0f32), (-0.0, -0.0)] {
        let mut memory = Memory::new().with(&[before]);
        memory.run(text, [1, 1, 1], &[tensor(0, &[1])]).unwrap();
        assert_eq!(memory.get::<f32>(0)[0].to_bits(), after.to_bits());
    }
}

const COPY: &str = "kernel @copy(%x: tensor<i32, 2>, %out: mut tensor<i32, 2>) {
  %z = constant 0 : i64
  %f = constant 0 : i32
  %v = load_tile %x[%z, %z], %f : i32[2, 2]
  store_tile %out[%z, %z], %v
  return }";

fn refused(text: &str, memory: &mut Memory, arguments: &[Argument]) -> String {
    match memory.run(text, [1, 1, 1], arguments) {
        Err(failure @ (Failure::Argument { .. } | Failure::ArgumentCount { .. })) => {
            failure.to_string()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn arguments_outside_of_their_buffers_are_refused() {
    let mut memory = Memory::new().with(&[0i32; 6]).with(&[0i32; 6]);
    let out = tensor(1, &[2, 3]);
    let (far, most) = (i64::MAX, u64::MAX >> 1);
    for (x, why) in [
        (strided(0, 4, &[2, 3], &[3, 1]), "reaches bytes 4..28 of a buffer of 24"),
        (strided(0, 0, &[2, 3], &[-3, 1]), "reaches bytes -12..12"),
        (strided(0, u64::MAX, &[1, 1], &[1, 1]), "reaches bytes"),
        (strided(0, 0, &[most, most], &[far, far]), "reaches further than any buffer"),
        (strided(0, 0, &[most, most], &[i64::MIN, far]), "reaches further than any buffer"),
        (strided(0, 0, &[u64::MAX, 1], &[0, 1]), "extent"),
        (strided(7, 0, &[1, 1], &[1, 1]), "buffer 7"),
        (strided(0, 0, &[6], &[1]), "axes"),
        (Argument::Scalar(Scalar::i64(0)), "is not a tensor<i32, 2>"),
    ] {
        let message = refused(COPY, &mut memory, &[x, out.clone()]);
        assert!(message.contains(why) && message.contains("`x`"), "{message}");
    }
    let message = refused(COPY, &mut memory, &[out]);
    assert_eq!(message, "the kernel takes 2 arguments, not 1");
}

#[test]
fn written_tensors_whose_indices_share_elements_are_refused() {
    let mut memory = Memory::new().with(&[1i32; 16]).with(&[0i32; 16]);
    let x = tensor(0, &[2, 2]);
    for (shape, strides, fits) in [
        ([2u64, 2], [0i64, 1], false),
        ([2, 2], [1, 1], false),
        ([1, 2], [0, 1], true),
        ([3, 2], [2, 1], true),
        ([2, 3], [1, 2], true),
        ([2, 3], [3, 2], true),
        ([3, 2], [2, 4], false),
        ([0, 5], [0, 0], true),
    ] {
        let arguments = [x.clone(), strided(1, 0, &shape, &strides)];
        if fits {
            memory.run(COPY, [1, 1, 1], &arguments).unwrap();
        } else {
            assert!(refused(COPY, &mut memory, &arguments).contains("share an element"));
        }
    }
    // What is only read may repeat.
    memory.run(COPY, [1, 1, 1], &[strided(0, 0, &[2, 2], &[0, 0]), tensor(1, &[2, 2])]).unwrap();
}

#[test]
fn written_tensors_need_writable_buffers() {
    let (x, out) = (vec![0u8; 16], vec![0u8; 16]);
    let mut buffers = [Buffer::Read(&x), Buffer::Read(&out)];
    let arguments = [tensor(0, &[2, 2]), tensor(1, &[2, 2])];
    let kernel = interp_support::kernel(COPY);
    let result = Interpreter::default().run(&kernel, [1, 1, 1], &arguments, &mut buffers);
    assert!(result.unwrap_err().to_string().contains("its buffer is read-only"));
}

#[test]
fn empty_grids_and_shapes() {
    let arguments = [tensor(0, &[2, 2]), tensor(1, &[2, 2])];
    for grid in [[0, 1, 1], [1, 0, 1], [u64::MAX, u64::MAX, 0]] {
        let mut memory = Memory::new().with(&[1; 4]).with(&[0i32; 4]);
        let outcome = memory.run(COPY, grid, &arguments).unwrap();
        assert_eq!((outcome.steps, memory.get::<i32>(1)), (0, vec![0; 4]));
        memory.run(COPY, [1, 1, 1], &arguments).unwrap();
        assert_eq!(memory.get::<i32>(1), [1; 4]);
    }
    for grid in [[1 << 31, 1, 1], [u64::MAX, u64::MAX, 1]] {
        let mut memory = Memory::new().with(&[1; 4]).with(&[0i32; 4]);
        assert!(matches!(memory.run(COPY, grid, &arguments), Err(Failure::Grid(_))));
    }
    let mut memory = Memory::new().with::<i32>(&[]).with(&[9i32; 4]);
    memory
        .run(COPY, [1, 1, 1], &[strided(0, 0, &[0, 2], &[i64::MAX, 1]), tensor(1, &[2, 2])])
        .unwrap();
    assert_eq!(memory.get::<i32>(1), [0; 4]);
}

/// A kernel that stores all of `%x: tensor<format, 2>`, `[2, n]`, as `f32`.
fn unpack(format: &str, n: usize) -> String {
    format!(
        "kernel @k(%x: tensor<{format}, 2>, %y: tensor<{format}, 2>, %out: mut tensor<f32, 2>) {{
           %z = constant 0 : i64
           %two = constant 2 : i64
           %fill = constant 0.5 : f32
           %v = load_tile %x[%z, %z], %fill : f32[2, {n}]
           %w = load_tile %y[%z, %z], %fill : f32[2, {n}]
           store_tile %out[%z, %z], %v
           store_tile %out[%two, %z], %w
           return }}"
    )
}

fn packed(parts: &[(usize, u64)], shape: [u64; 2], row: i64) -> Argument {
    let parts = parts.iter().map(|&(buffer, byte_offset)| Part { buffer, byte_offset }).collect();
    Argument::Tensor(TensorArgument { parts, shape: shape.to_vec(), strides: vec![row, 1] })
}

#[test]
fn packed_rows() {
    let one = half::f16::ONE.to_le_bytes();
    let block = |byte: u8| [&one[..], &[byte; 16]].concat();
    let blocks: Vec<u8> = [0x98, 0x99, 0x9a].into_iter().flat_map(block).collect();
    let mut memory = Memory::new().with(&blocks).with(&[0f32; 4 * 40]);
    // Rows are one block apart; the second starts at block 1, and 8 columns lie outside.
    let x = packed(&[(0, 0)], [2, 32], 1);
    let y = packed(&[(0, 36)], [1, 32], 7);
    let out = tensor(1, &[4, 40]);
    memory.run(&unpack("q4_0", 40), [1, 1, 1], &[x.clone(), y, out.clone()]).unwrap();
    let found = memory.get::<f32>(1);
    let row = |low: f32| [[low; 16].as_slice(), &[1.0; 16], &[0.5; 8]].concat();
    assert_eq!(found[..120], [row(0.0), row(1.0), row(2.0)].concat());
    assert_eq!(found[120..], [0.5; 40]);

    for (bad, why) in [
        (packed(&[(0, 0)], [2, 40], 2), "no multiple of the block of 32"),
        (packed(&[(0, 0)], [2, 64], 2), "reaches bytes 0..72 of a buffer of 54"),
        (packed(&[(0, 0), (0, 0)], [1, 32], 1), "lies in 2 arrays, not 1"),
    ] {
        let message = refused(&unpack("q4_0", 40), &mut memory, &[bad, x.clone(), out.clone()]);
        assert!(message.contains(why), "{message}");
    }
}

#[test]
fn tensors_that_share_integers_keep_their_own_scales() {
    let mut memory =
        Memory::new().with(&[1u8; 32]).with(&[2f32, 3.0]).with(&[0f32, 10.0]).with(&[0f32; 4 * 32]);
    let x = packed(&[(0, 0), (1, 0), (2, 0)], [1, 32], 1);
    let y = packed(&[(0, 0), (1, 4), (2, 4)], [1, 32], 1);
    let text = unpack("affine8_g32_f32", 32);
    memory.run(&text, [1, 1, 1], &[x, y, tensor(3, &[4, 32])]).unwrap();
    let found = memory.get::<f32>(3);
    assert_eq!((found[0], found[31], found[64], found[95]), (2.0, 2.0, 13.0, 13.0));
}

#[test]
fn odd_divisions_are_warned_about_once_with_their_place() {
    let text = "file 0 \"div.rs\"
      kernel @div(%x: tensor<i32, 1>, %out: mut tensor<i32, 1>) {
        %i = arange : i64[4]
        %f = constant 0 : i32
        %a = load %x[%i], %f : i32[4]
        %s = constant 6 : i32[4]
        %q = div %s, %a : i32[4] @0:3:5
        %r = rem %s, %a : i32[4] @0:4:5
        %t = add %q, %r : i32[4]
        store %out[%i], %t
        return }";
    let run = |options: Options| {
        let mut memory = Memory::new().with(&[4, -4, 0, 0]).with(&[0; 4]);
        let outcome =
            memory.run_with(options, text, [1, 1, 1], &[tensor(0, &[4]), tensor(1, &[4])]).unwrap();
        assert_eq!(memory.get::<i32>(1), [3, 1, 6, 6]);
        outcome.warnings
    };
    let warnings = run(Options::default());
    let found: Vec<_> =
        warnings.iter().map(|w| (w.message.as_str(), w.span.unwrap().line)).collect();
    assert_eq!(
        found,
        [
            ("program (0, 0, 0) computes 6 / 0 (lane 2)", 3),
            ("program (0, 0, 0) computes 6 % 0 (lane 2)", 4)
        ]
    );
    assert_eq!(run(Options { max_warnings: 1, ..Options::default() }).len(), 1);
    assert!(run(Options { warn_division: false, ..Options::default() }).is_empty());
    let min = apply::<i8, i8>(
        "i8",
        &[i8::MIN],
        "i8",
        1,
        "%m = constant -1 : i8[1]\n%r = div %a, %m : i8[1]",
    );
    assert_eq!(min, [i8::MIN]);
}
