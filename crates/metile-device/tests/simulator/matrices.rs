//! Matrix units, against products computed from what the matrices are.

use metile_device::sim::{self, Launch, Memory, Options};
use metile_device::*;
use metile_ir::arith::cast;
use metile_ir::dtype::DType::{self, *};
use metile_ir::scalar::Scalar;

/// Runs one warp; `output` is the last word.
fn run(b: Builder, inputs: &[Vec<u8>], output: usize, seed: u64) -> Vec<u8> {
    let program = b.finish();
    let text = program.to_string();
    let program =
        verify(program, &crate::support::LIMITS).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    let mut result = vec![0; output];
    let mut memory = Memory::new();
    let mut words: Vec<u64> = inputs.iter().map(|x| memory.read("x", x)).collect();
    words.push(memory.write("out", &mut result));
    let launch = Launch { blocks: 1, words: &words, memory: &mut memory };
    let outcome = sim::run(&program, launch, &Options { seed, ..Options::default() }).unwrap();
    assert!(outcome.findings.is_empty(), "{:#?}\n{text}", outcome.findings);
    result
}

/// Small whole numbers, so that every sum is exact; no two rows or columns alike.
fn element(row: usize, column: usize) -> i64 {
    ((row * 7 + column * 13 + row * column) % 11) as i64 - 5
}

fn matrix(rows: usize, columns: usize) -> Vec<Vec<i64>> {
    (0..rows).map(|r| (0..columns).map(|c| element(r, c)).collect()).collect()
}

fn product(a: &[Vec<i64>], b: &[Vec<i64>]) -> Vec<Vec<i64>> {
    let cell = |row: &Vec<i64>, c: usize| row.iter().zip(b).map(|(x, row)| x * row[c]).sum();
    a.iter().map(|row| (0..b[0].len()).map(|c| cell(row, c)).collect()).collect()
}

fn image(values: &[Vec<i64>], dtype: DType) -> Vec<u8> {
    let scalar =
        |&v: &i64| cast(Scalar::i64(v), dtype).bits().to_le_bytes()[..dtype.bytes()].to_vec();
    values.iter().flatten().flat_map(scalar).collect()
}

fn transposed(values: &[Vec<i64>]) -> Vec<Vec<i64>> {
    (0..values[0].len()).map(|c| values.iter().map(|row| row[c]).collect()).collect()
}

fn pointer(b: &mut Builder, dtype: DType, writable: bool) -> Value {
    let parameter = b.program.words.len() as u16;
    b.program.words.push(Word::Pointer { parameter, array: 0, dtype, writable });
    b.position(PositionOp::Word(u32::from(parameter)))
}

fn load(b: &mut Builder, x: Value, at: Value, count: u32) -> Value {
    let Type::Pointer { dtype, .. } = b.program.ty(x) else { panic!() };
    let immediates = vec![0; count as usize];
    let op = MemoryOp::Load { width: 1, immediates, masked: false, constant: true };
    b.one(Op::Memory(op), &[x, at], Type::registers(dtype, count))
}

fn store(b: &mut Builder, x: Value, at: Value, v: Value) {
    let immediates = vec![0; b.program.count(v) as usize];
    let op = MemoryOp::Store { width: 1, immediates, masked: false };
    b.push(Op::Memory(op), &[x, at, v], &[]);
}

/// `lane / 4`, `lane % 4`.
fn group(b: &mut Builder) -> (Value, Value) {
    let (lane, two, three) = (b.position(PositionOp::Lane), b.int(I32, 2), b.int(I32, 3));
    (b.binary(BinaryOp::Shr, lane, two), b.binary(BinaryOp::And, lane, three))
}

/// `row * width + column`, for registers whose rows and columns are moved by the numbers given.
fn places(
    b: &mut Builder,
    (row, column): (Value, Value),
    width: i64,
    moves: &[(i64, i64)],
) -> Value {
    let w = b.int(I32, width);
    let at = b.binary(BinaryOp::Mul, row, w);
    let at = b.binary(BinaryOp::Add, at, column);
    let moves: Vec<i64> = moves.iter().map(|(r, c)| r * width + c).collect();
    let moves = b.ints(I32, &moves);
    b.binary(BinaryOp::Add, at, moves)
}

/// The fragments that the PTX ISA draws for m16n8, row-major `a` and column-major `b`, written out per atom: rows and columns
/// of `a`'s four registers and rows of `b`'s two, in 32-bit words.
fn multiply(atom: MmaAtom, dtype: DType, k: usize, per_word: usize) {
    let (a, w) = (matrix(16, k), matrix(k, 8));
    let words = (k / per_word) as i64;
    let mut b = Builder::new("mma", 1);
    // Words of 32 bits; `b` transposed, so that a column is a row of words.
    let (x, y) = (pointer(&mut b, U32, false), pointer(&mut b, U32, false));
    let sums = if dtype == I8 { I32 } else { F32 };
    let out = pointer(&mut b, sums, true);
    let (group, inner) = group(&mut b);
    let at = places(&mut b, (group, inner), words, &[(0, 0), (8, 0), (0, 4), (8, 4)]);
    let left = load(&mut b, x, at, 4);
    let at = places(&mut b, (group, inner), words, &[(0, 0), (0, 4)]);
    let right = load(&mut b, y, at, 2);
    let start = b.constant(cast(Scalar::i64(3), sums));
    let start = b.spread(start, 4);
    let op = Op::Matrix(MatrixOp::Mma(atom));
    let c = b.one(op, &[left, right, start], Type::registers(sums, 4));
    let two = b.int(I32, 2);
    let column = b.binary(BinaryOp::Mul, inner, two);
    let at = places(&mut b, (group, column), 8, &[(0, 0), (0, 1), (8, 0), (8, 1)]);
    store(&mut b, out, at, c);
    let inputs = [image(&a, dtype), image(&transposed(&w), dtype)];
    let mut expected = product(&a, &w);
    expected.iter_mut().flatten().for_each(|v| *v += 3);
    assert_eq!(run(b, &inputs, 16 * 8 * 4, 1), image(&expected, sums), "{atom:?}");
}

#[test]
fn products_of_every_atom() {
    multiply(MmaAtom::F16M16N8K16, F16, 16, 2);
    multiply(MmaAtom::Bf16M16N8K16, BF16, 16, 2);
    multiply(MmaAtom::Tf32M16N8K8, F32, 8, 1);
    multiply(MmaAtom::I8M16N8K32, I8, 32, 4);
}

#[test]
fn tf32_rounds_what_does_not_fit() {
    // 1 + 2^-11 lies between 1 and 1 + 2^-10: away from zero. A little less rounds down.
    for (value, rounded) in [
        (1.0 + f32::powi(2.0, -11), 1.0 + f32::powi(2.0, -10)),
        (1.0 + f32::powi(2.0, -11) - f32::powi(2.0, -20), 1.0),
        (-1.0 - f32::powi(2.0, -11), -1.0 - f32::powi(2.0, -10)),
    ] {
        let mut b = Builder::new("mma", 1);
        let out = pointer(&mut b, F32, true);
        let lane = b.position(PositionOp::Lane);
        let zero = b.int(I32, 0);
        let first = b.compare(CompareOp::Eq, lane, zero);
        let (v, one, none) = (
            b.constant(Scalar::f32(value)),
            b.constant(Scalar::f32(1.0)),
            b.constant(Scalar::f32(0.0)),
        );
        // Only element (0, 0) of both.
        let (x, y) = (b.select(first, v, none), b.select(first, one, none));
        let rest = b.spread(none, 3);
        let a = b.join(&[x, rest]);
        let w = b.join(&[y, none]);
        let c = b.spread(none, 4);
        let op = Op::Matrix(MatrixOp::Mma(MmaAtom::Tf32M16N8K8));
        let c = b.one(op, &[a, w, c], Type::registers(F32, 4));
        let c = b.pick(c, vec![0]);
        store(&mut b, out, lane, c);
        let result = run(b, &[], 128, 0);
        assert_eq!(f32::from_le_bytes(result[..4].try_into().unwrap()), rounded);
    }
}

/// Shared memory filled with the 16-bit numbers 0, 1, ….
fn numbered(b: &mut Builder, count: u32) -> Shared {
    let tile = b.shared("tile", 2 * count, 16);
    let lane = b.position(PositionOp::Lane);
    let steps: Vec<i64> = (0..i64::from(count) / 32).map(|n| 32 * n).collect();
    let moves = b.ints(I32, &steps);
    let at = b.binary(BinaryOp::Add, lane, moves);
    let v = b.cast(at, U16);
    let immediates = vec![0; steps.len()];
    let op = MemoryOp::StoreShared { buffer: tile, width: 1, immediates, masked: false };
    b.push(Op::Memory(op), &[at, v], &[]);
    b.push(Op::Sync(SyncOp::WarpBarrier), &[], &[]);
    tile
}

#[test]
fn matrices_loaded_from_shared_memory() {
    for transposed in [false, true] {
        let mut b = Builder::new("ldmatrix", 1);
        let out = pointer(&mut b, U32, true);
        let tile = numbered(&mut b, 256);
        // Lane l gives row l of 32: four matrices.
        let (lane, eight, four) = (b.position(PositionOp::Lane), b.int(I32, 8), b.int(I32, 4));
        let rows = b.binary(BinaryOp::Mul, lane, eight);
        let op = MatrixOp::LoadMatrix { buffer: tile, matrices: 4, transposed };
        let v = b.one(Op::Matrix(op), &[rows], Type::registers(U32, 4));
        let at = b.binary(BinaryOp::Mul, lane, four);
        let moves = b.ints(I32, &[0, 1, 2, 3]);
        let at = b.binary(BinaryOp::Add, at, moves);
        store(&mut b, out, at, v);
        let result = run(b, &[], 32 * 4 * 4, 2);
        for lane in 0..32 {
            for i in 0..4 {
                let word = |n: usize| u16::from_le_bytes(result[n..n + 2].try_into().unwrap());
                let place = (lane * 4 + i) * 4;
                let (row, column) = (lane / 4, lane % 4 * 2);
                let expected = |c: usize| match transposed {
                    false => i * 64 + row * 8 + c,
                    true => i * 64 + c * 8 + row,
                };
                assert_eq!(usize::from(word(place)), expected(column), "lane {lane}, {i}");
                assert_eq!(usize::from(word(place + 2)), expected(column + 1), "lane {lane}, {i}");
            }
        }
    }
}

/// 16×8 by 8×16 with fragments of 8×8, `b` given transposed; the same whatever the seed.
#[test]
fn products_of_fragments() {
    let (a, w) = (matrix(16, 8), matrix(8, 16));
    let mut expected = product(&a, &w);
    expected.iter_mut().flatten().for_each(|v| *v -= 2);
    for seed in 0..4 {
        let mut b = Builder::new("fragments", 1);
        let (x, y) = (pointer(&mut b, F16, false), pointer(&mut b, F16, false));
        let out = pointer(&mut b, F32, true);
        let (left, right, sums) =
            (b.shared("a", 256, 16), b.shared("b", 256, 16), b.shared("c", 1024, 16));
        let lane = b.position(PositionOp::Lane);
        for (tile, from) in [(left, x), (right, y)] {
            let moves = b.ints(I32, &[0, 32, 64, 96]);
            let at = b.binary(BinaryOp::Add, lane, moves);
            let v = load(&mut b, from, at, 4);
            let op = MemoryOp::StoreShared {
                buffer: tile,
                width: 1,
                immediates: vec![0; 4],
                masked: false,
            };
            b.push(Op::Memory(op), &[at, v], &[]);
        }
        b.barrier();
        let of = |dtype, count| Type::Fragment { dtype, rows: 8, columns: 8, count };
        let zero = b.int(I32, 0);
        let fragment = |buffer, transposed, immediates: &[i64]| {
            let immediates = immediates.to_vec();
            Op::Matrix(MatrixOp::LoadFragment { buffer, stride: 8, transposed, immediates })
        };
        // Rows 0 to 7 and 8 to 15 of `a`; columns of `b` lie as rows.
        let p = b.one(fragment(left, false, &[0, 64]), &[zero], of(F16, 2));
        let q = b.one(fragment(right, true, &[0, 64]), &[zero], of(F16, 2));
        let minus = b.constant(Scalar::f32(-2.0));
        let start = b.one(Op::Matrix(MatrixOp::FillFragment), &[minus], of(F32, 4));
        let op = MatrixOp::MultiplyFragments { m: 2, n: 2, k: 1 };
        let c = b.one(Op::Matrix(op), &[p, q, start], of(F32, 4));
        let op =
            MatrixOp::StoreFragment { buffer: sums, stride: 16, immediates: vec![0, 8, 128, 136] };
        b.push(Op::Matrix(op), &[c, zero], &[]);
        b.barrier();
        let moves: Vec<i64> = (0..8).map(|n| 32 * n).collect();
        let moves = b.ints(I32, &moves);
        let at = b.binary(BinaryOp::Add, lane, moves);
        let op = MemoryOp::LoadShared { buffer: sums, width: 1, immediates: vec![0; 8] };
        let v = b.one(Op::Memory(op), &[at], Type::registers(F32, 8));
        store(&mut b, out, at, v);
        let inputs = [image(&a, F16), image(&transposed(&w), F16)];
        assert_eq!(run(b, &inputs, 1024, seed), image(&expected, F32), "seed {seed}");
    }
}

/// Four warps multiply 64×32 by 32×16; `fence` and `barrier` between writing and multiplying.
fn warpgroup(a_inside: bool, b_inside: bool, fence: bool) -> Builder {
    let mut b = Builder::new("wgmma", 4);
    let (x, y) = (pointer(&mut b, BF16, false), pointer(&mut b, BF16, false));
    let out = pointer(&mut b, F32, true);
    let thread = b.position(PositionOp::Thread);
    // As images of the swizzled operands: 64 rows of 64 elements, or 32; 128 bytes a row.
    let sizes = [(x, if a_inside { 64 } else { 32 }), (y, if b_inside { 16 } else { 32 })];
    let buffers = sizes.map(|(from, rows)| {
        let count: u32 = rows * 64;
        let tile = b.shared("tile", count * 2, 1024);
        let moves: Vec<i64> = (0..i64::from(count) / 128).map(|n| 128 * n).collect();
        let moves = b.ints(I32, &moves);
        let at = b.binary(BinaryOp::Add, thread, moves);
        let groups = count / 128;
        let v = load(&mut b, from, at, groups);
        let immediates = vec![0; groups as usize];
        let op = MemoryOp::StoreShared { buffer: tile, width: 1, immediates, masked: false };
        b.push(Op::Memory(op), &[at, v], &[]);
        tile
    });
    if fence {
        b.push(Op::Sync(SyncOp::AsyncFence), &[], &[]);
    }
    b.barrier();
    let operand = |n: usize, sum_inside| WgmmaOperand {
        buffer: buffers[n],
        outer: sizes[n].1 as u16,
        sum_inside,
    };
    let (left, right) = (operand(0, a_inside), operand(1, b_inside));
    let product = Wgmma {
        dtype: BF16,
        row_blocks: 1,
        columns: 16,
        sum: 32,
        a: left,
        b: right,
        in_flight: false,
    };
    let zero = b.int(I32, 0);
    let start = b.constant(Scalar::f32(1.0));
    let start = b.spread(start, 8);
    let op = Op::Matrix(MatrixOp::Wgmma(product));
    let c = b.one(op, &[zero, zero, start], Type::registers(F32, 8));
    // Row: warp bits 4 and 5, register bit 1 is bit 3, lane / 4. Column: register bit 2 is bit 3, lane % 4 bits 1 and 2.
    let (group, inner) = group(&mut b);
    let (warp, two, sixteen) = (b.position(PositionOp::Warp), b.int(I32, 2), b.int(I32, 16));
    let row = b.binary(BinaryOp::Mul, warp, sixteen);
    let row = b.binary(BinaryOp::Add, row, group);
    let column = b.binary(BinaryOp::Mul, inner, two);
    let moves = [(0, 0), (0, 1), (8, 0), (8, 1), (0, 8), (0, 9), (8, 8), (8, 9)];
    let at = places(&mut b, (row, column), 16, &moves);
    store(&mut b, out, at, c);
    b
}

/// Rows of at most 64 elements, 128 bytes a row, the 16-byte units of each row changed about.
fn swizzled(rows: &[Vec<i64>]) -> Vec<u8> {
    let mut bytes = vec![0; rows.len() * 128];
    for (r, row) in rows.iter().enumerate() {
        for (c, &v) in row.iter().enumerate() {
            let place = r * 128 + ((c / 8) ^ (r % 8)) * 16 + c % 8 * 2;
            let bits = cast(Scalar::i64(v), BF16).bits() as u16;
            bytes[place..place + 2].copy_from_slice(&bits.to_le_bytes());
        }
    }
    bytes
}

#[test]
fn products_of_warpgroups() {
    let (a, w) = (matrix(64, 32), matrix(32, 16));
    let mut expected = product(&a, &w);
    expected.iter_mut().flatten().for_each(|v| *v += 1);
    for (a_inside, b_inside) in [(true, true), (true, false), (false, true), (false, false)] {
        let left = if a_inside { swizzled(&a) } else { swizzled(&transposed(&a)) };
        let right = if b_inside { swizzled(&transposed(&w)) } else { swizzled(&w) };
        let b = warpgroup(a_inside, b_inside, true);
        assert_eq!(run(b, &[left, right], 64 * 16 * 4, 3), image(&expected, F32));
    }
}

#[test]
fn operands_that_no_fence_made_visible() {
    let program = verify(warpgroup(true, true, false).finish(), &crate::support::LIMITS).unwrap();
    let (a, w, mut out) = (vec![0; 64 * 128], vec![0; 16 * 128], vec![0; 64 * 16 * 4]);
    let mut memory = Memory::new();
    let words = [memory.read("a", &a), memory.read("b", &w), memory.write("c", &mut out)];
    let launch = Launch { blocks: 1, words: &words, memory: &mut memory };
    let outcome = sim::run(&program, launch, &Options::default()).unwrap();
    assert_eq!(outcome.findings.len(), 1, "{:?}", outcome.findings);
    assert_eq!(outcome.findings[0].kind, sim::Kind::NotFenced);
}
