//! `make tour`: a kernel from source to result, and a mistake explained.

use metile::prelude::*;
use std::error::Error;
use std::io::Write;

/// Softmax over the last axis. `x`, `out`: [rows, cols]. One program per row.
#[kernel]
fn softmax<T: Float, const BLOCK: usize>(x: &Tensor<T, 2>, out: &mut Tensor<T, 2>) {
    let row = program_id(0);
    let cols = x.dim(1);
    let mut peak = f32::NEG_INFINITY;
    let mut total = 0.0;
    for start in tiles(cols, BLOCK) {
        let v = x.load_or((row, start + arange(BLOCK)), f32::NEG_INFINITY).to_f32();
        let next = max(peak, v.max());
        total = total * exp(peak - next) + exp(v - next).sum();
        peak = next;
    }
    for start in tiles(cols, BLOCK) {
        let at = (row, start + arange(BLOCK));
        out.store(at, exp(x.load(at) - peak) / total);
    }
}

/// The same with a mistake: a matrix where a row is meant.
#[kernel]
fn mistaken<const BLOCK: usize>(x: &Tensor<f32, 2>, out: &mut Tensor<f32, 2>) {
    let rows = x.load_tile((0, 0), [4, BLOCK]);
    let peaks = rows.max_along(1);
    out.store_tile((0, 0), exp(rows - peaks));
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut text = std::io::stdout().lock();
    let device = Device::interpreter();
    let values = [1.0f32, 2.0, 3.0, 4.0, 5.0, 0.0, 0.0, 0.0, 0.0, 100.0];
    let x = Tensor::from_slice(&device, [2, 5], &values)?;
    let mut out = Tensor::<f32, 2>::zeros(&device, [2, 5])?;

    let prepared = softmax::<f32, 4>(&x, &mut out).grid(2).prepare(&device)?;
    writeln!(text, "{}", prepared.explain())?;
    prepared.launch()?;
    drop(prepared);
    for row in out.to_vec()?.chunks(5) {
        writeln!(text, "{row:.4?}")?;
    }

    writeln!(text, "\nAnd what a mistake looks like:\n")?;
    if let Err(error) = mistaken::<8>(&x, &mut out).grid(1).prepare(&device) {
        writeln!(text, "{error}")?;
    }
    Ok(())
}
