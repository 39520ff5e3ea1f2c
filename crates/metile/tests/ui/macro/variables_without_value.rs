use metile::prelude::*;

#[kernel]
fn bad(out: &mut Tensor<f32, 1>) {
    let x;
    let mut y: f32;
    x = 1.0f32;
    let Some(z) = Some(1.0f32) else { panic!() };
    out.store(0, x + y + z);
}

fn main() {}
