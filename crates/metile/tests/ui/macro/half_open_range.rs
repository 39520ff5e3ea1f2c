use metile::prelude::*;

#[kernel]
fn bad(out: &mut Tensor<f32, 1>) {
    for i in 0.. {
        out.store(i, 1.0);
    }
}

fn main() {}
