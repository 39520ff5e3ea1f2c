use metile::prelude::*;

#[kernel]
fn bad(out: &mut Tensor<f32, 1>) {
    let mut i = 0;
    i = 1.5f32;
    out.store(0, i.to_f32());
}

fn main() {}
