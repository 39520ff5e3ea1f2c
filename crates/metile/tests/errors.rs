//! Mistakes that only tracing or verifying can see, as the full text an author reads.
//!
//! `METILE_BLESS=1 cargo nextest run -p metile --test errors` rewrites the expected texts.

use metile::prelude::*;
use std::path::Path;

/// Compares with `tests/errors/<name>.txt`.
fn expect(name: &str, call: metile::KernelCall<'_>) {
    let error = call.grid(1).prepare(&Device::interpreter()).expect_err("the kernel is refused");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/errors/{name}.txt"));
    let text = format!("{error}\n");
    // The file is written with the path the test was compiled with; only its name matters.
    let text = text.replace("crates/metile/tests/errors.rs", "tests/errors.rs");
    if std::env::var_os("METILE_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &text).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, wanted, "\n{text}");
}

fn x(shape: [usize; 2]) -> Tensor<f32, 2> {
    Tensor::zeros(&Device::interpreter(), shape).unwrap()
}

#[kernel]
fn shapes_differ(out: &mut Tensor<f32, 2>) {
    let a = zeros::<f32, 2>([4, 8]);
    let b = zeros::<f32, 1>([4]);
    out.store_tile((0, 0), a + b);
}

#[kernel]
fn inner_sides_differ(out: &mut Tensor<f32, 2>) {
    let a = zeros::<f32, 2>([4, 8]);
    out.store_tile((0, 0), dot(a, a));
}

#[kernel]
fn variable_changes_shape(out: &mut Tensor<f32, 2>) {
    let mut total = 0.0;
    for start in tiles(out.dim(0), 4) {
        total += zeros::<f32, 1>([4]) + start.to_f32();
    }
    out.store((0, 0), total);
}

#[kernel]
fn barrier_in_an_ordinary_kernel(out: &mut Tensor<f32, 2>) {
    out.store((0, 0), 1.0);
    grid_barrier();
}

#[kernel]
fn axis_out_of_range(out: &mut Tensor<f32, 2>) {
    out.store((0, 0), out.dim(2).to_f32());
    out.store((0, 0), zeros::<f32, 1>([4]).sum_along(1));
}

#[kernel]
fn impossible_tiles(out: &mut Tensor<f32, 2>) {
    out.store((0, 0), zeros::<f32, 1>([0]).sum());
    out.store((0, 0), zeros::<f32, 2>([4096, 4096]).sum());
    out.store((0, 0), arange(12).reshape([5, 2]).sum().to_f32());
}

#[kernel]
fn narrow_bitcast(out: &mut Tensor<f32, 2>) {
    out.store((0, 0), zeros::<f32, 1>([4]).bitcast::<f16>().sum());
}

#[kernel]
fn tile_as_condition(out: &mut Tensor<f32, 2>) {
    if arange(4) < 2 {
        out.store((0, 0), 1.0);
    }
}

#[kernel]
fn host_value_from_a_branch(out: &mut Tensor<f32, 2>) {
    let v = if out.dim(0) > 2 { 1.0f32 } else { 2.0f32 };
    out.store((0, 0), v);
}

#[kernel]
fn branches_of_two_shapes(out: &mut Tensor<f32, 2>) {
    let v = if out.dim(0) > 2 { zeros::<f32, 1>([4]) } else { zeros::<f32, 1>([5]) };
    out.store((0, arange(4)), v);
}

#[kernel]
fn store_too_wide(out: &mut Tensor<f32, 2>) {
    out.store((0, arange(4)), zeros::<f32, 1>([5]));
}

#[kernel_fn]
fn helper(v: Tile<f32>, side: usize) -> Tile<f32> {
    v.reshape([side, side])
}

#[kernel]
fn mistake_in_a_helper(out: &mut Tensor<f32, 2>) {
    let v = zeros::<f32, 1>([12]);
    out.store_tile((0, 0), helper(v, 4));
}

#[kernel]
fn failed_static_assertion<const BLOCK: usize>(out: &mut Tensor<f32, 2>) {
    assert!(BLOCK % 16 == 0, "BLOCK is a multiple of 16");
    out.store((0, 0), 1.0);
}

#[kernel]
fn packed_cut(w: &Tensor<Q4_0, 2>, out: &mut Tensor<f32, 2>) {
    let part = w.narrow(1, 32, 32);
    out.store_tile((0, 0), part.load_tile((0, 0), [1, 32]));
}

#[kernel]
fn panics_while_tracing(out: &mut Tensor<f32, 2>) {
    let sides = [4usize, 8];
    out.store((0, 0), zeros::<f32, 1>([sides[out.dim(0).shape().len() + 2]]).sum());
}

#[kernel]
fn unrolls_without_end(out: &mut Tensor<f32, 2>) {
    for _ in 0..usize::MAX {
        out.store((0, 0), 1.0);
    }
}

#[kernel]
fn two_mistakes(out: &mut Tensor<f32, 2>) {
    let bad = zeros::<f32, 1>([3]) + zeros::<f32, 1>([4]);
    // What follows from the first mistake is not reported again.
    let more = bad * 2.0;
    out.store((0, arange(3)), more);
    out.store((0, 0), program_id(3).to_f32());
}

macro_rules! refused {
    ($($test:ident: $kernel:ident $(<$generic:literal>)?;)*) => {$(
        #[test]
        fn $test() {
            expect(stringify!($kernel), $kernel$(::<$generic>)?(&mut x([4, 4])));
        }
    )*};
}
mod refused {
    use super::*;
    refused! {
    shapes: shapes_differ;
    dot: inner_sides_differ;
    variables: variable_changes_shape;
    barriers: barrier_in_an_ordinary_kernel;
    axes: axis_out_of_range;
    tiles: impossible_tiles;
    bitcasts: narrow_bitcast;
    conditions: tile_as_condition;
    branch_values: host_value_from_a_branch;
    branch_shapes: branches_of_two_shapes;
    stores: store_too_wide;
    helpers: mistake_in_a_helper;
    static_assertions: failed_static_assertion<40>;
    panics: panics_while_tracing;
    unrolling: unrolls_without_end;
    several: two_mistakes;
    }
}

#[test]
fn packed_axes_stay_whole() {
    let w = Tensor::<Q4_0, 2>::zeros(&Device::interpreter(), [1, 64]).unwrap();
    expect("packed_cut", packed_cut(&w, &mut x([1, 32])));
}

#[kernel]
fn asserts(out: &mut Tensor<f32, 2>) {
    let lane = arange(8);
    assert!(lane < 5, "lanes stay below five");
    out.store((0, 0), 1.0);
}

#[test]
fn failed_assertions_show_the_line() {
    let mut out = x([1, 1]);
    let error =
        asserts(&mut out).grid(2).prepare(&Device::interpreter()).unwrap().launch().unwrap_err();
    let text = error.to_string();
    for part in [
        "assertion failed in program (0, 0, 0) (lane 5): lanes stay below five",
        "errors.rs:",
        "assert!(lane < 5, \"lanes stay below five\");",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn a_call_without_a_grid_is_refused() {
    let error = asserts(&mut x([1, 1])).prepare(&Device::interpreter()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "kernel `asserts`: the call has no grid; say how many programs run, as in `.grid(rows)`"
    );
}
