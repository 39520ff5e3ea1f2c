use metile::prelude::*;

#[kernel]
fn bad(out: &mut Tensor<f32, 1>) {
    println!("{:?}", out.dim(0));
    print!("{} {}", out.dim(0));
    assert_eq!(out.dim(0), 3);
    assert!(out.dim(0) > 0, String::from("message"));
    let v = vec![1.0f32];
    out.store(0, v[0]);
}

fn main() {}
