use metile::prelude::*;

#[kernel]
async fn asynchronous(out: &mut Tensor<f32, 1>) {
    out.store(0, 1.0);
}

#[kernel]
fn gives(x: &Tensor<f32, 1>) -> f32 {
    x.load(0)
}

#[kernel]
fn sized(out: &mut Tensor<f32, 1>, n: usize) {
    out.store(n, 1.0);
}

#[kernel]
fn patterned((a, b): (f32, f32), out: &mut Tensor<f32, 1>) {
    out.store(0, a + b);
}

#[kernel]
fn borrowing<'a>(out: &'a mut Tensor<f32, 1>) {
    out.store(0, 1.0);
}

#[kernel(fast)]
fn optioned(out: &mut Tensor<f32, 1>) {
    out.store(0, 1.0);
}

#[kernel]
struct NotAFunction;

fn main() {}
