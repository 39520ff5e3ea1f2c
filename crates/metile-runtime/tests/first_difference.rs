//! The first operation that differs is named, with the element.

use metile_compiler::gpu::Target;
use metile_device::sim::Options;
use metile_ir::arith::cast;
use metile_ir::random::{Choices, Inputs, arguments};
use metile_ir::tile::{Kernel, OpKind, UnaryOp, parse::parse, verify::verify};
use metile_runtime::first_difference::first_difference;
use metile_runtime::simulator::{Simulator, run_program};

fn kernel() -> Kernel {
    parse(
        "k",
        "kernel @k(%x: tensor<f32, 1>, %out: mut tensor<f32, 1>) {
  %i = arange : i64[32]
  %zero = constant 0.0 : f32
  %a = load %x[%i], %zero : f32[32]
  %b = exp %a : f32[32]
  %c = mul %b, %b : f32[32]
  %s = reduce sum %c axis 0 : f32
  store %out[%i], %c
  return
}
",
    )
    .unwrap()
}

/// One program: all programs of this kernel write the same.
fn inputs() -> Inputs {
    let mut inputs = arguments(&kernel(), &mut Choices::from_seed(3, 3000));
    inputs.grid = [1; 3];
    inputs
}

#[test]
fn a_device_that_is_right() {
    let inputs = inputs();
    let simulator = Simulator { target: Target::HOPPER, options: Options::default() };
    let found = first_difference(&kernel(), &inputs, 1e-5, |kernel, grid, arguments, buffers| {
        run_program(&simulator, kernel, grid, arguments, buffers)
    });
    assert_eq!(found.unwrap(), None);
}

#[test]
fn a_device_that_takes_another_function() {
    let inputs = inputs();
    let found = first_difference(&kernel(), &inputs, 1e-5, |kernel, grid, arguments, buffers| {
        // This device computes 2^x for e^x.
        let mut wrong = kernel.kernel().clone();
        for id in wrong.walk(wrong.body) {
            if wrong.ops[id].kind == OpKind::Unary(UnaryOp::Exp) {
                wrong.ops[id].kind = OpKind::Unary(UnaryOp::Exp2);
            }
        }
        let simulator = Simulator { target: Target::APPLE, options: Options::default() };
        run_program(&simulator, &verify(wrong).unwrap(), grid, arguments, buffers)
    });
    let found = found.unwrap().unwrap();
    let kernel = kernel();
    assert_eq!(kernel.ops[found.op].kind, OpKind::Unary(UnaryOp::Exp));
    assert_eq!(found.element.len(), 1);
    let exact = |s| cast(s, metile_ir::DType::F32).as_f32().unwrap();
    // e^x = (2^x)^(1 / ln 2).
    let again = exact(found.got).powf(std::f32::consts::LOG2_E);
    assert!((again / exact(found.wanted) - 1.0).abs() < 1e-4, "{found:?}");
}
