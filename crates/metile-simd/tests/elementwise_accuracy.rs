//! The functions whose last bits are the device's own, against the interpreter's: within the bounds that
//! the book states, in units of the last place.

use metile_ir::arith;
use metile_ir::dtype::DType;
use metile_ir::tile::UnaryOp;
use metile_simd::{Level, elementwise};

fn levels() -> Vec<Level> {
    let mut levels = vec![Level::Portable];
    if Level::detect() != Level::Portable {
        levels.push(Level::detect());
    }
    levels
}

/// Values of every size and sign, the edges, and a fine sweep where functions change most.
fn inputs() -> Vec<f32> {
    let edges = [0.0, f32::INFINITY, f32::NAN, 1.0, 88.72, 88.73, 87.33, 103.97, 104.0, 0.625, 4.0];
    let mut values: Vec<f32> = edges.iter().flat_map(|&v| [v, -v]).collect();
    // A prime step through all bit patterns.
    values.extend((0..1_000_000u32).map(|n| f32::from_bits(n.wrapping_mul(4_291))));
    values.extend((-400_000..400_000).map(|n| n as f32 * 2.7e-4));
    values
}

/// Distance in representable values; NaNs are equal, and so are zeros.
fn distance(a: f32, b: f32) -> u64 {
    if a.is_nan() || b.is_nan() {
        return if a.is_nan() && b.is_nan() { 0 } else { u64::MAX };
    }
    let place = |x: f32| {
        let bits = i64::from(x.to_bits() & 0x7fff_ffff);
        if x.is_sign_negative() { -bits } else { bits }
    };
    place(a).abs_diff(place(b))
}

fn worst(level: Level, op: UnaryOp, values: &[f32]) -> (u64, f32) {
    let exact = arith::float::unary(op).expect("defined on f32");
    let mut worst = (0, 0.0);
    for run in values.chunks(elementwise::MAX_RUN) {
        let mut out = vec![0.0f32; run.len()];
        // SAFETY: both runs have as many elements, and do not overlap.
        unsafe {
            let (a, out) = (run.as_ptr().cast(), out.as_mut_ptr().cast());
            elementwise::unary(level, op, DType::F32, a, out, run.len());
        }
        for (&x, &got) in run.iter().zip(&out) {
            let apart = distance(exact(x), got);
            if apart > worst.0 {
                worst = (apart, x);
            }
        }
    }
    worst
}

#[test]
fn functions_keep_to_their_bounds() {
    let values = inputs();
    let bounds = [
        (UnaryOp::Exp, 2),
        (UnaryOp::Exp2, 2),
        (UnaryOp::Log, 1),
        (UnaryOp::Log2, 1),
        (UnaryOp::Rsqrt, 2),
        (UnaryOp::Sin, 1),
        (UnaryOp::Cos, 1),
        (UnaryOp::Tanh, 4),
        (UnaryOp::Sigmoid, 4),
        (UnaryOp::Erf, 1),
        (UnaryOp::Sqrt, 0),
        (UnaryOp::Floor, 0),
        (UnaryOp::Ceil, 0),
        (UnaryOp::Round, 0),
        (UnaryOp::Neg, 0),
        (UnaryOp::Abs, 0),
    ];
    let mut broken = Vec::new();
    for level in levels() {
        for (op, bound) in bounds {
            let (units, at) = worst(level, op, &values);
            if units > bound {
                broken.push(format!("{op:?} on {}: {units} units at {at:e}", level.name()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}
