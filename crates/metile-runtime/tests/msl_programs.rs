//! What emitted Metal source does besides arithmetic, run on the CPU under the header of our own: memory in groups,
//! exchanges, barriers, loops, matrices, atomics, assertions.

mod msl;

use metile_compiler::gpu::metal::{Msl, emit};
use metile_device::*;
use metile_ir::{DType, Scalar};
use metile_runtime::msl_on_cpu::MslError;
use msl::{pointer, run, run_source, verified};

fn word(parameter: u16, dtype: DType, writable: bool) -> Word {
    Word::Pointer { parameter, array: 0, dtype, writable }
}

/// A program of `warps` whose words are pointers to these dtypes, the last of them writable; with the values of the words
/// and the thread's number.
fn begin(name: &str, warps: u32, dtypes: &[DType]) -> (Builder, Vec<Value>, Value) {
    let mut p = Builder::new(name, warps);
    let last = dtypes.len() - 1;
    p.program.words =
        dtypes.iter().enumerate().map(|(n, &dtype)| word(n as u16, dtype, n == last)).collect();
    let words = (0..dtypes.len()).map(|n| p.position(PositionOp::Word(n as u32))).collect();
    let thread = p.position(PositionOp::Thread);
    (p, words, thread)
}

fn load(p: &mut Builder, from: Value, at: Value, dtype: DType, width: u8, groups: u32) -> Value {
    let immediates = vec![0; groups as usize];
    let op = MemoryOp::Load { width, immediates, masked: false, constant: false };
    let ty = Type::registers(dtype, groups * u32::from(width));
    p.one(Op::Memory(op), &[from, at], ty)
}

fn store(p: &mut Builder, to: Value, at: Value, value: Value, width: u8) {
    let groups = p.program.count(value) / u32::from(width);
    let immediates = vec![0; groups as usize];
    p.push(Op::Memory(MemoryOp::Store { width, immediates, masked: false }), &[to, at, value], &[]);
}

/// Every dtype in groups of every width: from memory through shared memory and back, reversed among threads.
#[test]
fn groups_of_every_width() {
    for dtype in DType::ALL {
        let widths: Vec<u8> = [1, 2, 4, 8, 16]
            .into_iter()
            .filter(|&w| usize::from(w) * dtype.bytes() <= 16)
            .collect();
        let (mut p, words, thread) = begin(&format!("groups_{dtype}"), 2, &[dtype, dtype]);
        // Groups of one width after those of another, 64 of each.
        let mut first = 0;
        for &width in &widths {
            let bytes = 64 * u32::from(width) * dtype.bytes() as u32;
            let buffer = p.shared(format!("tile_{width}"), bytes, 16);
            let size = p.int(DType::I32, i64::from(width));
            let own = p.binary(BinaryOp::Mul, thread, size);
            let last = p.int(DType::I32, 63);
            let other = p.binary(BinaryOp::Sub, last, thread);
            let other = p.binary(BinaryOp::Mul, other, size);
            let immediates = vec![first];
            let get = MemoryOp::Load { width, immediates, masked: false, constant: true };
            let ty = Type::registers(dtype, u32::from(width));
            let value = p.one(Op::Memory(get), &[words[0], own], ty);
            let immediates = vec![0];
            let put = MemoryOp::StoreShared { buffer, width, immediates, masked: false };
            p.push(Op::Memory(put), &[own, value], &[]);
            p.barrier();
            let get = MemoryOp::LoadShared { buffer, width, immediates: vec![0] };
            let value = p.one(Op::Memory(get), &[other], ty);
            let yes = p.constant(Scalar::bool(true));
            let put = MemoryOp::Store { width, immediates: vec![first], masked: true };
            p.push(Op::Memory(put), &[words[1], own, yes, value], &[]);
            first += 64 * i64::from(width);
        }
        let bytes = first as usize * dtype.bytes();
        let input: Vec<u8> = match dtype {
            DType::Bool => (0..bytes).map(|n| u8::from(n % 3 == 0)).collect(),
            _ => (0..bytes).map(|n| (n * 37 % 120) as u8).collect(),
        };
        let words: Vec<u128> = input
            .chunks_exact(16)
            .map(|c| u128::from_le_bytes(c.try_into().expect("16 bytes")))
            .collect();
        let out = run(
            p.finish(),
            1,
            || (words.clone(), vec![0u128; words.len()]),
            |(a, b)| vec![pointer(a), pointer(b)],
            |(_, out)| out.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>(),
        )
        .expect("runs");
        let (mut rest, mut want) = (&input[..], Vec::new());
        for &width in &widths {
            let group = usize::from(width) * dtype.bytes();
            let (these, others) = rest.split_at(64 * group);
            want.extend(these.chunks(group).rev().flatten().copied());
            rest = others;
        }
        assert_eq!(out, want, "{dtype}");
    }
}

/// Values of every dtype from the lane given by XOR and by number.
#[test]
fn exchanges() {
    for dtype in DType::ALL {
        let (mut p, words, thread) = begin(&format!("exchange_{dtype}"), 2, &[dtype, dtype]);
        let value = load(&mut p, words[0], thread, dtype, 1, 1);
        let five = p.int(DType::I32, 5);
        let xor = p.shuffle_xor(value, 5);
        let lane = p.position(PositionOp::Lane);
        let next = p.binary(BinaryOp::Add, lane, five);
        let index = p.one(Op::Exchange(ExchangeOp::Index), &[value, next], Type::one(dtype));
        let both = p.join(&[xor, index]);
        let two = p.int(DType::I32, 2);
        let at = p.binary(BinaryOp::Mul, thread, two);
        store(&mut p, words[1], at, both, 2);
        let bytes = dtype.bytes();
        let input: Vec<u8> = match dtype {
            DType::Bool => (0..64).map(|n| u8::from(n % 3 == 0)).collect(),
            _ => (0..64 * bytes).map(|n| (n * 37 % 120) as u8).collect(),
        };
        let out = run(
            p.finish(),
            1,
            || (input.clone(), vec![0u128; 2 * 64 * bytes / 16]),
            |(a, b)| vec![pointer(a), pointer(b)],
            |(_, out)| out.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>(),
        )
        .expect("runs");
        let element = |n: usize| &input[n * bytes..(n + 1) * bytes];
        let want: Vec<u8> = (0..64)
            .flat_map(|n| [element(n ^ 5), element(n / 32 * 32 + (n + 5) % 32)])
            .flatten()
            .copied()
            .collect();
        assert_eq!(out, want, "{dtype}");
    }
}

/// Loops over `i64` and `i32`: empty, ragged, with steps below 1, and up to the last index there is.
#[test]
fn loops() {
    let cases: Vec<[i64; 3]> = vec![
        [0, 10, 3],
        [5, 5, 1],
        [7, -3, 2],
        [-4, 4, 0],
        [0, 3, -7],
        [i64::MAX - 5, i64::MAX, 4],
        [i64::MAX - 1, i64::MAX, i64::MAX],
        [i64::MIN, i64::MIN + 3, 2],
        [i64::MIN, i64::MAX, i64::MAX],
    ];
    let (mut p, words, thread) = begin("loops", 1, &[DType::I64, DType::I64]);
    let three = p.int(DType::I32, 3);
    let at = p.binary(BinaryOp::Mul, thread, three);
    let [low, high, step] = [0, 1, 2].map(|n| {
        let n = p.int(DType::I32, n);
        let at = p.binary(BinaryOp::Add, at, n);
        load(&mut p, words[0], at, DType::I64, 1, 1)
    });
    let zero = p.int(DType::I64, 0);
    let [index, rounds, sum, before] = [(); 4].map(|()| p.value(Type::one(DType::I64)));
    let results = [(); 3].map(|()| p.value(Type::one(DType::I64)));
    p.begin(vec![index, rounds, sum, before]);
    let one = p.int(DType::I64, 1);
    let more = p.binary(BinaryOp::Add, rounds, one);
    let total = p.binary(BinaryOp::Add, sum, index);
    // The value from before goes on as another: all are assigned at once.
    p.push(Op::Control(ControlOp::Yield), &[more, total, sum], &[]);
    let body = p.end();
    let operands = vec![low, high, step, zero, zero, zero];
    p.push_with(
        Op::Control(ControlOp::For { unroll: false }),
        operands,
        results.to_vec(),
        vec![body],
    );
    for (n, result) in results.into_iter().enumerate() {
        let n = p.int(DType::I32, n as i64);
        let at = p.binary(BinaryOp::Add, at, n);
        store(&mut p, words[1], at, result, 1);
    }
    let mut input = vec![0i64; 96];
    for (n, case) in cases.iter().enumerate() {
        input[3 * n..3 * n + 3].copy_from_slice(case);
    }
    let out = run(
        p.finish(),
        1,
        || (input.clone(), vec![0i64; 96]),
        |(a, b)| vec![pointer(a), pointer(b)],
        |(_, out)| out.clone(),
    )
    .expect("runs");
    for (n, &[low, high, step]) in cases.iter().enumerate() {
        let (mut rounds, mut sum, mut before) = (0i64, 0i64, 0i64);
        let mut index = Some(low);
        while let Some(i) = index.filter(|&i| i < high) {
            (rounds, before) = (rounds + 1, sum);
            sum = sum.wrapping_add(i);
            index = i.checked_add(step.max(1));
        }
        assert_eq!(out[3 * n..3 * n + 3], [rounds, sum, before], "{low}..{high} by {step}");
    }
}

/// Collatz: a loop with a condition, a branch with results in it, and carried values that change places.
#[test]
fn while_and_if() {
    let (mut p, words, thread) = begin("collatz", 1, &[DType::I32, DType::I32]);
    let start = load(&mut p, words[0], thread, DType::I32, 1, 1);
    let [zero, one, two, three] = [0, 1, 2, 3].map(|n| p.int(DType::I32, n));
    let int = Type::one(DType::I32);
    let [a, steps, b, c] = [(); 4].map(|()| p.value(int));
    let [now, taken, x, y] = [(); 4].map(|()| p.value(int));
    let results = [(); 4].map(|()| p.value(int));
    p.begin(vec![a, steps, b, c]);
    let more = p.compare(CompareOp::Gt, a, one);
    p.push(Op::Control(ControlOp::Condition), &[more, a, steps, b, c], &[]);
    let before = p.end();
    p.begin(vec![now, taken, x, y]);
    let half = p.binary(BinaryOp::Rem, now, two);
    let even = p.compare(CompareOp::Eq, half, zero);
    p.begin(vec![]);
    let down = p.binary(BinaryOp::Div, now, two);
    p.push(Op::Control(ControlOp::Yield), &[down], &[]);
    let then = p.end();
    p.begin(vec![]);
    let up = p.binary(BinaryOp::Mul, now, three);
    let up = p.binary(BinaryOp::Add, up, one);
    p.push(Op::Control(ControlOp::Yield), &[up], &[]);
    let otherwise = p.end();
    let next = p.value(int);
    p.push_with(Op::Control(ControlOp::If), vec![even], vec![next], vec![then, otherwise]);
    let count = p.binary(BinaryOp::Add, taken, one);
    p.push(Op::Control(ControlOp::Yield), &[next, count, y, x], &[]);
    let body = p.end();
    p.push_with(
        Op::Control(ControlOp::While),
        vec![start, zero, one, two],
        results.to_vec(),
        vec![before, body],
    );
    let all = p.join(&results[1..]);
    let at = p.binary(BinaryOp::Mul, thread, three);
    let at: Vec<Value> = (0..3)
        .map(|n| {
            let n = p.int(DType::I32, n);
            p.binary(BinaryOp::Add, at, n)
        })
        .collect();
    let at = p.join(&at);
    store(&mut p, words[1], at, all, 1);
    let out = run(
        p.finish(),
        1,
        || ((0..32).collect::<Vec<i32>>(), vec![0i32; 96]),
        |(a, b)| vec![pointer(a), pointer(b)],
        |(_, out)| out.clone(),
    )
    .expect("runs");
    for start in 0..32 {
        let (mut a, mut steps, mut pair) = (start, 0, [1, 2]);
        while a > 1 {
            a = if a % 2 == 0 { a / 2 } else { 3 * a + 1 };
            (steps, pair) = (steps + 1, [pair[1], pair[0]]);
        }
        assert_eq!(out[3 * start as usize..][..3], [steps, pair[0], pair[1]], "{start}");
    }
}

/// `c + a · b` by 8×8 matrices, with `b` given as rows or as columns. Which lane holds what changes with the seed.
#[test]
fn matrices() {
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for transposed in [false, true] {
            let (mut p, words, thread) =
                begin(&format!("matrices_{dtype}_{transposed}"), 1, &[dtype, dtype, DType::F32]);
            let bytes = dtype.bytes() as u32;
            let a = p.shared("a", 2 * 64 * bytes, 16);
            let b = p.shared("b", 2 * 64 * bytes, 16);
            let c = p.shared("c", 4 * 64 * 4, 16);
            // 4 elements a thread of each.
            let four = p.int(DType::I32, 4);
            let at = p.binary(BinaryOp::Mul, thread, four);
            for (word, buffer) in [(words[0], a), (words[1], b)] {
                let value = load(&mut p, word, at, dtype, 4, 1);
                let put =
                    MemoryOp::StoreShared { buffer, width: 4, immediates: vec![0], masked: false };
                p.push(Op::Memory(put), &[at, value], &[]);
            }
            p.push(Op::Sync(SyncOp::WarpBarrier), &[], &[]);
            let fragment = |dtype, count| Type::Fragment { dtype, rows: 8, columns: 8, count };
            let zero = p.int(DType::I32, 0);
            let get = |buffer, stride, transposed, immediates| {
                Op::Matrix(MatrixOp::LoadFragment { buffer, stride, transposed, immediates })
            };
            // `a` is 16×8: two matrices; `b` is 8×16, or 16×8 if it is transposed.
            let left = p.one(get(a, 8, false, vec![0, 64]), &[zero], fragment(dtype, 2));
            let (stride, second) = if transposed { (8, 64) } else { (16, 8) };
            let right =
                p.one(get(b, stride, transposed, vec![0, second]), &[zero], fragment(dtype, 2));
            let half = p.constant(Scalar::f32(0.5));
            let sum = p.one(Op::Matrix(MatrixOp::FillFragment), &[half], fragment(DType::F32, 4));
            let multiply = Op::Matrix(MatrixOp::MultiplyFragments { m: 2, n: 2, k: 1 });
            let sum = p.one(multiply, &[left, right, sum], fragment(DType::F32, 4));
            let put =
                MatrixOp::StoreFragment { buffer: c, stride: 16, immediates: vec![0, 8, 128, 136] };
            p.push(Op::Matrix(put), &[sum, zero], &[]);
            p.push(Op::Sync(SyncOp::WarpBarrier), &[], &[]);
            let eight = p.int(DType::I32, 8);
            let at = p.binary(BinaryOp::Mul, thread, eight);
            let get = MemoryOp::LoadShared { buffer: c, width: 4, immediates: vec![0, 4] };
            let value = p.one(Op::Memory(get), &[at], Type::registers(DType::F32, 8));
            let put = MemoryOp::Store { width: 4, immediates: vec![0, 4], masked: false };
            p.push(Op::Memory(put), &[words[2], at, value], &[]);
            let numbers =
                |by: usize| -> Vec<f32> { (0..128).map(|n| (n * by % 13) as f32 - 6.0).collect() };
            let (left, right) = (numbers(5), numbers(7));
            let memory = |numbers: &[f32]| -> Vec<u128> {
                let bits = |&v: &f32| {
                    metile_ir::arith::cast(Scalar::f32(v), dtype).bits().to_le_bytes()
                        [..dtype.bytes()]
                        .to_vec()
                };
                let bytes: Vec<u8> = numbers.iter().flat_map(bits).collect();
                bytes
                    .chunks_exact(16)
                    .map(|c| u128::from_le_bytes(c.try_into().expect("16")))
                    .collect()
            };
            let out = run(
                p.finish(),
                1,
                || (memory(&left), memory(&right), vec![0u128; 64]),
                |(a, b, c)| vec![pointer(a), pointer(b), pointer(c)],
                |(_, _, out)| -> Vec<f32> {
                    out.iter()
                        .flat_map(|w| w.to_le_bytes())
                        .collect::<Vec<u8>>()
                        .chunks(4)
                        .map(|c| f32::from_le_bytes(c.try_into().expect("4")))
                        .collect()
                },
            )
            .expect("runs");
            for row in 0..16 {
                for column in 0..16 {
                    let b = |k: usize| {
                        if transposed { right[column * 8 + k] } else { right[k * 16 + column] }
                    };
                    let want: f32 = 0.5 + (0..8).map(|k| left[row * 8 + k] * b(k)).sum::<f32>();
                    assert_eq!(out[row * 16 + column], want, "{dtype} {transposed} {row} {column}");
                }
            }
        }
    }
}

/// Atomic operations on one element by all threads of all blocks.
#[test]
fn atomics() {
    let (mut p, words, thread) = begin("atomics", 2, &[DType::I32, DType::F32, DType::U32]);
    p.program.words = p
        .program
        .words
        .iter()
        .map(|w| match *w {
            Word::Pointer { parameter, array, dtype, .. } => {
                Word::Pointer { parameter, array, dtype, writable: true }
            }
            other => other,
        })
        .collect();
    let [ints, floats, uints] = words[..] else { panic!("three words") };
    for (value, dtype) in [(ints, DType::I32), (floats, DType::F32), (uints, DType::U32)] {
        p.program.values[value].ty = Type::Pointer { dtype, writable: true };
    }
    let block = p.position(PositionOp::Block);
    let block = p.cast(block, DType::I32);
    let sixty_four = p.int(DType::I32, 64);
    let number = p.binary(BinaryOp::Mul, block, sixty_four);
    let number = p.binary(BinaryOp::Add, number, thread);
    let limit = p.int(DType::I32, 100);
    let mask = p.compare(CompareOp::Lt, number, limit);
    let as_float = p.cast(number, DType::F32);
    let as_uint = p.cast(number, DType::U32);
    for (n, op) in [AtomicOp::Add, AtomicOp::Max, AtomicOp::Min].into_iter().enumerate() {
        let at = p.int(DType::I64, n as i64);
        p.one(Op::Memory(MemoryOp::Atomic(op)), &[ints, at, mask, number], Type::one(DType::I32));
    }
    let zero = p.int(DType::I64, 0);
    p.one(
        Op::Memory(MemoryOp::Atomic(AtomicOp::Add)),
        &[floats, zero, mask, as_float],
        Type::one(DType::F32),
    );
    // Each thread takes the old value's place; one finds the first and all others what another put there.
    let old = p.one(
        Op::Memory(MemoryOp::Atomic(AtomicOp::Exchange)),
        &[uints, zero, mask, as_uint],
        Type::one(DType::U32),
    );
    let one = p.int(DType::I64, 1);
    p.one(
        Op::Memory(MemoryOp::Atomic(AtomicOp::Add)),
        &[uints, one, mask, old],
        Type::one(DType::U32),
    );
    // Only one of those that expect 7 finds it.
    let two = p.int(DType::I64, 2);
    let three = p.int(DType::I64, 3);
    let expected = p.int(DType::U32, 7);
    let other = p.int(DType::U32, 8);
    let found = p.one(
        Op::Memory(MemoryOp::AtomicCas),
        &[uints, two, mask, expected, other],
        Type::one(DType::U32),
    );
    let won = p.compare(CompareOp::Eq, found, expected);
    let won = p.cast(won, DType::U32);
    p.one(
        Op::Memory(MemoryOp::Atomic(AtomicOp::Add)),
        &[uints, three, mask, won],
        Type::one(DType::U32),
    );
    let out = run(
        p.finish(),
        2,
        || (vec![0i32, -5, 5], vec![0.25f32], vec![1000u32, 0, 7, 0]),
        |(a, b, c)| vec![pointer(a), pointer(b), pointer(c)],
        // Who comes last at the exchange is open: the sum of what was found and what is left is not.
        |(ints, floats, uints)| {
            (ints.clone(), floats.clone(), uints[0] + uints[1], uints[2], uints[3])
        },
    )
    .expect("runs");
    assert_eq!(out, (vec![4950, 99, 0], vec![4950.25], 1000 + 4950, 8, 1));
}

/// The first to find a false register reports; who that is depends on the order, but it is one, and whole.
#[test]
fn assertions() {
    let mut p = Builder::new("assertions", 2);
    p.program.words = vec![Word::Report];
    p.program.messages = vec![
        Message { text: "never".to_owned(), span: None },
        Message { text: "thread 40 and up".to_owned(), span: None },
    ];
    let report = p.position(PositionOp::Word(0));
    let thread = p.position(PositionOp::Thread);
    let limit = p.int(DType::I32, 40);
    let small = p.compare(CompareOp::Lt, thread, limit);
    let yes = p.constant(Scalar::bool(true));
    let both = p.join(&[yes, small]);
    let numbers = p.join(&[limit, thread]);
    p.push(Op::Report(ReportOp::Assert { message: 0 }), &[report, yes, thread], &[]);
    p.push(Op::Report(ReportOp::Assert { message: 1 }), &[report, both, numbers], &[]);
    run(
        p.finish(),
        3,
        || vec![0u64; 3],
        |report| vec![pointer(report)],
        |report| {
            assert!(report[0] == 2 && report[1] < 3 && (40..64).contains(&report[2]), "{report:?}");
        },
    )
    .expect("runs");
}

/// A list of tensors is a table of their addresses.
#[test]
fn lists() {
    let mut p = Builder::new("lists", 1);
    p.program.words = vec![
        Word::ListTable { parameter: 0, array: 0 },
        Word::ListLength { parameter: 0 },
        word(1, DType::F32, true),
        Word::Scalar { parameter: 2, dtype: DType::BF16 },
    ];
    let [table, length, out, factor] = [0, 1, 2, 3].map(|n| p.position(PositionOp::Word(n)));
    let thread = p.position(PositionOp::Thread);
    let factor = p.cast(factor, DType::F32);
    let [zero, one] = [0, 1].map(|n| p.int(DType::I64, n));
    let start = p.constant(Scalar::f32(0.0));
    let index = p.value(Type::one(DType::I64));
    let [sum, total] = [(); 2].map(|()| p.value(Type::one(DType::F32)));
    p.begin(vec![index, sum]);
    let ty = Type::Pointer { dtype: DType::F32, writable: false };
    let tensor = p.one(Op::Memory(MemoryOp::Entry), &[table, index], ty);
    let value = load(&mut p, tensor, thread, DType::F32, 1, 1);
    let more = p.binary(BinaryOp::Add, sum, value);
    p.push(Op::Control(ControlOp::Yield), &[more], &[]);
    let body = p.end();
    p.push_with(
        Op::Control(ControlOp::For { unroll: false }),
        vec![zero, length, one, start],
        vec![total],
        vec![body],
    );
    let total = p.binary(BinaryOp::Mul, total, factor);
    store(&mut p, out, thread, total, 1);
    let out = run(
        p.finish(),
        1,
        || {
            (
                vec![vec![1.0f32; 32], (0..32).map(|n| n as f32).collect(), vec![0.5; 32]],
                vec![0u64; 3],
                vec![0f32; 32],
            )
        },
        |(tensors, table, out)| {
            for (entry, tensor) in table.iter_mut().zip(tensors) {
                *entry = pointer(tensor);
            }
            vec![pointer(table), 3, pointer(out), u64::from(half::bf16::from_f32(-2.0).to_bits())]
        },
        |(_, _, out)| out.clone(),
    )
    .expect("runs");
    let want: Vec<f32> = (0..32).map(|n| (1.5 + n as f32) * -2.0).collect();
    assert_eq!(out, want);
}

/// A kernel of two SIMD groups with this body, which gets `out`, `lane` and `warp`.
fn source(name: &str, body: &str) -> Msl {
    let source = format!(
        "#include <metal_stdlib>\nusing namespace metal;\nstruct Arguments {{ long blocks; }};\n\
         [[kernel, max_total_threads_per_threadgroup(64)]] void {name}(\n\
         constant Arguments& arguments [[buffer(0)]], device int* out [[buffer(1)]],\n\
         threadgroup uchar* shared [[threadgroup(0)]],\n\
         uint3 position [[threadgroup_position_in_grid]], uint3 groups [[threadgroups_per_grid]],\n\
         uint lane [[thread_index_in_simdgroup]], uint warp [[simdgroup_index_in_threadgroup]]) {{\n{body}\n}}\n"
    );
    Msl {
        source,
        entry: name.to_owned(),
        threads: 64,
        shared_bytes: 256,
        arguments: Vec::new(),
        buffers: vec![0],
        language: (3, 0),
    }
}

fn run_body(name: &str, body: &str) -> Result<Vec<i32>, MslError> {
    run_source(source(name, body), 1, || vec![0i32; 64], |out| vec![pointer(out)], Vec::clone)
}

/// What only some threads reach and all should; what is undefined; what is beyond the end: each is found.
#[test]
fn faults_are_found() {
    let barrier = "threadgroup_barrier(mem_flags::mem_threadgroup);";
    let faults = [
        ("some_at_a_barrier", format!("if (lane < 5) {barrier}"), "divergent"),
        (
            "at_two_barriers",
            format!("if (warp == 0) {{ out[0] = 1; {barrier} }} else {{ {barrier} out[1] = 2; }}"),
            "divergent",
        ),
        ("some_lanes", "if (lane < 5) out[0] = simd_shuffle_xor(1, 1);".to_owned(), "divergent"),
        ("overflow", "out[lane] = 2147483647 + int(lane);".to_owned(), "undefined"),
        ("wide_shift", "out[lane] = 1 << lane << 1;".to_owned(), "undefined"),
        ("wide_cast", "out[lane] = int(float(lane) * 1e9f);".to_owned(), "undefined"),
        ("index", "int a[4] = {1, 2, 3, 4}; out[lane] = a[lane];".to_owned(), "undefined"),
        (
            "misaligned",
            "const int4 v = *(device const int4*)(out + lane); out[lane] = v[0];".to_owned(),
            "undefined",
        ),
        ("beyond_the_end", "shared[256 + lane] = 1;".to_owned(), "beyond the end"),
    ];
    for (name, body, text) in faults {
        match run_body(name, &body) {
            Err(MslError::Run { message, .. }) => {
                assert!(message.contains(text), "{name}: {message}")
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

/// A missing barrier shows as results that depend on the seed.
#[test]
fn a_missing_barrier_shows() {
    let body = |barrier: &str| {
        format!(
            "const int n = int(warp * 32 + lane);\nthreadgroup int* tile = (threadgroup int*)shared;\ntile[n] = n;\n\
             {barrier}\nout[n] = tile[63 - n];"
        )
    };
    let good = run_body("with_barrier", &body("threadgroup_barrier(mem_flags::mem_threadgroup);"));
    assert_eq!(good.expect("runs"), (0..64).rev().collect::<Vec<i32>>());
    let bad = std::panic::catch_unwind(|| run_body("without_barrier", &body("")));
    assert!(bad.is_err(), "{bad:?}");
}

/// Pointers into the wrong address space, and types that Metal has not, are refused.
#[test]
fn what_metal_refuses_is_refused() {
    for (name, body, text) in [
        ("spaces", "threadgroup int* p = out;", "threadgroup"),
        ("to_thread", "thread int* p = out;", "int"),
        ("half_to_float", "const float x = undefined_function(1.0f);", "undefined_function"),
    ] {
        match run_body(name, body) {
            Err(MslError::Refused { report, .. }) => {
                assert!(report.contains(text), "{name}: {report}")
            }
            other => panic!("{name}: {other:?}"),
        }
    }
    let double = run_body("doubles", "double x = 1.0; out[0] = int(x);");
    assert!(matches!(double, Err(MslError::Forbidden { .. })), "{double:?}");
}

/// A program that is refused, and what the error says.
fn refused(text: &str, build: impl Fn(&mut Builder)) {
    let mut p = Builder::new("refused", 4);
    p.program.persistent = true;
    build(&mut p);
    let limits = Limits { shared_bytes: 1 << 20, threads: 1024 };
    let program = verify(p.finish(), &limits).expect("verified");
    let error = emit(&program).expect_err(text).to_string();
    assert!(error.contains(text), "{error}");
}

/// More buffers, more shared memory, and what is not Metal's are errors that say what and how much.
#[test]
fn limits() {
    refused("needs 32 buffers", |p| {
        p.program.words = (0..31).map(|n| word(n, DType::F32, true)).collect();
        let values: Vec<Value> = (0..31).map(|n| p.position(PositionOp::Word(n))).collect();
        let (zero, one) = (p.int(DType::I64, 0), p.constant(Scalar::f32(1.0)));
        for value in values {
            store(p, value, zero, one, 1);
        }
    });
    refused("32880 bytes of threadgroup memory, 32768 of them for `tile`; Metal has 32768", |p| {
        p.shared("small", 100, 16);
        p.shared("tile", 32 << 10, 16);
    });
    let counters = |p: &mut Builder| {
        p.program.words = vec![Word::GridBarrier];
        p.position(PositionOp::Word(0))
    };
    refused("grid barrier", |p| {
        let counters = counters(p);
        p.push(Op::Sync(SyncOp::GridBarrier), &[counters], &[]);
    });
    refused("counter between programs", |p| {
        let counters = counters(p);
        let (zero, one) = (p.int(DType::I64, 0), p.int(DType::U32, 1));
        let yes = p.constant(Scalar::bool(true));
        p.push(Op::Sync(SyncOp::CounterAdd), &[counters, zero, yes, one], &[]);
    });
    refused("asynchronous copy", |p| {
        let token = p.value(Type::Token);
        p.push(Op::Copy(CopyOp::Commit), &[], &[token]);
        p.push(Op::Copy(CopyOp::Wait { pending: 0 }), &[], &[]);
    });
    refused("NVIDIA", |p| {
        let a = p.ints(DType::U32, &[0; 4]);
        let b = p.ints(DType::U32, &[0; 2]);
        let c = p.constant(Scalar::f32(0.0));
        let c = p.spread(c, 4);
        let mma = Op::Matrix(MatrixOp::Mma(MmaAtom::F16M16N8K16));
        p.one(mma, &[a, b, c], Type::registers(DType::F32, 4));
    });
    refused("NVIDIA", |p| p.push(Op::Sync(SyncOp::AsyncFence), &[], &[]));
    refused("atomic addition of i64", |p| {
        p.program.words = vec![word(0, DType::I64, true)];
        let to = p.position(PositionOp::Word(0));
        let (zero, yes) = (p.int(DType::I64, 0), p.constant(Scalar::bool(true)));
        let add = Op::Memory(MemoryOp::Atomic(AtomicOp::Add));
        p.one(add, &[to, zero, yes, zero], Type::one(DType::I64));
    });
}

/// One SIMD group declares no thread maximum, more do.
#[test]
fn thread_maximum() {
    for (warps, declared) in [(1, None), (2, Some(64)), (32, Some(1024))] {
        let (p, ..) = begin("threads", warps, &[DType::F32]);
        let source = emit(&verified(p.finish())).expect("is emitted").source;
        match declared {
            None => assert!(!source.contains("max_total_threads"), "{source}"),
            Some(n) => assert!(source.contains(&format!("max_total_threads_per_threadgroup({n})"))),
        }
    }
}
