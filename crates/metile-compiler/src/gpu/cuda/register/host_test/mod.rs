//! The prelude's arithmetic, compiled by the host's C++ compiler, against the language's.

use super::super::literal::{c_type, literal};
use super::super::prelude::{ARITHMETIC, TYPES};
use super::expression::{binary, bitcast, cast, compare, unary};
use metile_ir::arith;
use metile_ir::dtype::DType;
use metile_ir::scalar::Scalar;
use metile_ir::tile::{BinaryOp, CompareOp, UnaryOp};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

const BUILTINS: &str = include_str!("builtins.h");

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

/// Values at the edges of `dtype`.
fn edges(dtype: DType) -> Vec<Scalar> {
    let bits: Vec<u64> = match dtype {
        DType::Bool => vec![0, 1],
        DType::F16 => [0, 1, 0x3ff, 0x400, 0x3555, 0x3c00, 0x4248, 0x7bff, 0x7c00, 0x7e00]
            .into_iter()
            .flat_map(|b| [b, b | 0x8000])
            .collect(),
        DType::BF16 => [0, 1, 0x7f, 0x80, 0x3eab, 0x3f80, 0x4f00, 0x5f00, 0x7f7f, 0x7f80, 0x7fc0]
            .into_iter()
            .flat_map(|b| [b, b | 0x8000])
            .collect(),
        DType::F32 => {
            let values = [
                0.0,
                1e-45,
                1.1e-38,
                1.2e-38,
                2.98e-8,
                5.9e-8,
                6.1e-5,
                6.3e-5,
                0.3,
                0.5,
                1.0,
                1.5,
                2.5,
                3.7,
                127.5,
                128.0,
                255.6,
                2047.5,
                65504.0,
                65519.9,
                65520.0,
                87.0,
                88.9,
                103.0,
                16_777_217.0,
                2_147_483_520.0,
                2_147_483_648.0,
                4_294_967_296.0,
                9.223_372e18,
                1.844_674_4e19,
                3.4e38,
                3.39e38,
                f32::INFINITY,
                f32::NAN,
            ];
            values.into_iter().flat_map(|v: f32| [v, -v]).map(|v| u64::from(v.to_bits())).collect()
        }
        _ => {
            let width = dtype.bits();
            let top = 1u64 << (width - 1);
            let near = [0, 1, 2, 3, 5, 7, 8, 15, 16, 31, 32, 63, 64, 100];
            let mut all: Vec<u64> =
                near.iter().flat_map(|&v: &u64| [v, v.wrapping_neg()]).collect();
            all.extend([
                top,
                top - 1,
                top + 1,
                top / 3,
                0x5555_5555_5555_5555,
                0x0123_4567_89ab_cdef,
            ]);
            all
        }
    };
    let mut all: Vec<Scalar> = bits.into_iter().map(|b| Scalar::from_bits(dtype, b)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// What may differ from the language's value by some units in the last place: the C library's functions.
fn tolerance(op: UnaryOp) -> u64 {
    match op {
        UnaryOp::Exp | UnaryOp::Exp2 | UnaryOp::Log | UnaryOp::Log2 | UnaryOp::Rsqrt => 2,
        UnaryOp::Sin | UnaryOp::Cos | UnaryOp::Erf => 2,
        UnaryOp::Tanh | UnaryOp::Sigmoid => 4,
        _ => 0,
    }
}

/// Expressions over tables of values, and what each should give, with its tolerance.
#[derive(Default)]
struct Cases {
    functions: String,
    calls: String,
    want: Vec<(String, Scalar, u64)>,
}

impl Cases {
    /// A loop that shows `expression` as a `result` for every `a` (and every `b`, where it is one of two values) of `dtype`.
    fn add(
        &mut self,
        dtype: DType,
        expression: &str,
        two: bool,
        tolerance: u64,
        want: impl Fn(Scalar, Scalar) -> Option<Scalar>,
    ) {
        let values = edges(dtype);
        let others = if two { &values[..] } else { &values[..1] };
        let pairs = values.iter().flat_map(|&a| others.iter().map(move |&b| (a, b)));
        let wanted: Option<Vec<_>> = pairs
            .map(|(a, b)| {
                Some((format!("{expression} of {dtype} {a}, {b}"), want(a, b)?, tolerance))
            })
            .collect();
        let Some(wanted) = wanted else { return };
        let (ty, result) = (c_type(dtype), c_type(wanted[0].1.dtype()));
        let n = self.calls.lines().count();
        let inner = if two { format!("for ({ty} b : values_{dtype})") } else { String::new() };
        // The type of the variable is what the emitter declares.
        write!(
            self.functions,
            "static void part{n}() {{\n    for ({ty} a : values_{dtype}) {inner} {{\n        \
             {result} x = {expression};\n        show(bits_of(x));\n    }}\n}}\n"
        )
        .expect("a string");
        writeln!(self.calls, "    part{n}();").expect("a string");
        self.want.extend(wanted);
    }
}

fn cases() -> Cases {
    let mut cases = Cases::default();
    for dtype in DType::ALL {
        let list: Vec<String> = edges(dtype).into_iter().map(literal).collect();
        writeln!(
            cases.functions,
            "static const {} values_{dtype}[] = {{{}}};",
            c_type(dtype),
            list.join(", ")
        )
        .expect("a string");
        for op in UNARY {
            let text = unary(op, dtype, "a");
            cases.add(dtype, &text, false, tolerance(op), |a, _| arith::unary(op, a));
        }
        for to in DType::ALL {
            cases.add(dtype, &cast(dtype, to, "a"), false, 0, |a, _| Some(arith::cast(a, to)));
            cases.add(dtype, &bitcast(dtype, to, "a"), false, 0, |a, _| arith::bitcast(a, to));
        }
        for op in BINARY {
            let text = binary(op, dtype, "a", "b");
            cases.add(dtype, &text, true, 0, |a, b| arith::binary(op, a, b));
        }
        for op in COMPARE {
            let text = format!("a {} b", compare(op));
            cases.add(dtype, &text, true, 0, |a, b| arith::compare(op, a, b).map(Scalar::bool));
        }
    }
    cases
}

/// Compiles and runs a program; what it prints.
fn run(source: &str) -> String {
    let folder =
        std::env::temp_dir().join(format!("metile-cuda-arithmetic-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for temporary files");
    let (file, program) = (folder.join("arithmetic.cpp"), folder.join("arithmetic"));
    std::fs::write(&file, source).expect("a source file");
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let output = |command: &mut Command| {
        let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    let options = ["-std=c++17", "-O0", "-ffp-contract=off", "-Wno-narrowing", "-w", "-o"];
    output(Command::new(compiler).args(options).args([&program, &file]));
    let printed = output(&mut Command::new(Path::new(&program)));
    std::fs::remove_dir_all(&folder).expect("a folder to remove");
    printed
}

fn distance(a: Scalar, b: Scalar) -> u64 {
    match (a.as_f32(), b.as_f32()) {
        (Some(x), Some(y)) if x.is_nan() && y.is_nan() => 0,
        (Some(x), Some(y)) if a.dtype() == DType::F32 => {
            let place = |v: f32| {
                let magnitude = i64::from(v.to_bits() & 0x7fff_ffff);
                if v.is_sign_negative() { -magnitude } else { magnitude }
            };
            let apart = place(x).abs_diff(place(y));
            // Zeros have signs.
            if apart == 0 && x.to_bits() != y.to_bits() { 1 } else { apart }
        }
        _ if a == b => 0,
        _ => u64::MAX,
    }
}

#[test]
fn the_prelude_computes_what_the_language_means() {
    let cases = cases();
    let source = format!(
        "{TYPES}\n{BUILTINS}\n{ARITHMETIC}\nstatic void show(u64 bits) {{ printf(\"%llx\\n\", bits); }}\n{}int main() {{\n{}}}\n",
        cases.functions, cases.calls
    );
    let printed = run(&source);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), cases.want.len());
    let mut wrong = Vec::new();
    for (line, (expression, want, tolerance)) in lines.iter().zip(&cases.want) {
        let bits = u64::from_str_radix(line, 16).expect("a hexadecimal number");
        let got = Scalar::from_bits(want.dtype(), bits);
        if distance(got, *want) > *tolerance {
            wrong.push(format!("{expression} is {got}, not {want}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        lines.len(),
        wrong[..wrong.len().min(60)].join("\n")
    );
}
