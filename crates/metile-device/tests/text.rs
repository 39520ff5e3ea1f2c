//! The text form.

use metile_device::*;
use metile_ir::dtype::DType::{F16, F32, I32, U32};
use metile_ir::scalar::Scalar;
use metile_ir::span::{SourceFile, Span};

/// A program with an operation of each family.
fn every_family() -> Program {
    let mut b = Builder::new("every family", 4);
    b.program.files = vec![SourceFile::named("kernels/x.rs")];
    b.program.words = vec![
        Word::Pointer { parameter: 0, array: 0, dtype: F32, writable: false },
        Word::Pointer { parameter: 1, array: 0, dtype: F32, writable: true },
        Word::Scalar { parameter: 2, dtype: F32 },
        Word::Report,
    ];
    b.program.messages = vec![Message { text: "all \"small\"".into(), span: None }];
    let tile = b.shared("tile", 4096, 16);
    let other = b.shared("tile", 512, 16);
    b.span = Some(Span { file: 0, line: 3, column: 9 });
    let x = b.position(PositionOp::Word(0));
    let (thread, four) = (b.position(PositionOp::Thread), b.int(I32, 4));
    let at = b.binary(BinaryOp::Mul, thread, four);
    b.program.values[at].name = Some("at".into());
    let load = MemoryOp::Load { width: 4, immediates: vec![0, 512], masked: false, constant: true };
    let v = b.one(Op::Memory(load), &[x, at], Type::registers(F32, 8));
    let store =
        MemoryOp::StoreShared { buffer: tile, width: 4, immediates: vec![0, 512], masked: false };
    b.push(Op::Memory(store), &[at, v], &[]);
    let (off, mask) = (b.int(metile_ir::DType::I64, 0), b.constant(Scalar::bool(true)));
    let copy =
        CopyOp::Async { buffer: other, bytes: 16, immediates: vec![0], shared_immediates: vec![4] };
    b.push(Op::Copy(copy), &[x, off, four, mask], &[]);
    b.one(Op::Copy(CopyOp::Commit), &[], Type::Token);
    b.push(Op::Copy(CopyOp::Wait { pending: 0 }), &[], &[]);
    b.barrier();
    let two = b.pick(v, vec![0, 3]);
    b.shuffle_xor(two, 16);
    let matrix = MatrixOp::LoadMatrix { buffer: tile, matrices: 2, transposed: true };
    let u = b.one(Op::Matrix(matrix), &[at], Type::registers(U32, 2));
    b.one(Op::Register(RegisterOp::Pack), &[u], Type::registers(F16, 4));
    let (index, carried) = (b.value(Type::one(I32)), b.value(Type::one(F32)));
    let scale = b.position(PositionOp::Word(2));
    b.begin(vec![index, carried]);
    let next = b.fma(carried, scale, scale);
    b.push(Op::Control(ControlOp::Yield), &[next], &[]);
    let body = b.end();
    let total = b.value(Type::one(F32));
    let operands = vec![four, four, four, scale];
    b.push_with(Op::Control(ControlOp::For { unroll: true }), operands, vec![total], vec![body]);
    let (report, out) = (b.position(PositionOp::Word(3)), b.position(PositionOp::Word(1)));
    b.push(Op::Report(ReportOp::Assert { message: 0 }), &[report, mask, four], &[]);
    let store = MemoryOp::Store { width: 1, immediates: vec![0], masked: true };
    b.push(Op::Memory(store), &[out, at, mask, total], &[]);
    b.finish()
}

#[test]
fn every_family_is_readable() {
    let expected = r#"program @every_family warps 4
  word 0: pointer 0.0 : pointer f32
  word 1: pointer 1.0 : mut pointer f32
  word 2: scalar 2 : f32
  word 3: report : mut pointer u64
  shared @tile: 4096 bytes, align 16
  shared @tile.1: 512 bytes, align 16
  message 0: "all \"small\""
{
  %0 = word 0 : pointer f32
  %1 = thread : i32
  %2 = constant 4 : i32
  %at = mul %1, %2 : i32
  %3 = load %0[%at + 0, 512] width 4 constant : f32 x 8
  store_shared @tile[%at + 0, 512] width 4, %3
  %4 = constant 0 : i64
  %5 = constant true : bool
  copy_async @tile.1[%2 + 4] from %0[%4 + 0] bytes 16, %5
  %6 = copy_commit : token
  copy_wait pending 0
  barrier
  %7 = pick %3 [0, 3] : f32 x 2
  %8 = exchange_xor %7 16 : f32 x 2
  %9 = load_matrix @tile[%at] matrices 2 transposed : u32 x 2
  %10 = pack %9 : f16 x 4
  %11 = word 2 : f32
  %12 = for %13 = %2 to %2 step %2 unroll (%14 = %11) : f32 {
    %15 = fma %14, %11, %11 : f32
    yield %15
  }
  %16 = word 3 : mut pointer u64
  %17 = word 1 : mut pointer f32
  assert 0, %16, %5, %2
  store %17[%at + 0] width 1 masked, %5, %12
}
"#;
    let program = every_family();
    assert_eq!(program.to_string(), expected);
    assert_eq!(every_family().to_string(), expected);
}

#[test]
fn places_are_printed_on_demand() {
    let text = print::print(&every_family(), print::Options { locations: true });
    assert!(text.starts_with("file 0 \"kernels/x.rs\"\nprogram @every_family"), "{text}");
    assert!(text.contains("%10 = pack %9 : f16 x 4 @0:3:9\n"), "{text}");
}

#[test]
fn malformed_programs_print() {
    let mut other = Builder::new("other", 1);
    let stranger = (0..5).map(|n| other.int(I32, n)).last().unwrap();
    let tile = other.shared("tile", 4, 4);
    let mut b = Builder::new("0", 1);
    let op = MemoryOp::LoadShared { buffer: tile, width: 1, immediates: vec![] };
    b.push(Op::Memory(op), &[stranger, stranger], &[]);
    b.push(Op::Control(ControlOp::For { unroll: false }), &[stranger], &[]);
    let text = b.finish().to_string();
    assert!(text.contains("load_shared @?0[%?4] width 1, %?4"), "{text}");
    assert!(text.contains("for = %?4"), "{text}");
}
