use metile::prelude::*;

#[kernel]
fn bad(x: &Tensor<f32, 1>) {
    x.store(0, 1.0);
}

fn main() {}
