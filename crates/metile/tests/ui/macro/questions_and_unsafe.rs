use metile::prelude::*;

#[kernel]
fn bad(out: &mut Tensor<f32, 1>) {
    let x = Some(1.0f32)?;
    unsafe {
        out.store(0, x);
    }
    let later = async { 1.0f32 };
}

fn main() {}
