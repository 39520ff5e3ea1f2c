//! The language's rules on memory, through the language, on the interpreter.
//!
//! docs/src/language.md names these tests beside the rules they hold.

use metile::lang::element::HostElement;
use metile::prelude::*;
use metile::{Error, InterpreterOptions, Launched};

fn device() -> Device {
    match std::env::var("METILE_TEST_DEVICE").as_deref() {
        Ok("cpu") => Device::cpu(),
        Ok("cuda") => Device::cuda().unwrap(),
        _ => Device::interpreter(),
    }
}
fn vector<T: HostElement>(values: &[T]) -> Tensor<T, 1> {
    Tensor::from_slice(&device(), [values.len()], values).unwrap()
}
fn launch(call: metile::KernelCall<'_>, grid: usize) -> Launched {
    call.grid(grid).prepare(&device()).unwrap().launch().unwrap()
}

#[kernel]
fn copy<T: Dtype, const BLOCK: usize>(x: &Tensor<T, 1>, out: &mut Tensor<T, 1>) {
    let at = arange(BLOCK);
    out.store(at, x.load(at));
}

// A view decides what is loaded, not the storage behind it.
#[test]
fn loads_are_masked_by_the_views_own_shape() {
    let bins = vector(&[10i32, 99, 11, 99, 12]);
    for (length, want) in [(3, [10, 11, 12, 0, 0, 0, 0, 0]), (2, [10, 11, 0, 0, 0, 0, 0, 0])] {
        let view = bins.step_by(0, 2).unwrap().slice(0, 0..length).unwrap();
        let mut out = vector(&[-1i32; 8]);
        launch(copy::<i32, 8>(&view, &mut out), 1);
        assert_eq!(out.to_vec().unwrap(), want);
    }
}

#[kernel]
fn gather_from(x: &Tensor<i32, 1>, index: &Tensor<i64, 1>, out: &mut Tensor<i32, 1>) {
    let at = arange(8);
    out.store(at, x.load_or(index.load_or(at, -1), 77));
}

#[test]
fn gathers_outside_give_the_fill() {
    let x = vector(&[5i32, 6, 7]);
    let index = vector(&[-1i64, 3, 1 << 40, 2, 0, i64::MIN, i64::MAX, 1]);
    let mut out = vector(&[0i32; 8]);
    launch(gather_from(&x, &index, &mut out), 1);
    assert_eq!(out.to_vec().unwrap(), [77, 77, 77, 7, 5, 77, 77, 6]);
}

#[test]
fn accesses_outside_are_reported_on_request() {
    let options = InterpreterOptions { warn_out_of_shape: true, ..Default::default() };
    let device = Device::interpreter_with(options);
    let x = Tensor::from_slice(&device, [3], &[5i32, 6, 7]).unwrap();
    let index = Tensor::from_slice(&device, [8], &[0i64, 1, 9, 2, 0, 0, 0, 0]).unwrap();
    let mut out = Tensor::<i32, 1>::zeros(&device, [8]).unwrap();
    let launched =
        gather_from(&x, &index, &mut out).grid(1).prepare(&device).unwrap().launch().unwrap();
    assert_eq!(launched.warnings.len(), 1, "{:?}", launched.warnings);
    let warning = &launched.warnings[0];
    for part in
        ["kernel `gather_from`", "program (0, 0, 0) reads `x` at [9]", "lane 2", "shape [3]"]
    {
        assert!(warning.contains(part), "{part} in {warning}");
    }
}

#[kernel]
fn scatter(index: &Tensor<i64, 1>, out: &mut Tensor<i32, 1>) {
    let at = arange(4);
    out.store(index.load(at), at.to::<i32>() + 1);
}

#[test]
fn stores_outside_do_nothing_and_the_last_of_equals_stays() {
    let index = vector(&[2i64, -5, 2, 1 << 50]);
    let storage = vector(&[-1i32; 6]);
    let mut middle = storage.slice(0, 1..5).unwrap();
    launch(scatter(&index, &mut middle), 1);
    assert_eq!(storage.to_vec().unwrap(), [-1, -1, -1, 3, -1, -1]);
}

#[kernel]
fn masked(x: &Tensor<i32, 1>, out: &mut Tensor<i32, 1>) {
    let at = arange(6);
    let odd = at % 2 == 1;
    out.store_where(at, at != 3, x.load_where(at, odd, -9));
}

#[test]
fn masks_choose_lanes() {
    let x = vector(&[10i32, 11, 12, 13, 14, 15]);
    let mut out = vector(&[0i32; 6]);
    launch(masked(&x, &mut out), 1);
    assert_eq!(out.to_vec().unwrap(), [-9, 11, -9, 0, -9, 15]);
}

#[kernel]
fn views(x: &Tensor<i32, 3>, out: &mut Tensor<i32, 1>, start: i64, length: i64, plane: i64) {
    let view = x.pick(0, plane).narrow(1, start, length);
    out.store(arange(6), view.load_tile((0, 0), [2, 3]).reshape([6]));
    out.store(6, view.dim(0).to::<i32>());
    out.store(7, view.dim(1).to::<i32>());
}

#[test]
fn views_in_kernels_are_cut_to_their_tensor() {
    let values: Vec<i32> = (0..24).collect();
    let x = Tensor::from_slice(&device(), [2, 3, 4], &values).unwrap();
    let check = |start, length, plane, want: [i32; 8]| {
        let mut out = vector(&[-1i32; 8]);
        launch(views(&x, &mut out, start, length, plane), 1);
        assert_eq!(out.to_vec().unwrap(), want, "{start} {length} {plane}");
    };
    check(1, 2, 1, [13, 14, 0, 17, 18, 0, 3, 2]);
    check(3, 100, 0, [3, 0, 0, 7, 0, 0, 3, 1]);
    check(-5, 2, 0, [0, 1, 0, 4, 5, 0, 3, 2]);
    check(9, 2, 0, [0, 0, 0, 0, 0, 0, 3, 0]);
    check(0, -1, 0, [0, 0, 0, 0, 0, 0, 3, 0]);
    check(0, 4, 2, [0; 8]);
    check(0, 4, i64::MIN, [0; 8]);
}

#[kernel]
fn pick_layer(layers: &TensorList<f32, 1>, out: &mut Tensor<f32, 1>, count: i64) {
    let mut total = zeros::<f32, 1>([2]);
    for layer in 0..count {
        total += layers.at(layer).load(arange(2));
    }
    out.store(arange(2), total);
}

#[test]
fn a_loop_over_a_list_is_a_loop() {
    let (a, b) = (vector(&[1.0f32, 2.0]), vector(&[10.0f32, 20.0]));
    let list = metile::TensorList::new(&[&a, &b]).unwrap();
    let mut out = vector(&[0.0f32; 2]);
    // Layers 2 and 3 do not exist: empty views.
    launch(pick_layer(&list, &mut out, 4), 1);
    assert_eq!(out.to_vec().unwrap(), [11.0, 22.0]);
    let odd = vector(&[1.0f32; 3]);
    assert!(metile::TensorList::new(&[&a, &odd]).is_err());
}

#[kernel]
fn far_index(x: &Tensor<f32, 2>, out: &mut Tensor<f32, 1>, row: i64) {
    // Index arithmetic is 64-bit: row · 2^20 passes 2^31 long before the tensor ends.
    let flat = row * 1_048_576 + 5;
    out.store(0, x.load((flat / 1_048_576, flat % 1_048_576)));
    out.store(1, flat.to_f32());
}

// A tensor of 2^33 elements in one byte range: a row that repeats.
#[test]
fn offsets_past_2_to_the_31() {
    let row: Vec<f32> = (0..1 << 20).map(|i| i as f32).collect();
    let x =
        Tensor::from_slice(&device(), [1, 1 << 20], &row).unwrap().repeat_axis(0, 8192).unwrap();
    let mut out = vector(&[0.0f32; 2]);
    launch(far_index(&x, &mut out, 8191), 1);
    assert_eq!(out.to_vec().unwrap(), [5.0, (8191i64 * 1_048_576 + 5) as f32]);
    launch(far_index(&x, &mut out, 8192), 1);
    assert_eq!(out.to_vec().unwrap()[0], 0.0);
}

// --- Empty shapes -------------------------------------------------------------------------------

#[kernel]
fn matmul<const B: usize>(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>, out: &mut Tensor<f32, 2>) {
    let at = (program_id(0) * B, program_id(1) * B);
    let mut acc = zeros::<f32, 2>([B, B]);
    for k in tiles(a.dim(1), B) {
        acc = dot_add(a.load_tile((at.0, k), [B, B]), b.load_tile((k, at.1), [B, B]), acc);
    }
    out.store_tile(at, acc);
}

#[test]
fn empty_grids_and_shapes_launch_nothing() {
    let d = device();
    for before in [false, true] {
        if before {
            launch(copy::<i32, 4>(&vector(&[1, 2]), &mut vector(&[0, 0])), 1);
        }
        let (x, mut out) = (vector::<i32>(&[]), vector(&[7i32, 7]));
        launch(copy::<i32, 4>(&x, &mut out), 0);
        assert_eq!(out.to_vec().unwrap(), [7, 7]);
        launch(copy::<i32, 4>(&x, &mut out), 1);
        assert_eq!(out.to_vec().unwrap(), [0, 0]);
    }
    // K = 0 writes zeros; M = 0 or N = 0 writes nothing.
    let a = Tensor::<f32, 2>::zeros(&d, [3, 0]).unwrap();
    let b = Tensor::<f32, 2>::zeros(&d, [0, 2]).unwrap();
    let mut out = Tensor::from_slice(&d, [3, 2], &[f32::NAN; 6]).unwrap();
    matmul::<4>(&a, &b, &mut out).grid((1, 1)).prepare(&d).unwrap().launch().unwrap();
    assert_eq!(out.to_vec().unwrap(), [0.0; 6]);
    let a = Tensor::<f32, 2>::zeros(&d, [0, 3]).unwrap();
    let b = Tensor::<f32, 2>::zeros(&d, [3, 2]).unwrap();
    let mut out = Tensor::<f32, 2>::zeros(&d, [0, 2]).unwrap();
    matmul::<4>(&a, &b, &mut out).grid((1, 1)).prepare(&d).unwrap().launch().unwrap();
    matmul::<4>(&a, &b, &mut out).grid((0, 1)).prepare(&d).unwrap().launch().unwrap();
}

// --- Ragged sizes with guard bands --------------------------------------------------------------

/// A matrix inside a larger buffer of NaN, and a check that the NaN is still there.
fn guarded(
    rows: usize,
    cols: usize,
    value: impl Fn(usize, usize) -> f32,
) -> (Tensor<f32, 2>, Tensor<f32, 2>) {
    let whole = Tensor::from_slice(
        &device(),
        [rows + 2, cols + 2],
        &vec![f32::NAN; (rows + 2) * (cols + 2)],
    )
    .unwrap();
    let mut values = whole.to_vec().unwrap();
    for r in 0..rows {
        for c in 0..cols {
            values[(r + 1) * (cols + 2) + c + 1] = value(r, c);
        }
    }
    let whole = Tensor::from_slice(&device(), [rows + 2, cols + 2], &values).unwrap();
    let inner = whole.slice(0, 1..rows + 1).unwrap().slice(1, 1..cols + 1).unwrap();
    (whole, inner)
}

#[test]
fn ragged_matrix_products_leave_guards_alone() {
    let d = device();
    for (m, n, k) in [(1, 1, 1), (3, 7, 8), (9, 10, 33), (33, 3, 9), (10, 8, 65), (7, 33, 1)] {
        let f = |r: usize, c: usize| ((r * 7 + c * 3) % 11) as f32 - 5.0;
        let (_keep_a, a) = guarded(m, k, f);
        let (_keep_b, b) = guarded(k, n, |r, c| f(c, r) * 0.5);
        let (whole, mut out) = guarded(m, n, |_, _| -1.0);
        // Tiles of 5 × 5: sides need not be powers of two.
        matmul::<5>(&a, &b, &mut out)
            .grid((m.div_ceil(5), n.div_ceil(5)))
            .prepare(&d)
            .unwrap()
            .launch()
            .unwrap();
        let got = out.to_vec().unwrap();
        for r in 0..m {
            for c in 0..n {
                let want: f32 = (0..k).map(|x| f(r, x) * f(c, x) * 0.5).sum();
                assert_eq!(got[r * n + c], want, "{m} {n} {k}: {r} {c}");
            }
        }
        let guards = whole.to_vec().unwrap().iter().filter(|v| v.is_nan()).count();
        assert_eq!(guards, (m + 2) * (n + 2) - m * n, "{m} {n} {k}");
    }
}

// --- Aliasing -----------------------------------------------------------------------------------

#[kernel]
fn scale(x: &Tensor<f32, 1>, out: &mut Tensor<f32, 1>) {
    let at = arange(4);
    out.store(at, x.load(at) * 2.0);
}

#[kernel]
fn two_outputs(a: &mut Tensor<f32, 1>, b: &mut Tensor<f32, 1>) {
    a.store(arange(2), b.load(arange(2)));
}

#[test]
fn overlapping_arguments_are_refused() {
    let x = vector(&[1.0f32; 8]);
    for (range, refused) in [(0..4, true), (1..5, true), (3..7, true), (4..8, false)] {
        let mut out = x.slice(0, range.clone()).unwrap();
        let input = x.slice(0, 0..4).unwrap();
        let result = scale(&input, &mut out).grid(1).prepare(&device());
        assert_eq!(result.is_err(), refused, "{range:?}");
        if let Err(error) = result {
            assert!(matches!(error, Error::Call { .. }));
            assert_eq!(
                error.to_string(),
                "kernel `scale`: `x` and `out` share memory, and one of them is written; pass one `&mut Tensor` to work in place"
            );
        }
    }
    // Interleaved views share no element.
    let even = x.step_by(0, 2).unwrap();
    let mut odd = x.slice(0, 1..8).unwrap().step_by(0, 2).unwrap();
    launch(scale(&even, &mut odd), 1);
    let (mut a, mut b) = (x.slice(0, 0..3).unwrap(), x.slice(0, 2..5).unwrap());
    assert!(two_outputs(&mut a, &mut b).grid(1).prepare(&device()).is_err());
    // Two indices of one written view may not meet either.
    let mut repeated = vector(&[1.0f32]).repeat_axis(0, 4).unwrap();
    let message = scale(&vector(&[1.0f32]), &mut repeated).grid(1).prepare(&device()).unwrap_err();
    assert!(message.to_string().contains("two of its indices share an element"), "{message}");
}

// --- Order --------------------------------------------------------------------------------------

#[kernel]
fn relu_then_square(x: &Tensor<f32, 1>, mid: &mut Tensor<f32, 1>, out: &mut Tensor<f32, 1>) {
    let n = x.dim(0);
    for start in tiles(n, 4) {
        let at = start + arange(4);
        mid.store(at, max(x.load(at), 0.0));
    }
    // Reads see this program's earlier writes, also by another tiling.
    for start in tiles(n, 3) {
        let at = start + arange(3);
        let v = mid.load(at);
        out.store(at, v * v);
    }
}

#[test]
fn a_program_sees_its_earlier_writes() {
    let x: Vec<f32> = (0..13).map(|i| i as f32 - 6.0).collect();
    let want: Vec<f32> = x.iter().map(|v| v.max(0.0) * v.max(0.0)).collect();
    for _ in 0..100 {
        let (mut mid, mut out) = (vector(&[f32::NAN; 13]), vector(&[f32::NAN; 13]));
        let launched = launch(relu_then_square(&vector(&x), &mut mid, &mut out), 1);
        assert!(launched.warnings.is_empty());
        assert_eq!(out.to_vec().unwrap(), want);
    }
}

#[kernel]
fn neighbours(mid: &mut Tensor<f32, 1>, out: &mut Tensor<f32, 1>) {
    let me = program_id(0);
    mid.store(me, me.to_f32());
    out.store(me, mid.load((me + 1) % num_programs(0)));
}

#[kernel(persistent)]
fn neighbours_in_order(mid: &mut Tensor<f32, 1>, out: &mut Tensor<f32, 1>) {
    let me = program_id(0);
    mid.store(me, me.to_f32());
    grid_barrier();
    out.store(me, mid.load((me + 1) % num_programs(0)));
}

#[test]
fn unordered_programs_race_and_a_barrier_orders_them() {
    let (mut mid, mut out) = (vector(&[f32::NAN; 4]), vector(&[0.0f32; 4]));
    let launched = launch(neighbours(&mut mid, &mut out), 4);
    // The CPU does not look for races.
    if device().name() == "interpreter" {
        let text = launched.warnings.join("");
        assert!(text.contains("`mid`") && text.contains("nothing orders the two"), "{text}");
        assert!(
            text.contains("rules_memory.rs:") && text.contains("the other access is here"),
            "{text}"
        );
    }
    let launched = launch(neighbours_in_order(&mut mid, &mut out), 4);
    assert!(launched.warnings.is_empty(), "{:?}", launched.warnings);
    assert_eq!(out.to_vec().unwrap(), [1.0, 2.0, 3.0, 0.0]);
}

#[kernel(persistent)]
fn hand_off(ready: &Counters, data: &mut Tensor<f32, 1>, out: &mut Tensor<f32, 1>) {
    if program_id(0) == 1 {
        data.store(arange(4), arange(4).to_f32() + 1.0);
        ready.add(0, 1);
    } else {
        ready.wait(0, 1);
        out.store(arange(4), data.load(arange(4)) * 10.0);
    }
}

#[kernel(persistent)]
fn hand_off_without_waiting(ready: &Counters, data: &mut Tensor<f32, 1>, out: &mut Tensor<f32, 1>) {
    if program_id(0) == 1 {
        data.store(arange(4), arange(4).to_f32() + 1.0);
        ready.add(0, 1);
    } else {
        out.store(arange(4), data.load(arange(4)) * 10.0);
    }
}

#[test]
fn counters_hand_data_over() {
    let counters = metile::Counters::new(&device(), 1).unwrap();
    let (mut data, mut out) = (vector(&[f32::NAN; 4]), vector(&[0.0f32; 4]));
    let launched = launch(hand_off(&counters, &mut data, &mut out), 2);
    assert!(launched.warnings.is_empty(), "{:?}", launched.warnings);
    assert_eq!(out.to_vec().unwrap(), [10.0, 20.0, 30.0, 40.0]);
    assert_eq!(counters.to_vec().unwrap(), [1]);
    let launched = launch(hand_off_without_waiting(&counters, &mut data, &mut out), 2);
    assert_eq!(launched.warnings.is_empty(), device().name() == "cpu");
}

#[kernel(persistent)]
fn half_barrier() {
    if program_id(0) == 0 {
        grid_barrier();
    }
}

#[test]
fn a_barrier_that_some_never_reach_is_a_failure() {
    let error = half_barrier().grid(2).prepare(&device()).unwrap().launch().unwrap_err();
    let text = error.to_string();
    assert!(text.contains("waits at a grid barrier that 1 of 2 programs never reach"), "{text}");
    let counters = metile::Counters::new(&device(), 1).unwrap();
    let (mut data, mut out) = (vector(&[0.0f32; 4]), vector(&[0.0f32; 4]));
    let error = hand_off(&counters, &mut data, &mut out)
        .grid(1)
        .prepare(&device())
        .unwrap()
        .launch()
        .unwrap_err();
    assert!(error.to_string().contains("waits for counter 0 of `ready` to reach 1"), "{error}");
}

#[kernel]
fn count_up(
    hist: &mut Tensor<u32, 1>,
    x: &Tensor<u32, 1>,
    peak: &mut Tensor<i32, 1>,
    old: &mut Tensor<u32, 1>,
) {
    let v = x.load(program_id(0) * 4 + arange(4));
    let before = hist.atomic_add(v.to::<i64>(), 1u32);
    old.store(program_id(0) * 4 + arange(4), before);
    peak.atomic_max(0, v.max().to::<i32>());
    peak.atomic_min(1, v.min().to::<i32>());
    peak.atomic_exchange(2, 5);
    peak.atomic_cas(3, 0, program_id(0).to::<i32>() + 100);
}

#[test]
fn atomics_combine_lanes_and_programs() {
    let x = vector(&[0u32, 1, 1, 9, 2, 1, 0, 0]);
    let (mut hist, mut old) = (vector(&[0u32; 3]), vector(&[7u32; 8]));
    let mut peak = vector(&[0i32, 50, 0, 0]);
    let launched = launch(count_up(&mut hist, &x, &mut peak, &mut old), 2);
    assert!(launched.warnings.is_empty(), "{:?}", launched.warnings);
    assert_eq!(hist.to_vec().unwrap(), [3, 3, 1]);
    assert_eq!(old.to_vec().unwrap(), [0, 0, 1, 0, 0, 2, 1, 2]);
    assert_eq!(peak.to_vec().unwrap(), [9, 0, 5, 100]);
}

#[kernel]
fn float_atomics(out: &mut Tensor<f32, 1>) {
    out.atomic_add(0, 1.0);
}

#[test]
fn float_atomics_are_marked_nondeterministic() {
    let mut out = vector(&[0.0f32]);
    let prepared = float_atomics(&mut out).grid(3).prepare(&device()).unwrap();
    assert!(
        prepared.explain().contains("nondeterministic: floats are added atomically"),
        "{}",
        prepared.explain()
    );
    prepared.launch().unwrap();
    drop(prepared);
    assert_eq!(out.to_vec().unwrap(), [3.0]);
}

#[kernel]
fn never(out: &mut Tensor<f32, 1>, n: i64) {
    let mut x = 3.0;
    for i in 5..n {
        x += i.to_f32();
    }
    for i in step_range(n, n + 10, -3i64) {
        x += 1.0 + 0.0 * i.to_f32();
    }
    while x < 0.0 {
        x += 1.0;
    }
    out.store(0, x);
}

// A loop that never runs leaves its variables; a step below 1 counts as 1.
#[test]
fn loops_that_never_run() {
    let mut out = vector(&[0.0f32]);
    launch(never(&mut out, -4), 1);
    assert_eq!(out.to_vec().unwrap(), [13.0]);
}
