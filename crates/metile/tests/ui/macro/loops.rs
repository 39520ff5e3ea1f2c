use metile::prelude::*;

#[kernel]
fn bad(out: &mut Tensor<f32, 1>, n: i64) {
    let mut i = 0;
    loop {
        i += 1;
    }
    while i < n {
        if i == 3 {
            break;
        }
        continue;
    }
    'outer: for _ in 0..n {}
    while let Some(x) = Some(1) {}
    out.store(0, i.to_f32());
}

fn main() {}
