use metile::prelude::*;

#[kernel]
fn bad(x: &Tensor<f32, 1>, out: &mut Tensor<f32, 1>) {
    out.store(0, x.load(arange(4).to_f32()).sum());
}

fn main() {}
