use metile::prelude::*;

#[kernel]
fn bad(x: &Tensor<f32, 1>, out: &mut Tensor<i32, 1>) {
    let at = arange(4);
    out.store(at, x.load(at));
}

fn main() {}
