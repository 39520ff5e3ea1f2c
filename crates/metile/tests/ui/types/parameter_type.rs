use metile::prelude::*;

#[kernel]
fn bad(name: String, out: &mut Tensor<f32, 1>) {
    out.store(0, 1.0);
}

fn main() {}
