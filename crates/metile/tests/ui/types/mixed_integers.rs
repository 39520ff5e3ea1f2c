use metile::prelude::*;

#[kernel]
fn bad(out: &mut Tensor<i64, 1>, n: i32) {
    out.store(0, program_id(0) + n);
}

fn main() {}
