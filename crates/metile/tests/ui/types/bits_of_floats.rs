use metile::prelude::*;

#[kernel]
fn bad(out: &mut Tensor<f32, 1>) {
    let a = zeros::<f32, 1>([4]);
    out.store(arange(4), a & a);
}

fn main() {}
