//! Random programs become Device IR for every target, with any classes of arguments, or are refused at a line.
//!
//! `METILE_RANDOM_PROGRAMS` sets how many programs; `METILE_RANDOM_SEED` where they start.

use metile_compiler::gpu::{Target, class, lower};
use metile_compiler::{Options, optimize};
use metile_device::{Block, Program, Type};
use metile_ir::random::{Choices, Limits, program};
use metile_ir::tile::verify::verify;

fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")),
        Err(_) => default,
    }
}

/// Every operand was made before, in the same block or one around.
fn check_order(program: &Program, block: &Block, known: &mut Vec<bool>) -> Result<(), String> {
    let mut here = Vec::new();
    for &argument in &block.arguments {
        known[argument.index()] = true;
        here.push(argument);
    }
    for statement in &block.statements {
        for operand in &statement.operands {
            if !known[operand.index()] {
                return Err(format!("{:?} uses {operand:?} before it is made", statement.op));
            }
        }
        for inner in &statement.blocks {
            check_order(program, inner, known)?;
        }
        for &result in &statement.results {
            if let Type::Registers { count: 0, .. } = program.ty(result) {
                return Err(format!("{:?} gives no registers", statement.op));
            }
            known[result.index()] = true;
            here.push(result);
        }
    }
    for value in here {
        known[value.index()] = false;
    }
    Ok(())
}

#[test]
fn random_programs_are_lowered() {
    let first = number("METILE_RANDOM_SEED", 0);
    let mut lowered = 0;
    for seed in first..first + number("METILE_RANDOM_PROGRAMS", 200).min(1000) {
        let mut choices = Choices::from_seed(seed, 3000);
        let kernel = verify(program(&mut choices, &Limits::default())).unwrap();
        let kernel = optimize(kernel, &Options::default()).unwrap().kernel;
        for target in [Target::AMPERE, Target::HOPPER, Target::APPLE] {
            let limits = metile_device::verify::Limits {
                shared_bytes: target.shared_bytes,
                threads: target.threads,
            };
            for classes in [class::general(kernel.kernel()), class::round(kernel.kernel())] {
                match lower(&kernel, &target, &classes) {
                    Ok(program) => {
                        lowered += 1;
                        let mut known = vec![false; program.values.len()];
                        if let Err(error) = check_order(&program, &program.body, &mut known) {
                            panic!("seed {seed}: {error}\n{}", kernel.kernel());
                        }
                        if let Err(errors) = metile_device::verify::verify(program, &limits) {
                            panic!("seed {seed}: {}\n{}", errors[0], kernel.kernel());
                        }
                    }
                    Err(refusal) => assert!(refusal.message.contains("print"), "{refusal}"),
                }
            }
        }
    }
    assert!(lowered > 0);
}

const GEMM: &str = "
kernel @gemm(%a: tensor<bf16, 2>, %b: tensor<bf16, 2>, %out: mut tensor<bf16, 2>) {
  %px = program_id 0 : i64
  %py = program_id 1 : i64
  %side = constant 128 : i64
  %row = mul %py, %side : i64
  %col = mul %px, %side : i64
  %k = dim %a, 1 : i64
  %low = constant 0 : i64
  %step = constant 64 : i64
  %none = constant 0.0 : bf16
  %zero = constant 0.0 : f32[128, 128]
  %sum = for %at = %low to %k step %step (%acc = %zero) -> (f32[128, 128]) {
    %x = load_tile %a[%row, %at], %none : bf16[128, 64]
    %y = load_tile %b[%at, %col], %none : bf16[64, 128]
    %next = dot %x, %y, %acc : f32[128, 128]
    yield %next
  }
  %rounded = cast %sum : bf16[128, 128]
  store_tile %out[%row, %col], %rounded
  return
}
";

#[test]
fn products_of_halves_run_by_warpgroups_behind_copies() {
    let kernel = verify(metile_ir::tile::parse::parse("gemm.tile", GEMM).unwrap()).unwrap();
    let program = lower(&kernel, &Target::HOPPER, &class::round(kernel.kernel())).unwrap();
    let limits = metile_device::verify::Limits { shared_bytes: 227 << 10, threads: 1024 };
    let program = metile_device::verify::verify(program, &limits).unwrap();
    let text = program.program().to_string();
    assert!(text.contains("wgmma") && text.contains("copy_async"), "{text}");
}
