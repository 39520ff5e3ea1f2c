//! Persistent programs: blocks that wait for each other.

use crate::support::Test;
use metile_device::sim::{Failure, Kind};
use metile_device::*;
use metile_ir::dtype::DType::{I32, I64, U32};

fn persistent(blocks: u64) -> Test {
    let mut t = Test::new(2);
    t.blocks = blocks;
    t.b.program.persistent = true;
    t
}

fn block(t: &mut Test) -> Value {
    let block = t.b.position(PositionOp::Block);
    t.b.cast(block, I32)
}

/// Each block writes its number, and reads the next one's after a grid barrier.
fn ring(barrier: bool) -> Test {
    let mut t = persistent(5);
    let (count, ring, out) = (t.output(U32, 2), t.output(I32, 5), t.output(I32, 5));
    let (me, thread, five, one) = (block(&mut t), t.thread(), t.int(5), t.int(1));
    let first = t.less(thread, 1);
    t.store_where(first, ring, me, me);
    if barrier {
        t.b.push(Op::Sync(SyncOp::GridBarrier), &[count], &[]);
    } else {
        t.b.barrier();
    }
    let next = t.add(me, one);
    let next = t.b.binary(BinaryOp::Rem, next, five);
    t.line(9);
    let v = t.load(ring, next);
    t.store_where(first, out, me, v);
    t
}

#[test]
fn grid_barriers_order_blocks() {
    ring(true).done().gives(&[1, 2, 3, 4, 0]);
    for seed in 0..8 {
        // Of the two accesses, the later one is reported.
        let found = ring(false).done().run(seed).0.unwrap().findings;
        assert!(!found.is_empty() && found.iter().all(|f| f.kind == Kind::DeviceRace), "{found:?}");
    }
}

#[test]
fn a_grid_barrier_that_a_block_never_reaches() {
    let mut t = persistent(3);
    let count = t.output(U32, 2);
    let me = block(&mut t);
    let early = t.less(me, 2);
    t.when(early, |t| {
        t.line(4);
        t.b.push(Op::Sync(SyncOp::GridBarrier), &[count], &[]);
    });
    let Err(Failure::Deadlock(found)) = t.done().run(1).0 else { panic!("no deadlock") };
    assert_eq!(found.span.map(|s| s.line), Some(4));
    assert!(found.message.contains("`grid_barrier` waits for ever"), "{found}");
    assert!(found.message.contains("of block 2 has ended"), "{found}");
}

/// Block 0 writes and raises a counter; the others wait for it and read.
fn chain(before: bool, after: bool) -> Test {
    let mut t = persistent(3);
    let (counter, data, out) = (t.output(U32, 1), t.output(I32, 64), t.output(I32, 192));
    let (me, thread, threads) = (block(&mut t), t.thread(), t.int(64));
    let (zero, one) = (t.b.int(I64, 0), t.b.int(U32, 1));
    let (first, producer) = (t.less(thread, 1), t.less(me, 1));
    let mine = t.b.binary(BinaryOp::Mul, me, threads);
    let place = t.add(mine, thread);
    t.branch(
        producer,
        &[],
        |t| {
            t.store(data, thread, thread);
            if before {
                t.b.barrier();
            }
            t.line(3);
            t.b.push(Op::Sync(SyncOp::CounterAdd), &[counter, zero, first, one], &[]);
            vec![]
        },
        |t| {
            t.line(4);
            t.b.push(Op::Sync(SyncOp::CounterWait), &[counter, zero, first, one], &[]);
            if after {
                t.b.barrier();
            }
            t.line(5);
            let v = t.load(data, thread);
            t.store(out, place, v);
            vec![]
        },
    );
    t
}

#[test]
fn counters_order_blocks() {
    let expected: Vec<i32> = (0..192).map(|n| if n < 64 { 0 } else { n % 64 }).collect();
    chain(true, true).done().gives(&expected);
    chain(false, true).done().finds(Kind::DeviceRace, 5);
    for seed in 0..8 {
        // The other warp reads without waiting: now and then before block 0 writes.
        let found = chain(true, false).done().run(seed).0.unwrap().findings;
        assert!(!found.is_empty() && found.iter().all(|f| f.kind == Kind::DeviceRace), "{found:?}");
    }
}

#[test]
fn a_counter_that_nobody_raises() {
    let mut t = persistent(2);
    let counter = t.output(U32, 1);
    let thread = t.thread();
    let (zero, one) = (t.b.int(I64, 0), t.b.int(U32, 1));
    let first = t.less(thread, 1);
    t.line(6);
    t.b.push(Op::Sync(SyncOp::CounterWait), &[counter, zero, first, one], &[]);
    t.b.barrier();
    let Err(Failure::Deadlock(found)) = t.done().run(1).0 else { panic!("no deadlock") };
    assert!(found.message.contains("waits for ever"), "{found}");
}

#[test]
fn too_many_blocks() {
    let t = persistent(1 << 20);
    assert!(matches!(t.done().run(0).0, Err(Failure::TooManyBlocks(_))));
}
