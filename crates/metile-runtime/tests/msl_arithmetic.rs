//! The arithmetic of emitted Metal source, run on the CPU under the header of our own, against the language's
//! definition, on edge values.

use metile_compiler::gpu::metal::emit;
use metile_device::*;
use metile_ir::{DType, Scalar, arith};
use metile_runtime::msl_on_cpu::Kernel;

/// What is computed of `a` and `b`.
#[derive(Clone, Copy, Debug)]
enum Step {
    Unary(UnaryOp),
    Binary(BinaryOp),
    Compare(CompareOp),
    Cast(DType),
    Fma,
}

const UNARY: [UnaryOp; 18] = [
    UnaryOp::Neg,
    UnaryOp::Abs,
    UnaryOp::Not,
    UnaryOp::ReverseBits,
    UnaryOp::Exp,
    UnaryOp::Exp2,
    UnaryOp::Log,
    UnaryOp::Log2,
    UnaryOp::Sqrt,
    UnaryOp::Rsqrt,
    UnaryOp::Sin,
    UnaryOp::Cos,
    UnaryOp::Tanh,
    UnaryOp::Sigmoid,
    UnaryOp::Erf,
    UnaryOp::Floor,
    UnaryOp::Ceil,
    UnaryOp::Round,
];
const BINARY: [BinaryOp; 12] = [
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::Mul,
    BinaryOp::Div,
    BinaryOp::Rem,
    BinaryOp::Min,
    BinaryOp::Max,
    BinaryOp::And,
    BinaryOp::Or,
    BinaryOp::Xor,
    BinaryOp::Shl,
    BinaryOp::Shr,
];
const COMPARE: [CompareOp; 6] =
    [CompareOp::Eq, CompareOp::Ne, CompareOp::Lt, CompareOp::Le, CompareOp::Gt, CompareOp::Ge];

impl Step {
    /// The definition's value; `None` if there is none for the dtype.
    fn expected(self, a: Scalar, b: Scalar) -> Option<Scalar> {
        match self {
            Step::Unary(op) => arith::unary(op, a),
            Step::Binary(op) => arith::binary(op, a, b),
            Step::Compare(op) => arith::compare(op, a, b).map(Scalar::bool),
            Step::Cast(to) => Some(arith::cast(a, to)),
            Step::Fma => arith::fma(a, b, b),
        }
    }
    fn all() -> Vec<Step> {
        let mut all: Vec<Step> = UNARY.map(Step::Unary).to_vec();
        all.extend(BINARY.map(Step::Binary));
        all.extend(COMPARE.map(Step::Compare));
        all.extend(DType::ALL.map(Step::Cast));
        all.push(Step::Fma);
        all
    }
    fn build(self, p: &mut Builder, a: Value, b: Value) -> Value {
        match self {
            Step::Unary(op) => p.unary(op, a),
            Step::Binary(op) => p.binary(op, a, b),
            Step::Compare(op) => p.compare(op, a, b),
            Step::Cast(to) => p.cast(a, to),
            Step::Fma => p.fma(a, b, b),
        }
    }
    /// Units of the last place that a result may be off.
    fn slack(self) -> i64 {
        match self {
            Step::Unary(
                UnaryOp::Neg
                | UnaryOp::Abs
                | UnaryOp::Sqrt
                | UnaryOp::Floor
                | UnaryOp::Ceil
                | UnaryOp::Round,
            ) => 0,
            Step::Unary(_) => 3,
            _ => 0,
        }
    }
}

/// The bits of a value, as `u64`.
fn bits(p: &mut Builder, value: Value) -> Value {
    let dtype = p.program.dtype(value).expect("registers");
    let unsigned = match (dtype, dtype.bytes()) {
        (DType::Bool, _) => return p.cast(value, DType::U64),
        (_, 1) => DType::U8,
        (_, 2) => DType::U16,
        (_, 4) => DType::U32,
        _ => DType::U64,
    };
    let bits = p.bitcast(value, unsigned);
    p.cast(bits, DType::U64)
}

/// `out[step][i] = step(a[i], b[i])`, `count` at a time to a thread: 1, or more for the form with loops.
fn program(dtype: DType, steps: &[Step], pairs: i64, count: i64) -> Program {
    let mut p = Builder::new(format!("arithmetic_{dtype}_{count}"), 1);
    let pointer =
        |parameter, dtype, writable| Word::Pointer { parameter, array: 0, dtype, writable };
    p.program.words =
        vec![pointer(0, dtype, false), pointer(1, dtype, false), pointer(2, DType::U64, true)];
    let [a, b, out] = [0, 1, 2].map(|n| p.position(PositionOp::Word(n)));
    let block = p.position(PositionOp::Block);
    let threads = p.int(DType::I64, 32 * count);
    let thread = p.position(PositionOp::Thread);
    let thread = p.cast(thread, DType::I64);
    let each = p.int(DType::I64, count);
    let first = p.binary(BinaryOp::Mul, block, threads);
    let own = p.binary(BinaryOp::Mul, thread, each);
    let first = p.binary(BinaryOp::Add, first, own);
    let steps_in = p.ints(DType::I64, &(0..count).collect::<Vec<_>>());
    let at = p.binary(BinaryOp::Add, first, steps_in);
    let end = p.int(DType::I64, pairs);
    let mask = p.compare(CompareOp::Lt, at, end);
    let fill = p.constant(Scalar::zero(dtype));
    let immediates = vec![0; count as usize];
    let load =
        MemoryOp::Load { width: 1, immediates: immediates.clone(), masked: true, constant: true };
    let ty = Type::registers(dtype, count as u32);
    let a = p.one(Op::Memory(load.clone()), &[a, at, mask, fill], ty);
    let b = p.one(Op::Memory(load), &[b, at, mask, fill], ty);
    for (n, step) in steps.iter().enumerate() {
        let value = step.build(&mut p, a, b);
        let value = bits(&mut p, value);
        let skip = p.int(DType::I64, n as i64 * pairs);
        let at = p.binary(BinaryOp::Add, at, skip);
        let store = MemoryOp::Store { width: 1, immediates: immediates.clone(), masked: true };
        p.push(Op::Memory(store), &[out, at, mask, value], &[]);
    }
    p.finish()
}

/// Whether two floats are within `slack` units of the last place of each other; any NaN is like any other.
fn near(got: u64, want: Scalar, slack: i64) -> bool {
    if want.bits() == got {
        return true;
    }
    let got = Scalar::from_bits(want.dtype(), got);
    match (got.as_f32(), want.as_f32()) {
        (Some(g), Some(w)) if g.is_nan() || w.is_nan() => g.is_nan() && w.is_nan(),
        (Some(g), Some(w)) => {
            let order = |x: f32| {
                let bits = i64::from(x.to_bits() as i32);
                if bits < 0 { i64::from(i32::MIN) - bits } else { bits }
            };
            slack > 0 && (order(g) - order(w)).abs() <= slack
        }
        _ => false,
    }
}

fn check(dtype: DType, count: i64) {
    let values = edges(dtype);
    let pairs: Vec<(Scalar, Scalar)> =
        values.iter().flat_map(|&a| values.iter().map(move |&b| (a, b))).collect();
    let steps: Vec<Step> =
        Step::all().into_iter().filter(|s| s.expected(values[0], values[0]).is_some()).collect();
    let program = program(dtype, &steps, pairs.len() as i64, count);
    let limits = Limits { shared_bytes: 32 << 10, threads: 1024 };
    let program = verify(program, &limits).expect("verified");
    let kernel = Kernel::new(emit(&program).expect("is emitted")).expect("compiles");
    let memory = |side: fn(&(Scalar, Scalar)) -> Scalar| -> Vec<u8> {
        let bytes = |pair| side(pair).bits().to_le_bytes()[..dtype.bytes()].to_vec();
        pairs.iter().flat_map(bytes).collect()
    };
    let (a, b) = (memory(|p| p.0), memory(|p| p.1));
    let mut out = vec![0u64; steps.len() * pairs.len()];
    let words = [
        a.as_ptr().expose_provenance() as u64,
        b.as_ptr().expose_provenance() as u64,
        out.as_mut_ptr().expose_provenance() as u64,
    ];
    let blocks = (pairs.len() as u64).div_ceil(32 * count as u64);
    // SAFETY: the three vectors are as long as the kernel's masks say.
    unsafe { kernel.launch(&words, blocks, 7) }.expect("runs");
    let mut wrong = Vec::new();
    for (step, results) in steps.iter().zip(out.chunks(pairs.len())) {
        for (&(a, b), &got) in pairs.iter().zip(results) {
            let want = step.expected(a, b).expect("defined");
            if !near(got, want, step.slack()) {
                let got = Scalar::from_bits(want.dtype(), got);
                wrong.push(format!("{step:?} of {a}, {b}: {got} instead of {want}"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(20)].join("\n")
    );
}

/// Values of `dtype` at which arithmetic goes wrong first.
fn edges(dtype: DType) -> Vec<Scalar> {
    if dtype == DType::Bool {
        return vec![Scalar::bool(false), Scalar::bool(true)];
    }
    if dtype.is_float() {
        let floats = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            -0.5,
            1.5,
            2.5,
            -2.5,
            3.0,
            1e-3,
            0.9,
            0.921875,
            4.1,
            -3.9,
            7.25,
            88.5,
            -88.0,
            -100.0,
            104.0,
            127.5,
            128.0,
            -128.9,
            255.9,
            256.0,
            32767.5,
            32768.0,
            65504.0,
            65520.0,
            65536.0,
            -65536.0,
            1e5,
            8388607.5,
            16777217.0,
            2147483500.0,
            2147483648.0,
            -2147483648.0,
            -2147483900.0,
            4294967296.0,
            9.2e18,
            9.223372e18,
            -9.223372e18,
            -9.3e18,
            1.8446744e19,
            1e20,
            -1e30,
            f32::MAX,
            f32::MIN,
            f32::MIN_POSITIVE,
            1e-40,
            -1e-45,
            5.96e-8,
            2.98e-8,
            1.0009766,
            1.0004883,
            1.003_906_3,
            1.0117188,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::NAN,
        ];
        return floats.map(|v| arith::cast(Scalar::f32(v), dtype)).to_vec();
    }
    let width = i128::from(dtype.bits());
    let top = 1i128 << (width - 1);
    let all = [
        0,
        1,
        -1,
        2,
        -2,
        3,
        -3,
        5,
        7,
        10,
        -10,
        100,
        width - 1,
        width,
        width + 1,
        -width,
        top - 1,
        top,
        top + 1,
        2 * top - 1,
        top / 2,
        -top / 2,
        0x5a5a_5a5a_5a5a_5a5a,
        0x0123_4567_89ab_cdef,
        16_777_217,
        33_554_435,
    ];
    let mut all: Vec<Scalar> = all.iter().map(|&v| Scalar::int(dtype, v)).collect();
    all.sort();
    all.dedup();
    all
}

macro_rules! dtypes {
    ($($name:ident $dtype:ident;)*) => {$(
        #[test]
        fn $name() {
            check(DType::$dtype, 1);
            check(DType::$dtype, 3);
        }
    )*};
}
dtypes! {
    bool_arithmetic Bool;
    i8_arithmetic I8;
    u8_arithmetic U8;
    i16_arithmetic I16;
    u16_arithmetic U16;
    i32_arithmetic I32;
    u32_arithmetic U32;
    i64_arithmetic I64;
    u64_arithmetic U64;
    f16_arithmetic F16;
    bf16_arithmetic BF16;
    f32_arithmetic F32;
}
