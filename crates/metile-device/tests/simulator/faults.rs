//! A fault of each kind, found with every seed, and the same program without it, not accused.

use crate::support::Test;
use metile_device::sim::{Failure, Kind, Options};
use metile_device::*;
use metile_ir::dtype::DType::{I32, I64};
use metile_ir::scalar::Scalar;

/// Each thread gives its number to the next; with or without a barrier, of the block or the warp.
fn rotate(warps: u32, sync: Option<SyncOp>) -> Test {
    let mut t = Test::new(warps);
    let threads = i64::from(warps) * 32;
    let out = t.output(I32, threads as usize);
    let tile = t.b.shared("tile", threads as u32 * 4, 4);
    let thread = t.thread();
    t.line(10);
    t.store_shared(tile, thread, thread);
    if let Some(sync) = sync {
        t.sync(sync);
    }
    let (one, mask) = (t.int(1), t.int(threads - 1));
    let next = t.add(thread, one);
    let next = t.b.binary(BinaryOp::And, next, mask);
    t.line(20);
    let v = t.load_shared(tile, next);
    t.line(30);
    t.store(out, thread, v);
    t
}

#[test]
fn shared_memory_read_without_a_barrier() {
    rotate(2, None).done().races(Kind::SharedRace, [10, 20]);
    rotate(2, Some(SyncOp::WarpBarrier)).done().races(Kind::SharedRace, [10, 20]);
    rotate(1, None).done().finds(Kind::SharedRace, 20);
    let expected: Vec<i32> = (0..64).map(|n| (n + 1) % 64).collect();
    rotate(2, Some(SyncOp::Barrier)).done().gives(&expected);
    let expected: Vec<i32> = (0..32).map(|n| (n + 1) % 32).collect();
    rotate(1, Some(SyncOp::WarpBarrier)).done().gives(&expected);
}

#[test]
fn a_race_is_told_with_both_places() {
    let ready = rotate(1, None).done();
    let outcome = ready.run(3).0.unwrap();
    let found = &outcome.findings[0].diagnostic;
    let text = found.render(&ready.program.files);
    assert!(text.starts_with("error: kernel `test`: `load_shared` races: thread "), "{text}");
    assert!(text.contains("of `tile`, which thread "), "{text}");
    assert!(text.contains("in `store_shared`, and no barrier is between"), "{text}");
    assert!(text.contains("--> test.rs:20:1"), "{text}");
    assert!(text.contains("note: `store_shared` is here\n  --> test.rs:10:1"), "{text}");
}

/// A tile that is used a second time before all have read it the first time.
#[test]
fn shared_memory_written_again_too_early() {
    let program = |barrier: bool| {
        let mut t = rotate(2, Some(SyncOp::Barrier));
        let thread = t.thread();
        if barrier {
            t.b.barrier();
        }
        let tile = t.b.program.shared.iter().next().unwrap().0;
        t.line(40);
        t.store_shared(tile, thread, thread);
        t
    };
    program(false).done().races(Kind::SharedRace, [20, 40]);
    let expected: Vec<i32> = (0..64).map(|n| (n + 1) % 64).collect();
    program(true).done().gives(&expected);
}

#[test]
fn shared_memory_written_by_two() {
    let mut t = Test::new(1);
    let tile = t.b.shared("tile", 4, 4);
    let (thread, zero) = (t.thread(), t.int(0));
    t.line(5);
    t.store_shared(tile, zero, thread);
    t.done().finds(Kind::SharedRace, 5);
}

#[test]
fn device_memory_of_a_block_without_a_barrier() {
    let program = |barrier: bool| {
        let mut t = Test::new(2);
        let (scratch, out) = (t.output(I32, 64), t.output(I32, 64));
        let thread = t.thread();
        t.line(1);
        t.store(scratch, thread, thread);
        if barrier {
            t.b.barrier();
        } else {
            // Of shared memory only.
            t.sync(SyncOp::WarpBarrier);
        }
        let last = t.int(63);
        let other = t.b.binary(BinaryOp::Sub, last, thread);
        t.line(2);
        let v = t.load(scratch, other);
        t.store(out, thread, v);
        t
    };
    program(false).done().races(Kind::DeviceRace, [1, 2]);
    program(true).done().gives(&(0..64).rev().collect::<Vec<_>>());
}

#[test]
fn device_memory_of_two_blocks() {
    let mut t = Test::new(1);
    t.blocks = 3;
    let out = t.output(I32, 32);
    let thread = t.thread();
    t.line(4);
    t.store(out, thread, thread);
    let ready = t.done();
    ready.finds(Kind::DeviceRace, 4);
    let text = ready.run(0).0.unwrap().findings[0].diagnostic.to_string();
    assert!(text.ends_with("and nothing orders the blocks"), "{text}");
}

#[test]
fn atomics_do_not_race() {
    let mut t = Test::new(2);
    t.blocks = 5;
    let out = t.output(I32, 1);
    let (zero, one) = (t.int(0), t.int(1));
    let always = t.b.constant(Scalar::bool(true));
    let op = Op::Memory(MemoryOp::Atomic(AtomicOp::Add));
    t.b.one(op, &[out, zero, always, one], Type::one(I32));
    t.done().gives(&[320]);
}

#[test]
fn an_atomic_and_a_plain_read() {
    let mut t = Test::new(1);
    let (count, out) = (t.output(I32, 1), t.output(I32, 32));
    let (zero, one, thread) = (t.int(0), t.int(1), t.thread());
    let always = t.b.constant(Scalar::bool(true));
    let op = Op::Memory(MemoryOp::Atomic(AtomicOp::Add));
    t.b.one(op, &[count, zero, always, one], Type::one(I32));
    t.line(7);
    let v = t.load(count, zero);
    t.store(out, thread, v);
    t.done().finds(Kind::DeviceRace, 7);
}

#[test]
fn out_of_bounds() {
    let mut t = Test::new(1);
    let tile = t.b.shared("tile", 31 * 4, 4);
    let thread = t.thread();
    t.line(3);
    t.store_shared(tile, thread, thread);
    t.done().finds(Kind::SharedBounds, 3);

    let mut t = Test::new(1);
    let x = t.input(&[7; 31]);
    let out = t.output(I32, 32);
    let thread = t.thread();
    t.line(3);
    let v = t.load(x, thread);
    t.store(out, thread, v);
    let ready = t.done();
    ready.finds(Kind::DeviceBounds, 3);
    let text = ready.run(0).0.unwrap().findings[0].diagnostic.to_string();
    assert!(
        text.contains("outside of `t0`: thread 31 of block 0 accesses 4 bytes at byte 124 of 124"),
        "{text}"
    );

    let mut t = Test::new(1);
    let out = t.output(I32, 32);
    let (thread, one) = (t.thread(), t.int(1));
    let before = t.b.binary(BinaryOp::Sub, thread, one);
    t.line(9);
    t.store(out, before, thread);
    t.done().finds(Kind::DeviceBounds, 9);
}

#[test]
fn a_mask_keeps_accesses_in_bounds() {
    let mut t = Test::new(1);
    let x = t.input(&[5; 20]);
    let out = t.output(I32, 20);
    let thread = t.thread();
    let inside = t.less(thread, 20);
    let minus = t.int(-1);
    let op = MemoryOp::Load { width: 1, immediates: vec![0], masked: true, constant: true };
    let v = t.b.one(Op::Memory(op), &[x, thread, inside, minus], Type::one(I32));
    t.store_where(inside, out, thread, v);
    t.done().gives(&[5; 20]);
}

#[test]
fn misaligned() {
    let mut t = Test::new(1);
    let out = t.output(I32, 256);
    let (thread, two, one) = (t.thread(), t.int(4), t.int(1));
    let at = t.b.binary(BinaryOp::Mul, thread, two);
    let at = t.add(at, one);
    let v = t.b.spread(thread, 4);
    let op = MemoryOp::Store { width: 4, immediates: vec![0], masked: false };
    t.line(6);
    t.b.push(Op::Memory(op), &[out, at, v], &[]);
    t.done().finds(Kind::Misaligned, 6);
}

#[test]
fn uninitialized() {
    let program = |first: i64| {
        let mut t = Test::new(1);
        let out = t.output(I32, 32);
        let tile = t.b.shared("tile", 32 * 4, 4);
        let thread = t.thread();
        let early = t.less(thread, first);
        t.store_shared_where(early, tile, thread, thread);
        t.b.barrier();
        t.line(8);
        let v = t.load_shared(tile, thread);
        t.store(out, thread, v);
        t
    };
    program(31).done().finds(Kind::Uninitialized, 8);
    program(32).done().gives(&(0..32).collect::<Vec<_>>());
}

/// What nobody wrote may be read, moved about and put aside; not decide anything.
#[test]
fn uninitialized_and_put_aside() {
    let program = |keep: i64, decide: bool| {
        let mut t = Test::new(1);
        let out = t.output(I32, 32);
        let (tile, again) = (t.b.shared("tile", 32 * 4, 4), t.b.shared("again", 32 * 4, 4));
        let (thread, one) = (t.thread(), t.int(1));
        let early = t.less(thread, 20);
        t.store_shared_where(early, tile, thread, thread);
        t.b.barrier();
        t.line(7);
        let v = t.load_shared(tile, thread);
        // From lane to lane and through shared memory.
        let v = t.b.shuffle_xor(v, 1);
        let v = t.add(v, one);
        t.store_shared(again, thread, v);
        t.b.barrier();
        t.line(8);
        let v = t.load_shared(again, thread);
        let good = t.less(thread, keep);
        let zero = t.int(0);
        let v = t.b.select(good, v, zero);
        t.store(out, thread, v);
        if decide {
            let yes = t.less(v, 5);
            t.when(yes, |t| t.store(out, thread, one));
        }
        t
    };
    let expected: Vec<i32> = (0..32).map(|n| if n < 20 { (n ^ 1) + 1 } else { 0 }).collect();
    program(20, false).done().gives(&expected);
    program(21, false).done().finds(Kind::Uninitialized, 8);
    program(21, true).done().finds(Kind::Uninitialized, 8);
}

#[test]
fn no_tensor_at_all() {
    let mut t = Test::new(1);
    let x = t.input(&[0, 0]);
    let index = t.b.int(I64, 0);
    t.b.program.words[0] = Word::ListTable { parameter: 0, array: 0 };
    t.b.program.values[x].ty = t.b.program.words[0].ty();
    let ty = Type::Pointer { dtype: I32, writable: false };
    let nowhere = t.b.one(Op::Memory(MemoryOp::Entry), &[x, index], ty);
    let thread = t.thread();
    t.line(2);
    t.load(nowhere, thread);
    t.done().finds(Kind::DeviceBounds, 2);
}

/// All threads read one place while a thread writes it: what looks uniform is not.
#[test]
fn a_barrier_that_a_race_makes_divergent() {
    let mut t = Test::new(4);
    let flag = t.output(I32, 1);
    let (zero, one, thread) = (t.int(0), t.int(1), t.thread());
    let me = t.less(thread, 1);
    t.store_where(me, flag, zero, one);
    t.line(3);
    let seen = t.load(flag, zero);
    let raised = t.b.compare(CompareOp::Eq, seen, one);
    t.when(raised, |t| {
        t.line(5);
        t.b.barrier();
    });
    let ready = t.done();
    let mut divergent = 0;
    for seed in 0..32 {
        let found = ready.run(seed).0.unwrap().findings;
        assert!(found.iter().any(|f| f.kind == Kind::DeviceRace), "seed {seed}");
        divergent +=
            usize::from(found.iter().any(|f| {
                f.kind == Kind::Divergent && f.diagnostic.span.map(|s| s.line) == Some(5)
            }));
    }
    assert!(divergent > 0);
}

fn copy_in(wait: bool, barrier: bool) -> Test {
    let mut t = Test::new(2);
    let x = t.input(&(0..64).collect::<Vec<_>>());
    let out = t.output(I32, 64);
    let tile = t.b.shared("tile", 256, 16);
    let thread = t.thread();
    let always = t.b.constant(Scalar::bool(true));
    let op =
        CopyOp::Async { buffer: tile, bytes: 4, immediates: vec![0], shared_immediates: vec![0] };
    t.line(1);
    t.b.push(Op::Copy(op), &[x, thread, thread, always], &[]);
    t.b.one(Op::Copy(CopyOp::Commit), &[], Type::Token);
    t.line(2);
    t.b.push(Op::Copy(CopyOp::Wait { pending: u8::from(!wait) }), &[], &[]);
    if barrier {
        t.b.barrier();
    }
    let last = t.int(63);
    let other = t.b.binary(BinaryOp::Sub, last, thread);
    t.line(4);
    let v = t.load_shared(tile, other);
    t.store(out, thread, v);
    t.line(5);
    t.b.push(Op::Copy(CopyOp::Wait { pending: 0 }), &[], &[]);
    t
}

#[test]
fn copies_not_waited_for() {
    for seed in 0..4 {
        let found = copy_in(false, true).done().run(seed).0.unwrap().findings;
        assert_eq!(
            (found[0].kind, found[0].diagnostic.span.map(|s| s.line)),
            (Kind::NotWaitedFor, Some(4))
        );
    }
    // Waited for by the thread that began it; others need a barrier.
    for seed in 0..4 {
        let found = copy_in(true, false).done().run(seed).0.unwrap().findings;
        assert!(found.iter().any(|f| f.kind == Kind::SharedRace || f.kind == Kind::NotWaitedFor));
    }
    copy_in(true, true).done().gives(&(0..64).rev().collect::<Vec<_>>());
}

/// A copy into a slot that others may still read.
#[test]
fn a_slot_used_again_too_early() {
    let program = |barrier: bool| {
        let mut t = copy_in(true, true);
        let tile = t.b.program.shared.iter().next().unwrap().0;
        let x = t.b.position(PositionOp::Word(0));
        let thread = t.thread();
        let always = t.b.constant(Scalar::bool(true));
        if barrier {
            t.b.barrier();
        }
        let op = CopyOp::Async {
            buffer: tile,
            bytes: 4,
            immediates: vec![0],
            shared_immediates: vec![0],
        };
        t.line(9);
        t.b.push(Op::Copy(op), &[x, thread, thread, always], &[]);
        t.b.one(Op::Copy(CopyOp::Commit), &[], Type::Token);
        t.b.push(Op::Copy(CopyOp::Wait { pending: 0 }), &[], &[]);
        t
    };
    program(false).done().races(Kind::SharedRace, [4, 9]);
    program(true).done().gives(&(0..64).rev().collect::<Vec<_>>());
}

#[test]
fn writes_to_what_is_only_read() {
    let mut t = Test::new(1);
    let x = t.input(&[0; 32]);
    // The launch and the program disagree.
    t.b.program.values[x].ty = Type::Pointer { dtype: I32, writable: true };
    t.b.program.words[0] = Word::Pointer { parameter: 0, array: 0, dtype: I32, writable: true };
    let thread = t.thread();
    t.line(2);
    t.store(x, thread, thread);
    t.done().finds(Kind::ReadOnly, 2);
}

#[test]
fn threads_that_do_not_agree() {
    let program = |op: PositionOp, shift: i64| {
        let mut t = Test::new(2);
        let out = t.output(I32, 2 * 64);
        let (thread, zero, two, one) = (t.thread(), t.int(0), t.int(2), t.int(1));
        let (at, shift, threads) = (t.b.position(op), t.int(shift), t.int(64));
        // The same in every round, or the round's number.
        t.count((zero, two, one), &[], |t, index, _| {
            t.line(3);
            let v = t.b.binary(BinaryOp::Shr, at, shift);
            let v = t.add(v, index);
            let v = t.b.uniform(v);
            let place = t.b.binary(BinaryOp::Mul, index, threads);
            let place = t.add(place, thread);
            t.store(out, place, v);
            vec![]
        });
        t
    };
    program(PositionOp::Lane, 4).done().finds(Kind::Disagreement, 3);
    program(PositionOp::Warp, 0).done().finds(Kind::Disagreement, 3);
    let expected: Vec<i32> = (0..128).map(|n| n / 64).collect();
    program(PositionOp::Thread, 6).done().gives(&expected);
}

#[test]
fn endless_loops_end() {
    let mut t = Test::new(1);
    let yes = t.b.constant(Scalar::bool(true));
    t.b.begin(vec![]);
    t.b.push(Op::Control(ControlOp::Condition), &[yes], &[]);
    let first = t.b.end();
    t.b.begin(vec![]);
    let second = t.yields(&[]);
    t.b.push_with(Op::Control(ControlOp::While), vec![], vec![], vec![first, second]);
    let options = Options { step_limit: 1000, ..Options::default() };
    assert!(matches!(t.done().run_all(&options).0, Err(Failure::StepLimit(1000))));
}

#[test]
fn assertions_are_reported_to_the_host() {
    let mut t = Test::new(1);
    t.blocks = 4;
    t.b.program.messages = vec![
        Message { text: "never".into(), span: None },
        Message { text: "small".into(), span: None },
    ];
    let report = t.output(metile_ir::DType::U64, 3);
    let thread = t.thread();
    let block = t.b.position(PositionOp::Block);
    let two = t.b.int(I64, 2);
    let here = t.b.compare(CompareOp::Ne, block, two);
    let small = t.less(thread, 9);
    let fine = t.b.binary(BinaryOp::Or, here, small);
    t.b.push(Op::Report(ReportOp::Assert { message: 1 }), &[report, fine, thread], &[]);
    let (outcome, buffers) = t.done().run_all(&Options::default());
    assert!(outcome.unwrap().findings.is_empty());
    let words: Vec<u64> =
        buffers[0].chunks(8).map(|c| u64::from_le_bytes(c.try_into().unwrap())).collect();
    assert_eq!(words[..2], [2, 2]);
    assert!((9..32).contains(&words[2]));
}
