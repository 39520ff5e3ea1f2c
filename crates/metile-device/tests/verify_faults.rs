//! A planted fault for each rule of the verifier, and programs that keep them all.

use metile_device::verify::{MAX_NESTING, MAX_REGISTERS};
use metile_device::*;
use metile_ir::dtype::DType::{self, *};
use metile_ir::scalar::Scalar;
use metile_ir::span::Span;

const LIMITS: Limits = Limits { shared_bytes: 48 << 10, threads: 1024 };

fn errors(program: Program) -> String {
    match verify(program, &LIMITS) {
        Ok(_) => String::new(),
        Err(errors) => errors.iter().map(|e| format!("{e}\n")).collect(),
    }
}

/// Builds a program of two warps and checks that it is refused with `wanted`.
fn refused(wanted: &str, build: impl FnOnce(&mut Builder)) {
    let mut b = Builder::new("fault", 2);
    b.program.words = vec![
        Word::Pointer { parameter: 0, array: 0, dtype: F32, writable: false },
        Word::Pointer { parameter: 1, array: 0, dtype: F32, writable: true },
        Word::Extent { parameter: 0, axis: 0 },
        Word::GridBarrier,
        Word::ListTable { parameter: 2, array: 0 },
        Word::Report,
    ];
    build(&mut b);
    let program = b.finish();
    let text = program.to_string();
    let found = errors(program);
    if wanted.is_empty() {
        assert!(found.is_empty(), "accused: {found}\n{text}");
    } else {
        assert!(found.contains(wanted), "wanted {wanted:?}, found {found:?}\n{text}");
    }
}

fn accepted(build: impl FnOnce(&mut Builder)) {
    refused("", build);
}

fn load(width: u8, immediates: &[i64]) -> Op {
    let immediates = immediates.to_vec();
    Op::Memory(MemoryOp::Load { width, immediates, masked: false, constant: true })
}
fn load_shared(buffer: Shared, width: u8, immediates: &[i64]) -> Op {
    Op::Memory(MemoryOp::LoadShared { buffer, width, immediates: immediates.to_vec() })
}
fn store_shared(buffer: Shared, width: u8, immediates: &[i64]) -> Op {
    let immediates = immediates.to_vec();
    Op::Memory(MemoryOp::StoreShared { buffer, width, immediates, masked: false })
}
fn async_copy(buffer: Shared, bytes: u8) -> Op {
    Op::Copy(CopyOp::Async { buffer, bytes, immediates: vec![0], shared_immediates: vec![0] })
}
fn end_block(b: &mut Builder, values: &[Value]) -> Block {
    b.push(Op::Control(ControlOp::Yield), values, &[]);
    b.end()
}
/// `if condition { inside }`.
fn branch(b: &mut Builder, condition: Value, inside: impl FnOnce(&mut Builder)) {
    b.begin(vec![]);
    inside(b);
    let then = end_block(b, &[]);
    b.begin(vec![]);
    let other = end_block(b, &[]);
    b.push_with(Op::Control(ControlOp::If), vec![condition], vec![], vec![then, other]);
}
fn commit(b: &mut Builder) {
    b.one(Op::Copy(CopyOp::Commit), &[], Type::Token);
}
fn wait(b: &mut Builder) {
    b.push(Op::Copy(CopyOp::Wait { pending: 0 }), &[], &[]);
}
fn lane_below(b: &mut Builder, n: i64) -> Value {
    let lane = b.position(PositionOp::Lane);
    let n = b.int(I32, n);
    b.compare(CompareOp::Lt, lane, n)
}

#[test]
fn header() {
    let mut p = Program::new("2x", 4);
    assert!(errors(p.clone()).contains("no name of a program"));
    p.name = "x".into();
    p.warps = 0;
    assert!(errors(p.clone()).contains("1 to 32 warps, not 0"));
    p.warps = 33;
    assert!(errors(p.clone()).contains("1 to 32 warps, not 33"));
    p.warps = 4;
    let found = verify(p.clone(), &Limits { threads: 64, ..LIMITS }).unwrap_err();
    assert!(found[0].message.contains("has 128 threads, and the device allows 64"));
    assert_eq!(errors(p), "");
    refused("is f32 x 0, and a value has 1 to", |b| {
        b.value(Type::registers(F32, 0));
    });
    refused("1 to 4096 registers", |b| {
        b.value(Type::registers(F32, MAX_REGISTERS + 1));
    });
}

#[test]
fn handles_and_visibility() {
    refused("no value of the program", |b| {
        let mut other = Builder::new("other", 1);
        let v = (0..9).map(|n| other.int(I32, n)).last().unwrap();
        b.push(Op::Position(PositionOp::Lane), &[], &[v]);
    });
    refused("not defined before it", |b| {
        let v = b.value(Type::one(I32));
        b.binary(BinaryOp::Add, v, v);
    });
    refused("defined twice", |b| {
        let v = b.int(I32, 1);
        b.push(Op::Position(PositionOp::Lane), &[], &[v]);
    });
    refused("not visible here", |b| {
        let c = b.constant(Scalar::bool(true));
        let mut inner = None;
        branch(b, c, |b| inner = Some(b.int(I32, 1)));
        b.unary(UnaryOp::Neg, inner.unwrap());
    });
    refused("names no shared buffer", |b| {
        let mut other = Builder::new("other", 1);
        let buffer = other.shared("x", 16, 16);
        let at = b.int(I32, 0);
        b.one(load_shared(buffer, 1, &[0]), &[at], Type::one(F32));
    });
    refused("uses a token", |b| {
        let t = b.one(Op::Copy(CopyOp::Commit), &[], Type::Token);
        b.push(Op::Sync(SyncOp::Barrier), &[t], &[]);
    });
}

#[test]
fn ends_of_blocks() {
    refused("ends no nested block", |b| b.push(Op::Control(ControlOp::Yield), &[], &[]));
    refused("before the end of its block", |b| {
        b.push(Op::Control(ControlOp::Yield), &[], &[]);
        b.barrier();
    });
    refused("has no end", |b| {
        let c = b.constant(Scalar::bool(true));
        let blocks = vec![Block::default(), Block::default()];
        b.push_with(Op::Control(ControlOp::If), vec![c], vec![], blocks);
    });
    refused("must end in `yield`", |b| {
        let c = b.constant(Scalar::bool(true));
        b.begin(vec![]);
        b.barrier();
        let then = b.end();
        b.begin(vec![]);
        let other = end_block(b, &[]);
        b.push_with(Op::Control(ControlOp::If), vec![c], vec![], vec![then, other]);
    });
    refused("must end in `condition`", |b| {
        b.begin(vec![]);
        let first = end_block(b, &[]);
        b.begin(vec![]);
        let second = end_block(b, &[]);
        b.push_with(Op::Control(ControlOp::While), vec![], vec![], vec![first, second]);
    });
    refused("has 1 blocks, not 2", |b| {
        let c = b.constant(Scalar::bool(true));
        b.begin(vec![]);
        let then = end_block(b, &[]);
        b.push_with(Op::Control(ControlOp::If), vec![c], vec![], vec![then]);
    });
    refused("body takes no arguments", |b| {
        let v = b.value(Type::one(I32));
        b.begin(vec![v]);
    });
    refused(&format!("more than {MAX_NESTING} deep"), |b| {
        fn nest(b: &mut Builder, c: Value, left: usize) {
            if left > 0 {
                branch(b, c, |b| nest(b, c, left - 1));
            }
        }
        let c = b.constant(Scalar::bool(true));
        nest(b, c, MAX_NESTING + 1);
    });
}

#[test]
fn positions_and_exchanges() {
    refused("asks for word 9 of 6", |b| {
        b.one(Op::Position(PositionOp::Word(9)), &[], Type::one(I64));
    });
    refused("gives i32, not i64", |b| {
        b.one(Op::Position(PositionOp::Lane), &[], Type::one(I64));
    });
    refused("takes 0 operands, not 1", |b| {
        let v = b.int(I32, 0);
        b.one(Op::Position(PositionOp::Lane), &[v], Type::one(I32));
    });
    refused("differ in 1 to 31, not 32", |b| {
        let v = b.int(I32, 0);
        b.shuffle_xor(v, 32);
    });
    refused("takes i32 as operand 1", |b| {
        let v = b.int(I64, 0);
        b.one(Op::Exchange(ExchangeOp::Index), &[v, v], Type::one(I64));
    });
}

#[test]
fn registers() {
    let op = |op| Op::Register(op);
    refused("is not defined on f16", |b| {
        let a = b.constant(Scalar::zero(F16));
        b.binary(BinaryOp::Add, a, a);
    });
    refused("is not defined on i32", |b| {
        let a = b.int(I32, 0);
        b.unary(UnaryOp::Exp, a);
    });
    refused("is not defined on i32", |b| {
        let a = b.int(I32, 0);
        b.fma(a, a, a);
    });
    refused("takes f32 as operand 1, not i32", |b| {
        let (a, c) = (b.constant(Scalar::f32(1.0)), b.int(I32, 0));
        b.binary(BinaryOp::Add, a, c);
    });
    refused("takes 4 registers or 1 as operand 1, not 2", |b| {
        let (a, c) = (b.ints(I32, &[1, 2, 3, 4]), b.ints(I32, &[1, 2]));
        b.binary(BinaryOp::Add, a, c);
    });
    refused("gives i32 x 2, not i32", |b| {
        let a = b.ints(I32, &[1, 2]);
        b.one(op(RegisterOp::Unary(UnaryOp::Neg)), &[a], Type::one(I32));
    });
    refused("gives bool, not i32", |b| {
        let a = b.int(I32, 1);
        b.one(op(RegisterOp::Compare(CompareOp::Eq)), &[a, a], Type::one(I32));
    });
    refused("is not defined on i32", |b| {
        let a = b.int(I32, 1);
        b.select(a, a, a);
    });
    refused("takes 2 operands, not 1", |b| {
        let a = b.int(I32, 1);
        b.one(op(RegisterOp::Binary(BinaryOp::Add)), &[a], Type::one(I32));
    });
    refused("takes registers as operand 0, not pointer f32", |b| {
        let a = b.position(PositionOp::Word(0));
        b.unary(UnaryOp::Neg, a);
    });
    refused("is not defined on f32", |b| {
        let a = b.constant(Scalar::f32(1.0));
        b.bitcast(a, I64);
    });
    refused("has 2 scalars for 3 registers", |b| {
        let scalars = vec![Scalar::i64(1), Scalar::i64(2)];
        b.one(op(RegisterOp::Constant(scalars)), &[], Type::registers(I64, 3));
    });
    refused("gives f32 with a scalar of i64", |b| {
        b.one(op(RegisterOp::Constant(vec![Scalar::i64(1)])), &[], Type::one(F32));
    });
    refused("picks register 2 of 2", |b| {
        let a = b.ints(I32, &[1, 2]);
        b.pick(a, vec![0, 2]);
    });
    refused("joins i32 with i64", |b| {
        let (a, c) = (b.int(I32, 1), b.int(I64, 1));
        b.one(op(RegisterOp::Join), &[a, c], Type::registers(I32, 2));
    });
    refused("takes at least one operand", |b| {
        b.one(op(RegisterOp::Join), &[], Type::one(I32));
    });
    refused("not u32 x 2 into f16 x 2", |b| {
        let a = b.ints(U32, &[1, 2]);
        b.one(op(RegisterOp::Pack), &[a], Type::registers(F16, 2));
    });
    accepted(|b| {
        let a = b.ints(U32, &[1, 2]);
        let h = b.one(op(RegisterOp::Pack), &[a], Type::registers(F16, 4));
        b.one(op(RegisterOp::Pack), &[h], Type::registers(U32, 2));
        b.one(op(RegisterOp::Constant(vec![Scalar::i64(1)])), &[], Type::registers(I64, 3));
    });
}

#[test]
fn memory() {
    let pointer = |b: &mut Builder| b.position(PositionOp::Word(0));
    refused("takes a pointer as operand 0, not i64", |b| {
        let at = b.int(I64, 0);
        b.one(load(1, &[0]), &[at, at], Type::one(F32));
    });
    refused("accesses 8 elements of f32 at once", |b| {
        let (p, at) = (pointer(b), b.int(I64, 0));
        b.one(load(8, &[0]), &[p, at], Type::registers(F32, 8));
    });
    refused("accesses 3 elements of f32 at once", |b| {
        let (p, at) = (pointer(b), b.int(I64, 0));
        b.one(load(3, &[0]), &[p, at], Type::registers(F32, 3));
    });
    refused("gives f32 x 8, not f32 x 4", |b| {
        let (p, at) = (pointer(b), b.int(I64, 0));
        b.one(load(4, &[0, 4]), &[p, at], Type::registers(F32, 4));
    });
    refused("groups, not 0", |b| {
        let (p, at) = (pointer(b), b.int(I64, 0));
        b.one(load(4, &[]), &[p, at], Type::registers(F32, 4));
    });
    refused("groups of 4 elements at 0 and 6", |b| {
        let (p, at) = (pointer(b), b.int(I64, 0));
        b.one(load(4, &[0, 6]), &[p, at], Type::registers(F32, 8));
    });
    refused("takes i64 or i32 as operand 1, not u32", |b| {
        let (p, at) = (pointer(b), b.int(U32, 0));
        b.one(load(1, &[0]), &[p, at], Type::one(F32));
    });
    refused("only read through", |b| {
        let (p, at, v) = (pointer(b), b.int(I64, 0), b.constant(Scalar::f32(1.0)));
        let op = MemoryOp::Store { width: 1, immediates: vec![0], masked: false };
        b.push(Op::Memory(op), &[p, at, v], &[]);
    });
    refused("takes 4 operands, not 3", |b| {
        let (p, at, v) =
            (b.position(PositionOp::Word(1)), b.int(I64, 0), b.constant(Scalar::f32(1.0)));
        let op = MemoryOp::Store { width: 1, immediates: vec![0], masked: true };
        b.push(Op::Memory(op), &[p, at, v], &[]);
    });
    refused("`atomic_max` is not defined on f32", |b| {
        let (p, at, v) =
            (b.position(PositionOp::Word(1)), b.int(I64, 0), b.constant(Scalar::f32(1.0)));
        let m = b.constant(Scalar::bool(true));
        b.one(Op::Memory(MemoryOp::Atomic(AtomicOp::Max)), &[p, at, m, v], Type::one(F32));
    });
    refused("takes pointer u64 as operand 0", |b| {
        let (p, at) = (pointer(b), b.int(I64, 0));
        let ty = Type::Pointer { dtype: F32, writable: false };
        b.one(Op::Memory(MemoryOp::Entry), &[p, at], ty);
    });
    refused("gives a pointer f32 that is not the same in all threads of the block", |b| {
        let (p, lane) = (b.position(PositionOp::Word(4)), b.position(PositionOp::Lane));
        let at = b.cast(lane, I64);
        let ty = Type::Pointer { dtype: F32, writable: false };
        b.one(Op::Memory(MemoryOp::Entry), &[p, at], ty);
    });
    refused("names message 3", |b| {
        let (p, c, e) =
            (b.position(PositionOp::Word(5)), b.constant(Scalar::bool(true)), b.int(I32, 0));
        b.push(Op::Report(ReportOp::Assert { message: 3 }), &[p, c, e], &[]);
    });
}

#[test]
fn shared_memory() {
    refused("aligned to 12 bytes", |b| {
        b.shared("tile", 64, 12);
    });
    let mut b = Builder::new("big", 1);
    b.shared("small", 1000, 4);
    b.shared("tile", 60_000, 16);
    assert_eq!(
        errors(b.finish()),
        "kernel `big`: a block needs 61008 bytes of shared memory, and the device has 49152; the largest buffer is `tile` with 60000 (a smaller tile, or fewer stages of buffering, needs less)\n"
    );
    refused("accesses 16 bytes at once in `tile`, which is aligned to 4", |b| {
        let tile = b.shared("tile", 64, 4);
        let (at, v) = (b.int(I32, 0), b.ints(I32, &[1, 2, 3, 4]));
        b.push(store_shared(tile, 4, &[0]), &[at, v], &[]);
    });
    refused("accesses bytes 64 to 68 of `tile`, which has 64", |b| {
        let tile = b.shared("tile", 64, 4);
        let (at, v) = (b.int(I32, 15), b.int(I32, 1));
        b.push(store_shared(tile, 1, &[1]), &[at, v], &[]);
    });
    refused("accesses 8 bytes at byte 4 of `tile`, which is not aligned", |b| {
        let tile = b.shared("tile", 64, 16);
        let (at, v) = (b.int(I32, 1), b.ints(I32, &[1, 2]));
        b.push(store_shared(tile, 2, &[0]), &[at, v], &[]);
    });
}

#[test]
fn matrices() {
    refused("takes u32 x 4 as operand 0, not u32 x 2", |b| {
        let (a, c) = (b.ints(U32, &[0, 0]), b.constant(Scalar::f32(0.0)));
        let c = b.spread(c, 4);
        let op = Op::Matrix(MatrixOp::Mma(MmaAtom::F16M16N8K16));
        b.one(op, &[a, a, c], Type::registers(F32, 4));
    });
    refused("takes i32 x 4 as operand 2, not f32 x 4", |b| {
        let (a, w, c) = (b.ints(U32, &[0; 4]), b.ints(U32, &[0; 2]), b.constant(Scalar::f32(0.0)));
        let c = b.spread(c, 4);
        let op = Op::Matrix(MatrixOp::Mma(MmaAtom::I8M16N8K32));
        b.one(op, &[a, w, c], Type::registers(I32, 4));
    });
    refused("loads 1, 2 or 4 matrices, not 3", |b| {
        let tile = b.shared("tile", 64, 16);
        let at = b.int(I32, 0);
        let op = Op::Matrix(MatrixOp::LoadMatrix { buffer: tile, matrices: 3, transposed: false });
        b.one(op, &[at], Type::registers(U32, 3));
    });
    refused("takes 2 × 1 matrices as operand 2, not 1", |b| {
        let zero = b.constant(Scalar::f32(0.0));
        let of = |count| Type::Fragment { dtype: F32, rows: 8, columns: 8, count };
        let fill = || Op::Matrix(MatrixOp::FillFragment);
        let (x, y) = (b.one(fill(), &[zero], of(2)), b.one(fill(), &[zero], of(1)));
        let op = Op::Matrix(MatrixOp::MultiplyFragments { m: 2, n: 1, k: 1 });
        b.one(op, &[x, y, y], of(1));
    });
}

#[test]
fn products_of_warpgroups() {
    let product = |b: &mut Builder, align: u32, columns: u16, registers: u32| {
        b.program.warps = 4;
        let tile = b.shared("tile", 16384, align);
        let lane = b.position(PositionOp::Thread);
        b.push(store_shared(tile, 1, &[0]), &[lane, lane], &[]);
        b.barrier();
        let (zero, c) = (b.int(I32, 0), b.constant(Scalar::f32(0.0)));
        let c = b.spread(c, registers);
        let side = |outer| WgmmaOperand { buffer: tile, outer, sum_inside: true };
        let (left, right) = (side(64), side(64));
        let op = Wgmma {
            dtype: F16,
            row_blocks: 1,
            columns,
            sum: 64,
            a: left,
            b: right,
            in_flight: false,
        };
        let op = Op::Matrix(MatrixOp::Wgmma(op));
        b.one(op, &[zero, zero, c], Type::registers(F32, registers));
    };
    accepted(|b| product(b, 1024, 64, 32));
    refused("aligned to 512, not to 1024", |b| product(b, 512, 64, 32));
    refused("takes f32 x 32 as operand 2, not f32 x 16", |b| product(b, 1024, 64, 16));
    refused("not 64, 60 and 64", |b| product(b, 1024, 60, 30));
    refused("needs 128 rows of an operand that has 64", |b| product(b, 1024, 128, 64));
    refused("whole groups of 4 warps, not 2 warps", |b| {
        product(b, 1024, 64, 32);
        b.program.warps = 2;
    });
}

#[test]
fn control() {
    let for_loop = |b: &mut Builder, low: Value, init: Value, yields: Value| {
        let (index, carried) = (b.value(b.program.ty(low)), b.value(b.program.ty(init)));
        b.begin(vec![index, carried]);
        let block = end_block(b, &[yields]);
        let result = b.value(b.program.ty(init));
        let operands = vec![low, low, low, init];
        b.push_with(
            Op::Control(ControlOp::For { unroll: false }),
            operands,
            vec![result],
            vec![block],
        );
    };
    refused("counts in i64 or i32, not in u32", |b| {
        let low = b.int(U32, 0);
        for_loop(b, low, low, low);
    });
    refused("are yielded as (i64), not (i32)", |b| {
        let (low, init) = (b.int(I64, 0), b.int(I32, 0));
        for_loop(b, low, init, low);
    });
    refused("takes bool as operand 0, not i32", |b| {
        let c = b.int(I32, 0);
        branch(b, c, |_| {});
    });
    accepted(|b| {
        let low = b.int(I64, 0);
        for_loop(b, low, low, low);
    });
}

#[test]
fn barriers_in_divergent_flow() {
    let barrier = |b: &mut Builder| b.barrier();
    refused("`barrier` stands where not all threads of the block come", |b| {
        let c = lane_below(b, 3);
        branch(b, c, barrier);
    });
    refused("`barrier` stands where not all threads of the block come", |b| {
        let (warp, zero) = (b.position(PositionOp::Warp), b.int(I32, 0));
        let c = b.compare(CompareOp::Eq, warp, zero);
        branch(b, c, barrier);
    });
    // All lanes of a warp come.
    accepted(|b| {
        let (warp, zero) = (b.position(PositionOp::Warp), b.int(I32, 0));
        let c = b.compare(CompareOp::Eq, warp, zero);
        branch(b, c, |b| {
            let lane = b.position(PositionOp::Lane);
            b.shuffle_xor(lane, 1);
            b.push(Op::Sync(SyncOp::WarpBarrier), &[], &[]);
        });
    });
    refused("`exchange_xor` stands where not all lanes of the warp come", |b| {
        let c = lane_below(b, 3);
        branch(b, c, |b| {
            let lane = b.position(PositionOp::Lane);
            b.shuffle_xor(lane, 1);
        });
    });
    // The bound is carried through a loop that adds what varies.
    refused("not all threads of the block come", |b| {
        let (zero, n) = (b.int(I32, 0), b.int(I32, 4));
        let one = b.int(I32, 1);
        let lane = b.position(PositionOp::Lane);
        let (index, carried) = (b.value(Type::one(I32)), b.value(Type::one(I32)));
        b.begin(vec![index, carried]);
        let next = b.binary(BinaryOp::Add, carried, lane);
        let block = end_block(b, &[next]);
        let bound = b.value(Type::one(I32));
        let op = || Op::Control(ControlOp::For { unroll: false });
        b.push_with(op(), vec![zero, n, one, zero], vec![bound], vec![block]);
        let index = b.value(Type::one(I32));
        b.begin(vec![index]);
        b.barrier();
        let block = end_block(b, &[]);
        b.push_with(op(), vec![zero, bound, one], vec![], vec![block]);
    });
    // What one lane has is alike in the warp, not in the block.
    refused("not all threads of the block come", |b| {
        let c = one_lanes(b);
        branch(b, c, barrier);
    });
    accepted(|b| {
        b.program.warps = 1;
        let c = one_lanes(b);
        branch(b, c, barrier);
    });
    // Loaded from a place that is alike.
    accepted(|b| {
        let (p, at) = (b.position(PositionOp::Word(0)), b.position(PositionOp::Word(2)));
        let v = b.one(load(1, &[0]), &[p, at], Type::one(F32));
        let c = b.compare(CompareOp::Lt, v, v);
        branch(b, c, barrier);
    });
}

fn one_lanes(b: &mut Builder) -> Value {
    let (lane, zero) = (b.position(PositionOp::Thread), b.int(I32, 0));
    let v = b.one(Op::Exchange(ExchangeOp::Index), &[lane, zero], Type::one(I32));
    b.compare(CompareOp::Eq, v, zero)
}

#[test]
fn a_refusal_names_the_condition() {
    let mut b = Builder::new("k", 1);
    let c = lane_below(&mut b, 3);
    b.span = Some(Span { file: 0, line: 7, column: 2 });
    branch(&mut b, c, |b| {
        b.span = Some(Span { file: 0, line: 8, column: 3 });
        b.barrier();
        b.span = Some(Span { file: 0, line: 7, column: 2 });
    });
    let found = verify(b.finish(), &LIMITS).unwrap_err();
    assert_eq!(found[0].span.map(|s| s.line), Some(8));
    assert_eq!(found[0].related[0].0.line, 7);
}

#[test]
fn waiting_for_other_blocks() {
    let grid = |b: &mut Builder| {
        let p = b.position(PositionOp::Word(3));
        b.push(Op::Sync(SyncOp::GridBarrier), &[p], &[]);
    };
    refused("only in persistent programs", grid);
    accepted(|b| {
        b.program.persistent = true;
        grid(b);
    });
}

#[test]
fn copies() {
    let copy = |b: &mut Builder| {
        let tile = b.shared("tile", 1024, 16);
        let (p, at) = (b.position(PositionOp::Word(0)), b.int(I64, 0));
        let (to, mask) = (b.int(I32, 0), b.constant(Scalar::bool(true)));
        b.push(async_copy(tile, 16), &[p, at, to, mask], &[]);
        tile
    };
    let read = |b: &mut Builder, tile| {
        let lane = b.position(PositionOp::Thread);
        b.one(load_shared(tile, 1, &[0]), &[lane], Type::one(F32));
    };
    refused("begins a copy that is never committed", |b| {
        copy(b);
        wait(b);
    });
    refused("begins a copy that is never waited for", |b| {
        copy(b);
        commit(b);
    });
    refused("before any `copy_wait`", |b| {
        let tile = copy(b);
        commit(b);
        read(b, tile);
        wait(b);
    });
    accepted(|b| {
        let tile = copy(b);
        commit(b);
        wait(b);
        b.barrier();
        read(b, tile);
    });
    refused("4, 8 or 16 bytes of whole elements, not 2", |b| {
        let tile = b.shared("tile", 64, 16);
        let (p, at) = (b.position(PositionOp::Word(0)), b.int(I64, 0));
        let (to, mask) = (b.int(I32, 0), b.constant(Scalar::bool(true)));
        b.push(async_copy(tile, 2), &[p, at, to, mask], &[]);
    });
}

#[test]
fn publication() {
    let store = |b: &mut Builder| {
        let tile = b.shared("tile", 1024, 16);
        let lane = b.position(PositionOp::Thread);
        b.push(store_shared(tile, 1, &[0]), &[lane, lane], &[]);
        tile
    };
    let read = |b: &mut Builder, tile| {
        let at = b.int(I32, 0);
        b.one(load_shared(tile, 1, &[0]), &[at], Type::one(I32));
    };
    refused("before any barrier", |b| {
        let tile = store(b);
        read(b, tile);
    });
    refused("before any barrier", |b| {
        let tile = store(b);
        b.push(Op::Sync(SyncOp::WarpBarrier), &[], &[]);
        read(b, tile);
    });
    accepted(|b| {
        let tile = store(b);
        b.barrier();
        read(b, tile);
    });
    refused("which nothing writes", |b| {
        let tile = b.shared("tile", 1024, 16);
        read(b, tile);
    });
    refused("`load_matrix` reads what other threads wrote", |b| {
        let tile = store(b);
        let at = b.int(I32, 0);
        let op = Op::Matrix(MatrixOp::LoadMatrix { buffer: tile, matrices: 1, transposed: false });
        b.one(op, &[at], Type::one(U32));
    });
}

#[test]
fn errors_are_bounded() {
    let mut b = Builder::new("many", 1);
    for _ in 0..1000 {
        b.one(Op::Position(PositionOp::Lane), &[], Type::one(DType::I64));
    }
    assert_eq!(verify(b.finish(), &LIMITS).unwrap_err().len(), metile_device::verify::MAX_ERRORS);
}
