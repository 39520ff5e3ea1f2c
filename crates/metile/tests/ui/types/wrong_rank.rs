use metile::prelude::*;

#[kernel]
fn bad(x: &Tensor<f32, 2>, out: &mut Tensor<f32, 2>) {
    out.store((0, 0), x.load(arange(4)).sum());
}

fn main() {}
