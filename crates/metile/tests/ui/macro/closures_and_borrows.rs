use metile::prelude::*;

#[kernel]
fn bad(out: &mut Tensor<f32, 1>) {
    let mut total = 0.0;
    let add = |v: Tile<f32>| total + v;
    let mut set = |v: Tile<f32>| total = v;
    change(&mut total);
    out.store(0, total);
}

fn change(_: &mut Tile<f32>) {}

fn main() {}
