use super::{Choices, Limits, arguments, program};
use crate::dtype::{DType, Format};
use crate::interp::{Failure, Interpreter};
use crate::tile::verify::verify;
use crate::tile::{Access, Kernel, OpKind, Type};
use std::collections::BTreeSet;

const BYTES: usize = 4096;

fn seeded(seed: u64) -> (Kernel, super::Inputs) {
    let mut choices = Choices::from_seed(seed, BYTES);
    let kernel = program(&mut choices, &Limits::default());
    let inputs = arguments(&kernel, &mut Choices::from_seed(!seed, 256));
    (kernel, inputs)
}

/// The name of an operation's family. No wildcard: a new operation has to be generated, too.
fn family(kind: &OpKind) -> &'static str {
    match kind {
        OpKind::ProgramId(_) => "program_id",
        OpKind::NumPrograms(_) => "num_programs",
        OpKind::Constant(_) => "constant",
        OpKind::Arange => "arange",
        OpKind::Unary(_) => "unary",
        OpKind::Binary(_) => "binary",
        OpKind::Compare(_) => "compare",
        OpKind::Select => "select",
        OpKind::Fma => "fma",
        OpKind::Cast => "cast",
        OpKind::Bitcast => "bitcast",
        OpKind::Broadcast => "broadcast",
        OpKind::Reshape => "reshape",
        OpKind::Transpose(_) => "transpose",
        OpKind::Slice { .. } => "slice",
        OpKind::Cat { .. } => "cat",
        OpKind::Gather { .. } => "gather",
        OpKind::Reduce { .. } => "reduce",
        OpKind::Scan { .. } => "scan",
        OpKind::Dot { .. } => "dot",
        OpKind::Dim { .. } => "dim",
        OpKind::Narrow { .. } => "narrow",
        OpKind::Pick { .. } => "pick",
        OpKind::ListItem => "item",
        OpKind::Load { masked: false } => "load",
        OpKind::Load { masked: true } => "masked load",
        OpKind::Store { masked: false } => "store",
        OpKind::Store { masked: true } => "masked store",
        OpKind::LoadTile => "load_tile",
        OpKind::StoreTile => "store_tile",
        OpKind::AtomicRmw(_) => "atomic",
        OpKind::AtomicCas => "atomic_cas",
        OpKind::CounterAdd => "counter_add",
        OpKind::CounterWait => "counter_wait",
        OpKind::GridBarrier => "grid_barrier",
        OpKind::Assert { .. } => "assert",
        OpKind::Print { .. } => "print",
        OpKind::For => "for",
        OpKind::While => "while",
        OpKind::If => "if",
        OpKind::Yield => "yield",
        OpKind::Condition => "condition",
        OpKind::Return => "return",
    }
}

/// How many names [`family`] gives.
const FAMILIES: usize = 43;

#[test]
fn every_operation_and_dtype_is_generated() {
    let (mut families, mut names) = (BTreeSet::new(), BTreeSet::new());
    let (mut dtypes, mut formats) = (BTreeSet::new(), BTreeSet::new());
    for seed in 0..2000 {
        let (kernel, _) = seeded(seed);
        for op in kernel.walk(kernel.body) {
            families.insert(family(&kernel.ops[op].kind));
            names.insert(crate::tile::infer::op_name(&kernel.ops[op].kind));
        }
        for (_, value) in kernel.values.iter() {
            match value.ty {
                Type::Tile(t) => drop(dtypes.insert(t.dtype)),
                Type::Tensor(t) | Type::TensorList(t) => drop(formats.insert(t.format)),
            }
        }
    }
    assert_eq!(families.len(), FAMILIES, "{families:?}");
    assert_eq!(dtypes.len(), DType::ALL.len(), "{dtypes:?}");
    let packed = formats.iter().filter(|f| matches!(f, Format::Packed(_))).count();
    assert_eq!(packed, crate::PackedFormat::all().len(), "{formats:?}");
    // Of the names, each unary, binary and comparison is one: 18, 12 and 6, for three families; the
    // masked accesses share a name with the others.
    assert_eq!(names.len(), FAMILIES - 2 - 3 + 18 + 12 + 6, "{names:?}");
}

#[test]
fn any_bytes_give_a_program_that_verifies() {
    for seed in 0..3000u64 {
        let length = (seed % 64) as usize * 40;
        let mut choices = Choices::from_seed(seed, length);
        let limits = Limits { people: seed % 3 > 0, inexact: seed % 2 > 0, ..Limits::default() };
        let kernel = program(&mut choices, &limits);
        if let Err(errors) = verify(kernel) {
            panic!("seed {seed}: {}", errors[0]);
        }
    }
}

#[test]
fn no_bytes_give_the_least_program() {
    let kernel = program(&mut Choices::new(&[]), &Limits::default());
    assert!(kernel.walk(kernel.body).len() < 40, "{kernel}");
    verify(kernel).expect("verifies");
}

/// The bits of every buffer are the same in whatever order programs run, and nothing races.
#[test]
fn programs_are_deterministic() {
    let mut ended = 0;
    for seed in 0..400 {
        let (kernel, inputs) = seeded(seed);
        let verified = verify(kernel).expect("verifies");
        let mut results = Vec::new();
        for order_seed in [None, None, Some(seed + 1), Some(seed + 77)] {
            let mut interpreter = Interpreter::default();
            interpreter.options.order_seed = order_seed;
            interpreter.options.warn_division = false;
            interpreter.options.step_limit = Some(2_000_000);
            let mut inputs = inputs.clone();
            let (grid, arguments) = (inputs.grid, inputs.arguments.clone());
            match interpreter.run(&verified, grid, &arguments, &mut inputs.buffers()) {
                Ok(outcome) => {
                    let warning = outcome.warnings.first();
                    assert!(warning.is_none(), "seed {seed}: {warning:?}\n{}", verified.kernel());
                    results.push(inputs.bytes);
                }
                Err(Failure::Assertion(_)) => {}
                Err(other) => panic!("seed {seed}: {other}\n{}", verified.kernel()),
            }
        }
        if results.len() == 4 {
            ended += 1;
            assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "seed {seed}");
        }
    }
    assert!(ended > 300, "only {ended} of 400 programs ran to their end");
}

/// Most programs leave something in memory that was not there.
#[test]
fn programs_do_something() {
    let (mut wrote, mut ran) = (0, 0);
    for seed in 0..200 {
        let (kernel, mut inputs) = seeded(seed);
        let verified = verify(kernel).expect("verifies");
        let before = inputs.bytes.clone();
        let (grid, arguments) = (inputs.grid, inputs.arguments.clone());
        let written = verified.kernel().parameters.iter().any(|&p| {
            matches!(verified.kernel().ty(p), Type::Tensor(t) if t.access == Access::ReadWrite)
        });
        assert!(written);
        if Interpreter::default().run(&verified, grid, &arguments, &mut inputs.buffers()).is_ok() {
            ran += 1;
            wrote += usize::from(before != inputs.bytes);
        }
    }
    assert!(wrote * 10 > ran * 8, "{wrote} of {ran} programs wrote something else than was there");
}
