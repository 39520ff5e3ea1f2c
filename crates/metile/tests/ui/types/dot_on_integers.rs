use metile::prelude::*;

#[kernel]
fn bad(out: &mut Tensor<i32, 2>) {
    let a = zeros::<i32, 2>([4, 4]);
    out.store_tile((0, 0), dot(a, a));
}

fn main() {}
