//! What programs compute: positions, exchanges, loops and branches whose lanes part.

use crate::support::Test;
use metile_device::*;
use metile_ir::dtype::DType::{F16, F32, I32, I64, U32};
use metile_ir::scalar::Scalar;

#[test]
fn positions() {
    let mut t = Test::new(2);
    t.blocks = 2;
    let out = t.output(I32, 2 * 64 * 4);
    let (thread, lane, warp) =
        (t.thread(), t.b.position(PositionOp::Lane), t.b.position(PositionOp::Warp));
    let (block, blocks) = (t.b.position(PositionOp::Block), t.b.position(PositionOp::Blocks));
    let (block, blocks) = (t.b.cast(block, I32), t.b.cast(blocks, I32));
    let (threads, four) = (t.int(64), t.int(4));
    let at = t.b.binary(BinaryOp::Mul, block, threads);
    let at = t.add(at, thread);
    let at = t.b.binary(BinaryOp::Mul, at, four);
    let v = t.b.join(&[lane, warp, block, blocks]);
    t.store(out, at, v);
    let mut expected = Vec::new();
    for block in 0..2 {
        for thread in 0..64 {
            expected.extend([thread % 32, thread / 32, block, 2]);
        }
    }
    t.done().gives(&expected);
}

#[test]
fn exchanges() {
    let mut t = Test::new(1);
    let out = t.output(I32, 64);
    let (thread, two, seven) = (t.thread(), t.int(2), t.int(7));
    let v = t.b.join(&[thread, seven]);
    let a = t.b.shuffle_xor(v, 5);
    let from = t.b.binary(BinaryOp::Mul, thread, two);
    let b = t.b.one(Op::Exchange(ExchangeOp::Index), &[thread, from], Type::one(I32));
    let first = t.b.pick(a, vec![0]);
    let both = t.b.join(&[first, b]);
    let at = t.b.binary(BinaryOp::Mul, thread, two);
    t.store(out, at, both);
    let expected: Vec<i32> = (0..32).flat_map(|n| [n ^ 5, 2 * n % 32]).collect();
    t.done().gives(&expected);
}

/// Lanes run a loop as often as their number; those that are done keep what they had.
#[test]
fn loops_of_lanes_that_part() {
    let mut t = Test::new(1);
    let out = t.output(I32, 32);
    let (thread, zero, one) = (t.thread(), t.int(0), t.int(1));
    // The two trade places every round.
    let ends = t.count((zero, thread, one), &[zero, one], |t, index, carried| {
        let sum = t.add(carried[0], index);
        vec![carried[1], sum]
    });
    t.store(out, thread, ends[0]);
    let expected = |rounds: i32| {
        let (mut a, mut b) = (0, 1);
        for index in 0..rounds {
            (a, b) = (b, a + index);
        }
        a
    };
    t.done().gives(&(0..32).map(expected).collect::<Vec<_>>());
}

#[test]
fn branches_of_lanes_that_part() {
    let mut t = Test::new(1);
    let out = t.output(I32, 32);
    let (thread, ten) = (t.thread(), t.int(10));
    let small = t.less(thread, 7);
    let results = t.branch(
        small,
        &[Type::one(I32)],
        |t| vec![t.add(thread, ten)],
        |t| vec![t.b.unary(UnaryOp::Neg, thread)],
    );
    t.store(out, thread, results[0]);
    let expected: Vec<i32> = (0..32).map(|n| if n < 7 { n + 10 } else { -n }).collect();
    t.done().gives(&expected);
}

/// How often a number is halved until it is 0, lane by lane.
#[test]
fn while_loops_of_lanes_that_part() {
    let mut t = Test::new(1);
    let out = t.output(I32, 32);
    let (thread, zero, one) = (t.thread(), t.int(0), t.int(1));
    let values = |t: &mut Test| [t.b.value(Type::one(I32)), t.b.value(Type::one(I32))];
    let [n, rounds] = values(&mut t);
    t.b.begin(vec![n, rounds]);
    let more = t.b.compare(CompareOp::Gt, n, zero);
    t.b.push(Op::Control(ControlOp::Condition), &[more, n, rounds], &[]);
    let first = t.b.end();
    let [n, rounds] = values(&mut t);
    t.b.begin(vec![n, rounds]);
    let half = t.b.binary(BinaryOp::Shr, n, one);
    let next = t.add(rounds, one);
    let second = t.yields(&[half, next]);
    let results = values(&mut t);
    let op = Op::Control(ControlOp::While);
    t.b.push_with(op, vec![thread, zero], results.to_vec(), vec![first, second]);
    t.store(out, thread, results[1]);
    let expected: Vec<i32> = (0..32u32).map(|n| (32 - n.leading_zeros()) as i32).collect();
    t.done().gives(&expected);
}

#[test]
fn loops_end_where_the_index_would_overflow() {
    let mut t = Test::new(1);
    let out = t.output(I32, 1);
    let (low, high, step) = (t.int(i64::from(i32::MAX) - 5), t.int(i64::from(i32::MAX)), t.int(3));
    let (zero, one) = (t.int(0), t.int(1));
    let rounds = t.count((low, high, step), &[zero], |t, _, c| vec![t.add(c[0], one)]);
    // A step of 0 runs as 1.
    let (four, none) = (t.int(4), t.int(0));
    let rounds = t.count((none, four, none), &rounds, |t, _, c| vec![t.add(c[0], one)]);
    let thread = t.thread();
    let first = t.less(thread, 1);
    t.store_where(first, out, zero, rounds[0]);
    t.done().gives(&[6]);
}

#[test]
fn wide_accesses_and_packed_halves() {
    let mut t = Test::new(1);
    let halves: Vec<i32> = (0..32).map(|n| n << 16 | (n + 100)).collect();
    let x = t.input(&halves);
    let out = t.output(I32, 64);
    let (thread, two, four) = (t.thread(), t.int(2), t.int(4));
    // Eight threads read four words each.
    let few = t.less(thread, 8);
    let at = t.b.binary(BinaryOp::Mul, thread, four);
    let zero = t.int(0);
    let op = MemoryOp::Load { width: 4, immediates: vec![0], masked: true, constant: true };
    let v = t.b.one(Op::Memory(op), &[x, at, few, zero], Type::registers(I32, 4));
    let v = t.b.bitcast(v, U32);
    let h = t.b.one(Op::Register(RegisterOp::Pack), &[v], Type::registers(F16, 8));
    // Halves as integers, in order.
    let bits = t.b.bitcast(h, metile_ir::DType::U16);
    let ints = t.b.cast(bits, I32);
    let at = t.b.binary(BinaryOp::Mul, at, two);
    let op = MemoryOp::Store { width: 4, immediates: vec![0, 4], masked: true };
    t.b.push(Op::Memory(op), &[out, at, few, ints], &[]);
    let expected: Vec<i32> = (0..32).flat_map(|n| [n + 100, n]).collect();
    t.done().gives(&expected);
}

/// Bit for bit what the language computes.
#[test]
fn arithmetic_is_the_languages() {
    let cases: [(BinaryOp, i64, i64); 7] = [
        (BinaryOp::Div, 7, 0),
        (BinaryOp::Rem, 7, 0),
        (BinaryOp::Div, i64::from(i32::MIN), -1),
        (BinaryOp::Shl, 1, 40),
        (BinaryOp::Shr, -8, 40),
        (BinaryOp::Mul, 1 << 20, 1 << 13),
        (BinaryOp::Sub, i64::from(i32::MIN), 1),
    ];
    let mut t = Test::new(1);
    let out = t.output(I32, 10);
    let mut expected = Vec::new();
    let mut parts = Vec::new();
    for (op, a, b) in cases {
        let scalar = |v| Scalar::int(I32, i128::from(v));
        let wanted = metile_ir::arith::binary(op, scalar(a), scalar(b)).unwrap();
        expected.push(wanted.bits() as u32 as i32);
        let (a, b) = (t.int(a), t.int(b));
        parts.push(t.b.binary(op, a, b));
    }
    let nan = t.b.constant(Scalar::f32(f32::NAN));
    let one = t.b.constant(Scalar::f32(1.0));
    let max = t.b.binary(BinaryOp::Max, one, nan);
    let exp = t.b.unary(UnaryOp::Exp, one);
    let big = t.b.constant(Scalar::f32(3e9));
    let saturated = t.b.cast(big, I32);
    for (v, wanted) in [(max, f32::NAN), (exp, std::f64::consts::E as f32)] {
        parts.push(t.b.bitcast(v, I32));
        expected.push(wanted.to_bits() as i32);
    }
    parts.push(saturated);
    expected.push(i32::MAX);
    let all = t.b.join(&parts);
    let (thread, zero) = (t.thread(), t.int(0));
    let first = t.less(thread, 1);
    let op = MemoryOp::Store { width: 1, immediates: (0..10).collect(), masked: true };
    t.b.push(Op::Memory(op), &[out, zero, first, all], &[]);
    t.done().gives(&expected);
}

#[test]
fn tables_of_pointers() {
    // The table lies in memory as any other; its entry is the address that the memory gave.
    use metile_device::sim::{self, Launch, Memory, Options};
    let mut b = Builder::new("list", 1);
    b.program.words = vec![
        Word::ListTable { parameter: 0, array: 0 },
        Word::Pointer { parameter: 1, array: 0, dtype: F32, writable: true },
    ];
    let (table, out) = (b.position(PositionOp::Word(0)), b.position(PositionOp::Word(1)));
    let one = b.int(I64, 1);
    let ty = Type::Pointer { dtype: F32, writable: false };
    let x = b.one(Op::Memory(MemoryOp::Entry), &[table, one], ty);
    let lane = b.position(PositionOp::Lane);
    let op = MemoryOp::Load { width: 1, immediates: vec![0], masked: false, constant: true };
    let v = b.one(Op::Memory(op), &[x, lane], Type::one(F32));
    let op = MemoryOp::Store { width: 1, immediates: vec![0], masked: false };
    b.push(Op::Memory(op), &[out, lane, v], &[]);
    let program = verify(b.finish(), &crate::support::LIMITS).unwrap();
    let tensors: Vec<Vec<u8>> = (0..2u8).map(|n| vec![n + 1; 128]).collect();
    let mut result = vec![0; 128];
    let mut memory = Memory::new();
    let entries: Vec<u8> =
        tensors.iter().flat_map(|t| memory.read("list", t).to_le_bytes()).collect();
    let words = [memory.read("table", &entries), memory.write("out", &mut result)];
    let launch = Launch { blocks: 1, words: &words, memory: &mut memory };
    let outcome = sim::run(&program, launch, &Options::default()).unwrap();
    assert!(outcome.findings.is_empty(), "{:?}", outcome.findings);
    assert_eq!(result, [2; 128]);
}
